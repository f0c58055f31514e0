/* wordpiece.h - the longest token first, then the longest of those that go on with a word. */
#ifndef TOKENIZER_WORDPIECE_H
#define TOKENIZER_WORDPIECE_H

#include "tokenizer/token_list.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

typedef struct wordpiece {
    trie trie;          /* spelling -> id */
    str prefix;         /* of tokens that go on with a word; borrowed */
    uint32_t follow;    /* the node of the trie behind the prefix */
    bool follows;       /* there is one */
    bool restored;      /* the trie came as it is when finished */
    uint64_t max_chars; /* of a word; a longer one is unknown */
    int32_t unknown;    /* -1: words that cannot be spelled are dropped */
} wordpiece;

weft_status wordpiece_init(wordpiece *w, const weft_allocator *allocator, weft_error *err);
void wordpiece_deinit(wordpiece *w);

/* Takes the model's tokens but special ones. Set prefix before. LIMIT when one is longer than a
 * trie takes. */
weft_status wordpiece_fill(wordpiece *w, const vocab *v, weft_error *err);

/* Appends the ids of one word (not empty, valid UTF-8). Time is linear. */
weft_status wordpiece_encode(const wordpiece *w, str word, token_list *out, weft_error *err);

#endif
