/* test_drafts.c - KV-38: an answer is the same bits with any drafter, whatever part of its drafts
 * is right. A scripted drafter has every number of drafts with every number of right ones; all are
 * compared with requests that ran alone and without. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scripted.h"

enum { COMPANY = 4, NEW_TOKENS = 180 };

typedef struct setting {
    weft_act act;
    const char *kv, *isa, *backend;
    uint32_t n_rows; /* of COMPANY */
} setting;

/* Prompts that end before and behind the edge of a window or a page. */
static const uint32_t LENGTHS[COMPANY] = {30, 3, 61, 1};

static weft_engine *open_engine(const weft_model *model, setting s, weft_engine_options options)
{
    options.struct_size = sizeof options;
    options.backend = s.backend;
    options.isa = s.isa;
    options.kv = s.kv;
    options.act = s.act;
    if (options.n_threads == 0) options.n_threads = 1;
    options.context = 256;
    return run_open_engine(model, &options);
}

static void make_runs(run *runs, const setting *s, uint32_t n_vocab)
{
    memset(runs, 0, COMPANY * sizeof *runs);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        runs[i] = (run){.prompt = run_random_ids(LENGTHS[i], n_vocab, 7 + i),
                        .n_prompt = LENGTHS[i],
                        .max_new = NEW_TOKENS};
        if (i % 2 == 1)
            runs[i].sampling = (weft_sampling){
                .temperature = 0.8F, .top_p = 0.95F, .min_p = 0.01F, .top_k = 20, .seed = 1234 + i};
    }
}

static void free_runs(run *runs)
{
    for (uint32_t i = 0; i < COMPANY; i++) {
        free((void *)(uintptr_t)runs[i].prompt);
        run_free(&runs[i]);
    }
}

static void write_script(run *r, script *s, script_kind kind, const run *plain, uint32_t n_vocab,
                         uint32_t start)
{
    *s = (script){.kind = kind, .answer = plain, .n_vocab = n_vocab, .start = start};
    r->drafter = &SCRIPTED;
    r->draft_state = s;
}

static void assert_same(const run *r, const run *plain, uint32_t n_vocab)
{
    run_assert_identical(r, plain, n_vocab);
    assert_int_equal(r->finish, plain->finish);
}

/* Every number of drafts and right ones: one request at a time, then together. */
static void check_every_pattern(const weft_model *model, setting s, const run *plain, bool all_seen)
{
    uint32_t n_vocab = run_n_vocab(model);
    run runs[COMPANY];
    script scripts[COMPANY];
    make_runs(runs, &s, n_vocab);
    weft_engine *engine = open_engine(model, s, (weft_engine_options){.chunk_tokens = 64});
    for (uint32_t i = 0; i < s.n_rows; i++) {
        write_script(&runs[i], &scripts[i], SCRIPT_EVERY, &plain[i], n_vocab, 13 * i);
        run_all(engine, n_vocab, &runs[i], 1);
        assert_same(&runs[i], &plain[i], n_vocab);
        script_check(&scripts[i], &runs[i]);
        if (all_seen) script_assert_every(&scripts[i]);
    }
    weft_engine_close(engine);
    free_runs(runs);
    make_runs(runs, &s, n_vocab);
    weft_engine_options wide = {
        .chunk_tokens = 7, .max_outputs = 64, .n_threads = s.n_rows == 2 ? 2 : 1};
    engine = open_engine(model, s, wide);
    for (uint32_t i = 0; i < s.n_rows; i++) {
        write_script(&runs[i], &scripts[i], SCRIPT_EVERY, &plain[i], n_vocab, 10 * i + 5);
    }
    run_all(engine, n_vocab, runs, s.n_rows);
    for (uint32_t i = 0; i < s.n_rows; i++) {
        assert_same(&runs[i], &plain[i], n_vocab);
        script_check(&scripts[i], &runs[i]);
        if (all_seen) script_assert_every(&scripts[i]);
    }
    weft_engine_close(engine);
    free_runs(runs);
}

/* Drafters of all kinds side by side, and one row that has none, where they must share the outputs
 * there are. */
static void check_kinds(const weft_model *model, setting s, const run *plain, uint32_t first)
{
    uint32_t n_vocab = run_n_vocab(model);
    run runs[COMPANY];
    script scripts[COMPANY];
    make_runs(runs, &s, n_vocab);
    weft_engine_options few = {
        .chunk_tokens = 32, .max_sequences = COMPANY, .max_outputs = COMPANY + 9};
    weft_engine *engine = open_engine(model, s, few);
    for (uint32_t i = 0; i < s.n_rows; i++) {
        uint32_t kind = (first + i) % (SCRIPT_KINDS + 2);
        if (kind < SCRIPT_KINDS)
            write_script(&runs[i], &scripts[i], (script_kind)kind, &plain[i], n_vocab, first);
        if (kind == SCRIPT_KINDS) runs[i].draft = "ngram";
    }
    run_all(engine, n_vocab, runs, s.n_rows);
    for (uint32_t i = 0; i < s.n_rows; i++) {
        assert_same(&runs[i], &plain[i], n_vocab);
        if (runs[i].drafter != NULL) script_check(&scripts[i], &runs[i]);
    }
    weft_engine_close(engine);
    free_runs(runs);
}

static void check_setting(const weft_model *model, setting s)
{
    uint32_t n_vocab = run_n_vocab(model);
    run plain[COMPANY];
    make_runs(plain, &s, n_vocab);
    weft_engine *engine =
        open_engine(model, s, (weft_engine_options){.max_drafts = WEFT_NO_DRAFTS});
    for (uint32_t i = 0; i < s.n_rows; i++) run_all(engine, n_vocab, &plain[i], 1);
    weft_engine_close(engine);
    /* A row may not span the position where a sequence is converted, which shortens one. */
    bool spans = s.kv != NULL && strstr(s.kv, "start=") != NULL;
    check_every_pattern(model, s, plain, !spans);
    uint32_t apart = TEST_SLOWED || s.n_rows == 1 ? SCRIPT_KINDS : 3;
    for (uint32_t first = 0; first < SCRIPT_KINDS + 2; first += apart)
        check_kinds(model, s, plain, first);
    free_runs(plain);
}

static const char *const SPECS[] = {NULL, "affine8g64", "turbo-k8v4", "affine8g64,start=40",
                                    "turbo-k8v4,start=100"};

enum { N_SPECS = sizeof SPECS / sizeof SPECS[0] };

/* apart: every such spec of SPECS, from the first on. */
static void check_golden(const char *name, bool turbo, size_t apart)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, name);
    weft_model *model = run_open_model(path);
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t i = 0; i < n_isas && !TEST_SLOWED; i++) {
        check_setting(model, (setting){WEFT_ACT_BF16, NULL, isas[i], NULL, 1});
    }
    for (size_t i = 0; i < N_SPECS; i += TEST_SLOWED ? N_SPECS - 1 : apart) {
        if (!turbo && i > 0 && strstr(SPECS[i], "turbo") != NULL) continue;
        check_setting(model,
                      (setting){WEFT_ACT_F32, SPECS[i], NULL, NULL, TEST_SLOWED ? 2 : COMPANY});
    }
    weft_model_close(model);
}

static void test_kv38_full(void **state)
{
    (void)state;
    check_golden("llama", true, 1);
}

/* Across the edge of a window again and again. */
static void test_kv38_windows(void **state)
{
    (void)state;
    check_golden("gemma3", true, 1);
}

static void test_kv38_latents(void **state)
{
    (void)state;
    check_golden("deepseek_v3", false, 1);
    check_golden("glm_moe_dsa-shared", false, 2);
}

static void test_kv38_shared(void **state)
{
    (void)state;
    check_golden("gemma4-ple", true, 2);
}

static void test_kv38_recurrent(void **state)
{
    (void)state;
    check_golden("qwen3_5", true, 1);
}

/* Experts behind the recurrence; a recurrence that is a convolution and no more. */
static void test_kv38_hybrids(void **state)
{
    (void)state;
    check_golden("qwen3_5_moe", true, 3);
    check_golden("qwen3_next", true, 4);
    check_golden("lfm2", true, 2);
}

static void test_kv38_tiny(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"target-mlx8", "window-mlx4", "hybrid-mlx4"};
    static const char *const CODECS[] = {"turbo-k8v4,start=40", "affine8g64", NULL};
    for (size_t i = TEST_SLOWED ? 2 : 0; i < 3; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/models/tiny/%s", WEFT_SOURCE_DIR, NAMES[i]);
        weft_model *model = run_open_model(path);
        check_setting(model, (setting){WEFT_ACT_BF16, CODECS[i], NULL, NULL, 2});
        weft_model_close(model);
    }
}

static void test_kv38_ref(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH("qwen3_5"));
    check_setting(model, (setting){WEFT_ACT_F32, "affine8g64,start=40", NULL, "ref", 1});
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv38_full),      cmocka_unit_test(test_kv38_windows),
        cmocka_unit_test(test_kv38_latents),   cmocka_unit_test(test_kv38_shared),
        cmocka_unit_test(test_kv38_recurrent), cmocka_unit_test(test_kv38_tiny),
        cmocka_unit_test(test_kv38_ref),       cmocka_unit_test(test_kv38_hybrids),
    };
    return TEST_RUN("engine/drafts", tests);
}
