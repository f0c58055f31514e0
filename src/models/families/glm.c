/* glm.c - GLM 4 of 2024: Llama of which half of a head rotates, by neighbouring elements, with gate
 * and up fused. Source: Transformers' modeling_glm; llama.cpp's architecture "chatglm". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 128},
    DENSE_PARTIAL(0.5),
    DENSE_FLAG("attention_bias", qkv_bias, 1),
};

static const model_name NAMES[] = {
    DENSE_FUSED_GATE("mlp.gate_up_proj.weight", "ffn_up.weight"),
    DENSE_FUSED_UP("mlp.gate_up_proj.weight", "ffn_up.weight"),
};

static const dense RECORD = {
    .interleaved = true,
    .gguf_interleaved = true,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_GLM = {
    .name = "glm",
    .hf_types = DENSE_TYPES("glm"),
    .gguf_types = DENSE_TYPES("chatglm"),
    .names = NAMES,
    .n_names = COUNT_OF(NAMES),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
