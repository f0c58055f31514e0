/* vectors.h - requests for vectors in one call, for tests that compare them. */
#ifndef SUPPORT_VECTORS_H
#define SUPPORT_VECTORS_H

#include "support/test.h"

/* One text and its vectors. Set what a request has; vectors_run fills the rest. */
typedef struct vectors {
    const int32_t *prompt;
    uint32_t n_prompt, n_embedding;
    weft_pooling pooling;
    weft_normalize normalize;
    const char *kv;
    uint32_t flags;
    float *rows; /* [n_rows, cols]; memory for n_prompt */
    uint32_t n_rows, cols, n_cached;
    weft_handle handle;
} vectors;

/* Submits all, steps until nothing is active, polls; fails the test on any error. */
void vectors_run(weft_engine *engine, const weft_model *model, vectors *texts, size_t n);
void vectors_free(vectors *texts, size_t n);

/* Fails the test unless both have the same bits. */
void vectors_assert_same(const vectors *a, const vectors *b, const char *what);

#endif
