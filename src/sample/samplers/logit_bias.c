/* logit_bias.c - what is added to the logits of single tokens (OpenAI's API: "logit_bias"). */
#include <math.h>

#include "sample/chain.h"

static weft_status check(const weft_sampling *params, uint32_t n_vocab, weft_error *err)
{
    uint32_t n = params->n_logit_bias;
    if (n > WEFT_LOGIT_BIASES) {
        return err_set(err, WEFT_LIMIT, "logit_bias has %u entries, at most %d", n,
                       WEFT_LOGIT_BIASES);
    }
    if (n > 0 && params->logit_bias == NULL)
        return err_set(err, WEFT_ARGUMENT, "logit_bias is NULL, n_logit_bias is %u", n);
    for (uint32_t i = 0; i < n; i++) {
        const weft_logit_bias *b = &params->logit_bias[i];
        if (b->token < 0 || (uint32_t)b->token >= n_vocab) {
            return err_set(err, WEFT_ARGUMENT,
                           "logit_bias %u is of token id %d, the vocabulary has %u", i, b->token,
                           n_vocab);
        }
        if (!(b->bias >= -100.0F && b->bias <= 100.0F) && b->bias != -INFINITY) {
            return err_set(err, WEFT_ARGUMENT,
                           "logit_bias of token id %d is %g, expected -100 to 100 or -inf",
                           b->token, (double)b->bias);
        }
    }
    return WEFT_OK;
}

static bool active(const weft_sampling *params)
{
    return params->n_logit_bias > 0;
}

static void adjust(const sample_input *in, float *logits, sample_scratch *scratch)
{
    (void)scratch;
    for (uint32_t i = 0; i < in->params->n_logit_bias; i++) {
        const weft_logit_bias *b = &in->params->logit_bias[i];
        float *logit = &logits[b->token];
        if (b->bias == -INFINITY) {
            *logit = -INFINITY;
        } else if (isfinite(*logit)) {
            *logit = sample_number((double)*logit + (double)b->bias);
        }
    }
}

const sampler SAMPLER_LOGIT_BIAS = {
    .name = "logit_bias", .check = check, .active = active, .adjust = adjust};
