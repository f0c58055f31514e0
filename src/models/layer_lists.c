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

weft_status list_index_layers(model_params *p, const model_source *source, weft_error *err)
{
    static const char *const WORDS[2] = {"full", "shared"};
    bool found;
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
