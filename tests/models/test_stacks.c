/* test_stacks.c - experts and the matrices of heads in every form that a checkpoint has them in,
 * and what of such checkpoints is refused. All forms are written from the golden of deepseek_v3. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/rng.h"
#include "models/model.h"
#include "support/compare.h"
#include "support/golden_copy.h"

#define NAME "deepseek_v3"

enum { EXPERTS = 8, LAYERS = 4, HEADS = 4, NOPE = 16, VALUE = 16, RANK = 32 };

/* APART is what the golden has. */
typedef enum form { FORM_APART, FORM_STACKED, FORM_FUSED, FORM_MLX } form;

/* One projection of all experts of a layer, that of second behind it expert by expert. */
static void add_stack(safetensors_builder *b, const golden_copy *s, int layer,
                      const char *const names[2], const char *as)
{
    file_bytes bytes = {0};
    char name[128];
    uint64_t dims[3] = {EXPERTS, 0, 0};
    for (int e = 0; e < EXPERTS; e++) {
        dims[1] = 0;
        for (int i = 0; i < 2 && names[i] != NULL; i++) {
            snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.%s.weight", layer, e,
                     names[i]);
            const tensor *t = golden_tensor(s, name);
            file_bytes_add(&bytes, t->planes[0], (size_t)t->plane_bytes[0]);
            dims[1] += t->n_rows;
            dims[2] = t->n_cols;
        }
    }
    snprintf(name, sizeof name, "model.layers.%d.mlp.%s", layer, as);
    safetensors_add(b, name, "BF16", dims, 3, bytes.data, bytes.n_bytes);
    file_bytes_free(&bytes);
}

static void add_experts(safetensors_builder *b, const golden_copy *s, int layer, form f)
{
    static const char *const NAMES[] = {"gate_proj", "up_proj", "down_proj"};
    if (f == FORM_FUSED) {
        add_stack(b, s, layer, (const char *const[2]){"gate_proj", "up_proj"},
                  "experts.gate_up_proj");
        add_stack(b, s, layer, (const char *const[2]){"down_proj", NULL}, "experts.down_proj");
        return;
    }
    for (int i = 0; i < 3; i++) {
        char as[64];
        snprintf(as, sizeof as, "switch_mlp.%s.weight", NAMES[i]);
        add_stack(b, s, layer, (const char *const[2]){NAMES[i], NULL}, as);
    }
}

/* kv_b as MLX has it: the first rows of each head turned, the rest as they are. */
static void add_heads(safetensors_builder *b, int layer, const tensor *kv_b)
{
    uint16_t turned[HEADS][RANK][NOPE];
    uint16_t values[HEADS][VALUE][RANK];
    uint16_t all[HEADS][NOPE + VALUE][RANK];
    char name[128];
    assert_int_equal(kv_b->plane_bytes[0], sizeof all);
    memcpy(all, kv_b->planes[0], sizeof all);
    for (int h = 0; h < HEADS; h++) {
        for (int k = 0; k < RANK; k++) {
            for (int i = 0; i < NOPE; i++) turned[h][k][i] = all[h][i][k];
            for (int i = 0; i < VALUE; i++) values[h][i][k] = all[h][NOPE + i][k];
        }
    }
    snprintf(name, sizeof name, "model.layers.%d.self_attn.embed_q.weight", layer);
    safetensors_add(b, name, "BF16", (const uint64_t[]){HEADS, RANK, NOPE}, 3, turned,
                    sizeof turned);
    snprintf(name, sizeof name, "model.layers.%d.self_attn.unembed_out.weight", layer);
    safetensors_add(b, name, "BF16", (const uint64_t[]){HEADS, VALUE, RANK}, 3, values,
                    sizeof values);
}

/* All tensors of the golden in that form. */
static void add_all(safetensors_builder *b, const golden_copy *s, form f)
{
    for (uint32_t i = 0; i < s->w->n_tensors; i++) {
        const tensor *t = &s->w->tensors[i];
        int layer = 0;
        bool expert = strstr(t->name, ".mlp.experts.") != NULL;
        if (f != FORM_APART && expert) continue;
        if (f == FORM_MLX && strstr(t->name, "kv_b_proj") != NULL) {
            assert_int_equal(sscanf(t->name, "model.layers.%d.", &layer), 1);
            add_heads(b, layer, t);
            continue;
        }
        golden_add(b, t->name, t);
    }
    for (int layer = 1; layer < LAYERS && f != FORM_APART; layer++) add_experts(b, s, layer, f);
}

enum { VOCAB = 320, PROMPT_ROWS = GOLDEN_PROMPT };

/* The same matrices in another place are the same bits; those that are turned add in another
 * order. */
static void test_every_form(void **state)
{
    (void)state;
    static const form FORMS[] = {FORM_APART, FORM_STACKED, FORM_FUSED, FORM_MLX};
    golden_copy s;
    golden_copy_open(&s, NAME);
    for (int act = 0; act < 2; act++) {
        weft_act acts[] = {WEFT_ACT_F32, WEFT_ACT_BF16};
        run golden = golden_answer(s.path, acts[act]);
        for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
            test_folder folder;
            safetensors_builder b;
            test_folder_create(&folder);
            safetensors_init(&b);
            add_all(&b, &s, FORMS[i]);
            safetensors_write(&b, &folder, "model.safetensors");
            safetensors_deinit(&b);
            golden_write_config(&s, &folder, NULL);
            run r = golden_answer(folder.path, acts[act]);
            if (FORMS[i] == FORM_MLX) {
                double bound = acts[act] == WEFT_ACT_F32 ? 1e-5 : 0.02;
                assert_true(compare_relative_rms(r.prompt_logits, golden.prompt_logits,
                                                 (size_t)PROMPT_ROWS * VOCAB) < bound);
            } else {
                run_assert_identical(&r, &golden, VOCAB);
            }
            run_free(&r);
            test_folder_remove(&folder);
        }
        run_free(&golden);
    }
    golden_copy_close(&s);
}

/* ---- packed matrices ---- */

/* As MLX packs them, 4 bits in groups of 32: n rows of cols columns, and what they stand for. */
typedef struct packed {
    file_bytes codes, scales, biases, decoded;
    uint64_t n_rows, n_cols;
} packed;

static void packed_add(packed *p, uint64_t n_rows, uint64_t n_cols, uint64_t seed)
{
    p->n_rows += n_rows;
    p->n_cols = n_cols;
    for (uint64_t i = 0; i < n_rows * n_cols / 32; i++) {
        float scale = fp_round_bf16(0.01F + 0.02F * (float)rng_unit(seed, 4 * i));
        float bias = fp_round_bf16(-8.0F * scale * (float)rng_unit(seed, 4 * i + 1));
        uint64_t words[2] = {rng_u64(seed, 4 * i + 2), rng_u64(seed, 4 * i + 3)};
        uint16_t halves[2] = {fp_to_bf16(scale), fp_to_bf16(bias)};
        file_bytes_add(&p->codes, words, sizeof words);
        file_bytes_add(&p->scales, &halves[0], sizeof halves[0]);
        file_bytes_add(&p->biases, &halves[1], sizeof halves[1]);
        for (int k = 0; k < 32; k++) {
            float value = (float)(words[k / 16] >> (4 * (k % 16)) & 15) * scale + bias;
            file_bytes_add(&p->decoded, &value, sizeof value);
        }
    }
}

/* Packed, or decoded; of count matrices, or of one. */
static void packed_write(packed *p, safetensors_builder *b, const char *module, bool decoded,
                         uint64_t count)
{
    char name[160];
    uint64_t dims[3] = {count, p->n_rows / count, p->n_cols};
    const uint64_t *from = count == 1 ? dims + 1 : dims;
    size_t n_dims = count == 1 ? 2 : 3;
    snprintf(name, sizeof name, "%s.weight", module);
    if (decoded) {
        safetensors_add(b, name, "F32", from, n_dims, p->decoded.data, p->decoded.n_bytes);
    } else {
        dims[2] = p->n_cols / 8;
        safetensors_add(b, name, "U32", from, n_dims, p->codes.data, p->codes.n_bytes);
        dims[2] = p->n_cols / 32;
        snprintf(name, sizeof name, "%s.scales", module);
        safetensors_add(b, name, "BF16", from, n_dims, p->scales.data, p->scales.n_bytes);
        snprintf(name, sizeof name, "%s.biases", module);
        safetensors_add(b, name, "BF16", from, n_dims, p->biases.data, p->biases.n_bytes);
    }
    file_bytes_free(&p->codes);
    file_bytes_free(&p->scales);
    file_bytes_free(&p->biases);
    file_bytes_free(&p->decoded);
    *p = (packed){.n_rows = 0};
}

/* Experts and kv_b of all layers; stacked: one module for all experts. */
static void add_packed(safetensors_builder *b, bool stacked, bool decoded)
{
    static const char *const NAMES[] = {"gate_proj", "up_proj", "down_proj"};
    char module[128];
    packed p = {.n_rows = 0};
    for (int layer = 0; layer < LAYERS; layer++) {
        uint64_t seed = 1000 * (uint64_t)layer;
        snprintf(module, sizeof module, "model.layers.%d.self_attn.kv_b_proj", layer);
        packed_add(&p, HEADS * (NOPE + VALUE), RANK, seed++);
        packed_write(&p, b, module, decoded, 1);
        for (int i = 0; i < 3 && layer > 0; i++) {
            for (int e = 0; e < EXPERTS; e++) {
                packed_add(&p, 64, 64, seed++);
                if (stacked) continue;
                snprintf(module, sizeof module, "model.layers.%d.mlp.experts.%d.%s", layer, e,
                         NAMES[i]);
                packed_write(&p, b, module, decoded, 1);
            }
            snprintf(module, sizeof module, "model.layers.%d.mlp.switch_mlp.%s", layer, NAMES[i]);
            if (stacked) packed_write(&p, b, module, decoded, EXPERTS);
        }
    }
}

static run packed_answer(const golden_copy *s, bool stacked, bool decoded, weft_act act)
{
    test_folder folder;
    safetensors_builder b;
    test_folder_create(&folder);
    safetensors_init(&b);
    for (uint32_t i = 0; i < s->w->n_tensors; i++) {
        const char *name = s->w->tensors[i].name;
        bool other = strstr(name, ".experts.") != NULL || strstr(name, "kv_b_proj") != NULL;
        if (!other) golden_add(&b, name, &s->w->tensors[i]);
    }
    add_packed(&b, stacked, decoded);
    safetensors_write(&b, &folder, "model.safetensors");
    safetensors_deinit(&b);
    golden_write_config(s, &folder,
                        (const char *const[2]){"\"vocab_size\"",
                                               "\"quantization\": {\"group_size\": 32, "
                                               "\"bits\": 4}, \"vocab_size\""});
    run r = golden_answer(folder.path, act);
    test_folder_remove(&folder);
    return r;
}

/* Packed experts are the same bits stacked or apart, and what they stand for. */
static void test_packed_matrices(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, NAME);
    for (int act = 0; act < 2; act++) {
        weft_act as = act == 0 ? WEFT_ACT_F32 : WEFT_ACT_BF16;
        run apart = packed_answer(&s, false, false, as);
        run stacked = packed_answer(&s, true, false, as);
        run decoded = packed_answer(&s, true, true, as);
        run_assert_identical(&apart, &stacked, VOCAB);
        double bound = as == WEFT_ACT_F32 ? 1e-5 : 0.02;
        assert_true(compare_relative_rms(apart.prompt_logits, decoded.prompt_logits,
                                         (size_t)PROMPT_ROWS * VOCAB) < bound);
        run_free(&apart);
        run_free(&stacked);
        run_free(&decoded);
    }
    golden_copy_close(&s);
}

/* ---- what is refused, and what is left out ---- */

static const struct {
    const char *without, *more, *config[2];
    weft_status status;
    const char *message;
} CASES[] = {
    {NULL, NULL, {NULL, NULL}, WEFT_OK, ""},
    /* A layer for drafting. */
    {NULL, "model.layers.4.eh_proj.weight", {NULL, NULL}, WEFT_OK, ""},
    {NULL,
     "model.layers.5.eh_proj.weight",
     {NULL, NULL},
     WEFT_UNSUPPORTED,
     "tensor 'model.layers.5.eh_proj.weight' has no place"},
    {NULL,
     "model.layers.4294967300.eh_proj.weight",
     {NULL, NULL},
     WEFT_UNSUPPORTED,
     "tensor 'model.layers.4294967300.eh_proj.weight' has no place"},
    /* Layers that the config does not know of are not for drafting. */
    {NULL,
     NULL,
     {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 2"},
     WEFT_UNSUPPORTED,
     "has no place in architecture deepseek_v3"},
    {NULL,
     "model.layers.3.eh_proj.weight",
     {NULL, NULL},
     WEFT_UNSUPPORTED,
     "tensor 'model.layers.3.eh_proj.weight' has no place"},
    {NULL,
     "model.layers.0.mlp.experts.0.up_proj.weight",
     {NULL, NULL},
     WEFT_UNSUPPORTED,
     "tensor 'model.layers.0.mlp.experts.0.up_proj.weight' has no place"},
    {NULL,
     "model.layers.2.mlp.experts.8.up_proj.weight",
     {NULL, NULL},
     WEFT_UNSUPPORTED,
     "tensor 'model.layers.2.mlp.experts.8.up_proj.weight' has no place"},
    {"model.layers.1.self_attn.kv_b_proj.weight",
     NULL,
     {NULL, NULL},
     WEFT_FORMAT,
     "tensor 'model.layers.1.self_attn.kv_b_proj.weight' is missing"},
    {"model.layers.3.mlp.experts.0.up_proj.weight",
     NULL,
     {NULL, NULL},
     WEFT_FORMAT,
     "tensor 'model.layers.3.mlp.experts.0.up_proj.weight' is missing"},
    {"model.layers.3.mlp.experts.7.down_proj.weight",
     NULL,
     {NULL, NULL},
     WEFT_FORMAT,
     "tensor 'model.layers.3.mlp.experts.7.down_proj.weight' is missing"},
    {"model.layers.1.mlp.gate.e_score_correction_bias",
     NULL,
     {NULL, NULL},
     WEFT_FORMAT,
     "tensor 'model.layers.1.mlp.gate.e_score_correction_bias' is missing"},
    {NULL,
     NULL,
     {"\"qk_nope_head_dim\": 16", "\"qk_nope_head_dim\": 24"},
     WEFT_FORMAT,
     "is [128, 48], expected [160, 48]"},
    {NULL, NULL, {"\"v_head_dim\": 16", "\"v_head_dim\": 24"}, WEFT_FORMAT, "expected"},
    {NULL,
     NULL,
     {"\"moe_intermediate_size\": 64", "\"moe_intermediate_size\": 63"},
     WEFT_FORMAT,
     "expected"},
    {NULL,
     NULL,
     {"\"qk_rope_head_dim\": 16", "\"qk_rope_head_dim\": 15"},
     WEFT_FORMAT,
     "qk_rope_head_dim is 15, expected an even number"},
    {NULL,
     NULL,
     {"\"n_routed_experts\": 8", "\"n_routed_experts\": 9"},
     WEFT_FORMAT,
     "2 of 9 experts of width 64 in 1 of 2 groups is not possible"},
    {NULL,
     NULL,
     {"\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 5"},
     WEFT_FORMAT,
     "5 of 8 experts"},
    {NULL, NULL, {"\"n_group\": 2", "\"n_group\": 8"}, WEFT_FORMAT, "in 1 of 8 groups"},
    {NULL, NULL, {"\"topk_group\": 1", "\"topk_group\": 3"}, WEFT_FORMAT, "in 3 of 2 groups"},
    {NULL,
     NULL,
     {"\"n_routed_experts\": 8", "\"n_routed_experts\": 5000"},
     WEFT_FORMAT,
     "n_routed_experts is 5000, expected 1 to 4096"},
    {NULL,
     NULL,
     {"\"num_attention_heads\": 4", "\"num_attention_heads\": 4095"},
     WEFT_FORMAT,
     "expected"},
    {NULL,
     NULL,
     {"\"num_hidden_layers\": 4", "\"num_hidden_layers\": 512"},
     WEFT_FORMAT,
     "tensor 'model.layers.4.input_layernorm.weight' is missing"},
    {NULL,
     NULL,
     {"\"attention_bias\": false", "\"attention_bias\": true"},
     WEFT_UNSUPPORTED,
     "attention_bias is not supported"},
    {NULL,
     NULL,
     {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\""},
     WEFT_UNSUPPORTED,
     "hidden_act 'gelu' is not supported, expected silu"},
    {NULL,
     NULL,
     {"\"n_group\"", "\"scoring_func\": \"softmax\", \"n_group\""},
     WEFT_UNSUPPORTED,
     "scoring_func 'softmax' is not supported"},
    {NULL,
     NULL,
     {"\"n_group\"", "\"topk_method\": \"greedy\", \"n_group\""},
     WEFT_UNSUPPORTED,
     "topk_method 'greedy' is not supported"},
    {NULL,
     NULL,
     {"\"n_group\"", "\"moe_layer_freq\": 2, \"n_group\""},
     WEFT_UNSUPPORTED,
     "moe_layer_freq"},
};

static void test_what_is_refused(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, NAME);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        weft_error err;
        golden_change change = {CASES[i].without,
                                CASES[i].more,
                                "model.norm.weight",
                                {CASES[i].config[0], CASES[i].config[1]}};
        weft_status status = golden_open_changed(&s, &change, &err);
        assert_status(CASES[i].status, status, &err);
        if (status != WEFT_OK) assert_message(&err, CASES[i].message);
    }
    golden_copy_close(&s);
}

/* Yarn as DeepSeek has it: the factor of the scores, and no other magnitude of cosines. */
static void test_yarn_scale(void **state)
{
    (void)state;
    static const char YARN[] = "\"rope_type\": \"yarn\", \"factor\": 40, \"mscale\": 1.0, "
                               "\"mscale_all_dim\": 1.0, \"original_max_position_embeddings\": 64";
    test_folder folder;
    safetensors_builder b;
    golden_copy s;
    llm *m;
    weft_error err = {0};
    golden_copy_open(&s, NAME);
    test_folder_create(&folder);
    safetensors_init(&b);
    add_all(&b, &s, FORM_APART);
    safetensors_write(&b, &folder, "model.safetensors");
    safetensors_deinit(&b);
    golden_write_config(&s, &folder, (const char *const[2]){"\"rope_type\": \"default\"", YARN});
    assert_ok(llm_open(&s.env, folder.path, &m, &err), &err);
    double grown = 0.1 * log(40.0) + 1.0;
    assert_true(fabs((double)m->params.attn_scale * sqrt(32.0) - grown * grown) < 1e-5);
    assert_true(m->ropes[0].magnitude == 1.0F && m->ropes[0].interleaved);
    llm_close(m);
    test_folder_remove(&folder);
    golden_copy_close(&s);
}

/* R3, in the public interface; and what a latent costs. */
static void test_latent_codecs(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH(NAME));
    weft_engine *engine = NULL;
    weft_error err = {0};
    weft_engine_options options = {.struct_size = sizeof options, .kv = "turbo-k8v3"};
    assert_status(WEFT_UNSUPPORTED, weft_engine_open(model, &options, &engine, &err), &err);
    assert_message(&err, "kv codec 'turbo-k8v3': layer 0 stores one latent for keys and values");
    assert_null(engine);
    weft_kv_info info = {.struct_size = sizeof info};
    err = (weft_error){0};
    assert_ok(weft_model_kv(model, "bf16", &info, &err), &err);
    assert_int_equal(info.bytes_per_token, LAYERS * 2 * (RANK + 16));
    assert_ok(weft_model_kv(model, "affine8g64", &info, &err), &err);
    assert_int_equal(info.bytes_per_token, LAYERS * (RANK + 4 + 2 * 16));
    assert_status(WEFT_UNSUPPORTED, weft_model_kv(model, "turbo-k8v3", &info, &err), &err);
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form),      cmocka_unit_test(test_packed_matrices),
        cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_yarn_scale),
        cmocka_unit_test(test_latent_codecs),
    };
    return TEST_RUN("models/stacks", tests);
}
