/* chain.h - from logits to a token: the samplers of samplers/, one after the other, and a draw.
 *
 * Samplers that change logits come first, then temperature, then those that leave candidates out,
 * each over what the one before left; docs/sampling.md has the order and why. What comes out is a
 * function of logits, history, parameters, seed and position alone: the same request gives the same
 * tokens in any company, and with or without speculation.
 *
 * To add a sampler: samplers/NAME.c with `const sampler SAMPLER_NAME`, and a row in samplers.def at
 * its place in the chain. */
#ifndef SAMPLE_CHAIN_H
#define SAMPLE_CHAIN_H

#include "base/err.h"
#include "sample/candidates.h"

/* What a token is sampled from. */
typedef struct sample_input {
    const float *logits; /* [n_vocab], unchanged */
    uint32_t n_vocab;
    const weft_sampling *params; /* checked */
    uint64_t position;      /* of the token: what its random numbers depend on beside the seed */
    const int32_t *history; /* [n_history]: the prompt, then what was sampled; below n_vocab */
    uint32_t n_history, n_prompt;
    /* [sample_mask_words(n_vocab)]: the tokens that may be sampled, bit i % 64 of word i / 64;
     * NULL: all. What a grammar leaves. */
    const uint64_t *allowed;
    const int32_t *forbidden; /* [n_forbidden]: may not be sampled, either */
    uint32_t n_forbidden;
    const uint64_t *breakers; /* as allowed: tokens that no repeat reaches over; NULL: none */
    weft_top_logprob *top;    /* [n_top], filled with the likeliest */
    uint32_t n_top;           /* at most WEFT_TOP_LOGPROBS */
} sample_input;

static inline size_t sample_mask_words(uint32_t n_vocab)
{
    return ((size_t)n_vocab + 63) / 64;
}

static inline bool sample_mask_has(const uint64_t *mask, int32_t id)
{
    return (mask[(uint32_t)id / 64] >> ((uint32_t)id % 64) & 1) != 0;
}

typedef struct sample_scratch {
    int32_t *ids;      /* [n_vocab] */
    float *logits;     /* [n_vocab] */
    float *adjusted;   /* [n_vocab] */
    uint32_t *counts;  /* [n_vocab], zero between calls */
    uint32_t *repeats; /* [n_history at most] */
} sample_scratch;

typedef struct sampler {
    const char *name;
    /* ARGUMENT naming the field and its bounds. NaN is out of every bound. NULL: there are none. */
    weft_status (*check)(const weft_sampling *params, uint32_t n_vocab, weft_error *err);
    bool (*active)(const weft_sampling *params);
    /* One of the two. Changes logits [n_vocab] before temperature; numbers stay numbers. Time is
     * linear in the part of the history that it looks at. */
    void (*adjust)(const sample_input *in, float *logits, sample_scratch *scratch);
    /* Leaves candidates out, never all. */
    void (*cut)(candidates *c, const weft_sampling *params, uint64_t position);
} sampler;

/* [*count] in chain order. */
const sampler *const *sampler_table(uint32_t *count);

/* All parameters: ARGUMENT naming the field and its bounds, LIMIT for lists that are too long. */
weft_status sampling_check(const weft_sampling *params, uint32_t n_vocab, weft_error *err);

/* For checks of one: value is in [low, high]. */
weft_status sampling_check_range(const char *name, float value, double low, double high,
                                 weft_error *err);

/* A list of at most most texts, each UTF-8, not empty, of at most WEFT_STOP_TEXT_BYTES. */
weft_status sampling_check_texts(const char *name, const char *const *texts, uint32_t n,
                                 uint32_t most, weft_error *err);

/* Random numbers that are not the draw itself, by what they are for. */
typedef enum sample_purpose { SAMPLE_XTC = 1 } sample_purpose;

/* In [0, 1), of the request's own stream. */
double sample_random(const weft_sampling *params, uint64_t position, sample_purpose purpose);

/* A logit that was changed: still a number. */
float sample_number(double x);

typedef struct sample {
    int32_t id;
    float logprob;  /* ln of the softmax of the logits as the model gave them */
    uint32_t n_top; /* of in->top: fewer than asked for where other logits are minus infinity */
} sample;

/* Logits that are NaN or minus infinity are never chosen; if all are, FORMAT; if what may be
 * sampled is, ARGUMENT. One that is plus infinity is certain. */
weft_status sample_token(const sample_input *in, sample_scratch *scratch, sample *out,
                         weft_error *err);

#endif
