/* config_kinds.c - what kind of value stands under keys that decide what is computed.
 *
 * Those that are read by source_number() and its like are checked there. These are walked, or read
 * with a default: a value of another kind would give the default, and another model. */
#include "models/config_kinds.h"

#include "base/assert.h"

typedef struct kind_row {
    const char *key;
    json_kind kind; /* a real: any number */
} kind_row;

static const kind_row MODEL_ROWS[] = {
    {"layer_types", JSON_KIND_ARRAY},       {"mlp_layer_types", JSON_KIND_ARRAY},
    {"mlp_only_layers", JSON_KIND_ARRAY},   {"no_rope_layers", JSON_KIND_ARRAY},
    {"full_attn_idxs", JSON_KIND_ARRAY},    {"deepstack_visual_indexes", JSON_KIND_ARRAY},
    {"per_layer_config", JSON_KIND_OBJECT}, {"attn_output_gate", JSON_KIND_BOOL},
    {"qk_layernorm", JSON_KIND_BOOL},
};

static const kind_row ROPE_ROWS[] = {
    {"rope_type", JSON_KIND_TEXT},
    {"type", JSON_KIND_TEXT},
    {"truncate", JSON_KIND_BOOL},
    {"mrope_interleaved", JSON_KIND_BOOL},
    {"mrope_section", JSON_KIND_ARRAY},
    {"long_factor", JSON_KIND_ARRAY},
    {"short_factor", JSON_KIND_ARRAY},
    {"full_attention", JSON_KIND_OBJECT},
    {"sliding_attention", JSON_KIND_OBJECT},
    {"rope_theta", JSON_KIND_REAL},
    {"partial_rotary_factor", JSON_KIND_REAL},
    {"llama_4_scaling_beta", JSON_KIND_REAL},
};

static const kind_row QUANT_ROWS[] = {
    {"quant_method", JSON_KIND_TEXT},
    {"mode", JSON_KIND_TEXT},
    {"bits", JSON_KIND_INT},
    {"group_size", JSON_KIND_INT},
    {"desc_act", JSON_KIND_BOOL},
    {"zero_point", JSON_KIND_BOOL},
    {"transform_config", JSON_KIND_OBJECT},
    {"config_groups", JSON_KIND_OBJECT},
};

static weft_status check_row(const json *object, kind_row row, weft_error *err)
{
    json_kind kind = json_kind_of(json_get(object, row.key));
    bool number = row.kind == JSON_KIND_REAL;
    if (kind == JSON_KIND_NULL || kind == row.kind) return WEFT_OK;
    if (number && kind == JSON_KIND_INT) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "config.json: '%s' is %s, expected %s", row.key,
                   json_kind_name(kind), number ? "a number" : json_kind_name(row.kind));
}

static weft_status check_rows(const json *object, const kind_row *rows, size_t n, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && status == WEFT_OK; i++) status = check_row(object, rows[i], err);
    return status;
}

/* Settings for all layers, or one below the other for each kind of layer. */
static weft_status check_rope(const json *config, const char *key, weft_error *err)
{
    const json *settings = json_get(config, key);
    const json *levels[] = {settings, json_get(settings, "full_attention"),
                            json_get(settings, "sliding_attention")};
    weft_status status = check_row(config, (kind_row){key, JSON_KIND_OBJECT}, err);
    for (size_t i = 0; i < COUNT_OF(levels) && status == WEFT_OK; i++)
        status = check_rows(levels[i], ROPE_ROWS, COUNT_OF(ROPE_ROWS), err);
    return status;
}

weft_status config_check_quantization(const json *entry, weft_error *err)
{
    return check_rows(entry, QUANT_ROWS, COUNT_OF(QUANT_ROWS), err);
}

static weft_status check_quantization(const json *config, const char *key, weft_error *err)
{
    weft_status status = check_row(config, (kind_row){key, JSON_KIND_OBJECT}, err);
    return status == WEFT_OK ? config_check_quantization(json_get(config, key), err) : status;
}

weft_status config_check_kinds(const model_source *s, weft_error *err)
{
    if (s->is_gguf) return WEFT_OK;
    const json *places[] = {s->top, s->config};
    weft_status status = check_rows(s->config, MODEL_ROWS, COUNT_OF(MODEL_ROWS), err);
    if (status == WEFT_OK) status = check_rope(s->config, "rope_parameters", err);
    if (status == WEFT_OK) status = check_rope(s->config, "rope_scaling", err);
    for (size_t i = 0; i < COUNT_OF(places) && status == WEFT_OK; i++) {
        status = check_quantization(places[i], "quantization", err);
        if (status == WEFT_OK) status = check_quantization(places[i], "quantization_config", err);
    }
    return status;
}
