/* qwen3_5.c - Qwen 3.5, dense text models: three of four layers are gated delta nets, the others
 * attend with gated outputs, and queries and keys that are normed and turned in part. Sources:
 * Transformers' modeling_qwen3_5; MLX's files, which differ in two things: norm weights are stored
 * as they are used, not as offsets from 1, and the convolution is [C, K, 1]. The norm behind the
 * recurrence has no offset in either. The image tower and the draft head are left out. */
#include "base/assert.h"
#include "models/parts.h"
#include "models/rope.h"

enum {
    DELTA_QKV = PART_N_SLOTS,
    DELTA_Z,
    DELTA_RATE,
    DELTA_DECAY,
    DELTA_CONV,
    DELTA_A_LOG,
    DELTA_BIAS,
    DELTA_NORM,
    DELTA_OUT
};

static const model_param PARAMS[] = {
    {"num_hidden_layers", NULL, SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},
    {"hidden_size", NULL, SHAPE(n_embd), PARAM_U32, true, 1, 1 << 20, 0},
    {"num_attention_heads", NULL, SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},
    {"num_key_value_heads", NULL, SHAPE(n_kv_heads), PARAM_U32, true, 1, 4096, 0},
    {"head_dim", NULL, SHAPE(head_dim), PARAM_U32, true, 2, 4096, 0},
    {"intermediate_size", NULL, SHAPE(n_ff), PARAM_U32, true, 1, 1 << 20, 0},
    {"vocab_size", NULL, SHAPE(n_vocab), PARAM_U32, true, 1, MODEL_VOCAB, 0},
    {"max_position_embeddings", NULL, SHAPE(context), PARAM_U32, true, 1, 1 << 30, 0},
    {"rms_norm_eps", NULL, SHAPE(norm_eps), PARAM_F32, true, 1e-12, 1, 0},
    {"rope_theta", NULL, SHAPE(rope_theta), PARAM_F32, false, 1, 1e12, 1e7},
    {"linear_num_key_heads", NULL, SHAPE(n_delta_k_heads), PARAM_U32, true, 1, 4096, 0},
    {"linear_num_value_heads", NULL, SHAPE(n_delta_v_heads), PARAM_U32, true, 1, 4096, 0},
    {"linear_key_head_dim", NULL, SHAPE(delta_k_dim), PARAM_U32, true, 1, 4096, 0},
    {"linear_value_head_dim", NULL, SHAPE(delta_v_dim), PARAM_U32, true, 1, 4096, 0},
    {"linear_conv_kernel_dim", NULL, SHAPE(conv_taps), PARAM_U32, true, 2, GRAPH_TAPS, 0},
    {"full_attention_interval", NULL, SHAPE(full_interval), PARAM_U32, false, 1, MODEL_LAYERS, 4},
    {"tie_word_embeddings", NULL, SHAPE(tied), PARAM_BOOL, false, 0, 1, 0},
    {"attention_bias", NULL, SHAPE(qkv_bias), PARAM_BOOL, false, 0, 1, 0},
};

static const model_slot SLOTS[] = {
    PART_MODEL_SLOTS,
    PART_MLP_SLOTS,
    [PART_Q] = {"self_attn.q_proj.weight", NULL, SLOT_LAYER, SHAPE(gated_q_dim), SHAPE(n_embd),
                false, .if_flag = SHAPE_NONE, .layers = SLOT_NOT_IN(is_recurrent)},
    [PART_K] = {"self_attn.k_proj.weight", NULL, SLOT_LAYER, SHAPE(kv_dim), SHAPE(n_embd), false,
                .if_flag = SHAPE_NONE, .layers = SLOT_NOT_IN(is_recurrent)},
    [PART_V] = {"self_attn.v_proj.weight", NULL, SLOT_LAYER, SHAPE(kv_dim), SHAPE(n_embd), false,
                .if_flag = SHAPE_NONE, .layers = SLOT_NOT_IN(is_recurrent)},
    [PART_O] = {"self_attn.o_proj.weight", NULL, SLOT_LAYER, SHAPE(n_embd), SHAPE(q_dim), false,
                .if_flag = SHAPE_NONE, .layers = SLOT_NOT_IN(is_recurrent)},
    [PART_Q_NORM] = {"self_attn.q_norm.weight", NULL, SLOT_LAYER, SHAPE_NONE, SHAPE(head_dim),
                     false, .if_flag = SHAPE_NONE, .layers = SLOT_NOT_IN(is_recurrent)},
    [PART_K_NORM] = {"self_attn.k_norm.weight", NULL, SLOT_LAYER, SHAPE_NONE, SHAPE(head_dim),
                     false, .if_flag = SHAPE_NONE, .layers = SLOT_NOT_IN(is_recurrent)},
    [PART_MLP_NORM] = {"post_attention_layernorm.weight", NULL, SLOT_LAYER, SHAPE_NONE,
                       SHAPE(n_embd), false, .if_flag = SHAPE_NONE},
    [DELTA_QKV] = {"linear_attn.in_proj_qkv.weight", NULL, SLOT_LAYER, SHAPE(conv_dim),
                   SHAPE(n_embd), false, .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_recurrent)},
    [DELTA_Z] = {"linear_attn.in_proj_z.weight", NULL, SLOT_LAYER, SHAPE(delta_dim), SHAPE(n_embd),
                 false, .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_recurrent)},
    [DELTA_RATE] = {"linear_attn.in_proj_b.weight", NULL, SLOT_LAYER, SHAPE(n_delta_v_heads),
                    SHAPE(n_embd), false, .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_recurrent)},
    [DELTA_DECAY] = {"linear_attn.in_proj_a.weight", NULL, SLOT_LAYER, SHAPE(n_delta_v_heads),
                     SHAPE(n_embd), false, .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_recurrent)},
    [DELTA_CONV] = {"linear_attn.conv1d.weight", NULL, SLOT_LAYER, SHAPE(conv_dim),
                    SHAPE(conv_taps), false, .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_recurrent),
                    .squeeze = true},
    [DELTA_A_LOG] = {"linear_attn.A_log", NULL, SLOT_LAYER, SHAPE_NONE, SHAPE(n_delta_v_heads),
                     false, .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_recurrent),
                     .mlx = MLX_TYPE},
    [DELTA_BIAS] = {"linear_attn.dt_bias", NULL, SLOT_LAYER, SHAPE_NONE, SHAPE(n_delta_v_heads),
                    false, .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_recurrent)},
    [DELTA_NORM] = {"linear_attn.norm.weight", NULL, SLOT_LAYER, SHAPE_NONE, SHAPE(delta_v_dim),
                    false, .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_recurrent),
                    .mlx = MLX_PLAIN_NORM},
    [DELTA_OUT] = {"linear_attn.out_proj.weight", NULL, SLOT_LAYER, SHAPE(n_embd), SHAPE(delta_dim),
                   false, .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_recurrent)},
};

/* Hugging Face's form, whose convolutions are [C, 1, K], stores norm weights as offsets. */
static bool stores_offsets(const weights *w)
{
    for (uint32_t i = 0; i < w->n_tensors; i++) {
        const tensor *t = &w->tensors[i];
        if (!str_ends(str_of(t->name), ".linear_attn.conv1d.weight")) continue;
        return t->dims[t->n_dims - 1] != 1;
    }
    return true;
}

static weft_status derive_layers(model_params *p, const model_source *source, weft_error *err)
{
    const json *types = json_get(source->config, "layer_types");
    bool listed = json_kind_of(types) == JSON_KIND_ARRAY;
    if (listed && json_length(types) != p->n_layers) {
        return err_set(err, WEFT_FORMAT, "config.json: layer_types has %zu entries for %u layers",
                       json_length(types), p->n_layers);
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        p->is_recurrent[i] = (i + 1) % p->full_interval != 0;
        if (!listed) continue;
        str type = json_text(json_at(types, i));
        p->is_recurrent[i] = str_equal_text(type, "linear_attention");
        if (!p->is_recurrent[i] && !str_equal_text(type, "full_attention")) {
            return err_set(err, WEFT_UNSUPPORTED, "config.json: layer type '%.*s' is not supported",
                           (int)(type.len < 64 ? type.len : 64), type.ptr);
        }
    }
    return WEFT_OK;
}

/* Numbers in the matrices of a layer; real ones have less than a million. */
enum { STATE_MOST = 1 << 27 };

/* A text that must be absent or what is computed. */
static weft_status check_text(const model_source *source, const char *key, const char *expected,
                              weft_error *err)
{
    bool found;
    str text;
    weft_status status = source_text(source, key, NULL, &found, &text, err);
    if (status != WEFT_OK || !found || str_equal_text(text, expected)) return status;
    return err_set(err, WEFT_UNSUPPORTED, "config.json: %s '%.*s' is not supported, expected %s",
                   key, (int)(text.len < 64 ? text.len : 64), text.ptr, expected);
}

static weft_status check_config(const model_params *p, const model_source *source, weft_error *err)
{
    weft_status status = check_text(source, "hidden_act", "silu", err);
    /* It names the gate of the recurrence; that of attention is a sigmoid all the same. */
    if (status == WEFT_OK) status = check_text(source, "output_gate_type", "swish", err);
    if (status != WEFT_OK) return status;
    if (p->qkv_bias || !json_bool(json_get(source->config, "attn_output_gate"), true)) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: attention %s is not supported for "
                       "qwen3_5",
                       p->qkv_bias ? "with biases" : "without output gates");
    }
    if (p->n_delta_v_heads % p->n_delta_k_heads != 0) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: linear_num_value_heads %u is not a multiple of "
                       "linear_num_key_heads %u",
                       p->n_delta_v_heads, p->n_delta_k_heads);
    }
    uint64_t state = (uint64_t)p->n_delta_v_heads * p->delta_v_dim * p->delta_k_dim;
    if (state > STATE_MOST) {
        return err_set(err, WEFT_LIMIT,
                       "config.json: a state of %u heads of %u by %u, at most %d numbers",
                       p->n_delta_v_heads, p->delta_v_dim, p->delta_k_dim, STATE_MOST);
    }
    return WEFT_OK;
}

/* The part of a head that turns: beside the rope settings, or in them. */
static weft_status derive_rope(model_params *p, const model_source *source, weft_error *err)
{
    const json *settings = json_get(source->config, "rope_parameters");
    bool found;
    double part = 0.25;
    weft_status status = source_number(source, "partial_rotary_factor", NULL, &found, &part, err);
    if (status != WEFT_OK) return status;
    part = json_number(json_get(settings, "partial_rotary_factor"), part);
    if (!(part > 0.0 && part <= 1.0)) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: partial_rotary_factor is %g, expected 0 to 1", part);
    }
    p->rope_dims = (uint32_t)((double)p->head_dim * part);
    if (p->rope_dims == 0) {
        return err_set(err, WEFT_FORMAT, "config.json: %g of heads of %u is nothing", part,
                       p->head_dim);
    }
    p->n_ropes = 1;
    return rope_config(&p->ropes[0], source, settings, (double)p->rope_theta, p->context, err);
}

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    weft_status status = check_config(p, source, err);
    if (status == WEFT_OK) status = derive_layers(p, source, err);
    if (status == WEFT_OK) status = derive_rope(p, source, err);
    if (status == WEFT_OK) status = part_derive(p, err);
    if (status != WEFT_OK) return status;
    p->act = GRAPH_SILU;
    p->norm_add = stores_offsets(source->weights) ? 1.0F : 0.0F;
    p->gated_q_dim = 2 * p->q_dim;
    p->delta_dim = p->n_delta_v_heads * p->delta_v_dim;
    p->conv_dim = 2 * p->n_delta_k_heads * p->delta_k_dim + p->delta_dim;
    return WEFT_OK;
}

static uint32_t add_state(model_build *b)
{
    const model_params *p = b->p;
    uint32_t i = b->n_kv_layers++;
    b->kv_layers[i] = (kv_layer){
        .layout = KV_LAYOUT_RECURRENT,
        .buffers = {(p->conv_taps - 1) * p->conv_dim, p->delta_dim * p->delta_k_dim},
        .record = p->conv_dim + 2 * p->n_delta_v_heads,
    };
    return i;
}

static graph_id build_delta(model_build *b, uint32_t l, graph_id x)
{
    graph *g = b->g;
    const model_params *p = b->p;
    uint32_t state_i = add_state(b);
    graph_id m = graph_linear(g, x, build_slot(b, DELTA_QKV, l), 0);
    graph_id z = graph_linear(g, x, build_slot(b, DELTA_Z, l), 0);
    graph_delta d = {.decay = graph_linear(g, x, build_slot(b, DELTA_DECAY, l), 0),
                     .rate = graph_linear(g, x, build_slot(b, DELTA_RATE, l), 0),
                     .state_i = state_i,
                     .n_k_heads = p->n_delta_k_heads,
                     .k_dim = p->delta_k_dim,
                     .eps = 1e-6F};
    d.x = graph_conv(g, m, build_slot(b, DELTA_CONV, l), state_i);
    d.a_log = build_slot(b, DELTA_A_LOG, l);
    d.bias = build_slot(b, DELTA_BIAS, l);
    graph_id y = graph_gated_delta(g, &d);
    y = graph_rms_norm(g, y, build_slot(b, DELTA_NORM, l), p->norm_eps, 0.0F);
    return graph_linear(g, graph_glu(g, z, y, GRAPH_SILU), build_slot(b, DELTA_OUT, l), 0);
}

static void build(model_build *b)
{
    graph *g = b->g;
    graph_id x = part_embed(b);
    for (uint32_t l = 0; l < b->p->n_layers; l++) {
        graph_id a = part_norm(b, PART_ATTN_NORM, l, x);
        part_attention how = {.rope_i = 0, .gated = true};
        a = b->p->is_recurrent[l] ? build_delta(b, l, a) : part_attention_build(b, l, a, how);
        x = graph_add(g, x, a);
        x = graph_add(g, x, part_mlp_build(b, l, part_norm(b, PART_MLP_NORM, l, x)));
    }
    part_head(b, x);
}

static const char *const HF_TYPES[] = {"qwen3_5_text", "qwen3_5", NULL};
static const char *const GGUF_TYPES[] = {NULL};
static const char *const DROP[] = {
    "*.rotary_emb.inv_freq", "model.visual.*",       "visual.*", "vision_tower.*", "mtp.*",
    "model.mtp.*",           "language_model.mtp.*", NULL};

static const mlx_type MLX_TYPES[] = {{"qwen3_5_text", "qwen3_5", "language_model.model."},
                                     {"qwen3_5", "qwen3_5", "language_model.model."},
                                     {NULL, NULL, NULL}};
static const mlx_form MLX = {.types = MLX_TYPES};

const model_family MODEL_FAMILY_QWEN3_5 = {
    .name = "qwen3_5",
    .hf_types = HF_TYPES,
    .gguf_types = GGUF_TYPES,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
    .slots = SLOTS,
    .n_slots = COUNT_OF(SLOTS),
    .drop = DROP,
    .derive = derive,
    .build = build,
    .mlx = &MLX,
};
