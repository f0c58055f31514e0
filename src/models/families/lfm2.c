/* lfm2.c - LFM2: short convolutions between two gates, and among them layers that attend with
 * normed queries and keys. Source: Transformers' modeling_lfm2; MLX's files have the convolution as
 * [C, K, 1]; llama.cpp's architecture "lfm2", whose layers without key heads are the convolutions.
 */
#include <math.h>

#include "base/assert.h"
#include "models/layer_lists.h"
#include "models/parts.h"
#include "models/rope.h"

enum { CONV_IN = PART_N_SLOTS, CONV, CONV_OUT, N_SLOTS };

static const model_param PARAMS[] = {
    {"num_hidden_layers", "block_count", SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},
    {"hidden_size", "embedding_length", SHAPE(n_embd), PARAM_U32, true, 1, 1 << 20, 0},
    {"num_attention_heads", "attention.head_count", SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},
    {"num_key_value_heads", NULL, SHAPE(n_kv_heads), PARAM_U32, false, 1, 4096, 0},
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 0},
    {"intermediate_size", "feed_forward_length", SHAPE(n_ff), PARAM_U32, false, 1, 1 << 20, 0},
    {"vocab_size", NULL, SHAPE(n_vocab), PARAM_U32, true, 1, MODEL_VOCAB, 0},
    {"max_position_embeddings", "context_length", SHAPE(context), PARAM_U32, true, 1, 1 << 30, 0},
    {"norm_eps", "attention.layer_norm_rms_epsilon", SHAPE(norm_eps), PARAM_F32, true, 1e-12, 1, 0},
    {"rope_theta", "rope.freq_base", SHAPE(rope_theta), PARAM_F32, false, 1, 1e12, 1e6},
    {NULL, "rope.dimension_count", SHAPE(rope_dims), PARAM_U32, false, 2, 4096, 0},
    {"conv_L_cache", "shortconv.l_cache", SHAPE(conv_taps), PARAM_U32, true, 2, GRAPH_TAPS, 0},
    {"tie_word_embeddings", NULL, SHAPE(tied), PARAM_BOOL, false, 0, 1, 1},
};

/* The arguments of a row may be one macro: of layers that attend, of convolutions. */
#define MATRIX(...) SLOT_MATRIX(__VA_ARGS__)
#define VECTOR(...) SLOT_VECTOR(__VA_ARGS__)
#define ATTENDS SHAPE_NONE, SLOT_NOT_IN(is_recurrent)
#define CONVOLVES SHAPE_NONE, SLOT_IN(is_recurrent)

static const model_slot SLOTS[N_SLOTS] = {
    [PART_EMBED] = {"embed_tokens.weight", "token_embd.weight", SLOT_MODEL, SHAPE(n_vocab),
                    SHAPE(n_embd), false, .if_flag = SHAPE_NONE},
    [PART_HEAD] = {"lm_head.weight", "output.weight", SLOT_HEAD, SHAPE(n_vocab), SHAPE(n_embd),
                   true, .if_flag = SHAPE_NONE},
    [PART_FINAL_NORM] = {"embedding_norm.weight", "token_embd_norm.weight", SLOT_MODEL, SHAPE_NONE,
                         SHAPE(n_embd), false, .if_flag = SHAPE_NONE},
    [PART_ATTN_NORM] = VECTOR("operator_norm.weight", "attn_norm.weight", n_embd, SHAPE_NONE, 0),
    [PART_Q] = MATRIX("self_attn.q_proj.weight", "attn_q.weight", q_dim, n_embd, ATTENDS),
    [PART_K] = MATRIX("self_attn.k_proj.weight", "attn_k.weight", kv_dim, n_embd, ATTENDS),
    [PART_V] = MATRIX("self_attn.v_proj.weight", "attn_v.weight", kv_dim, n_embd, ATTENDS),
    [PART_O] = MATRIX("self_attn.out_proj.weight", "attn_output.weight", n_embd, q_dim, ATTENDS),
    [PART_Q_NORM] = VECTOR("self_attn.q_layernorm.weight", "attn_q_norm.weight", head_dim, ATTENDS),
    [PART_K_NORM] = VECTOR("self_attn.k_layernorm.weight", "attn_k_norm.weight", head_dim, ATTENDS),
    [PART_MLP_NORM] = VECTOR("ffn_norm.weight", "ffn_norm.weight", n_embd, SHAPE_NONE, 0),
    [PART_GATE] = MATRIX("feed_forward.w1.weight", "ffn_gate.weight", n_ff, n_embd, SHAPE_NONE, 0),
    [PART_UP] = MATRIX("feed_forward.w3.weight", "ffn_up.weight", n_ff, n_embd, SHAPE_NONE, 0),
    [PART_DOWN] = MATRIX("feed_forward.w2.weight", "ffn_down.weight", n_embd, n_ff, SHAPE_NONE, 0),
    [CONV_IN] =
        MATRIX("conv.in_proj.weight", "shortconv.in_proj.weight", conv_dim, n_embd, CONVOLVES),
    [CONV] = {"conv.conv.weight", "shortconv.conv.weight", SLOT_LAYER, SHAPE(n_embd),
              SHAPE(conv_taps), false, SHAPE_NONE, .layers = SLOT_IN(is_recurrent),
              .squeeze = true},
    [CONV_OUT] =
        MATRIX("conv.out_proj.weight", "shortconv.out_proj.weight", n_embd, n_embd, CONVOLVES),
};

/* A convolution has no key heads; the others have as many as each other. */
static weft_status read_gguf_layers(model_params *p, const model_source *source, weft_error *err)
{
    uint32_t counts[MODEL_LAYERS];
    bool found;
    weft_status status =
        list_layer_counts(p, source, "attention.head_count_kv", 4096, counts, &found, err);
    if (status == WEFT_OK && !found)
        status = err_set(err, WEFT_FORMAT, "the file has no attention.head_count_kv");
    for (uint32_t i = 0; i < p->n_layers && status == WEFT_OK; i++) {
        p->is_recurrent[i] = counts[i] == 0;
        if (p->n_kv_heads == 0) p->n_kv_heads = counts[i];
        if (counts[i] == 0 || counts[i] == p->n_kv_heads) continue;
        status = err_set(err, WEFT_UNSUPPORTED, "layers of %u and of %u key heads", p->n_kv_heads,
                         counts[i]);
    }
    return status;
}

/* Layers by their types, or those that attend by their numbers; all attend where neither is said.
 */
static weft_status derive_layers(model_params *p, const model_source *source, weft_error *err)
{
    const json *types = json_get(source->config, "layer_types");
    const json *attends = json_get(source->config, "full_attn_idxs");
    if (source->is_gguf) return read_gguf_layers(p, source, err);
    bool typed = json_kind_of(types) == JSON_KIND_ARRAY;
    bool listed = !typed && json_kind_of(attends) == JSON_KIND_ARRAY;
    if (typed && json_length(types) != p->n_layers) {
        return err_set(err, WEFT_FORMAT, "config.json: layer_types has %zu entries for %u layers",
                       json_length(types), p->n_layers);
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        str type = json_text(json_at(types, i));
        p->is_recurrent[i] = listed || (typed && str_equal_text(type, "conv"));
        if (typed && !p->is_recurrent[i] && !str_equal_text(type, "full_attention")) {
            return err_set(err, WEFT_UNSUPPORTED, "config.json: layer type '%.*s' is not supported",
                           (int)(type.len < 64 ? type.len : 64), type.ptr);
        }
    }
    for (size_t i = 0; listed && i < json_length(attends); i++) {
        double layer = json_number(json_at(attends, i), -1.0);
        if (!(layer >= 0.0 && layer < (double)p->n_layers && layer == floor(layer))) {
            return err_set(err, WEFT_FORMAT, "config.json: full_attn_idxs names layer %g of %u",
                           layer, p->n_layers);
        }
        p->is_recurrent[(uint32_t)layer] = false;
    }
    return WEFT_OK;
}

/* Two thirds of the width that a config gives, times a factor, up to a multiple: unless it says
 * that the width is meant as it stands. */
static weft_status derive_width(model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    bool adjust = true;
    double width = (double)p->n_ff;
    double factor = 1.0;
    double multiple = 256.0;
    weft_status status = source_number(source, "block_ff_dim", NULL, &found, &width, err);
    if (status == WEFT_OK)
        status = source_flag(source, "block_auto_adjust_ff_dim", NULL, &found, &adjust, err);
    if (status == WEFT_OK)
        status = source_number(source, "block_ffn_dim_multiplier", NULL, &found, &factor, err);
    if (status == WEFT_OK)
        status = source_number(source, "block_multiple_of", NULL, &found, &multiple, err);
    if (status == WEFT_OK && source->is_gguf && p->n_ff == 0)
        status = err_set(err, WEFT_FORMAT, "the file has no feed_forward_length");
    if (status != WEFT_OK || source->is_gguf) return status;
    if (!(width >= 1.0 && width <= 1 << 20 && multiple >= 1.0 && multiple <= 1 << 20)) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: an MLP of width %g in multiples of %g is not possible", width,
                       multiple);
    }
    if (adjust) {
        width = floor(factor * floor(2.0 * width / 3.0));
        width = ceil(width / multiple) * multiple;
    }
    if (!(width >= 1.0 && width <= 1 << 20)) {
        return err_set(err, WEFT_FORMAT, "config.json: an MLP of width %g, expected 1 to %d", width,
                       1 << 20);
    }
    p->n_ff = (uint32_t)width;
    return WEFT_OK;
}

/* Values that would be computed wrongly. */
static weft_status refuse(const model_source *source, weft_error *err)
{
    bool found;
    bool bias = false;
    double window = 0.0;
    weft_status status =
        source_number(source, NULL, "attention.sliding_window", &found, &window, err);
    if (status == WEFT_OK && window != 0.0) {
        return err_set(err, WEFT_UNSUPPORTED, "attention.sliding_window %g is not supported",
                       window);
    }
    if (status == WEFT_OK) status = source_flag(source, "conv_bias", NULL, &found, &bias, err);
    if (status != WEFT_OK || !bias) return status;
    return err_set(err, WEFT_UNSUPPORTED, "config.json: conv_bias is not supported for lfm2");
}

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    weft_status status = refuse(source, err);
    if (status == WEFT_OK)
        status = source_flag(source, "tie_embedding", NULL, &found, &p->tied, err);
    if (status == WEFT_OK) status = derive_layers(p, source, err);
    if (status == WEFT_OK) status = derive_width(p, source, err);
    if (status == WEFT_OK) status = part_derive(p, err);
    if (status != WEFT_OK) return status;
    p->act = GRAPH_SILU;
    p->conv_dim = 3 * p->n_embd;
    const json *settings = json_get(source->config, "rope_parameters");
    if (json_kind_of(settings) == JSON_KIND_NULL)
        settings = json_get(source->config, "rope_scaling");
    p->n_ropes = 1;
    return rope_config(&p->ropes[0], source, settings, (double)p->rope_theta, p->context, err);
}

/* Wout (c * conv(b * u)), where b, c and u are the thirds of Win x. */
static graph_id build_conv(model_build *b, uint32_t l, graph_id x)
{
    graph *g = b->g;
    const model_params *p = b->p;
    uint32_t d = p->n_embd;
    uint32_t state_i = b->n_kv_layers++;
    b->kv_layers[state_i] = (kv_layer){
        .layout = KV_LAYOUT_RECURRENT, .buffers = {(p->conv_taps - 1) * d, 0}, .record = d};
    graph_id all = graph_linear(g, x, build_slot(b, CONV_IN, l), 0);
    graph_id before = graph_cols(g, all, p->conv_dim, 0, d);
    graph_id behind = graph_cols(g, all, p->conv_dim, d, d);
    graph_id u = graph_mul(g, before, graph_cols(g, all, p->conv_dim, 2 * d, d));
    graph_id y = graph_conv(g, u, build_slot(b, CONV, l), state_i, GRAPH_CONV_PLAIN);
    return graph_linear(g, graph_mul(g, behind, y), build_slot(b, CONV_OUT, l), 0);
}

static void build(model_build *b)
{
    graph *g = b->g;
    graph_id x = part_embed(b);
    for (uint32_t l = 0; l < b->p->n_layers; l++) {
        graph_id a = part_norm(b, PART_ATTN_NORM, l, x);
        part_attention how = {.rope_i = 0};
        a = b->p->is_recurrent[l] ? build_conv(b, l, a) : part_attention_build(b, l, a, how);
        x = graph_add(g, x, a);
        x = graph_add(g, x, part_mlp_build(b, l, part_norm(b, PART_MLP_NORM, l, x)));
        graph_tap(g, x, l);
    }
    part_head(b, x);
}

static const char *const HF_TYPES[] = {"lfm2", NULL};
static const char *const GGUF_TYPES[] = {"lfm2", NULL};
static const char *const DROP[] = {"*.rotary_emb.inv_freq", NULL};

static const mlx_form MLX = {.only_json = true, .config = "{\"conv_bias\":false}"};

const model_family MODEL_FAMILY_LFM2 = {
    .name = "lfm2",
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
