/* test_equality.c - promise P1: an answer is the same bits whatever company and chunks it had, and
 * however many threads computed it. On the goldens and the tiny models; test_equality_large.c has
 * the shapes of a large one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/runs.h"

typedef struct setting {
    weft_act act;
    const char *kv, *isa, *backend;
} setting;

static weft_engine *open_engine(const weft_model *model, setting s, uint32_t chunk,
                                uint32_t n_threads)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .backend = s.backend,
                                   .isa = s.isa,
                                   .kv = s.kv,
                                   .act = s.act,
                                   .n_threads = n_threads,
                                   .chunk_tokens = chunk,
                                   .max_outputs = 1024};
    return run_open_engine(model, &options);
}

enum { COMPANY = 4, NEW_TOKENS = 6 };

static const uint32_t LENGTHS[COMPANY] = {75, 3, 130, 1};

static void make_runs(run *runs, uint32_t n_vocab)
{
    memset(runs, 0, COMPANY * sizeof *runs);
    for (uint32_t i = 0; i < COMPANY; i++) {
        runs[i] = (run){.prompt = run_random_ids(LENGTHS[i], n_vocab, 7 + i),
                        .n_prompt = LENGTHS[i],
                        .max_new = NEW_TOKENS,
                        .want_prompt_logits = true};
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

/* Every sequence alone in one piece is what all others are compared with; a position that was not
 * the row's own would show (KV-13). */
static void check_setting(const weft_model *model, setting s)
{
    uint32_t n_vocab = run_n_vocab(model);
    run alone[COMPANY];
    make_runs(alone, n_vocab);
    uint32_t n_threads = s.backend == NULL ? 2 : 1;
    weft_engine *engine = open_engine(model, s, 512, n_threads);
    for (uint32_t i = 0; i < COMPANY; i++) run_all(engine, n_vocab, &alone[i], 1);
    weft_engine_close(engine);
    static const uint32_t CHUNKS[] = {7, 512, 1, 32};
    for (size_t c = 0; c < (TEST_SLOWED ? 1 : 4); c++) {
        for (uint32_t threads = 1; threads <= n_threads; threads++) {
            run together[COMPANY];
            make_runs(together, n_vocab);
            engine = open_engine(model, s, CHUNKS[c], threads);
            run_all(engine, n_vocab, together, COMPANY);
            for (uint32_t i = 0; i < COMPANY; i++)
                run_assert_identical(&together[i], &alone[i], n_vocab);
            free_runs(together);
            weft_engine_close(engine);
        }
    }
    free_runs(alone);
}

static void check_model(const char *path)
{
    weft_model *model = run_open_model(path);
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t i = TEST_SLOWED ? n_isas - 1 : 0; i < n_isas; i++) {
        check_setting(model, (setting){WEFT_ACT_F32, NULL, isas[i], NULL});
        check_setting(model, (setting){WEFT_ACT_BF16, NULL, isas[i], NULL});
    }
    check_setting(model, (setting){WEFT_ACT_BF16, "k=f16,v=bf16", NULL, NULL});
    check_setting(model, (setting){WEFT_ACT_BF16, "affine8g64", NULL, NULL});
    check_setting(model, (setting){WEFT_ACT_F32, "turbo-k8v4", NULL, NULL});
    check_setting(model, (setting){WEFT_ACT_F32, NULL, NULL, "ref"});
    /* Packed values without fused attention (B02). */
    if (!TEST_SLOWED) check_setting(model, (setting){WEFT_ACT_F32, "turbo-k8v4", NULL, "ref"});
    weft_model_close(model);
}

static void test_goldens(void **state)
{
    (void)state;
    check_model(GOLDEN_PATH("llama"));
    check_model(GOLDEN_PATH("gemma3"));
    check_model(GOLDEN_PATH("qwen3_5"));
}

/* Dense decoders, one of each kind of block and norm: layer norms, activations without a gate,
 * heads normed apart, queries that grow with their position, layers that do not rotate. */
static void test_dense(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"cohere-qk", "cohere2",       "exaone4",          "gemma2",
                                        "glm4",      "ministral3",    "nemotron",         "olmo3",
                                        "phi",       "phi3-longrope", "stablelm-parallel"};
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t k = 0; k < sizeof NAMES / sizeof NAMES[0]; k++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, NAMES[k]);
        weft_model *model = run_open_model(path);
        /* All of them on the best one; the others in turn. */
        check_setting(model, (setting){WEFT_ACT_BF16, NULL, isas[n_isas - 1], NULL});
        if (!TEST_SLOWED) {
            check_setting(model, (setting){WEFT_ACT_F32, NULL, isas[k % n_isas], NULL});
            if (k % 4 == 0) check_setting(model, (setting){WEFT_ACT_F32, NULL, NULL, "ref"});
        }
        weft_model_close(model);
    }
}

/* Latents and experts: which tokens go through an expert together changes no bit; nor where a
 * latent is packed, at once or at a position, whatever the pieces of a prompt (B07). */
static void test_latents_and_experts(void **state)
{
    (void)state;
    static const char *const SPECS[] = {"affine8g64", "affine4g32",          "q8_0",
                                        "f16",        "affine8g64,start=40", "affine4g64,start=9"};
    weft_model *model = run_open_model(GOLDEN_PATH("deepseek_v3"));
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t i = TEST_SLOWED ? n_isas - 1 : 0; i < n_isas; i++) {
        check_setting(model, (setting){WEFT_ACT_F32, NULL, isas[i], NULL});
        check_setting(model, (setting){WEFT_ACT_BF16, NULL, isas[i], NULL});
    }
    for (size_t i = 0; i < sizeof SPECS / sizeof SPECS[0]; i += TEST_SLOWED ? 3 : 1) {
        check_setting(model, (setting){WEFT_ACT_BF16, SPECS[i], NULL, NULL});
    }
    check_setting(model, (setting){WEFT_ACT_F32, NULL, NULL, "ref"});
    weft_model_close(model);
}

/* Attention to positions that an index chooses, or that an earlier layer's did. */
static void test_chosen_positions(void **state)
{
    (void)state;
    static const char *const SPECS[] = {"affine8g32,index=affine8g32", "affine4g32,start=40",
                                        "bf16,index=tk8", "f16,index=affine4g32,start=9"};
    static const char *const NAMES[] = {"glm_moe_dsa-long", "glm_moe_dsa-shared"};
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t k = 0; k < 2; k++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, NAMES[k]);
        weft_model *model = run_open_model(path);
        for (size_t i = TEST_SLOWED ? n_isas - 1 : 0; i < n_isas; i++) {
            check_setting(model, (setting){WEFT_ACT_F32, NULL, isas[i], NULL});
            check_setting(model, (setting){WEFT_ACT_BF16, NULL, isas[i], NULL});
        }
        for (size_t i = k; i < sizeof SPECS / sizeof SPECS[0]; i += TEST_SLOWED ? 3 : 1)
            check_setting(model, (setting){WEFT_ACT_BF16, SPECS[i], NULL, NULL});
        check_setting(model, (setting){WEFT_ACT_F32, NULL, NULL, "ref"});
        weft_model_close(model);
    }
}

/* Layers that read another's keys and values, through windows, in company of other lengths (B15);
 * heads of two sizes, and experts beside an MLP. */
static void test_shared_keys_and_values(void **state)
{
    (void)state;
    static const char *const SPECS[] = {"k=f16,v=bf16", "affine8g64", "turbo-k8v4",
                                        "affine4g32,start=30", "turbo-k8v3,0..1=bf16,start=9"};
    static const char *const NAMES[] = {"gemma4-ple", "gemma4-dense", "gemma4-moe"};
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t k = 0; k < 3; k++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, NAMES[k]);
        weft_model *model = run_open_model(path);
        for (size_t i = TEST_SLOWED || k > 0 ? n_isas - 1 : 0; i < n_isas; i++) {
            check_setting(model, (setting){WEFT_ACT_F32, NULL, isas[i], NULL});
            check_setting(model, (setting){WEFT_ACT_BF16, NULL, isas[i], NULL});
        }
        for (size_t i = k; i < sizeof SPECS / sizeof SPECS[0]; i += TEST_SLOWED ? 5 : k + 1) {
            check_setting(model, (setting){WEFT_ACT_BF16, SPECS[i], NULL, NULL});
        }
        if (k == 0) check_setting(model, (setting){WEFT_ACT_F32, NULL, NULL, "ref"});
        weft_model_close(model);
    }
}

/* Heads with sinks, whose layers are full ones and windows in turn, and experts that are read by
 * columns: every kind of codec, as a sink is merged behind what any of them gives. */
static void test_sinks(void **state)
{
    (void)state;
    static const char *const SPECS[] = {"k=f16,v=bf16", "affine8g32", "turbo-k8v4", "turbo-k5v3",
                                        "affine4g32,start=30"};
    weft_model *model = run_open_model(WEFT_GOLDEN_DIR "/gpt_oss");
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t i = TEST_SLOWED ? n_isas - 1 : 0; i < n_isas; i++) {
        check_setting(model, (setting){WEFT_ACT_F32, NULL, isas[i], NULL});
        check_setting(model, (setting){WEFT_ACT_BF16, NULL, isas[i], NULL});
    }
    for (size_t i = 0; i < sizeof SPECS / sizeof SPECS[0]; i += TEST_SLOWED ? 3 : 1) {
        check_setting(model, (setting){WEFT_ACT_BF16, SPECS[i], NULL, NULL});
    }
    check_setting(model, (setting){WEFT_ACT_F32, NULL, NULL, "ref"});
    weft_model_close(model);
}

/* Experts of dense decoders, with and without one that every token goes to. */
static void test_experts(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"qwen2_moe", "qwen3_moe", "mixtral", "olmoe"};
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t k = 0; k < 4; k++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, NAMES[k]);
        weft_model *model = run_open_model(path);
        for (size_t i = TEST_SLOWED || k > 0 ? n_isas - 1 : 0; i < n_isas; i++) {
            check_setting(model, (setting){WEFT_ACT_F32, NULL, isas[i], NULL});
            check_setting(model, (setting){WEFT_ACT_BF16, NULL, isas[i], NULL});
        }
        if (k == 0) check_setting(model, (setting){WEFT_ACT_F32, NULL, NULL, "ref"});
        weft_model_close(model);
    }
}

/* Experts behind gated delta nets, grouped matrices, convolutions between gates; where attention is
 * packed, recurrent layers are not (B08). */
static void test_hybrids(void **state)
{
    (void)state;
    static const char *const SPECS[] = {"affine8g64", "turbo-k8v4", "affine4g64,start=30"};
    static const char *const NAMES[] = {"qwen3_5_moe", "qwen3_next", "lfm2"};
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t k = 0; k < 3; k++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, NAMES[k]);
        weft_model *model = run_open_model(path);
        for (size_t i = TEST_SLOWED || k < 2 ? n_isas - 1 : 0; i < n_isas; i++) {
            check_setting(model, (setting){WEFT_ACT_F32, NULL, isas[i], NULL});
            check_setting(model, (setting){WEFT_ACT_BF16, NULL, isas[i], NULL});
        }
        check_setting(model, (setting){WEFT_ACT_BF16, SPECS[k], NULL, NULL});
        check_setting(model, (setting){WEFT_ACT_F32, NULL, NULL, "ref"});
        weft_model_close(model);
    }
}

/* Every codec, on whichever side it may stand, alone and in company of other lengths (B06), through
 * windows and past their edges (B05, B09). */
static void test_packed(void **state)
{
    (void)state;
    static const char *const SPECS[] = {"affine8g32",         "affine8g128",
                                        "affine4g32",         "affine4g64",
                                        "affine4g128",        "q8_0",
                                        "turbo-k8v8",         "turbo-k5v5",
                                        "turbo-k4v3",         "turbo-k2v2",
                                        "k=bf16,v=tv4",       "k=tk8,v=f16",
                                        "k=affine8g32,v=tv3", "affine8g32,start=20",
                                        "turbo-k8v3,start=9", "turbo-k8v3,0.v=tv5,-1=f32"};
    weft_model *model = run_open_model(WEFT_SOURCE_DIR "/models/tiny/draft");
    for (size_t i = 0; i < sizeof SPECS / sizeof SPECS[0]; i += TEST_SLOWED ? 4 : 1) {
        check_setting(model, (setting){WEFT_ACT_BF16, SPECS[i], NULL, NULL});
    }
    weft_model_close(model);
    model = run_open_model(WEFT_SOURCE_DIR "/models/tiny/window-mlx4");
    check_setting(model, (setting){WEFT_ACT_BF16, "turbo-k8v3", NULL, NULL});
    check_setting(model, (setting){WEFT_ACT_BF16, "affine4g64", NULL, NULL});
    check_setting(model, (setting){WEFT_ACT_BF16, "affine4g64,2=turbo-k8v3,-2..-1.v=f32,start=40",
                                   NULL, NULL});
    weft_model_close(model);
}

static void test_tiny(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"draft", "window-mlx4", "target-mlx8", "hybrid-mlx4"};
    for (size_t i = 0; i < 4; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/models/tiny/%s", WEFT_SOURCE_DIR, NAMES[i]);
        weft_model *model = run_open_model(path);
        check_setting(model, (setting){WEFT_ACT_BF16, NULL, NULL, NULL});
        check_setting(model, (setting){WEFT_ACT_F32, NULL, NULL, NULL});
        size_t n_isas;
        const char *const *isas = run_isas(&n_isas);
        for (size_t k = TEST_SLOWED ? n_isas - 1 : 0; k < n_isas; k++) {
            check_setting(model, (setting){WEFT_ACT_INT8, NULL, isas[k], NULL});
        }
        weft_model_close(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_latents_and_experts),
        cmocka_unit_test(test_chosen_positions),
        cmocka_unit_test(test_shared_keys_and_values),
        cmocka_unit_test(test_sinks),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_hybrids),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_tiny),
    };
    return TEST_RUN("engine/equality", tests);
}
