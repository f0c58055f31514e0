/* mistral.c - Mistral: Llama with a window in every layer, or in those that the checkpoint lists.
 * Source: Transformers' modeling_mistral and modeling_ministral. In GGUF files it is a llama. */
#include "models/dense.h"

static const dense RECORD = {
    .window = DENSE_WINDOW_ALL,
    .window_fallback = 4096,
};

const model_family MODEL_FAMILY_MISTRAL = {
    .name = "mistral",
    .hf_types = DENSE_TYPES("mistral", "ministral"),
    .gguf_types = DENSE_NO_TYPES,
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
