/* qwen2.c - Qwen 2 and 2.5: Llama with biases of queries, keys and values. Source: Transformers'
 * modeling_qwen2; llama.cpp's architecture "qwen2". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_ALWAYS(qkv_bias),
};

static const dense RECORD = {
    .window = DENSE_WINDOW_FROM,
    .window_fallback = 4096,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_QWEN2 = {
    .name = "qwen2",
    .hf_types = DENSE_TYPES("qwen2"),
    .gguf_types = DENSE_TYPES("qwen2"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
