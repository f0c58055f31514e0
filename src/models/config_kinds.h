/* config_kinds.h - what kind of value stands under keys that decide what is computed. */
#ifndef MODELS_CONFIG_KINDS_H
#define MODELS_CONFIG_KINDS_H

#include "models/config.h"

/* FORMAT, naming the key, when a list, flag, text or group of settings in config.json is something
 * else: it would be read as if it were not there. Null is not there. */
weft_status config_check_kinds(const model_source *s, weft_error *err);

/* The same of one entry of MLX's quantization settings. */
weft_status config_check_quantization(const json *entry, weft_error *err);

#endif
