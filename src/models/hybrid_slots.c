/* hybrid_slots.c - the tensors of Qwen's hybrids. */
#include "models/hybrid.h"

#include "models/tower.h"

static const model_stack GATE_STACK =
    PART_EXPERTS("mlp.", "gate_proj", "ffn_gate_exps.weight", SHAPE_NONE);
static const model_stack UP_STACK =
    PART_EXPERTS("mlp.", "up_proj", "ffn_up_exps.weight", SHAPE(n_expert_ff));
static const model_stack DOWN_STACK =
    PART_EXPERTS_DOWN("mlp.", "down_proj", "ffn_down_exps.weight");

#define STACK(of, n_rows, n_cols)                                                                  \
    {                                                                                              \
        .hf_name = #of, .place = SLOT_LAYER, .rows = SHAPE(n_rows), .cols = SHAPE(n_cols),         \
        .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_moe), .stack = &(of)                           \
    }

/* The arguments of a row may be one macro. */
#define MATRIX(...) SLOT_MATRIX(__VA_ARGS__)
#define VECTOR(...) SLOT_VECTOR(__VA_ARGS__)
/* Of which MLX has something otherwise. */
#define MLX_ROUTER(name, gguf, n_rows, n_cols)                                                     \
    {                                                                                              \
        .hf_name = (name), .gguf_name = (gguf), .place = SLOT_LAYER, .rows = SHAPE(n_rows),        \
        .cols = SHAPE(n_cols), .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_moe), .mlx = MLX_8_BITS \
    }
#define MLX_DELTA(name, gguf, n_cols, how)                                                         \
    {                                                                                              \
        .hf_name = (name), .gguf_name = (gguf), .place = SLOT_LAYER, .rows = SHAPE_NONE,           \
        .cols = SHAPE(n_cols), .if_flag = SHAPE_NONE, .layers = SLOT_IN(is_recurrent),             \
        .mlx = (how)                                                                               \
    }

/* Of layers that attend; of delta nets, and with which matrices; with an MLP; with experts. */
#define ATTENDS SHAPE_NONE, SLOT_NOT_IN(is_recurrent)
#define DELTA SHAPE_NONE, SLOT_IN(is_recurrent)
#define APART SHAPE(delta_apart), SLOT_IN(is_recurrent)
#define GROUPED SHAPE(delta_grouped), SLOT_IN(is_recurrent)
#define GATES_APART SHAPE(gates_apart), SLOT_IN(is_recurrent)
#define GATES_GROUPED SHAPE(gates_grouped), SLOT_IN(is_recurrent)
#define DENSE SHAPE_NONE, SLOT_NOT_IN(is_moe)
#define MOE SHAPE_NONE, SLOT_IN(is_moe)

// clang-format off
const model_slot HYBRID_SLOTS[HYBRID_N_SLOTS] = {
    PART_MODEL_SLOTS,
    [PART_Q] = MATRIX("self_attn.q_proj.weight", "attn_q.weight", gated_q_dim, n_embd, ATTENDS),
    [PART_K] = MATRIX("self_attn.k_proj.weight", "attn_k.weight", kv_dim, n_embd, ATTENDS),
    [PART_V] = MATRIX("self_attn.v_proj.weight", "attn_v.weight", kv_dim, n_embd, ATTENDS),
    [PART_O] = MATRIX("self_attn.o_proj.weight", "attn_output.weight", n_embd, q_dim, ATTENDS),
    [PART_Q_NORM] = VECTOR("self_attn.q_norm.weight", "attn_q_norm.weight", head_dim, ATTENDS),
    [PART_K_NORM] = VECTOR("self_attn.k_norm.weight", "attn_k_norm.weight", head_dim, ATTENDS),
    [PART_MLP_NORM] = VECTOR("post_attention_layernorm.weight", "post_attention_norm.weight",
                             n_embd, SHAPE_NONE, 0),
    [PART_GATE] = MATRIX("mlp.gate_proj.weight", "ffn_gate.weight", n_ff, n_embd, DENSE),
    [PART_UP] = MATRIX("mlp.up_proj.weight", "ffn_up.weight", n_ff, n_embd, DENSE),
    [PART_DOWN] = MATRIX("mlp.down_proj.weight", "ffn_down.weight", n_embd, n_ff, DENSE),
    [DELTA_QKV] = MATRIX("linear_attn.in_proj_qkv.weight", "attn_qkv.weight",
                         conv_dim, n_embd, APART),
    [DELTA_Z] = MATRIX("linear_attn.in_proj_z.weight", "attn_gate.weight",
                       delta_dim, n_embd, APART),
    [DELTA_RATE] = MATRIX("linear_attn.in_proj_b.weight", "ssm_beta.weight",
                          n_delta_v_heads, n_embd, GATES_APART),
    [DELTA_DECAY] = MATRIX("linear_attn.in_proj_a.weight", "ssm_alpha.weight",
                           n_delta_v_heads, n_embd, GATES_APART),
    [DELTA_ALL] = MATRIX("linear_attn.in_proj_qkvz.weight", "ssm_in.weight",
                         delta_all_dim, n_embd, GROUPED),
    [DELTA_GATES] = MATRIX("linear_attn.in_proj_ba.weight", "ssm_ba.weight",
                           delta_gates_dim, n_embd, GATES_GROUPED),
    [DELTA_CONV] = {"linear_attn.conv1d.weight", "ssm_conv1d.weight", SLOT_LAYER, SHAPE(conv_dim),
                    SHAPE(conv_taps), false, SHAPE_NONE, .layers = SLOT_IN(is_recurrent),
                    .squeeze = true},
    [DELTA_A_LOG] = MLX_DELTA("linear_attn.A_log", "ssm_a", n_delta_v_heads, MLX_TYPE),
    [DELTA_BIAS] = MLX_DELTA("linear_attn.dt_bias", "ssm_dt.bias", n_delta_v_heads, 0),
    [DELTA_NORM] = MLX_DELTA("linear_attn.norm.weight", "ssm_norm.weight",
                             delta_v_dim, MLX_PLAIN_NORM),
    [DELTA_OUT] = MATRIX("linear_attn.out_proj.weight", "ssm_out.weight", n_embd, delta_dim, DELTA),
    [ROUTER] = MLX_ROUTER("mlp.gate.weight", "ffn_gate_inp.weight", n_experts, n_embd),
    [EXPERT_GATE] = STACK(GATE_STACK, n_expert_ff, n_embd),
    [EXPERT_UP] = STACK(UP_STACK, n_expert_ff, n_embd),
    [EXPERT_DOWN] = STACK(DOWN_STACK, n_embd, n_expert_ff),
    [SHARED_GATE] = MATRIX("mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight",
                           n_shared_ff, n_embd, MOE),
    [SHARED_UP] = MATRIX("mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight",
                         n_shared_ff, n_embd, MOE),
    [SHARED_DOWN] = MATRIX("mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight",
                           n_embd, n_shared_ff, MOE),
    [SHARED_FACTOR] = MLX_ROUTER("mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight",
                                 one, n_embd),
    [DRAFT_JOIN] = {"fc.weight", "nextn.eh_proj.weight",
                    SLOT_DRAFT, SHAPE(n_embd), SHAPE(join_dim), false,
                    .if_flag = SHAPE_NONE},
    [DRAFT_EMBED_NORM] = {"pre_fc_norm_embedding.weight", "nextn.enorm.weight",
                          SLOT_DRAFT, SHAPE_NONE,
                          SHAPE(n_embd), false, .if_flag = SHAPE_NONE},
    [DRAFT_HIDDEN_NORM] = {"pre_fc_norm_hidden.weight", "nextn.hnorm.weight",
                           SLOT_DRAFT, SHAPE_NONE,
                           SHAPE(n_embd), false, .if_flag = SHAPE_NONE},
    [DRAFT_NORM] = {"norm.weight", "nextn.shared_head_norm.weight",
                    SLOT_DRAFT, SHAPE_NONE, SHAPE(n_embd), false,
                    .if_flag = SHAPE_NONE},
};
// clang-format on

const char *const HYBRID_DROP[] = {"*.rotary_emb.inv_freq", "mtp.*", "model.mtp.*",
                                   "language_model.mtp.*", NULL};
const model_family *const HYBRID_TOWERS[] = {&TOWER_QWEN, NULL};
