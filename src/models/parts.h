/* parts.h - pieces of graphs that several families are made of. */
#ifndef MODELS_PARTS_H
#define MODELS_PARTS_H

#include "models/family.h"

/* Slots of a grouped-query attention and of a gated MLP; a family's slot enum starts with these. */
typedef enum part_slot {
    PART_EMBED,
    PART_FINAL_NORM,
    PART_HEAD,
    PART_ATTN_NORM,
    PART_Q,
    PART_K,
    PART_V,
    PART_O,
    PART_Q_BIAS,
    PART_K_BIAS,
    PART_V_BIAS,
    PART_O_BIAS,
    PART_MLP_NORM,
    PART_GATE,
    PART_UP,
    PART_DOWN,
    PART_GATE_BIAS,
    PART_UP_BIAS,
    PART_DOWN_BIAS,
    PART_Q_NORM,
    PART_K_NORM,
    PART_N_SLOTS
} part_slot;

/* The rows of those slots, with the names of llama-shaped checkpoints: of the model and the norm
 * that a layer begins with, of attention, of the MLP. */
#define PART_DENSE_SLOTS PART_MODEL_SLOTS, PART_ATTENTION_SLOTS, PART_MLP_SLOTS

#define PART_MODEL_SLOTS                                                                           \
    [PART_EMBED] = {"embed_tokens.weight", "token_embd.weight", SLOT_MODEL,                        \
                    SHAPE(n_vocab),        SHAPE(n_embd),       false,                             \
                    .if_flag = SHAPE_NONE},                                                        \
    [PART_HEAD] = {"lm_head.weight",     "output.weight", SLOT_HEAD,                               \
                   SHAPE(n_vocab),       SHAPE(n_embd),   true,                                    \
                   .if_flag = SHAPE_NONE},                                                         \
    [PART_FINAL_NORM] =                                                                            \
        {"norm.weight", "output_norm.weight", SLOT_MODEL, SHAPE_NONE, SHAPE(n_embd),               \
         false,         .if_flag = SHAPE_NONE},                                                    \
    [PART_ATTN_NORM] = {"input_layernorm.weight",                                                  \
                        "attn_norm.weight",                                                        \
                        SLOT_LAYER,                                                                \
                        SHAPE_NONE,                                                                \
                        SHAPE(n_embd),                                                             \
                        false,                                                                     \
                        .if_flag = SHAPE_NONE}

#define PART_ATTENTION_SLOTS                                                                       \
    [PART_Q] = {"self_attn.q_proj.weight",                                                         \
                "attn_q.weight",                                                                   \
                SLOT_LAYER,                                                                        \
                SHAPE(q_dim),                                                                      \
                SHAPE(n_embd),                                                                     \
                false,                                                                             \
                .if_flag = SHAPE_NONE},                                                            \
    [PART_K] = {"self_attn.k_proj.weight",                                                         \
                "attn_k.weight",                                                                   \
                SLOT_LAYER,                                                                        \
                SHAPE(kv_dim),                                                                     \
                SHAPE(n_embd),                                                                     \
                false,                                                                             \
                .if_flag = SHAPE_NONE},                                                            \
    [PART_V] = {"self_attn.v_proj.weight",                                                         \
                "attn_v.weight",                                                                   \
                SLOT_LAYER,                                                                        \
                SHAPE(kv_dim),                                                                     \
                SHAPE(n_embd),                                                                     \
                false,                                                                             \
                .if_flag = SHAPE_NONE},                                                            \
    [PART_O] = {"self_attn.o_proj.weight",                                                         \
                "attn_output.weight",                                                              \
                SLOT_LAYER,                                                                        \
                SHAPE(n_embd),                                                                     \
                SHAPE(q_dim),                                                                      \
                false,                                                                             \
                .if_flag = SHAPE_NONE}

#define PART_MLP_SLOTS                                                                             \
    [PART_GATE] =                                                                                  \
        {"mlp.gate_proj.weight", "ffn_gate.weight", SLOT_LAYER, SHAPE(n_ff), SHAPE(n_embd), false, \
         .if_flag = SHAPE_NONE},                                                                   \
    [PART_UP] = {"mlp.up_proj.weight", "ffn_up.weight", SLOT_LAYER,           SHAPE(n_ff),         \
                 SHAPE(n_embd),        false,           .if_flag = SHAPE_NONE},                    \
    [PART_DOWN] = {"mlp.down_proj.weight", "ffn_down.weight", SLOT_LAYER,                          \
                   SHAPE(n_embd),          SHAPE(n_ff),       false,                               \
                   .if_flag = SHAPE_NONE}

/* Gate or up matrices of experts, "gate_proj" or "up_proj", whose modules begin with prefix: one
 * tensor each, a stack, or a stack of both, gate first, in which before stands in front. Down
 * matrices have no such. */
#define PART_EXPERTS(prefix, name, gguf, before)                                                   \
    {                                                                                              \
        SHAPE(n_experts),                                                                          \
            (const stack_source[]){                                                                \
                STACK_SOURCE(prefix "experts.%u." name ".weight", gguf, SHAPE_NONE, SHAPE_NONE),   \
                STACK_SOURCE(prefix "switch_mlp." name ".weight", NULL, SHAPE_NONE, SHAPE_NONE),   \
                STACK_SOURCE(prefix "experts.gate_up_proj", "ffn_gate_up_exps.weight",             \
                             SHAPE(n_gate_up), before)},                                           \
            3                                                                                      \
    }
#define PART_EXPERTS_DOWN(prefix, name, gguf)                                                      \
    {                                                                                              \
        SHAPE(n_experts),                                                                          \
            (const stack_source[]){                                                                \
                STACK_SOURCE(prefix "experts.%u." name ".weight", gguf, SHAPE_NONE, SHAPE_NONE),   \
                STACK_SOURCE(prefix "switch_mlp." name ".weight", NULL, SHAPE_NONE, SHAPE_NONE),   \
                STACK_SOURCE(prefix "experts.down_proj", NULL, SHAPE_NONE, SHAPE_NONE)},           \
            3                                                                                      \
    }

/* What differs between the attention of two layers. */
typedef struct part_attention {
    uint32_t rope_i;
    uint32_t window; /* 0: full */
    bool gated;      /* Wq gives queries and gates, head by head: sigmoid(gate) * attend(...) */
    uint32_t sinks;  /* their slot; 0: none */
} part_attention;

/* Describes the state of a layer with the family's heads; window 0: full. Its index. */
uint32_t part_state(model_build *b, uint32_t window);

/* x [n, d], normed -> Wo attend(rope(norm(Wq x)), ...) [n, d]; norms where the family has them. */
graph_id part_attention_build(model_build *b, uint32_t layer, graph_id x, part_attention how);

/* Wdown (act(Wgate x) * Wup x) */
graph_id part_mlp_build(model_build *b, uint32_t layer, graph_id x);

/* The same without biases, of the slots gate, up and down. */
graph_id part_gated_build(model_build *b, uint32_t layer, graph_id x, const uint32_t slots[3]);

/* What experts, of stacks of gate, up and down, make of x as route says. */
graph_id part_experts_build(model_build *b, uint32_t layer, graph_id x, graph_id route,
                            const uint32_t slots[3]);

/* Norm with the family's epsilon and offset. */
graph_id part_norm(model_build *b, uint32_t slot, uint32_t layer, graph_id x);

/* Embedding of the step's tokens, scaled where the family does. */
graph_id part_embed(model_build *b);

/* Final norm of the wanted rows: hidden states, and logits by the output matrix, tied to the
 * embedding when there is none. */
void part_head(model_build *b, graph_id x);

/* The same behind another norm. */
void part_head_behind(model_build *b, uint32_t norm, graph_id x);

/* head_dim, kv heads, rope and scale where the checkpoint leaves them out; checks what must
 * divide. */
weft_status part_derive(model_params *p, weft_error *err);

/* is_window from layer_types, an array of "sliding_attention" and "full_attention"; *found false
 * when absent. */
weft_status part_layer_types(model_params *p, const model_source *source, bool *found,
                             weft_error *err);

#endif
