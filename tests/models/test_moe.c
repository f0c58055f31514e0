/* test_moe.c - experts of dense decoders in every form that a checkpoint has them in, which layers
 * have them, and what is refused. All forms are written from the golden of qwen2_moe. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/model.h"
#include "support/golden_copy.h"

#define NAME "qwen2_moe"

enum { EXPERTS = 8, LAYERS = 4, WIDTH = 64, VOCAB = 320 };

typedef enum form { FORM_FUSED, FORM_STACKED, FORM_GGUF } form;

static const char *const PROJECTIONS[3] = {"gate", "up", "down"};

/* The experts of a layer behind one another: those of one projection, or of the first two. */
static void put_stack(safetensors_builder *b, gguf_builder *g, const golden_copy *s, int layer,
                      int first, int n, const char *as)
{
    file_bytes bytes = {0};
    char name[128];
    uint64_t dims[3] = {EXPERTS, 0, 0};
    for (int e = 0; e < EXPERTS; e++) {
        dims[1] = 0;
        for (int p = first; p < first + n; p++) {
            snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.%s_proj.weight", layer, e,
                     PROJECTIONS[p]);
            const tensor *t = golden_tensor(s, name);
            file_bytes_add(&bytes, t->planes[0], (size_t)t->plane_bytes[0]);
            dims[1] += t->n_rows;
            dims[2] = t->n_cols;
        }
    }
    if (g != NULL) {
        snprintf(name, sizeof name, "blk.%d.%s", layer, as);
        gguf_add_tensor(g, name, 30, dims, 3, bytes.data, bytes.n_bytes);
    } else {
        snprintf(name, sizeof name, "model.layers.%d.mlp.%s", layer, as);
        safetensors_add(b, name, "BF16", dims, 3, bytes.data, bytes.n_bytes);
    }
    file_bytes_free(&bytes);
}

static void put_experts(safetensors_builder *b, gguf_builder *g, const golden_copy *s, int layer,
                        form f)
{
    if (f == FORM_FUSED) {
        put_stack(b, NULL, s, layer, 0, 2, "experts.gate_up_proj");
        put_stack(b, NULL, s, layer, 2, 1, "experts.down_proj");
        return;
    }
    for (int p = 0; p < 3; p++) {
        char as[64];
        snprintf(as, sizeof as, f == FORM_GGUF ? "ffn_%s_exps.weight" : "switch_mlp.%s_proj.weight",
                 PROJECTIONS[p]);
        put_stack(b, g, s, layer, p, 1, as);
    }
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static const char *const GGUF_NAMES[][2] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_proj.bias", "attn_q.bias"},
    {"self_attn.k_proj.bias", "attn_k.bias"},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
};

/* Vectors, and what is a matrix of one row, as its converter writes them: f32, one dimension. */
static void put_gguf(gguf_builder *g, const tensor *t)
{
    char name[128] = "";
    int layer = 0;
    int at = 0;
    bool of_layer = sscanf(t->name, "model.layers.%d.%n", &layer, &at) == 1 && at > 0;
    for (size_t i = 0; i < sizeof GGUF_NAMES / sizeof GGUF_NAMES[0]; i++) {
        if (strcmp(t->name + (of_layer ? at : 0), GGUF_NAMES[i][0]) != 0) continue;
        snprintf(name, sizeof name, "blk.%d.%s", layer, GGUF_NAMES[i][1]);
        if (!of_layer) snprintf(name, sizeof name, "%s", GGUF_NAMES[i][1]);
    }
    assert_true(name[0] != '\0');
    if (t->n_rows > 1) {
        gguf_add_tensor(g, name, 30, t->dims, t->n_dims, t->planes[0], (size_t)t->plane_bytes[0]);
        return;
    }
    float values[2 * WIDTH];
    assert_true(t->n_cols <= 2 * WIDTH);
    t->encoding->decode_row(t, 0, values);
    gguf_add_tensor(g, name, 0, &t->n_cols, 1, values, (size_t)t->n_cols * sizeof *values);
}

static void gguf_settings(gguf_builder *g)
{
    gguf_add_text(g, "general.architecture", "qwen2moe");
    gguf_add_u32(g, "qwen2moe.block_count", LAYERS);
    gguf_add_u32(g, "qwen2moe.context_length", 512);
    gguf_add_u32(g, "qwen2moe.embedding_length", WIDTH);
    gguf_add_u32(g, "qwen2moe.feed_forward_length", 128);
    gguf_add_u32(g, "qwen2moe.attention.head_count", 4);
    gguf_add_u32(g, "qwen2moe.attention.head_count_kv", 2);
    gguf_add_f32(g, "qwen2moe.attention.layer_norm_rms_epsilon", 1e-6F);
    gguf_add_f32(g, "qwen2moe.rope.freq_base", 10000.0F);
    gguf_add_u32(g, "qwen2moe.expert_count", EXPERTS);
    gguf_add_u32(g, "qwen2moe.expert_used_count", 3);
    gguf_add_u32(g, "qwen2moe.expert_feed_forward_length", 64);
    gguf_add_u32(g, "qwen2moe.expert_shared_feed_forward_length", 128);
}

/* ---- answers --------------------------------------------------------------------------------- */

static run answer(const golden_copy *s, form f, weft_act act)
{
    test_folder folder;
    safetensors_builder b;
    gguf_builder g;
    bool gguf = f == FORM_GGUF;
    test_folder_create(&folder);
    safetensors_init(&b);
    gguf_init(&g, 3);
    gguf_settings(&g);
    for (uint32_t i = 0; i < s->w->n_tensors; i++) {
        const tensor *t = &s->w->tensors[i];
        if (strstr(t->name, ".experts.") != NULL) continue;
        if (gguf) {
            put_gguf(&g, t);
        } else {
            golden_add(&b, t->name, t);
        }
    }
    for (int layer = 0; layer < LAYERS; layer++) put_experts(&b, gguf ? &g : NULL, s, layer, f);
    run r;
    if (gguf) {
        r = golden_answer(gguf_write(&g, &folder, "m.gguf"), act);
    } else {
        safetensors_write(&b, &folder, "model.safetensors");
        golden_write_config(s, &folder, NULL);
        r = golden_answer(folder.path, act);
    }
    safetensors_deinit(&b);
    gguf_deinit(&g);
    test_folder_remove(&folder);
    return r;
}

/* The same matrices in another place are the same bits. */
static void test_every_form(void **state)
{
    (void)state;
    static const form FORMS[] = {FORM_FUSED, FORM_STACKED, FORM_GGUF};
    golden_copy s;
    golden_copy_open(&s, NAME);
    for (int k = 0; k < 2; k++) {
        weft_act act = k == 0 ? WEFT_ACT_F32 : WEFT_ACT_BF16;
        run golden = golden_answer(s.path, act);
        for (size_t i = 0; i < sizeof FORMS / sizeof FORMS[0]; i++) {
            run r = answer(&s, FORMS[i], act);
            run_assert_identical(&r, &golden, VOCAB);
            run_free(&r);
        }
        run_free(&golden);
    }
    golden_copy_close(&s);
}

/* ---- what is refused ------------------------------------------------------------------------- */

typedef struct refusal {
    const char *golden;
    golden_change change;
    weft_status status;
    const char *message;
} refusal;

static const refusal REFUSALS[] = {
    {NAME,
     {.config = {"\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 9"}},
     WEFT_FORMAT,
     "9 of 8 experts is not possible"},
    {NAME,
     {.config = {"\"num_experts\": 8", "\"num_experts\": 7"}},
     WEFT_FORMAT,
     "tensor 'model.layers.0.mlp.gate.weight' is [8, 64], expected [7, 64]"},
    /* Layers without experts have an MLP. */
    {NAME,
     {.config = {"\"mlp_only_layers\": []", "\"mlp_only_layers\": [2]"}},
     WEFT_FORMAT,
     "tensor 'model.layers.2.mlp.gate_proj.weight' is missing"},
    {NAME,
     {.config = {"\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2"}},
     WEFT_FORMAT,
     "tensor 'model.layers.0.mlp.gate_proj.weight' is missing"},
    {NAME,
     {.config = {"\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 0"}},
     WEFT_FORMAT,
     "decoder_sparse_step is 0"},
    {NAME,
     {.config = {"\"mlp_only_layers\": []", "\"mlp_only_layers\": [4]"}},
     WEFT_FORMAT,
     "mlp_only_layers has 4 of 4 layers"},
    {NAME,
     {.without = "model.layers.1.mlp.shared_expert_gate.weight"},
     WEFT_FORMAT,
     "tensor 'model.layers.1.mlp.shared_expert_gate.weight' is missing"},
    {NAME,
     {.without = "model.layers.3.mlp.experts.7.up_proj.weight"},
     WEFT_FORMAT,
     "tensor 'model.layers.3.mlp.experts.7.up_proj.weight' is missing"},
    {"mixtral",
     {.without = "model.layers.2.block_sparse_moe.experts.0.w3.weight"},
     WEFT_FORMAT,
     "tensor 'model.layers.2.block_sparse_moe.experts.0.w3.weight' is missing"},
    {"olmoe",
     {.config = {"\"clip_qkv\": null", "\"clip_qkv\": 8.0"}},
     WEFT_UNSUPPORTED,
     "a clip_qkv of 8 is not supported"},
    {"qwen3_moe",
     {.config = {"\"use_sliding_window\": false", "\"use_sliding_window\": true"}},
     WEFT_UNSUPPORTED,
     "use_sliding_window without layer_types is not supported"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        golden_copy s;
        weft_error err;
        golden_copy_open(&s, REFUSALS[i].golden);
        weft_status status = golden_open_changed(&s, &REFUSALS[i].change, &err);
        assert_status(REFUSALS[i].status, status, &err);
        assert_message(&err, REFUSALS[i].message);
        golden_copy_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form),
        cmocka_unit_test(test_refusals),
    };
    return TEST_RUN("models/moe", tests);
}
