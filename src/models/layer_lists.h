/* layer_lists.h - what a config says of each layer, in the forms that it may have. */
#ifndef MODELS_LAYER_LISTS_H
#define MODELS_LAYER_LISTS_H

#include "models/family.h"

/* A list with one of two words for each layer, true for the first; *found false when absent. */
weft_status list_layer_words(const model_params *p, const model_source *source, const char *key,
                             const char *const words[2], bool *of, bool *found, weft_error *err);

/* has_index, the layers that choose what they attend to: a list, a pattern, or the first few and
 * then every index_topk_freq-th. */
weft_status list_index_layers(model_params *p, const model_source *source, weft_error *err);

/* is_window by a GGUF file: a list, or that every n-th layer has none. */
weft_status list_layer_windows(model_params *p, const model_source *source, bool *found,
                               weft_error *err);

/* What a GGUF file says of each layer: flags; counts up to most, 0 among them. *found false when
 * absent. */
weft_status list_layer_flags(const model_params *p, const model_source *source, const char *key,
                             bool *of, bool *found, weft_error *err);
weft_status list_layer_counts(const model_params *p, const model_source *source, const char *key,
                              uint32_t most, uint32_t *of, bool *found, weft_error *err);

#endif
