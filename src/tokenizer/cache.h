/* cache.h - the finished tables of a tokenizer.json in a file of their own: reading them takes a
 * twentieth of the time. A file is what it is for one text at one path; anything else about it
 * that is not as expected makes it no file at all, and the text is read as always.
 *
 * What is not a long table (the stages, the flags of the model) stays JSON in it, and is read by
 * the readers of tokenizer.json. Whoever changes what a finished tokenizer holds, or how that
 * follows from the text, counts CACHE_VERSION up. */
#ifndef TOKENIZER_CACHE_H
#define TOKENIZER_CACHE_H

#include "base/hash.h"
#include "tokenizer/pipeline.h"

enum { CACHE_VERSION = 1, CACHE_PATH_BYTES = 4096 };

/* The text that a file belongs to: its length and hash, which the path goes into. Hashes of this
 * kind can be made to collide; with the path, only those of texts that lay at one place can. */
typedef struct cache_key {
    uint64_t n_bytes;
    hash128 hash;
} cache_key;

typedef struct cache_place {
    cache_key key;
    char path[CACHE_PATH_BYTES];
} cache_place;

/* false: the path is too long. source: of a tokenizer.json, text of it. */
bool cache_place_of(const tokenizer_cache *settings, const char *source, str text,
                    cache_place *place);

/* The tokenizer of the tokenizer.json at this path, if its file is there and whole. */
bool cache_find(const env *world, const tokenizer_cache *settings, const char *source,
                tokenizer **t);

/* A failure is a line in the log. text is what cut was made of and t read from. */
void cache_save(const env *world, const cache_place *place, const tokenizer *t, const json_cut *cut,
                str text);

/* ---- the bytes of a file ---- */

/* OK takes the map over; it lasts as long as the tokenizer. */
weft_status cache_load(const env *world, io_map *file, const cache_key *key, tokenizer **t,
                       weft_error *err);

/* *data is in *n_bytes of the allocator. LIMIT: offsets do not count that far. */
weft_status cache_build(const weft_allocator *allocator, const cache_key *key, const tokenizer *t,
                        const json_cut *cut, str text, unsigned char **data, size_t *n_bytes,
                        weft_error *err);

/* ---- for the readers of tokenizer.json, in the place of the lists ---- */

/* The vocabulary and the tables of the model, made for this kind; FORMAT when they are not. */
weft_status cache_restore_model(const cache_tables *c, tokenizer *t, model_kind kind,
                                weft_error *err);

/* The added tokens, and that the tokenizer is finished but for what is quick. */
weft_status cache_restore_added(const cache_tables *c, tokenizer *t, weft_error *err);

int32_t cache_unknown(const cache_tables *c);

/* ---- the form of a file ---- */

/* The sections, each at the next multiple of CACHE_ALIGN behind the one before. */
typedef enum cache_section {
    CACHE_REST,   /* the JSON without its three lists */
    CACHE_TEXTS,  /* spellings by id, one behind the other */
    CACHE_BYTES,  /* what tokens stand for where it is not their spelling, in the same way */
    CACHE_TOKENS, /* cache_token by id */
    CACHE_SLOTS,  /* vocab_slot */
    CACHE_PAIRS,  /* pairs_slot: merges, or the trie of the model */
    CACHE_JOINED, /* of a BPE */
    CACHE_SCORES, /* of a Unigram: double */
    CACHE_ADDED,  /* cache_added */
    CACHE_ADDED_TRIE,
    CACHE_NORMALIZED, /* as the two before */
    CACHE_NORMALIZED_TRIE,
    CACHE_SECTIONS
} cache_section;

enum { CACHE_ALIGN = 64, CACHE_APART = 1 << 16 /* in flags: has bytes of its own */ };

typedef struct cache_token {
    uint32_t text_len;
    uint32_t bytes_len;
    uint32_t flags;
} cache_token;

enum { CACHE_SINGLE_WORD = 1, CACHE_LSTRIP = 2, CACHE_RSTRIP = 4 };

typedef struct cache_added {
    int32_t id;
    uint32_t flags;
} cache_added;

typedef struct cache_head {
    char magic[8];
    uint64_t checksum; /* xxHash64 of all that follows */
    uint32_t version;
    uint32_t order;   /* CACHE_ORDER, as this machine writes it */
    uint64_t layout;  /* sizes of what is used as it stands in the file */
    uint32_t library; /* the version of weft */
    uint32_t kind;    /* model_kind */
    cache_key key;
    uint64_t sizes[CACHE_SECTIONS]; /* bytes */
    uint64_t seed;                  /* of the vocabulary's slots */
    double lowest;                  /* score */
    uint32_t n_listed;              /* tokens in the model's own list */
    int32_t unknown;
    uint32_t parts;
    uint32_t n_nodes[3]; /* of the model's trie and the two of added tokens */
} cache_head;

/* All that does not depend on the tables; the rest is zero. */
void cache_head_fill(cache_head *head, const cache_key *key);

/* Of a whole file of at least a head. */
uint64_t cache_checksum(const unsigned char *data, size_t n_bytes);

#endif
