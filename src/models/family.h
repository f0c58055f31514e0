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
#include "vision/image.h"

enum { MODEL_VOCAB = 1 << 24, MODEL_LAYERS = 512, MODEL_ROPES = 2 };

/* Matrices of a model, those of stacks one by one. */
enum { MODEL_MATRICES = 1 << 18 };

/* How positions turn into angles; filled by rope_config(). */
typedef enum rope_kind {
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_PROPORTIONAL,
    ROPE_ALPHA,
    ROPE_LONG
} rope_kind;

/* Which axis a pair turns by. INTERLEAVED: pair j by axis j % 3, where that is below three times
 * the axis's section, else by the first. RUNS: sections behind one another, and in each the
 * frequencies start anew. FIRST: each by the first. */
typedef enum rope_axes {
    ROPE_AXES_NONE,
    ROPE_AXES_INTERLEAVED,
    ROPE_AXES_RUNS,
    ROPE_AXES_FIRST
} rope_axes;

typedef struct rope_params {
    rope_kind kind;
    double theta, factor;
    double low_freq_factor, high_freq_factor;            /* llama3 */
    double beta_fast, beta_slow, mscale, mscale_all_dim; /* yarn */
    double attention_factor;                             /* yarn, long; 0: derived */
    bool truncate;                                       /* yarn */
    double original_context;                             /* llama3, yarn, long */
    double context;                                      /* of the model */
    double alpha;     /* alpha: theta is multiplied by alpha^(D / (D - 2)) */
    bool other_pairs; /* than rope_interleaved says */
    double partial;   /* proportional: the part of a head whose pairs turn, the rest stays */
    uint32_t n_dims;  /* of a head; 0: rope_dims */
    bool no_factors;  /* those that a GGUF file has are not for it */
    rope_axes axes;
    uint32_t sections[GRAPH_AXES]; /* pairs */
} rope_params;

/* What a tower takes and what becomes of it in a prompt: an image is cut into squares of patch
 * pixels, pool * pool of which become one token. */
typedef struct model_image {
    uint32_t patch, pool, channels, frames;
    uint32_t stated_patch, stated_pool; /* as vision_config has them */
    uint32_t patch_dim, pooled_dim; /* numbers of a patch, of what is pooled behind one another */
    uint32_t n_places, table_rows;  /* places that a table knows on a side; its rows */
    uint32_t n_sides;               /* patches that an image may have on a side; 0: any */
    uint32_t n_out, n_merged;       /* width of the text model, of a layer before it */
    bool channels_last;             /* order of a patch's numbers: colours of a pixel together */
    bool clipped, standardized;
    vision_size size;          /* how an image is brought to a size */
    float mean[3], std[3];     /* a number is (x / 255 - mean) / std */
    int32_t token, begin, end; /* ids; begin and end -1: the placeholder is all there is */
    int32_t placeholders[3];   /* of images, video and audio, -1: none: embedded as pad, whoever */
    int32_t pad;               /* wrote them */
    bool sees_all;             /* tokens of an image see each other, in layers with blocks */
    bool has_places; /* tokens have places on axes, and what follows counts on from the largest */
} model_image;

typedef struct dense dense;

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
    bool sees_all;  /* an encoder: tokens of a text see each other, and lie in one step */
    bool tied, qkv_bias, o_bias, mlp_bias, rope_interleaved;
    graph_act act;
    bool is_window[MODEL_LAYERS];
    /* Latents: of queries and of keys; columns of a head that do not and that do rotate; of a
     * value. */
    uint32_t q_rank, kv_rank, nope_dim, pe_dim, v_dim;
    uint32_t latent_dim, pair_dim, o_dim; /* kv_rank + pe_dim; nope_dim + v_dim; heads * v_dim */
    bool has_q_rank, has_plain_q;
    float latent_eps; /* of norms of latents */
    /* Attention to the index_top positions that an index chooses: heads and columns of its queries,
     * 0 where there is none; layers that choose, where others take the last choice; the rope. */
    uint32_t n_index_heads, index_dim, index_q_dim, index_top, index_rope;
    bool index_interleaved;
    bool has_index[MODEL_LAYERS];
    /* Experts: how many, of a token, in how many groups, how wide, wide the ones that see all. */
    uint32_t n_experts, n_top, n_groups, n_top_groups, n_shared, n_expert_ff, n_shared_ff;
    uint32_t n_gate_up;     /* rows of an expert's gate and up together */
    uint32_t n_dense_first; /* layers without experts */
    uint32_t moe_interval;  /* every n-th layer has experts */
    float route_scale, expert_limit;
    bool route_normalize, has_shared;
    bool is_moe[MODEL_LAYERS];
    /* Layers that see all where others have a window: their heads. */
    uint32_t full_head_dim, n_full_kv_heads, full_q_dim, full_kv_dim;
    /* Layers that read another's keys and values; those with their own, by kind, and with a matrix
     * for values of their own; those with a wider MLP. */
    uint32_t n_shared_kv, n_ff_wide;
    bool k_is_v, wide_mlp;
    bool is_shared[MODEL_LAYERS], own_window[MODEL_LAYERS], own_full[MODEL_LAYERS];
    bool own_full_v[MODEL_LAYERS], is_wide[MODEL_LAYERS];
    /* An embedding for each layer: its width, of all layers, its vocabulary. */
    uint32_t ple_dim, ple_all, n_ple_vocab;
    bool has_ple, has_moe, is_unified;
    uint32_t n_positions, first_position; /* learned ones: rows, and that of position 0 */
    uint32_t n_types;                     /* of tokens */
    uint32_t n_later; /* layers behind the last that a file may have, for drafting: left out */
    /* A head that drafts: where its names begin, NULL: none is read; its layers, which stand behind
     * the model's. */
    const char *draft_root;
    uint32_t n_draft_layers,
        join_dim; /* an embedding and a hidden state: twice the model's width */
    /* An assistant, which drafts for a model of target_embd columns out of its keys and values. Of
     * its vocabulary, where has_centroids, those tokens are looked at that belong to the
     * n_top_centroids best of n_centroids. */
    uint32_t target_embd, n_centroids, n_top_centroids;
    bool is_assistant, has_centroids;
    uint32_t one;                    /* 1 */
    bool is_recurrent[MODEL_LAYERS]; /* layers with a state in place of keys and values */
    /* Of those: heads and their sizes; what a convolution adds up; its columns, those of values. */
    uint32_t n_delta_k_heads, n_delta_v_heads, delta_k_dim, delta_v_dim;
    uint32_t conv_taps, conv_dim, delta_dim;
    /* Their matrices are of queries, keys and values, and of z, or all in one, key head by key
     * head; decay and rate likewise: rows of that one. Value heads go round key heads; -exp(A_log)
     * stands for A_log. */
    bool delta_apart, delta_grouped, gates_apart, gates_grouped;
    uint32_t delta_all_dim, delta_gates_dim;
    bool delta_tiled, delta_speed;
    uint32_t gated_q_dim;   /* queries and their gates */
    uint32_t full_interval; /* every n-th layer attends, where layer types are not listed */
    /* Dense decoders: the record, what is there by it, columns of what is normed. */
    const dense *dense;
    bool has_attn_norm, has_mlp_norm, has_post_norms, has_final_norm, has_qk_norm, has_gate;
    bool has_norm_bias, has_mlp_norm_bias;
    bool head_bias, gate_bias, use_qk_norm, parallel;
    bool is_unrotated[MODEL_LAYERS];
    float residual_scale;             /* of what is added to the stream; 0: 1 */
    float logit_scale, logit_divisor; /* 0: 1 */
    float query_beta, query_period;   /* of position_scale; 0: none */
    float partial_rotary;             /* part of a head that rotates */
    uint32_t q_norm_dim, k_norm_dim;
    uint32_t n_qkv, n_qk, n_ff_pair; /* rows of fused matrices: of all three, of two, of both */
    rope_params ropes[MODEL_ROPES];
    uint32_t n_ropes;
    model_image image;    /* of a tower */
    uint32_t n_qkv_tower; /* 3 n_embd */
} model_params;

/* Those of the model and of a head that drafts. */
static inline uint32_t model_all_layers(const model_params *p)
{
    return p->n_layers + p->n_draft_layers;
}

/* The number that SHAPE(...) names. */
static inline uint32_t model_field(const model_params *p, size_t offset)
{
    return *(const uint32_t *)(const void *)((const char *)p + offset);
}

typedef enum param_type { PARAM_U32, PARAM_F32, PARAM_BOOL } param_type;

typedef struct model_param {
    const char *json_key; /* in config.json, or NULL */
    const char *gguf_key; /* behind "<architecture>.", or NULL */
    size_t offset;        /* of the field in model_params */
    param_type type;
    bool required; /* in the form that has a key for it */
    double min, max, fallback;
} model_param;

/* Shapes are offsets of uint32_t fields in model_params; SHAPE_NONE: a vector (rows) or not
 * checked. */
#define SHAPE_NONE SIZE_MAX
#define SHAPE(field) offsetof(model_params, field)

typedef enum slot_place {
    SLOT_MODEL, /* once, behind the model's root: "model." */
    SLOT_LAYER, /* once a layer, behind root and "layers.%u." or "blk.%u." */
    SLOT_HEAD,  /* once, beside the root: "lm_head.weight" */
    SLOT_DRAFT  /* once, behind draft_root, where there is one; so are the layers of such a head */
} slot_place;

/* A bool for each layer, and whether a slot is of those layers where it is true or false. */
#define SLOT_IN(field) (2 * (SHAPE(field) + 1))
#define SLOT_NOT_IN(field) (2 * (SHAPE(field) + 1) + 1)

/* Matrices of one shape, and where they may come from. Each is one tensor, with "%u" for its index
 * in the names, or rows of a single one, in which it has block rows, the wanted ones behind before
 * others: all that follow, or every every-th. Vectors are columns of a matrix likewise. */
typedef struct stack_source {
    const char *hf_name, *gguf_name; /* NULL: not in that form */
    size_t block, before;            /* SHAPE(...); SHAPE_NONE: the wanted rows, none */
    uint32_t every;                  /* 0: 1 */
    bool turned; /* plain numbers lie by columns: [cols, block] a matrix; others never do */
} stack_source;

typedef struct model_stack {
    size_t count; /* SHAPE(...) */
    const stack_source *sources;
    uint32_t n_sources;
} model_stack;

typedef struct model_slot {
    const char *hf_name;   /* also MLX's; without root and layer; of a stack what it is */
    const char *gguf_name; /* without layer */
    slot_place place;
    size_t rows, cols; /* SHAPE(...) */
    bool optional;     /* absent: build() sees 0 */
    size_t if_flag;    /* offset of a bool: wanted only when it is true; SHAPE_NONE: always */
    size_t layers;     /* SLOT_IN(...), SLOT_NOT_IN(...); 0: all */
    uint32_t unless;   /* a slot before it that, where it is there, stands for this one; 0: none */
    bool unused;       /* what is there is left alone */
    bool squeeze;      /* a dimension of 1 is left out: [C, 1, K] is [C, K] */
    bool flat;         /* may have more dims, if its numbers are as many */
    bool strict;       /* if_flag decides for a GGUF file, too, not what is in it */
    bool integers;     /* I32 or I64, which no graph reads */
    const model_stack *stack; /* rows and cols are of one matrix or vector; NULL: a matrix */
    uint32_t mlx;             /* how MLX stores it, of MLX_ */
} model_slot;

/* What MLX's files have otherwise than most tensors, of which matrices are quantized and norm
 * weights have what the family adds to them added already or not (mlx_form). */
enum {
    MLX_KEEP = 1,       /* a matrix that is not quantized */
    MLX_8_BITS = 2,     /* a router: 8 bits in groups of 64, whatever the others have */
    MLX_TYPE = 4,       /* stays in the type that it is stored in */
    MLX_PLAIN_NORM = 8, /* nothing is ever added to this norm's weight */
    MLX_HALVES = 16,    /* rows of heads that rotate, in halves: in GGUF files in pairs, where the
                           family says so */
    MLX_TURNED = 32     /* each matrix is what slot `unless` has, turned, and MLX has that */
};

/* A model_type of Hugging Face's, what MLX calls it, and where its tensors begin there. */
typedef struct mlx_type {
    const char *hf, *mlx, *root;
} mlx_type;

/* MLX's form of a family's checkpoints, which `weft convert` writes. */
typedef struct mlx_form {
    const mlx_type *types; /* the first one also for GGUF files; hf NULL behind the last. NULL: the
                              family's types as they are, tensors in "model." */
    float norm_add;        /* what is added to norm weights as they are stored there */
    bool gguf_pairs;       /* see MLX_HALVES */
    bool only_json;        /* GGUF files, which have it otherwise, are not converted */
    /* 1 << slot of slots whose rows are in one tensor with those of others, where some source has
     * them so; and of those that are as MLX_8_BITS says. */
    uint32_t fused, in_8_bits;
    const char *config; /* members of config.json that mlx-lm wants and others may leave out,
                              as JSON; NULL: none */
} mlx_form;

/* Rows of slots of each layer. flag: if_flag; in: layers. */
#define SLOT_MATRIX(name, gguf, n_rows, n_cols, flag, in)                                          \
    {                                                                                              \
        .hf_name = (name), .gguf_name = (gguf), .place = SLOT_LAYER, .rows = SHAPE(n_rows),        \
        .cols = SHAPE(n_cols), .if_flag = (flag), .layers = (in)                                   \
    }
#define SLOT_VECTOR(name, gguf, n_cols, flag, in)                                                  \
    {                                                                                              \
        .hf_name = (name), .gguf_name = (gguf), .place = SLOT_LAYER, .rows = SHAPE_NONE,           \
        .cols = SHAPE(n_cols), .if_flag = (flag), .layers = (in)                                   \
    }

/* One with all rows of a block, or those that a number of others stand before. */
#define STACK_SOURCE(hf, gguf, of, others)                                                         \
    {                                                                                              \
        .hf_name = (hf), .gguf_name = (gguf), .block = (of), .before = (others)                    \
    }

/* The sources of a stack, as an array. */
#define STACK_SOURCES(...)                                                                         \
    (const stack_source[])                                                                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* What a family calls a slot of a table that it shares with others. */
typedef struct model_name {
    uint32_t slot;
    stack_source source;
    const model_stack *stack; /* its sources instead, where there are several; else NULL */
} model_name;

typedef struct model_family model_family;

/* What build() works with. */
typedef struct model_build {
    graph *g;
    const model_params *p;
    const model_family *family;
    const uint32_t *bound; /* [n_slots, all layers], tensor index + 1, 0: absent */
    /* [2 * n_layers at most]; build() describes its states here: that of layer i is the i-th,
     * layers that share those of others come last. Indices stand behind those of all layers. */
    kv_layer *kv_layers;
    uint32_t n_kv_layers;
    bool images; /* a text model that sees images: feed 0 is what replaces embeddings */
} model_build;

typedef struct llm_tower llm_tower;

/* What a tower is run on, for its patches in an order in which those of a token are neighbours. */
typedef struct tower_input {
    float *feeds[GRAPH_FEEDS]; /* [n_patches, columns of the feed] */
    uint32_t *places;          /* [GRAPH_AXES, n_patches] */
    float *row;                /* [n_embd of the tower], scratch */
} tower_input;

struct model_family {
    const char *name;
    const char *const *hf_types;   /* model_type values, NULL behind the last */
    const char *const *gguf_types; /* general.architecture values, NULL behind the last */
    bool by_top; /* hf_types are of whole configs, whatever their text part is called */
    const model_param *params;
    uint32_t n_params;
    const model_slot *slots;
    uint32_t n_slots;
    const model_name *names; /* instead of those in slots */
    uint32_t n_names;
    const dense *dense;       /* of a dense decoder (dense.h); else NULL */
    const char *const *roots; /* where tensors begin, in the order they are tried, NULL behind the
                               * last; NULL: as those of text models do */
    const char *layers;       /* what their names begin with in place of "layers."; NULL: that */
    /* What turns images into rows of the text model's width, a family of its own, whose layers are
     * those of "vision_config": the first of these whose tensors a checkpoint has, NULL behind the
     * last, or NULL. Its build() ends in OUTPUTS rows, one a token; what drop names is left out
     * where there is no tower. */
    const model_family *const *towers;
    /* Of a tower: all that its graph is fed for an image of a size it takes. */
    void (*prepare)(const llm_tower *tower, const vision_image *image, const tower_input *in);
    const char *const
        *drop; /* tensors to leave out: "*" at either end matches anything; NULL behind the last */
    /* Fills what follows from the parameters and refuses values it would compute wrongly. */
    weft_status (*derive)(model_params *p, const model_source *source, weft_error *err);
    void (*build)(model_build *b);
    /* The graph of the head that drafts, where draft_root is set: from token i + 1 (tokens) and the
     * model's hidden state of token i (feed 0) to its own hidden states and logits, over states
     * of its own. NULL: the family has none. */
    void (*build_draft)(model_build *b);
    const mlx_form *mlx; /* NULL: it is not converted */
};

/* Where bound has a slot of a layer. */
static inline size_t model_bound_at(const model_params *p, uint32_t slot, uint32_t layer)
{
    return (size_t)slot * model_all_layers(p) + layer;
}

/* [*count] rows. */
const model_family *const *model_family_table(uint32_t *count);

/* The tensor of a slot as a graph value; 0 when it is absent. Records that it was read. */
graph_id build_slot(model_build *b, uint32_t slot, uint32_t layer);
graph_id build_stack(model_build *b, uint32_t slot, uint32_t layer);

/* The first number of a slot that is bound: a constant of the graph. */
float build_number(const model_build *b, uint32_t slot, uint32_t layer);

#endif
