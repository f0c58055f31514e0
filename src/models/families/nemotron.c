/* nemotron.c - Nemotron 3 and 4, Minitron: layer norms with weights that are offsets from 1, an
 * MLP of squares without a gate, half of a head rotates. Source: Transformers'
 * modeling_nemotron; llama.cpp's architecture "nemotron". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_LN_EPS("norm_eps"),
    DENSE_PARTIAL(0.5),
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
    DENSE_FLAG("mlp_bias", mlp_bias, 0),
};

static const dense RECORD = {
    .norm = DENSE_LN_OFFSET,
    .norm_bias = true,
    .plain_mlp = true,
    .act = GRAPH_RELU2,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_NEMOTRON = {
    .name = "nemotron",
    .hf_types = DENSE_TYPES("nemotron"),
    .gguf_types = DENSE_TYPES("nemotron"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX_OFFSET,
};
