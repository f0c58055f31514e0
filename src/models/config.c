/* config.c - one way to ask config.json or GGUF metadata. */
#include "models/config.h"

#include <stdio.h>

#include "base/assert.h"

weft_status source_init(model_source *s, const weights *w, weft_error *err)
{
    *s = (model_source){.weights = w, .is_gguf = w->metadata != NULL};
    if (s->is_gguf) {
        if (!gguf_text(weights_metadata(w, "general.architecture"), &s->type)) {
            return err_set(err, WEFT_FORMAT, "the file has no general.architecture");
        }
        return WEFT_OK;
    }
    s->top = w->config.root;
    s->config = s->top;
    const json *text = json_get(s->top, "text_config");
    if (json_kind_of(text) == JSON_KIND_OBJECT) s->config = text;
    s->type = json_text(json_get(s->config, "model_type"));
    s->top_type = json_text(json_get(s->top, "model_type"));
    if (s->type.len == 0) s->type = s->top_type;
    if (s->type.len == 0) return err_set(err, WEFT_FORMAT, "config.json has no model_type");
    return WEFT_OK;
}

/* The value under either key; what a key is called in messages goes to name. */
static const gguf_value *metadata(const model_source *s, const char *gguf_key, char name[160])
{
    snprintf(name, 160, "%.*s.%s", (int)(s->type.len < 64 ? s->type.len : 64), s->type.ptr,
             gguf_key);
    return weights_metadata(s->weights, name);
}

static const json *member(const model_source *s, const char *json_key)
{
    const json *value = json_get(s->config, json_key);
    if (json_kind_of(value) == JSON_KIND_NULL) value = json_get(s->top, json_key);
    return json_kind_of(value) == JSON_KIND_NULL ? NULL : value;
}

weft_status source_number(const model_source *s, const char *json_key, const char *gguf_key,
                          bool *found, double *number, weft_error *err)
{
    *found = false;
    if (s->is_gguf) {
        if (gguf_key == NULL) return WEFT_OK;
        char name[160];
        const gguf_value *value = metadata(s, gguf_key, name);
        if (value == NULL) return WEFT_OK;
        if (!gguf_real(value, number))
            return err_set(err, WEFT_FORMAT, "'%s' is not a number", name);
        *found = true;
        return WEFT_OK;
    }
    const json *value = json_key == NULL ? NULL : member(s, json_key);
    if (value == NULL) return WEFT_OK;
    json_kind kind = json_kind_of(value);
    if (kind != JSON_KIND_INT && kind != JSON_KIND_REAL) {
        return err_set(err, WEFT_FORMAT, "config.json: '%s' is %s, expected a number", json_key,
                       json_kind_name(kind));
    }
    *number = json_number(value, 0.0);
    *found = true;
    return WEFT_OK;
}

weft_status source_flag(const model_source *s, const char *json_key, const char *gguf_key,
                        bool *found, bool *flag, weft_error *err)
{
    *found = false;
    if (s->is_gguf) {
        if (gguf_key == NULL) return WEFT_OK;
        char name[160];
        const gguf_value *value = metadata(s, gguf_key, name);
        if (value == NULL) return WEFT_OK;
        if (!gguf_bool(value, flag)) return err_set(err, WEFT_FORMAT, "'%s' is not a flag", name);
        *found = true;
        return WEFT_OK;
    }
    const json *value = json_key == NULL ? NULL : member(s, json_key);
    if (value == NULL) return WEFT_OK;
    if (json_kind_of(value) != JSON_KIND_BOOL) {
        return err_set(err, WEFT_FORMAT, "config.json: '%s' is %s, expected true or false",
                       json_key, json_kind_name(json_kind_of(value)));
    }
    *flag = json_bool(value, false);
    *found = true;
    return WEFT_OK;
}

weft_status source_layers(const model_source *s, const char *gguf_key, uint32_t n, bool *found,
                          bool *single, double *numbers, weft_error *err)
{
    char name[160];
    const gguf_value *value = s->is_gguf ? metadata(s, gguf_key, name) : NULL;
    *found = value != NULL;
    *single = value != NULL && value->type != GGUF_ARRAY;
    if (value == NULL) return WEFT_OK;
    if (!*single && value->n_elements < n) {
        return err_set(err, WEFT_FORMAT, "'%s' has %llu entries for %u layers", name,
                       (unsigned long long)value->n_elements, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        bool flag;
        bool ok = *single ? gguf_real(value, &numbers[i]) : gguf_array_real(value, i, &numbers[i]);
        if (!ok && (gguf_array_bool(value, i, &flag) || gguf_bool(value, &flag))) {
            numbers[i] = flag ? 1.0 : 0.0;
            ok = true;
        }
        if (!ok) return err_set(err, WEFT_FORMAT, "'%s' of layer %u is not a number", name, i);
    }
    return WEFT_OK;
}

weft_status source_text(const model_source *s, const char *json_key, const char *gguf_key,
                        bool *found, str *text, weft_error *err)
{
    *found = false;
    if (s->is_gguf) {
        if (gguf_key == NULL) return WEFT_OK;
        char name[160];
        const gguf_value *value = metadata(s, gguf_key, name);
        if (value == NULL) return WEFT_OK;
        if (!gguf_text(value, text)) return err_set(err, WEFT_FORMAT, "'%s' is not a text", name);
        *found = true;
        return WEFT_OK;
    }
    const json *value = json_key == NULL ? NULL : member(s, json_key);
    if (value == NULL) return WEFT_OK;
    if (json_kind_of(value) != JSON_KIND_TEXT) {
        return err_set(err, WEFT_FORMAT, "config.json: '%s' is %s, expected a text", json_key,
                       json_kind_name(json_kind_of(value)));
    }
    *text = json_text(value);
    *found = true;
    return WEFT_OK;
}
