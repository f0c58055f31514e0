/* top_k.c - the k largest logits. */
#include "sample/chain.h"

static bool active(const weft_sampling *params)
{
    return params->top_k != 0;
}

static void cut(candidates *c, const weft_sampling *params, uint64_t position)
{
    (void)position;
    if (params->top_k >= c->n - c->first) return;
    candidates_sort(c, c->first + params->top_k);
    c->n = c->first + params->top_k;
}

const sampler SAMPLER_TOP_K = {.name = "top_k", .active = active, .cut = cut};
