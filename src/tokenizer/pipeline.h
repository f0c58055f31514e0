/* pipeline.h - what a tokenizer is made of, and who makes it. */
#ifndef TOKENIZER_PIPELINE_H
#define TOKENIZER_PIPELINE_H

#include "tokenizer/added.h"
#include "tokenizer/decoder.h"
#include "tokenizer/json_cut.h"
#include "tokenizer/model.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pretoken.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab.h"

enum { PIPELINE_AROUND = 8 }; /* most ids that the post-processor adds in all */

/* Ids around a text. */
typedef struct around {
    int32_t before[PIPELINE_AROUND];
    int32_t after[PIPELINE_AROUND];
    uint32_t n_before;
    uint32_t n_after;
} around;

struct tokenizer {
    const weft_allocator *allocator; /* borrowed */
    vocab vocab;
    added added;            /* found in the text as it is */
    added added_normalized; /* found in the normalized text */
    normalizer normalizer;
    pretoken pretoken;
    model model;
    around around;
    decoder decoder;
    int32_t bos; /* -1: none */
    int32_t eos;
    bool restored;   /* the vocabulary came with what its tokens stand for */
    const io *files; /* borrowed; of the map */
    io_map map;      /* what tables are borrowed from */
};

/* An empty tokenizer; to be destroyed also when this fails. */
weft_status pipeline_create(const weft_allocator *allocator, tokenizer **out, weft_error *err);

/* Room for what the file lists. */
weft_status pipeline_reserve(tokenizer *t, model_kind kind, size_t n_tokens, size_t n_merges,
                             weft_error *err);

/* The vocabulary and all stages are complete. */
weft_status pipeline_finish(tokenizer *t, weft_error *err);

/* What the token of a known id stands for. *bytes is borrowed from the vocabulary or lies in the
 * scratch. */
weft_status pipeline_token(const tokenizer *t, decoder_scratch *scratch, int32_t id, bool first,
                           str *bytes, weft_error *err);

/* Fill an empty tokenizer; root is what cut left of the file. */
weft_status load_json(tokenizer *t, const json *root, const json_cut *cut, weft_error *err);
weft_status load_json_config(tokenizer *t, const json *root, weft_error *err);
weft_status load_gguf(tokenizer *t, const weights *w, weft_error *err);

/* Whether the metadata has a vocabulary at all. */
bool load_gguf_present(const weights *w);

#endif
