/* adapters.c - what differs between the forms of a checkpoint: how a quantized tensor is put
 * together.
 *
 * A module P is a matrix stored as one tensor, P.weight, or in one of the FORMS: codes, and beside
 * them scales and the like. What tensors there are decides; the config must not contradict. A form
 * is a row: a tensor that it leaves unused is refused later as one without a place. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "models/model.h"
#include "models/quantization.h"

enum { NAME_BYTES = 512, PATH_BYTES = NAME_BYTES - 32, FORM_PARTS = 3 };

/* The tensors of a module that has a form. */
typedef struct form_parts {
    const char *path;             /* of the module */
    const tensor *of[FORM_PARTS]; /* as the row names them */
} form_parts;

/* Completes the codes t. */
typedef weft_status form_bind_fn(const model_source *s, const form_parts *parts, tensor *t,
                                 weft_error *err);

typedef struct weight_form {
    const char *codes;             /* behind the module's path */
    const char *type;              /* of the codes; NULL: any */
    const char *parts[FORM_PARTS]; /* that are there, too */
    const char *also[2];           /* parts that may be there and say nothing new */
    form_bind_fn *bind;
} weight_form;

static bool has_type(const tensor *t, const char *type)
{
    return type == NULL || (t->raw_type != NULL && strcmp(t->raw_type, type) == 0);
}

static weft_status bind_mlx(const model_source *s, const form_parts *parts, tensor *t,
                            weft_error *err)
{
    mlx_quantization q;
    weft_status status = quantization_mlx(s, parts->path, &q, err);
    if (status != WEFT_OK) return status;
    if (q.encoding != &ENCODING_AFFINE)
        return tensor_bind_planes(t, parts->of[0], q.encoding, 0.0F, err);
    return err_set(err, WEFT_FORMAT, "tensor '%s.biases' is missing", parts->path);
}

static weft_status bind_affine(const model_source *s, const form_parts *parts, tensor *t,
                               weft_error *err)
{
    mlx_quantization q;
    weft_status status = quantization_mlx(s, parts->path, &q, err);
    if (status != WEFT_OK) return status;
    if (q.encoding != &ENCODING_AFFINE) {
        return err_set(err, WEFT_FORMAT, "tensor '%s.biases' has no place beside %s", parts->path,
                       q.encoding->name);
    }
    return tensor_bind_affine(t, parts->of[0], parts->of[1], q.bits, q.group, err);
}

/* Scales are bytes in MXFP8, floats otherwise. */
static weft_status bind_f8(const model_source *s, const form_parts *parts, tensor *t,
                           weft_error *err)
{
    if (has_type(parts->of[0], "U8") || has_type(parts->of[0], "F8_E8M0"))
        return tensor_bind_planes(t, parts->of[0], &ENCODING_MXFP8_PLANES, 0.0F, err);
    uint32_t rows, cols;
    weft_status status = quantization_block(s, &rows, &cols, err);
    if (status != WEFT_OK) return status;
    return tensor_bind_scales(t, parts->of[0], rows, cols, err);
}

static weft_status bind_mxfp4(const model_source *s, const form_parts *parts, tensor *t,
                              weft_error *err)
{
    (void)s;
    return tensor_bind_planes(t, parts->of[0], &ENCODING_MXFP4_PLANES, 0.0F, err);
}

/* The number of a tensor that holds one. */
static weft_status read_factor(const tensor *t, float *factor, weft_error *err)
{
    if (t->encoding == NULL || t->n_rows * t->n_cols != 1) {
        return err_set(err, WEFT_FORMAT, "tensor '%s' is [%llu, %llu], expected one number",
                       t->name, (unsigned long long)t->n_rows, (unsigned long long)t->n_cols);
    }
    t->encoding->decode_row(t, 0, factor);
    if (isfinite(*factor) && *factor > 0.0F) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "tensor '%s' is %g, expected a positive number", t->name,
                   (double)*factor);
}

/* ModelOpt: scales are multiplied by what the last part holds. */
static weft_status bind_nvfp4(const model_source *s, const form_parts *parts, tensor *t,
                              weft_error *err)
{
    (void)s;
    float factor;
    weft_status status = read_factor(parts->of[1], &factor, err);
    if (status != WEFT_OK) return status;
    return tensor_bind_planes(t, parts->of[0], &ENCODING_NVFP4_PLANES, factor, err);
}

/* compressed-tensors: scales are divided by it. */
static weft_status bind_nvfp4_divided(const model_source *s, const form_parts *parts, tensor *t,
                                      weft_error *err)
{
    (void)s;
    float factor;
    weft_status status = read_factor(parts->of[1], &factor, err);
    if (status != WEFT_OK) return status;
    factor = 1.0F / factor;
    if (!(factor > 0.0F))
        return err_set(err, WEFT_FORMAT, "tensor '%s' is too large", parts->of[1]->name);
    return tensor_bind_planes(t, parts->of[0], &ENCODING_NVFP4_PLANES, factor, err);
}

/* llama.cpp: a number beside blocks of NVFP4. */
static weft_status bind_factor(const model_source *s, const form_parts *parts, tensor *t,
                               weft_error *err)
{
    (void)s;
    return read_factor(parts->of[0], &t->factor, err);
}

/* Columns may have been sorted by when they were quantized; only their own order is read. */
static weft_status check_order(const tensor *t, const tensor *order, weft_error *err)
{
    bool ok = has_type(order, "I32") && order->n_rows * order->n_cols == t->n_cols;
    for (uint64_t i = 0; ok && i < t->n_cols; i++) {
        uint32_t group;
        memcpy(&group, order->planes[0] + i * sizeof group, sizeof group);
        ok = group == i / t->group;
    }
    if (ok) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED, "tensor '%s' has columns in another order (desc_act)",
                   order->name);
}

/* GPTQ and AWQ have the same names. */
static weft_status bind_transposed(const model_source *s, const form_parts *parts, tensor *t,
                                   weft_error *err)
{
    str method = quantization_method(s);
    bool is_awq = str_equal_text(method, "awq");
    if (!is_awq && !str_equal_text(method, "gptq")) {
        return err_set(
            err, WEFT_UNSUPPORTED,
            "tensor '%s' is packed as GPTQ or AWQ do, and config.json does not say which", t->name);
    }
    const encoding *e = is_awq ? &ENCODING_AWQ : &ENCODING_GPTQ;
    weft_status status =
        tensor_bind_transposed(t, parts->of[0], parts->of[1], e, quantization_bits(s), err);
    if (status != WEFT_OK || parts->of[2] == NULL) return status;
    return check_order(t, parts->of[2], err);
}

/* A longer list of parts stands before a shorter one that it begins with. */
// clang-format off
static const weight_form FORMS[] = {
    {".weight", NULL, {".scales", ".biases"}, {NULL}, bind_affine},
    {".weight", NULL, {".scales"}, {NULL}, bind_mlx},
    {".weight", "F8_E4M3", {".weight_scale_inv"}, {".activation_scale", ".input_scale"}, bind_f8},
    {".weight", "F8_E4M3", {".weight_scale"}, {".input_scale", ".input_scale_ub"}, bind_f8},
    {".weight", "U8", {".weight_scale", ".weight_scale_2"}, {".input_scale"}, bind_nvfp4},
    {".weight_packed", "U8", {".weight_scale", ".weight_global_scale"}, {".input_global_scale"},
     bind_nvfp4_divided},
    {".qweight", NULL, {".scales", ".qzeros", ".g_idx"}, {NULL}, bind_transposed},
    {".qweight", NULL, {".scales", ".qzeros"}, {NULL}, bind_transposed},
    {"_blocks", "U8", {"_scales"}, {NULL}, bind_mxfp4},
    {".weight", "nvfp4", {".scale"}, {".input_scale"}, bind_factor},
};
// clang-format on

/* Of a quantized key or value cache, which is chosen otherwise here. */
static const char *const UNUSED_PARTS[] = {".k_scale", ".v_scale"};

static const tensor *find_part(const model_source *s, const char *path, const char *part)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s%s", path, part);
    return weights_find(s->weights, full);
}

/* The row that the tensors at path fit, with its codes and parts; NULL when they fit none. */
static const weight_form *find_form(const model_source *s, const char *path, const tensor **codes,
                                    form_parts *parts)
{
    for (size_t i = 0; i < COUNT_OF(FORMS); i++) {
        const weight_form *form = &FORMS[i];
        *codes = find_part(s, path, form->codes);
        if (*codes == NULL || !has_type(*codes, form->type)) continue;
        *parts = (form_parts){.path = path};
        bool all = true;
        for (size_t p = 0; p < FORM_PARTS && form->parts[p] != NULL; p++) {
            parts->of[p] = find_part(s, path, form->parts[p]);
            all = all && parts->of[p] != NULL;
        }
        if (all) return form;
    }
    return NULL;
}

/* The module's path: the name without ".weight". Names of slots are short, those of files not. */
static void path_of(const char *name, char path[PATH_BYTES])
{
    str text = str_of(name);
    size_t n = text.len - (str_ends(text, ".weight") ? strlen(".weight") : 0);
    snprintf(path, PATH_BYTES, "%.*s", (int)n, name);
}

static void mark(const model_source *s, const tensor *t, bool *used)
{
    if (t != NULL) used[t - s->weights->tensors] = true;
}

bool llm_has_tensor(const model_source *s, const char *name)
{
    char path[PATH_BYTES];
    const tensor *codes;
    form_parts parts;
    path_of(name, path);
    return weights_find(s->weights, name) != NULL || find_form(s, path, &codes, &parts) != NULL;
}

static weft_status bind_form(const model_source *s, const weight_form *form,
                             const form_parts *parts, tensor *t, bool *used, weft_error *err)
{
    for (size_t p = 0; p < FORM_PARTS; p++) mark(s, parts->of[p], used);
    for (size_t p = 0; p < COUNT_OF(form->also); p++) {
        if (form->also[p] != NULL) mark(s, find_part(s, parts->path, form->also[p]), used);
    }
    return form->bind(s, parts, t, err);
}

weft_status llm_bind_tensor(const model_source *s, const char *name, tensor *t, bool *used,
                            weft_error *err)
{
    char path[PATH_BYTES];
    const tensor *codes;
    form_parts parts;
    path_of(name, path);
    const weight_form *form = find_form(s, path, &codes, &parts);
    if (form == NULL) codes = weights_find(s->weights, name);
    if (codes == NULL) return err_set(err, WEFT_FORMAT, "tensor '%s' is missing", name);
    mark(s, codes, used);
    for (size_t p = 0; p < COUNT_OF(UNUSED_PARTS); p++)
        mark(s, find_part(s, path, UNUSED_PARTS[p]), used);
    *t = *codes;
    if (form != NULL) return bind_form(s, form, &parts, t, used, err);
    if (t->encoding == NULL) {
        return err_set(err, WEFT_UNSUPPORTED, "tensor '%s' has type %s, which is not supported",
                       name, t->raw_type != NULL ? t->raw_type : "unknown");
    }
    return WEFT_OK;
}
