/* config_json.h - config.json of MLX's form: the source's, with what MLX wants to be told. */
#ifndef CONVERT_CONFIG_JSON_H
#define CONVERT_CONFIG_JSON_H

#include "convert/plan.h"

/* Appends it to out. UNSUPPORTED when a GGUF file has rope settings that a config cannot state. */
weft_status config_json_write(const plan *p, const recipe *r, const weft_allocator *allocator,
                              strbuf *out, weft_error *err);

#endif
