/* gpt_oss.c - OpenAI's gpt-oss: every other layer has a window, heads have sinks, experts biases
 * and a bounded activation. Sources: Transformers' modeling_gpt_oss; mlx-lm's gpt_oss; llama.cpp's
 * architecture "gpt-oss".
 *
 * Hugging Face's files have gate and up in one, row by row in turn: as MXFP4, or as plain numbers
 * that lie by columns. MLX's and GGUF files have them apart. */
#include <math.h>

#include "base/assert.h"
#include "models/parts.h"
#include "models/rope.h"

enum {
    SINKS = PART_N_SLOTS,
    ROUTER,
    ROUTER_BIAS,
    EXPERT_GATE,
    EXPERT_UP,
    EXPERT_DOWN,
    EXPERT_GATE_BIAS,
    EXPERT_UP_BIAS,
    EXPERT_DOWN_BIAS,
    N_SLOTS
};

static const model_param PARAMS[] = {
    {"num_hidden_layers", "block_count", SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},
    {"hidden_size", "embedding_length", SHAPE(n_embd), PARAM_U32, true, 1, 1 << 20, 0},
    {"num_attention_heads", "attention.head_count", SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},
    {"num_key_value_heads", "attention.head_count_kv", SHAPE(n_kv_heads), PARAM_U32, false, 1, 4096,
     0},
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 0},
    {"intermediate_size", "expert_feed_forward_length", SHAPE(n_expert_ff), PARAM_U32, true, 1,
     1 << 20, 0},
    {"vocab_size", "vocab_size", SHAPE(n_vocab), PARAM_U32, false, 1, MODEL_VOCAB, 0},
    {"max_position_embeddings", "context_length", SHAPE(context), PARAM_U32, true, 1, 1 << 30, 0},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", SHAPE(norm_eps), PARAM_F32, false, 1e-12,
     1, 1e-5},
    {"rope_theta", "rope.freq_base", SHAPE(rope_theta), PARAM_F32, false, 1, 1e12, 150000},
    {"sliding_window", "attention.sliding_window", SHAPE(window), PARAM_U32, true, 1, 1 << 30, 0},
    {"num_local_experts", "expert_count", SHAPE(n_experts), PARAM_U32, true, 1, 4096, 0},
    {"num_experts_per_tok", "expert_used_count", SHAPE(n_top), PARAM_U32, true, 1, 256, 0},
    {"swiglu_limit", NULL, SHAPE(expert_limit), PARAM_F32, false, 1e-3, 1e6, 7},
    {"attention_bias", NULL, SHAPE(qkv_bias), PARAM_BOOL, false, 0, 1, 1},
    {"tie_word_embeddings", NULL, SHAPE(tied), PARAM_BOOL, false, 0, 1, 0},
};

/* Of gate or up, which stands before rows of both; of their biases. */
#define STACK_OF(name, first)                                                                      \
    {                                                                                              \
        SHAPE(n_experts),                                                                          \
            STACK_SOURCES(STACK_SOURCE("mlp.experts." name "_proj.weight",                         \
                                       "ffn_" name "_exps.weight", SHAPE_NONE, SHAPE_NONE),        \
                          {.hf_name = "mlp.experts.gate_up_proj",                                  \
                           .block = SHAPE(n_gate_up),                                              \
                           .before = (first),                                                      \
                           .every = 2,                                                             \
                           .turned = true}),                                                       \
            2                                                                                      \
    }
#define BIASES_OF(name, first)                                                                     \
    {                                                                                              \
        SHAPE(n_experts),                                                                          \
            STACK_SOURCES(STACK_SOURCE("mlp.experts." name "_proj.bias", "ffn_" name "_exps.bias", \
                                       SHAPE_NONE, SHAPE_NONE),                                    \
                          {.hf_name = "mlp.experts.gate_up_proj_bias",                             \
                           .block = SHAPE(n_gate_up),                                              \
                           .before = (first),                                                      \
                           .every = 2}),                                                           \
            2                                                                                      \
    }

static const model_stack GATE_STACK = STACK_OF("gate", SHAPE_NONE);
static const model_stack UP_STACK = STACK_OF("up", SHAPE(one));
static const model_stack GATE_BIASES = BIASES_OF("gate", SHAPE_NONE);
static const model_stack UP_BIASES = BIASES_OF("up", SHAPE(one));
static const model_stack DOWN_STACK = {
    SHAPE(n_experts),
    STACK_SOURCES(STACK_SOURCE("mlp.experts.down_proj.weight", "ffn_down_exps.weight", SHAPE_NONE,
                               SHAPE_NONE),
                  {.hf_name = "mlp.experts.down_proj",
                   .block = SHAPE_NONE,
                   .before = SHAPE_NONE,
                   .turned = true}),
    2};
static const model_stack DOWN_BIASES = {
    SHAPE(n_experts),
    STACK_SOURCES(
        STACK_SOURCE("mlp.experts.down_proj.bias", "ffn_down_exps.bias", SHAPE_NONE, SHAPE_NONE),
        STACK_SOURCE("mlp.experts.down_proj_bias", NULL, SHAPE_NONE, SHAPE_NONE)),
    2};

#define STACK(of, n_rows, n_cols)                                                                  \
    {                                                                                              \
        .hf_name = #of, .gguf_name = #of, .place = SLOT_LAYER, .rows = (n_rows),                   \
        .cols = SHAPE(n_cols), .if_flag = SHAPE_NONE, .stack = &(of)                               \
    }
#define BIAS(hf, gguf, n_cols, flag)                                                               \
    {                                                                                              \
        .hf_name = (hf), .gguf_name = (gguf), .place = SLOT_LAYER, .rows = SHAPE_NONE,             \
        .cols = SHAPE(n_cols), .if_flag = (flag)                                                   \
    }

static const model_slot SLOTS[N_SLOTS] = {
    PART_MODEL_SLOTS,
    PART_ATTENTION_SLOTS,
    [PART_Q_BIAS] = BIAS("self_attn.q_proj.bias", "attn_q.bias", q_dim, SHAPE(qkv_bias)),
    [PART_K_BIAS] = BIAS("self_attn.k_proj.bias", "attn_k.bias", kv_dim, SHAPE(qkv_bias)),
    [PART_V_BIAS] = BIAS("self_attn.v_proj.bias", "attn_v.bias", kv_dim, SHAPE(qkv_bias)),
    [PART_O_BIAS] = BIAS("self_attn.o_proj.bias", "attn_output.bias", n_embd, SHAPE(qkv_bias)),
    [PART_MLP_NORM] =
        BIAS("post_attention_layernorm.weight", "post_attention_norm.weight", n_embd, SHAPE_NONE),
    [SINKS] = BIAS("self_attn.sinks", "attn_sinks.weight", n_heads, SHAPE_NONE),
    [ROUTER] = {"mlp.router.weight", "ffn_gate_inp.weight", SLOT_LAYER, SHAPE(n_experts),
                SHAPE(n_embd), false, .if_flag = SHAPE_NONE, .mlx = MLX_8_BITS},
    [ROUTER_BIAS] = BIAS("mlp.router.bias", "ffn_gate_inp.bias", n_experts, SHAPE_NONE),
    [EXPERT_GATE] = STACK(GATE_STACK, SHAPE(n_expert_ff), n_embd),
    [EXPERT_UP] = STACK(UP_STACK, SHAPE(n_expert_ff), n_embd),
    [EXPERT_DOWN] = STACK(DOWN_STACK, SHAPE(n_embd), n_expert_ff),
    [EXPERT_GATE_BIAS] = STACK(GATE_BIASES, SHAPE_NONE, n_expert_ff),
    [EXPERT_UP_BIAS] = STACK(UP_BIASES, SHAPE_NONE, n_expert_ff),
    [EXPERT_DOWN_BIAS] = STACK(DOWN_BIASES, SHAPE_NONE, n_embd),
};

/* Values that would be computed wrongly. */
static weft_status refuse(const model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    str act;
    weft_status status = source_text(source, "hidden_act", NULL, &found, &act, err);
    if (status != WEFT_OK) return status;
    if (found && !str_equal_text(act, "silu")) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: hidden_act '%.*s' is not supported, expected silu",
                       (int)(act.len < 64 ? act.len : 64), act.ptr);
    }
    double alpha = 1.702;
    status = source_number(source, "swiglu_alpha", NULL, &found, &alpha, err);
    if (status != WEFT_OK) return status;
    if (fabs(alpha - 1.702) > 1e-6) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: swiglu_alpha %g is not supported, expected 1.702", alpha);
    }
    if (p->n_top <= p->n_experts) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "%u of %u experts is not possible", p->n_top, p->n_experts);
}

static weft_status derive_rope(model_params *p, const model_source *source, weft_error *err)
{
    const json *settings = json_get(source->config, "rope_parameters");
    if (json_kind_of(settings) == JSON_KIND_NULL)
        settings = json_get(source->config, "rope_scaling");
    p->n_ropes = 1;
    weft_status status =
        rope_config(&p->ropes[0], source, settings, (double)p->rope_theta, p->context, err);
    /* GGUF has no key for it; the model was trained without. */
    if (source->is_gguf) p->ropes[0].truncate = false;
    return status;
}

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    weft_status status = refuse(p, source, err);
    if (status == WEFT_OK) status = part_derive(p, err);
    if (status != WEFT_OK) return status;
    p->act = GRAPH_GPT_OSS;
    p->one = 1;
    p->n_gate_up = 2 * p->n_expert_ff;
    bool found;
    status = part_layer_types(p, source, &found, err);
    for (uint32_t i = 0; i < p->n_layers && status == WEFT_OK && !found; i++)
        p->is_window[i] = i % 2 == 0;
    return status == WEFT_OK ? derive_rope(p, source, err) : status;
}

static graph_id experts(model_build *b, uint32_t layer, graph_id x)
{
    graph *g = b->g;
    const model_params *p = b->p;
    graph_id router = build_slot(b, ROUTER, layer);
    graph_id scores = graph_linear(g, x, router, build_slot(b, ROUTER_BIAS, layer));
    /* A softmax over the chosen is one over all, divided by the sum of the chosen. */
    graph_route how = {.top_k = p->n_top, .flags = GRAPH_ROUTE_NORMALIZE, .scale = 1.0F};
    graph_id route = graph_route_experts(g, scores, 0, 0, how);
    graph_id stacks[6];
    for (uint32_t i = 0; i < COUNT_OF(stacks); i++)
        stacks[i] = build_stack(b, EXPERT_GATE + i, layer);
    return graph_experts_biased(g, x, route, stacks, p->act, p->expert_limit);
}

static void build(model_build *b)
{
    graph *g = b->g;
    graph_id x = part_embed(b);
    for (uint32_t l = 0; l < b->p->n_layers; l++) {
        part_attention how = {.window = b->p->is_window[l] ? b->p->window : 0, .sinks = SINKS};
        graph_id a = part_attention_build(b, l, part_norm(b, PART_ATTN_NORM, l, x), how);
        x = graph_add(g, x, a);
        x = graph_add(g, x, experts(b, l, part_norm(b, PART_MLP_NORM, l, x)));
        graph_tap(g, x, l);
    }
    part_head(b, x);
}

static const char *const HF_TYPES[] = {"gpt_oss", NULL};
static const char *const GGUF_TYPES[] = {"gpt-oss", NULL};
static const char *const DROP[] = {"*.rotary_emb.inv_freq", NULL};

static const mlx_form MLX = {.types = NULL};

const model_family MODEL_FAMILY_GPT_OSS = {
    .name = "gpt_oss",
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
