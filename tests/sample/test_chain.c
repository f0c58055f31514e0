/* test_chain.c - samplers and the draw against a plain implementation that sorts everything; bounds
 * of the parameters; distributions. */
#include "sample/chain.h"
#include "support/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

static uint64_t counter;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)(rng_u64(77, counter++) % n);
}

static float number(void)
{
    return (float)(rng_unit(78, counter++) * 2.0 - 1.0);
}

static const weft_sampling GREEDY = {.temperature = 0.0F, .top_p = 1.0F};

/* ---- the plain implementation ---- */

typedef struct plain {
    int32_t id;
    double logit; /* after temperature */
} plain;

static int by_preference(const void *a, const void *b)
{
    const plain *x = a;
    const plain *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static double weight_of(const plain *p, uint32_t i)
{
    return exp(p[i].logit - p[0].logit);
}

static double sum_of(const plain *p, uint32_t n)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += weight_of(p, i);
    return sum;
}

/* What is left of the sorted candidates: first .. end - 1. */
typedef struct left {
    uint32_t first, end;
} left;

static left plain_typical(const plain *p, left l, double mass)
{
    double shift[5001];
    bool taken[5001] = {false};
    double total = 0.0;
    double entropy = 0.0;
    for (uint32_t i = l.first; i < l.end; i++) total += weight_of(p, i);
    for (uint32_t i = l.first; i < l.end; i++) {
        double x = weight_of(p, i) / total;
        if (x > 0.0) entropy -= x * log(x);
    }
    for (uint32_t i = l.first; i < l.end; i++)
        shift[i] = fabs(-(p[i].logit - p[0].logit - log(total)) - entropy);
    double sum = 0.0;
    double furthest = 0.0;
    while (sum < mass * total) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = l.first; i < l.end; i++) {
            if (!taken[i] && (best == UINT32_MAX || shift[i] < shift[best])) best = i;
        }
        if (best == UINT32_MAX) break;
        taken[best] = true;
        furthest = shift[best];
        sum += weight_of(p, best);
    }
    left kept = {l.end, l.first};
    for (uint32_t i = l.first; i < l.end; i++) {
        if (!taken[i] && !(shift[i] <= furthest + 1e-9)) continue;
        if (i < kept.first) kept.first = i;
        if (i + 1 > kept.end) kept.end = i + 1;
    }
    return kept;
}

static left plain_xtc(const plain *p, left l, const weft_sampling *params, uint64_t position,
                      double slack)
{
    double total = 0.0;
    uint32_t n = 0;
    double random = rng_unit(rng_u64(params->seed, UINT64_MAX - 1), position);
    if (random >= (double)params->xtc_probability) return l;
    for (uint32_t i = l.first; i < l.end; i++) total += weight_of(p, i);
    for (uint32_t i = l.first; i < l.end; i++)
        n += weight_of(p, i) / total >= (double)params->xtc_threshold * (1.0 + slack);
    if (n > 1) l.first += n - 1;
    return l;
}

/* Sorts every candidate into p and returns which the chain leaves. slack is moved by so much
 * that rounding in the order of a sum cannot matter. */
static left plain_chain(const float *logits, uint32_t n_vocab, const weft_sampling *params,
                        uint64_t position, plain *p, double slack)
{
    uint32_t n = 0;
    float best = -INFINITY;
    for (uint32_t i = 0; i < n_vocab; i++) {
        if (logits[i] > best) best = logits[i];
    }
    for (uint32_t i = 0; i < n_vocab; i++) {
        if (isnan(logits[i]) || logits[i] == -INFINITY) continue;
        p[n++] = (plain){(int32_t)i, (double)((logits[i] - best) / params->temperature)};
    }
    qsort(p, n, sizeof *p, by_preference);
    if (params->top_k != 0 && params->top_k < n) n = params->top_k;
    if (params->top_p > 0.0F && params->top_p < 1.0F) {
        double least = (double)params->top_p * sum_of(p, n) * (1.0 + slack);
        double sum = 0.0;
        uint32_t kept = n;
        for (uint32_t i = 0; i < n; i++) {
            sum += weight_of(p, i);
            if (sum >= least) {
                kept = i + 1;
                break;
            }
        }
        n = kept;
    }
    if (params->min_p > 0.0F) {
        double least = log((double)params->min_p) * (1.0 - slack);
        uint32_t kept = 1;
        while (kept < n && p[kept].logit - p[0].logit >= least) kept++;
        n = kept;
    }
    left l = {0, n};
    if (params->typical_p > 0.0F && params->typical_p < 1.0F)
        l = plain_typical(p, l, (double)params->typical_p * (1.0 + slack));
    if (params->xtc_probability > 0.0F) l = plain_xtc(p, l, params, position, slack);
    return l;
}

typedef struct buffers {
    float *logits, *copy;
    weft_top_logprob *top;
    sample_scratch scratch;
    plain *p;
    uint32_t n;
} buffers;

static buffers buffers_new(uint32_t n)
{
    buffers b = {.n = n};
    b.logits = malloc(n * sizeof *b.logits);
    b.copy = malloc(n * sizeof *b.copy);
    b.scratch.ids = malloc(n * sizeof *b.scratch.ids);
    b.scratch.logits = malloc(n * sizeof *b.scratch.logits);
    b.scratch.adjusted = malloc(n * sizeof *b.scratch.adjusted);
    b.top = malloc(WEFT_TOP_LOGPROBS * sizeof *b.top);
    b.p = malloc(n * sizeof *b.p);
    assert_true(b.logits && b.copy && b.scratch.ids && b.scratch.logits && b.p);
    assert_true(b.scratch.adjusted && b.top);
    return b;
}

static void buffers_free(buffers *b)
{
    free(b->logits);
    free(b->copy);
    free(b->scratch.ids);
    free(b->scratch.logits);
    free(b->scratch.adjusted);
    free(b->top);
    free(b->p);
}

static sample_input input(const buffers *b, const weft_sampling *params, uint64_t position)
{
    return (sample_input){
        .logits = b->logits, .n_vocab = b->n, .params = params, .position = position};
}

static sample take(buffers *b, const sample_input *in)
{
    sample out = {.id = 99, .logprob = 99.0F};
    weft_error err = {0};
    memcpy(b->copy, b->logits, b->n * sizeof *b->copy);
    assert_ok(sample_token(in, &b->scratch, &out, &err), &err);
    assert_memory_equal(b->copy, b->logits, b->n * sizeof *b->copy);
    return out;
}

static sample draw(buffers *b, const weft_sampling *params, uint64_t position)
{
    sample_input in = input(b, params, position);
    return take(b, &in);
}

/* The token that the plain chain draws with the same random number; false where rounding could
 * decide. */
static bool plain_draw(buffers *b, const weft_sampling *params, uint64_t position, int32_t *id)
{
    const double slack = 1e-11;
    left l = plain_chain(b->logits, b->n, params, position, b->p, slack);
    left other = plain_chain(b->logits, b->n, params, position, b->p, -slack);
    if (l.first != other.first || l.end != other.end) return false;
    double total = 0.0;
    for (uint32_t i = l.first; i < l.end; i++) total += weight_of(b->p, i);
    double target = rng_unit(params->seed, position) * total;
    double sum = 0.0;
    /* Where only what is no longer possible is left, it is the first of it. */
    if (total == 0.0) return false;
    for (uint32_t i = l.first; i < l.end; i++) {
        sum += weight_of(b->p, i);
        if (fabs(sum - target) <= total * slack) return false;
        if (sum > target) {
            *id = b->p[i].id;
            return true;
        }
    }
    return false;
}

/* ---- random logits */

typedef enum shape { SMOOTH, TIES, NANS, INFINITIES, HUGE_ONES, FLAT, N_SHAPES } shape;

static float logit(shape s)
{
    switch (s) {
    case TIES:
        return (float)pick(5);
    case NANS:
        return pick(3) == 0 ? NAN : number() * 4.0F;
    case INFINITIES:
        return pick(3) == 0 ? -INFINITY : number() * 4.0F;
    case HUGE_ONES:
        return number() * FLT_MAX;
    case FLAT:
        return 1.5F;
    default:
        return number() * 10.0F;
    }
}

static void fill(buffers *b, shape s)
{
    for (uint32_t i = 0; i < b->n; i++) b->logits[i] = logit(s);
    /* One that can be chosen. */
    b->logits[pick(b->n)] = 2.0F;
}

static weft_sampling random_params(void)
{
    static const float TEMPERATURES[] = {1e-30F, 1e-45F, 0.01F, 0.7F, 1.0F, 2.0F, 100.0F};
    static const float TOP_PS[] = {1.0F, 0.999F, 0.9F, 0.5F, 1e-6F, 1e-45F};
    static const float TYPICAL_PS[] = {0.0F, 0.999F, 0.9F, 0.5F, 0.1F, 1e-6F, 1e-45F};
    static const float MIN_PS[] = {0.0F, 1e-45F, 0.05F, 0.5F, 0.99F};
    weft_sampling p = {
        .temperature = TEMPERATURES[pick(COUNT_OF(TEMPERATURES))],
        .top_p = pick(2) == 0 ? 1.0F : TOP_PS[pick(COUNT_OF(TOP_PS))],
        .min_p = pick(2) == 0 ? 0.0F : MIN_PS[pick(COUNT_OF(MIN_PS))],
        .top_k = pick(2) == 0 ? 0 : 1 + pick(80),
        .typical_p = pick(2) == 0 ? 1.0F : TYPICAL_PS[pick(COUNT_OF(TYPICAL_PS))],
        .xtc_probability = pick(2) == 0 ? 0.0F : 0.25F * (float)(1 + pick(4)),
        .xtc_threshold = 0.01F * (float)(1 + pick(50)),
        .seed = pick(1000),
    };
    weft_error err = {0};
    assert_ok(sampling_check(&p, 5000, &err), &err);
    return p;
}

static void test_chain_against_sorting(void **state)
{
    (void)state;
    static const uint32_t SIZES[] = {1, 2, 3, 5, 17, 63, 64, 65, 127, 128, 129, 1000, 5000};
    uint32_t n_compared = 0;
    uint32_t n_drawn = 0;
    for (size_t k = 0; k < COUNT_OF(SIZES); k++) {
        buffers b = buffers_new(SIZES[k]);
        for (uint32_t round = 0; round < (SIZES[k] < 1000 ? 600u : 60u); round++) {
            fill(&b, (shape)pick(N_SHAPES));
            weft_sampling params = random_params();
            uint64_t position = rng_u64(1, counter++);
            sample s = draw(&b, &params, position);
            int32_t expected;
            n_drawn++;
            if (!plain_draw(&b, &params, position, &expected)) continue;
            n_compared++;
            assert_int_equal(s.id, expected);
        }
        buffers_free(&b);
    }
    assert_true(n_compared > n_drawn * 8 / 10);
}

/* Each sampler that leaves candidates out, alone: which it leaves, in which order. */
static void test_each_sampler_alone(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        weft_sampling params;
    } ALONE[] = {
        {"top_k", {.temperature = 1.0F, .top_k = 20}},
        {"top_p", {.temperature = 1.0F, .top_p = 0.8F}},
        {"min_p", {.temperature = 1.0F, .min_p = 0.1F}},
        {"typical_p", {.temperature = 1.0F, .typical_p = 0.6F}},
        {"xtc", {.temperature = 1.0F, .xtc_probability = 1.0F, .xtc_threshold = 0.02F}},
    };
    uint32_t n_samplers;
    uint32_t n_cut = 0;
    const sampler *const *table = sampler_table(&n_samplers);
    buffers b = buffers_new(500);
    for (uint32_t k = 0; k < n_samplers; k++) {
        assert_true((table[k]->cut == NULL) != (table[k]->adjust == NULL));
        if (table[k]->cut == NULL) continue;
        const weft_sampling *params = &ALONE[n_cut].params;
        assert_string_equal(table[k]->name, ALONE[n_cut].name);
        for (uint32_t other = 0; other < COUNT_OF(ALONE); other++)
            assert_int_equal(table[k]->active(&ALONE[other].params), n_cut == other);
        n_cut++;
        for (uint32_t round = 0; round < 200; round++) {
            fill(&b, round % 2 == 0 ? SMOOTH : TIES);
            candidates c = {.ids = b.scratch.ids, .logits = b.scratch.logits, .n_all = b.n};
            left l = plain_chain(b.logits, b.n, params, round, b.p, 0.0);
            for (uint32_t i = 0; i < b.n; i++) {
                c.ids[i] = b.p[b.n - 1 - i].id;
                c.logits[i] = (float)b.p[b.n - 1 - i].logit;
            }
            candidates_init(&c);
            table[k]->cut(&c, params, round);
            assert_int_equal(c.first, l.first);
            assert_int_equal(c.n, l.end);
            assert_true(c.n == c.n_all || c.n_sorted >= c.n);
            candidates_sort(&c, c.n);
            for (uint32_t i = c.first; i < c.n; i++) assert_int_equal(c.ids[i], b.p[i].id);
        }
    }
    assert_int_equal(n_cut, COUNT_OF(ALONE));
    buffers_free(&b);
}

static void test_large_vocabulary(void **state)
{
    (void)state;
    buffers b = buffers_new(300000);
    for (uint32_t round = 0; round < 6; round++) {
        fill(&b, (shape)round);
        weft_sampling params = random_params();
        params.temperature = 1.0F;
        params.typical_p = 1.0F;
        sample s = draw(&b, &params, round);
        int32_t expected;
        if (plain_draw(&b, &params, round, &expected)) assert_int_equal(s.id, expected);
    }
    buffers_free(&b);
}

static void test_greedy(void **state)
{
    (void)state;
    buffers b = buffers_new(200);
    for (uint32_t round = 0; round < 2000; round++) {
        fill(&b, (shape)pick(N_SHAPES));
        int32_t best = -1;
        for (uint32_t i = 0; i < b.n; i++) {
            if (isnan(b.logits[i])) continue;
            if (best < 0 || b.logits[i] > b.logits[best]) best = (int32_t)i;
        }
        assert_int_equal(draw(&b, &GREEDY, round).id, best);
        /* So is a temperature near nothing, but for ties, and the best of one. */
        weft_sampling cold = {.temperature = 1e-30F, .top_p = 1.0F, .seed = round};
        assert_true(b.logits[draw(&b, &cold, round).id] == b.logits[best]);
        weft_sampling one = {.temperature = 5.0F, .top_p = 1.0F, .top_k = 1, .seed = round};
        assert_int_equal(draw(&b, &one, round).id, best);
    }
    buffers_free(&b);
}

/* The draw depends on (seed, position) and nothing else. */
static void test_same_seed_and_position_same_token(void **state)
{
    (void)state;
    buffers b = buffers_new(300);
    fill(&b, FLAT);
    weft_sampling params = {.temperature = 1.0F, .top_p = 1.0F, .seed = 4};
    int32_t ids[100];
    uint32_t n_same = 0;
    for (uint32_t i = 0; i < 100; i++) ids[i] = draw(&b, &params, i).id;
    for (uint32_t i = 100; i-- > 0;) assert_int_equal(draw(&b, &params, i).id, ids[i]);
    params.seed = 5;
    for (uint32_t i = 0; i < 100; i++) n_same += draw(&b, &params, i).id == ids[i];
    assert_true(n_same < 10);
    buffers_free(&b);
}

/* Pearson's statistic of n draws; at most 5 standard deviations above its mean of (categories -
 * 1). */
static void check_distribution(buffers *b, const weft_sampling *params, const double *p)
{
    enum { DRAWS = 20000 };
    uint32_t *seen = calloc(b->n, sizeof *seen);
    double statistic = 0.0;
    uint32_t categories = 0;
    for (uint32_t i = 0; i < DRAWS; i++) seen[draw(b, params, i).id]++;
    for (uint32_t i = 0; i < b->n; i++) {
        double expected = p[i] * DRAWS;
        if (p[i] == 0.0) assert_int_equal(seen[i], 0);
        if (p[i] == 0.0) continue;
        statistic += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
        categories++;
    }
    double freedom = categories - 1.0;
    if (statistic > freedom + 5.0 * sqrt(2.0 * freedom) + 5.0) {
        fail_msg("chi square %.1f with %.0f degrees of freedom", statistic, freedom);
    }
    free(seen);
}

static void test_distribution(void **state)
{
    (void)state;
    enum { N = 12 };
    buffers b = buffers_new(N);
    for (uint32_t k = 0; k < 8; k++) {
        static const weft_sampling PARAMS[] = {
            {.temperature = 1.0F, .top_p = 1.0F, .seed = 1},
            {.temperature = 0.5F, .top_p = 1.0F, .seed = 2},
            {.temperature = 3.0F, .top_p = 1.0F, .seed = UINT64_MAX},
            {.temperature = 1.0F, .top_p = 1.0F, .top_k = 5, .seed = 3},
            {.temperature = 1.0F, .top_p = 0.7F, .seed = 4},
            {.temperature = 1.0F, .top_p = 1.0F, .min_p = 0.3F, .seed = 5},
            {.temperature = 1.0F, .typical_p = 0.5F, .seed = 6},
            {.temperature = 1.0F, .xtc_probability = 1.0F, .xtc_threshold = 0.1F, .seed = 7},
        };
        for (uint32_t i = 0; i < N; i++) b.logits[i] = (float)((i * 5) % N) * 0.25F;
        b.logits[3] = -INFINITY;
        b.logits[7] = NAN;
        double p[N] = {0.0};
        left l = plain_chain(b.logits, N, &PARAMS[k], 0, b.p, 0.0);
        double total = 0.0;
        for (uint32_t i = l.first; i < l.end; i++) total += weight_of(b.p, i);
        for (uint32_t i = l.first; i < l.end; i++) p[b.p[i].id] = weight_of(b.p, i) / total;
        check_distribution(&b, &PARAMS[k], p);
    }
    buffers_free(&b);
}

/* Of the logits as the model gave them, whatever the samplers did. */
static void test_logprob(void **state)
{
    (void)state;
    buffers b = buffers_new(100);
    for (uint32_t round = 0; round < 500; round++) {
        fill(&b, (shape)pick(N_SHAPES));
        weft_sampling params = random_params();
        sample s = draw(&b, &params, round);
        double max = (double)-INFINITY;
        double sum = 0.0;
        for (uint32_t i = 0; i < b.n; i++) {
            if ((double)b.logits[i] > max) max = (double)b.logits[i];
        }
        for (uint32_t i = 0; i < b.n; i++) {
            if (!isnan(b.logits[i])) sum += exp((double)b.logits[i] - max);
        }
        float expected = (float)((double)b.logits[s.id] - max - log(sum));
        assert_true(s.logprob <= 0.0F);
        assert_true(fabsf(s.logprob - expected) <= 1e-6F * fmaxf(1.0F, fabsf(expected)));
        sample greedy = draw(&b, &GREEDY, round);
        assert_true(greedy.logprob >= s.logprob);
    }
    buffers_free(&b);
}

static void test_logits_that_are_no_numbers(void **state)
{
    (void)state;
    buffers b = buffers_new(4);
    weft_sampling hot = {.temperature = 1.0F, .top_p = 1.0F};
    const float none[4] = {NAN, -INFINITY, NAN, -INFINITY};
    memcpy(b.logits, none, sizeof none);
    for (int k = 0; k < 2; k++) {
        sample out = {.id = 7, .logprob = 1.0F};
        weft_error err = {0};
        sample_input in = input(&b, k == 0 ? &GREEDY : &hot, 0);
        assert_status(WEFT_FORMAT, sample_token(&in, &b.scratch, &out, &err), &err);
        assert_message(&err, "none of 4 logits is a number above minus infinity");
        assert_int_equal(out.id, -1);
    }
    /* One that is certain, or two that share. */
    const float certain[4] = {1.0F, NAN, INFINITY, 3.0F};
    memcpy(b.logits, certain, sizeof certain);
    sample s = draw(&b, &hot, 0);
    assert_int_equal(s.id, 2);
    assert_true(s.logprob == 0.0F);
    b.logits[3] = INFINITY;
    s = draw(&b, &GREEDY, 0);
    assert_int_equal(s.id, 2);
    assert_true(fabsf(s.logprob - logf(0.5F)) < 1e-6F);
    /* One among none. */
    b.logits[2] = NAN;
    b.logits[3] = -3e38F;
    b.logits[0] = -INFINITY;
    s = draw(&b, &hot, 0);
    assert_int_equal(s.id, 3);
    assert_true(s.logprob == 0.0F);
    buffers_free(&b);
}

/* Extreme numbers are refused with the name of the field. */
static void test_extreme_parameters(void **state)
{
    (void)state;
    static const struct {
        weft_sampling params;
        const char *message; /* NULL: fine */
    } CASES[] = {
        {{.temperature = 0.0F, .top_p = 1.0F}, NULL},
        {{.temperature = -0.0F, .top_p = 1.0F}, NULL},
        {{.temperature = 100.0F, .top_p = 1e-45F, .min_p = 0.999999F, .top_k = UINT32_MAX}, NULL},
        {{.temperature = 1e-45F, .top_p = 1.0F, .seed = UINT64_MAX}, NULL},
        {{.temperature = 1e6F, .top_p = 1.0F}, "temperature is 1e+06, expected 0 to 100"},
        {{.temperature = -1.0F, .top_p = 1.0F}, "temperature is -1,"},
        {{.temperature = NAN, .top_p = 1.0F}, "temperature is nan,"},
        {{.temperature = INFINITY, .top_p = 1.0F}, "temperature is inf,"},
        {{.temperature = 0.0F}, NULL},
        {{.temperature = 1.0F}, NULL},
        {{.temperature = 1.0F, .top_p = -1.0F}, "top_p is -1, expected 0 to 1"},
        {{.temperature = 1.0F, .top_p = 2.0F}, "top_p is 2,"},
        {{.temperature = 1.0F, .top_p = NAN}, "top_p is nan,"},
        {{.temperature = 1.0F, .top_p = 1.0F, .min_p = 1.0F},
         "min_p is 1, expected at least 0 and less than 1"},
        {{.temperature = 1.0F, .top_p = 1.0F, .min_p = -0.1F}, "min_p is -0.1,"},
        {{.temperature = 1.0F, .top_p = 1.0F, .min_p = NAN}, "min_p is nan,"},
    };
    buffers b = buffers_new(70);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        weft_error err = {0};
        weft_status status = sampling_check(&CASES[i].params, 70, &err);
        if (CASES[i].message == NULL) {
            assert_ok(status, &err);
            fill(&b, SMOOTH);
            sample s = draw(&b, &CASES[i].params, i);
            assert_in_range(s.id, 0, 69);
        } else {
            assert_status(WEFT_ARGUMENT, status, &err);
            assert_message(&err, CASES[i].message);
            assert_status(WEFT_ARGUMENT, sampling_check(&CASES[i].params, 70, NULL), NULL);
        }
    }
    buffers_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain_against_sorting),
        cmocka_unit_test(test_each_sampler_alone),
        cmocka_unit_test(test_large_vocabulary),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_same_seed_and_position_same_token),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_logprob),
        cmocka_unit_test(test_logits_that_are_no_numbers),
        cmocka_unit_test(test_extreme_parameters),
    };
    return TEST_RUN("sample/chain", tests);
}
