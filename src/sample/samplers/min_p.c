/* min_p.c - candidates with at least p times the probability of the best (Nguyen et al. 2024). */
#include <math.h>

#include "sample/chain.h"

static bool active(const weft_sampling *params)
{
    return params->min_p > 0.0F;
}

enum { SORT_FIRST = 64 };

static void apply(candidates *c, const weft_sampling *params)
{
    candidates_sort(c, SORT_FIRST);
    double least = (double)c->logits[0] + log((double)params->min_p);
    for (uint32_t i = 1; i < c->n; i++) {
        if (i == c->n_sorted) candidates_sort(c, 2 * i);
        if ((double)c->logits[i] < least) {
            c->n = i;
            return;
        }
    }
}

const sampler SAMPLER_MIN_P = {"min_p", active, apply};
