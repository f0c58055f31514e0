/* typical_p.c - the candidates whose surprise, -ln of their probability, is nearest to what is
 * expected, as many as reach p (Meister et al. 2022, in the form of Transformers'
 * TypicalLogitsWarper: those as near as the last one stay, too).
 *
 * Logit and surprise differ by a constant, so these are the candidates whose logits are nearest to
 * the expected logit: a run of the sorted ones, which is grown from the middle. */
#include <math.h>

#include "sample/chain.h"

static weft_status check(const weft_sampling *params, uint32_t n_vocab, weft_error *err)
{
    (void)n_vocab;
    return sampling_check_range("typical_p", params->typical_p, 0.0, 1.0, err);
}

static bool active(const weft_sampling *params)
{
    return params->typical_p > 0.0F && params->typical_p < 1.0F;
}

/* What is grown: candidates [low, high), around the mean. */
typedef struct run {
    candidates *c;
    double mean; /* above the logit of the best, so not positive */
    uint32_t low, high;
} run;

/* Above the logit of the best. */
static double logit(const run *r, uint32_t i)
{
    if (i >= r->c->n_sorted) candidates_sort(r->c, 2 * i);
    return (double)r->c->logits[i] - (double)r->c->logits[r->c->first];
}

/* How far the next ones are from the mean; infinity: there is none. */
static double below(const run *r)
{
    return r->high < r->c->n ? r->mean - logit(r, r->high) : (double)INFINITY;
}

static double above(const run *r)
{
    return r->low > r->c->first ? logit(r, r->low - 1) - r->mean : (double)INFINITY;
}

static double mean_of(const candidates *c, double *total)
{
    double best = (double)c->logits[c->first];
    double sum = 0.0;
    *total = 0.0;
    for (uint32_t i = c->first; i < c->n; i++) {
        double x = (double)c->logits[i] - best;
        double weight = exp(x);
        *total += weight;
        if (weight > 0.0) sum += weight * x;
    }
    return sum / *total;
}

static void cut(candidates *c, const weft_sampling *params, uint64_t position)
{
    (void)position;
    double total;
    run r = {.c = c, .mean = mean_of(c, &total), .low = c->first};
    while (r.low < c->n && logit(&r, r.low) >= r.mean) r.low++;
    r.high = r.low;
    double sum = 0.0;
    double furthest = 0.0;
    while (sum < (double)params->typical_p * total &&
           (isfinite(below(&r)) || isfinite(above(&r)))) {
        bool up = above(&r) <= below(&r);
        furthest = up ? above(&r) : below(&r);
        sum += exp(logit(&r, up ? --r.low : r.high++));
    }
    while (above(&r) <= furthest) r.low--;
    while (below(&r) <= furthest) r.high++;
    c->first = r.low;
    c->n = r.high;
}

const sampler SAMPLER_TYPICAL_P = {
    .name = "typical_p", .check = check, .active = active, .cut = cut};
