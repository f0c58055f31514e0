/* starcoder2.c - StarCoder 2: layer norms, biases everywhere but at the output, an MLP without a
 * gate. Source: Transformers' modeling_starcoder2; llama.cpp's architecture "starcoder2". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_LN_EPS("norm_epsilon"),
    DENSE_FLAG("use_bias", qkv_bias, 1),
    DENSE_FLAG("use_bias", o_bias, 1),
    DENSE_FLAG("use_bias", mlp_bias, 1),
    DENSE_FLAG("tie_word_embeddings", tied, 1),
};

static const model_name NAMES[] = {
    DENSE_NAME(PART_UP, "mlp.c_fc.weight", "ffn_up.weight"),
    DENSE_NAME(PART_UP_BIAS, "mlp.c_fc.bias", "ffn_up.bias"),
    DENSE_NAME(PART_DOWN, "mlp.c_proj.weight", "ffn_down.weight"),
    DENSE_NAME(PART_DOWN_BIAS, "mlp.c_proj.bias", "ffn_down.bias"),
};

static const dense RECORD = {
    .norm = DENSE_LN,
    .norm_bias = true,
    .plain_mlp = true,
    .act = GRAPH_GELU_TANH,
    .window = DENSE_WINDOW_ALL,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_STARCODER2 = {
    .name = "starcoder2",
    .hf_types = DENSE_TYPES("starcoder2"),
    .gguf_types = DENSE_TYPES("starcoder2"),
    .names = NAMES,
    .n_names = COUNT_OF(NAMES),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
