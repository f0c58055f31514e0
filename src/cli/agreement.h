/* agreement.h - how often the likeliest next token is the one that the same model has with keys and
 * values in f32: what a benchmark asks, so that no speed is told of nonsense.
 *
 * The f32 model goes on from random ids, greedily; then the same tokens are read one by one, as
 * answers are made, with the codecs in question. */
#ifndef CLI_AGREEMENT_H
#define CLI_AGREEMENT_H

#include "base/err.h"

enum {
    AGREEMENT_PROMPT = 24,
    AGREEMENT_TOKENS = 40,
    AGREEMENT_POSITIONS = AGREEMENT_PROMPT + AGREEMENT_TOKENS
};

typedef struct agreement {
    uint32_t n_tokens; /* 0: it was not measured */
    uint32_t n_same;
    uint32_t n_least; /* that are to be expected of codecs of such widths, of any model */
} agreement;

/* kv: a codec spec that the engine takes. The engine has AGREEMENT_POSITIONS, no request, and no
 * prefix cache. */
weft_status agreement_measure(weft_engine *engine, const weft_model *model, const char *kv,
                              agreement *a, weft_error *err);

/* LIMIT, with both numbers, where fewer are the same. */
weft_status agreement_check(const agreement *a, const char *kv, weft_error *err);

#endif
