/* gemma3.c - Gemma 3 text models: window layers with their own rope, norms around each sublayer,
 * norms of queries and keys, GeGLU. Source: Transformers' modeling_gemma3; llama.cpp's architecture
 * "gemma3". Files in Hugging Face's and MLX's form store norm weights as offsets from 1, GGUF files
 * as they are used. */
#include <math.h>

#include "base/assert.h"
#include "models/parts.h"
#include "models/rope.h"

enum { POST_ATTN_NORM = PART_N_SLOTS, POST_MLP_NORM };

static const model_param PARAMS[] = {
    {"num_hidden_layers", "block_count", SHAPE(n_layers), PARAM_U32, false, 1, MODEL_LAYERS, 26},
    {"hidden_size", "embedding_length", SHAPE(n_embd), PARAM_U32, false, 1, 1 << 20, 2304},
    {"num_attention_heads", "attention.head_count", SHAPE(n_heads), PARAM_U32, false, 1, 4096, 8},
    {"num_key_value_heads", "attention.head_count_kv", SHAPE(n_kv_heads), PARAM_U32, false, 1, 4096,
     4},
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 256},
    {"intermediate_size", "feed_forward_length", SHAPE(n_ff), PARAM_U32, false, 1, 1 << 20, 9216},
    {"vocab_size", "vocab_size", SHAPE(n_vocab), PARAM_U32, false, 1, MODEL_VOCAB, 0},
    {"max_position_embeddings", "context_length", SHAPE(context), PARAM_U32, false, 1, 1 << 30,
     131072},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", SHAPE(norm_eps), PARAM_F32, false, 1e-12,
     1, 1e-6},
    {"rope_theta", "rope.freq_base", SHAPE(rope_theta), PARAM_F32, false, 1, 1e12, 1e6},
    {"rope_local_base_freq", "rope.freq_base_swa", SHAPE(rope_theta_local), PARAM_F32, false, 1,
     1e12, 1e4},
    {"query_pre_attn_scalar", NULL, SHAPE(query_pre_attn_scalar), PARAM_F32, false, 1e-3, 1e6, 0},
    {"sliding_window", "attention.sliding_window", SHAPE(window), PARAM_U32, false, 1, 1 << 30,
     4096},
    {"sliding_window_pattern", NULL, SHAPE(window_pattern), PARAM_U32, false, 1, MODEL_LAYERS, 6},
    {"attn_logit_softcapping", NULL, SHAPE(attn_softcap), PARAM_F32, false, 1e-3, 1e6, 0},
    {"final_logit_softcapping", NULL, SHAPE(final_softcap), PARAM_F32, false, 1e-3, 1e6, 0},
    {"tie_word_embeddings", NULL, SHAPE(tied), PARAM_BOOL, false, 0, 1, 1},
    {"attention_bias", NULL, SHAPE(qkv_bias), PARAM_BOOL, false, 0, 1, 0},
};

static const model_slot SLOTS[] = {
    PART_DENSE_SLOTS,
    [PART_Q_NORM] = {"self_attn.q_norm.weight", "attn_q_norm.weight", SLOT_LAYER, SHAPE_NONE,
                     SHAPE(head_dim), false, .if_flag = SHAPE_NONE},
    [PART_K_NORM] = {"self_attn.k_norm.weight", "attn_k_norm.weight", SLOT_LAYER, SHAPE_NONE,
                     SHAPE(head_dim), false, .if_flag = SHAPE_NONE},
    [PART_MLP_NORM] = {"pre_feedforward_layernorm.weight", "ffn_norm.weight", SLOT_LAYER,
                       SHAPE_NONE, SHAPE(n_embd), false, .if_flag = SHAPE_NONE},
    [POST_ATTN_NORM] = {"post_attention_layernorm.weight", "post_attention_norm.weight", SLOT_LAYER,
                        SHAPE_NONE, SHAPE(n_embd), false, .if_flag = SHAPE_NONE},
    [POST_MLP_NORM] = {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", SLOT_LAYER,
                       SHAPE_NONE, SHAPE(n_embd), false, .if_flag = SHAPE_NONE},
};

/* The largest size scales queries by width / heads; its GGUF file does not say so. */
enum { LAYERS_27B = 62 };

static weft_status derive_ropes(model_params *p, const model_source *source, weft_error *err)
{
    const json *settings = json_get(source->config, "rope_parameters");
    const json *full = json_get(settings, "full_attention");
    const json *local = json_get(settings, "sliding_attention");
    if (json_kind_of(settings) == JSON_KIND_NULL) full = json_get(source->config, "rope_scaling");
    p->n_ropes = 2;
    weft_status status =
        rope_config(&p->ropes[0], source, full, (double)p->rope_theta, p->context, err);
    if (status != WEFT_OK) return status;
    p->ropes[1] =
        (rope_params){.kind = ROPE_DEFAULT, .theta = (double)p->rope_theta_local, .factor = 1.0};
    if (json_kind_of(local) == JSON_KIND_NULL) return WEFT_OK;
    return rope_config(&p->ropes[1], source, local, (double)p->rope_theta_local, p->context, err);
}

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    bool from_width = source->is_gguf && p->n_layers == LAYERS_27B;
    if (from_width) p->query_pre_attn_scalar = (float)p->n_embd / (float)p->n_heads;
    if (p->query_pre_attn_scalar > 0.0F) {
        p->attn_scale = (float)(1.0 / sqrt((double)p->query_pre_attn_scalar));
    }
    weft_status status = part_derive(p, err);
    if (status != WEFT_OK) return status;
    p->act = GRAPH_GELU_TANH;
    p->norm_add = source->is_gguf ? 0.0F : 1.0F;
    p->embed_scale = (float)sqrt((double)p->n_embd);
    bool found;
    str act;
    status = source_text(source, "hidden_activation", NULL, &found, &act, err);
    if (status != WEFT_OK) return status;
    if (found && !str_equal_text(act, "gelu_pytorch_tanh")) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: hidden_activation '%.*s' is not supported",
                       (int)(act.len < 64 ? act.len : 64), act.ptr);
    }
    if (p->qkv_bias) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: attention_bias is not supported for gemma3");
    }
    status = part_layer_types(p, source, &found, err);
    if (status != WEFT_OK) return status;
    for (uint32_t i = 0; i < p->n_layers && !found; i++) {
        p->is_window[i] = (i + 1) % p->window_pattern != 0;
    }
    return derive_ropes(p, source, err);
}

static void build(model_build *b)
{
    graph *g = b->g;
    graph_id x = part_embed(b);
    for (uint32_t l = 0; l < b->p->n_layers; l++) {
        bool window = b->p->is_window[l];
        part_attention how = {.rope_i = window ? 1 : 0, .window = window ? b->p->window : 0};
        graph_id a = part_attention_build(b, l, part_norm(b, PART_ATTN_NORM, l, x), how);
        x = graph_add(g, x, part_norm(b, POST_ATTN_NORM, l, a));
        graph_id m = part_mlp_build(b, l, part_norm(b, PART_MLP_NORM, l, x));
        x = graph_add(g, x, part_norm(b, POST_MLP_NORM, l, m));
        graph_tap(g, x, l);
    }
    part_head(b, x);
}

static const char *const HF_TYPES[] = {"gemma3_text", "gemma3", NULL};
static const char *const GGUF_TYPES[] = {"gemma3", NULL};
static const char *const DROP[] = {"*.rotary_emb.inv_freq",         "vision_tower.*",
                                   "model.vision_tower.*",          "multi_modal_projector.*",
                                   "model.multi_modal_projector.*", NULL};

static const mlx_type MLX_TYPES[] = {{"gemma3_text", "gemma3_text", "model."},
                                     {"gemma3", "gemma3", "language_model.model."},
                                     {NULL, NULL, NULL}};
static const mlx_form MLX = {.types = MLX_TYPES, .norm_add = 1.0F};

const model_family MODEL_FAMILY_GEMMA3 = {
    .name = "gemma3",
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
