/* dense.h - families of dense decoders: a record each.
 *
 * Embedding, layers of attention and an MLP, a final norm and an output matrix. What such families
 * differ in is a field of the record, a row of parameters, or a name of a tensor; nothing of it is
 * code of its own. families/qwen3.c is a whole one; docs/graph.md says how to add another. */
#ifndef MODELS_DENSE_H
#define MODELS_DENSE_H

#include "base/assert.h"
#include "models/parts.h"

/* Slots behind those of parts.h. Norms of what attention and the MLP give; norms of queries and
 * keys with a weight for each head; biases of norms and of the output matrix. */
enum {
    DENSE_POST_ATTN_NORM = PART_N_SLOTS,
    DENSE_POST_MLP_NORM,
    DENSE_Q_NORMS,
    DENSE_K_NORMS,
    DENSE_FINAL_NORM_BIAS,
    DENSE_ATTN_NORM_BIAS,
    DENSE_MLP_NORM_BIAS,
    DENSE_HEAD_BIAS,
    DENSE_ROUTER,
    DENSE_EXPERT_GATE,
    DENSE_EXPERT_UP,
    DENSE_EXPERT_DOWN,
    DENSE_SHARED_GATE,
    DENSE_SHARED_UP,
    DENSE_SHARED_DOWN,
    DENSE_SHARED_PART, /* one row: the logit of what is taken of it */
    DENSE_N_SLOTS
};

/* Where norms stand: A attention, F the MLP. */
typedef enum dense_block {
    DENSE_PRE,      /* x += A(attn_norm x); x += F(mlp_norm x) */
    DENSE_POST,     /* x += post_attn_norm A(x); x += post_mlp_norm F(x) */
    DENSE_SANDWICH, /* x += post_attn_norm A(attn_norm x); x += post_mlp_norm F(mlp_norm x) */
    DENSE_PARALLEL  /* x += A(attn_norm x) + F(attn_norm x) */
} dense_block;

/* Of the residual stream. Where weights are offsets from 1, GGUF files have the sums. */
typedef enum dense_norm {
    DENSE_RMS,
    DENSE_RMS_OFFSET,
    DENSE_LN,
    DENSE_LN_OFFSET,
    DENSE_LN_PLAIN /* without weights */
} dense_norm;

/* Norms of queries and keys. */
typedef enum dense_qk {
    DENSE_QK_NONE,
    DENSE_QK_HEAD,    /* RMS of each head, one weight for all */
    DENSE_QK_WIDE,    /* RMS of all heads together */
    DENSE_QK_OPTIONAL /* layer norm of each head, a weight for each, where use_qk_norm is set */
} dense_qk;

/* Which layers have a window, where the checkpoint does not list their types. */
typedef enum dense_window {
    DENSE_WINDOW_LISTED, /* none; a window that would matter is refused */
    DENSE_WINDOW_ALL,
    DENSE_WINDOW_EVERY,    /* all but every n-th: sliding_window_pattern, or window_every */
    DENSE_WINDOW_FROM,     /* from max_window_layers on, if use_sliding_window */
    DENSE_WINDOW_UNUSED,   /* none; use_sliding_window is refused */
    DENSE_WINDOW_UNROTATED /* those that do not rotate, if use_sliding_window */
} dense_window;

/* Which layers rotate queries and keys. */
typedef enum dense_rotary {
    DENSE_ROTARY_ALL,
    DENSE_ROTARY_LISTED,  /* no_rope_layers, or all but every no_rope_layer_interval-th */
    DENSE_ROTARY_WINDOWS, /* those with a window */
    DENSE_ROTARY_HYBRID   /* those with a window, or all if the model has none */
} dense_rotary;

/* Experts in the place of the MLP, in all layers or in some. */
typedef struct dense_moe {
    bool normalize;      /* weights of the chosen are divided by their sum; else norm_topk_prob
                            says so, or expert_weights_norm */
    bool gguf_normalize; /* what a GGUF file without that key means */
    bool shared;         /* one more, that every token goes to, times a sigmoid */
} dense_moe;

struct dense {
    dense_block block;
    dense_norm norm;
    bool norm_bias;
    dense_qk qk;
    bool qk_after_rope;                 /* normed after they are rotated */
    bool plain_mlp;                     /* Wdown act(Wup x), without a gate */
    graph_act act;                      /* where the checkpoint does not say */
    bool gelu_is_tanh;                  /* what it calls gelu is the other form */
    bool embed_root;                    /* embeddings are multiplied by the root of the width */
    bool interleaved, gguf_interleaved; /* pairs of rope are neighbours */
    bool ntk_alpha;                     /* rope type dynamic with an alpha is a larger theta */
    bool full_scaling;                  /* scaling of rope is of layers without a window */
    dense_rotary rotary;
    dense_window window;
    uint32_t window_fallback; /* positions, where config.json does not say; null says none */
    uint32_t window_every;
    const dense_moe *moe; /* NULL: none; nor where the checkpoint has no count of them */
    /* Read behind DENSE_PARAMS: keys of its own, and others for the same fields. */
    const model_param *params;
    uint32_t n_params;
    /* What no field says; last in derive. NULL: nothing. */
    weft_status (*derive)(model_params *p, const model_source *source, weft_error *err);
};

/* Rows for dense.params: a flag by its key in config.json, which a GGUF file answers by what is in
 * it; a flag that is always set. */
#define DENSE_FLAG(key, field, fallback)                                                           \
    {                                                                                              \
        (key), NULL, SHAPE(field), PARAM_BOOL, false, 0, 1, (fallback)                             \
    }
#define DENSE_ALWAYS(field)                                                                        \
    {                                                                                              \
        NULL, NULL, SHAPE(field), PARAM_BOOL, false, 0, 1, 1                                       \
    }

#define DENSE_NUMBER(key, gguf_key, field, least, most, fallback)                                  \
    {                                                                                              \
        (key), (gguf_key), SHAPE(field), PARAM_F32, false, (least), (most), (fallback)             \
    }
/* How many experts there are, and of a token; how wide, where an MLP would be of another width. */
#define DENSE_EXPERTS(key)                                                                         \
    {(key), "expert_count", SHAPE(n_experts), PARAM_U32, false, 0, 4096, 0},                       \
    {                                                                                              \
        "num_experts_per_tok", "expert_used_count", SHAPE(n_top), PARAM_U32, false, 0, 256, 0      \
    }
#define DENSE_EXPERT_WIDTH                                                                         \
    {                                                                                              \
        "moe_intermediate_size", "expert_feed_forward_length", SHAPE(n_expert_ff), PARAM_U32,      \
            false, 1, 1 << 20, 0                                                                   \
    }
#define DENSE_THETA(fallback)                                                                      \
    DENSE_NUMBER("rope_theta", "rope.freq_base", rope_theta, 1, 1e12, fallback)
#define DENSE_PARTIAL(fallback)                                                                    \
    DENSE_NUMBER("partial_rotary_factor", NULL, partial_rotary, 1e-3, 1, fallback)
#define DENSE_LN_EPS(key)                                                                          \
    DENSE_NUMBER(key, "attention.layer_norm_epsilon", norm_eps, 1e-12, 1, 1e-5)

/* Rows for model_family.names: a tensor of its own; one of two in a tensor, the gate first. */
#define DENSE_NAME(of, hf, gguf)                                                                   \
    {                                                                                              \
        .slot = (of), .source = STACK_SOURCE(hf, gguf, SHAPE_NONE, SHAPE_NONE)                     \
    }
#define DENSE_FUSED_GATE(hf, gguf)                                                                 \
    {                                                                                              \
        .slot = PART_GATE, .source = STACK_SOURCE(hf, gguf, SHAPE(n_ff_pair), SHAPE_NONE)          \
    }
#define DENSE_FUSED_UP(hf, gguf)                                                                   \
    {                                                                                              \
        .slot = PART_UP, .source = STACK_SOURCE(hf, gguf, SHAPE(n_ff_pair), SHAPE(n_ff))           \
    }

#define DENSE_TYPES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define DENSE_NO_TYPES ((const char *const[]){NULL})

extern const model_param DENSE_PARAMS[];
extern const model_slot DENSE_SLOTS[DENSE_N_SLOTS];
extern const char *const DENSE_DROP[];

enum { DENSE_N_PARAMS = 14 };

weft_status dense_derive(model_params *p, const model_source *source, weft_error *err);
weft_status dense_derive_moe(model_params *p, const model_source *source, weft_error *err);

/* What experts make of x, normed. */
graph_id dense_moe_build(model_build *b, uint32_t layer, graph_id x);
void dense_build(model_build *b);

/* The fields of a model_family that all of them share. */
#define DENSE_FAMILY                                                                               \
    .params = DENSE_PARAMS, .n_params = DENSE_N_PARAMS, .slots = DENSE_SLOTS,                      \
    .n_slots = DENSE_N_SLOTS, .drop = DENSE_DROP, .derive = dense_derive, .build = dense_build

/* MLX's form of families whose files are Hugging Face's but for what is fused; the others: with
 * rows of q and k that GGUF files have in pairs; with norm weights that are offsets. */
extern const mlx_form DENSE_MLX, DENSE_MLX_PAIRS, DENSE_MLX_OFFSET;

#endif
