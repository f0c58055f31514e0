/* chain.c - the chain over samplers.def, and the draw. */
#include "sample/chain.h"

#include <math.h>

#include "base/assert.h"
#include "base/rng.h"

#define SAMPLER(name, NAME) extern const sampler SAMPLER_##NAME;
#include "sample/samplers/samplers.def"
#undef SAMPLER

static const sampler *const SAMPLERS[] = {
#define SAMPLER(name, NAME) &SAMPLER_##NAME,
#include "sample/samplers/samplers.def"
#undef SAMPLER
};

const sampler *const *sampler_table(uint32_t *count)
{
    *count = COUNT_OF(SAMPLERS);
    return SAMPLERS;
}

/* Comparisons are written so that NaN fails them. */
weft_status sampling_check(const weft_sampling *p, weft_error *err)
{
    if (!(p->temperature >= 0.0F && p->temperature <= 100.0F)) {
        return err_set(err, WEFT_ARGUMENT, "temperature is %g, expected 0 to 100",
                       (double)p->temperature);
    }
    if (!(p->top_p > 0.0F && p->top_p <= 1.0F)) {
        return err_set(err, WEFT_ARGUMENT, "top_p is %g, expected more than 0 and at most 1",
                       (double)p->top_p);
    }
    if (!(p->min_p >= 0.0F && p->min_p < 1.0F)) {
        return err_set(err, WEFT_ARGUMENT, "min_p is %g, expected at least 0 and less than 1",
                       (double)p->min_p);
    }
    return WEFT_OK;
}

/* Order of preference. */
static bool before(const candidates *c, uint32_t a, uint32_t b)
{
    if (c->logits[a] != c->logits[b]) return c->logits[a] > c->logits[b];
    return c->ids[a] < c->ids[b];
}

static void swap(candidates *c, uint32_t a, uint32_t b)
{
    float logit = c->logits[a];
    int32_t id = c->ids[a];
    c->logits[a] = c->logits[b];
    c->ids[a] = c->ids[b];
    c->logits[b] = logit;
    c->ids[b] = id;
}

/* The heap lies from the end backwards: its node k is element n_all - 1 - k, so that what is sorted
 * grows from the front into the heap's last node. */
static uint32_t node(const candidates *c, uint32_t k)
{
    return c->n_all - 1 - k;
}

static void sift(candidates *c, uint32_t k, uint32_t n_heap)
{
    for (;;) {
        uint32_t best = k;
        uint32_t left = 2 * k + 1;
        if (left < n_heap && before(c, node(c, left), node(c, best))) best = left;
        if (left + 1 < n_heap && before(c, node(c, left + 1), node(c, best))) best = left + 1;
        if (best == k) return;
        swap(c, node(c, k), node(c, best));
        k = best;
    }
}

void candidates_sort(candidates *c, uint32_t n)
{
    if (n > c->n) n = c->n;
    while (c->n_sorted < n) {
        uint32_t n_heap = c->n_all - c->n_sorted;
        /* The root is the best left: it changes places with the last node, which becomes sorted. */
        swap(c, node(c, 0), node(c, n_heap - 1));
        c->n_sorted++;
        if (n_heap > 1) sift(c, 0, n_heap - 1);
    }
}

static void build_heap(candidates *c)
{
    for (uint32_t k = c->n_all / 2; k-- > 0;) sift(c, k, c->n_all);
}

static weft_status greedy(const float *logits, uint32_t n_vocab, sample *out, weft_error *err)
{
    out->id = -1;
    float best = -INFINITY;
    for (uint32_t i = 0; i < n_vocab; i++) {
        if (logits[i] > best) {
            best = logits[i];
            out->id = (int32_t)i;
        }
    }
    if (out->id < 0) {
        return err_set(err, WEFT_FORMAT, "none of %u logits is a number above minus infinity",
                       n_vocab);
    }
    return WEFT_OK;
}

static void set_logprob(const float *logits, uint32_t n_vocab, sample *out)
{
    double max = (double)-INFINITY;
    for (uint32_t i = 0; i < n_vocab; i++) {
        if ((double)logits[i] > max) max = (double)logits[i];
    }
    double sum = 0.0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        /* The second is for infinity less itself. */
        if (!isnan(logits[i])) sum += (double)logits[i] == max ? 1.0 : exp((double)logits[i] - max);
    }
    double below = (double)logits[out->id] == max ? 0.0 : (double)logits[out->id] - max;
    out->logprob = (float)(below - log(sum));
}

/* Walks the candidates with one random number; the last possible one takes what rounding leaves
 * over. */
static int32_t draw(candidates *c, const weft_sampling *params, uint64_t position)
{
    candidates_sort(c, 64);
    double max = (double)c->logits[0];
    double total = 0.0;
    for (uint32_t i = 0; i < c->n; i++) total += exp((double)c->logits[i] - max);
    double target = rng_unit(params->seed, position) * total;
    double sum = 0.0;
    int32_t last = c->ids[0];
    for (uint32_t i = 0; i < c->n; i++) {
        if (i == c->n_sorted) candidates_sort(c, 2 * i);
        double weight = exp((double)c->logits[i] - max);
        if (weight == 0.0) break;
        sum += weight;
        last = c->ids[i];
        if (sum > target) break;
    }
    return last;
}

weft_status sample_token(const float *logits, uint32_t n_vocab, const weft_sampling *params,
                         uint64_t position, sample_scratch *scratch, sample *out, weft_error *err)
{
    *out = (sample){-1, 0.0F};
    weft_status status = greedy(logits, n_vocab, out, err);
    if (status != WEFT_OK) return status;
    if (params->temperature > 0.0F && !isinf(logits[out->id])) {
        candidates c = {.ids = scratch->ids, .logits = scratch->logits};
        for (uint32_t i = 0; i < n_vocab; i++) {
            if (isnan(logits[i]) || logits[i] == -INFINITY) continue;
            c.ids[c.n] = (int32_t)i;
            c.logits[c.n++] = (logits[i] - logits[out->id]) / params->temperature;
        }
        c.n_all = c.n;
        build_heap(&c);
        for (uint32_t i = 0; i < COUNT_OF(SAMPLERS); i++) {
            if (SAMPLERS[i]->active(params)) SAMPLERS[i]->apply(&c, params);
        }
        out->id = draw(&c, params, position);
    }
    set_logprob(logits, n_vocab, out);
    return WEFT_OK;
}
