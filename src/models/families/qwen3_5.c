/* qwen3_5.c - Qwen 3.5 text models with an MLP in each layer. */
#include "base/assert.h"
#include "models/hybrid.h"

static const model_param PARAMS[] = {
    HYBRID_PARAMS,
    {"intermediate_size", "feed_forward_length", SHAPE(n_ff), PARAM_U32, true, 1, 1 << 20, 0},
};

static const char *const HF_TYPES[] = {"qwen3_5_text", "qwen3_5", NULL};
static const char *const GGUF_TYPES[] = {"qwen35", NULL};

static const mlx_type MLX_TYPES[] = {{"qwen3_5_text", "qwen3_5", "language_model.model."},
                                     {"qwen3_5", "qwen3_5", "language_model.model."},
                                     {NULL, NULL, NULL}};
static const mlx_form MLX = {.types = MLX_TYPES, .only_json = true};

const model_family MODEL_FAMILY_QWEN3_5 = {
    .name = "qwen3_5",
    .hf_types = HF_TYPES,
    .gguf_types = GGUF_TYPES,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
    .derive = hybrid_derive,
    .mlx = &MLX,
    HYBRID_FAMILY,
};
