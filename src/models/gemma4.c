/* gemma4.c - what Gemma 4's text models and the assistants that draft for them have in common:
 * window layers and full ones with heads of another size, layers that read another's keys and
 * values, an embedding for each layer, experts beside the MLP. Source: Transformers'
 * modeling_gemma4; mlx-lm's gemma4_text; llama.cpp's architecture "gemma4". Norm weights are used
 * as they are stored. */
#include "models/gemma4.h"

#include <math.h>

#include "base/assert.h"
#include "models/gemma4_gguf.h"
#include "models/parts.h"
#include "models/rope.h"

const model_param GEMMA4_PARAMS[GEMMA4_N_PARAMS] = {
    {"num_hidden_layers", "block_count", SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},
    {"hidden_size", "embedding_length", SHAPE(n_embd), PARAM_U32, true, 1, 1 << 20, 0},
    {"num_attention_heads", "attention.head_count", SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},
    {"num_key_value_heads", NULL, SHAPE(n_kv_heads), PARAM_U32, true, 1, 4096, 0},
    {"num_global_key_value_heads", NULL, SHAPE(n_full_kv_heads), PARAM_U32, false, 1, 4096, 0},
    {"head_dim", "attention.key_length_swa", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 256},
    {"global_head_dim", "attention.key_length", SHAPE(full_head_dim), PARAM_U32, false, 2, 4096,
     512},
    {"intermediate_size", NULL, SHAPE(n_ff), PARAM_U32, true, 1, 1 << 20, 0},
    {"vocab_size", NULL, SHAPE(n_vocab), PARAM_U32, true, 1, MODEL_VOCAB, 0},
    {"max_position_embeddings", "context_length", SHAPE(context), PARAM_U32, false, 1, 1 << 30,
     131072},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", SHAPE(norm_eps), PARAM_F32, false, 1e-12,
     1, 1e-6},
    {"sliding_window", "attention.sliding_window", SHAPE(window), PARAM_U32, false, 1, 1 << 30,
     512},
    {"final_logit_softcapping", "final_logit_softcapping", SHAPE(final_softcap), PARAM_F32, false,
     1e-3, 1e6, 0},
    {"tie_word_embeddings", NULL, SHAPE(tied), PARAM_BOOL, false, 0, 1, 1},
    {"attention_bias", NULL, SHAPE(qkv_bias), PARAM_BOOL, false, 0, 1, 0},
    {"attention_k_eq_v", NULL, SHAPE(k_is_v), PARAM_BOOL, false, 0, 1, 0},
    {"num_kv_shared_layers", "attention.shared_kv_layers", SHAPE(n_shared_kv), PARAM_U32, false, 0,
     MODEL_LAYERS, 0},
    {"use_double_wide_mlp", NULL, SHAPE(wide_mlp), PARAM_BOOL, false, 0, 1, 0},
    {"hidden_size_per_layer_input", "embedding_length_per_layer_input", SHAPE(ple_dim), PARAM_U32,
     false, 0, 1 << 16, 0},
    {"vocab_size_per_layer_input", NULL, SHAPE(n_ple_vocab), PARAM_U32, false, 0, MODEL_VOCAB, 0},
    {"enable_moe_block", NULL, SHAPE(has_moe), PARAM_BOOL, false, 0, 1, 0},
    {"num_experts", "expert_count", SHAPE(n_experts), PARAM_U32, false, 0, 4096, 0},
    {"top_k_experts", "expert_used_count", SHAPE(n_top), PARAM_U32, false, 0, 256, 0},
    {"moe_intermediate_size", "expert_feed_forward_length", SHAPE(n_expert_ff), PARAM_U32, false, 0,
     1 << 20, 0},
    {NULL, "rope.freq_base", SHAPE(rope_theta), PARAM_F32, false, 1, 1e12, 1e6},
    {NULL, "rope.freq_base_swa", SHAPE(rope_theta_local), PARAM_F32, false, 1, 1e12, 1e4},
    {"backbone_hidden_size", "embedding_length_out", SHAPE(target_embd), PARAM_U32, false, 1,
     1 << 20, 0},
    {"use_ordered_embeddings", NULL, SHAPE(has_centroids), PARAM_BOOL, false, 0, 1, 0},
    {"num_centroids", NULL, SHAPE(n_centroids), PARAM_U32, false, 1, MODEL_VOCAB, 2048},
    {"centroid_intermediate_top_k", NULL, SHAPE(n_top_centroids), PARAM_U32, false, 1, MODEL_VOCAB,
     32},
};

static const model_stack GATE_STACK = {
    SHAPE(n_experts),
    STACK_SOURCES(STACK_SOURCE("experts.gate_up_proj", "ffn_gate_up_exps.weight", SHAPE(n_gate_up),
                               SHAPE_NONE),
                  STACK_SOURCE("experts.switch_glu.gate_proj.weight", "ffn_gate_exps.weight",
                               SHAPE_NONE, SHAPE_NONE)),
    2};
static const model_stack UP_STACK = {
    SHAPE(n_experts),
    STACK_SOURCES(STACK_SOURCE("experts.gate_up_proj", "ffn_gate_up_exps.weight", SHAPE(n_gate_up),
                               SHAPE(n_expert_ff)),
                  STACK_SOURCE("experts.switch_glu.up_proj.weight", "ffn_up_exps.weight",
                               SHAPE_NONE, SHAPE_NONE)),
    2};
static const model_stack DOWN_STACK = {
    SHAPE(n_experts),
    STACK_SOURCES(
        STACK_SOURCE("experts.down_proj", "ffn_down_exps.weight", SHAPE_NONE, SHAPE_NONE),
        STACK_SOURCE("experts.switch_glu.down_proj.weight", NULL, SHAPE_NONE, SHAPE_NONE)),
    2};

/* Of layers that read another's: some files have them all the same. */
#define LEFT(name, gguf)                                                                           \
    {                                                                                              \
        .hf_name = (name), .gguf_name = (gguf), .place = SLOT_LAYER, .rows = SHAPE_NONE,           \
        .cols = SHAPE_NONE, .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_shared), .unused = true    \
    }
/* Beside the root. */
#define ASSISTANT(name, gguf, n_rows, n_cols, flag)                                                \
    {                                                                                              \
        .hf_name = (name), .gguf_name = (gguf), .place = SLOT_HEAD, .rows = SHAPE(n_rows),         \
        .cols = SHAPE(n_cols), .if_flag = SHAPE(flag)                                              \
    }
#define STACK(of, n_rows, n_cols)                                                                  \
    {                                                                                              \
        .hf_name = #of, .place = SLOT_LAYER, .rows = SHAPE(n_rows), .cols = SHAPE(n_cols),         \
        .if_flag = SHAPE(has_moe), .stack = &(of)                                                  \
    }

const model_slot GEMMA4_SLOTS[GEMMA4_N_SLOTS] = {
    PART_MODEL_SLOTS,
    [PART_Q] = SLOT_MATRIX("self_attn.q_proj.weight", "attn_q.weight", q_dim, n_embd, SHAPE_NONE,
                           SLOT_IN(is_window)),
    [PART_O] = SLOT_MATRIX("self_attn.o_proj.weight", "attn_output.weight", n_embd, q_dim,
                           SHAPE_NONE, SLOT_IN(is_window)),
    [PART_K] = SLOT_MATRIX("self_attn.k_proj.weight", "attn_k.weight", kv_dim, n_embd, SHAPE_NONE,
                           SLOT_IN(own_window)),
    [PART_V] = SLOT_MATRIX("self_attn.v_proj.weight", "attn_v.weight", kv_dim, n_embd, SHAPE_NONE,
                           SLOT_IN(own_window)),
    [PART_Q_NORM] = SLOT_VECTOR("self_attn.q_norm.weight", "attn_q_norm.weight", head_dim,
                                SHAPE_NONE, SLOT_IN(is_window)),
    [PART_K_NORM] = SLOT_VECTOR("self_attn.k_norm.weight", "attn_k_norm.weight", head_dim,
                                SHAPE_NONE, SLOT_IN(own_window)),
    [GEMMA4_Q_FULL] = SLOT_MATRIX("self_attn.q_proj.weight", "attn_q.weight", full_q_dim, n_embd,
                                  SHAPE_NONE, SLOT_NOT_IN(is_window)),
    [GEMMA4_O_FULL] = SLOT_MATRIX("self_attn.o_proj.weight", "attn_output.weight", n_embd,
                                  full_q_dim, SHAPE_NONE, SLOT_NOT_IN(is_window)),
    [GEMMA4_K_FULL] = SLOT_MATRIX("self_attn.k_proj.weight", "attn_k.weight", full_kv_dim, n_embd,
                                  SHAPE_NONE, SLOT_IN(own_full)),
    [GEMMA4_V_FULL] = SLOT_MATRIX("self_attn.v_proj.weight", "attn_v.weight", full_kv_dim, n_embd,
                                  SHAPE_NONE, SLOT_IN(own_full_v)),
    [GEMMA4_Q_NORM_FULL] = SLOT_VECTOR("self_attn.q_norm.weight", "attn_q_norm.weight",
                                       full_head_dim, SHAPE_NONE, SLOT_NOT_IN(is_window)),
    [GEMMA4_K_NORM_FULL] = SLOT_VECTOR("self_attn.k_norm.weight", "attn_k_norm.weight",
                                       full_head_dim, SHAPE_NONE, SLOT_IN(own_full)),
    [GEMMA4_K_LEFT] = LEFT("self_attn.k_proj.weight", "attn_k.weight"),
    [GEMMA4_V_LEFT] = LEFT("self_attn.v_proj.weight", "attn_v.weight"),
    [GEMMA4_K_NORM_LEFT] = LEFT("self_attn.k_norm.weight", "attn_k_norm.weight"),
    [GEMMA4_POST_ATTN_NORM] = SLOT_VECTOR("post_attention_layernorm.weight",
                                          "post_attention_norm.weight", n_embd, SHAPE_NONE, 0),
    [PART_MLP_NORM] =
        SLOT_VECTOR("pre_feedforward_layernorm.weight", "ffn_norm.weight", n_embd, SHAPE_NONE, 0),
    [GEMMA4_POST_MLP_NORM] = SLOT_VECTOR("post_feedforward_layernorm.weight",
                                         "post_ffw_norm.weight", n_embd, SHAPE_NONE, 0),
    [PART_GATE] = SLOT_MATRIX("mlp.gate_proj.weight", "ffn_gate.weight", n_ff, n_embd, SHAPE_NONE,
                              SLOT_NOT_IN(is_wide)),
    [PART_UP] = SLOT_MATRIX("mlp.up_proj.weight", "ffn_up.weight", n_ff, n_embd, SHAPE_NONE,
                            SLOT_NOT_IN(is_wide)),
    [PART_DOWN] = SLOT_MATRIX("mlp.down_proj.weight", "ffn_down.weight", n_embd, n_ff, SHAPE_NONE,
                              SLOT_NOT_IN(is_wide)),
    [GEMMA4_GATE_WIDE] = SLOT_MATRIX("mlp.gate_proj.weight", "ffn_gate.weight", n_ff_wide, n_embd,
                                     SHAPE_NONE, SLOT_IN(is_wide)),
    [GEMMA4_UP_WIDE] = SLOT_MATRIX("mlp.up_proj.weight", "ffn_up.weight", n_ff_wide, n_embd,
                                   SHAPE_NONE, SLOT_IN(is_wide)),
    [GEMMA4_DOWN_WIDE] = SLOT_MATRIX("mlp.down_proj.weight", "ffn_down.weight", n_embd, n_ff_wide,
                                     SHAPE_NONE, SLOT_IN(is_wide)),
    [GEMMA4_LAYER_SCALAR] =
        SLOT_VECTOR("layer_scalar", "layer_output_scale.weight", one, SHAPE_NONE, 0),
    [GEMMA4_PLE_EMBED] = {.hf_name = "embed_tokens_per_layer.weight",
                          .gguf_name = "per_layer_token_embd.weight",
                          .place = SLOT_MODEL,
                          .rows = SHAPE(n_ple_vocab),
                          .cols = SHAPE(ple_all),
                          .if_flag = SHAPE(has_ple)},
    [GEMMA4_PLE_MODEL] = {.hf_name = "per_layer_model_projection.weight",
                          .gguf_name = "per_layer_model_proj.weight",
                          .place = SLOT_MODEL,
                          .rows = SHAPE(ple_all),
                          .cols = SHAPE(n_embd),
                          .if_flag = SHAPE(has_ple)},
    [GEMMA4_PLE_NORM] = {.hf_name = "per_layer_projection_norm.weight",
                         .gguf_name = "per_layer_proj_norm.weight",
                         .place = SLOT_MODEL,
                         .rows = SHAPE_NONE,
                         .cols = SHAPE(ple_dim),
                         .if_flag = SHAPE(has_ple)},
    [GEMMA4_PLE_GATE] = SLOT_MATRIX("per_layer_input_gate.weight", "inp_gate.weight", ple_dim,
                                    n_embd, SHAPE(has_ple), 0),
    [GEMMA4_PLE_PROJECTION] = SLOT_MATRIX("per_layer_projection.weight", "proj.weight", n_embd,
                                          ple_dim, SHAPE(has_ple), 0),
    [GEMMA4_PLE_POST_NORM] = SLOT_VECTOR("post_per_layer_input_norm.weight", "post_norm.weight",
                                         n_embd, SHAPE(has_ple), 0),
    [GEMMA4_ROUTER] = {.hf_name = "router.proj.weight",
                       .gguf_name = "ffn_gate_inp.weight",
                       .place = SLOT_LAYER,
                       .rows = SHAPE(n_experts),
                       .cols = SHAPE(n_embd),
                       .if_flag = SHAPE(has_moe),
                       .mlx = MLX_8_BITS},
    [GEMMA4_ROUTER_SCALE] =
        SLOT_VECTOR("router.scale", "ffn_gate_inp.scale", n_embd, SHAPE(has_moe), 0),
    [GEMMA4_EXPERT_FACTOR] =
        SLOT_VECTOR("router.per_expert_scale", "ffn_down_exps.scale", n_experts, SHAPE(has_moe), 0),
    [GEMMA4_EXPERT_GATE] = STACK(GATE_STACK, n_expert_ff, n_embd),
    [GEMMA4_EXPERT_UP] = STACK(UP_STACK, n_expert_ff, n_embd),
    [GEMMA4_EXPERT_DOWN] = STACK(DOWN_STACK, n_embd, n_expert_ff),
    [GEMMA4_MLP_POST_NORM] = SLOT_VECTOR("post_feedforward_layernorm_1.weight",
                                         "post_ffw_norm_1.weight", n_embd, SHAPE(has_moe), 0),
    [GEMMA4_EXPERTS_NORM] = SLOT_VECTOR("pre_feedforward_layernorm_2.weight",
                                        "pre_ffw_norm_2.weight", n_embd, SHAPE(has_moe), 0),
    [GEMMA4_EXPERTS_POST_NORM] = SLOT_VECTOR("post_feedforward_layernorm_2.weight",
                                             "post_ffw_norm_2.weight", n_embd, SHAPE(has_moe), 0),
    [GEMMA4_JOIN] = ASSISTANT("pre_projection.weight", "nextn.pre_projection.weight", n_embd,
                              join_dim, is_assistant),
    [GEMMA4_BACK] = ASSISTANT("post_projection.weight", "nextn.post_projection.weight", target_embd,
                              n_embd, is_assistant),
    [GEMMA4_CENTROIDS] =
        ASSISTANT("masked_embedding.centroids.weight", NULL, n_centroids, n_embd, has_centroids),
    [GEMMA4_ORDER] = {.hf_name = "masked_embedding.token_ordering",
                      .place = SLOT_HEAD,
                      .rows = SHAPE_NONE,
                      .cols = SHAPE(n_vocab),
                      .if_flag = SHAPE(has_centroids),
                      .integers = true},
};

/* ---- what follows from the parameters -------------------------------------------------------- */

/* Values that would be computed wrongly. */
static weft_status refuse(const model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    str text;
    weft_status status = source_text(source, "hidden_activation", NULL, &found, &text, err);
    if (status != WEFT_OK) return status;
    if (found && !str_equal_text(text, "gelu_pytorch_tanh")) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: hidden_activation '%.*s' is not supported",
                       (int)(text.len < 64 ? text.len : 64), text.ptr);
    }
    status = source_text(source, "use_bidirectional_attention", NULL, &found, &text, err);
    if (status != WEFT_OK) return status;
    /* "vision" is about images: the tower's derive() reads it. */
    if (p->qkv_bias || (found && !str_equal_text(text, "vision"))) {
        return err_set(err, WEFT_UNSUPPORTED, "config.json: %s is not supported for gemma4",
                       p->qkv_bias ? "attention_bias" : "use_bidirectional_attention");
    }
    return WEFT_OK;
}

static weft_status layer_number(const json *entry, const char *key, uint32_t layer, uint32_t *n,
                                weft_error *err)
{
    const json *value = json_get(entry, key);
    if (json_kind_of(value) == JSON_KIND_NULL) return WEFT_OK;
    int64_t number = json_int(value, 0);
    if (number < 1 || number > 4096) {
        return err_set(err, WEFT_FORMAT, "config.json: %s of layer %u is %lld, expected 1 to 4096",
                       key, layer, (long long)number);
    }
    *n = (uint32_t)number;
    return WEFT_OK;
}

/* "per_layer_config": what differs, under the layer's number; zeros may stand before it. */
static weft_status read_layer_config(model_params *p, str key, const json *entry, bool *any,
                                     weft_error *err)
{
    uint64_t layer = 0;
    for (size_t i = 0; i < key.len; i++) {
        bool digit = key.ptr[i] >= '0' && key.ptr[i] <= '9';
        layer = digit ? layer * 10 + (uint64_t)(key.ptr[i] - '0') : MODEL_LAYERS;
        if (layer >= p->n_layers) {
            return err_set(err, WEFT_FORMAT,
                           "config.json: per_layer_config of '%.*s', of %u layers",
                           (int)(key.len < 64 ? key.len : 64), key.ptr, p->n_layers);
        }
    }
    json_iter iter = {0};
    str name;
    const json *value;
    while (json_next(entry, &iter, &name, &value)) {
        if (str_equal_text(name, "head_dim") || str_equal_text(name, "num_key_value_heads"))
            continue;
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: per_layer_config with '%.*s' is not supported",
                       (int)(name.len < 64 ? name.len : 64), name.ptr);
    }
    uint32_t dim = p->head_dim;
    uint32_t heads = p->n_kv_heads;
    weft_status status = layer_number(entry, "head_dim", (uint32_t)layer, &dim, err);
    if (status == WEFT_OK)
        status = layer_number(entry, "num_key_value_heads", (uint32_t)layer, &heads, err);
    if (status != WEFT_OK) return status;
    bool full = !p->is_window[layer];
    if (full && !*any) {
        p->full_head_dim = dim;
        p->n_full_kv_heads = heads;
        *any = true;
    }
    uint32_t as_dim = full ? p->full_head_dim : p->head_dim;
    uint32_t as_heads = full ? p->n_full_kv_heads : p->n_kv_heads;
    if (dim == as_dim && heads == as_heads) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED,
                   "config.json: layer %u has %u heads of %u, others of its kind %u of %u",
                   (uint32_t)layer, heads, dim, as_heads, as_dim);
}

static weft_status derive_heads(model_params *p, const model_source *source, weft_error *err)
{
    const json *layers = json_get(source->config, "per_layer_config");
    json_iter iter = {0};
    str key;
    const json *entry;
    bool any = false;
    bool as_others = !p->k_is_v || p->n_full_kv_heads == 0;
    if (as_others && !source->is_gguf) p->n_full_kv_heads = p->n_kv_heads;
    while (json_next(layers, &iter, &key, &entry)) {
        weft_status status = read_layer_config(p, key, entry, &any, err);
        if (status != WEFT_OK) return status;
    }
    bool ok = p->n_kv_heads > 0 && p->n_full_kv_heads > 0;
    ok = ok && p->n_heads % p->n_kv_heads == 0 && p->n_heads % p->n_full_kv_heads == 0;
    if (!ok || p->head_dim % 2 != 0 || p->full_head_dim % 2 != 0) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: %u heads of %u and %u do not go with %u and %u key heads",
                       p->n_heads, p->head_dim, p->full_head_dim, p->n_kv_heads,
                       p->n_full_kv_heads);
    }
    p->rope_dims = p->head_dim;
    p->q_dim = p->n_heads * p->head_dim;
    p->kv_dim = p->n_kv_heads * p->head_dim;
    p->full_q_dim = p->n_heads * p->full_head_dim;
    p->full_kv_dim = p->n_full_kv_heads * p->full_head_dim;
    return WEFT_OK;
}

/* Layers that share read the last layer of their kind that has its own, those of an assistant that
 * of its target. */
static weft_status derive_sharing(model_params *p, weft_error *err)
{
    bool window = false;
    bool full = false;
    uint32_t n_own = p->n_shared_kv < p->n_layers ? p->n_layers - p->n_shared_kv : 0;
    if (p->is_assistant) n_own = 0;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        p->is_shared[i] = i >= n_own;
        p->own_window[i] = !p->is_shared[i] && p->is_window[i];
        p->own_full[i] = !p->is_shared[i] && !p->is_window[i];
        p->own_full_v[i] = p->own_full[i] && !p->k_is_v;
        p->is_wide[i] = p->is_shared[i] && p->wide_mlp;
        window = window || p->own_window[i];
        full = full || p->own_full[i];
        bool found = p->is_window[i] ? window : full;
        if (!p->is_shared[i] || found || p->is_assistant) continue;
        return err_set(err, WEFT_FORMAT,
                       "config.json: layer %u shares keys and values, and no layer of its kind has "
                       "them",
                       i);
    }
    p->n_ff_wide = 2 * p->n_ff;
    return WEFT_OK;
}

static weft_status derive_experts(model_params *p, weft_error *err)
{
    p->n_gate_up = 2 * p->n_expert_ff;
    bool ok = p->n_experts > 0 && p->n_top > 0 && p->n_top <= p->n_experts && p->n_expert_ff > 0;
    if (ok || !p->has_moe) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "config.json: %u of %u experts of width %u is not possible",
                   p->n_top, p->n_experts, p->n_expert_ff);
}

static weft_status derive_ple(model_params *p, weft_error *err)
{
    uint64_t all = (uint64_t)p->ple_dim * p->n_layers;
    p->has_ple = p->ple_dim > 0;
    p->ple_all = (uint32_t)all;
    if (!p->has_ple || p->n_ple_vocab >= p->n_vocab) return WEFT_OK;
    return err_set(err, WEFT_FORMAT,
                   "config.json: vocab_size_per_layer_input is %u, expected at least %u",
                   p->n_ple_vocab, p->n_vocab);
}

static weft_status derive_ropes(model_params *p, const model_source *source, weft_error *err)
{
    const json *settings = json_get(source->config, "rope_parameters");
    const json *full = json_get(settings, "full_attention");
    const json *local = json_get(settings, "sliding_attention");
    p->n_ropes = 2;
    double theta = (double)p->rope_theta;
    weft_status status = rope_config(&p->ropes[0], source, full, theta, p->context, err);
    /* A GGUF file has divisors that stop the others. */
    if (status == WEFT_OK && json_kind_of(full) == JSON_KIND_NULL && !source->is_gguf) {
        p->ropes[0].kind = ROPE_PROPORTIONAL;
        p->ropes[0].partial = 0.25;
    }
    p->ropes[0].n_dims = p->full_head_dim;
    theta = (double)p->rope_theta_local;
    if (status == WEFT_OK)
        status = rope_config(&p->ropes[1], source, local, theta, p->context, err);
    p->ropes[1].no_factors = true;
    return status;
}

weft_status gemma4_derive(model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    weft_status status = refuse(p, source, err);
    if (status == WEFT_OK && source->is_gguf) status = gemma4_read_gguf(p, source, err);
    if (status == WEFT_OK && !source->is_gguf) status = part_layer_types(p, source, &found, err);
    if (status == WEFT_OK && !source->is_gguf && !found)
        status = err_set(err, WEFT_FORMAT, "config.json has no layer_types");
    p->is_window[p->n_layers - 1] = false;
    p->act = GRAPH_GELU_TANH;
    p->embed_scale = (float)sqrt((double)p->n_embd);
    p->attn_scale = 1.0F;
    p->is_unified = str_equal_text(source->type, "gemma4_unified_text") ||
                    str_equal_text(source->type, "gemma4_unified");
    p->one = 1;
    if (status == WEFT_OK) status = derive_heads(p, source, err);
    if (status == WEFT_OK) status = derive_sharing(p, err);
    if (status == WEFT_OK) status = derive_experts(p, err);
    if (status == WEFT_OK) status = derive_ple(p, err);
    return status == WEFT_OK ? derive_ropes(p, source, err) : status;
}

/* ---- the graph ------------------------------------------------------------------------------- */

void gemma4_kinds(const model_params *p, gemma4_kind kinds[2])
{
    kinds[0] = (gemma4_kind){.q = GEMMA4_Q_FULL,
                             .k = GEMMA4_K_FULL,
                             .v = GEMMA4_V_FULL,
                             .o = GEMMA4_O_FULL,
                             .q_norm = GEMMA4_Q_NORM_FULL,
                             .k_norm = GEMMA4_K_NORM_FULL,
                             .head_dim = p->full_head_dim,
                             .n_kv_heads = p->n_full_kv_heads,
                             .layout = KV_LAYOUT_FULL,
                             .k_is_v = p->k_is_v};
    kinds[1] = (gemma4_kind){.q = PART_Q,
                             .k = PART_K,
                             .v = PART_V,
                             .o = PART_O,
                             .q_norm = PART_Q_NORM,
                             .k_norm = PART_K_NORM,
                             .head_dim = p->head_dim,
                             .n_kv_heads = p->n_kv_heads,
                             .rope_i = 1,
                             .layout = KV_LAYOUT_WINDOW,
                             .window = p->window};
}

uint32_t gemma4_state(model_build *b, const gemma4_kind *of)
{
    uint32_t state_i = b->n_kv_layers++;
    b->kv_layers[state_i] = (kv_layer){.layout = of->layout,
                                       .n_heads = of->n_kv_heads,
                                       .k_dim = of->head_dim,
                                       .v_dim = of->head_dim,
                                       .window = of->window};
    return state_i;
}

static graph_id append(model_build *b, uint32_t layer, const gemma4_kind *of, graph_id k,
                       graph_id v)
{
    graph *g = b->g;
    uint32_t state_i = gemma4_state(b, of);
    v = graph_rms_norm_plain(g, v, of->head_dim, b->p->norm_eps);
    k = graph_rope_apply(g, part_norm(b, of->k_norm, layer, k), of->head_dim, of->rope_i);
    return graph_kv_append(g, k, v, state_i, of->n_kv_heads);
}

static graph_id attention(model_build *b, uint32_t layer, gemma4_kind *of, graph_id x)
{
    graph *g = b->g;
    graph_id q = graph_linear(g, x, build_slot(b, of->q, layer), 0);
    if (!b->p->is_shared[layer]) {
        graph_id k = graph_linear(g, x, build_slot(b, of->k, layer), 0);
        graph_id v = of->k_is_v ? k : graph_linear(g, x, build_slot(b, of->v, layer), 0);
        of->state = append(b, layer, of, k, v);
    }
    q = graph_rope_apply(g, part_norm(b, of->q_norm, layer, q), of->head_dim, of->rope_i);
    /* Tokens of an image see each other in layers with windows, in unified models in all. */
    bool causal = b->images && of->layout == KV_LAYOUT_FULL && !b->p->is_unified;
    uint32_t n_heads = b->p->n_heads;
    float scale = b->p->attn_scale;
    graph_id o = causal ? graph_attend_causal(g, q, of->state, n_heads, scale, 0.0F)
                        : graph_attend(g, q, of->state, n_heads, scale, 0.0F);
    return graph_linear(g, o, build_slot(b, of->o, layer), 0);
}

static graph_id mlp(model_build *b, uint32_t layer, graph_id x)
{
    static const uint32_t WIDE[] = {GEMMA4_GATE_WIDE, GEMMA4_UP_WIDE, GEMMA4_DOWN_WIDE};
    if (b->p->is_wide[layer]) return part_gated_build(b, layer, x, WIDE);
    return part_mlp_build(b, layer, x);
}

/* Of the residual stream before any norm. */
static graph_id experts(model_build *b, uint32_t layer, graph_id x)
{
    graph *g = b->g;
    const model_params *p = b->p;
    graph_id r = part_norm(b, GEMMA4_ROUTER_SCALE, layer, x);
    r = graph_scale(g, r, (float)(1.0 / sqrt((double)p->n_embd)));
    graph_id scores = graph_linear(g, r, build_slot(b, GEMMA4_ROUTER, layer), 0);
    graph_route how = {.top_k = p->n_top, .flags = GRAPH_ROUTE_NORMALIZE, .scale = 1.0F};
    graph_id route =
        graph_route_experts(g, scores, 0, build_slot(b, GEMMA4_EXPERT_FACTOR, layer), how);
    graph_id stacks[3] = {build_stack(b, GEMMA4_EXPERT_GATE, layer),
                          build_stack(b, GEMMA4_EXPERT_UP, layer),
                          build_stack(b, GEMMA4_EXPERT_DOWN, layer)};
    graph_id y =
        graph_experts(g, part_norm(b, GEMMA4_EXPERTS_NORM, layer, x), route, stacks, p->act);
    return part_norm(b, GEMMA4_EXPERTS_POST_NORM, layer, y);
}

static graph_id feed_forward(model_build *b, uint32_t layer, graph_id x)
{
    graph *g = b->g;
    graph_id f = mlp(b, layer, part_norm(b, PART_MLP_NORM, layer, x));
    if (b->p->has_moe)
        f = graph_add(g, part_norm(b, GEMMA4_MLP_POST_NORM, layer, f), experts(b, layer, x));
    return graph_add(g, x, part_norm(b, GEMMA4_POST_MLP_NORM, layer, f));
}

graph_id gemma4_layer_inputs(model_build *b, graph_id tokens, graph_id x)
{
    graph *g = b->g;
    const model_params *p = b->p;
    graph_id e = graph_embed(g, tokens, build_slot(b, GEMMA4_PLE_EMBED, 0));
    e = graph_scale(g, e, (float)sqrt((double)p->ple_dim));
    graph_id y = graph_linear(g, x, build_slot(b, GEMMA4_PLE_MODEL, 0), 0);
    y = part_norm(b, GEMMA4_PLE_NORM, 0, graph_scale(g, y, (float)(1.0 / sqrt((double)p->n_embd))));
    return graph_scale(g, graph_add(g, y, e), (float)sqrt(0.5));
}

static graph_id add_layer_input(model_build *b, uint32_t layer, graph_id x, graph_id inputs)
{
    graph *g = b->g;
    const model_params *p = b->p;
    graph_id gate = graph_linear(g, x, build_slot(b, GEMMA4_PLE_GATE, layer), 0);
    graph_id own = graph_cols(g, inputs, p->ple_all, layer * p->ple_dim, p->ple_dim);
    graph_id u = graph_glu(g, gate, own, p->act);
    u = graph_linear(g, u, build_slot(b, GEMMA4_PLE_PROJECTION, layer), 0);
    return graph_add(g, x, part_norm(b, GEMMA4_PLE_POST_NORM, layer, u));
}

graph_id gemma4_layer(model_build *b, uint32_t layer, gemma4_kind kinds[2], graph_id x,
                      graph_id inputs)
{
    graph *g = b->g;
    const model_params *p = b->p;
    graph_id a = part_norm(b, PART_ATTN_NORM, layer, x);
    a = attention(b, layer, &kinds[p->is_window[layer] ? 1 : 0], a);
    x = graph_add(g, x, part_norm(b, GEMMA4_POST_ATTN_NORM, layer, a));
    x = feed_forward(b, layer, x);
    if (p->has_ple) x = add_layer_input(b, layer, x, inputs);
    return graph_scale(g, x, build_number(b, GEMMA4_LAYER_SCALAR, layer));
}
