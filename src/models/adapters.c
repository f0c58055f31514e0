/* adapters.c - what differs between the forms of a checkpoint: names, and how a quantized tensor is
 * put together.
 *
 * MLX stores a quantized module P as P.weight (codes), P.scales and P.biases, and says in
 * config.json's "quantization" which width and group: an entry under the module's path wins and
 * inherits nothing. */
#include <stdio.h>
#include <string.h>

#include "models/model.h"

enum { NAME_BYTES = 512 };

static const tensor *find_part(const model_source *s, const char *name, size_t stem,
                               const char *part, bool *used)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%.*s%s", (int)stem, name, part);
    const tensor *t = weights_find(s->weights, full);
    if (t != NULL) used[t - s->weights->tensors] = true;
    return t;
}

/* Width and group for the module at path. */
static weft_status quant_of(const model_source *s, const char *path, uint32_t *bits,
                            uint32_t *group, weft_error *err)
{
    const json *all = json_get(s->top, "quantization");
    if (json_kind_of(all) != JSON_KIND_OBJECT) all = json_get(s->top, "quantization_config");
    const json *own = json_get(all, path);
    if (json_kind_of(own) != JSON_KIND_OBJECT) own = all;
    str mode = json_text(json_get(own, "mode"));
    if (mode.len != 0 && !str_equal_text(mode, "affine")) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "tensor '%s.weight': quantization mode '%.*s' is not supported", path,
                       (int)(mode.len < 64 ? mode.len : 64), mode.ptr);
    }
    int64_t b = json_int(json_get(own, "bits"), 4);
    int64_t g = json_int(json_get(own, "group_size"), 64);
    bool ok = (b >= 2 && b <= 8 && b != 7) && (g == 32 || g == 64 || g == 128);
    if (!ok) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "tensor '%s.weight': %lld bits in groups of %lld are not supported", path,
                       (long long)b, (long long)g);
    }
    *bits = (uint32_t)b;
    *group = (uint32_t)g;
    return WEFT_OK;
}

weft_status llm_bind_tensor(const model_source *s, const char *name, tensor *t, bool *used,
                            weft_error *err)
{
    const tensor *found = weights_find(s->weights, name);
    if (found == NULL) return err_set(err, WEFT_FORMAT, "tensor '%s' is missing", name);
    used[found - s->weights->tensors] = true;
    *t = *found;
    size_t n = strlen(name);
    size_t suffix = strlen(".weight");
    bool is_weight = n > suffix && n < NAME_BYTES - 16 && strcmp(name + n - suffix, ".weight") == 0;
    const tensor *scales =
        is_weight && !s->is_gguf ? find_part(s, name, n - suffix, ".scales", used) : NULL;
    if (scales != NULL) {
        char path[NAME_BYTES];
        snprintf(path, sizeof path, "%.*s", (int)(n - suffix), name);
        uint32_t bits = 0;
        uint32_t group = 0;
        weft_status status = quant_of(s, path, &bits, &group, err);
        if (status != WEFT_OK) return status;
        const tensor *biases = find_part(s, name, n - suffix, ".biases", used);
        if (biases == NULL) return err_set(err, WEFT_FORMAT, "tensor '%s.biases' is missing", path);
        return tensor_bind_affine(t, scales, biases, bits, group, err);
    }
    if (t->encoding == NULL) {
        return err_set(err, WEFT_UNSUPPORTED, "tensor '%s' has type %s, which is not supported",
                       name, t->raw_type != NULL ? t->raw_type : "unknown");
    }
    return WEFT_OK;
}
