/* dense_params.c - parameters of dense decoders: the keys that most of them have, and what follows.
 * Sources: Transformers' configuration classes; llama.cpp's metadata keys. */
#include <math.h>

#include "models/dense.h"
#include "models/layer_lists.h"
#include "models/rope.h"

const model_param DENSE_PARAMS[] = {
    {"num_hidden_layers", "block_count", SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},
    {"hidden_size", "embedding_length", SHAPE(n_embd), PARAM_U32, true, 1, 1 << 20, 0},
    {"num_attention_heads", "attention.head_count", SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},
    {"num_key_value_heads", "attention.head_count_kv", SHAPE(n_kv_heads), PARAM_U32, false, 1, 4096,
     0},
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 0},
    {"intermediate_size", "feed_forward_length", SHAPE(n_ff), PARAM_U32, true, 1, 1 << 20, 0},
    {"vocab_size", "vocab_size", SHAPE(n_vocab), PARAM_U32, false, 1, MODEL_VOCAB, 0},
    {"max_position_embeddings", "context_length", SHAPE(context), PARAM_U32, true, 1, 1 << 30, 0},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", SHAPE(norm_eps), PARAM_F32, false, 1e-12,
     1, 0},
    {"rope_theta", "rope.freq_base", SHAPE(rope_theta), PARAM_F32, false, 1, 1e12, 10000},
    {NULL, "rope.dimension_count", SHAPE(rope_dims), PARAM_U32, false, 2, 4096, 0},
    {"partial_rotary_factor", NULL, SHAPE(partial_rotary), PARAM_F32, false, 1e-3, 1, 1},
    {"tie_word_embeddings", NULL, SHAPE(tied), PARAM_BOOL, false, 0, 1, 0},
    {"sliding_window", "attention.sliding_window", SHAPE(window), PARAM_U32, false, 0, 1 << 30, 0},
};

_Static_assert(COUNT_OF(DENSE_PARAMS) == DENSE_N_PARAMS, "count the rows");

/* ---- activation ------------------------------------------------------------------------------ */

static weft_status derive_act(model_params *p, const model_source *source, weft_error *err)
{
    static const struct {
        const char *name;
        graph_act act;
    } ACTS[] = {
        {"silu", GRAPH_SILU},           {"swish", GRAPH_SILU},
        {"gelu", GRAPH_GELU_ERF},       {"gelu_new", GRAPH_GELU_TANH},
        {"gelu_fast", GRAPH_GELU_TANH}, {"gelu_pytorch_tanh", GRAPH_GELU_TANH},
        {"relu2", GRAPH_RELU2},
    };
    const char *key = "hidden_activation";
    bool found;
    str name;
    p->act = p->dense->act;
    weft_status status = source_text(source, key, NULL, &found, &name, err);
    if (status == WEFT_OK && !found) {
        key = "hidden_act";
        status = source_text(source, key, NULL, &found, &name, err);
    }
    if (status != WEFT_OK || !found) return status;
    for (size_t i = 0; i < COUNT_OF(ACTS); i++) {
        if (!str_equal_text(name, ACTS[i].name)) continue;
        p->act = ACTS[i].act;
        if (p->act == GRAPH_GELU_ERF && p->dense->gelu_is_tanh) p->act = GRAPH_GELU_TANH;
        if (p->act == GRAPH_RELU2 && !p->dense->plain_mlp) break;
        return WEFT_OK;
    }
    return err_set(err, WEFT_UNSUPPORTED, "config.json: %s '%.*s' is not supported", key,
                   (int)(name.len < 64 ? name.len : 64), name.ptr);
}

/* ---- which layers have a window -------------------------------------------------------------- */

/* A count under a key of config.json. */
static weft_status read_count(const model_source *source, const char *key, uint32_t *n,
                              weft_error *err)
{
    bool found;
    double number;
    weft_status status = source_number(source, key, NULL, &found, &number, err);
    if (status != WEFT_OK || !found) return status;
    if (number < 0.0 || number > 1 << 30 || number != floor(number))
        return err_set(err, WEFT_FORMAT, "config.json: %s is %g, expected a count", key, number);
    *n = (uint32_t)number;
    return WEFT_OK;
}

/* "sliding_window" says none by null; what a key that is not there says depends on the family. */
static void default_window(model_params *p, const model_source *source)
{
    bool silent = !source->is_gguf && json_get(source->config, "sliding_window") == NULL;
    if (silent) p->window = p->dense->window_fallback;
}

/* "LLLG": windows at L, again and again; the last layer has none. */
static weft_status windows_spelt(model_params *p, str pattern, weft_error *err)
{
    for (size_t i = 0; i < pattern.len; i++) {
        if (pattern.ptr[i] == 'L' || pattern.ptr[i] == 'G') continue;
        return err_set(err, WEFT_FORMAT, "config.json: sliding_window_pattern '%.*s'",
                       (int)(pattern.len < 64 ? pattern.len : 64), pattern.ptr);
    }
    for (uint32_t i = 0; i + 1 < p->n_layers; i++)
        p->is_window[i] = p->window != 0 && pattern.ptr[i % pattern.len] == 'L';
    return WEFT_OK;
}

static weft_status windows_every(model_params *p, const model_source *source, weft_error *err)
{
    uint32_t every = p->dense->window_every;
    str pattern = json_text(json_get(source->config, "sliding_window_pattern"));
    if (pattern.len != 0) return windows_spelt(p, pattern, err);
    weft_status status = read_count(source, "sliding_window_pattern", &every, err);
    for (uint32_t i = 0; i < p->n_layers; i++)
        p->is_window[i] = p->window != 0 && (every == 0 || (i + 1) % every != 0);
    return status;
}

static weft_status windows_from(model_params *p, const model_source *source, weft_error *err)
{
    uint32_t first = 28;
    bool found;
    bool used = false;
    weft_status status = source_flag(source, "use_sliding_window", NULL, &found, &used, err);
    if (status == WEFT_OK) status = read_count(source, "max_window_layers", &first, err);
    if (!used) p->window = 0;
    for (uint32_t i = first; i < p->n_layers; i++) p->is_window[i] = p->window != 0;
    return status;
}

static weft_status windows_unrotated(model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    bool used = false;
    weft_status status = source_flag(source, "use_sliding_window", NULL, &found, &used, err);
    if (!used) p->window = 0;
    for (uint32_t i = 0; i < p->n_layers; i++)
        p->is_window[i] = p->window != 0 && p->is_unrotated[i];
    return status;
}

static weft_status windows_unused(model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    bool used = false;
    weft_status status = source_flag(source, "use_sliding_window", NULL, &found, &used, err);
    p->window = 0;
    if (status != WEFT_OK || !used) return status;
    return err_set(err, WEFT_UNSUPPORTED,
                   "config.json: use_sliding_window without layer_types is not supported");
}

static weft_status derive_windows(model_params *p, const model_source *source, weft_error *err)
{
    bool listed;
    default_window(p, source);
    weft_status status = part_layer_types(p, source, &listed, err);
    if (status == WEFT_OK && !listed && p->window != 0)
        status = list_layer_windows(p, source, &listed, err);
    if (status != WEFT_OK || listed) return status;
    switch (p->dense->window) {
    case DENSE_WINDOW_LISTED:
        break;
    case DENSE_WINDOW_ALL:
        for (uint32_t i = 0; i < p->n_layers; i++) p->is_window[i] = p->window != 0;
        return WEFT_OK;
    case DENSE_WINDOW_EVERY:
        return windows_every(p, source, err);
    case DENSE_WINDOW_FROM:
        return windows_from(p, source, err);
    case DENSE_WINDOW_UNUSED:
        return windows_unused(p, source, err);
    case DENSE_WINDOW_UNROTATED:
        return windows_unrotated(p, source, err);
    }
    if (p->window == 0 || p->window >= p->context) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED,
                   "a sliding window of %u without layer types, context %u, is not supported",
                   p->window, p->context);
}

/* ---- rope ------------------------------------------------------------------------------------ */

/* "no_rope_layers" has a 1 for each layer that rotates. */
static weft_status list_unrotated(model_params *p, const model_source *source, weft_error *err)
{
    const json *list = json_get(source->config, "no_rope_layers");
    uint32_t every = 4;
    weft_status status = read_count(source, "no_rope_layer_interval", &every, err);
    if (status != WEFT_OK) return status;
    bool listed = json_kind_of(list) != JSON_KIND_NULL;
    if (listed && json_length(list) < p->n_layers) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: no_rope_layers has %zu entries for %u layers",
                       json_length(list), p->n_layers);
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        bool among = every == 0 || (i + 1) % every != 0;
        int64_t rotates = listed ? json_int(json_at(list, i), -1) : among;
        if (rotates != 0 && rotates != 1)
            return err_set(err, WEFT_FORMAT,
                           "config.json: no_rope_layers of layer %u is neither 0 nor 1", i);
        p->is_unrotated[i] = rotates == 0;
    }
    return WEFT_OK;
}

/* What follows from windows. */
static void unrotate_others(model_params *p)
{
    bool hybrid = p->dense->rotary == DENSE_ROTARY_HYBRID && p->window != 0;
    bool others = p->dense->rotary == DENSE_ROTARY_WINDOWS || hybrid;
    for (uint32_t i = 0; i < p->n_layers && others; i++) p->is_unrotated[i] = !p->is_window[i];
}

/* Pairs of the first columns of a head rotate: rope settings say how many, or a key beside them; a
 * GGUF file in numbers. */
static weft_status derive_rotary(model_params *p, double settings, bool given, weft_error *err)
{
    double part = settings != 1.0 ? settings : (double)p->partial_rotary;
    if (given || part == 1.0) return WEFT_OK;
    bool ok = part > 0.0 && part <= 1.0;
    uint32_t n = ok ? (uint32_t)((double)p->head_dim * part) : 0;
    if (n >= 2 && n % 2 == 0) {
        p->rope_dims = n;
        return WEFT_OK;
    }
    return err_set(err, WEFT_FORMAT, "partial_rotary_factor %g of heads of %u is no even number",
                   part, p->head_dim);
}

static bool has_windows(const model_params *p)
{
    bool any = false;
    for (uint32_t i = 0; i < p->n_layers; i++) any = any || p->is_window[i];
    return any;
}

/* Settings of both kinds of layers, or of each: full ones first. */
static weft_status derive_ropes(model_params *p, const model_source *source, weft_error *err)
{
    double theta = (double)p->rope_theta;
    p->rope_interleaved = source->is_gguf ? p->dense->gguf_interleaved : p->dense->interleaved;
    const json *settings = json_get(source->config, "rope_parameters");
    const json *full = json_get(settings, "full_attention");
    const json *window = json_get(settings, "sliding_attention");
    bool by_kind = json_kind_of(full) != JSON_KIND_NULL || json_kind_of(window) != JSON_KIND_NULL;
    if (!by_kind) full = settings;
    if (json_kind_of(settings) == JSON_KIND_NULL) {
        full = json_get(source->config, "rope_scaling");
        by_kind = p->dense->full_scaling && json_kind_of(full) != JSON_KIND_NULL;
    }
    if (source->is_gguf && p->dense->full_scaling) by_kind = has_windows(p);
    p->n_ropes = by_kind ? 2 : 1;
    weft_status status = p->dense->ntk_alpha
                             ? rope_config_alpha(&p->ropes[0], source, full, theta, p->context, err)
                             : rope_config(&p->ropes[0], source, full, theta, p->context, err);
    if (status != WEFT_OK || !by_kind) return status;
    if (!source->is_gguf) return rope_config(&p->ropes[1], source, window, theta, p->context, err);
    /* What a file says of scaling is about full layers. */
    p->ropes[1] = (rope_params){.kind = ROPE_DEFAULT, .theta = theta, .factor = 1.0};
    p->ropes[1].no_factors = true;
    if (p->rope_theta_local != 0.0F) p->ropes[1].theta = (double)p->rope_theta_local;
    return WEFT_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* What the record says of tensors, and their sizes. */
static void derive_shapes(model_params *p)
{
    const dense *d = p->dense;
    p->one = 1;
    bool weighted = d->norm != DENSE_LN_PLAIN;
    if (d->block == DENSE_PARALLEL) p->parallel = true;
    p->has_final_norm = weighted;
    p->has_attn_norm = weighted && d->block != DENSE_POST;
    p->has_mlp_norm = p->has_attn_norm && !p->parallel;
    p->has_post_norms = d->block == DENSE_POST || d->block == DENSE_SANDWICH;
    p->has_norm_bias = d->norm_bias;
    p->has_mlp_norm_bias = d->norm_bias && p->has_mlp_norm;
    p->has_qk_norm = d->qk == DENSE_QK_HEAD || d->qk == DENSE_QK_WIDE;
    p->has_gate = !d->plain_mlp;
    p->gate_bias = p->has_gate && p->mlp_bias;
    p->q_norm_dim = d->qk == DENSE_QK_WIDE ? p->q_dim : p->head_dim;
    p->k_norm_dim = d->qk == DENSE_QK_WIDE ? p->kv_dim : p->head_dim;
    p->n_qk = p->q_dim + p->kv_dim;
    p->n_qkv = p->n_qk + p->kv_dim;
    p->n_ff_pair = 2 * p->n_ff;
}

/* Numbers of the graph. */
static void derive_numbers(model_params *p, const model_source *source)
{
    const dense *d = p->dense;
    bool offset = d->norm == DENSE_RMS_OFFSET || d->norm == DENSE_LN_OFFSET;
    p->norm_add = offset && !source->is_gguf ? 1.0F : 0.0F;
    if (d->embed_root) p->embed_scale = (float)sqrt((double)p->n_embd);
    if (p->query_pre_attn_scalar > 0.0F)
        p->attn_scale = (float)(1.0 / sqrt((double)p->query_pre_attn_scalar));
}

weft_status dense_derive(model_params *p, const model_source *source, weft_error *err)
{
    if (p->norm_eps == 0.0F)
        return err_set(err, WEFT_FORMAT, "%s",
                       source->is_gguf ? "the file has no epsilon of its norms"
                                       : "config.json has no rms_norm_eps");
    bool given = p->rope_dims != 0;
    derive_numbers(p, source);
    weft_status status = part_derive(p, err);
    if (status != WEFT_OK) return status;
    derive_shapes(p);
    status = derive_act(p, source, err);
    if (status == WEFT_OK) status = dense_derive_moe(p, source, err);
    if (status == WEFT_OK && p->dense->rotary == DENSE_ROTARY_LISTED)
        status = list_unrotated(p, source, err);
    if (status == WEFT_OK) status = derive_windows(p, source, err);
    if (status == WEFT_OK) unrotate_others(p);
    if (status == WEFT_OK) status = derive_ropes(p, source, err);
    if (status == WEFT_OK) status = derive_rotary(p, p->ropes[0].partial, given, err);
    if (status == WEFT_OK && p->dense->derive != NULL) status = p->dense->derive(p, source, err);
    return status;
}
