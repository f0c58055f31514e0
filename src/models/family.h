/* family.h - how a model family is described: one file and one row.
 *
 * To add a family: families/NAME.c with `const model_family MODEL_FAMILY_NAME`, and
 * MODEL_FAMILY(name, NAME) in families.def. It states its parameters (one row serves config.json
 * and GGUF), its tensors (name in each form, shape as fields of the params), and build(), which
 * emits the graph. Loader, shape check and inspect read the same rows. What recurs moves to parts.c
 * at its second use. */
#ifndef MODELS_FAMILY_H
#define MODELS_FAMILY_H

#include "backend/kv_view.h"
#include "graph/graph.h"
#include "models/config.h"

enum { MODEL_VOCAB = 1 << 24, MODEL_LAYERS = 512, MODEL_ROPES = 2, MODEL_SLOTS = 32 };

/* How positions turn into angles; filled by rope_config(). */
typedef enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN } rope_kind;

typedef struct rope_params {
    rope_kind kind;
    double theta, factor;
    double low_freq_factor, high_freq_factor;            /* llama3 */
    double beta_fast, beta_slow, mscale, mscale_all_dim; /* yarn */
    double attention_factor;                             /* yarn; 0: derived */
    bool truncate;                                       /* yarn */
    double original_context;                             /* llama3, yarn */
} rope_params;

/* What the families share; a field a family does not use stays 0. */
typedef struct model_params {
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, context;
    uint32_t q_dim, kv_dim;  /* heads * head_dim */
    uint32_t rope_dims;      /* of a head that rotate */
    uint32_t window;         /* positions a window layer sees */
    uint32_t window_pattern; /* every n-th layer is full, where layer types are not listed */
    float norm_eps, attn_scale, embed_scale, attn_softcap, final_softcap;
    float query_pre_attn_scalar, rope_theta, rope_theta_local;
    float norm_add; /* added to norm weights: 1 where files store offsets */
    bool tied, qkv_bias, o_bias, mlp_bias, rope_interleaved;
    graph_act act;
    bool is_window[MODEL_LAYERS];
    bool is_recurrent[MODEL_LAYERS]; /* layers with a state in place of keys and values */
    /* Of those: heads and their sizes; what a convolution adds up; its columns, those of values. */
    uint32_t n_delta_k_heads, n_delta_v_heads, delta_k_dim, delta_v_dim;
    uint32_t conv_taps, conv_dim, delta_dim;
    uint32_t gated_q_dim;   /* queries and their gates */
    uint32_t full_interval; /* every n-th layer attends, where layer types are not listed */
    rope_params ropes[MODEL_ROPES];
    uint32_t n_ropes;
} model_params;

typedef enum param_type { PARAM_U32, PARAM_F32, PARAM_BOOL } param_type;

typedef struct model_param {
    const char *json_key; /* in config.json, or NULL */
    const char *gguf_key; /* behind "<architecture>.", or NULL */
    size_t offset;        /* of the field in model_params */
    param_type type;
    bool required;
    double min, max, fallback;
} model_param;

/* Shapes are offsets of uint32_t fields in model_params; SHAPE_NONE: a vector (rows) or not
 * checked. */
#define SHAPE_NONE SIZE_MAX
#define SHAPE(field) offsetof(model_params, field)

typedef enum slot_place {
    SLOT_MODEL,     /* once, behind the model's root: "model." */
    SLOT_LAYER,     /* once a layer, behind root and "layers.%u." or "blk.%u." */
    SLOT_HEAD,      /* once, beside the root: "lm_head.weight" */
    SLOT_ATTENTION, /* as SLOT_LAYER, in layers that attend */
    SLOT_RECURRENT  /* likewise, in recurrent ones */
} slot_place;

typedef struct model_slot {
    const char *hf_name;   /* also MLX's; without root and layer */
    const char *gguf_name; /* without layer */
    slot_place place;
    size_t rows, cols; /* SHAPE(...) */
    bool optional;     /* absent: build() sees 0 */
    size_t if_flag;    /* offset of a bool: wanted only when it is true; SHAPE_NONE: always */
} model_slot;

typedef struct model_family model_family;

/* What build() works with. */
typedef struct model_build {
    graph *g;
    const model_params *p;
    const model_family *family;
    const uint32_t *bound; /* [n_slots, n_layers], tensor index + 1, 0: absent */
    kv_layer *kv_layers;   /* [n_layers at most]; build() describes its states here */
    uint32_t n_kv_layers;
} model_build;

struct model_family {
    const char *name;
    const char *const *hf_types;   /* model_type values, NULL behind the last */
    const char *const *gguf_types; /* general.architecture values, NULL behind the last */
    const model_param *params;
    uint32_t n_params;
    const model_slot *slots;
    uint32_t n_slots;
    const char *const
        *drop; /* tensors to leave out: "*" at either end matches anything; NULL behind the last */
    /* Fills what follows from the parameters and refuses values it would compute wrongly. */
    weft_status (*derive)(model_params *p, const model_source *source, weft_error *err);
    void (*build)(model_build *b);
};

/* [*count] rows. */
const model_family *const *model_family_table(uint32_t *count);

/* The tensor of a slot as a graph value; 0 when it is absent. Records that it was read. */
graph_id build_slot(model_build *b, uint32_t slot, uint32_t layer);

#endif
