/* normalize.h - what a text becomes before it is cut: normal forms and small letters. */
#ifndef TOKENIZER_NORMALIZE_H
#define TOKENIZER_NORMALIZE_H

#include "base/str.h"

enum { NORMALIZER_STEPS = 16 };

typedef enum normalizer_step {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE
} normalizer_step;

typedef struct normalizer {
    normalizer_step steps[NORMALIZER_STEPS];
    uint32_t n_steps;
} normalizer;

/* LIMIT for too many. */
weft_status normalizer_add(normalizer *n, normalizer_step step, weft_error *err);

typedef struct normalizer_scratch {
    const weft_allocator *allocator; /* borrowed */
    strbuf texts[2];
    int32_t *chars; /* [n_chars] */
    size_t n_chars;
    int32_t *marks; /* [n_marks] */
    size_t n_marks;
} normalizer_scratch;

/* limit_bytes: longest result. Allocates nothing. */
void normalizer_scratch_init(normalizer_scratch *s, const weft_allocator *allocator,
                             size_t limit_bytes);
void normalizer_scratch_deinit(normalizer_scratch *s);

/* *result is text itself or lies in the scratch until the next call. text is valid UTF-8. Linear
 * time. */
weft_status normalizer_run(const normalizer *n, normalizer_scratch *s, str text, str *result,
                           weft_error *err);

#endif
