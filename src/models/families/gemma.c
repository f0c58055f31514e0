/* gemma.c - Gemma: embeddings times the root of the width, norm weights that are offsets from 1,
 * GeGLU. Source: Transformers' modeling_gemma; llama.cpp's architecture "gemma". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 256},
    DENSE_FLAG("tie_word_embeddings", tied, 1),
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
};

static const dense RECORD = {
    .norm = DENSE_RMS_OFFSET,
    .act = GRAPH_GELU_TANH,
    .gelu_is_tanh = true,
    .embed_root = true,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_GEMMA = {
    .name = "gemma",
    .hf_types = DENSE_TYPES("gemma"),
    .gguf_types = DENSE_TYPES("gemma"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX_OFFSET,
};
