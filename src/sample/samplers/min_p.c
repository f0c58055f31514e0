/* min_p.c - candidates with at least p times the probability of the best (Nguyen et al. 2024). */
#include <math.h>

#include "sample/chain.h"

static weft_status check(const weft_sampling *params, uint32_t n_vocab, weft_error *err)
{
    (void)n_vocab;
    if (params->min_p >= 0.0F && params->min_p < 1.0F) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT, "min_p is %g, expected at least 0 and less than 1",
                   (double)params->min_p);
}

static bool active(const weft_sampling *params)
{
    return params->min_p > 0.0F;
}

static void cut(candidates *c, const weft_sampling *params, uint64_t position)
{
    (void)position;
    double least = (double)c->logits[c->first] + log((double)params->min_p);
    for (uint32_t i = c->first + 1; i < c->n; i++) {
        if (i == c->n_sorted) candidates_sort(c, 2 * i);
        if ((double)c->logits[i] < least) {
            c->n = i;
            return;
        }
    }
}

const sampler SAMPLER_MIN_P = {.name = "min_p", .check = check, .active = active, .cut = cut};
