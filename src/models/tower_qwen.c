/* tower_qwen.c - the image tower of Qwen 3.5: a vision transformer whose positions are added, from
 * a table that is stretched over the image, and turn queries and keys by row and column; four
 * neighbours become one token. Source: Transformers' modeling_qwen3_5. */
#include <math.h>

#include "base/assert.h"
#include "models/tower.h"

enum {
    PATCH,
    PATCH_BIAS,
    POSITIONS,
    NORM_1,
    NORM_1_BIAS,
    QKV,
    QKV_BIAS,
    OUT,
    OUT_BIAS,
    NORM_2,
    NORM_2_BIAS,
    FC_1,
    FC_1_BIAS,
    FC_2,
    FC_2_BIAS,
    MERGE_NORM,
    MERGE_NORM_BIAS,
    MERGE_1,
    MERGE_1_BIAS,
    MERGE_2,
    MERGE_2_BIAS,
    N_SLOTS
};

static const model_param PARAMS[] = {
    {"depth", NULL, SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},
    {"hidden_size", NULL, SHAPE(n_embd), PARAM_U32, true, 1, 1 << 16, 0},
    {"num_heads", NULL, SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},
    {"intermediate_size", NULL, SHAPE(n_ff), PARAM_U32, true, 1, 1 << 20, 0},
    {"patch_size", NULL, SHAPE(image.patch), PARAM_U32, true, 1, 256, 0},
    {"spatial_merge_size", NULL, SHAPE(image.pool), PARAM_U32, false, 1, 16, 2},
    {"temporal_patch_size", NULL, SHAPE(image.frames), PARAM_U32, false, 1, 16, 2},
    {"in_channels", NULL, SHAPE(image.channels), PARAM_U32, false, 3, 3, 3},
    {"num_position_embeddings", NULL, SHAPE(image.table_rows), PARAM_U32, true, 4, 1 << 20, 0},
};

#define ONCE(name, n_rows, n_cols)                                                                 \
    {                                                                                              \
        .hf_name = (name), .place = SLOT_MODEL, .rows = (n_rows), .cols = (n_cols),                \
        .if_flag = SHAPE_NONE                                                                      \
    }
#define LAYER(name, n_rows, n_cols)                                                                \
    {                                                                                              \
        .hf_name = (name), .place = SLOT_LAYER, .rows = (n_rows), .cols = (n_cols),                \
        .if_flag = SHAPE_NONE                                                                      \
    }

static const model_slot SLOTS[N_SLOTS] = {
    [PATCH] = {.hf_name = "patch_embed.proj.weight",
               .place = SLOT_MODEL,
               .rows = SHAPE(n_embd),
               .cols = SHAPE(image.patch_dim),
               .if_flag = SHAPE_NONE,
               .flat = true},
    [PATCH_BIAS] = ONCE("patch_embed.proj.bias", SHAPE_NONE, SHAPE(n_embd)),
    [POSITIONS] = ONCE("pos_embed.weight", SHAPE(image.table_rows), SHAPE(n_embd)),
    [NORM_1] = LAYER("norm1.weight", SHAPE_NONE, SHAPE(n_embd)),
    [NORM_1_BIAS] = LAYER("norm1.bias", SHAPE_NONE, SHAPE(n_embd)),
    [QKV] = LAYER("attn.qkv.weight", SHAPE(n_qkv_tower), SHAPE(n_embd)),
    [QKV_BIAS] = LAYER("attn.qkv.bias", SHAPE_NONE, SHAPE(n_qkv_tower)),
    [OUT] = LAYER("attn.proj.weight", SHAPE(n_embd), SHAPE(n_embd)),
    [OUT_BIAS] = LAYER("attn.proj.bias", SHAPE_NONE, SHAPE(n_embd)),
    [NORM_2] = LAYER("norm2.weight", SHAPE_NONE, SHAPE(n_embd)),
    [NORM_2_BIAS] = LAYER("norm2.bias", SHAPE_NONE, SHAPE(n_embd)),
    [FC_1] = LAYER("mlp.linear_fc1.weight", SHAPE(n_ff), SHAPE(n_embd)),
    [FC_1_BIAS] = LAYER("mlp.linear_fc1.bias", SHAPE_NONE, SHAPE(n_ff)),
    [FC_2] = LAYER("mlp.linear_fc2.weight", SHAPE(n_embd), SHAPE(n_ff)),
    [FC_2_BIAS] = LAYER("mlp.linear_fc2.bias", SHAPE_NONE, SHAPE(n_embd)),
    [MERGE_NORM] = ONCE("merger.norm.weight", SHAPE_NONE, SHAPE(n_embd)),
    [MERGE_NORM_BIAS] = ONCE("merger.norm.bias", SHAPE_NONE, SHAPE(n_embd)),
    [MERGE_1] = ONCE("merger.linear_fc1.weight", SHAPE(image.pooled_dim), SHAPE(image.pooled_dim)),
    [MERGE_1_BIAS] = ONCE("merger.linear_fc1.bias", SHAPE_NONE, SHAPE(image.pooled_dim)),
    [MERGE_2] = ONCE("merger.linear_fc2.weight", SHAPE(image.n_out), SHAPE(image.pooled_dim)),
    [MERGE_2_BIAS] = ONCE("merger.linear_fc2.bias", SHAPE_NONE, SHAPE(image.n_out)),
};

/* ---- what follows from the parameters -------------------------------------------------------- */

static weft_status refuse(const model_source *source, weft_error *err)
{
    bool found;
    str act;
    weft_status status = source_text(source, "hidden_act", NULL, &found, &act, err);
    if (status != WEFT_OK) return status;
    if (found && !str_equal_text(act, "gelu_pytorch_tanh")) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: vision_config: hidden_act '%.*s' is not supported",
                       (int)(act.len < 64 ? act.len : 64), act.ptr);
    }
    if (json_length(json_get(source->config, "deepstack_visual_indexes")) > 0) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: deepstack_visual_indexes are not supported");
    }
    return WEFT_OK;
}

/* MLX has the colours of a pixel together. */
static bool has_channels_last(const weights *w)
{
    for (uint32_t i = 0; i < w->n_tensors; i++) {
        const tensor *t = &w->tensors[i];
        if (str_ends(str_of(t->name), ".patch_embed.proj.weight"))
            return t->n_dims > 1 && t->dims[t->n_dims - 1] == VISION_COLOURS;
    }
    return false;
}

static weft_status derive_shapes(model_params *p, const model_source *source, weft_error *err)
{
    model_image *i = &p->image;
    uint32_t side = (uint32_t)sqrt((double)i->table_rows);
    if (p->n_embd % p->n_heads != 0 || p->n_embd / p->n_heads % 4 != 0) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: vision_config: %u columns in %u heads, expected multiples of "
                       "4 for each",
                       p->n_embd, p->n_heads);
    }
    if (side * side != i->table_rows) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: num_position_embeddings is %u, expected a square",
                       i->table_rows);
    }
    bool found;
    double n_out = (double)i->n_out;
    weft_status status = source_number(source, "out_hidden_size", NULL, &found, &n_out, err);
    if (status != WEFT_OK) return status;
    if (n_out != (double)i->n_out) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: out_hidden_size is %g, the text model has %u", n_out,
                       i->n_out);
    }
    i->n_places = side;
    i->stated_patch = i->patch;
    i->stated_pool = i->pool;
    i->channels_last = has_channels_last(source->weights);
    i->patch_dim = VISION_COLOURS * i->frames * i->patch * i->patch;
    i->pooled_dim = i->pool * i->pool * p->n_embd;
    p->n_qkv_tower = 3 * p->n_embd;
    p->head_dim = p->n_embd / p->n_heads;
    return WEFT_OK;
}

/* Half of a head's pairs turn by the row, half by the column. */
static weft_status derive_rope(model_params *p, const model_source *source, weft_error *err)
{
    const json *settings = json_get(source->config, "rope_parameters");
    str kind = json_text(json_get(settings, "rope_type"));
    if (kind.len != 0 && !str_equal_text(kind, "axial") && !str_equal_text(kind, "default")) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: vision_config: rope type '%.*s' is not supported",
                       (int)(kind.len < 64 ? kind.len : 64), kind.ptr);
    }
    double theta = json_number(json_get(settings, "rope_theta"), 1e4);
    if (!(theta > 1.0 && theta < 1e12))
        return err_set(err, WEFT_FORMAT, "config.json: vision_config: rope_theta is %g", theta);
    p->ropes[0] = (rope_params){.kind = ROPE_DEFAULT,
                                .theta = theta,
                                .factor = 1.0,
                                .partial = 1.0,
                                .n_dims = p->head_dim / 2,
                                .axes = ROPE_AXES_RUNS,
                                .sections = {0, p->head_dim / 4, p->head_dim / 4}};
    p->n_ropes = 1;
    return WEFT_OK;
}

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    model_image *i = &p->image;
    weft_status status = refuse(source, err);
    if (status == WEFT_OK) status = derive_shapes(p, source, err);
    if (status == WEFT_OK) status = derive_rope(p, source, err);
    /* The text around the placeholder has what stands around an image. */
    if (status == WEFT_OK) status = tower_read_token(i, source, err);
    i->has_places = true;
    i->size = (vision_size){.rule = VISION_BY_PIXELS,
                            .unit = i->patch * i->pool,
                            .min_pixels = 3136,
                            .max_pixels = 1003520};
    for (uint32_t c = 0; c < VISION_COLOURS; c++) i->mean[c] = i->std[c] = 0.5F;
    return status;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static graph_id norm(model_build *b, uint32_t weight, uint32_t layer, graph_id x)
{
    graph_layer_norm how = {.weight = build_slot(b, weight, layer),
                            .bias = build_slot(b, weight + 1, layer),
                            .group = b->p->n_embd,
                            .eps = 1e-6F};
    return graph_layer_norm_apply(b->g, x, how);
}

static graph_id linear(model_build *b, uint32_t weight, uint32_t layer, graph_id x)
{
    return graph_linear(b->g, x, build_slot(b, weight, layer), build_slot(b, weight + 1, layer));
}

static graph_id attention(model_build *b, uint32_t layer, graph_id x)
{
    graph *g = b->g;
    const model_params *p = b->p;
    uint32_t d = p->n_embd;
    b->kv_layers[layer] = (kv_layer){.layout = KV_LAYOUT_FULL,
                                     .n_heads = p->n_heads,
                                     .k_dim = p->head_dim,
                                     .v_dim = p->head_dim};
    b->n_kv_layers++;
    graph_id qkv = linear(b, QKV, layer, x);
    graph_id q = graph_rope_apply(g, graph_cols(g, qkv, 3 * d, 0, d), p->head_dim, 0);
    graph_id k = graph_rope_apply(g, graph_cols(g, qkv, 3 * d, d, d), p->head_dim, 0);
    graph_id v = graph_cols(g, qkv, 3 * d, 2 * d, d);
    graph_id state = graph_kv_append(g, k, v, layer, p->n_heads);
    float scale = (float)(1.0 / sqrt((double)p->head_dim));
    return linear(b, OUT, layer, graph_attend(g, q, state, p->n_heads, scale, 0.0F));
}

static void build(model_build *b)
{
    graph *g = b->g;
    const model_image *image = &b->p->image;
    graph_id x = linear(b, PATCH, 0, graph_feed(g, TOWER_FEED_PATCHES, image->patch_dim));
    x = graph_add(g, x, graph_feed(g, TOWER_FEED_POSITIONS, b->p->n_embd));
    for (uint32_t l = 0; l < b->p->n_layers; l++) {
        x = graph_add(g, x, attention(b, l, norm(b, NORM_1, l, x)));
        graph_id h = linear(b, FC_1, l, norm(b, NORM_2, l, x));
        x = graph_add(g, x, linear(b, FC_2, l, graph_act_apply(g, h, GRAPH_GELU_TANH)));
    }
    x = graph_take_run(g, norm(b, MERGE_NORM, 0, x), image->pool * image->pool);
    x = graph_act_apply(g, linear(b, MERGE_1, 0, x), GRAPH_GELU_ERF);
    graph_finish(g, linear(b, MERGE_2, 0, x));
}

/* ---- positions ------------------------------------------------------------------------------- */

/* Where step i of n lies on a side of the table: between row and row + 1, so far from the first. */
typedef struct tap {
    uint32_t row;
    float rest;
} tap;

static tap tap_of(uint32_t i, uint32_t n, uint32_t side)
{
    float at = (float)i * (float)(side - 1) / (float)(n > 1 ? n - 1 : 1);
    float row = floorf(at);
    return (tap){(uint32_t)row, at - row};
}

/* += weight * a row of the table; a row beyond the last has no weight. */
static void add_row(const tensor *table, uint32_t side, const uint32_t at[2], float weight,
                    float *row, float *to)
{
    if (weight == 0.0F || at[0] >= side || at[1] >= side) return;
    table->encoding->decode_row(table, (uint64_t)at[0] * side + at[1], row);
    for (uint64_t k = 0; k < table->n_cols; k++) to[k] += row[k] * weight;
}

static void prepare(const llm_tower *t, const vision_image *image, const tower_input *in)
{
    const model_image *how = &t->params.image;
    const tensor *table = llm_tower_tensor(t, POSITIONS);
    uint32_t n = tower_patches(t, image);
    uint32_t cols = t->params.n_embd;
    vision_cut cut = tower_cut(t);
    tower_prepare_patches(t, image, in);
    for (uint32_t i = 0; i < n; i++) {
        float *to = in->feeds[TOWER_FEED_POSITIONS] + (size_t)i * cols;
        uint32_t column, row;
        vision_place(&cut, image->width, i, &column, &row);
        tap y = tap_of(row, image->height / how->patch, how->n_places);
        tap x = tap_of(column, image->width / how->patch, how->n_places);
        for (uint32_t k = 0; k < cols; k++) to[k] = 0.0F;
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t at[2] = {y.row + k / 2, x.row + k % 2};
            float weight =
                (k / 2 == 0 ? 1.0F - y.rest : y.rest) * (k % 2 == 0 ? 1.0F - x.rest : x.rest);
            add_row(table, how->n_places, at, weight, in->row, to);
        }
    }
}

static const char *const ROOTS[] = {"model.visual.", "visual.", "vision_tower.", NULL};
static const char *const DROP[] = {"model.visual.*", "visual.*", "vision_tower.*", NULL};

const model_family TOWER_QWEN = {
    .name = "qwen3_5 vision",
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
    .slots = SLOTS,
    .n_slots = COUNT_OF(SLOTS),
    .roots = ROOTS,
    .layers = "blocks.",
    .drop = DROP,
    .derive = derive,
    .build = build,
    .prepare = prepare,
};
