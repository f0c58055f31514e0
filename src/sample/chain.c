/* chain.c - the chain over samplers.def, and the draw. */
#include "sample/chain.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "sample/logits.h"

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

/* In the type of the value: a bound itself is within. Written so that NaN fails it. */
weft_status sampling_check_range(const char *name, float value, double low, double high,
                                 weft_error *err)
{
    if (value >= (float)low && value <= (float)high) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT, "%s is %g, expected %g to %g", name, (double)value, low,
                   high);
}

weft_status sampling_check_texts(const char *name, const char *const *texts, uint32_t n,
                                 uint32_t most, weft_error *err)
{
    if (n > most) return err_set(err, WEFT_LIMIT, "%s has %u entries, at most %u", name, n, most);
    if (n > 0 && texts == NULL) return err_set(err, WEFT_ARGUMENT, "%s is NULL", name);
    for (uint32_t i = 0; i < n; i++) {
        if (texts[i] == NULL || texts[i][0] == '\0')
            return err_set(err, WEFT_ARGUMENT, "%s %u is empty", name, i);
        size_t n_bytes = strnlen(texts[i], WEFT_STOP_TEXT_BYTES + 1);
        if (n_bytes > WEFT_STOP_TEXT_BYTES) {
            return err_set(err, WEFT_LIMIT, "%s %u has more than %d bytes", name, i,
                           WEFT_STOP_TEXT_BYTES);
        }
        if (!utf8_valid(texts[i], n_bytes))
            return err_set(err, WEFT_ARGUMENT, "%s %u is not UTF-8", name, i);
    }
    return WEFT_OK;
}

weft_status sampling_check(const weft_sampling *p, uint32_t n_vocab, weft_error *err)
{
    weft_status status = sampling_check_range("temperature", p->temperature, 0.0, 100.0, err);
    for (uint32_t i = 0; i < COUNT_OF(SAMPLERS) && status == WEFT_OK; i++) {
        if (SAMPLERS[i]->check != NULL) status = SAMPLERS[i]->check(p, n_vocab, err);
    }
    return status;
}

double sample_random(const weft_sampling *params, uint64_t position, sample_purpose purpose)
{
    /* A seed of its own, from a counter that is no position. */
    return rng_unit(rng_u64(params->seed, UINT64_MAX - (uint64_t)purpose), position);
}

float sample_number(double x)
{
    if (x > (double)FLT_MAX) return FLT_MAX;
    return x < (double)-FLT_MAX ? -FLT_MAX : (float)x;
}

/* ---- what the model gave --------------------------------------------------------------------- */

/* Of a softmax: the largest logit, and ln of the sum of exp(logit - largest). */
typedef struct softmax {
    double max, log_sum;
} softmax;

static softmax softmax_of(const float *logits, uint32_t n_vocab, int32_t best)
{
    float max = logits[best];
    return (softmax){(double)max, log(logits_sum_exp(logits, n_vocab, max))};
}

static float logprob(softmax s, float logit)
{
    double below = (double)logit == s.max ? 0.0 : (double)logit - s.max;
    return (float)(below - s.log_sum);
}

/* By insertion: most logits are smaller than the last, and an equal one has the larger id. */
static uint32_t take_top(const sample_input *in, softmax s)
{
    weft_top_logprob *top = in->top;
    uint32_t n = 0;
    for (uint32_t i = 0; i < in->n_vocab && in->n_top > 0; i++) {
        float x = in->logits[i];
        if (!(x > -INFINITY) || (n == in->n_top && !(x > in->logits[top[n - 1].token]))) continue;
        uint32_t at = n < in->n_top ? n++ : n - 1;
        for (; at > 0 && x > in->logits[top[at - 1].token]; at--) top[at] = top[at - 1];
        top[at].token = (int32_t)i;
    }
    for (uint32_t i = 0; i < n; i++) top[i].logprob = logprob(s, in->logits[top[i].token]);
    return n;
}

/* ---- what may be sampled --------------------------------------------------------------------- */

static void forbid(const sample_input *in, float *logits)
{
    for (size_t w = 0; in->allowed != NULL && w < sample_mask_words(in->n_vocab); w++) {
        uint64_t mask = in->allowed[w];
        uint32_t end = (uint32_t)(w + 1) * 64 < in->n_vocab ? (uint32_t)(w + 1) * 64 : in->n_vocab;
        for (uint32_t i = (uint32_t)w * 64; i < end && mask != UINT64_MAX; i++) {
            if ((mask >> (i % 64) & 1) == 0) logits[i] = -INFINITY;
        }
    }
    for (uint32_t i = 0; i < in->n_forbidden; i++) logits[in->forbidden[i]] = -INFINITY;
}

/* The logits that are sampled from, the model's own where nothing changes them. */
static const float *adjust(const sample_input *in, sample_scratch *scratch)
{
    bool changes = in->allowed != NULL || in->n_forbidden > 0;
    for (uint32_t i = 0; i < COUNT_OF(SAMPLERS); i++)
        changes = changes || (SAMPLERS[i]->adjust != NULL && SAMPLERS[i]->active(in->params));
    if (!changes) return in->logits;
    memcpy(scratch->adjusted, in->logits, in->n_vocab * sizeof *scratch->adjusted);
    forbid(in, scratch->adjusted);
    for (uint32_t i = 0; i < COUNT_OF(SAMPLERS); i++) {
        if (SAMPLERS[i]->adjust != NULL && SAMPLERS[i]->active(in->params))
            SAMPLERS[i]->adjust(in, scratch->adjusted, scratch);
    }
    return scratch->adjusted;
}

/* ---- the draw -------------------------------------------------------------------------------- */

/* Walks the candidates with one random number; the last possible one takes what rounding leaves
 * over. */
static int32_t draw(candidates *c, const weft_sampling *params, uint64_t position)
{
    double target = rng_unit(params->seed, position) * candidates_total(c);
    double sum = 0.0;
    int32_t last = c->ids[c->first];
    for (uint32_t i = c->first; i < c->n; i++) {
        double weight = candidates_weight(c, i);
        if (weight == 0.0) break;
        sum += weight;
        last = c->ids[i];
        if (sum > target) break;
    }
    return last;
}

static int32_t choose(const sample_input *in, const float *logits, int32_t best,
                      sample_scratch *scratch)
{
    const weft_sampling *p = in->params;
    candidates c = {.ids = scratch->ids, .logits = scratch->logits};
    for (uint32_t i = 0; i < in->n_vocab; i++) {
        if (isnan(logits[i]) || logits[i] == -INFINITY) continue;
        c.ids[c.n_all] = (int32_t)i;
        c.logits[c.n_all++] = (logits[i] - logits[best]) / p->temperature;
    }
    candidates_init(&c);
    for (uint32_t i = 0; i < COUNT_OF(SAMPLERS); i++) {
        if (SAMPLERS[i]->cut != NULL && SAMPLERS[i]->active(p))
            SAMPLERS[i]->cut(&c, p, in->position);
    }
    return draw(&c, p, in->position);
}

weft_status sample_token(const sample_input *in, sample_scratch *scratch, sample *out,
                         weft_error *err)
{
    *out = (sample){-1, 0.0F, 0};
    int32_t best = logits_largest(in->logits, in->n_vocab);
    if (best < 0) {
        return err_set(err, WEFT_FORMAT, "none of %u logits is a number above minus infinity",
                       in->n_vocab);
    }
    const float *logits = adjust(in, scratch);
    int32_t id = logits == in->logits ? best : logits_largest(logits, in->n_vocab);
    if (id < 0) {
        return err_set(err, WEFT_ARGUMENT,
                       "no token may be sampled: what is forbidden leaves none of %u", in->n_vocab);
    }
    if (in->params->temperature > 0.0F && !isinf(logits[id])) id = choose(in, logits, id, scratch);
    softmax s = softmax_of(in->logits, in->n_vocab, best);
    *out = (sample){id, logprob(s, in->logits[id]), take_top(in, s)};
    return WEFT_OK;
}
