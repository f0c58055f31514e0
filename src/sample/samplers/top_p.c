/* top_p.c - the fewest candidates whose probabilities reach p (Holtzman et al. 2019), at least
 * one. */
#include <math.h>

#include "sample/chain.h"

static bool active(const weft_sampling *params)
{
    return params->top_p < 1.0F;
}

enum { SORT_FIRST = 64 };

static void apply(candidates *c, const weft_sampling *params)
{
    candidates_sort(c, SORT_FIRST);
    double max = (double)c->logits[0];
    double total = 0.0;
    for (uint32_t i = 0; i < c->n; i++) total += exp((double)c->logits[i] - max);
    double sum = 0.0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (i == c->n_sorted) candidates_sort(c, 2 * i);
        sum += exp((double)c->logits[i] - max);
        if (sum >= (double)params->top_p * total) {
            c->n = i + 1;
            return;
        }
    }
}

const sampler SAMPLER_TOP_P = {"top_p", active, apply};
