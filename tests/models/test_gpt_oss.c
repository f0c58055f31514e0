/* test_gpt_oss.c - gpt-oss in every form that a checkpoint has it in, its rope, and refusals. All
 * forms are written from the golden, whose experts lie by columns, gate and up in turn. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/rng.h"
#include "models/model.h"
#include "models/rope.h"
#include "support/compare.h"
#include "support/golden_copy.h"

#define NAME "gpt_oss"

enum { EXPERTS = 8, LAYERS = 4, WIDTH = 64, INNER = 128, HEADS = 4, VOCAB = 320 };

/* Gate, up and down; rows and columns of one of their matrices. */
static const char *const PROJECTIONS[3] = {"gate", "up", "down"};
static const uint64_t ROWS[3] = {INNER, INNER, WIDTH};
static const uint64_t COLS[3] = {WIDTH, WIDTH, INNER};

typedef enum form {
    MLX_PLAIN,
    GGUF_PLAIN,
    /* Random codes in place of the golden's experts. */
    HF_MXFP4,
    MLX_MXFP4,
    GGUF_MXFP4,
    MLX_DECODED,
} form;

static bool is_gguf(form f)
{
    return f == GGUF_PLAIN || f == GGUF_MXFP4;
}

/* One file of either format. */
typedef struct writer {
    bool gguf;
    safetensors_builder b;
    gguf_builder g;
} writer;

/* hf, gguf: behind the layer, or the whole name where layer is -1. type: "BF16", "F32", "U8" or
 * "U32"; GGUF has "mxfp4" as well, and vectors as f32. */
static void put(writer *w, const char *name, const char *type, const uint64_t *dims,
                uint32_t n_dims, const void *data, size_t n_bytes)
{
    if (!w->gguf) {
        safetensors_add(&w->b, name, type, dims, n_dims, data, n_bytes);
        return;
    }
    uint32_t id = strcmp(type, "mxfp4") == 0 ? 39 : strcmp(type, "BF16") == 0 ? 30 : 0;
    gguf_add_tensor(&w->g, name, id, dims, n_dims, data, n_bytes);
}

/* Numbers of bf16, which GGUF's converter stores as f32 where they are no matrix. */
static void put_vector(writer *w, const char *name, const uint64_t *dims, uint32_t n_dims,
                       const uint16_t *values, size_t n)
{
    if (!w->gguf) {
        put(w, name, "BF16", dims, n_dims, values, n * sizeof *values);
        return;
    }
    float *wide = malloc(n * sizeof *wide);
    assert_non_null(wide);
    for (size_t i = 0; i < n; i++) wide[i] = fp_from_bf16(values[i]);
    put(w, name, "F32", dims, n_dims, wide, n * sizeof *wide);
    free(wide);
}

/* ---- experts --------------------------------------------------------------------------------- */

static const uint16_t *golden_bf16(const golden_copy *s, int layer, const char *part)
{
    char name[128];
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%s", layer, part);
    return (const uint16_t *)(const void *)golden_tensor(s, name)->planes[0];
}

/* Where a file has the experts of a projection: "mlp.experts.gate_proj" or "ffn_gate_exps". */
static void path_of(const writer *w, int layer, int p, char path[96])
{
    if (w->gguf) {
        snprintf(path, 96, "blk.%d.ffn_%s_exps", layer, PROJECTIONS[p]);
    } else {
        snprintf(path, 96, "model.layers.%d.mlp.experts.%s_proj", layer, PROJECTIONS[p]);
    }
}

/* [E, rows, cols] of a projection, turned and taken apart. */
static void put_plain(writer *w, const golden_copy *s, int layer, int p)
{
    static uint16_t all[EXPERTS * INNER * WIDTH];
    const uint16_t *from = golden_bf16(s, layer, p == 2 ? "down_proj" : "gate_up_proj");
    uint64_t block = p == 2 ? ROWS[p] : 2 * ROWS[p];
    for (uint64_t i = 0; i < EXPERTS * ROWS[p] * COLS[p]; i++) {
        uint64_t e = i / (ROWS[p] * COLS[p]);
        uint64_t r = i / COLS[p] % ROWS[p];
        uint64_t k = i % COLS[p];
        all[i] = from[(e * COLS[p] + k) * block + (p == 2 ? r : 2 * r + (uint64_t)p)];
    }
    char name[128];
    char path[96];
    path_of(w, layer, p, path);
    snprintf(name, sizeof name, "%s.weight", path);
    put(w, name, "BF16", (const uint64_t[]){EXPERTS, ROWS[p], COLS[p]}, 3, all, sizeof all);
}

/* Codes, two a byte, and exponents of experts [E, rows, cols]. */
enum { CODES = EXPERTS * INNER * WIDTH / 2, GROUPS = EXPERTS * INNER * WIDTH / 32 };

typedef struct packed {
    unsigned char codes[CODES], scales[GROUPS];
} packed;

static void make_packed(packed *m, int layer, int p)
{
    uint64_t seed = 10 * (uint64_t)layer + (uint64_t)p;
    for (uint64_t i = 0; i < CODES; i++) m->codes[i] = (unsigned char)rng_u64(seed, i);
    for (uint64_t i = 0; i < GROUPS; i++)
        m->scales[i] = (unsigned char)(119 + rng_u64(seed + 1000, i) % 5);
}

/* Hugging Face: row 2 i is gate i, row 2 i + 1 up i. */
static void put_blocks(writer *w, int layer)
{
    static packed gate, up, down;
    static unsigned char codes[2 * CODES], scales[2 * GROUPS];
    make_packed(&gate, layer, 0);
    make_packed(&up, layer, 1);
    make_packed(&down, layer, 2);
    for (size_t r = 0; r < (size_t)2 * EXPERTS * INNER; r++) {
        const packed *from = r % 2 == 0 ? &gate : &up;
        memcpy(codes + r * WIDTH / 2, from->codes + r / 2 * WIDTH / 2, WIDTH / 2);
        memcpy(scales + r * WIDTH / 32, from->scales + r / 2 * WIDTH / 32, WIDTH / 32);
    }
    char name[128];
    const uint64_t both[4] = {EXPERTS, 2 * INNER, WIDTH / 32, 16};
    const uint64_t one[4] = {EXPERTS, WIDTH, INNER / 32, 16};
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.gate_up_proj_blocks", layer);
    put(w, name, "U8", both, 4, codes, sizeof codes);
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.gate_up_proj_scales", layer);
    put(w, name, "U8", both, 3, scales, sizeof scales);
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.down_proj_blocks", layer);
    put(w, name, "U8", one, 4, down.codes, sizeof down.codes);
    snprintf(name, sizeof name, "model.layers.%d.mlp.experts.down_proj_scales", layer);
    put(w, name, "U8", one, 3, down.scales, sizeof down.scales);
}

/* ggml has the second half of a block in the high halves of its bytes. */
static void put_ggml_blocks(writer *w, const char *name, const packed *m, int p)
{
    static unsigned char blocks[GROUPS][17];
    for (size_t i = 0; i < GROUPS; i++) {
        blocks[i][0] = m->scales[i];
        for (size_t k = 0; k < 16; k++) {
            unsigned low = (unsigned)m->codes[i * 16 + k / 2] >> (4 * (k % 2)) & 15;
            unsigned high = (unsigned)m->codes[i * 16 + 8 + k / 2] >> (4 * (k % 2)) & 15;
            blocks[i][1 + k] = (unsigned char)(low | high << 4);
        }
    }
    put(w, name, "mxfp4", (const uint64_t[]){EXPERTS, ROWS[p], COLS[p]}, 3, blocks, sizeof blocks);
}

static void put_decoded(writer *w, const char *name, const packed *m, int p)
{
    static const float VALUES[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
    static float all[2 * CODES];
    for (size_t i = 0; i < (size_t)2 * CODES; i++) {
        unsigned code = (unsigned)m->codes[i / 2] >> (4 * (i % 2)) & 15;
        float value = ldexpf(VALUES[code & 7], m->scales[i / 32] - 127);
        all[i] = (code & 8) != 0 ? -value : value;
    }
    put(w, name, "F32", (const uint64_t[]){EXPERTS, ROWS[p], COLS[p]}, 3, all, sizeof all);
}

static void put_packed(writer *w, int layer, int p, form f)
{
    static packed m;
    char path[96];
    char name[128];
    make_packed(&m, layer, p);
    path_of(w, layer, p, path);
    snprintf(name, sizeof name, "%s.weight", path);
    if (f == GGUF_MXFP4) {
        put_ggml_blocks(w, name, &m, p);
    } else if (f == MLX_DECODED) {
        put_decoded(w, name, &m, p);
    } else {
        const uint64_t words[3] = {EXPERTS, ROWS[p], COLS[p] / 8};
        const uint64_t groups[3] = {EXPERTS, ROWS[p], COLS[p] / 32};
        put(w, name, "U32", words, 3, m.codes, sizeof m.codes);
        snprintf(name, sizeof name, "%s.scales", path);
        put(w, name, "U8", groups, 3, m.scales, sizeof m.scales);
    }
}

/* As the golden has them for Hugging Face's form, else apart. */
static void put_biases(writer *w, const golden_copy *s, int layer, form f)
{
    for (int p = 0; p < 3; p++) {
        uint16_t own[EXPERTS * INNER];
        const uint16_t *from =
            golden_bf16(s, layer, p == 2 ? "down_proj_bias" : "gate_up_proj_bias");
        size_t n = EXPERTS * ROWS[p];
        char name[128];
        char path[96];
        path_of(w, layer, p, path);
        for (size_t i = 0; i < n; i++) own[i] = from[p == 2 ? i : 2 * i + (size_t)p];
        snprintf(name, sizeof name, "%s.bias", path);
        const uint64_t dims[2] = {EXPERTS, ROWS[p]};
        if (f != HF_MXFP4) put_vector(w, name, dims, 2, own, n);
    }
    if (f != HF_MXFP4) return;
    for (int k = 0; k < 2; k++) {
        char name[128];
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%s", layer,
                 k == 0 ? "gate_up_proj_bias" : "down_proj_bias");
        golden_add(&w->b, name, golden_tensor(s, name));
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */

static const char *const GGUF_NAMES[][2] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_proj.bias", "attn_q.bias"},
    {"self_attn.k_proj.bias", "attn_k.bias"},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.o_proj.bias", "attn_output.bias"},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.router.weight", "ffn_gate_inp.weight"},
    {"mlp.router.bias", "ffn_gate_inp.bias"},
};

static void put_other(writer *w, const tensor *t)
{
    char name[128];
    int layer = 0;
    int at = 0;
    snprintf(name, sizeof name, "%s", t->name);
    bool of_layer = sscanf(t->name, "model.layers.%d.%n", &layer, &at) == 1 && at > 0;
    for (size_t i = 0; w->gguf && i < sizeof GGUF_NAMES / sizeof GGUF_NAMES[0]; i++) {
        if (strcmp(t->name + (of_layer ? at : 0), GGUF_NAMES[i][0]) != 0) continue;
        snprintf(name, sizeof name, "blk.%d.%s", layer, GGUF_NAMES[i][1]);
        if (!of_layer) snprintf(name, sizeof name, "%s", GGUF_NAMES[i][1]);
    }
    const uint16_t *values = (const uint16_t *)(const void *)t->planes[0];
    if (t->n_dims == 1) {
        put_vector(w, name, t->dims, 1, values, (size_t)t->n_cols);
    } else {
        put(w, name, "BF16", t->dims, t->n_dims, values, (size_t)t->plane_bytes[0]);
    }
}

static void gguf_settings(gguf_builder *g)
{
    gguf_add_text(g, "general.architecture", "gpt-oss");
    gguf_add_u32(g, "gpt-oss.block_count", LAYERS);
    gguf_add_u32(g, "gpt-oss.context_length", 512);
    gguf_add_u32(g, "gpt-oss.embedding_length", WIDTH);
    gguf_add_u32(g, "gpt-oss.attention.head_count", HEADS);
    gguf_add_u32(g, "gpt-oss.attention.head_count_kv", 2);
    gguf_add_u32(g, "gpt-oss.attention.key_length", 16);
    gguf_add_u32(g, "gpt-oss.attention.value_length", 16);
    gguf_add_f32(g, "gpt-oss.attention.layer_norm_rms_epsilon", 1e-5F);
    gguf_add_f32(g, "gpt-oss.rope.freq_base", 150000.0F);
    gguf_add_u32(g, "gpt-oss.attention.sliding_window", 24);
    gguf_add_u32(g, "gpt-oss.expert_count", EXPERTS);
    gguf_add_u32(g, "gpt-oss.expert_used_count", 2);
    gguf_add_u32(g, "gpt-oss.expert_feed_forward_length", INNER);
}

/* Opens the golden in that form and asks it. */
static run answer(const golden_copy *s, form f, weft_act act)
{
    test_folder folder;
    writer w = {.gguf = is_gguf(f)};
    test_folder_create(&folder);
    if (w.gguf) {
        gguf_init(&w.g, 3);
        gguf_settings(&w.g);
    } else {
        safetensors_init(&w.b);
    }
    for (uint32_t i = 0; i < s->w->n_tensors; i++) {
        if (strstr(s->w->tensors[i].name, ".experts.") == NULL) put_other(&w, &s->w->tensors[i]);
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        put_biases(&w, s, layer, f);
        if (f == HF_MXFP4) put_blocks(&w, layer);
        for (int p = 0; p < 3 && f != HF_MXFP4; p++) {
            if (f == MLX_PLAIN || f == GGUF_PLAIN) {
                put_plain(&w, s, layer, p);
            } else {
                put_packed(&w, layer, p, f);
            }
        }
    }
    run r;
    if (w.gguf) {
        r = golden_answer(gguf_write(&w.g, &folder, "m.gguf"), act);
        gguf_deinit(&w.g);
    } else {
        static const char *const MLX[2] = {"\"vocab_size\"",
                                           "\"quantization\": {\"group_size\": 32, \"bits\": 4, "
                                           "\"mode\": \"mxfp4\"}, \"vocab_size\""};
        static const char *const HF[2] = {"\"vocab_size\"",
                                          "\"quantization_config\": {\"quant_method\": \"mxfp4\"}, "
                                          "\"vocab_size\""};
        safetensors_write(&w.b, &folder, "model.safetensors");
        safetensors_deinit(&w.b);
        golden_write_config(s, &folder, f == MLX_MXFP4 ? MLX : f == HF_MXFP4 ? HF : NULL);
        r = golden_answer(folder.path, act);
    }
    test_folder_remove(&folder);
    return r;
}

/* The same matrices in another place are the same bits; those by columns add in another order. */
static void test_plain_forms(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, NAME);
    for (int k = 0; k < 2; k++) {
        weft_act act = k == 0 ? WEFT_ACT_F32 : WEFT_ACT_BF16;
        run golden = golden_answer(s.path, act);
        run mlx = answer(&s, MLX_PLAIN, act);
        run gguf = answer(&s, GGUF_PLAIN, act);
        run_assert_identical(&gguf, &mlx, VOCAB);
        double bound = act == WEFT_ACT_F32 ? 1e-5 : 0.02;
        assert_true(compare_relative_rms(mlx.prompt_logits, golden.prompt_logits,
                                         (size_t)GOLDEN_PROMPT * VOCAB) < bound);
        run_free(&golden);
        run_free(&mlx);
        run_free(&gguf);
    }
    golden_copy_close(&s);
}

/* MXFP4 as everybody stores it is one model, and what it stands for. */
static void test_packed_forms(void **state)
{
    (void)state;
    static const form FORMS[] = {HF_MXFP4, MLX_MXFP4, GGUF_MXFP4};
    golden_copy s;
    golden_copy_open(&s, NAME);
    for (int k = 0; k < 2; k++) {
        weft_act act = k == 0 ? WEFT_ACT_F32 : WEFT_ACT_BF16;
        run decoded = answer(&s, MLX_DECODED, act);
        for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
            run r = answer(&s, FORMS[i], act);
            run_assert_identical(&r, &decoded, VOCAB);
            run_free(&r);
        }
        run_free(&decoded);
    }
    golden_copy_close(&s);
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Heads of 64, yarn by 32 from 4096 positions, ends not rounded. Numbers: Transformers. */
static void test_yarn(void **state)
{
    (void)state;
    static const char CONFIG[] =
        "{\"rope_theta\": 150000, \"rope_scaling\": {\"rope_type\": \"yarn\","
        " \"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0,"
        " \"truncate\": false,"
        " \"original_max_position_embeddings\": 4096}}";
    static const struct {
        uint32_t pair;
        double inv;
    } EXPECTED[] = {{0, 1.0},          {9, 0.0317057},    {12, 6.794959e-3},
                    {16, 4.564839e-4}, {17, 1.293187e-4}, {18, 3.830881e-5}};
    json_doc doc;
    weft_error err = {0};
    assert_ok(json_parse(&doc, CONFIG, sizeof CONFIG - 1, &err), &err);
    model_source source = {.top = doc.root, .config = doc.root};
    rope_params rope;
    graph_rope table;
    arena a;
    arena_init(&a, mem_system(), 0);
    assert_ok(
        rope_config(&rope, &source, json_get(doc.root, "rope_scaling"), 150000.0, 131072, &err),
        &err);
    assert_ok(rope_table(&table, &a, &rope, 64, false, NULL, &err), &err);
    for (size_t i = 0; i < sizeof EXPECTED / sizeof EXPECTED[0]; i++) {
        double inv = (double)table.inv_freq[EXPECTED[i].pair];
        assert_true(fabs(inv / EXPECTED[i].inv - 1.0) < 2e-6);
    }
    assert_true(fabs((double)table.magnitude - 1.34657359) < 1e-7);
    arena_deinit(&a);
    json_doc_free(&doc);
}

static void test_states(void **state)
{
    (void)state;
    golden_copy s;
    llm *m;
    weft_error err = {0};
    golden_copy_open(&s, NAME);
    assert_ok(llm_open(&s.env, s.path, &m, &err), &err);
    assert_int_equal(m->n_kv_layers, LAYERS);
    for (uint32_t i = 0; i < LAYERS; i++)
        assert_int_equal(m->kv_layers[i].window, i % 2 == 0 ? 24 : 0);
    for (graph_id id = 1; id < m->graph.n_values; id++) {
        const graph_value *v = &m->graph.values[id];
        if (v->op == GRAPH_ATTEND) assert_int_not_equal(v->in[2], 0);
        if (v->op == GRAPH_EXPERTS) assert_true(v->f[0] == 7.0F && v->in[7] != 0);
    }
    llm_close(m);
    /* Every other layer is one of windows where nothing lists them. */
    test_folder folder;
    golden_write_changed(&s, &(golden_change){.config = {"\"layer_types\"", "\"unused\""}},
                         &folder);
    run expected = golden_answer(s.path, WEFT_ACT_BF16);
    run r = golden_answer(folder.path, WEFT_ACT_BF16);
    run_assert_identical(&r, &expected, VOCAB);
    run_free(&r);
    run_free(&expected);
    test_folder_remove(&folder);
    golden_copy_close(&s);
}

typedef struct refusal {
    golden_change change;
    weft_status status;
    const char *message;
} refusal;

static const refusal REFUSALS[] = {
    {{.config = {"\"swiglu_alpha\": 1.702", "\"swiglu_alpha\": 1.5"}},
     WEFT_UNSUPPORTED,
     "swiglu_alpha 1.5 is not supported, expected 1.702"},
    {{.config = {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\""}},
     WEFT_UNSUPPORTED,
     "hidden_act 'gelu' is not supported, expected silu"},
    {{.config = {"\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9"}},
     WEFT_FORMAT,
     "9 of 8 experts is not possible"},
    {{.config = {"\"sliding_window\": 24", "\"sliding_window\": null"}},
     WEFT_FORMAT,
     "config.json has no sliding_window"},
    {{.config = {"\"num_local_experts\": 8", "\"num_local_experts\": 4"}},
     WEFT_FORMAT,
     "tensor 'model.layers.0.mlp.router.weight' is [8, 64], expected [4, 64]"},
    {{.config = {"\"intermediate_size\": 128", "\"intermediate_size\": 96"}},
     WEFT_FORMAT,
     "tensor 'model.layers.0.mlp.experts.gate_up_proj' is [512, 256], expected 8 matrices of"
     " [64, 192]"},
    {{.config = {"\"attention_bias\": true", "\"attention_bias\": false"}},
     WEFT_UNSUPPORTED,
     "_proj.bias' has no place in architecture gpt_oss"},
    {{.without = "model.layers.2.self_attn.sinks"},
     WEFT_FORMAT,
     "tensor 'model.layers.2.self_attn.sinks' is missing"},
    {{.without = "model.layers.3.mlp.experts.gate_up_proj"},
     WEFT_FORMAT,
     "tensor 'model.layers.3.mlp.experts.gate_proj.weight' is missing"},
    {{.without = "model.layers.3.mlp.experts.down_proj_bias"},
     WEFT_FORMAT,
     "tensor 'model.layers.3.mlp.experts.down_proj.bias' is missing"},
    {{.more = "model.layers.1.mlp.experts.up_proj.weight",
      .from = "model.layers.1.mlp.router.weight"},
     WEFT_FORMAT,
     "tensor 'model.layers.1.mlp.experts.up_proj.weight' is [8, 64], expected 8 matrices of"
     " [128, 64]"},
};

static void test_refusals(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, NAME);
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        weft_error err;
        weft_status status = golden_open_changed(&s, &REFUSALS[i].change, &err);
        assert_status(REFUSALS[i].status, status, &err);
        assert_message(&err, REFUSALS[i].message);
    }
    golden_copy_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_forms), cmocka_unit_test(test_packed_forms),
        cmocka_unit_test(test_yarn),        cmocka_unit_test(test_states),
        cmocka_unit_test(test_refusals),
    };
    return TEST_RUN("models/gpt_oss", tests);
}
