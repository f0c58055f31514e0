/* config_json.c - what a config says, and what it leaves to be known.
 *
 * Transformers writes rope settings in one place, leaves out what is a default of its own, and
 * calls text models otherwise than MLX. So a member of the family's parameters that is missing is
 * written as it was understood, beside the members that are there; a GGUF file has only those. */
#include "convert/config_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "models/dense.h"

typedef struct writer {
    const plan *p;
    const model_params *params;
    const json *config, *top; /* of the source; NULL for GGUF */
    strbuf *out;
    bool any; /* a member of the object being written */
} writer;

static void begin_member(writer *w, const char *key)
{
    if (w->any) strbuf_add_char(w->out, ',');
    w->any = true;
    json_write_text(str_of(key), w->out);
    strbuf_add_char(w->out, ':');
}

/* The shortest decimal that is this f32, without a point, which would be the locale's: 625e-4. Not
 * negative. */
static void add_number(strbuf *out, double number)
{
    if (number == floor(number) && number < 1e15) {
        strbuf_printf(out, "%.0f", number);
        return;
    }
    int exponent = (int)floor(log10(number));
    double digits = 0.0;
    int shift = 0;
    for (int n = 1; n <= 9; n++) {
        shift = n - 1 - exponent;
        digits = rint(number * pow(10.0, shift));
        double back = shift >= 0 ? digits / pow(10.0, shift) : digits * pow(10.0, -shift);
        if ((float)back == (float)number) break;
    }
    strbuf_printf(out, "%.0fe%d", digits, -shift);
}

static bool says(const writer *w, const char *key)
{
    return json_get(w->config, key) != NULL || json_get(w->top, key) != NULL;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* n, where the flag is false in every n-th layer and true in the others; 0: that is not so. */
static uint32_t period(const bool *flags, uint32_t n_layers)
{
    uint32_t n = 0;
    while (n < n_layers && flags[n]) n++;
    n++;
    for (uint32_t i = 0; i < n_layers; i++) {
        if (flags[i] != ((i + 1) % n != 0)) return 0;
    }
    return n;
}

/* The number of a parameter as it is used, which is not always the one that was read. */
static double number_of(const writer *w, const model_param *row)
{
    const model_params *p = w->params;
    const char *field = (const char *)p + row->offset;
    if (row->offset == SHAPE(rope_theta) && p->n_ropes > 0) return p->ropes[0].theta;
    if (row->offset == SHAPE(rope_theta_local)) return p->n_ropes > 1 ? p->ropes[1].theta : 0.0;
    if (row->offset == SHAPE(window_pattern)) return period(p->is_window, p->n_layers);
    /* GGUF files have the columns that rotate. */
    if (row->offset == SHAPE(partial_rotary) && w->p->source.is_gguf)
        return (double)p->rope_dims / (double)p->head_dim;
    if (row->offset == SHAPE(full_interval)) return period(p->is_recurrent, p->n_layers);
    if (row->type == PARAM_U32) return *(const uint32_t *)(const void *)field;
    double number = (double)*(const float *)(const void *)field;
    bool scale = row->offset == SHAPE(query_pre_attn_scalar) && number == 0.0;
    if (scale && p->attn_scale > 0.0F) return 1.0 / ((double)p->attn_scale * (double)p->attn_scale);
    return number;
}

static void add_param(writer *w, const model_param *row)
{
    if (row->json_key == NULL || row->offset == SHAPE(tied) || says(w, row->json_key)) return;
    if (row->type == PARAM_BOOL) {
        begin_member(w, row->json_key);
        bool flag = *(const bool *)(const void *)((const char *)w->params + row->offset);
        strbuf_add_text(w->out, flag ? "true" : "false");
        return;
    }
    double number = number_of(w, row);
    /* A size of 0 is one that the model does not have. */
    if (number == 0.0 || !(number >= row->min && number <= row->max)) return;
    begin_member(w, row->json_key);
    add_number(w->out, number);
}

/* ---- rope ------------------------------------------------------------------------------------ */

static bool is_plain(const json *settings)
{
    str kind = json_text(json_get(settings, "rope_type"));
    if (kind.len == 0) kind = json_text(json_get(settings, "type"));
    /* Gemma 4's proportional rope has a place of its own in MLX, too. */
    return kind.len == 0 || str_equal_text(kind, "default") || str_equal_text(kind, "proportional");
}

/* mlx-lm reads rope_scaling, Transformers has written rope_parameters since its version 5; the same
 * goes for the part of a head that rotates, which is a parameter of dense decoders. */
static void add_rope_scaling(writer *w)
{
    const json *settings = json_get(w->config, "rope_parameters");
    const json *part = json_get(settings, "partial_rotary_factor");
    if (json_kind_of(part) != JSON_KIND_NULL && !says(w, "partial_rotary_factor") &&
        w->p->model->family->dense == NULL) {
        begin_member(w, "partial_rotary_factor");
        json_write(part, 0, w->out);
    }
    const json *full = json_get(settings, "full_attention");
    if (json_kind_of(full) == JSON_KIND_OBJECT) settings = full;
    if (says(w, "rope_scaling") || is_plain(settings)) return;
    begin_member(w, "rope_scaling");
    json_write(settings, 0, w->out);
}

/* The divisors of Llama 3's GGUF files, if they are those of its settings. */
static bool is_llama3(const tensor *divisors, double theta, uint32_t n_dims, double *factor)
{
    enum { PAIRS = 1024 };
    float d[PAIRS];
    if (divisors->n_cols > PAIRS) return false;
    divisors->encoding->decode_row(divisors, 0, d);
    *factor = 1.0;
    for (uint64_t i = 0; i < divisors->n_cols; i++) {
        if ((double)d[i] > *factor) *factor = (double)d[i];
    }
    for (uint64_t i = 0; i < divisors->n_cols; i++) {
        double wave = 2.0 * 3.14159265358979323846 * pow(theta, 2.0 * (double)i / (double)n_dims);
        double smooth = (8192.0 / wave - 1.0) / 3.0;
        double expected = smooth <= 0.0   ? *factor
                          : smooth >= 1.0 ? 1.0
                                          : 1.0 / ((1.0 - smooth) / *factor + smooth);
        if (fabs((double)d[i] - expected) > 1e-4 * expected) return false;
    }
    return true;
}

static weft_status add_gguf_rope(writer *w, weft_error *err)
{
    const rope_params *r = &w->params->ropes[0];
    const tensor *divisors = weights_find(w->p->source.weights, "rope_freqs.weight");
    double factor = r->factor;
    const char *kind = r->kind == ROPE_LINEAR ? "linear" : r->kind == ROPE_YARN ? "yarn" : NULL;
    double context = r->original_context;
    if (divisors != NULL) {
        bool known = kind == NULL && divisors->encoding != NULL &&
                     is_llama3(divisors, r->theta, w->params->rope_dims, &factor);
        if (!known) {
            return err_set(err, WEFT_UNSUPPORTED,
                           "tensor 'rope_freqs.weight' has divisors that config.json cannot state");
        }
        kind = "llama3";
        context = 8192.0;
    }
    if (r->kind == ROPE_LONG) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "the divisors of a long rope cannot be converted from a GGUF file");
    }
    if (kind == NULL) return WEFT_OK;
    begin_member(w, "rope_scaling");
    strbuf_printf(w->out, "{\"rope_type\":\"%s\",\"factor\":", kind);
    add_number(w->out, factor);
    if (divisors != NULL)
        strbuf_add_text(w->out, ",\"low_freq_factor\":1.0,\"high_freq_factor\":4.0");
    if (r->kind == ROPE_YARN) {
        strbuf_add_text(w->out, ",\"beta_fast\":");
        add_number(w->out, r->beta_fast);
        strbuf_add_text(w->out, ",\"beta_slow\":");
        add_number(w->out, r->beta_slow);
    }
    strbuf_add_text(w->out, ",\"original_max_position_embeddings\":");
    strbuf_printf(w->out, "%.0f}", context);
    return WEFT_OK;
}

/* ---- what only a GGUF file lacks ------------------------------------------------------------- */

/* Windows where the type that is written has none: a file calls OLMo 3 an olmo2. */
static weft_status check_windows(const writer *w, bool any, weft_error *err)
{
    const dense *d = w->p->model->family->dense;
    if (!any || d == NULL || d->window != DENSE_WINDOW_LISTED) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED, "windows of a GGUF file of '%s' cannot be converted",
                   w->p->model->family->name);
}

static weft_status add_layer_types(writer *w, weft_error *err)
{
    const model_params *p = w->params;
    bool any = false;
    for (uint32_t i = 0; i < p->n_layers; i++) any = any || p->is_window[i];
    weft_status status = check_windows(w, any, err);
    if (status != WEFT_OK || !any) return status;
    begin_member(w, "layer_types");
    for (uint32_t i = 0; i < p->n_layers; i++) {
        strbuf_printf(w->out, "%c\"%s_attention\"", i == 0 ? '[' : ',',
                      p->is_window[i] ? "sliding" : "full");
    }
    strbuf_add_char(w->out, ']');
    return WEFT_OK;
}

static void add_tokens(writer *w)
{
    uint64_t id;
    const llm *m = w->p->model;
    if (gguf_u64(weights_metadata(m->weights, "tokenizer.ggml.bos_token_id"), &id)) {
        begin_member(w, "bos_token_id");
        strbuf_printf(w->out, "%llu", (unsigned long long)id);
    }
    if (m->generation.n_stop_ids == 0) return;
    begin_member(w, "eos_token_id");
    for (uint32_t i = 0; i < m->generation.n_stop_ids; i++)
        strbuf_printf(w->out, "%c%d", i == 0 ? '[' : ',', m->generation.stop_ids[i]);
    strbuf_add_char(w->out, ']');
}

/* ---- objects --------------------------------------------------------------------------------- */

static bool is_one_of(str key, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        if (str_equal_text(key, *keys)) return true;
    }
    return false;
}

static void add_tied(writer *w)
{
    begin_member(w, "tie_word_embeddings");
    strbuf_add_text(w->out, w->p->tied ? "true" : "false");
}

/* What the family's form wants besides; it is well-formed. */
static weft_status add_constants(writer *w, weft_error *err)
{
    const char *text = w->p->mlx->config;
    if (text == NULL) return WEFT_OK;
    json_doc doc;
    weft_status status = json_parse(&doc, text, strlen(text), err);
    if (status != WEFT_OK) return status;
    json_iter iter = {0};
    str key;
    const json *value;
    while (json_next(doc.root, &iter, &key, &value)) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)key.len, key.ptr);
        if (says(w, name)) continue;
        begin_member(w, name);
        json_write(value, 0, w->out);
    }
    json_doc_free(&doc);
    return WEFT_OK;
}

/* Whether a row before this one has its key. */
static bool is_repeated(const model_param *rows, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++) {
        bool same = rows[k].json_key != NULL && rows[i].json_key != NULL;
        if (same && strcmp(rows[k].json_key, rows[i].json_key) == 0) return true;
    }
    return false;
}

static bool has_key(const dense *d, const char *key)
{
    for (uint32_t i = 0; d != NULL && key != NULL && i < d->n_params; i++) {
        if (d->params[i].json_key != NULL && strcmp(d->params[i].json_key, key) == 0) return true;
    }
    return false;
}

/* Rows of the family, and of its record, which may have the same keys. */
static void add_params(writer *w)
{
    const model_family *f = w->p->model->family;
    const dense *d = f->dense;
    for (uint32_t i = 0; i < f->n_params; i++) {
        if (!has_key(d, f->params[i].json_key)) add_param(w, &f->params[i]);
    }
    for (uint32_t i = 0; d != NULL && i < d->n_params; i++) {
        if (!is_repeated(d->params, i)) add_param(w, &d->params[i]);
    }
    if (d == NULL || d->moe == NULL || d->moe->normalize || says(w, "norm_topk_prob")) return;
    begin_member(w, "norm_topk_prob");
    strbuf_add_text(w->out, w->params->route_normalize ? "true" : "false");
}

/* Members of the text model: those that are there, and those that are missing. */
static weft_status add_text_members(writer *w, const char *const *left_out, weft_error *err)
{
    json_iter iter = {0};
    str key;
    const json *value;
    while (json_next(w->config, &iter, &key, &value)) {
        if (is_one_of(key, left_out)) continue;
        if (w->any) strbuf_add_char(w->out, ',');
        w->any = true;
        json_write_text(key, w->out);
        strbuf_add_char(w->out, ':');
        json_write(value, 0, w->out);
    }
    add_tied(w);
    add_params(w);
    weft_status status = add_constants(w, err);
    if (status != WEFT_OK) return status;
    if (!w->p->source.is_gguf) {
        add_rope_scaling(w);
        return WEFT_OK;
    }
    status = add_layer_types(w, err);
    if (status != WEFT_OK) return status;
    add_tokens(w);
    return add_gguf_rope(w, err);
}

static void add_quantization(writer *w, const recipe *r, const char *key)
{
    begin_member(w, key);
    const recipe_choice *usual = &r->usual;
    strbuf_printf(w->out, "{\"group_size\":%u,\"bits\":%u,\"mode\":\"%s\"", usual->group,
                  usual->bits, recipe_mode_name(usual->encoding));
    for (uint32_t i = 0; i < w->p->n_tensors; i++) {
        const plan_tensor *t = &w->p->tensors[i];
        if (!row_form_has_codes(&t->form) || t->usual) continue;
        strbuf_printf(w->out, ",\"%s\":{\"group_size\":%u,\"bits\":%u,\"mode\":\"%s\"}", t->name,
                      t->form.group, t->form.bits, recipe_mode_name(t->form.encoding));
    }
    strbuf_add_char(w->out, '}');
}

/* Other members of the top level, where the text model's are one of them. */
static weft_status add_top_members(writer *w, const char *const *left_out, weft_error *err)
{
    json_iter iter = {0};
    str key;
    const json *value;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && json_next(w->top, &iter, &key, &value)) {
        if (is_one_of(key, left_out)) continue;
        if (w->any) strbuf_add_char(w->out, ',');
        json_write_text(key, w->out);
        strbuf_add_char(w->out, ':');
        if (value == w->config) {
            static const char *const LEFT[] = {"tie_word_embeddings", "quantization",
                                               "quantization_config", NULL};
            w->any = false;
            strbuf_add_char(w->out, '{');
            status = add_text_members(w, LEFT, err);
            strbuf_add_char(w->out, '}');
        } else {
            json_write(value, 0, w->out);
        }
        w->any = true;
    }
    if (json_get(w->top, "tie_word_embeddings") != NULL) add_tied(w);
    return status;
}

static weft_status compose(writer *w, const recipe *r, weft_error *err)
{
    /* Images and sound are left out, and so is how others had quantized the weights. */
    static const char *const LEFT_OUT[] = {
        "model_type",          "tie_word_embeddings", "quantization",
        "quantization_config", "vision_config",       "audio_config",
        "compression_config",  "_name_or_path",       NULL};
    strbuf_add_char(w->out, '{');
    begin_member(w, "model_type");
    json_write_text(str_of(w->p->mlx_type), w->out);
    weft_status status = w->config != w->top ? add_top_members(w, LEFT_OUT, err)
                                             : add_text_members(w, LEFT_OUT, err);
    if (status != WEFT_OK) return status;
    if (w->p->n_codes > 0) {
        add_quantization(w, r, "quantization");
        add_quantization(w, r, "quantization_config");
    }
    strbuf_add_char(w->out, '}');
    return WEFT_OK;
}

weft_status config_json_write(const plan *p, const recipe *r, const weft_allocator *allocator,
                              strbuf *out, weft_error *err)
{
    strbuf text;
    strbuf_init(&text, allocator, WEIGHTS_CONFIG_BYTES);
    writer w = {.p = p, .params = &p->model->params, .out = &text};
    if (!p->source.is_gguf) {
        w.config = p->source.config;
        w.top = p->source.top;
    }
    weft_status status = compose(&w, r, err);
    json_doc doc = {NULL};
    if (status == WEFT_OK && text.status != WEFT_OK)
        status =
            err_set(err, text.status, "config.json has no room in %d bytes", WEIGHTS_CONFIG_BYTES);
    if (status == WEFT_OK) status = json_parse(&doc, text.ptr, text.len, err);
    if (status == WEFT_OK) {
        json_write(doc.root, 4, out);
        strbuf_add_char(out, '\n');
        json_doc_free(&doc);
        if (out->status != WEFT_OK)
            status = err_set(err, out->status, "out of memory for config.json");
    }
    strbuf_deinit(&text);
    return status;
}
