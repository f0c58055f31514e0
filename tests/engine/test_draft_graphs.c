/* test_draft_graphs.c - drafts of models and heads: KV-38 for each of them, and how many are right
 * where it is known how many must be. What they cost and how they end: test_draft_life.c. */
#include <stdlib.h>

#include "support/draft_world.h"

#define ASSISTED "gemma4-assistant/target"
#define DENSE_ASSISTANT "gemma4-assistant/assistant"
#define CENTROID_ASSISTANT "gemma4-assistant/assistant-centroid"

enum { COMPANY = 4, NEW_TOKENS = 120, PLAIN = 1 /* whose row does not draft */ };

/* Prompts that end before and behind the edge of a window or a page. */
static const uint32_t LENGTHS[COMPANY] = {30, 3, 61, 90};

static void make_run(run *r, uint32_t i, uint32_t n_vocab)
{
    *r = (run){.prompt = run_random_ids(LENGTHS[i], n_vocab, 70 + i),
               .n_prompt = LENGTHS[i],
               .max_new = NEW_TOKENS};
    if (i >= 2)
        r->sampling = (weft_sampling){
            .temperature = 0.8F, .top_p = 0.95F, .min_p = 0.01F, .top_k = 20, .seed = 1234 + i};
}

static void free_run(run *r)
{
    free((void *)(uintptr_t)r->prompt);
    run_free(r);
}

static void make_runs(const draft_world *w, run *runs)
{
    for (uint32_t i = 0; i < COMPANY; i++) make_run(&runs[i], i, w->n_vocab);
}

static void free_runs(run *runs)
{
    for (uint32_t i = 0; i < COMPANY; i++) free_run(&runs[i]);
}

static void assert_same(const draft_world *w, const run *r, const run *plain, const eager *s)
{
    run_assert_identical(r, plain, w->n_vocab);
    assert_int_equal(r->finish, plain->finish);
    if (s == NULL) return;
    assert_int_equal(s->n_drafted, r->n_drafted);
    assert_int_equal(s->n_right, r->n_accepted);
    assert_true(r->n_drafted > 0);
}

/* What a drafted run gave is kept for its tokens and logits; it may be made again. */
static void again(run *r)
{
    run_free(r);
    r->drafter = NULL;
    r->draft_state = NULL;
    r->draft = NULL;
}

/* ---- KV-38 ----------------------------------------------------------------------------------*/

/* All together and one that does not draft among them, in steps of chunk tokens: twice, so that the
 * second time all begin with what the first left (B23). */
static uint32_t check_together(const draft_world *w, const run *plain, weft_engine_options o)
{
    run runs[COMPANY];
    eager s[COMPANY] = {{.least = 1}, {.least = 1}, {.least = 4}, {.least = 0}};
    weft_engine *engine = draft_world_engine(w, true, o);
    uint32_t n_right = 0;
    make_runs(w, runs);
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < COMPANY; i++) {
            again(&runs[i]);
            s[i] = (eager){.least = s[i].least};
            if (i != PLAIN) draft_world_eager(w, &runs[i], &s[i]);
        }
        run_all(engine, w->n_vocab, runs, COMPANY);
        for (uint32_t i = 0; i < COMPANY; i++) {
            assert_same(w, &runs[i], &plain[i], i != PLAIN ? &s[i] : NULL);
            n_right += runs[i].n_accepted;
            if (pass == 1 && w->s.kv == NULL) assert_true(runs[i].n_cached + 1 >= LENGTHS[i]);
        }
    }
    weft_engine_close(engine);
    free_runs(runs);
    return n_right;
}

static void check_alone(const draft_world *w, const run *plain, weft_engine_options o)
{
    run runs[COMPANY];
    weft_engine *engine = draft_world_engine(w, true, o);
    make_runs(w, runs);
    for (uint32_t i = 0; i < COMPANY; i++) {
        eager s = {.least = i};
        draft_world_eager(w, &runs[i], &s);
        run_all(engine, w->n_vocab, &runs[i], 1);
        assert_same(w, &runs[i], &plain[i], &s);
    }
    weft_engine_close(engine);
    free_runs(runs);
}

static void check_setting(draft_setting of)
{
    draft_world w;
    run plain[COMPANY];
    draft_world_open(&w, of, NULL);
    make_runs(&w, plain);
    weft_engine *engine = draft_world_engine(
        &w, false,
        (weft_engine_options){.max_drafts = WEFT_NO_DRAFTS, .flags = WEFT_ENGINE_NO_CACHE});
    for (uint32_t i = 0; i < COMPANY; i++) run_all(engine, w.n_vocab, &plain[i], 1);
    weft_engine_close(engine);
    check_alone(&w, plain, (weft_engine_options){.chunk_tokens = 64});
    uint32_t n =
        check_together(&w, plain, (weft_engine_options){.chunk_tokens = 7, .max_outputs = 40});
    n += check_together(&w, plain, (weft_engine_options){.n_threads = 2});
    print_message("%s by %s, %s: %u right\n", of.golden, of.drafting ? of.drafting : "its head",
                  of.kv ? of.kv : "dense", n);
    free_runs(plain);
    draft_world_close(&w);
}

static void test_kv38_models(void **state)
{
    (void)state;
    static const draft_setting SETTINGS[] = {
        {"llama", "llama", NULL, NULL, NULL, WEFT_ACT_BF16},
        {"llama", "qwen3_5", "turbo-k8v4,start=40", NULL, NULL, WEFT_ACT_BF16},
        {"qwen3_5", "gemma3", "affine8g64", "affine8g64,start=50", NULL, WEFT_ACT_F32},
        {"gemma3", "lfm2", NULL, NULL, NULL, WEFT_ACT_F32},
        {"deepseek_v3", "llama", NULL, "turbo-k8v4", NULL, WEFT_ACT_F32},
        {"qwen3_next", "qwen3_5_moe", NULL, NULL, NULL, WEFT_ACT_F32},
        {"llama", "qwen3_5", NULL, NULL, "ref", WEFT_ACT_F32},
    };
    for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0]; i += TEST_SLOWED ? 3 : 1)
        check_setting(SETTINGS[i]);
}

static void test_kv38_assistants(void **state)
{
    (void)state;
    static const draft_setting SETTINGS[] = {
        {ASSISTED, DENSE_ASSISTANT, NULL, NULL, NULL, WEFT_ACT_BF16},
        {ASSISTED, CENTROID_ASSISTANT, "affine8g64,start=40", NULL, NULL, WEFT_ACT_F32},
        {ASSISTED, CENTROID_ASSISTANT, "turbo-k8v4", NULL, "ref", WEFT_ACT_F32},
    };
    for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0]; i += TEST_SLOWED ? 2 : 1)
        check_setting(SETTINGS[i]);
}

static void test_kv38_heads(void **state)
{
    (void)state;
    static const draft_setting SETTINGS[] = {
        {"qwen3_5-mtp", NULL, NULL, NULL, NULL, WEFT_ACT_BF16},
        {"qwen3_5-mtp", NULL, "affine8g64,start=40", NULL, NULL, WEFT_ACT_F32},
        {"qwen3_5-mtp", NULL, "turbo-k8v4", NULL, "ref", WEFT_ACT_F32},
    };
    for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0]; i += TEST_SLOWED ? 2 : 1)
        check_setting(SETTINGS[i]);
}

/* ---- how many are right ---------------------------------------------------------------------*/

/* A model that drafts for itself is always right, as its samples are drawn from the same stream: so
 * its state is what it ought to be, wherever drafts ended and however it is stored. */
static void check_itself(draft_setting of)
{
    draft_world w;
    run runs[COMPANY];
    eager s[COMPANY] = {{.least = 1}, {.least = 2}, {.least = 3}, {.least = 4}};
    of.drafting = of.golden;
    of.draft_kv = of.kv;
    draft_world_open(&w, of, NULL);
    make_runs(&w, runs);
    weft_engine *engine =
        draft_world_engine(&w, true, (weft_engine_options){.chunk_tokens = 32, .max_outputs = 40});
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < COMPANY; i++) {
            again(&runs[i]);
            draft_world_eager(&w, &runs[i], &s[i]);
        }
        run_all(engine, w.n_vocab, runs, COMPANY);
        for (uint32_t i = 0; i < COMPANY; i++) {
            assert_int_equal(runs[i].n_accepted, runs[i].n_drafted);
            assert_true(runs[i].n_drafted > NEW_TOKENS / 2);
        }
    }
    weft_engine_close(engine);
    free_runs(runs);
    draft_world_close(&w);
}

static void test_itself(void **state)
{
    (void)state;
    static const draft_setting SETTINGS[] = {
        {"llama", NULL, NULL, NULL, NULL, WEFT_ACT_BF16},
        {"gemma3", NULL, "affine8g64", NULL, NULL, WEFT_ACT_F32},
        {"qwen3_5", NULL, NULL, NULL, NULL, WEFT_ACT_BF16},
        {"qwen3_5", NULL, "turbo-k8v4", NULL, NULL, WEFT_ACT_F32},
        {"lfm2", NULL, NULL, NULL, NULL, WEFT_ACT_F32},
        {"deepseek_v3", NULL, NULL, NULL, NULL, WEFT_ACT_F32},
        {"gemma4-ple", NULL, NULL, NULL, "ref", WEFT_ACT_F32},
    };
    for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0]; i += TEST_SLOWED ? 2 : 1)
        check_itself(SETTINGS[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv38_models),
        cmocka_unit_test(test_kv38_assistants),
        cmocka_unit_test(test_kv38_heads),
        cmocka_unit_test(test_itself),
    };
    return TEST_RUN("engine/draft_graphs", tests);
}
