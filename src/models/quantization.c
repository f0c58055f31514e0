/* quantization.c - the quantization parts of config.json.
 *
 * MLX writes "quantization", and the same again as "quantization_config" without a quant_method;
 * everybody else writes a "quantization_config" with one. */
#include "models/quantization.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "models/config_kinds.h"

enum { PATH_BYTES = 640, SHOWN_BYTES = 64 };

static int shown(str text)
{
    return (int)(text.len < SHOWN_BYTES ? text.len : SHOWN_BYTES);
}

static const json *foreign(const model_source *s)
{
    const json *config = json_get(s->top, "quantization_config");
    bool here = json_kind_of(config) == JSON_KIND_OBJECT;
    return here ? config : json_get(s->config, "quantization_config");
}

str quantization_method(const model_source *s)
{
    return json_text(json_get(foreign(s), "quant_method"));
}

uint32_t quantization_bits(const model_source *s)
{
    int64_t bits = json_int(json_get(foreign(s), "bits"), 4);
    return bits > 0 && bits <= 32 ? (uint32_t)bits : 0;
}

/* ---- methods of others ----------------------------------------------------------------------- */

/* A member that decides what a number means: only these values are understood. */
typedef struct quant_rule {
    const char *method, *key;
    const char *values[4]; /* texts; NULL behind the last */
} quant_rule;

static const char *const METHODS[] = {
    "fp8", "fbgemm_fp8", "compressed-tensors", "modelopt", "mxfp4", "gptq", "awq"};

static const quant_rule RULES[] = {
    {"compressed-tensors",
     "format",
     {"float-quantized", "naive-quantized", "nvfp4-pack-quantized"}},
    {"compressed-tensors", "quantization_status", {"compressed"}},
    {"modelopt", "quant_algo", {"FP8", "NVFP4"}},
    {"fp8", "fmt", {"e4m3"}},
    {"gptq", "checkpoint_format", {"gptq"}},
    {"awq", "version", {"gemm", "GEMM"}},
};

/* Flags that must have a value where they are given. */
static const struct {
    const char *method, *key;
    bool value;
} FLAGS[] = {{"gptq", "desc_act", false}, {"awq", "zero_point", true}};

static weft_status check_rule(const json *config, const quant_rule *rule, weft_error *err)
{
    const json *member = json_get(config, rule->key);
    if (json_kind_of(member) == JSON_KIND_NULL) return WEFT_OK;
    str text = json_text(member);
    for (size_t i = 0; i < COUNT_OF(rule->values) && rule->values[i] != NULL; i++) {
        if (str_equal_text(text, rule->values[i])) return WEFT_OK;
    }
    return err_set(err, WEFT_UNSUPPORTED, "config.json: %s '%.*s' of %s is not supported",
                   rule->key, shown(text), text.ptr, rule->method);
}

static weft_status check_members(const json *config, str method, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(RULES) && status == WEFT_OK; i++) {
        if (str_equal_text(method, RULES[i].method)) status = check_rule(config, &RULES[i], err);
    }
    for (size_t i = 0; i < COUNT_OF(FLAGS) && status == WEFT_OK; i++) {
        if (!str_equal_text(method, FLAGS[i].method)) continue;
        if (json_bool(json_get(config, FLAGS[i].key), FLAGS[i].value) != FLAGS[i].value) {
            status = err_set(err, WEFT_UNSUPPORTED, "config.json: %s %s of %s is not supported",
                             FLAGS[i].key, FLAGS[i].value ? "false" : "true", FLAGS[i].method);
        }
    }
    /* Rotations of inputs and outputs that the weights were quantized with. */
    if (status == WEFT_OK && json_length(json_get(config, "transform_config")) != 0)
        status = err_set(err, WEFT_UNSUPPORTED, "config.json: transform_config is not supported");
    return status;
}

weft_status quantization_check(const model_source *s, weft_error *err)
{
    str method = quantization_method(s);
    bool is_mlx = json_kind_of(json_get(s->top, "quantization")) == JSON_KIND_OBJECT;
    if (method.len == 0 || is_mlx) return WEFT_OK;
    for (size_t i = 0; i < COUNT_OF(METHODS); i++) {
        if (str_equal_text(method, METHODS[i])) return check_members(foreign(s), method, err);
    }
    return err_set(err, WEFT_UNSUPPORTED,
                   "config.json: quantization method '%.*s' is not supported", shown(method),
                   method.ptr);
}

static weft_status read_block(const json *pair, uint32_t *rows, uint32_t *cols, weft_error *err)
{
    int64_t r = json_int(json_at(pair, 0), 0);
    int64_t c = json_int(json_at(pair, 1), 0);
    if (json_length(pair) != 2 || r < 1 || c < 1 || r > UINT16_MAX || c > UINT16_MAX)
        return err_set(err, WEFT_FORMAT, "config.json: a block of scales is not two sizes");
    *rows = (uint32_t)r;
    *cols = (uint32_t)c;
    return WEFT_OK;
}

weft_status quantization_block(const model_source *s, uint32_t *rows, uint32_t *cols,
                               weft_error *err)
{
    *rows = *cols = 0;
    const json *config = foreign(s);
    const json *pair = json_get(config, "weight_block_size");
    if (json_kind_of(pair) != JSON_KIND_NULL) return read_block(pair, rows, cols, err);
    json_iter iter = {0};
    str name;
    const json *group;
    const json *groups = json_get(config, "config_groups");
    while (json_kind_of(groups) == JSON_KIND_OBJECT && json_next(groups, &iter, &name, &group)) {
        pair = json_get(json_get(group, "weights"), "block_structure");
        if (json_kind_of(pair) == JSON_KIND_ARRAY) return read_block(pair, rows, cols, err);
    }
    return WEFT_OK;
}

/* ---- MLX ------------------------------------------------------------------------------------- */

/* What a mode means where the config does not say more. */
typedef struct mlx_mode {
    const char *name;
    const encoding *encoding;
    int64_t bits, group;
} mlx_mode;

static const mlx_mode MODES[] = {
    {"affine", &ENCODING_AFFINE, 4, 64},
    {"mxfp4", &ENCODING_MXFP4_PLANES, 4, 32},
    {"mxfp8", &ENCODING_MXFP8_PLANES, 8, 32},
    {"nvfp4", &ENCODING_NVFP4_PLANES, 4, 16},
};

/* Where a module's path may begin: a config may have been written before its tensors were renamed.
 * Longer ones first. */
static const char *const PREFIXES[] = {"language_model.model.", "model.language_model.",
                                       "language_model.", "model.", ""};

/* The entry for path, under any of its names; NULL when there is none. */
static const json *find_entry(const json *all, const char *path)
{
    const json *entry = json_get(all, path);
    if (json_kind_of(entry) != JSON_KIND_NULL) return entry;
    size_t skip = 0;
    for (size_t i = 0; i < COUNT_OF(PREFIXES) && skip == 0; i++) {
        if (strncmp(path, PREFIXES[i], strlen(PREFIXES[i])) == 0) skip = strlen(PREFIXES[i]);
    }
    for (size_t i = 0; i < COUNT_OF(PREFIXES); i++) {
        char name[PATH_BYTES];
        snprintf(name, sizeof name, "%s%s", PREFIXES[i], path + skip);
        entry = json_get(all, name);
        if (json_kind_of(entry) != JSON_KIND_NULL) return entry;
    }
    return NULL;
}

static weft_status read_mode(const json *entry, const char *path, mlx_quantization *q,
                             weft_error *err)
{
    str name = json_text(json_get(entry, "mode"));
    weft_status status = config_check_quantization(entry, err);
    if (status != WEFT_OK) return status;
    const mlx_mode *mode = name.len == 0 ? &MODES[0] : NULL;
    for (size_t i = 0; i < COUNT_OF(MODES) && mode == NULL; i++) {
        if (str_equal_text(name, MODES[i].name)) mode = &MODES[i];
    }
    if (mode == NULL) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "tensor '%s.weight': quantization mode '%.*s' is not supported", path,
                       shown(name), name.ptr);
    }
    int64_t bits = json_int(json_get(entry, "bits"), mode->bits);
    int64_t group = json_int(json_get(entry, "group_size"), mode->group);
    bool is_affine = mode->encoding == &ENCODING_AFFINE;
    bool ok = is_affine ? bits >= 2 && bits <= 8 && bits != 7 &&
                              (group == 32 || group == 64 || group == 128)
                        : bits == mode->bits && group == mode->group;
    if (!ok) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "tensor '%s.weight': %s with %lld bits in groups of %lld is not supported",
                       path, mode->name, (long long)bits, (long long)group);
    }
    *q = (mlx_quantization){mode->encoding, (uint32_t)bits, (uint32_t)group};
    return WEFT_OK;
}

weft_status quantization_mlx(const model_source *s, const char *path, mlx_quantization *q,
                             weft_error *err)
{
    *q = (mlx_quantization){0};
    const json *all = json_get(s->top, "quantization");
    if (json_kind_of(all) != JSON_KIND_OBJECT) all = json_get(s->top, "quantization_config");
    const json *own = find_entry(all, path);
    json_kind kind = json_kind_of(own);
    if (kind == JSON_KIND_BOOL && !json_bool(own, true)) {
        return err_set(err, WEFT_FORMAT,
                       "tensor '%s.weight' has scales, and config.json says it is not quantized",
                       path);
    }
    return read_mode(kind == JSON_KIND_OBJECT ? own : all, path, q, err);
}
