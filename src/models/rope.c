/* rope.c - rope settings and frequencies. */
#include "models/rope.h"

#include <math.h>

#include "base/assert.h"

typedef struct rope_row {
    const char *json_key;
    const char *gguf_key;
    size_t offset;
    double fallback;
} rope_row;

static const rope_row ROWS[] = {
    {"factor", "rope.scaling.factor", offsetof(rope_params, factor), 1.0},
    {"low_freq_factor", NULL, offsetof(rope_params, low_freq_factor), 1.0},
    {"high_freq_factor", NULL, offsetof(rope_params, high_freq_factor), 4.0},
    {"beta_fast", "rope.scaling.yarn_beta_fast", offsetof(rope_params, beta_fast), 32.0},
    {"beta_slow", "rope.scaling.yarn_beta_slow", offsetof(rope_params, beta_slow), 1.0},
    {"mscale", NULL, offsetof(rope_params, mscale), 0.0},
    {"mscale_all_dim", NULL, offsetof(rope_params, mscale_all_dim), 0.0},
    {"attention_factor", NULL, offsetof(rope_params, attention_factor), 0.0},
    {"partial_rotary_factor", NULL, offsetof(rope_params, partial), 1.0},
    {"alpha", NULL, offsetof(rope_params, alpha), 0.0},
    {"original_max_position_embeddings", "rope.scaling.original_context_length",
     offsetof(rope_params, original_context), 0.0},
};

static weft_status parse_kind(rope_params *rope, str kind, weft_error *err)
{
    static const struct {
        const char *name;
        rope_kind kind;
    } KINDS[] = {
        {"default", ROPE_DEFAULT},
        {"none", ROPE_DEFAULT},
        {"linear", ROPE_LINEAR},
        {"llama3", ROPE_LLAMA3},
        {"yarn", ROPE_YARN},
        {"deepseek_yarn", ROPE_YARN},
        {"proportional", ROPE_PROPORTIONAL},
        {"dynamic", ROPE_ALPHA},
        {"longrope", ROPE_LONG},
        {"su", ROPE_LONG},
    };
    for (size_t i = 0; i < COUNT_OF(KINDS); i++) {
        if (str_equal_text(kind, KINDS[i].name)) {
            rope->kind = KINDS[i].kind;
            return WEFT_OK;
        }
    }
    return err_set(err, WEFT_UNSUPPORTED, "rope type '%.*s' is not supported",
                   (int)(kind.len < 64 ? kind.len : 64), kind.ptr);
}

static weft_status refuse_dynamic(weft_error *err)
{
    return err_set(err, WEFT_UNSUPPORTED, "rope type 'dynamic' is not supported");
}

static weft_status check(const rope_params *r, weft_error *err)
{
    /* Without an alpha frequencies follow the length that a conversation has. */
    if (r->kind == ROPE_ALPHA && !(r->alpha > 0.0 && r->alpha < 1e9)) return refuse_dynamic(err);
    if (r->kind == ROPE_DEFAULT && r->factor != 1.0) {
        return err_set(err, WEFT_UNSUPPORTED, "rope factor %g comes without a rope type",
                       r->factor);
    }
    bool ok = r->theta > 1.0 && r->theta < 1e12 && r->factor >= 1e-3 && r->factor <= 1e6;
    ok = ok && r->low_freq_factor > 0.0 && r->high_freq_factor >= r->low_freq_factor;
    ok = ok && r->beta_fast > 0.0 && r->beta_slow > 0.0 && r->original_context >= 0.0;
    ok = ok && isfinite(r->beta_fast) && isfinite(r->beta_slow) && isfinite(r->original_context);
    ok = ok && isfinite(r->attention_factor) && isfinite(r->mscale) && isfinite(r->mscale_all_dim);
    if (ok && r->kind == ROPE_PROPORTIONAL) ok = r->partial > 0.0 && r->partial <= 1.0;
    if (ok && r->kind == ROPE_LONG) ok = r->original_context >= 2.0;
    if (ok && (r->kind == ROPE_LLAMA3 || r->kind == ROPE_YARN)) ok = r->original_context >= 1.0;
    if (ok) return WEFT_OK;
    return err_set(err, WEFT_FORMAT,
                   "rope settings out of range: theta %g, factor %g, original context %g", r->theta,
                   r->factor, r->original_context);
}

/* The number under a key, left alone when absent. */
static weft_status read_number(const json *settings, const char *key, double *number,
                               weft_error *err)
{
    const json *value = json_get(settings, key);
    json_kind kind = json_kind_of(value);
    if (kind == JSON_KIND_NULL) return WEFT_OK;
    if (kind != JSON_KIND_INT && kind != JSON_KIND_REAL) {
        return err_set(err, WEFT_FORMAT, "config.json: rope '%s' is %s, expected a number", key,
                       json_kind_name(kind));
    }
    *number = json_number(value, 0.0);
    return WEFT_OK;
}

static weft_status read_json(rope_params *rope, const json *settings, weft_error *err)
{
    str kind = json_text(json_get(settings, "rope_type"));
    if (kind.len == 0) kind = json_text(json_get(settings, "type"));
    weft_status status = kind.len == 0 ? WEFT_OK : parse_kind(rope, kind, err);
    rope->truncate = json_bool(json_get(settings, "truncate"), true);
    if (status == WEFT_OK) status = read_number(settings, "rope_theta", &rope->theta, err);
    for (size_t i = 0; i < COUNT_OF(ROWS) && status == WEFT_OK; i++) {
        double *field = (double *)(void *)((char *)rope + ROWS[i].offset);
        status = read_number(settings, ROWS[i].json_key, field, err);
    }
    return status;
}

/* What a key beside the settings says, which goes before what stands in them; and a factor that
 * follows. */
static weft_status read_context(rope_params *rope, const model_source *s, const json *settings,
                                weft_error *err)
{
    static const char KEY[] = "original_max_position_embeddings";
    bool scaled = rope->kind == ROPE_LLAMA3 || rope->kind == ROPE_YARN || rope->kind == ROPE_LONG;
    bool found;
    double number;
    weft_status status = source_number(s, KEY, NULL, &found, &number, err);
    if (status == WEFT_OK && found && scaled) rope->original_context = number;
    if (rope->kind == ROPE_LONG && json_kind_of(json_get(settings, "factor")) == JSON_KIND_NULL)
        rope->factor = rope->context / rope->original_context;
    return status;
}

/* Keys that would change the frequencies and that nothing here computes. */
static weft_status refuse_gguf_keys(const rope_params *rope, const model_source *s, weft_error *err)
{
    static const char *const KEYS[] = {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor",
                                       "rope.scaling.yarn_ext_factor", "rope.scale_linear"};
    /* Long ropes have the first, yarn the second: see read_long and read_yarn. */
    for (size_t i = rope->kind == ROPE_LONG ? 1 : 0; i < COUNT_OF(KEYS); i++) {
        bool found;
        if (i == 1 && rope->kind == ROPE_YARN) continue;
        double number;
        weft_status status = source_number(s, NULL, KEYS[i], &found, &number, err);
        if (status != WEFT_OK) return status;
        if (found && number != 1.0) {
            return err_set(err, WEFT_UNSUPPORTED, "'%s' is %g, which is not supported", KEYS[i],
                           number);
        }
    }
    return WEFT_OK;
}

/* That a file has factors says that its rope is a long one. */
static weft_status read_long(rope_params *rope, const model_source *s, weft_error *err)
{
    bool found;
    double number;
    rope->kind = ROPE_LONG;
    rope->attention_factor = 1.0;
    weft_status status = source_number(s, NULL, "rope.scaling.attn_factor", &found, &number, err);
    if (status == WEFT_OK && found) rope->attention_factor = number;
    return status;
}

/* The magnitude that a config has given. */
static weft_status read_yarn(rope_params *rope, const model_source *s, weft_error *err)
{
    bool found;
    return source_number(s, NULL, "rope.scaling.yarn_attn_factor", &found, &rope->attention_factor,
                         err);
}

static weft_status read_gguf(rope_params *rope, const model_source *s, weft_error *err)
{
    bool found;
    str kind;
    weft_status status = source_text(s, NULL, "rope.scaling.type", &found, &kind, err);
    if (status == WEFT_OK && found) status = parse_kind(rope, kind, err);
    bool is_long = weights_find(s->weights, ROPE_LONG_TENSOR) != NULL;
    if (status == WEFT_OK && is_long) status = read_long(rope, s, err);
    if (status == WEFT_OK && rope->kind == ROPE_YARN) status = read_yarn(rope, s, err);
    if (status == WEFT_OK) status = refuse_gguf_keys(rope, s, err);
    for (size_t i = 0; i < COUNT_OF(ROWS) && status == WEFT_OK; i++) {
        double number;
        status = source_number(s, NULL, ROWS[i].gguf_key, &found, &number, err);
        if (status == WEFT_OK && found) *(double *)(void *)((char *)rope + ROWS[i].offset) = number;
    }
    return status;
}

weft_status rope_config(rope_params *rope, const model_source *source, const json *settings,
                        double theta, uint32_t context, weft_error *err)
{
    weft_status status = rope_config_alpha(rope, source, settings, theta, context, err);
    if (status != WEFT_OK || rope->kind != ROPE_ALPHA) return status;
    return refuse_dynamic(err);
}

weft_status rope_config_alpha(rope_params *rope, const model_source *source, const json *settings,
                              double theta, uint32_t context, weft_error *err)
{
    *rope = (rope_params){.kind = ROPE_DEFAULT, .theta = theta, .truncate = true};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        *(double *)(void *)((char *)rope + ROWS[i].offset) = ROWS[i].fallback;
    }
    rope->original_context = (double)context;
    rope->context = (double)context;
    weft_status status = WEFT_OK;
    if (source->is_gguf) {
        status = read_gguf(rope, source, err);
    } else if (json_kind_of(settings) == JSON_KIND_OBJECT) {
        status = read_json(rope, settings, err);
        if (status == WEFT_OK) status = read_context(rope, source, settings, err);
    } else if (json_kind_of(settings) != JSON_KIND_NULL) {
        status = err_set(err, WEFT_FORMAT, "config.json: rope settings are %s, expected an object",
                         json_kind_name(json_kind_of(settings)));
    }
    return status == WEFT_OK ? check(rope, err) : status;
}

/* Low frequencies are divided by the factor, high ones kept, those between blended. */
static double llama3_freq(const rope_params *r, double inv)
{
    double wave = 2.0 * 3.14159265358979323846 / inv;
    double low = r->original_context / r->low_freq_factor;
    double high = r->original_context / r->high_freq_factor;
    if (wave > low) return inv / r->factor;
    if (wave < high) return inv;
    double smooth = (r->original_context / wave - r->low_freq_factor) /
                    (r->high_freq_factor - r->low_freq_factor);
    return inv * ((1.0 - smooth) / r->factor + smooth);
}

static double yarn_dim(const rope_params *r, uint32_t n_dims, double rotations)
{
    double turns = r->original_context / (rotations * 2.0 * 3.14159265358979323846);
    return (double)n_dims * log(turns) / (2.0 * log(r->theta));
}

static double yarn_freq(const rope_params *r, uint32_t n_dims, uint32_t j, double inv)
{
    double low = yarn_dim(r, n_dims, r->beta_fast);
    double high = yarn_dim(r, n_dims, r->beta_slow);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    if (low < 0.0) low = 0.0;
    if (high > (double)n_dims - 1.0) high = (double)n_dims - 1.0;
    if (low == high) high += 0.001;
    double ramp = ((double)j - low) / (high - low);
    ramp = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
    return inv / r->factor * ramp + inv * (1.0 - ramp);
}

static double yarn_magnitude(const rope_params *r)
{
    if (r->attention_factor != 0.0) return r->attention_factor;
    if (r->factor <= 1.0) return 1.0;
    double ln = log(r->factor);
    if (r->mscale != 0.0 && r->mscale_all_dim != 0.0) {
        return (0.1 * r->mscale * ln + 1.0) / (0.1 * r->mscale_all_dim * ln + 1.0);
    }
    return 0.1 * ln + 1.0;
}

bool rope_is_long(const rope_params *r)
{
    return r->context > r->original_context;
}

weft_status rope_long_factors(const rope_params *r, const model_source *source, float *factors,
                              uint32_t n_pairs, weft_error *err)
{
    const char *key = rope_is_long(r) ? "long_factor" : "short_factor";
    const json *settings = json_get(source->config, "rope_parameters");
    if (json_kind_of(settings) == JSON_KIND_NULL)
        settings = json_get(source->config, "rope_scaling");
    const json *list = json_get(settings, key);
    if (json_kind_of(list) != JSON_KIND_ARRAY || json_length(list) != n_pairs) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: rope settings have %zu numbers in %s, "
                       "expected %u",
                       json_length(list), key, n_pairs);
    }
    for (uint32_t i = 0; i < n_pairs; i++) {
        double number = json_number(json_at(list, i), 0.0);
        if (!(number > 1e-6 && number < 1e6))
            return err_set(err, WEFT_FORMAT, "config.json: %s of pair %u is %g", key, i, number);
        factors[i] = (float)number;
    }
    return WEFT_OK;
}

static double long_magnitude(const rope_params *r)
{
    if (r->attention_factor != 0.0) return r->attention_factor;
    return r->factor <= 1.0 ? 1.0 : sqrt(1.0 + log(r->factor) / log(r->original_context));
}

static double magnitude_of(const rope_params *r)
{
    if (r->kind == ROPE_YARN) return yarn_magnitude(r);
    return r->kind == ROPE_LONG ? long_magnitude(r) : 1.0;
}

weft_status rope_table(graph_rope *out, arena *a, const rope_params *rope, uint32_t n_dims,
                       bool interleaved, const float *factors, weft_error *err)
{
    uint32_t n_pairs = n_dims / 2;
    float *table = arena_array(a, n_pairs, sizeof *table);
    double theta = rope->theta;
    if (rope->kind == ROPE_ALPHA && n_dims > 2)
        theta *= pow(rope->alpha, (double)n_dims / ((double)n_dims - 2.0));
    if (table == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a rope table");
    for (uint32_t j = 0; j < n_pairs; j++) {
        double inv = pow(theta, -2.0 * (double)j / (double)n_dims);
        bool slower = rope->kind == ROPE_LINEAR || rope->kind == ROPE_PROPORTIONAL;
        if (slower) inv /= rope->factor;
        /* Pairs that stand still have frequency 0. */
        bool turns = (double)j < floor((double)n_dims * rope->partial) / 2.0;
        if (rope->kind == ROPE_PROPORTIONAL && !turns) inv = 0.0;
        if (rope->kind == ROPE_LLAMA3) inv = llama3_freq(rope, inv);
        if (rope->kind == ROPE_YARN) inv = yarn_freq(rope, n_dims, j, inv);
        if (factors != NULL) inv /= (double)factors[j];
        table[j] = (float)inv;
    }
    *out = (graph_rope){.inv_freq = table,
                        .n_pairs = n_pairs,
                        .interleaved = interleaved,
                        .magnitude = (float)magnitude_of(rope)};
    return WEFT_OK;
}

static uint8_t axis_of(const rope_params *rope, uint32_t pair)
{
    if (rope->axes == ROPE_AXES_FIRST) return 0;
    if (rope->axes == ROPE_AXES_INTERLEAVED) {
        uint32_t axis = pair % GRAPH_AXES;
        return pair < GRAPH_AXES * rope->sections[axis] ? (uint8_t)axis : 0;
    }
    uint8_t axis = 0;
    while (axis + 1 < GRAPH_AXES && pair >= rope->sections[axis]) pair -= rope->sections[axis++];
    return axis;
}

weft_status rope_axes_table(graph_rope *out, arena *a, const rope_params *rope, weft_error *err)
{
    if (rope->axes == ROPE_AXES_NONE) return WEFT_OK;
    uint32_t n = out->n_pairs;
    bool runs = rope->axes == ROPE_AXES_RUNS;
    for (uint32_t i = 0; i < GRAPH_AXES && runs; i++) n = (i == 0 ? 0 : n) + rope->sections[i];
    uint8_t *axes = arena_array(a, n, sizeof *axes);
    float *table = arena_array(a, n, sizeof *table);
    if (axes == NULL || table == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a rope table");
    for (uint32_t j = 0, of_run = 0; j < n; j++, of_run++) {
        axes[j] = axis_of(rope, j);
        if (j > 0 && axes[j] != axes[j - 1]) of_run = 0;
        table[j] = out->inv_freq[runs ? of_run : j];
    }
    out->axes = axes;
    out->inv_freq = table;
    out->n_pairs = n;
    return WEFT_OK;
}
