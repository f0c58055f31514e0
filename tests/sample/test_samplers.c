/* test_samplers.c - what changes logits, against plain implementations and numbers worked out by
 * hand; masks; the likeliest tokens; bounds of the parameters. */
#include "sample/chain.h"
#include "support/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

enum { VOCAB = 130, HISTORY = 400 };

static uint64_t counter;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)(rng_u64(97, counter++) % n);
}

typedef struct world {
    float logits[VOCAB], copy[VOCAB], expected[VOCAB];
    int32_t history[HISTORY];
    weft_top_logprob top[WEFT_TOP_LOGPROBS];
    uint64_t mask[3], breakers[3];
    int32_t ids[VOCAB];
    float heap[VOCAB], adjusted[VOCAB];
    uint32_t counts[VOCAB], repeats[HISTORY];
    sample_scratch scratch;
    weft_sampling params;
    sample_input in;
} world;

static void world_init(world *w)
{
    *w = (world){.params = {.temperature = 0.0F}};
    w->scratch = (sample_scratch){w->ids, w->heap, w->adjusted, w->counts, w->repeats};
    w->in = (sample_input){
        .logits = w->logits, .n_vocab = VOCAB, .params = &w->params, .history = w->history};
    for (uint32_t i = 0; i < VOCAB; i++)
        w->logits[i] = (float)(rng_unit(98, counter++) * 20.0 - 10.0);
}

static sample take(world *w)
{
    sample out = {.id = 7777};
    weft_error err = {0};
    memcpy(w->copy, w->logits, sizeof w->copy);
    assert_ok(sampling_check(&w->params, w->in.n_vocab, &err), &err);
    assert_ok(sample_token(&w->in, &w->scratch, &out, &err), &err);
    assert_memory_equal(w->copy, w->logits, sizeof w->copy);
    for (uint32_t i = 0; i < VOCAB; i++) assert_int_equal(w->counts[i], 0);
    return out;
}

/* Fails unless what the samplers made of the logits is what is expected, within a few roundings. */
static void check_adjusted(world *w)
{
    sample s = take(w);
    int32_t best = 0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        float difference = fabsf(w->adjusted[i] - w->expected[i]);
        if (w->adjusted[i] == w->expected[i]) difference = 0.0F;
        assert_true(difference <= 1e-5F * fmaxf(1.0F, fabsf(w->expected[i])));
        if (w->adjusted[i] > w->adjusted[best]) best = (int32_t)i;
    }
    assert_int_equal(s.id, best);
}

/* ---- penalties ---- */

/* Token by token, as the formulas are written. */
static void penalize_plainly(world *w)
{
    const weft_sampling *p = &w->params;
    uint32_t n = w->in.n_history;
    uint32_t first = p->penalty_range != 0 && p->penalty_range < n ? n - p->penalty_range : 0;
    for (int32_t id = 0; id < VOCAB; id++) {
        bool seen = false;
        uint32_t count = 0;
        for (uint32_t i = first; i < n; i++) {
            seen = seen || w->history[i] == id;
            count += w->history[i] == id && i >= w->in.n_prompt;
        }
        float x = w->logits[id];
        float factor = p->repetition_penalty != 0.0F ? p->repetition_penalty : 1.0F;
        if (seen) x = x < 0.0F ? x * factor : x / factor;
        x -= p->frequency_penalty * (float)count;
        if (count > 0) x -= p->presence_penalty;
        w->expected[id] = x;
    }
}

static void test_penalties(void **state)
{
    (void)state;
    static const float FACTORS[] = {0.0F, 1.0F, 1.3F, 0.5F, 100.0F, 0.01F};
    static const float NUMBERS[] = {0.0F, 0.5F, 2.0F, -2.0F, -0.1F};
    for (uint32_t round = 0; round < 500; round++) {
        world w;
        world_init(&w);
        w.in.n_history = pick(HISTORY + 1);
        w.in.n_prompt = w.in.n_history > 0 ? pick(w.in.n_history + 1) : 0;
        for (uint32_t i = 0; i < w.in.n_history; i++) w.history[i] = (int32_t)pick(VOCAB / 2);
        w.params.repetition_penalty = FACTORS[pick(COUNT_OF(FACTORS))];
        w.params.presence_penalty = NUMBERS[pick(COUNT_OF(NUMBERS))];
        w.params.frequency_penalty = NUMBERS[pick(COUNT_OF(NUMBERS))];
        w.params.penalty_range = pick(2) == 0 ? 0 : pick(HISTORY);
        /* So that something is changed in any case. */
        w.params.presence_penalty += 0.001F;
        if (w.params.presence_penalty > 2.0F) w.params.presence_penalty = 2.0F;
        penalize_plainly(&w);
        check_adjusted(&w);
    }
}

/* Numbers worked out by hand: which part counts the prompt, and which the answer only. */
static void test_penalties_by_hand(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    w.in.n_vocab = 4;
    memcpy(w.logits, (const float[]){2.0F, -1.0F, 3.0F, 2.75F}, 4 * sizeof(float));
    memcpy(w.history, (const int32_t[]){0, 1, 2, 1, 2, 2}, 6 * sizeof(int32_t));
    w.in.n_history = 6;
    w.in.n_prompt = 2;
    w.params.repetition_penalty = 2.0F;
    w.params.presence_penalty = 0.25F;
    w.params.frequency_penalty = 0.5F;
    assert_int_equal(take(&w).id, 3);
    assert_true(w.adjusted[0] == 1.0F);          /* 2 / 2: of the prompt */
    assert_true(w.adjusted[1] == -2.0F - 0.75F); /* -1 * 2 - 0.5 - 0.25 */
    assert_true(w.adjusted[2] == 1.5F - 1.75F);  /* 3 / 2 - 3 * 0.5 - 0.25 */
    assert_true(w.adjusted[3] == 2.75F);         /* was never there */
    w.params.penalty_range = 1;
    assert_int_equal(take(&w).id, 3);
    assert_true(w.adjusted[0] == 2.0F && w.adjusted[1] == -1.0F);
    assert_true(w.adjusted[2] == 1.5F - 0.75F);
}

/* What is no number, or none above minus infinity, stays it, and what is large stays a number. */
static void test_extremes(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    const weft_logit_bias bias[] = {{0, 100.0F}, {1, -100.0F}, {2, 100.0F}, {3, -100.0F}};
    w.in.n_vocab = 4;
    memcpy(w.logits, (const float[]){NAN, -INFINITY, FLT_MAX, -FLT_MAX}, 4 * sizeof(float));
    memcpy(w.history, (const int32_t[]){0, 1, 2, 3, 0, 1, 2, 3}, 8 * sizeof(int32_t));
    w.in.n_history = 8;
    w.params = (weft_sampling){.temperature = 1.0F,
                               .repetition_penalty = 0.01F,
                               .presence_penalty = -2.0F,
                               .frequency_penalty = -2.0F,
                               .dry_multiplier = 100.0F,
                               .dry_base = 100.0F,
                               .dry_allowed_length = 1,
                               .logit_bias = bias,
                               .n_logit_bias = 4};
    for (uint32_t k = 0; k < 2; k++) {
        assert_int_equal(take(&w).id, 2);
        assert_true(isnan(w.adjusted[0]) && w.adjusted[1] == -INFINITY);
        assert_true(isfinite(w.adjusted[2]) && isfinite(w.adjusted[3]));
        w.params.repetition_penalty = 100.0F;
    }
    /* One that is certain stays it, unless it is forbidden. */
    w.logits[3] = INFINITY;
    assert_int_equal(take(&w).id, 3);
    const int32_t none = 3;
    w.in.forbidden = &none;
    w.in.n_forbidden = 1;
    assert_int_equal(take(&w).id, 2);
}

/* ---- DRY ---- */

/* For each earlier place, how far back it reads as the end does. */
static void dry_plainly(world *w)
{
    const weft_sampling *p = &w->params;
    uint32_t first =
        p->dry_range != 0 && p->dry_range < w->in.n_history ? w->in.n_history - p->dry_range : 0;
    const int32_t *text = w->history + first;
    uint32_t n = w->in.n_history - first;
    uint32_t longest[VOCAB] = {0};
    uint32_t allowed = p->dry_allowed_length != 0 ? p->dry_allowed_length : 2;
    double base = p->dry_base != 0.0F ? (double)p->dry_base : 1.75;
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t length = 0;
        while (length <= i && text[i - length] == text[n - 1 - length] &&
               !sample_mask_has(w->breakers, text[i - length]))
            length++;
        if (!sample_mask_has(w->breakers, text[i + 1]) && length > longest[text[i + 1]])
            longest[text[i + 1]] = length;
    }
    for (uint32_t id = 0; id < VOCAB; id++) {
        double penalty = 0.0;
        if (longest[id] >= allowed)
            penalty = (double)p->dry_multiplier * pow(base, (double)(longest[id] - allowed));
        w->expected[id] = (float)fmax((double)w->logits[id] - penalty, (double)-FLT_MAX);
    }
}

static void test_dry(void **state)
{
    (void)state;
    uint32_t n_penalized = 0;
    for (uint32_t round = 0; round < 1000; round++) {
        world w;
        world_init(&w);
        /* A few words, so that there are many repeats, also of themselves; or one word. */
        uint32_t n_words = round % 10 == 0 ? 1 : 2 + pick(6);
        w.in.n_history = pick(HISTORY + 1);
        w.in.n_prompt = w.in.n_history / 2;
        for (uint32_t i = 0; i < w.in.n_history; i++) w.history[i] = (int32_t)pick(n_words);
        w.params.dry_multiplier = 0.1F * (float)(1 + pick(20));
        w.params.dry_base = pick(3) == 0 ? 0.0F : 1.0F + 0.2F * (float)pick(5);
        w.params.dry_allowed_length = pick(5);
        w.params.dry_range = pick(2) == 0 ? 0 : pick(HISTORY);
        w.in.breakers = pick(2) == 0 ? NULL : w.breakers;
        if (w.in.breakers != NULL) w.breakers[0] = (uint64_t)1 << pick(8);
        dry_plainly(&w);
        check_adjusted(&w);
        n_penalized += memcmp(w.adjusted, w.logits, sizeof w.adjusted) != 0;
    }
    assert_true(n_penalized > 500);
}

static void test_dry_by_hand(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    memset(w.logits, 0, sizeof w.logits);
    /* 1 2 3 was there before 4, and 2 3 before 5: the longer one counts for each. */
    memcpy(w.history, (const int32_t[]){1, 2, 3, 4, 9, 2, 3, 5, 8, 1, 2, 3}, 12 * sizeof(int32_t));
    w.in.n_history = 12;
    w.in.n_prompt = 12;
    w.params.dry_multiplier = 0.5F;
    w.params.dry_base = 2.0F;
    take(&w);
    for (int32_t id = 0; id < VOCAB; id++)
        assert_true(w.adjusted[id] == (id == 4 ? -1.0F : id == 5 ? -0.5F : 0.0F));
    /* No repeat reaches over a breaker, and none is penalized. */
    w.in.breakers = w.breakers;
    w.breakers[0] = 1u << 1;
    take(&w);
    assert_true(w.adjusted[4] == -0.5F && w.adjusted[5] == -0.5F);
    w.breakers[0] = 1u << 5;
    take(&w);
    assert_true(w.adjusted[4] == -1.0F && w.adjusted[5] == 0.0F);
    w.breakers[0] = 1u << 3;
    take(&w);
    assert_true(w.adjusted[4] == 0.0F && w.adjusted[5] == 0.0F);
}

/* ---- logit bias, masks ---- */

static void test_logit_bias(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    memset(w.logits, 0, sizeof w.logits);
    const weft_logit_bias bias[] = {
        {5, 3.0F}, {129, 2.0F}, {129, 2.0F}, {6, 100.0F}, {6, -INFINITY}};
    w.params.logit_bias = bias;
    w.params.n_logit_bias = 5;
    assert_int_equal(take(&w).id, 129); /* those of one token add up */
    assert_true(w.adjusted[5] == 3.0F && w.adjusted[129] == 4.0F && w.adjusted[6] == -INFINITY);
    /* With a temperature it is still sampled, by odds that e^bias changed. */
    enum { DRAWS = 20000 };
    uint32_t seen[VOCAB] = {0};
    w.params.temperature = 1.0F;
    w.params.seed = 3;
    for (uint32_t i = 0; i < DRAWS; i++) {
        w.in.position = i;
        seen[take(&w).id]++;
    }
    double total = 127.0 + exp(3.0) + exp(4.0);
    assert_int_equal(seen[6], 0);
    assert_true(fabs((double)seen[5] / DRAWS - exp(3.0) / total) < 0.01);
    assert_true(fabs((double)seen[129] / DRAWS - exp(4.0) / total) < 0.01);
    assert_true(seen[0] > 0 && seen[64] > 0);
}

/* What is not allowed is never sampled, whatever it is given; log-probabilities stay those of the
 * model. */
static void test_masks(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        world w;
        world_init(&w);
        int32_t forbidden[3] = {(int32_t)pick(VOCAB), (int32_t)pick(VOCAB), (int32_t)pick(VOCAB)};
        weft_logit_bias bias = {forbidden[0], 100.0F};
        for (uint32_t i = 0; i < 3; i++) w.mask[i] = rng_u64(99, counter++) | (i == 1);
        w.mask[1] |= 0xffff;
        w.in.allowed = w.mask;
        w.in.forbidden = forbidden;
        w.in.n_forbidden = 3;
        w.params = (weft_sampling){.temperature = (float)(round % 2) * 3.0F,
                                   .logit_bias = &bias,
                                   .n_logit_bias = 1,
                                   .seed = round};
        sample s = take(&w);
        assert_true(sample_mask_has(w.mask, s.id));
        for (uint32_t i = 0; i < 3; i++) assert_int_not_equal(s.id, forbidden[i]);
        double sum = 0.0;
        for (uint32_t i = 0; i < VOCAB; i++) sum += exp((double)w.logits[i]);
        assert_true(fabs((double)s.logprob - ((double)w.logits[s.id] - log(sum))) < 1e-5);
    }
    world w;
    world_init(&w);
    sample out;
    weft_error err = {0};
    const int32_t only = 70;
    w.mask[1] = 1u << (70 - 64);
    w.in.allowed = w.mask;
    assert_int_equal(take(&w).id, 70);
    w.in.forbidden = &only;
    w.in.n_forbidden = 1;
    assert_status(WEFT_ARGUMENT, sample_token(&w.in, &w.scratch, &out, &err), &err);
    assert_message(&err, "what is forbidden leaves none of 130");
    assert_int_equal(out.id, -1);
}

static void test_one_token(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    w.in.n_vocab = 1;
    w.in.n_history = 50;
    w.in.top = w.top;
    w.in.n_top = 5;
    const weft_logit_bias bias = {0, -100.0F};
    w.params = (weft_sampling){.temperature = 2.0F,
                               .top_p = 0.1F,
                               .min_p = 0.9F,
                               .top_k = 7,
                               .typical_p = 0.1F,
                               .xtc_probability = 1.0F,
                               .xtc_threshold = 0.1F,
                               .repetition_penalty = 2.0F,
                               .presence_penalty = 1.0F,
                               .frequency_penalty = 1.0F,
                               .dry_multiplier = 1.0F,
                               .logit_bias = &bias,
                               .n_logit_bias = 1};
    sample s = take(&w);
    assert_int_equal(s.id, 0);
    assert_true(s.logprob == 0.0F);
    assert_int_equal(s.n_top, 1);
}

/* ---- the likeliest tokens ---- */

static void test_top(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 600; round++) {
        world w;
        world_init(&w);
        for (uint32_t i = 0; i < VOCAB; i++) {
            if (round % 3 == 1) w.logits[i] = (float)pick(4); /* ties */
            if (round % 3 == 2 && pick(4) > 0) w.logits[i] = pick(2) == 0 ? NAN : -INFINITY;
        }
        w.logits[pick(VOCAB)] = 1.5F;
        w.in.top = w.top;
        w.in.n_top = pick(WEFT_TOP_LOGPROBS + 1);
        w.params.temperature = 1.0F;
        w.params.seed = round;
        w.params.xtc_probability = 1.0F;
        w.params.xtc_threshold = 0.1F;
        sample s = take(&w);
        bool taken[VOCAB] = {false};
        uint32_t n = 0;
        while (n < w.in.n_top) {
            int32_t best = -1;
            for (int32_t i = 0; i < VOCAB; i++) {
                if (taken[i] || !(w.logits[i] > -INFINITY)) continue;
                if (best < 0 || w.logits[i] > w.logits[best]) best = i;
            }
            if (best < 0) break;
            taken[best] = true;
            assert_int_equal(w.top[n].token, best);
            /* The bits of the token's own log-probability. */
            if (best == s.id) assert_memory_equal(&w.top[n].logprob, &s.logprob, sizeof(float));
            assert_true(n == 0 || w.top[n].logprob <= w.top[n - 1].logprob);
            n++;
        }
        assert_int_equal(s.n_top, n);
    }
}

/* ---- bounds ---- */

static void test_bounds(void **state)
{
    (void)state;
    static const weft_logit_bias OUTSIDE = {130, 1.0F};
    static const weft_logit_bias NEGATIVE = {-1, 1.0F};
    static const weft_logit_bias LARGE = {7, 100.5F};
    static const weft_logit_bias NO_NUMBER = {7, NAN};
    static const weft_logit_bias CERTAIN = {7, INFINITY};
    static const char *const EMPTY[] = {"a", ""};
    static const char *const INVALID[] = {"\xff"};
    char long_text[WEFT_STOP_TEXT_BYTES + 2];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    const char *const longs[] = {long_text};
    const struct {
        weft_sampling params;
        const char *message;
    } cases[] = {
        {{.typical_p = -0.1F}, "typical_p is -0.1, expected 0 to 1"},
        {{.typical_p = NAN}, "typical_p is nan"},
        {{.xtc_probability = 1.1F, .xtc_threshold = 0.1F},
         "xtc_probability is 1.1, expected 0 to 1"},
        {{.xtc_probability = NAN}, "xtc_probability is nan"},
        {{.xtc_probability = 0.5F}, "xtc_threshold is 0, expected more"},
        {{.xtc_threshold = 0.6F}, "xtc_threshold is 0.6, expected 0 to 0.5"},
        {{.xtc_threshold = NAN}, "xtc_threshold is nan"},
        {{.repetition_penalty = -1.0F}, "repetition_penalty is -1, expected 0.01 to 100"},
        {{.repetition_penalty = 1e6F}, "repetition_penalty is 1e+06"},
        {{.repetition_penalty = NAN}, "repetition_penalty is nan"},
        {{.presence_penalty = 2.1F}, "presence_penalty is 2.1, expected -2 to 2"},
        {{.presence_penalty = NAN}, "presence_penalty is nan"},
        {{.frequency_penalty = -2.1F}, "frequency_penalty is -2.1, expected -2 to 2"},
        {{.frequency_penalty = INFINITY}, "frequency_penalty is inf"},
        {{.dry_multiplier = -1.0F}, "dry_multiplier is -1, expected 0 to 100"},
        {{.dry_multiplier = NAN}, "dry_multiplier is nan"},
        {{.dry_base = 0.5F}, "dry_base is 0.5, expected 1 to 100"},
        {{.dry_base = NAN}, "dry_base is nan"},
        {{.n_dry_breakers = 1}, "dry_breakers is NULL"},
        {{.n_dry_breakers = 2, .dry_breakers = EMPTY}, "dry_breakers 1 is empty"},
        {{.n_dry_breakers = 1, .dry_breakers = INVALID}, "dry_breakers 0 is not UTF-8"},
        {{.n_dry_breakers = 1, .dry_breakers = longs}, "dry_breakers 0 has more than 256 bytes"},
        {{.n_dry_breakers = 17, .dry_breakers = EMPTY}, "dry_breakers has 17 entries, at most 16"},
        {{.n_logit_bias = 1}, "logit_bias is NULL"},
        {{.n_logit_bias = 1025, .logit_bias = &LARGE}, "logit_bias has 1025 entries, at most 1024"},
        {{.n_logit_bias = 1, .logit_bias = &OUTSIDE}, "token id 130, the vocabulary has 130"},
        {{.n_logit_bias = 1, .logit_bias = &NEGATIVE}, "token id -1, the vocabulary has 130"},
        {{.n_logit_bias = 1, .logit_bias = &LARGE}, "logit_bias of token id 7 is 100.5"},
        {{.n_logit_bias = 1, .logit_bias = &NO_NUMBER}, "logit_bias of token id 7 is nan"},
        {{.n_logit_bias = 1, .logit_bias = &CERTAIN}, "logit_bias of token id 7 is inf"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft_error err = {0};
        weft_status status = sampling_check(&cases[i].params, VOCAB, &err);
        assert_true(status == WEFT_ARGUMENT || status == WEFT_LIMIT);
        assert_status(status, status, &err);
        assert_message(&err, cases[i].message);
    }
    /* Whole numbers have no bounds that they could miss. */
    world w;
    world_init(&w);
    w.in.n_history = 100;
    w.params = (weft_sampling){.temperature = 1.0F,
                               .top_k = UINT32_MAX,
                               .presence_penalty = 1.0F,
                               .penalty_range = UINT32_MAX,
                               .dry_multiplier = 1.0F,
                               .dry_allowed_length = UINT32_MAX,
                               .dry_range = UINT32_MAX};
    assert_in_range(take(&w).id, 0, VOCAB - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_penalties),   cmocka_unit_test(test_penalties_by_hand),
        cmocka_unit_test(test_extremes),    cmocka_unit_test(test_dry),
        cmocka_unit_test(test_dry_by_hand), cmocka_unit_test(test_logit_bias),
        cmocka_unit_test(test_masks),       cmocka_unit_test(test_one_token),
        cmocka_unit_test(test_top),         cmocka_unit_test(test_bounds),
    };
    return TEST_RUN("sample/samplers", tests);
}
