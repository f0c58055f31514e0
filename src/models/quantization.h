/* quantization.h - what config.json says about how weights are stored. */
#ifndef MODELS_QUANTIZATION_H
#define MODELS_QUANTIZATION_H

#include "models/config.h"

/* How MLX stores a module. */
typedef struct mlx_quantization {
    const encoding *encoding; /* with plane_bits, or &ENCODING_AFFINE */
    uint32_t bits, group;
} mlx_quantization;

/* UNSUPPORTED when the config names a method, or a variant of one, that would be computed wrongly.
 * What tensors there are says the rest: see adapters.c. */
weft_status quantization_check(const model_source *s, weft_error *err);

/* Of the module at path, "model.layers.0.mlp.up_proj", which has scales. An entry under its path
 * wins and inherits nothing; else the whole model's holds. */
weft_status quantization_mlx(const model_source *s, const char *path, mlx_quantization *q,
                             weft_error *err);

/* Rows and columns that share a scale, or 0 where there are no blocks. */
weft_status quantization_block(const model_source *s, uint32_t *rows, uint32_t *cols,
                               weft_error *err);

/* quantization_config.bits, 4 where it does not say. */
uint32_t quantization_bits(const model_source *s);

/* quantization_config.quant_method, or an empty text. */
str quantization_method(const model_source *s);

#endif
