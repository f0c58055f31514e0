/* tower_gemma.c - how Gemma 4 sees images: a vision transformer whose squares are averaged, nine to
 * a token, and the embedder of the unified models, which has no layers. Source: Transformers'
 * modeling_gemma4 and modeling_gemma4_unified. */
#include <math.h>

#include "base/assert.h"
#include "models/parts.h"
#include "models/tower.h"

/* A linear layer, and the bounds of what goes into it and comes out of it. */
enum { IN_MIN = 1, IN_MAX, OUT_MIN, OUT_MAX, PER_LINEAR };

enum {
    PATCH,
    TABLE,
    Q,
    K = Q + PER_LINEAR,
    V = K + PER_LINEAR,
    O = V + PER_LINEAR,
    GATE = O + PER_LINEAR,
    UP = GATE + PER_LINEAR,
    DOWN = UP + PER_LINEAR,
    Q_NORM = DOWN + PER_LINEAR,
    K_NORM,
    ATTN_NORM,
    POST_ATTN_NORM,
    MLP_NORM,
    POST_MLP_NORM,
    STD_BIAS,
    STD_SCALE,
    PROJECTION,
    N_SLOTS
};

/* What is averaged: squares on a side. Each is a few values of the graph. */
enum { POOL_MOST = 4 };

static const model_param PARAMS[] = {
    {"num_hidden_layers", NULL, SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},
    {"hidden_size", NULL, SHAPE(n_embd), PARAM_U32, true, 1, 1 << 16, 0},
    {"num_attention_heads", NULL, SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},
    {"num_key_value_heads", NULL, SHAPE(n_kv_heads), PARAM_U32, false, 1, 4096, 0},
    {"head_dim", NULL, SHAPE(head_dim), PARAM_U32, false, 4, 4096, 0},
    {"intermediate_size", NULL, SHAPE(n_ff), PARAM_U32, true, 1, 1 << 20, 0},
    {"rms_norm_eps", NULL, SHAPE(norm_eps), PARAM_F32, false, 1e-12, 1, 1e-6},
    {"patch_size", NULL, SHAPE(image.patch), PARAM_U32, false, 1, 256, 16},
    {"pooling_kernel_size", NULL, SHAPE(image.pool), PARAM_U32, false, 1, POOL_MOST, 3},
    {"position_embedding_size", NULL, SHAPE(image.n_sides), PARAM_U32, false, 1, 1 << 20, 10240},
    {"use_clipped_linears", NULL, SHAPE(image.clipped), PARAM_BOOL, false, 0, 1, 0},
    {"standardize", NULL, SHAPE(image.standardized), PARAM_BOOL, false, 0, 1, 0},
    {"attention_bias", NULL, SHAPE(qkv_bias), PARAM_BOOL, false, 0, 1, 0},
};

#define ONCE(name, n_rows, n_cols, flag)                                                           \
    {                                                                                              \
        .hf_name = (name), .place = SLOT_MODEL, .rows = (n_rows), .cols = (n_cols),                \
        .if_flag = (flag)                                                                          \
    }
#define LINEAR(slot, name, n_rows, n_cols)                                                         \
    [slot] = SLOT_MATRIX(name ".linear.weight", NULL, n_rows, n_cols, SHAPE_NONE, 0),              \
    [(slot) + IN_MIN] = SLOT_VECTOR(name ".input_min", NULL, one, SHAPE(image.clipped), 0),        \
    [(slot) + IN_MAX] = SLOT_VECTOR(name ".input_max", NULL, one, SHAPE(image.clipped), 0),        \
    [(slot) + OUT_MIN] = SLOT_VECTOR(name ".output_min", NULL, one, SHAPE(image.clipped), 0),      \
    [(slot) + OUT_MAX] = SLOT_VECTOR(name ".output_max", NULL, one, SHAPE(image.clipped), 0)

static const model_slot SLOTS[N_SLOTS] = {
    [PATCH] = ONCE("vision_tower.patch_embedder.input_proj.weight", SHAPE(n_embd),
                   SHAPE(image.patch_dim), SHAPE_NONE),
    [TABLE] = {.hf_name = "vision_tower.patch_embedder.position_embedding_table",
               .place = SLOT_MODEL,
               .rows = SHAPE(image.table_rows),
               .cols = SHAPE(n_embd),
               .if_flag = SHAPE_NONE,
               .flat = true},
    LINEAR(Q, "self_attn.q_proj", q_dim, n_embd),
    LINEAR(K, "self_attn.k_proj", kv_dim, n_embd),
    LINEAR(V, "self_attn.v_proj", kv_dim, n_embd),
    LINEAR(O, "self_attn.o_proj", n_embd, q_dim),
    LINEAR(GATE, "mlp.gate_proj", n_ff, n_embd),
    LINEAR(UP, "mlp.up_proj", n_ff, n_embd),
    LINEAR(DOWN, "mlp.down_proj", n_embd, n_ff),
    [Q_NORM] = SLOT_VECTOR("self_attn.q_norm.weight", NULL, head_dim, SHAPE_NONE, 0),
    [K_NORM] = SLOT_VECTOR("self_attn.k_norm.weight", NULL, head_dim, SHAPE_NONE, 0),
    [ATTN_NORM] = SLOT_VECTOR("input_layernorm.weight", NULL, n_embd, SHAPE_NONE, 0),
    [POST_ATTN_NORM] = SLOT_VECTOR("post_attention_layernorm.weight", NULL, n_embd, SHAPE_NONE, 0),
    [MLP_NORM] = SLOT_VECTOR("pre_feedforward_layernorm.weight", NULL, n_embd, SHAPE_NONE, 0),
    [POST_MLP_NORM] = SLOT_VECTOR("post_feedforward_layernorm.weight", NULL, n_embd, SHAPE_NONE, 0),
    [STD_BIAS] =
        ONCE("vision_tower.std_bias", SHAPE_NONE, SHAPE(n_embd), SHAPE(image.standardized)),
    [STD_SCALE] =
        ONCE("vision_tower.std_scale", SHAPE_NONE, SHAPE(n_embd), SHAPE(image.standardized)),
    [PROJECTION] = ONCE("embed_vision.embedding_projection.weight", SHAPE(image.n_out),
                        SHAPE(n_embd), SHAPE_NONE),
};

/* ---- what follows from the parameters -------------------------------------------------------- */

/* What stands around an image, and what is embedded as padding wherever it comes from. */
static weft_status derive_ids(model_image *i, const model_source *source, weft_error *err)
{
    int64_t pad = json_int(json_get(json_get(source->top, "text_config"), "pad_token_id"), 0);
    int32_t *others = i->placeholders;
    weft_status status = tower_read_token(i, source, err);
    if (status == WEFT_OK) status = tower_read_id(source, "boi_token_id", &i->begin, err);
    if (status == WEFT_OK) status = tower_read_id(source, "eoi_token_id", &i->end, err);
    if (status == WEFT_OK) status = tower_read_id(source, "video_token_id", &others[1], err);
    if (status == WEFT_OK) status = tower_read_id(source, "audio_token_id", &others[2], err);
    if (status != WEFT_OK) return status;
    if (pad < 0 || pad >= MODEL_VOCAB) {
        return err_set(err, WEFT_FORMAT, "config.json: pad_token_id is %lld, which is no token id",
                       (long long)pad);
    }
    others[0] = i->token;
    i->pad = (int32_t)pad;
    return WEFT_OK;
}

/* What both kinds have: ids, sizes, and whether tokens of an image see each other. */
static weft_status derive_image(model_params *p, const model_source *source, weft_error *err)
{
    model_image *i = &p->image;
    const json *text = json_get(source->top, "text_config");
    str sees = json_text(json_get(text, "use_bidirectional_attention"));
    weft_status status = derive_ids(i, source, err);
    i->sees_all = str_equal_text(sees, "vision");
    i->frames = 1;
    i->channels_last = true;
    i->patch_dim = VISION_COLOURS * i->patch * i->patch;
    i->table_rows = 2 * i->n_sides;
    i->size =
        (vision_size){.rule = VISION_BY_TOKENS, .unit = i->patch * i->pool, .max_tokens = 280};
    p->one = 1;
    return status;
}

static weft_status refuse(const model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    str act;
    weft_status status = source_text(source, "hidden_activation", NULL, &found, &act, err);
    if (status != WEFT_OK) return status;
    str kind = json_text(json_get(json_get(source->config, "rope_parameters"), "rope_type"));
    bool rope_ok =
        kind.len == 0 || str_equal_text(kind, "axial") || str_equal_text(kind, "default");
    if (rope_ok && !p->qkv_bias && (!found || str_equal_text(act, "gelu_pytorch_tanh")))
        return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED, "config.json: vision_config: %s is not supported",
                   !rope_ok      ? "this rope_type"
                   : p->qkv_bias ? "attention_bias"
                                 : "this hidden_activation");
}

/* The first half of a head turns by the column, the second by the row, as if each was a head. */
static weft_status derive_ropes(model_params *p, const model_source *source, weft_error *err)
{
    const json *settings = json_get(source->config, "rope_parameters");
    double theta = json_number(json_get(settings, "rope_theta"), 100.0);
    if (!(theta > 1.0 && theta < 1e12))
        return err_set(err, WEFT_FORMAT, "config.json: vision_config: rope_theta is %g", theta);
    for (uint32_t k = 0; k < 2; k++) {
        p->ropes[k] = (rope_params){.kind = ROPE_DEFAULT,
                                    .theta = theta,
                                    .factor = 1.0,
                                    .partial = 1.0,
                                    .n_dims = p->head_dim / 2,
                                    .axes = ROPE_AXES_RUNS};
        p->ropes[k].sections[k == 0 ? TOWER_AXIS_COLUMN : TOWER_AXIS_ROW] = p->head_dim / 4;
    }
    p->n_ropes = 2;
    return WEFT_OK;
}

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    p->act = GRAPH_GELU_TANH;
    p->attn_scale = 1.0F;
    weft_status status = refuse(p, source, err);
    if (status == WEFT_OK) status = part_derive(p, err);
    if (status == WEFT_OK && p->head_dim % 4 != 0) {
        status = err_set(err, WEFT_FORMAT,
                         "config.json: vision_config: heads of %u, expected a multiple of 4",
                         p->head_dim);
    }
    p->image.stated_patch = p->image.patch;
    p->image.stated_pool = p->image.pool;
    if (status == WEFT_OK) status = derive_ropes(p, source, err);
    if (status == WEFT_OK) status = derive_image(p, source, err);
    for (uint32_t c = 0; c < VISION_COLOURS; c++) p->image.mean[c] = p->image.std[c] = 0.5F;
    return status;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static graph_id linear(model_build *b, uint32_t slot, uint32_t layer, graph_id x)
{
    graph *g = b->g;
    bool clipped = b->p->image.clipped;
    if (clipped) {
        x = graph_clamp(g, x, build_number(b, slot + IN_MIN, layer),
                        build_number(b, slot + IN_MAX, layer));
    }
    x = graph_linear(g, x, build_slot(b, slot, layer), 0);
    if (!clipped) return x;
    return graph_clamp(g, x, build_number(b, slot + OUT_MIN, layer),
                       build_number(b, slot + OUT_MAX, layer));
}

static graph_id turn(model_build *b, graph_id x, uint32_t n_heads)
{
    graph *g = b->g;
    uint32_t d = b->p->head_dim;
    graph_id across = graph_rope_apply(g, graph_cols(g, x, d, 0, d / 2), d / 2, 0);
    graph_id down = graph_rope_apply(g, graph_cols(g, x, d, d / 2, d / 2), d / 2, 1);
    return graph_concat(g, across, down, n_heads);
}

static graph_id attention(model_build *b, uint32_t layer, graph_id x)
{
    graph *g = b->g;
    const model_params *p = b->p;
    b->kv_layers[layer] = (kv_layer){.layout = KV_LAYOUT_FULL,
                                     .n_heads = p->n_kv_heads,
                                     .k_dim = p->head_dim,
                                     .v_dim = p->head_dim};
    b->n_kv_layers++;
    graph_id q = part_norm(b, Q_NORM, layer, linear(b, Q, layer, x));
    graph_id k = part_norm(b, K_NORM, layer, linear(b, K, layer, x));
    graph_id v = graph_rms_norm_plain(g, linear(b, V, layer, x), p->head_dim, p->norm_eps);
    graph_id state = graph_kv_append(g, turn(b, k, p->n_kv_heads), v, layer, p->n_kv_heads);
    q = turn(b, q, p->n_heads);
    return linear(b, O, layer, graph_attend(g, q, state, p->n_heads, p->attn_scale, 0.0F));
}

static graph_id mlp(model_build *b, uint32_t layer, graph_id x)
{
    graph_id gate = linear(b, GATE, layer, x);
    graph_id up = linear(b, UP, layer, x);
    return linear(b, DOWN, layer, graph_glu(b->g, gate, up, b->p->act));
}

/* The mean of a token's squares, times the root of the width. */
static graph_id pool(model_build *b, graph_id x)
{
    graph *g = b->g;
    uint32_t d = b->p->n_embd;
    uint32_t n = b->p->image.pool * b->p->image.pool;
    x = graph_take_run(g, x, n);
    graph_id sum = graph_cols(g, x, n * d, 0, d);
    for (uint32_t i = 1; i < n; i++) sum = graph_add(g, sum, graph_cols(g, x, n * d, i * d, d));
    return graph_scale(g, sum, (float)(sqrt((double)d) / (double)n));
}

static void project(model_build *b, uint32_t slot, graph_id x)
{
    x = graph_rms_norm_plain(b->g, x, b->p->n_embd, b->p->norm_eps);
    graph_finish(b->g, graph_linear(b->g, x, build_slot(b, slot, 0), 0));
}

static void build(model_build *b)
{
    graph *g = b->g;
    const model_params *p = b->p;
    graph_id x = graph_feed(g, TOWER_FEED_PATCHES, p->image.patch_dim);
    x = graph_linear(g, x, build_slot(b, PATCH, 0), 0);
    x = graph_add(g, x, graph_feed(g, TOWER_FEED_POSITIONS, p->n_embd));
    for (uint32_t l = 0; l < p->n_layers; l++) {
        graph_id a = attention(b, l, part_norm(b, ATTN_NORM, l, x));
        x = graph_add(g, x, part_norm(b, POST_ATTN_NORM, l, a));
        graph_id f = mlp(b, l, part_norm(b, MLP_NORM, l, x));
        x = graph_add(g, x, part_norm(b, POST_MLP_NORM, l, f));
    }
    x = pool(b, x);
    if (p->image.standardized)
        x = graph_standardize(g, x, build_slot(b, STD_BIAS, 0), build_slot(b, STD_SCALE, 0));
    project(b, PROJECTION, x);
}

/* ---- positions ------------------------------------------------------------------------------- */

/* A row of the table for the column, and one for the row: at step * number, the latter's behind
 * `behind` more. */
static void add_positions(const llm_tower *t, uint32_t slot, uint32_t step, uint32_t behind,
                          const vision_image *image, const tower_input *in)
{
    const tensor *table = llm_tower_tensor(t, slot);
    uint32_t n = tower_patches(t, image);
    size_t cols = t->params.n_embd;
    const uint32_t *columns = in->places + (size_t)TOWER_AXIS_COLUMN * n;
    const uint32_t *rows = in->places + (size_t)TOWER_AXIS_ROW * n;
    for (uint32_t i = 0; i < n; i++) {
        float *to = in->feeds[TOWER_FEED_POSITIONS] + i * cols;
        table->encoding->decode_row(table, (uint64_t)columns[i] * step, to);
        table->encoding->decode_row(table, (uint64_t)rows[i] * step + behind, in->row);
        for (size_t k = 0; k < cols; k++) to[k] += in->row[k];
    }
}

static void prepare(const llm_tower *t, const vision_image *image, const tower_input *in)
{
    tower_prepare_patches(t, image, in);
    add_positions(t, TABLE, 1, t->params.image.n_sides, image, in);
}

static const char *const ROOTS[] = {"model.", "", NULL};
static const char *const DROP[] = {"vision_tower.*", "model.vision_tower.*", "embed_vision.*",
                                   "model.embed_vision.*", NULL};

const model_family TOWER_GEMMA = {
    .name = "gemma4 vision",
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
    .slots = SLOTS,
    .n_slots = COUNT_OF(SLOTS),
    .roots = ROOTS,
    .layers = "vision_tower.encoder.layers.",
    .drop = DROP,
    .derive = derive,
    .build = build,
    .prepare = prepare,
};

/* ---- the unified models ---------------------------------------------------------------------- */

enum {
    DENSE,
    DENSE_BIAS,
    LN_1,
    LN_1_BIAS,
    LN_2,
    LN_2_BIAS,
    PLACES,
    LN_3,
    LN_3_BIAS,
    EMBED_PROJECTION,
    N_UNIFIED_SLOTS
};

static const model_param UNIFIED_PARAMS[] = {
    {"mm_embed_dim", NULL, SHAPE(n_embd), PARAM_U32, true, 1, 1 << 16, 0},
    {"output_proj_dims", NULL, SHAPE(image.n_merged), PARAM_U32, false, 1, 1 << 16, 0},
    {"rms_norm_eps", NULL, SHAPE(norm_eps), PARAM_F32, false, 1e-12, 1, 1e-6},
    {"patch_size", NULL, SHAPE(image.patch), PARAM_U32, false, 1, 256, 16},
    {"pooling_kernel_size", NULL, SHAPE(image.pool), PARAM_U32, false, 1, 16, 3},
    {"mm_posemb_size", NULL, SHAPE(image.n_sides), PARAM_U32, true, 1, 1 << 20, 0},
};

static const model_slot UNIFIED_SLOTS[N_UNIFIED_SLOTS] = {
    [DENSE] = ONCE("vision_embedder.patch_dense.weight", SHAPE(n_embd), SHAPE(image.patch_dim),
                   SHAPE_NONE),
    [DENSE_BIAS] = ONCE("vision_embedder.patch_dense.bias", SHAPE_NONE, SHAPE(n_embd), SHAPE_NONE),
    [LN_1] =
        ONCE("vision_embedder.patch_ln1.weight", SHAPE_NONE, SHAPE(image.patch_dim), SHAPE_NONE),
    [LN_1_BIAS] =
        ONCE("vision_embedder.patch_ln1.bias", SHAPE_NONE, SHAPE(image.patch_dim), SHAPE_NONE),
    [LN_2] = ONCE("vision_embedder.patch_ln2.weight", SHAPE_NONE, SHAPE(n_embd), SHAPE_NONE),
    [LN_2_BIAS] = ONCE("vision_embedder.patch_ln2.bias", SHAPE_NONE, SHAPE(n_embd), SHAPE_NONE),
    [PLACES] = {.hf_name = "vision_embedder.pos_embedding",
                .place = SLOT_MODEL,
                .rows = SHAPE(image.table_rows),
                .cols = SHAPE(n_embd),
                .if_flag = SHAPE_NONE,
                .flat = true},
    [LN_3] = ONCE("vision_embedder.pos_norm.weight", SHAPE_NONE, SHAPE(n_embd), SHAPE_NONE),
    [LN_3_BIAS] = ONCE("vision_embedder.pos_norm.bias", SHAPE_NONE, SHAPE(n_embd), SHAPE_NONE),
    [EMBED_PROJECTION] = ONCE("embed_vision.embedding_projection.weight", SHAPE(image.n_out),
                              SHAPE(n_embd), SHAPE_NONE),
};

/* A token's squares are one large square from the start. */
static weft_status unified_derive(model_params *p, const model_source *source, weft_error *err)
{
    model_image *i = &p->image;
    if (i->n_merged != 0 && i->n_merged != p->n_embd) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: output_proj_dims is %u, mm_embed_dim %u", i->n_merged,
                       p->n_embd);
    }
    i->stated_patch = i->patch;
    i->stated_pool = i->pool;
    p->n_layers = 1; /* none, but slots are counted by it */
    i->patch *= i->pool;
    i->pool = 1;
    for (uint32_t c = 0; c < VISION_COLOURS; c++) i->std[c] = 1.0F;
    return derive_image(p, source, err);
}

static graph_id layer_norm(model_build *b, uint32_t slot, uint32_t group, graph_id x)
{
    graph_layer_norm how = {.weight = build_slot(b, slot, 0),
                            .bias = build_slot(b, slot + 1, 0),
                            .group = group,
                            .eps = 1e-5F};
    return graph_layer_norm_apply(b->g, x, how);
}

static void unified_build(model_build *b)
{
    graph *g = b->g;
    const model_params *p = b->p;
    graph_id x = graph_feed(g, TOWER_FEED_PATCHES, p->image.patch_dim);
    x = layer_norm(b, LN_1, p->image.patch_dim, x);
    x = graph_linear(g, x, build_slot(b, DENSE, 0), build_slot(b, DENSE_BIAS, 0));
    x = layer_norm(b, LN_2, p->n_embd, x);
    x = graph_add(g, x, graph_feed(g, TOWER_FEED_POSITIONS, p->n_embd));
    x = layer_norm(b, LN_3, p->n_embd, graph_take(g, x));
    project(b, EMBED_PROJECTION, x);
}

static void unified_prepare(const llm_tower *t, const vision_image *image, const tower_input *in)
{
    tower_prepare_patches(t, image, in);
    add_positions(t, PLACES, 2, 1, image, in);
}

static const char *const UNIFIED_DROP[] = {"vision_embedder.*", "model.vision_embedder.*", NULL};

const model_family TOWER_GEMMA_UNIFIED = {
    .name = "gemma4_unified vision",
    .params = UNIFIED_PARAMS,
    .n_params = COUNT_OF(UNIFIED_PARAMS),
    .slots = UNIFIED_SLOTS,
    .n_slots = COUNT_OF(UNIFIED_SLOTS),
    .roots = ROOTS,
    .drop = UNIFIED_DROP,
    .derive = unified_derive,
    .build = unified_build,
    .prepare = unified_prepare,
};
