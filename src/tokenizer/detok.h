/* detok.h - a stream of ids becomes text; only whole UTF-8 leaves it. */
#ifndef TOKENIZER_DETOK_H
#define TOKENIZER_DETOK_H

#include "tokenizer/tokenizer.h"

typedef struct detok {
    const tokenizer *tokenizer; /* borrowed */
    bool specials;
    strbuf pending; /* bytes not yet shown: at most the start of one sequence between calls */
    strbuf text;    /* what the last call gave */
} detok;

/* Allocates on the first push only. */
void detok_init(detok *d, const tokenizer *t, const weft_allocator *allocator, bool specials);
void detok_deinit(detok *d);

/* *text is borrowed until the next call; it may be empty. NOMEM leaves the state as it was.
 * Concatenated over a stream, with the flush, the texts equal the decoding of the whole. */
weft_status detok_push(detok *d, int32_t id, str *text, weft_error *err);

/* What is held back, as U+FFFD. */
weft_status detok_flush(detok *d, str *text, weft_error *err);

#endif
