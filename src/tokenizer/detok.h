/* detok.h - a stream of ids becomes text; only whole UTF-8 leaves it. */
#ifndef TOKENIZER_DETOK_H
#define TOKENIZER_DETOK_H

#include "tokenizer/tokenizer.h"

typedef struct detok {
    const tokenizer *tokenizer; /* borrowed */
    bool specials;
    const int32_t *shown; /* [n_shown], borrowed: special tokens that appear all the same */
    uint32_t n_shown;
    bool started;    /* a token was shown or is pending */
    int32_t last;    /* its id */
    uint32_t n_left; /* characters that may still be taken from the start of the text */
    strbuf pending;  /* bytes not yet shown: little between calls */
    strbuf held;     /* the end of a token that reads otherwise if it is the last */
    strbuf text;     /* what the last call gave */
} detok;

/* Allocates on the first push only. */
void detok_init(detok *d, const tokenizer *t, const weft_allocator *allocator, bool specials);
void detok_deinit(detok *d);

/* Before the first push: the stream goes on behind other text, so its first token is not decoded
 * as the first of a text, which may lose a space. */
void detok_follow(detok *d);

/* Memory for tokens of up to n_bytes, so that a push takes none; false when it is refused. (What
 * ends in a suffix, and a first token that is decoded as such, take some all the same.) */
bool detok_reserve(detok *d, size_t n_bytes);

/* *text is borrowed until the next call; it may be empty. NOMEM leaves the state as it was.
 * Concatenated over a stream, with the flush, the texts equal the decoding of the whole. */
weft_status detok_push(detok *d, int32_t id, str *text, weft_error *err);

/* What is held back, incomplete characters as U+FFFD. Ends the stream. */
weft_status detok_flush(detok *d, str *text, weft_error *err);

#endif
