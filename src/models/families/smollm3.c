/* smollm3.c - SmolLM 3: Llama in which every fourth layer does not rotate. Source: Transformers'
 * modeling_smollm3; llama.cpp's architecture "smollm3", whose converter permutes the rows of q
 * and k so that neighbouring elements rotate together. */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_THETA(2e6),
    DENSE_FLAG("tie_word_embeddings", tied, 1),
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
    DENSE_FLAG("mlp_bias", mlp_bias, 0),
};

static const dense RECORD = {
    .gguf_interleaved = true,
    .rotary = DENSE_ROTARY_LISTED,
    .window = DENSE_WINDOW_UNROTATED,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_SMOLLM3 = {
    .name = "smollm3",
    .hf_types = DENSE_TYPES("smollm3"),
    .gguf_types = DENSE_TYPES("smollm3"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX_PAIRS,
};
