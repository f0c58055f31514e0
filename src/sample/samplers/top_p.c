/* top_p.c - the fewest candidates whose probabilities reach p (Holtzman et al. 2019), at least
 * one. */
#include "sample/chain.h"

static weft_status check(const weft_sampling *params, uint32_t n_vocab, weft_error *err)
{
    (void)n_vocab;
    return sampling_check_range("top_p", params->top_p, 0.0, 1.0, err);
}

static bool active(const weft_sampling *params)
{
    return params->top_p > 0.0F && params->top_p < 1.0F;
}

static void cut(candidates *c, const weft_sampling *params, uint64_t position)
{
    (void)position;
    double total = candidates_total(c);
    double sum = 0.0;
    for (uint32_t i = c->first; i < c->n; i++) {
        sum += candidates_weight(c, i);
        if (sum >= (double)params->top_p * total) {
            c->n = i + 1;
            return;
        }
    }
}

const sampler SAMPLER_TOP_P = {.name = "top_p", .check = check, .active = active, .cut = cut};
