/* qwen3_moe.c - Qwen 3 with experts. Source: Transformers' modeling_qwen3_moe; llama.cpp's
 * architecture "qwen3moe". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_EXPERTS("num_experts"),
    DENSE_EXPERT_WIDTH,
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
};

static const dense_moe MOE = {.gguf_normalize = true};

static const dense RECORD = {
    .qk = DENSE_QK_HEAD,
    .window = DENSE_WINDOW_UNUSED,
    .moe = &MOE,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_QWEN3_MOE = {
    .name = "qwen3_moe",
    .hf_types = DENSE_TYPES("qwen3_moe"),
    .gguf_types = DENSE_TYPES("qwen3moe"),
    .dense = &RECORD,
    DENSE_FAMILY,
};
