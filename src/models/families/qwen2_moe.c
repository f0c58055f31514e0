/* qwen2_moe.c - Qwen 1.5 and 2 with experts, one of which every token goes to. Source:
 * Transformers' modeling_qwen2_moe; llama.cpp's architecture "qwen2moe". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_EXPERTS("num_experts"),
    DENSE_EXPERT_WIDTH,
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", SHAPE(n_shared_ff),
     PARAM_U32, false, 1, 1 << 20, 0},
    DENSE_FLAG("qkv_bias", qkv_bias, 1),
};

static const dense_moe MOE = {.shared = true};

static const dense RECORD = {
    .window = DENSE_WINDOW_UNUSED,
    .moe = &MOE,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_QWEN2_MOE = {
    .name = "qwen2_moe",
    .hf_types = DENSE_TYPES("qwen2_moe"),
    .gguf_types = DENSE_TYPES("qwen2moe"),
    .dense = &RECORD,
    DENSE_FAMILY,
};
