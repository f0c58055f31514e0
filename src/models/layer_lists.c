/* layer_lists.c - what a config says of each layer. */
#include "models/layer_lists.h"

#include <math.h>

weft_status list_layer_words(const model_params *p, const model_source *source, const char *key,
                             const char *const words[2], bool *of, bool *found, weft_error *err)
{
    const json *list = json_get(source->config, key);
    *found = json_kind_of(list) != JSON_KIND_NULL;
    if (!*found) return WEFT_OK;
    if (json_kind_of(list) != JSON_KIND_ARRAY || json_length(list) != p->n_layers) {
        return err_set(err, WEFT_FORMAT, "config.json: %s has %zu entries for %u layers", key,
                       json_length(list), p->n_layers);
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        str word = json_text(json_at(list, i));
        of[i] = str_equal_text(word, words[0]);
        if (of[i] || str_equal_text(word, words[1])) continue;
        return err_set(err, WEFT_UNSUPPORTED, "config.json: %s '%.*s' of layer %u is not supported",
                       key, (int)(word.len < 64 ? word.len : 64), word.ptr, i);
    }
    return WEFT_OK;
}

/* "FSSF...", one letter a layer. */
static weft_status index_pattern(model_params *p, str pattern, weft_error *err)
{
    bool ok = pattern.len == p->n_layers;
    for (uint32_t i = 0; i < p->n_layers && ok; i++) {
        p->has_index[i] = pattern.ptr[i] == 'F';
        ok = p->has_index[i] || pattern.ptr[i] == 'S';
    }
    if (ok) return WEFT_OK;
    return err_set(err, WEFT_FORMAT,
                   "config.json: index_topk_pattern '%.*s', expected F or S for each of %u layers",
                   (int)(pattern.len < 64 ? pattern.len : 64), pattern.ptr, p->n_layers);
}

/* A GGUF file's layers that choose: those that are listed; else all, or those of GLM 5.2, which its
 * context tells from the ones before. */
static weft_status list_gguf_index(model_params *p, const model_source *source, weft_error *err)
{
    enum { GLM_5_2_CONTEXT = 1 << 20 };
    bool found;
    bool some = str_equal_text(source->type, "glm-dsa") && p->context >= GLM_5_2_CONTEXT;
    for (uint32_t i = 0; i < p->n_layers; i++) p->has_index[i] = !some || i < 2 || (i - 2) % 4 == 0;
    return list_layer_flags(p, source, "attention.indexer.types", p->has_index, &found, err);
}

weft_status list_index_layers(model_params *p, const model_source *source, weft_error *err)
{
    static const char *const WORDS[2] = {"full", "shared"};
    bool found;
    if (source->is_gguf) return list_gguf_index(p, source, err);
    weft_status status =
        list_layer_words(p, source, "indexer_types", WORDS, p->has_index, &found, err);
    if (status != WEFT_OK || found) return status;
    const json *pattern = json_get(source->config, "index_topk_pattern");
    if (json_kind_of(pattern) == JSON_KIND_ARRAY)
        return list_layer_words(p, source, "index_topk_pattern", WORDS, p->has_index, &found, err);
    str text;
    status = source_text(source, "index_topk_pattern", NULL, &found, &text, err);
    if (status != WEFT_OK || found) return status == WEFT_OK ? index_pattern(p, text, err) : status;
    double freq = 1.0;
    double offset = 2.0;
    status = source_number(source, "index_topk_freq", NULL, &found, &freq, err);
    if (status == WEFT_OK)
        status = source_number(source, "index_skip_topk_offset", NULL, &found, &offset, err);
    if (status != WEFT_OK) return status;
    bool whole = freq == floor(freq) && offset == floor(offset);
    if (!whole || freq < 0.0 || freq > MODEL_LAYERS || offset < 0.0 || offset > MODEL_LAYERS) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: index_topk_freq %g and index_skip_topk_offset %g, expected "
                       "numbers up to %d",
                       freq, offset, MODEL_LAYERS);
    }
    uint32_t every = freq < 1.0 ? 1 : (uint32_t)freq;
    for (uint32_t i = 0; i < p->n_layers; i++)
        p->has_index[i] = i + 1 <= (uint32_t)offset || (i + 1 - (uint32_t)offset) % every == 0;
    return WEFT_OK;
}

/* Whole numbers up to most. */
static weft_status list_numbers(const model_params *p, const model_source *source, const char *key,
                                uint32_t most, uint32_t *of, bool *found, bool *single,
                                weft_error *err)
{
    double numbers[MODEL_LAYERS];
    weft_status status = source_layers(source, key, p->n_layers, found, single, numbers, err);
    for (uint32_t i = 0; i < p->n_layers && status == WEFT_OK && *found; i++) {
        if (!(numbers[i] >= 0.0 && numbers[i] <= (double)most) || numbers[i] != floor(numbers[i])) {
            return err_set(err, WEFT_FORMAT, "%s of layer %u is %g, expected 0 to %u", key, i,
                           numbers[i], most);
        }
        of[i] = (uint32_t)numbers[i];
    }
    return status;
}

weft_status list_layer_counts(const model_params *p, const model_source *source, const char *key,
                              uint32_t most, uint32_t *of, bool *found, weft_error *err)
{
    bool single;
    return list_numbers(p, source, key, most, of, found, &single, err);
}

weft_status list_layer_flags(const model_params *p, const model_source *source, const char *key,
                             bool *of, bool *found, weft_error *err)
{
    uint32_t flags[MODEL_LAYERS];
    bool single;
    weft_status status = list_numbers(p, source, key, 1, flags, found, &single, err);
    if (status == WEFT_OK && *found && single) {
        return err_set(err, WEFT_FORMAT, "%s is one flag, expected one for each of %u layers", key,
                       p->n_layers);
    }
    for (uint32_t i = 0; i < p->n_layers && status == WEFT_OK && *found; i++) of[i] = flags[i] != 0;
    return status;
}

weft_status list_layer_windows(model_params *p, const model_source *source, bool *found,
                               weft_error *err)
{
    static const char KEY[] = "attention.sliding_window_pattern";
    uint32_t numbers[MODEL_LAYERS];
    bool single;
    weft_status status = list_numbers(p, source, KEY, MODEL_LAYERS, numbers, found, &single, err);
    for (uint32_t i = 0; i < p->n_layers && status == WEFT_OK && *found; i++) {
        uint32_t n = numbers[i];
        if (!single && n > 1)
            return err_set(err, WEFT_FORMAT, "%s of layer %u is %u, expected 0 or 1", KEY, i, n);
        p->is_window[i] = single ? n == 0 || (i + 1) % n != 0 : n == 1;
    }
    return status;
}
