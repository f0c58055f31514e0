/* dense.h - families of dense decoders: a record each.
 *
 * Embedding, layers of attention and an MLP, a final norm and an output matrix. What such families
 * differ in is a field of the record, a row of parameters, or a name of a tensor; nothing of it is
 * code of its own. families/qwen3.c is a whole one; docs/graph.md says how to add another. */
#ifndef MODELS_DENSE_H
#define MODELS_DENSE_H

#include "base/assert.h"
#include "models/parts.h"

/* Slots behind those of parts.h. The norm behind attention (or of its result) and the one behind
 * the MLP; biases of norms and of the output matrix. */
enum { DENSE_POST_ATTN_NORM = PART_N_SLOTS, DENSE_POST_MLP_NORM, DENSE_N_SLOTS };

/* Where norms stand: A attention, F the MLP, n their norms. */
typedef enum dense_block {
    DENSE_PRE,     /* x += A(attn_norm x); x += F(mlp_norm x) */
    DENSE_POST,    /* x += post_attn_norm A(x); x += post_mlp_norm F(x) */
    DENSE_SANDWICH /* x += post_attn_norm A(attn_norm x); x += post_mlp_norm F(mlp_norm x) */
} dense_block;

/* Norms of queries and keys. */
typedef enum dense_qk {
    DENSE_QK_NONE,
    DENSE_QK_HEAD, /* of each head, one weight for all */
    DENSE_QK_WIDE  /* of all heads together */
} dense_qk;

/* Which layers have a window, where the checkpoint does not list their types. */
typedef enum dense_window {
    DENSE_WINDOW_LISTED, /* none; a window that would matter is refused */
    DENSE_WINDOW_ALL,
    DENSE_WINDOW_EVERY, /* all but every n-th: sliding_window_pattern, or window_every */
    DENSE_WINDOW_FROM   /* from max_window_layers on, if use_sliding_window */
} dense_window;

struct dense {
    dense_block block;
    dense_qk qk;
    graph_act act;                      /* where the checkpoint does not say */
    bool interleaved, gguf_interleaved; /* pairs of rope are neighbours */
    dense_window window;
    uint32_t window_fallback; /* positions, where config.json does not say; null says none */
    uint32_t window_every;
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

#define DENSE_TYPES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define DENSE_NO_TYPES ((const char *const[]){NULL})

extern const model_param DENSE_PARAMS[];
extern const model_slot DENSE_SLOTS[DENSE_N_SLOTS];
extern const char *const DENSE_DROP[];

enum { DENSE_N_PARAMS = 14 };

weft_status dense_derive(model_params *p, const model_source *source, weft_error *err);
void dense_build(model_build *b);

/* The fields of a model_family that all of them share. */
#define DENSE_FAMILY                                                                               \
    .params = DENSE_PARAMS, .n_params = DENSE_N_PARAMS, .slots = DENSE_SLOTS,                      \
    .n_slots = DENSE_N_SLOTS, .drop = DENSE_DROP, .derive = dense_derive, .build = dense_build

#endif
