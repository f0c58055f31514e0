/* ernie4_5.c - ERNIE 4.5: Llama whose neighbouring elements rotate together, with one key for
 * all biases. Source: Transformers' modeling_ernie4_5; llama.cpp's architecture "ernie4_5". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 128},
    DENSE_THETA(500000),
    DENSE_FLAG("tie_word_embeddings", tied, 1),
    DENSE_FLAG("use_bias", qkv_bias, 0),
    DENSE_FLAG("use_bias", o_bias, 0),
    DENSE_FLAG("use_bias", mlp_bias, 0),
};

static const dense RECORD = {
    .interleaved = true,
    .gguf_interleaved = true,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_ERNIE4_5 = {
    .name = "ernie4_5",
    .hf_types = DENSE_TYPES("ernie4_5"),
    .gguf_types = DENSE_TYPES("ernie4_5"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
