/* rope.h - rope settings of a checkpoint, and the frequencies they mean. Sources: the rope variants
 * as Transformers' modeling_rope_utils computes them; llama.cpp's metadata keys. */
#ifndef MODELS_ROPE_H
#define MODELS_ROPE_H

#include "base/arena.h"
#include "models/family.h"

/* Reads the settings into rope: from an object of rope_parameters (new style: settings), or from
 * rope_scaling beside rope_theta (old), or from GGUF. settings may be NULL. theta is the fallback.
 * UNSUPPORTED names an unknown kind. */
weft_status rope_config(rope_params *rope, const model_source *source, const json *settings,
                        double theta, uint32_t context, weft_error *err);

/* The same for families to whom type dynamic with an alpha is a larger theta; to others it is
 * unknown. */
weft_status rope_config_alpha(rope_params *rope, const model_source *source, const json *settings,
                              double theta, uint32_t context, weft_error *err);

/* Of a long rope: whether the model's context is one that wants the long factors; and those that it
 * does want, [n_pairs], from config.json. */
bool rope_is_long(const rope_params *rope);
weft_status rope_long_factors(const rope_params *rope, const model_source *source, float *factors,
                              uint32_t n_pairs, weft_error *err);

/* Where a GGUF file has them. */
#define ROPE_LONG_TENSOR "rope_factors_long.weight"
#define ROPE_SHORT_TENSOR "rope_factors_short.weight"

/* inv_freq [n_dims / 2] and magnitude. factors: NULL, or [n_dims / 2] divisors that a GGUF file
 * brings. */
weft_status rope_table(graph_rope *out, arena *a, const rope_params *rope, uint32_t n_dims,
                       bool interleaved, const float *factors, weft_error *err);

/* Then, where rope has axes: which pair turns by which, and with RUNS the table anew. */
weft_status rope_axes_table(graph_rope *out, arena *a, const rope_params *rope, weft_error *err);

#endif
