/* qwen3.c - Qwen 3: Llama with norms of queries and keys, head by head. Source: Transformers'
 * modeling_qwen3; llama.cpp's architecture "qwen3". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 128},
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
};

static const dense RECORD = {
    .qk = DENSE_QK_HEAD,
    .window = DENSE_WINDOW_FROM,
    .window_fallback = 4096,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_QWEN3 = {
    .name = "qwen3",
    .hf_types = DENSE_TYPES("qwen3"),
    .gguf_types = DENSE_TYPES("qwen3"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
