/* place.h - where models of a hub lie on this machine, and what MODEL means on a command line. */
#ifndef CLI_PLACE_H
#define CLI_PLACE_H

#include "hub/pull.h"

/* What the environment says of Hugging Face's tools: HF_HUB_CACHE, HF_HOME, HF_ENDPOINT, HF_TOKEN,
 * HF_TOKEN_PATH, HF_HUB_OFFLINE. */
typedef struct place {
    char root[IO_PATH_BYTES]; /* of the cache */
    char endpoint[256];
    char token[HUB_TOKEN_BYTES_MOST + 2]; /* "": none */
    bool offline;
    env world;
} place;

/* ARGUMENT with a sentence when there is no folder for a cache, or a value is too long. */
weft_status place_read(place *p, weft_error *err);

/* Borrows from p. */
hub_cache place_cache(const place *p);

/* Fills path [IO_PATH_BYTES] with the file or folder that MODEL names: what is there of that name,
 * else the model ORG/NAME[@REV][:QUANT] of the cache. What is neither stays as it is where it
 * cannot be the name of a model on a hub, else IO with a sentence. */
weft_status place_find_model(const char *given, char *path, weft_error *err);

#endif
