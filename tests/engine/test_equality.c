/* test_equality.c - promise P1: an answer is the same bits whatever company and chunks it had, and
 * however many threads computed it. On the goldens, the tiny models, and one random model with the
 * layer shape of a 1B Llama. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/rng.h"
#include "support/compare.h"
#include "support/files.h"
#include "support/runs.h"

static int32_t *random_ids(uint32_t n, uint32_t n_vocab, uint64_t seed)
{
    int32_t *ids = calloc(n, sizeof *ids);
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)(rng_u64(seed, i) % n_vocab);
    return ids;
}

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
        runs[i] = (run){.prompt = random_ids(LENGTHS[i], n_vocab, 7 + i),
                        .n_prompt = LENGTHS[i],
                        .max_new = NEW_TOKENS,
                        .want_prompt_logits = true};
        if (i % 2 == 1) runs[i].sampling = (weft_sampling){0.8F, 0.95F, 0.01F, 20, 1234 + i};
    }
}

static void free_runs(run *runs)
{
    for (uint32_t i = 0; i < COMPANY; i++) {
        free((void *)(uintptr_t)runs[i].prompt);
        run_free(&runs[i]);
    }
}

/* Every sequence alone in one piece is what all others are compared with. */
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
    weft_model_close(model);
}

static void test_goldens(void **state)
{
    (void)state;
    check_model(WEFT_SOURCE_DIR "/tests/golden/llama");
    check_model(WEFT_SOURCE_DIR "/tests/golden/gemma3");
    check_model(WEFT_SOURCE_DIR "/tests/golden/qwen3_5");
}

/* Latents and experts: which tokens go through an expert together changes no bit; nor where a
 * latent is packed, at once or at a position. */
static void test_latents_and_experts(void **state)
{
    (void)state;
    static const char *const SPECS[] = {"affine8g64", "affine4g32",          "q8_0",
                                        "f16",        "affine8g64,start=40", "affine4g64,start=9"};
    weft_model *model = run_open_model(WEFT_SOURCE_DIR "/tests/golden/deepseek_v3");
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

/* Layers that read another's keys and values, through windows, in company of other lengths;
 * heads of two sizes, and experts beside an MLP. */
static void test_shared_keys_and_values(void **state)
{
    (void)state;
    static const char *const SPECS[] = {"k=f16,v=bf16", "affine8g64", "turbo-k8v4",
                                        "affine4g32,start=30", "turbo-k8v3,start=9"};
    static const char *const NAMES[] = {"gemma4-ple", "gemma4-dense", "gemma4-moe"};
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t k = 0; k < 3; k++) {
        char path[600];
        snprintf(path, sizeof path, "%s/tests/golden/%s", WEFT_SOURCE_DIR, NAMES[k]);
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

/* Every codec, on whichever side it may stand. */
static void test_packed(void **state)
{
    (void)state;
    static const char *const SPECS[] = {
        "affine8g32",         "affine8g128",         "affine4g32",
        "affine4g64",         "affine4g128",         "q8_0",
        "turbo-k8v8",         "turbo-k5v5",          "turbo-k4v3",
        "turbo-k2v2",         "k=bf16,v=tv4",        "k=tk8,v=f16",
        "k=affine8g32,v=tv3", "affine8g32,start=20", "turbo-k8v3,start=9"};
    weft_model *model = run_open_model(WEFT_SOURCE_DIR "/models/tiny/draft");
    for (size_t i = 0; i < sizeof SPECS / sizeof SPECS[0]; i += TEST_SLOWED ? 4 : 1) {
        check_setting(model, (setting){WEFT_ACT_BF16, SPECS[i], NULL, NULL});
    }
    weft_model_close(model);
    model = run_open_model(WEFT_SOURCE_DIR "/models/tiny/window-mlx4");
    check_setting(model, (setting){WEFT_ACT_BF16, "turbo-k8v3", NULL, NULL});
    check_setting(model, (setting){WEFT_ACT_BF16, "affine4g64", NULL, NULL});
    check_setting(model, (setting){WEFT_ACT_BF16, "affine4g64,start=40", NULL, NULL});
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
        weft_model_close(model);
    }
}

/* ---- the shape of a 1B Llama: width 2048, 32 heads of 64 over 8, MLP 8192; one layer in bf16, one
 * in 4 bits ------ */

enum { WIDTH = 2048, MLP = 8192, HEADS = 32, KV_HEADS = 8, HEAD = 64, VOCAB = 1000, GROUP = 64 };

static void add_dense(safetensors_builder *b, const char *name, uint64_t rows, uint64_t cols,
                      float scale)
{
    size_t n = (size_t)(rows * cols);
    uint16_t *data = malloc(n * 2);
    for (size_t i = 0; i < n; i++) {
        double unit = rng_unit(rows ^ cols, i) - 0.5;
        data[i] = fp_to_bf16(scale == 0.0F ? 1.0F + (float)unit * 0.1F : (float)unit * scale);
    }
    uint64_t dims[2] = {rows, cols};
    safetensors_add(b, name, "BF16", scale == 0.0F ? &dims[1] : dims, scale == 0.0F ? 1 : 2, data,
                    n * 2);
    free(data);
}

static void add_affine(safetensors_builder *b, const char *stem, uint64_t rows, uint64_t cols)
{
    char name[192];
    size_t n_words = (size_t)(rows * cols / 8);
    uint32_t *words = malloc(n_words * 4);
    for (size_t i = 0; i < n_words; i++) words[i] = (uint32_t)rng_u64(rows + cols, i);
    snprintf(name, sizeof name, "%.100s.weight", stem);
    safetensors_add(b, name, "U32", (const uint64_t[]){rows, cols / 8}, 2, words, n_words * 4);
    free(words);
    size_t n_groups = (size_t)(rows * cols / GROUP);
    uint16_t *values = malloc(n_groups * 2);
    for (int plane = 0; plane < 2; plane++) {
        for (size_t i = 0; i < n_groups; i++) {
            float scale = 0.003F + 0.002F * (float)rng_unit(rows * cols, i);
            values[i] = fp_to_bf16(plane == 0 ? scale : -7.5F * scale);
        }
        snprintf(name, sizeof name, "%.100s.%s", stem, plane == 0 ? "scales" : "biases");
        safetensors_add(b, name, "BF16", (const uint64_t[]){rows, cols / GROUP}, 2, values,
                        n_groups * 2);
    }
    free(values);
}

typedef struct matrix {
    const char *name;
    uint64_t rows, cols;
} matrix;

static const matrix MATRICES[] = {
    {"self_attn.q_proj", WIDTH, WIDTH},
    {"self_attn.k_proj", KV_HEADS *HEAD, WIDTH},
    {"self_attn.v_proj", KV_HEADS *HEAD, WIDTH},
    {"self_attn.o_proj", WIDTH, WIDTH},
    {"mlp.gate_proj", MLP, WIDTH},
    {"mlp.up_proj", MLP, WIDTH},
    {"mlp.down_proj", WIDTH, MLP},
};

static const char CONFIG[] =
    "{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":2048,\"num_attention_"
    "heads\":32,"
    "\"num_key_value_heads\":8,\"head_dim\":64,\"intermediate_size\":8192,\"vocab_size\":1000,"
    "\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-5,\"rope_theta\":500000.0,\"hidden_act\":"
    "\"silu\","
    "\"tie_word_embeddings\":true,\"quantization\":{\"group_size\":64,\"bits\":4}}";

static weft_model *open_1b_shape(test_folder *folder)
{
    test_folder_create(folder);
    safetensors_builder b;
    safetensors_init(&b);
    add_dense(&b, "model.embed_tokens.weight", VOCAB, WIDTH, 1.0F);
    add_dense(&b, "model.norm.weight", 1, WIDTH, 0.0F);
    for (int layer = 0; layer < 2; layer++) {
        char name[192];
        snprintf(name, sizeof name, "model.layers.%d.input_layernorm.weight", layer);
        add_dense(&b, name, 1, WIDTH, 0.0F);
        snprintf(name, sizeof name, "model.layers.%d.post_attention_layernorm.weight", layer);
        add_dense(&b, name, 1, WIDTH, 0.0F);
        for (size_t i = 0; i < sizeof MATRICES / sizeof MATRICES[0]; i++) {
            const matrix *m = &MATRICES[i];
            snprintf(name, sizeof name, "model.layers.%d.%s%s", layer, m->name,
                     layer == 0 ? ".weight" : "");
            if (layer == 0) {
                add_dense(&b, name, m->rows, m->cols, 0.05F);
            } else {
                add_affine(&b, name, m->rows, m->cols);
            }
        }
    }
    safetensors_write(&b, folder, "model.safetensors");
    safetensors_deinit(&b);
    test_folder_write(folder, "config.json", CONFIG, sizeof CONFIG - 1);
    return run_open_model(folder->path);
}

/* n sequences of 1 to 4 tokens in one engine; the first, last and some between equal their run
 * alone. */
static void check_rows(const weft_model *model, weft_act act, uint32_t n)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .act = act,
                                   .context = 64,
                                   .max_sequences = n,
                                   .chunk_tokens = 64,
                                   .memory_bytes = (uint64_t)1 << 32};
    weft_engine *engine = run_open_engine(model, &options);
    run *together = calloc(n, sizeof *together);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t length = 1 + i % 4;
        together[i] =
            (run){.prompt = random_ids(length, VOCAB, i), .n_prompt = length, .max_new = 3};
    }
    run_all(engine, VOCAB, together, n);
    for (uint32_t i = 0; i < n; i += n < 18 ? (n + 3) / 4 : n / 3) {
        run alone = {.prompt = together[i].prompt, .n_prompt = together[i].n_prompt, .max_new = 3};
        run_all(engine, VOCAB, &alone, 1);
        run_assert_identical(&together[i], &alone, VOCAB);
        run_free(&alone);
    }
    for (uint32_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)together[i].prompt);
        run_free(&together[i]);
    }
    free(together);
    weft_engine_close(engine);
}

/* A run of one prompt in pieces; with company, another sequence decodes beside it. */
static void run_pieces(const weft_model *model, weft_act act, uint32_t chunk, bool company, run *r)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .act = act,
                                   .context = 4200,
                                   .chunk_tokens = chunk,
                                   .max_outputs = 600,
                                   .n_threads = company ? 2 : 1};
    weft_engine *engine = run_open_engine(model, &options);
    run pair[2] = {*r, {.prompt = r->prompt, .n_prompt = 60, .max_new = 9}};
    run_all(engine, VOCAB, pair, company ? 2 : 1);
    *r = pair[0];
    if (company) run_free(&pair[1]);
    weft_engine_close(engine);
}

enum { AROUND = 3 };

/* Lengths middle - 1 to middle + 1: a prompt that ends before them in pieces of 512 beside another
 * sequence, and in pieces of 100 alone, with all its logits; and its continuation, decoded one by
 * one, read as a prompt. */
static void check_lengths(const weft_model *model, weft_act act, uint32_t middle)
{
    uint32_t n = middle - AROUND;
    int32_t *ids = random_ids(middle + AROUND, VOCAB, middle);
    run a = {.prompt = ids, .n_prompt = n, .max_new = 2 * AROUND + 1, .want_prompt_logits = true};
    run b = a;
    run_pieces(model, act, 512, true, &a);
    run_pieces(model, act, 100, false, &b);
    run_assert_identical(&a, &b, VOCAB);
    for (uint32_t i = 0; i < 2 * AROUND; i++) ids[n + i] = a.tokens[i];
    run whole = {
        .prompt = ids, .n_prompt = n + 2 * AROUND, .max_new = 1, .want_prompt_logits = true};
    run_pieces(model, act, 512, false, &whole);
    assert_floats_identical(whole.prompt_logits, a.prompt_logits, (size_t)n * VOCAB, VOCAB);
    assert_floats_identical(whole.prompt_logits + (size_t)n * VOCAB, a.new_logits + VOCAB,
                            (size_t)2 * AROUND * VOCAB, VOCAB);
    run_free(&a);
    run_free(&b);
    run_free(&whole);
    free(ids);
}

static void test_1b_shape(void **state)
{
    (void)state;
    test_folder folder;
    weft_model *model = open_1b_shape(&folder);
    static const weft_act ACTS[] = {WEFT_ACT_BF16, WEFT_ACT_F32};
    static const uint32_t ROWS[] = {1, 2, 8, 16, 17, 64, 512};
    static const uint32_t MIDDLES[] = {256, 4096};
    size_t n_rows = TEST_SLOWED ? 2 : sizeof ROWS / sizeof ROWS[0];
    size_t n_long = TEST_SLOWED ? 1 : sizeof MIDDLES / sizeof MIDDLES[0];
    for (size_t a = 0; a < (TEST_SLOWED ? 1 : 2); a++) {
        for (size_t i = 0; i < n_rows; i++) check_rows(model, ACTS[a], ROWS[i]);
        for (size_t i = 0; i < n_long; i++) check_lengths(model, ACTS[a], MIDDLES[i]);
    }
    weft_model_close(model);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_latents_and_experts),
        cmocka_unit_test(test_shared_keys_and_values),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_1b_shape),
    };
    return TEST_RUN("engine/equality", tests);
}
