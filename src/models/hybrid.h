/* hybrid.h - Qwen's hybrids: most layers are gated delta nets, the others attend with gated
 * outputs, and queries and keys that are normed and turned in part; behind either stand an MLP, or
 * experts and one that every token goes to. Sources: Transformers' modeling_qwen3_5,
 * modeling_qwen3_5_moe, modeling_qwen3_next; MLX's files, which differ in two things: norm weights
 * are stored as they are used, not as offsets from 1, and the convolution is [C, K, 1]. The norm
 * behind the recurrence has no offset in either. An image tower is left out. And llama.cpp's
 * architectures "qwen35", "qwen35moe" and "qwen3next" with their converter: see hybrid_gguf.c. */
#ifndef MODELS_HYBRID_H
#define MODELS_HYBRID_H

#include "models/parts.h"

/* Slots behind those of parts.h. */
typedef enum hybrid_slot {
    DELTA_QKV = PART_N_SLOTS,
    DELTA_Z,
    DELTA_RATE,
    DELTA_DECAY,
    DELTA_ALL,   /* of each key head: queries, keys, values, z */
    DELTA_GATES, /* of each key head: rate, decay */
    DELTA_CONV,
    DELTA_A_LOG,
    DELTA_BIAS,
    DELTA_NORM,
    DELTA_OUT,
    ROUTER,
    EXPERT_GATE,
    EXPERT_UP,
    EXPERT_DOWN,
    SHARED_GATE,
    SHARED_UP,
    SHARED_DOWN,
    SHARED_FACTOR, /* the part of a row that the shared expert has, behind a sigmoid */
    DRAFT_JOIN,    /* embedding and hidden state to one row */
    DRAFT_EMBED_NORM,
    DRAFT_HIDDEN_NORM,
    DRAFT_NORM,
    HYBRID_N_SLOTS
} hybrid_slot;

extern const model_slot HYBRID_SLOTS[HYBRID_N_SLOTS];

/* Tensors that are left out; a head that drafts, unless it is read. */
extern const char *const HYBRID_DROP[];
extern const model_family *const HYBRID_TOWERS[];

/* Rows that all of them have. A GGUF file has the columns of all value heads. */
// clang-format off
#define HYBRID_PARAMS                                                                              \
    {"num_hidden_layers", "block_count", SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},    \
    {"hidden_size", "embedding_length", SHAPE(n_embd), PARAM_U32, true, 1, 1 << 20, 0},            \
    {"num_attention_heads", "attention.head_count", SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},  \
    {"num_key_value_heads", "attention.head_count_kv", SHAPE(n_kv_heads), PARAM_U32, true, 1,      \
     4096, 0},                                                                                     \
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, true, 2, 4096, 0},            \
    {"vocab_size", NULL, SHAPE(n_vocab), PARAM_U32, true, 1, MODEL_VOCAB, 0},             \
    {"max_position_embeddings", "context_length", SHAPE(context), PARAM_U32, true, 1, 1 << 30, 0}, \
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", SHAPE(norm_eps), PARAM_F32, true, 1e-12,  \
     1, 0},                                                                                        \
    {"rope_theta", "rope.freq_base", SHAPE(rope_theta), PARAM_F32, false, 1, 1e12, 1e7},           \
    {NULL, "rope.dimension_count", SHAPE(rope_dims), PARAM_U32, false, 2, 4096, 0},                \
    {"linear_num_key_heads", "ssm.group_count", SHAPE(n_delta_k_heads), PARAM_U32, true, 1, 4096,  \
     0},                                                                                           \
    {"linear_num_value_heads", "ssm.time_step_rank", SHAPE(n_delta_v_heads), PARAM_U32, true, 1,   \
     4096, 0},                                                                                     \
    {"linear_key_head_dim", "ssm.state_size", SHAPE(delta_k_dim), PARAM_U32, true, 1, 4096, 0},    \
    {"linear_value_head_dim", NULL, SHAPE(delta_v_dim), PARAM_U32, true, 1, 4096, 0},              \
    {NULL, "ssm.inner_size", SHAPE(delta_dim), PARAM_U32, true, 1, 1 << 24, 0},                    \
    {"linear_conv_kernel_dim", "ssm.conv_kernel", SHAPE(conv_taps), PARAM_U32, true, 2,            \
     GRAPH_TAPS, 0},                                                                               \
    {"full_attention_interval", "full_attention_interval", SHAPE(full_interval), PARAM_U32, false, \
     1, MODEL_LAYERS, 4},                                                                          \
    {NULL, "nextn_predict_layers", SHAPE(n_later), PARAM_U32, false, 0, MODEL_LAYERS, 0},          \
    {"tie_word_embeddings", NULL, SHAPE(tied), PARAM_BOOL, false, 0, 1, 0},                        \
    {"attention_bias", NULL, SHAPE(qkv_bias), PARAM_BOOL, false, 0, 1, 0}

/* Of those with experts. */
#define HYBRID_EXPERT_PARAMS                                                                       \
    {"num_experts", "expert_count", SHAPE(n_experts), PARAM_U32, true, 1, 4096, 0},                \
    {"num_experts_per_tok", "expert_used_count", SHAPE(n_top), PARAM_U32, true, 1, 256, 0},        \
    {"moe_intermediate_size", "expert_feed_forward_length", SHAPE(n_expert_ff), PARAM_U32, true,   \
     1, 1 << 20, 0},                                                                               \
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", SHAPE(n_shared_ff),   \
     PARAM_U32, true, 1, 1 << 20, 0}
// clang-format on

/* Where moe_interval is set, every so many-th layer has experts. */
weft_status hybrid_derive(model_params *p, const model_source *source, weft_error *err);

/* What a GGUF file says otherwise than a config: before anything else, and of the head that drafts,
 * which is a layer like the others there. */
weft_status hybrid_read_gguf(model_params *p, const model_source *source, weft_error *err);
void hybrid_read_gguf_draft(model_params *p, const model_source *source);

void hybrid_build(model_build *b);
void hybrid_build_draft(model_build *b);

/* The fields of a model_family that all of them share. */
#define HYBRID_FAMILY                                                                              \
    .slots = HYBRID_SLOTS, .n_slots = HYBRID_N_SLOTS, .drop = HYBRID_DROP,                         \
    .towers = HYBRID_TOWERS, .build = hybrid_build, .build_draft = hybrid_build_draft

#endif
