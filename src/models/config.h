/* config.h - one way to ask config.json or GGUF metadata. */
#ifndef MODELS_CONFIG_H
#define MODELS_CONFIG_H

#include "formats/weights.h"

typedef struct model_source {
    const weights *weights;
    const json *top;    /* config.json, or NULL */
    const json *config; /* the text part of it: text_config where there is one */
    str type;           /* model_type, or general.architecture */
    str top_type;       /* the model_type beside the text part, where there is one */
    bool is_gguf;
} model_source;

/* FORMAT when the checkpoint does not say what it is. */
weft_status source_init(model_source *s, const weights *w, weft_error *err);

/* False when absent (or null). FORMAT, naming the key, when it is there and no number (flag, text).
 * gguf_key stands behind "<architecture>.". Either key may be NULL. */
weft_status source_number(const model_source *s, const char *json_key, const char *gguf_key,
                          bool *found, double *number, weft_error *err);
weft_status source_flag(const model_source *s, const char *json_key, const char *gguf_key,
                        bool *found, bool *flag, weft_error *err);
/* Of each of n layers, in GGUF files alone: a list of at least as many, or one for all (*single).
 * Flags are 0 and 1. */
weft_status source_layers(const model_source *s, const char *gguf_key, uint32_t n, bool *found,
                          bool *single, double *numbers, weft_error *err);
weft_status source_text(const model_source *s, const char *json_key, const char *gguf_key,
                        bool *found, str *text, weft_error *err);

#endif
