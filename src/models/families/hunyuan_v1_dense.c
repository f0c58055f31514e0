/* hunyuan_v1_dense.c - Hunyuan: Llama with norms of queries and keys after they rotate. Source:
 * Transformers' modeling_hunyuan_v1_dense; llama.cpp's architecture "hunyuan-dense", whose
 * converter multiplies theta. */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
};

static const model_name NAMES[] = {
    DENSE_NAME(PART_Q_NORM, "self_attn.query_layernorm.weight", "attn_q_norm.weight"),
    DENSE_NAME(PART_K_NORM, "self_attn.key_layernorm.weight", "attn_k_norm.weight"),
};

static const dense RECORD = {
    .qk = DENSE_QK_HEAD,
    .qk_after_rope = true,
    .ntk_alpha = true,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_HUNYUAN_V1_DENSE = {
    .name = "hunyuan_v1_dense",
    .hf_types = DENSE_TYPES("hunyuan_v1_dense"),
    .gguf_types = DENSE_TYPES("hunyuan-dense"),
    .names = NAMES,
    .n_names = COUNT_OF(NAMES),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
