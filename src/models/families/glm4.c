/* glm4.c - GLM 4 of 2025: norms around each part of a layer, half of a head rotates, gate and up
 * fused. Source: Transformers' modeling_glm4; llama.cpp's architecture "glm4". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 128},
    DENSE_PARTIAL(0.5),
    DENSE_FLAG("attention_bias", qkv_bias, 1),
};

static const model_name NAMES[] = {
    DENSE_NAME(DENSE_POST_ATTN_NORM, "post_self_attn_layernorm.weight",
               "post_attention_norm.weight"),
    DENSE_NAME(DENSE_POST_MLP_NORM, "post_mlp_layernorm.weight", "post_ffw_norm.weight"),
    DENSE_FUSED_GATE("mlp.gate_up_proj.weight", "ffn_up.weight"),
    DENSE_FUSED_UP("mlp.gate_up_proj.weight", "ffn_up.weight"),
};

static const dense RECORD = {
    .block = DENSE_SANDWICH,
    .interleaved = true,
    .gguf_interleaved = true,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_GLM4 = {
    .name = "glm4",
    .hf_types = DENSE_TYPES("glm4"),
    .gguf_types = DENSE_TYPES("glm4"),
    .names = NAMES,
    .n_names = COUNT_OF(NAMES),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
