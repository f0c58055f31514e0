/* bpe.h - byte pair encoding: the pair with the lowest rank is merged first, the leftmost of
 * equals. */
#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H

#include "tokenizer/pairs.h"
#include "tokenizer/token_list.h"
#include "tokenizer/vocab.h"

typedef struct bpe {
    const weft_allocator *allocator; /* borrowed */
    const vocab *vocab;              /* borrowed */
    pairs merges;                    /* ids of a pair -> id of the result, rank */
    int32_t byte_ids[256];           /* -1: the vocabulary has no token for it */
    bool bytes;                      /* symbols are bytes, spelled in the byte-level alphabet */
    bool whole_words;                /* a word in the vocabulary is taken without merging */
    bool fuse_unknown;
    int32_t unknown; /* -1: symbols that the vocabulary lacks are dropped */
} bpe;

weft_status bpe_init(bpe *b, const weft_allocator *allocator, const vocab *v, size_t n_merges,
                     weft_error *err);
void bpe_deinit(bpe *b);

/* In order of rank; a pair met again gets the later rank. FORMAT when the vocabulary lacks a
 * part or the whole. */
weft_status bpe_merge(bpe *b, str left, str right, uint32_t rank, weft_error *err);

/* Before encoding, when the vocabulary is complete. */
void bpe_finish(bpe *b, bool bytes);

typedef struct bpe_symbol bpe_symbol;
typedef struct bpe_known bpe_known;

/* What a thread needs while it encodes. */
typedef struct bpe_scratch {
    const weft_allocator *allocator; /* borrowed */
    bpe_known *known;                /* [n_known] words seen lately; a power of two, or 0 */
    size_t n_known;
    bpe_symbol *symbols; /* [n_symbols] */
    uint64_t *heap;      /* [n_symbols * 2] */
    size_t n_symbols;
    strbuf spelled;
} bpe_scratch;

/* text_bytes: of all that will be encoded. */
weft_status bpe_scratch_init(bpe_scratch *s, const weft_allocator *allocator, size_t text_bytes,
                             weft_error *err);
void bpe_scratch_deinit(bpe_scratch *s);

/* Appends the ids of one word (not empty, valid UTF-8). Time is n log n at most. */
weft_status bpe_encode(const bpe *b, bpe_scratch *s, str word, token_list *out, weft_error *err);

#endif
