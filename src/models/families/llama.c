/* llama.c - Llama and what is shaped like it: RMS norm, rope, grouped queries, SwiGLU. Source:
 * Transformers' modeling_llama; llama.cpp's architecture "llama", whose converter permutes the rows
 * of q and k so that neighbouring elements rotate together. */
#include "base/assert.h"
#include "models/parts.h"
#include "models/rope.h"

static const model_param PARAMS[] = {
    {"num_hidden_layers", "block_count", SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},
    {"hidden_size", "embedding_length", SHAPE(n_embd), PARAM_U32, true, 1, 1 << 20, 0},
    {"num_attention_heads", "attention.head_count", SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},
    {"num_key_value_heads", "attention.head_count_kv", SHAPE(n_kv_heads), PARAM_U32, false, 1, 4096,
     0},
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 0},
    {"intermediate_size", "feed_forward_length", SHAPE(n_ff), PARAM_U32, true, 1, 1 << 20, 0},
    {"vocab_size", "vocab_size", SHAPE(n_vocab), PARAM_U32, false, 1, MODEL_VOCAB, 0},
    {"max_position_embeddings", "context_length", SHAPE(context), PARAM_U32, true, 1, 1 << 30, 0},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", SHAPE(norm_eps), PARAM_F32, true, 1e-12, 1,
     0},
    {"rope_theta", "rope.freq_base", SHAPE(rope_theta), PARAM_F32, false, 1, 1e12, 10000},
    {NULL, "rope.dimension_count", SHAPE(rope_dims), PARAM_U32, false, 2, 4096, 0},
    {"tie_word_embeddings", NULL, SHAPE(tied), PARAM_BOOL, false, 0, 1, 0},
    {"attention_bias", NULL, SHAPE(qkv_bias), PARAM_BOOL, false, 0, 1, 0},
    {"mlp_bias", NULL, SHAPE(mlp_bias), PARAM_BOOL, false, 0, 1, 0},
    {"sliding_window", "attention.sliding_window", SHAPE(window), PARAM_U32, false, 0, 1 << 30, 0},
};

static const model_slot SLOTS[] = {
    PART_DENSE_SLOTS,
    [PART_Q_BIAS] = {"self_attn.q_proj.bias", "attn_q.bias", SLOT_LAYER, SHAPE_NONE, SHAPE(q_dim),
                     false, .if_flag = SHAPE(qkv_bias), .mlx = MLX_HALVES},
    [PART_K_BIAS] = {"self_attn.k_proj.bias", "attn_k.bias", SLOT_LAYER, SHAPE_NONE, SHAPE(kv_dim),
                     false, .if_flag = SHAPE(qkv_bias), .mlx = MLX_HALVES},
    [PART_V_BIAS] = {"self_attn.v_proj.bias", "attn_v.bias", SLOT_LAYER, SHAPE_NONE, SHAPE(kv_dim),
                     false, .if_flag = SHAPE(qkv_bias)},
    [PART_O_BIAS] = {"self_attn.o_proj.bias", "attn_output.bias", SLOT_LAYER, SHAPE_NONE,
                     SHAPE(n_embd), false, .if_flag = SHAPE(qkv_bias)},
    [PART_MLP_NORM] = {"post_attention_layernorm.weight", "ffn_norm.weight", SLOT_LAYER, SHAPE_NONE,
                       SHAPE(n_embd), false, .if_flag = SHAPE_NONE},
    [PART_GATE_BIAS] = {"mlp.gate_proj.bias", "ffn_gate.bias", SLOT_LAYER, SHAPE_NONE, SHAPE(n_ff),
                        false, .if_flag = SHAPE(mlp_bias)},
    [PART_UP_BIAS] = {"mlp.up_proj.bias", "ffn_up.bias", SLOT_LAYER, SHAPE_NONE, SHAPE(n_ff), false,
                      .if_flag = SHAPE(mlp_bias)},
    [PART_DOWN_BIAS] = {"mlp.down_proj.bias", "ffn_down.bias", SLOT_LAYER, SHAPE_NONE,
                        SHAPE(n_embd), false, .if_flag = SHAPE(mlp_bias)},
};

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    weft_status status = part_derive(p, err);
    if (status != WEFT_OK) return status;
    p->act = GRAPH_SILU;
    p->rope_interleaved = source->is_gguf;
    bool found;
    str act;
    status = source_text(source, "hidden_act", NULL, &found, &act, err);
    if (status != WEFT_OK) return status;
    if (found && !str_equal_text(act, "silu")) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: hidden_act '%.*s' is not supported, expected silu",
                       (int)(act.len < 64 ? act.len : 64), act.ptr);
    }
    status = part_layer_types(p, source, &found, err);
    if (status != WEFT_OK) return status;
    if (!found && p->window != 0 && p->window < p->context) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "a sliding window of %u without layer types, context %u, is not supported",
                       p->window, p->context);
    }
    const json *settings = json_get(source->config, "rope_parameters");
    if (json_kind_of(settings) == JSON_KIND_NULL)
        settings = json_get(source->config, "rope_scaling");
    p->n_ropes = 1;
    return rope_config(&p->ropes[0], source, settings, (double)p->rope_theta, p->context, err);
}

static void build(model_build *b)
{
    graph *g = b->g;
    graph_id x = part_embed(b);
    for (uint32_t l = 0; l < b->p->n_layers; l++) {
        part_attention how = {.rope_i = 0, .window = b->p->is_window[l] ? b->p->window : 0};
        graph_id a = part_attention_build(b, l, part_norm(b, PART_ATTN_NORM, l, x), how);
        x = graph_add(g, x, a);
        x = graph_add(g, x, part_mlp_build(b, l, part_norm(b, PART_MLP_NORM, l, x)));
    }
    part_head(b, x);
}

static const char *const HF_TYPES[] = {"llama", NULL};
static const char *const GGUF_TYPES[] = {"llama", NULL};
static const char *const DROP[] = {"*.rotary_emb.inv_freq", NULL};

static const mlx_form MLX = {.gguf_pairs = true};

const model_family MODEL_FAMILY_LLAMA = {
    .name = "llama",
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
