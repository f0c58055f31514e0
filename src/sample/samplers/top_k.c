/* top_k.c - the k largest logits. */
#include "sample/chain.h"

static bool active(const weft_sampling *params)
{
    return params->top_k != 0;
}

static void apply(candidates *c, const weft_sampling *params)
{
    if (params->top_k >= c->n) return;
    candidates_sort(c, params->top_k);
    c->n = params->top_k;
}

const sampler SAMPLER_TOP_K = {"top_k", active, apply};
