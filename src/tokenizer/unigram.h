/* unigram.h - the likeliest way to cut a word into tokens, by the scores of the tokens. */
#ifndef TOKENIZER_UNIGRAM_H
#define TOKENIZER_UNIGRAM_H

#include "tokenizer/token_list.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

typedef struct unigram {
    const weft_allocator *allocator; /* borrowed */
    const vocab *vocab;              /* borrowed */
    trie trie;                       /* spelling -> id */
    double *scores;                  /* [capacity], by id; NaN: not found in texts */
    size_t capacity;
    double lowest;
    bool restored;      /* the trie and the scores came as they are when finished */
    bool single;        /* sums are rounded to floats */
    bool byte_fallback; /* what is unknown becomes its bytes */
    int32_t fallback_ids[256];
    int32_t unknown; /* -1: what is unknown is dropped */
} unigram;

/* capacity: above all ids. */
weft_status unigram_init(unigram *u, const weft_allocator *allocator, const vocab *v,
                         size_t capacity, weft_error *err);
void unigram_deinit(unigram *u);

/* The score of a token of the vocabulary. */
void unigram_put(unigram *u, int32_t id, double score);

/* Before encoding, when the vocabulary is complete: takes the model's tokens but special ones.
 * LIMIT when one is longer than a trie takes. */
weft_status unigram_finish(unigram *u, weft_error *err);

typedef struct unigram_node unigram_node;

typedef struct unigram_scratch {
    const weft_allocator *allocator; /* borrowed */
    unigram_node *nodes;             /* [n_nodes] */
    size_t n_nodes;
} unigram_scratch;

/* Appends the ids of one word (not empty, valid UTF-8). Time is linear. */
weft_status unigram_encode(const unigram *u, unigram_scratch *s, str word, token_list *out,
                           weft_error *err);
void unigram_scratch_deinit(unigram_scratch *s);

#endif
