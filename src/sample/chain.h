/* chain.h - from logits to a token.
 *
 * Temperature, then top-k, top-p and min-p, each over what the one before left (the order of
 * Transformers). The latter are rows of samplers/. The draw is a function of (seed, position)
 * alone: the same request gives the same tokens in any company, and with or without speculation. */
#ifndef SAMPLE_CHAIN_H
#define SAMPLE_CHAIN_H

#include "base/err.h"

/* Candidates in order of preference: the first n_sorted of ids and logits are the largest logits in
 * descending order (equal ones by ascending id), the rest a heap. */
typedef struct candidates {
    int32_t *ids;  /* [n_vocab] */
    float *logits; /* [n_vocab], after temperature */
    uint32_t n;    /* candidates left; samplers only lower it, and only below what is sorted */
    uint32_t n_all;
    uint32_t n_sorted;
} candidates;

/* Makes the first n (or all) of them sorted. */
void candidates_sort(candidates *c, uint32_t n);

typedef struct sampler {
    const char *name;
    bool (*active)(const weft_sampling *params);
    void (*apply)(candidates *c, const weft_sampling *params);
} sampler;

/* [*count] in chain order. */
const sampler *const *sampler_table(uint32_t *count);

/* ARGUMENT naming the field and its bounds. NaN is out of every bound. */
weft_status sampling_check(const weft_sampling *params, weft_error *err);

typedef struct sample_scratch {
    int32_t *ids;  /* [n_vocab] */
    float *logits; /* [n_vocab] */
} sample_scratch;

typedef struct sample {
    int32_t id;
    float logprob; /* ln of the softmax of the logits as the model gave them */
} sample;

/* logits: [n_vocab], unchanged. Logits that are NaN or minus infinity are never chosen; if
 * all are, FORMAT. One that is plus infinity is certain. */
weft_status sample_token(const float *logits, uint32_t n_vocab, const weft_sampling *params,
                         uint64_t position, sample_scratch *scratch, sample *out, weft_error *err);

#endif
