/* added.h - tokens that are found in the text as they stand, before anything else looks at it. */
#ifndef TOKENIZER_ADDED_H
#define TOKENIZER_ADDED_H

#include "base/str.h"
#include "tokenizer/trie.h"

typedef struct added_token {
    int32_t id;
    bool single_word; /* not where a word goes on before or behind it */
    bool lstrip;      /* takes the white space before it */
    bool rstrip;      /* takes the white space behind it */
} added_token;

typedef struct added {
    const weft_allocator *allocator; /* borrowed */
    added_token *tokens;             /* [capacity] */
    uint32_t n_tokens;
    uint32_t capacity;
    trie trie;        /* text -> index in tokens */
    bool starts[256]; /* bytes that a token starts with */
} added;

weft_status added_init(added *a, const weft_allocator *allocator, weft_error *err);
void added_deinit(added *a);

/* A text that is there already keeps its first token. Empty texts are left out, and those that are
 * not UTF-8: they would be found inside a character. LIMIT when too long. */
weft_status added_put(added *a, str text, added_token token, weft_error *err);

/* id -1: text between tokens, never empty. */
typedef weft_status added_piece(void *user, str text, int32_t id, weft_error *err);

/* Parts of a text in which no token is looked for. */
typedef struct added_closed {
    const char *base;      /* what the spans count from */
    const str_span *spans; /* [n], ascending and disjoint */
    size_t n;
} added_closed;

/* Bytes at the start of part, which lies in the text of closed, before the first closed one. */
size_t added_open_bytes(added_closed closed, str part);

/* Leftmost, then longest; a token does not reach into a closed part. text is valid UTF-8. */
weft_status added_split(const added *a, str text, added_closed closed, added_piece *piece,
                        void *user, weft_error *err);

#endif
