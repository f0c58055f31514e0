/* test_equality_large.c - promise P1 at the layer shape of a 1B Llama: numbers of rows and of
 * tokens at which loops change, and lengths around those at which attention cuts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/rng.h"
#include "support/compare.h"
#include "support/files.h"
#include "support/runs.h"

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
            (run){.prompt = run_random_ids(length, VOCAB, i), .n_prompt = length, .max_new = 3};
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
    int32_t *ids = run_random_ids(middle + AROUND, VOCAB, middle);
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
    static const weft_act ACTS[] = {WEFT_ACT_BF16, WEFT_ACT_INT8, WEFT_ACT_F32};
    static const uint32_t ROWS[] = {1, 2, 8, 16, 17, 64, 512};
    static const uint32_t MIDDLES[] = {256, 4096};
    size_t n_rows = TEST_SLOWED ? 2 : sizeof ROWS / sizeof ROWS[0];
    size_t n_long = TEST_SLOWED ? 1 : sizeof MIDDLES / sizeof MIDDLES[0];
    for (size_t a = 0; a < (TEST_SLOWED ? 1 : 3); a++) {
        for (size_t i = 0; i < n_rows; i++) check_rows(model, ACTS[a], ROWS[i]);
        size_t n = ACTS[a] == WEFT_ACT_INT8 ? 1 : n_long;
        for (size_t i = 0; i < n; i++) check_lengths(model, ACTS[a], MIDDLES[i]);
    }
    weft_model_close(model);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1b_shape),
    };
    return TEST_RUN("engine/equality_large", tests);
}
