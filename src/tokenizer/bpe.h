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
    int32_t byte_ids[256]; /* of the bytes, or of ASCII characters; -1: the vocabulary lacks it */
    int32_t fallback_ids[256]; /* of "<0x00>" to "<0xFF>"; -1: as above */
    bool bytes;                /* symbols are bytes, spelled in the byte-level alphabet */
    bool byte_fallback;        /* a character that the vocabulary lacks becomes its bytes */
    bool whole_words;          /* a word in the vocabulary is taken without merging */
    bool fuse_unknown;
    bool restored;           /* merges and the table below came as they are when finished */
    bool parts;              /* a word may be cut by that table */
    int32_t unknown;         /* -1: symbols that the vocabulary lacks are dropped */
    str prefix;              /* before each character of a word but the first; borrowed */
    str suffix;              /* behind the last character of a word; borrowed */
    uint64_t joined[256][4]; /* bits: a byte, and one behind it, where characters in a merge meet */
} bpe;

enum {
    BPE_PART_BYTES = 512,     /* longest token that bpe_merge_parts takes */
    BPE_PART_PAIRS = 1 << 25, /* most pairs that it finds in all */
};

weft_status bpe_init(bpe *b, const weft_allocator *allocator, const vocab *v, size_t n_merges,
                     weft_error *err);
void bpe_deinit(bpe *b);

/* In order of rank; a pair met again gets the later rank. FORMAT when the vocabulary lacks a
 * part or the whole. */
weft_status bpe_merge(bpe *b, str left, str right, uint32_t rank, weft_error *err);

/* Any two tokens of the model that spell this one when put together may be merged to it. LIMIT
 * when it is too long. */
weft_status bpe_merge_parts(bpe *b, int32_t id, uint32_t rank, weft_error *err);

/* Before encoding, when the vocabulary and the fields above are complete. */
void bpe_finish(bpe *b, bool bytes);

typedef struct bpe_symbol bpe_symbol;

/* What a thread needs while it encodes. */
typedef struct bpe_scratch {
    const weft_allocator *allocator; /* borrowed */
    token_list ids;                  /* the symbols of a word */
    bpe_symbol *symbols;             /* [n_symbols] */
    uint64_t *heap;                  /* [n_symbols * 2] */
    size_t n_symbols;
    strbuf word;    /* in the byte-level alphabet */
    strbuf spelled; /* a character with its affixes */
} bpe_scratch;

/* Allocates nothing. */
void bpe_scratch_init(bpe_scratch *s, const weft_allocator *allocator);
void bpe_scratch_deinit(bpe_scratch *s);

/* Appends the ids of one word (not empty, valid UTF-8). Time is n log n at most. */
weft_status bpe_encode(const bpe *b, bpe_scratch *s, str word, token_list *out, weft_error *err);

/* How many bytes from the start of a word can be encoded apart from the rest; 1 at least. */
size_t bpe_part(const bpe *b, str word);

#endif
