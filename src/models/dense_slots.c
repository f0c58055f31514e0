/* dense_slots.c - the tensors of dense decoders, by the names that most of them use. */
#include "models/dense.h"

/* Rows of a larger tensor: queries, keys and values, or gate and up, behind one another. */
#define OWN(hf, gguf) STACK_SOURCE(hf, gguf, SHAPE_NONE, SHAPE_NONE)
#define QKV(first) STACK_SOURCE("self_attn.qkv_proj.weight", "attn_qkv.weight", SHAPE(n_qkv), first)
#define QKV_BIAS(first) STACK_SOURCE(NULL, "attn_qkv.bias", SHAPE(n_qkv), first)
#define GATE_UP(first) STACK_SOURCE("mlp.gate_up_proj.weight", NULL, SHAPE(n_ff_pair), first)

/* One matrix. */
#define ONE(...)                                                                                   \
    {                                                                                              \
        SHAPE(one), STACK_SOURCES(__VA_ARGS__), COUNT_OF(STACK_SOURCES(__VA_ARGS__))               \
    }

static const model_stack QUERIES =
    ONE(OWN("self_attn.q_proj.weight", "attn_q.weight"), QKV(SHAPE_NONE));
static const model_stack KEYS =
    ONE(OWN("self_attn.k_proj.weight", "attn_k.weight"), QKV(SHAPE(q_dim)));
static const model_stack VALUES =
    ONE(OWN("self_attn.v_proj.weight", "attn_v.weight"), QKV(SHAPE(n_qk)));
static const model_stack QUERIES_BIAS =
    ONE(OWN("self_attn.q_proj.bias", "attn_q.bias"), QKV_BIAS(SHAPE_NONE));
static const model_stack KEYS_BIAS =
    ONE(OWN("self_attn.k_proj.bias", "attn_k.bias"), QKV_BIAS(SHAPE(q_dim)));
static const model_stack VALUES_BIAS =
    ONE(OWN("self_attn.v_proj.bias", "attn_v.bias"), QKV_BIAS(SHAPE(n_qk)));
static const model_stack GATE =
    ONE(OWN("mlp.gate_proj.weight", "ffn_gate.weight"), GATE_UP(SHAPE_NONE));
/* Named by the families that have them. */
static const model_stack QUERY_NORMS = {SHAPE(n_heads), NULL, 0};
static const model_stack KEY_NORMS = {SHAPE(n_kv_heads), NULL, 0};
static const model_stack UP = ONE(OWN("mlp.up_proj.weight", "ffn_up.weight"), GATE_UP(SHAPE(n_ff)));

static const model_stack EXPERT_GATES =
    PART_EXPERTS("mlp.", "gate_proj", "ffn_gate_exps.weight", SHAPE_NONE);
static const model_stack EXPERT_UPS =
    PART_EXPERTS("mlp.", "up_proj", "ffn_up_exps.weight", SHAPE(n_expert_ff));
static const model_stack EXPERT_DOWNS =
    PART_EXPERTS_DOWN("mlp.", "down_proj", "ffn_down_exps.weight");

#define EXPERTS(of, n_rows, n_cols)                                                                \
    {                                                                                              \
        .hf_name = #of, .place = SLOT_LAYER, .rows = SHAPE(n_rows), .cols = SHAPE(n_cols),         \
        .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_moe), .stack = &(of)                           \
    }
#define SHARED(name, gguf, n_rows, n_cols)                                                         \
    {                                                                                              \
        .hf_name = "mlp.shared_expert" name, .gguf_name = (gguf), .place = SLOT_LAYER,             \
        .rows = SHAPE(n_rows), .cols = SHAPE(n_cols), .if_flag = SHAPE(has_shared),                \
        .layers = SLOT_IN(is_moe), .strict = true                                                  \
    }

#define MATRIX(name, gguf, n_rows, n_cols)                                                         \
    {                                                                                              \
        .hf_name = (name), .gguf_name = (gguf), .place = SLOT_LAYER, .rows = SHAPE(n_rows),        \
        .cols = SHAPE(n_cols), .if_flag = SHAPE_NONE                                               \
    }
#define ROWS_OF(of, n_rows, n_cols, flag)                                                          \
    {                                                                                              \
        .hf_name = #of, .place = SLOT_LAYER, .rows = SHAPE(n_rows), .cols = SHAPE(n_cols),         \
        .if_flag = (flag), .stack = &(of)                                                          \
    }
#define VECTOR(name, gguf, n_cols, flag)                                                           \
    {                                                                                              \
        .hf_name = (name), .gguf_name = (gguf), .place = SLOT_LAYER, .rows = SHAPE_NONE,           \
        .cols = SHAPE(n_cols), .if_flag = SHAPE(flag)                                              \
    }
/* Of heads that rotate. */
#define HALVES(of, n_rows)                                                                         \
    {                                                                                              \
        .hf_name = #of, .place = SLOT_LAYER, .rows = SHAPE(n_rows), .cols = SHAPE(n_embd),         \
        .if_flag = SHAPE_NONE, .stack = &(of), .mlx = MLX_HALVES                                   \
    }
#define BIAS_OF(of, n_cols, how)                                                                   \
    {                                                                                              \
        .hf_name = #of, .place = SLOT_LAYER, .rows = SHAPE_NONE, .cols = SHAPE(n_cols),            \
        .if_flag = SHAPE(qkv_bias), .stack = &(of), .mlx = (how)                                   \
    }
/* What the record decides, whatever a file has. */
#define NORM(name, gguf, n_cols, flag)                                                             \
    {                                                                                              \
        .hf_name = (name), .gguf_name = (gguf), .place = SLOT_LAYER, .rows = SHAPE_NONE,           \
        .cols = SHAPE(n_cols), .if_flag = SHAPE(flag), .strict = true                              \
    }

const model_slot DENSE_SLOTS[DENSE_N_SLOTS] = {
    [PART_EMBED] = {.hf_name = "embed_tokens.weight",
                    .gguf_name = "token_embd.weight",
                    .rows = SHAPE(n_vocab),
                    .cols = SHAPE(n_embd),
                    .if_flag = SHAPE_NONE},
    [PART_HEAD] = {.hf_name = "lm_head.weight",
                   .gguf_name = "output.weight",
                   .place = SLOT_HEAD,
                   .rows = SHAPE(n_vocab),
                   .cols = SHAPE(n_embd),
                   .optional = true,
                   .if_flag = SHAPE_NONE},
    [PART_FINAL_NORM] = {.hf_name = "norm.weight",
                         .gguf_name = "output_norm.weight",
                         .rows = SHAPE_NONE,
                         .cols = SHAPE(n_embd),
                         .if_flag = SHAPE(has_final_norm),
                         .strict = true},
    [DENSE_FINAL_NORM_BIAS] = {.hf_name = "norm.bias",
                               .gguf_name = "output_norm.bias",
                               .rows = SHAPE_NONE,
                               .cols = SHAPE(n_embd),
                               .if_flag = SHAPE(has_norm_bias),
                               .strict = true},
    [DENSE_HEAD_BIAS] = {.hf_name = "lm_head.bias",
                         .gguf_name = "output.bias",
                         .place = SLOT_HEAD,
                         .rows = SHAPE_NONE,
                         .cols = SHAPE(n_vocab),
                         .if_flag = SHAPE(head_bias)},
    [DENSE_ATTN_NORM_BIAS] = NORM("input_layernorm.bias", "attn_norm.bias", n_embd, has_norm_bias),
    [DENSE_MLP_NORM_BIAS] =
        NORM("post_attention_layernorm.bias", "ffn_norm.bias", n_embd, has_mlp_norm_bias),
    [DENSE_Q_NORMS] = ROWS_OF(QUERY_NORMS, one, head_dim, SHAPE(use_qk_norm)),
    [DENSE_K_NORMS] = ROWS_OF(KEY_NORMS, one, head_dim, SHAPE(use_qk_norm)),
    [PART_ATTN_NORM] = NORM("input_layernorm.weight", "attn_norm.weight", n_embd, has_attn_norm),
    [PART_Q] = HALVES(QUERIES, q_dim),
    [PART_K] = HALVES(KEYS, kv_dim),
    [PART_V] = ROWS_OF(VALUES, kv_dim, n_embd, SHAPE_NONE),
    [PART_O] = MATRIX("self_attn.o_proj.weight", "attn_output.weight", n_embd, q_dim),
    [PART_Q_BIAS] = BIAS_OF(QUERIES_BIAS, q_dim, MLX_HALVES),
    [PART_K_BIAS] = BIAS_OF(KEYS_BIAS, kv_dim, MLX_HALVES),
    [PART_V_BIAS] = BIAS_OF(VALUES_BIAS, kv_dim, 0),
    [PART_O_BIAS] = VECTOR("self_attn.o_proj.bias", "attn_output.bias", n_embd, o_bias),
    [PART_MLP_NORM] =
        NORM("post_attention_layernorm.weight", "ffn_norm.weight", n_embd, has_mlp_norm),
    [PART_GATE] = {.hf_name = "GATE",
                   .place = SLOT_LAYER,
                   .rows = SHAPE(n_ff),
                   .cols = SHAPE(n_embd),
                   .if_flag = SHAPE(has_gate),
                   .layers = SLOT_NOT_IN(is_moe),
                   .strict = true,
                   .stack = &GATE},
    [PART_UP] = {.hf_name = "UP",
                 .place = SLOT_LAYER,
                 .rows = SHAPE(n_ff),
                 .cols = SHAPE(n_embd),
                 .if_flag = SHAPE_NONE,
                 .layers = SLOT_NOT_IN(is_moe),
                 .stack = &UP},
    [PART_DOWN] = {.hf_name = "mlp.down_proj.weight",
                   .gguf_name = "ffn_down.weight",
                   .place = SLOT_LAYER,
                   .rows = SHAPE(n_embd),
                   .cols = SHAPE(n_ff),
                   .if_flag = SHAPE_NONE,
                   .layers = SLOT_NOT_IN(is_moe)},
    [DENSE_ROUTER] = {.hf_name = "mlp.gate.weight",
                      .gguf_name = "ffn_gate_inp.weight",
                      .place = SLOT_LAYER,
                      .rows = SHAPE(n_experts),
                      .cols = SHAPE(n_embd),
                      .if_flag = SHAPE_NONE,
                      .layers = SLOT_IN(is_moe)},
    [DENSE_EXPERT_GATE] = EXPERTS(EXPERT_GATES, n_expert_ff, n_embd),
    [DENSE_EXPERT_UP] = EXPERTS(EXPERT_UPS, n_expert_ff, n_embd),
    [DENSE_EXPERT_DOWN] = EXPERTS(EXPERT_DOWNS, n_embd, n_expert_ff),
    [DENSE_SHARED_GATE] = SHARED(".gate_proj.weight", "ffn_gate_shexp.weight", n_shared_ff, n_embd),
    [DENSE_SHARED_UP] = SHARED(".up_proj.weight", "ffn_up_shexp.weight", n_shared_ff, n_embd),
    [DENSE_SHARED_DOWN] = SHARED(".down_proj.weight", "ffn_down_shexp.weight", n_embd, n_shared_ff),
    [DENSE_SHARED_PART] = SHARED("_gate.weight", "ffn_gate_inp_shexp.weight", one, n_embd),
    [PART_GATE_BIAS] = VECTOR("mlp.gate_proj.bias", "ffn_gate.bias", n_ff, gate_bias),
    [PART_UP_BIAS] = VECTOR("mlp.up_proj.bias", "ffn_up.bias", n_ff, mlp_bias),
    [PART_DOWN_BIAS] = VECTOR("mlp.down_proj.bias", "ffn_down.bias", n_embd, mlp_bias),
    [PART_Q_NORM] = NORM("self_attn.q_norm.weight", "attn_q_norm.weight", q_norm_dim, has_qk_norm),
    [PART_K_NORM] = NORM("self_attn.k_norm.weight", "attn_k_norm.weight", k_norm_dim, has_qk_norm),
    [DENSE_POST_ATTN_NORM] = NORM("post_attention_layernorm.weight", "post_attention_norm.weight",
                                  n_embd, has_post_norms),
    [DENSE_POST_MLP_NORM] =
        NORM("post_feedforward_layernorm.weight", "post_ffw_norm.weight", n_embd, has_post_norms),
};

const mlx_form DENSE_MLX = {.types = NULL};
const mlx_form DENSE_MLX_PAIRS = {.gguf_pairs = true};
const mlx_form DENSE_MLX_OFFSET = {.norm_add = 1.0F};

const char *const DENSE_DROP[] = {"*.rotary_emb.inv_freq", NULL};
