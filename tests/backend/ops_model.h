/* ops_model.h - small random models built by hand, and backends that run them over sequences: what
 * test_ops.c is made of. Pages start as NaN in every type, so whatever reads beyond what was
 * written shows. */
#ifndef BACKEND_OPS_MODEL_H
#define BACKEND_OPS_MODEL_H

#include "backend/host.h"
#include "backend/kernel_cases.h"
#include "base/assert.h"
#include "base/rng.h"
#include "kv/config.h"
#include "support/fault.h"
#include "support/graph_oracle.h"

enum {
    MODEL_VALUES = 256,
    MODEL_TENSORS = 512,
    MODEL_STATES = 3,
    MODEL_VOCAB = 37,
    SEQ_MOST = 520,
    ROWS_MOST = 8,
    CHUNK_MOST = 520,
    CROSS_MOST = 300
};

/* ---- models ---- */

typedef struct model {
    graph g;
    graph_value values[MODEL_VALUES];
    tensor tensors[MODEL_TENSORS];
    uint32_t n_tensors;
    graph_rope ropes[2];
    float inv_freq[2][64];
    uint8_t axes[64]; /* of ropes, where a pattern lets tokens have places */
    kv_layer layers[MODEL_STATES];
    uint32_t n_layers;
    bool plain_weights; /* f32 only */
    bool chunked;       /* bounded layers see chunks instead of windows */
    bool norms;         /* of queries and keys, always */
    bool causal;        /* attention sees no later token, whatever blocks there are */
    bool chooses;       /* a latent is attended to at some positions */
    uint32_t width, wide, n_heads, n_kv_heads, k_dim, v_dim;
} model;

/* lo .. hi */
static inline uint32_t draw(uint32_t lo, uint32_t hi)
{
    return lo + case_bits() % (hi - lo + 1);
}

static inline graph_id model_tensor(model *m, const case_weight *c, uint32_t rows, uint32_t cols)
{
    if (m->n_tensors == MODEL_TENSORS) fail_msg("too many tensors");
    m->tensors[m->n_tensors] = case_tensor(c, rows, cols);
    return graph_weight(&m->g, m->n_tensors++);
}

/* Any that such columns can have. */
static inline const case_weight *model_encoding(const model *m, uint32_t cols)
{
    const case_weight *c = &CASE_WEIGHTS[0];
    for (uint32_t i = 0; i < 100 && !m->plain_weights; i++) {
        c = &CASE_WEIGHTS[draw(0, N_CASE_WEIGHTS - 1)];
        if (cols % case_columns(c) == 0) break;
        c = &CASE_WEIGHTS[0];
    }
    return c;
}

static inline graph_id model_matrix(model *m, uint32_t rows, uint32_t cols)
{
    return model_tensor(m, model_encoding(m, cols), rows, cols);
}

/* Matrices of one shape, each in an encoding of its own. */
static inline graph_id model_stack(model *m, uint32_t count, uint32_t rows, uint32_t cols)
{
    uint32_t first = m->n_tensors;
    if (count > MODEL_TENSORS - first) fail_msg("too many tensors");
    for (uint32_t i = 0; i < count; i++) {
        m->tensors[m->n_tensors++] = case_tensor(model_encoding(m, cols), rows, cols);
    }
    return graph_stack(&m->g, first, count);
}

/* A bias or norm weight in f32, f16 or bf16. */
static inline graph_id model_vector(model *m, uint32_t cols)
{
    return model_tensor(m, &CASE_WEIGHTS[m->plain_weights ? 0 : draw(0, 2)], 1, cols);
}

/* Biases of experts. */
static inline graph_id model_vectors(model *m, uint32_t count, uint32_t cols)
{
    uint32_t first = m->n_tensors;
    if (count > MODEL_TENSORS - first) fail_msg("too many tensors");
    for (uint32_t i = 0; i < count; i++)
        m->tensors[m->n_tensors++] = case_tensor(&CASE_WEIGHTS[draw(0, 2)], 1, cols);
    return graph_stack(&m->g, first, count);
}

static inline graph_id model_linear(model *m, graph_id x, uint32_t rows)
{
    graph_id w = model_matrix(m, rows, m->values[x].cols);
    graph_id bias = draw(0, 1) == 0 ? model_vector(m, rows) : 0;
    return graph_linear(&m->g, x, w, bias);
}

static inline graph_id model_norm(model *m, graph_id x, uint32_t group)
{
    return graph_rms_norm(&m->g, x, model_vector(m, group), 1e-5F, draw(0, 1) == 0 ? 0.0F : 1.0F);
}

/* A layer norm over groups: a weight for all or for each, a bias, or neither. */
static inline graph_id model_layer_norm(model *m, graph_id x, uint32_t group)
{
    graph_layer_norm how = {.group = group, .eps = 1e-5F, .weight_add = draw(0, 1) == 0 ? 0 : 1};
    uint32_t n_groups = m->values[x].cols / group;
    uint32_t kind = draw(0, 2);
    if (kind == 1) how.weight = model_vector(m, group);
    if (kind == 2 && n_groups < 32) {
        uint32_t first = m->n_tensors;
        for (uint32_t i = 0; i < n_groups; i++) {
            if (m->n_tensors == MODEL_TENSORS) fail_msg("too many tensors");
            m->tensors[m->n_tensors++] = case_tensor(&CASE_WEIGHTS[0], 1, group);
        }
        how.weight = graph_stack(&m->g, first, n_groups);
    }
    if (draw(0, 1) == 0) how.bias = model_vector(m, group);
    return graph_layer_norm_apply(&m->g, x, how);
}

/* Dims that differ from each other; code weights need columns in multiples of 32. */
static inline void model_begin(model *m)
{
    static const uint32_t WIDTHS[] = {23, 32, 64, 96, 256};
    static const uint32_t WIDES[] = {40, 41, 128, 160};
    static const uint32_t RATIOS[] = {1, 4, 6, 8, 17};
    memset(m, 0, sizeof *m);
    graph_init(&m->g, m->values, MODEL_VALUES, m->tensors, MODEL_TENSORS);
    m->width = WIDTHS[draw(0, 10) % COUNT_OF(WIDTHS)];
    m->wide = WIDES[draw(0, COUNT_OF(WIDES) - 1)];
    m->n_kv_heads = draw(1, 3);
    m->n_heads = m->n_kv_heads * RATIOS[draw(0, 20) % COUNT_OF(RATIOS)];
    m->k_dim = draw(4, 20);
    m->v_dim = draw(1, 21);
    /* Packed codecs want multiples of 8, q8_0 of 32; groups that are short, and more than one. */
    uint32_t shape = draw(0, 5);
    if (shape == 2) m->k_dim = m->v_dim = 16;
    if (shape > 2) {
        m->k_dim = shape == 5 ? 32 * draw(1, 2) : 8 * draw(1, 5);
        m->v_dim = shape == 5 ? 32 * draw(1, 2) : 8 * draw(1, 5);
        if (m->n_heads > 8) m->n_heads = m->n_kv_heads * 2;
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t n_pairs = draw(0, 2) == 0 ? draw(1, m->k_dim / 2) : m->k_dim / 2;
        for (uint32_t j = 0; j < n_pairs; j++) {
            m->inv_freq[i][j] = (float)pow(1000.0, -(double)j / n_pairs);
        }
        m->ropes[i] = (graph_rope){.inv_freq = m->inv_freq[i],
                                   .n_pairs = n_pairs,
                                   .interleaved = i == 1,
                                   .magnitude = i == 0 ? 1.0F : 1.2F};
    }
    graph_set_ropes(&m->g, m->ropes, 2);
}

static inline graph_id model_embed(model *m)
{
    graph_id tokens = graph_tokens(&m->g);
    return graph_embed(&m->g, tokens, model_matrix(m, MODEL_VOCAB, m->width));
}

/* A number a head, or none. */
static inline graph_id model_sinks(model *m, uint32_t heads)
{
    return draw(0, 2) == 0 ? model_vector(m, heads) : 0;
}

static inline graph_id model_attend(model *m, graph_id q, graph_id state)
{
    float scale = (float)(0.2 / sqrt((double)m->k_dim));
    float cap = draw(0, 1) == 0 ? 0.0F : 5.0F;
    if (m->causal) return graph_attend_causal(&m->g, q, state, m->n_heads, scale, cap);
    return graph_attend_sinks(&m->g, q, state, model_sinks(m, m->n_heads), m->n_heads, scale, cap);
}

/* Queries, keys and values of x, attention, and back to the width. */
static inline graph_id model_attention(model *m, graph_id x, uint32_t window)
{
    graph *g = &m->g;
    uint32_t state_i = m->n_layers;
    uint8_t bounded = m->chunked ? KV_LAYOUT_CHUNKED : KV_LAYOUT_WINDOW;
    m->layers[m->n_layers++] = (kv_layer){.layout = window != 0 ? bounded : KV_LAYOUT_FULL,
                                          .n_heads = m->n_kv_heads,
                                          .k_dim = m->k_dim,
                                          .v_dim = m->v_dim,
                                          .window = window};
    graph_id q = model_linear(m, x, m->n_heads * m->k_dim);
    graph_id k = model_linear(m, x, m->n_kv_heads * m->k_dim);
    graph_id v = model_linear(m, x, m->n_kv_heads * m->v_dim);
    if (draw(0, 1) == 0 || m->norms) {
        q = model_norm(m, q, m->k_dim);
        k = model_norm(m, k, m->k_dim);
    }
    if (draw(0, 3) == 0) q = graph_position_scale(g, q, 0.1F, (float)draw(1, 9));
    uint32_t rope_i = draw(0, 1);
    if (draw(0, 3) != 0) {
        q = graph_rope_apply(g, q, m->k_dim, rope_i);
        k = graph_rope_apply(g, k, m->k_dim, rope_i);
    }
    graph_id state = graph_kv_append(g, k, v, state_i, m->n_kv_heads);
    return model_linear(m, model_attend(m, q, state), m->width);
}

/* Positions that few heads of some columns choose, by keys that are normalized and turned. */
static inline graph_id model_choice(model *m, graph_id x)
{
    graph *g = &m->g;
    uint32_t rope_i = draw(0, 1);
    uint32_t dim = draw(0, 1) == 0 ? 32 * draw(2, 4) : 8 * draw(1, 5);
    uint32_t heads = draw(0, 3) == 0 ? 67 : draw(1, 20);
    uint32_t state_i = m->n_layers;
    if (dim < 2 * m->ropes[rope_i].n_pairs) dim = 128;
    m->layers[m->n_layers++] =
        (kv_layer){.layout = KV_LAYOUT_INDEX, .n_heads = 1, .k_dim = dim, .of = 0};
    graph_id q = graph_rope_apply(g, model_linear(m, x, heads * dim), dim, rope_i);
    graph_id k = model_linear(m, x, dim);
    k = model_layer_norm(m, k, dim);
    graph_id w = model_linear(m, x, heads);
    graph_id keys = graph_kv_append_keys(g, graph_rope_apply(g, k, dim, rope_i), state_i);
    return graph_select(g, q, w, keys, draw(0, 3) == 0 ? draw(1, 300) : draw(1, 20));
}

/* A latent of r columns that is key and value, p that rotate beside it; queries come to it, and
 * what is attended to leaves it, by a matrix a head. */
static inline graph_id model_latent(model *m, graph_id x)
{
    graph *g = &m->g;
    uint32_t rope_i = draw(0, 1);
    uint32_t r = draw(0, 1) == 0 ? 32 * draw(1, 2) : 8 * draw(1, 5);
    uint32_t p = 2 * m->ropes[rope_i].n_pairs + draw(0, 1);
    uint32_t n = draw(0, 1) == 0 ? 32 : draw(4, 20);
    uint32_t n_v = draw(1, 20);
    uint32_t heads = m->n_heads > 20 ? 20 : m->n_heads;
    uint32_t state_i = m->n_layers;
    m->layers[m->n_layers++] =
        (kv_layer){.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = r + p, .v_dim = r};
    graph_id q = model_linear(m, x, heads * (n + p));
    graph_id ckv = model_linear(m, x, r + p);
    graph_id c = model_norm(m, graph_cols(g, ckv, r + p, 0, r), r);
    graph_id kp = graph_rope_apply(g, graph_cols(g, ckv, r + p, r, p), p, rope_i);
    graph_id state = graph_kv_append_latent(g, graph_concat(g, c, kp, 1), r, state_i);
    graph_id qn = graph_cols(g, q, n + p, 0, n);
    graph_id qp = graph_rope_apply(g, graph_cols(g, q, n + p, n, p), p, rope_i);
    bool transposed = draw(0, 1) == 0;
    graph_id to = transposed ? model_stack(m, heads, n, r) : model_stack(m, heads, r, n);
    qn = graph_linear_heads(g, qn, to, transposed);
    float scale = (float)(0.05 / sqrt((double)(r + p)));
    graph_id all = graph_concat(g, qn, qp, heads);
    graph_id o = 0;
    if (m->chooses) {
        o = graph_attend_listed(g, all, state, model_choice(m, x), heads, scale);
    } else {
        o = graph_attend_sinks(g, all, state, model_sinks(m, heads), heads, scale, 0.0F);
    }
    o = graph_linear_heads(g, o, model_stack(m, heads, n_v, r), false);
    return model_linear(m, o, m->width);
}

static inline graph_id model_experts(model *m, graph_id x, graph_act act)
{
    graph *g = &m->g;
    uint32_t n_groups = draw(0, 1) == 0 ? 1 : draw(2, 3);
    uint32_t n = n_groups * draw(2, 4);
    graph_route how = {.n_groups = n_groups, .n_top_groups = draw(1, n_groups), .scale = 1.5F};
    how.top_k = draw(1, n / n_groups * how.n_top_groups);
    if (how.top_k > 4) how.top_k = 4;
    how.flags = draw(0, 3);
    graph_id scores = graph_linear(g, x, model_matrix(m, n, m->width), 0);
    graph_id bias = draw(0, 1) == 0 ? model_vector(m, n) : 0;
    graph_id factor = draw(0, 1) == 0 ? model_vector(m, n) : 0;
    graph_id route = graph_route_experts(g, scores, bias, factor, how);
    uint32_t inner = draw(0, 1) == 0 ? 96 : draw(5, 70);
    graph_id gate = model_stack(m, n, inner, m->width);
    graph_id up = model_stack(m, n, inner, m->width);
    graph_id down = model_stack(m, n, m->width, inner);
    if (draw(0, 1) == 0) return graph_experts(g, x, route, (const graph_id[]){gate, up, down}, act);
    graph_id stacks[6] = {gate, up, down};
    stacks[3] = model_vectors(m, n, inner);
    if (draw(0, 1) == 0) stacks[4] = model_vectors(m, n, inner);
    stacks[5] = model_vectors(m, n, m->width);
    if (draw(0, 1) == 0) act = GRAPH_GPT_OSS;
    return graph_experts_biased(g, x, route, stacks, act, draw(0, 1) == 0 ? 0.0F : 0.7F);
}

/* Queries of x over what an encoder left. */
static inline graph_id model_cross(model *m, graph_id x)
{
    graph *g = &m->g;
    uint32_t state_i = m->n_layers;
    m->layers[m->n_layers++] = (kv_layer){
        .layout = KV_LAYOUT_CROSS, .n_heads = m->n_kv_heads, .k_dim = m->k_dim, .v_dim = m->v_dim};
    graph_id q = model_linear(m, x, m->n_heads * m->k_dim);
    if (draw(0, 1) == 0) q = model_norm(m, q, m->k_dim);
    graph_id state = graph_state(g, state_i, m->n_kv_heads, m->k_dim, m->v_dim);
    return model_linear(m, model_attend(m, q, state), m->width);
}

/* Keys and values of x for another graph. */
static inline void model_store(model *m, graph_id x)
{
    uint32_t state_i = m->n_layers;
    m->layers[m->n_layers++] = (kv_layer){
        .layout = KV_LAYOUT_FULL, .n_heads = m->n_kv_heads, .k_dim = m->k_dim, .v_dim = m->v_dim};
    graph_id k = model_linear(m, x, m->n_kv_heads * m->k_dim);
    graph_id v = model_linear(m, x, m->n_kv_heads * m->v_dim);
    graph_kv_store(&m->g, k, v, state_i, m->n_kv_heads);
}

/* From -1 to -2, as -exp(A_log) is below 0; nearer to it states hardly fade. */
static inline graph_id model_speeds(model *m, uint32_t cols)
{
    graph_id id = model_tensor(m, &CASE_WEIGHTS[0], 1, cols);
    unsigned char *bytes;
    memcpy(&bytes, &m->tensors[m->n_tensors - 1].planes[0], sizeof bytes);
    for (uint32_t i = 0; i < cols; i++) {
        bytes[4 * i + 3] = 0xBF;
        bytes[4 * i + 2] |= 0x80;
    }
    return id;
}

/* A recurrent layer over x: conv, and gated_delta with it or not; heads of odd sizes. */
static inline graph_id model_recurrent(model *m, graph_id x, bool delta)
{
    graph *g = &m->g;
    uint32_t n_k_heads = draw(1, 2);
    uint32_t n_v_heads = n_k_heads * draw(1, 3);
    uint32_t k_dim = draw(2, 20);
    uint32_t v_dim = draw(1, 19);
    uint32_t n_taps = draw(2, 5);
    uint32_t cols = 2 * n_k_heads * k_dim + n_v_heads * v_dim;
    uint32_t state_i = m->n_layers;
    m->layers[m->n_layers++] =
        (kv_layer){.layout = KV_LAYOUT_RECURRENT,
                   .buffers = {(n_taps - 1) * cols, delta ? n_v_heads * v_dim * k_dim : 0},
                   .record = delta ? cols + 2 * n_v_heads : cols};
    graph_id u = model_linear(m, x, cols);
    graph_delta d = {.state_i = state_i, .n_k_heads = n_k_heads, .k_dim = k_dim, .eps = 1e-6F};
    if (delta) {
        d.flags = n_taps % 4; /* any of them */
        bool speeds = (d.flags & GRAPH_DELTA_SPEED) != 0;
        d.decay = model_linear(m, x, n_v_heads);
        d.rate = model_linear(m, x, n_v_heads);
        d.a_log = speeds ? model_speeds(m, n_v_heads) : model_vector(m, n_v_heads);
        d.bias = model_vector(m, n_v_heads);
    }
    graph_id w = model_tensor(m, &CASE_WEIGHTS[draw(0, 2)], cols, n_taps);
    bool plain = !delta && draw(0, 1) == 0;
    d.x = graph_conv(g, u, w, state_i, plain ? GRAPH_CONV_PLAIN : GRAPH_CONV_SILU);
    if (!delta) return model_linear(m, d.x, m->width);
    graph_id y = model_norm(m, graph_gated_delta(g, &d), v_dim);
    graph_id z = model_linear(m, x, n_v_heads * v_dim);
    return model_linear(m, graph_glu(g, z, y, GRAPH_SILU), m->width);
}

static inline graph_id model_mlp(model *m, graph_id x, graph_act act)
{
    graph_id gate = model_linear(m, x, m->wide);
    graph_id up = model_linear(m, x, m->wide);
    graph_id h = graph_glu(&m->g, gate, up, act);
    return model_linear(m, h, m->width);
}

/* Without a gate. */
static inline graph_id model_plain_mlp(model *m, graph_id x)
{
    graph_id up = model_linear(m, x, m->wide);
    return model_linear(m, graph_act_apply(&m->g, up, (graph_act)draw(0, 4)), m->width);
}

/* Logits of the wanted tokens. */
static inline void model_head(model *m, graph_id x)
{
    graph_id taken = graph_take(&m->g, x);
    graph_finish(&m->g, model_linear(m, model_norm(m, taken, m->width), MODEL_VOCAB));
}

/* A residual stream of two layers, one of them with a window or chunks, the other perhaps with a
 * latent; experts in one of them. */
static inline void model_whole(model *m, uint32_t window)
{
    graph_id x = model_embed(m);
    bool latent = draw(0, 2) == 0;
    uint32_t experts = draw(0, 3);
    m->chunked = draw(0, 3) == 0;
    m->chooses = draw(0, 1) == 0;
    for (uint32_t l = 0; l < 2; l++) {
        graph_id n = model_norm(m, x, m->width);
        graph_id a =
            latent && l == 0 ? model_latent(m, n) : model_attention(m, n, l == 1 ? window : 0);
        x = graph_add(&m->g, x, draw(0, 1) == 0 ? model_norm(m, a, m->width) : a);
        n = draw(0, 2) == 0 ? model_layer_norm(m, x, m->width) : model_norm(m, x, m->width);
        graph_act act = (graph_act)draw(0, 2);
        graph_id h = experts == l
                         ? model_experts(m, n, act)
                         : (draw(0, 2) == 0 ? model_plain_mlp(m, n) : model_mlp(m, n, act));
        x = graph_add(&m->g, h, x);
    }
    model_head(m, x);
}

/* The same with a recurrent layer before one that attends. */
static inline void model_hybrid(model *m, uint32_t window)
{
    graph_id x = model_embed(m);
    x = graph_add(&m->g, x, model_recurrent(m, model_norm(m, x, m->width), true));
    x = graph_add(&m->g, x, model_attention(m, model_norm(m, x, m->width), window));
    x = graph_add(&m->g, x, model_recurrent(m, model_norm(m, x, m->width), draw(0, 1) == 0));
    model_head(m, x);
}

static inline void model_free(model *m)
{
    for (uint32_t i = 0; i < m->n_tensors; i++) case_tensor_free(&m->tensors[i]);
}

/* ---- a backend with a plan ---- */

typedef struct setup {
    const backend_api *api;
    const char *isa;
    weft_act act;
    uint32_t n_threads, page_tokens;
    const kv_codec *k, *v;
    const kv_codec *index; /* NULL: the base */
    uint8_t base;          /* of packed codecs; 0: f32 */
    int fill;              /* byte that fresh pages are filled with */
} setup;

typedef struct machine {
    setup s;
    const model *m;
    fault_allocator memory;
    backend *b;
    backend_plan *plan;
    arena arena;
    kv_config config,
        other; /* other: with the codecs of either side exchanged, where they can be */
    _Atomic(uint64_t) n_nonfinite;
} machine;

typedef struct sequence {
    int32_t ids[SEQ_MOST];
    uint32_t n, len;
    const kv_config *config;                /* borrowed from the machine */
    unsigned char **pages;                  /* [slots_total] */
    unsigned char *states[MODEL_STATES][2]; /* of recurrent layers: committed and fresh */
    unsigned char *records[MODEL_STATES];   /* where a test wants them, its own; else NULL */
    unsigned char *marked[MODEL_STATES];    /* likewise */
    uint32_t mark;                          /* of the next row */
    uint32_t cross_len; /* positions of its encoder, the same for the same ids */
    uint32_t block[2];  /* positions [0], .. [1] - 1 see each other, and lie in one step */
    float *logits;      /* [n, cols of the output] */
} sequence;

/* Whether the heads of every layer can be stored so. */
static inline bool model_takes(const model *m, const kv_codec *codec, uint8_t side)
{
    if ((codec->sides & side) == 0) return false;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        const kv_layer *l = &m->layers[i];
        if (l->layout == KV_LAYOUT_RECURRENT || l->layout == KV_LAYOUT_INDEX) continue;
        bool latent = l->layout == KV_LAYOUT_LATENT;
        uint32_t dim = side == KV_FOR_K && !latent ? l->k_dim : l->v_dim;
        if (!kv_codec_takes(codec, dim)) return false;
    }
    return true;
}

/* Whether a layer has one record for keys and values. */
static inline bool model_is_latent(const model *m)
{
    bool latent = false;
    for (uint32_t i = 0; i < m->n_layers; i++)
        latent = latent || m->layers[i].layout == KV_LAYOUT_LATENT;
    return latent;
}

/* One of those. */
static inline const kv_codec *model_codec(const model *m, uint8_t side)
{
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    for (;;) {
        const kv_codec *codec = &table[draw(0, (uint32_t)n - 1)];
        if (model_takes(m, codec, side)) return codec;
    }
}

/* Of the keys that choose; NULL where there are none. */
static inline const kv_codec *model_codec_for_index(const model *m)
{
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    for (uint32_t i = 0; i < m->n_layers; i++) {
        while (m->layers[i].layout == KV_LAYOUT_INDEX) {
            const kv_codec *codec = &table[draw(0, (uint32_t)n - 1)];
            bool takes = kv_codec_takes(codec, m->layers[i].k_dim);
            if (takes && (codec->sides & KV_FOR_K) != 0) return codec;
        }
    }
    return NULL;
}

/* What a latent layer wants. */
static inline const kv_codec *model_codec_for_both(const model *m)
{
    for (;;) {
        const kv_codec *codec = model_codec(m, KV_FOR_K);
        if (model_takes(m, codec, KV_FOR_V)) return codec;
    }
}

static inline void machine_open(machine *w, const model *m, setup s)
{
    weft_error err = {0};
    memset(w, 0, sizeof *w);
    w->s = s;
    w->m = m;
    fault_allocator_init(&w->memory, 0);
    backend_config config = {.env = {.allocator = &w->memory.allocator, .io = io_system()},
                             .isa = s.isa,
                             .act = s.act,
                             .n_threads = s.n_threads};
    assert_ok(s.api->open(&config, &w->b, &err), &err);
    assert_ok(s.api->supports(w->b, &m->g, &err), &err);
    backend_limits limits = {.n_tokens = CHUNK_MOST + ROWS_MOST,
                             .n_rows = ROWS_MOST,
                             .n_outputs = CHUNK_MOST + ROWS_MOST,
                             .n_hidden = CHUNK_MOST + ROWS_MOST,
                             .context = SEQ_MOST};
    assert_ok(s.api->plan(w->b, &m->g, &limits, &w->plan, &err), &err);
    assert_true(s.api->plan_bytes(w->plan) > 0);
    arena_init(&w->arena, &w->memory.allocator, 0);
    kv_spec spec = {
        .k = s.k, .v = s.v, .index = s.index, .base = s.base == 0 ? KV_BASE_F32 : s.base};
    bool stores = false;
    for (uint32_t i = 0; i < m->n_layers; i++)
        stores = stores || m->layers[i].layout != KV_LAYOUT_RECURRENT;
    if (!stores) spec.k = spec.v = kv_codec_by_id(spec.base);
    kv_bounds bounds = {.context = SEQ_MOST,
                        .most_append = CHUNK_MOST,
                        .page_tokens = s.page_tokens,
                        .cross_context = CROSS_MOST};
    assert_ok(kv_config_init(&w->config, &w->arena, m->layers, m->n_layers, &spec, &bounds, &err),
              &err);
    if (stores && model_takes(m, s.v, KV_FOR_K) && model_takes(m, s.k, KV_FOR_V)) {
        spec.k = s.v;
        spec.v = s.k;
    }
    assert_ok(kv_config_init(&w->other, &w->arena, m->layers, m->n_layers, &spec, &bounds, &err),
              &err);
}

static inline void machine_close(machine *w)
{
    w->s.api->plan_free(w->b, w->plan);
    w->s.api->close(w->b);
    arena_deinit(&w->arena);
    fault_allocator_check(&w->memory);
}

static inline size_t page_bytes_of(const kv_config *c, uint32_t slot)
{
    uint32_t layer = 0;
    while (slot >= c->n_slots[layer]) slot -= c->n_slots[layer++];
    return c->geometries[layer].page_bytes;
}

/* What an encoder could have left for a layer: numbers that follow from seed alone. */
static inline void fill_cross(const kv_view *view, uint64_t seed, uint32_t n)
{
    const kv_geometry *g = view->geometry;
    size_t n_k = (size_t)g->n_heads * g->k_dim;
    size_t n_v = (size_t)g->n_heads * g->v_dim;
    float *k = case_alloc(n_k * sizeof *k);
    float *v = case_alloc(n_v * sizeof *v);
    uint64_t counter = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n_k; j++) k[j] = (float)(rng_unit(seed, counter++) - 0.5);
        for (size_t j = 0; j < n_v; j++) v[j] = (float)(rng_unit(seed, counter++) - 0.5);
        host_append(view, i, k, v);
    }
    free(k);
    free(v);
}

static inline void sequence_views(const sequence *q, kv_view *views, uint32_t stride);

/* Lengths of encoders: none, one position, around the edges of pages and splits, any. */
static inline void sequence_encode(sequence *q)
{
    static const uint32_t LENGTHS[] = {0, 1, 63, 64, 65, 255, 256, 257};
    kv_view views[MODEL_STATES];
    uint64_t seed = (uint64_t)q->n << 32;
    for (uint32_t i = 0; i < q->n; i++) seed = rng_u64(seed + (uint64_t)q->ids[i], i);
    uint64_t which = seed % (2 * COUNT_OF(LENGTHS));
    uint32_t any = (uint32_t)(seed / 16 % (CROSS_MOST + 1));
    q->cross_len = which < COUNT_OF(LENGTHS) ? LENGTHS[which] : any;
    sequence_views(q, views, 1);
    for (uint32_t l = 0; l < q->config->n_layers; l++) {
        if (kv_is_cross(q->config, l)) fill_cross(&views[l], seed + l, q->cross_len);
    }
}

static inline void sequence_open_with(machine *w, sequence *q, const kv_config *config,
                                      const int32_t *ids, uint32_t n)
{
    memset(q, 0, sizeof *q);
    q->config = config;
    q->n = n;
    memcpy(q->ids, ids, n * sizeof *ids);
    q->pages = case_alloc(config->slots_total * sizeof *q->pages);
    for (uint32_t i = 0; i < config->slots_total; i++) {
        size_t size = page_bytes_of(config, i);
        q->pages[i] = w->s.api->alloc(w->b, size);
        assert_non_null(q->pages[i]);
        memset(q->pages[i], w->s.fill, size);
    }
    for (uint32_t l = 0; l < config->n_layers; l++) {
        for (uint32_t i = 0; i < 2 && kv_is_recurrent(config, l); i++) {
            size_t size = config->geometries[l].page_bytes;
            q->states[l][i] = w->s.api->alloc(w->b, size);
            assert_non_null(q->states[l][i]);
            memset(q->states[l][i], w->s.fill, size);
        }
    }
    sequence_encode(q);
    uint32_t cols = w->m->values[w->m->g.output].cols;
    q->logits = case_alloc((size_t)n * cols * sizeof(float));
    memset(q->logits, 0x7f, (size_t)n * cols * sizeof(float));
}

static inline void sequence_open(machine *w, sequence *q, const int32_t *ids, uint32_t n)
{
    sequence_open_with(w, q, &w->config, ids, n);
}

static inline void sequence_close(machine *w, sequence *q)
{
    for (uint32_t i = 0; i < q->config->slots_total; i++) {
        w->s.api->release(w->b, q->pages[i], page_bytes_of(q->config, i));
    }
    for (uint32_t l = 0; l < q->config->n_layers; l++) {
        for (uint32_t i = 0; i < 2; i++) {
            w->s.api->release(w->b, q->states[l][i], q->config->geometries[l].page_bytes);
        }
    }
    free(q->pages);
    free(q->logits);
}

/* What a step sees of it: views [n_layers * stride], as kv_seq_views fills them. */
static inline void sequence_views(const sequence *q, kv_view *views, uint32_t stride)
{
    unsigned char **pages = q->pages;
    for (uint32_t l = 0; l < q->config->n_layers; l++) {
        views[(size_t)l * stride] = (kv_view){.geometry = &q->config->geometries[l],
                                              .pages = pages,
                                              .n_slots = q->config->n_slots[l],
                                              .len = q->len};
        if (kv_is_cross(q->config, l)) views[(size_t)l * stride].len = q->cross_len;
        pages += q->config->n_slots[l];
        if (!kv_is_recurrent(q->config, l)) continue;
        views[(size_t)l * stride].committed = q->len == 0 ? NULL : q->states[l][0];
        views[(size_t)l * stride].fresh = q->states[l][1];
        views[(size_t)l * stride].record = q->records[l];
        views[(size_t)l * stride].marked = q->marked[l];
        views[(size_t)l * stride].mark = q->mark;
    }
}

/* What a commit does with the states of a step. */
static inline void sequence_publish(sequence *q)
{
    for (uint32_t l = 0; l < q->config->n_layers; l++) {
        unsigned char *fresh = q->states[l][1];
        q->states[l][1] = q->states[l][0];
        q->states[l][0] = fresh;
    }
}

/* The last position that one sees. */
static inline uint32_t sequence_highest(const sequence *q, uint32_t position)
{
    bool inside = position >= q->block[0] && position < q->block[1];
    return inside ? q->block[1] - 1 : position;
}

/* One row of a step: the next n tokens, of which the last n_wanted give logits. */
typedef struct row {
    sequence *q;
    uint32_t n, n_wanted;
} row;

/* What is fed for the tokens of a step, where the graph wants that; marks and places only where a
 * token has them. */
static inline void step_feeds(const graph *g, backend_step *step, float *feeds[GRAPH_FEEDS],
                              uint8_t *marks, uint32_t *places)
{
    step->feeds = feeds;
    for (uint32_t i = 0; i < step->n_tokens; i++) {
        marks[i] = oracle_mark(step->ids[i]);
        if (marks[i] != 0) step->marks = marks;
        for (uint32_t a = 0; a < GRAPH_AXES; a++) {
            uint32_t *place = &places[(size_t)a * step->n_tokens + i];
            *place = oracle_place(step->ids[i], step->positions[i], a);
            if (*place != step->positions[i]) step->places = places;
        }
    }
    for (graph_id id = 1; id < g->n_values; id++) {
        const graph_value *v = &g->values[id];
        if (v->op != GRAPH_FEED) continue;
        float *fed = case_alloc((size_t)step->n_tokens * v->cols * sizeof(float));
        for (size_t k = 0; k < (size_t)step->n_tokens * v->cols; k++) {
            size_t i = k / v->cols;
            uint32_t column = (uint32_t)(k % v->cols) + 1000 * v->i[0];
            fed[k] = oracle_fed(step->ids[i], step->positions[i], column);
        }
        feeds[v->i[0]] = fed;
    }
}

static inline void machine_step(machine *w, const row *rows, uint32_t n_rows)
{
    static int32_t ids[CHUNK_MOST + ROWS_MOST];
    static uint32_t positions[CHUNK_MOST + ROWS_MOST];
    static uint32_t outputs[CHUNK_MOST + ROWS_MOST];
    static uint32_t highest[CHUNK_MOST + ROWS_MOST];
    static uint8_t marks[CHUNK_MOST + ROWS_MOST];
    static uint32_t places[GRAPH_AXES * (CHUNK_MOST + ROWS_MOST)];
    float *feeds[GRAPH_FEEDS] = {NULL};
    uint32_t row_starts[ROWS_MOST + 1] = {0};
    kv_view views[MODEL_STATES * ROWS_MOST];
    backend_step step = {.n_rows = n_rows,
                         .ids = ids,
                         .positions = positions,
                         .row_starts = row_starts,
                         .outputs = outputs,
                         .views = views,
                         .n_nonfinite = &w->n_nonfinite};
    for (uint32_t r = 0; r < n_rows; r++) {
        const sequence *q = rows[r].q;
        for (uint32_t i = 0; i < rows[r].n; i++) {
            ids[step.n_tokens] = q->ids[q->len + i];
            positions[step.n_tokens] = q->len + i;
            highest[step.n_tokens] = sequence_highest(q, q->len + i);
            if (q->block[1] > 0) step.highest = highest;
            if (i + rows[r].n_wanted >= rows[r].n) outputs[step.n_outputs++] = step.n_tokens;
            step.n_tokens++;
        }
        row_starts[r + 1] = step.n_tokens;
        sequence_views(q, views + r, n_rows);
    }
    step_feeds(&w->m->g, &step, feeds, marks, places);
    uint32_t cols = w->m->values[w->m->g.output].cols;
    float *logits = case_alloc((size_t)step.n_outputs * cols * sizeof(float));
    step.logits = logits;
    weft_error err = {0};
    w->memory.armed = true;
    assert_ok(w->s.api->run(w->b, w->plan, &step, &err), &err);
    assert_ok(w->s.api->wait(w->b, &err), &err);
    w->memory.armed = false;
    uint32_t at = 0;
    for (uint32_t r = 0; r < n_rows; r++) {
        sequence *q = rows[r].q;
        uint32_t n = rows[r].n_wanted;
        memcpy(q->logits + (size_t)(q->len + rows[r].n - n) * cols, logits + (size_t)at * cols,
               (size_t)n * cols * sizeof(float));
        at += n;
        q->len += rows[r].n;
        sequence_publish(q);
    }
    free(logits);
    for (uint32_t i = 0; i < GRAPH_FEEDS; i++) free(feeds[i]);
}

#endif
