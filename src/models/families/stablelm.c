/* stablelm.c - StableLM: Llama with layer norms, of which a part of a head rotates; perhaps with
 * norms of each head of queries and keys, and with attention and MLP beside each other. Source:
 * Transformers' modeling_stablelm; llama.cpp's architecture "stablelm". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_LN_EPS("layer_norm_eps"),
    DENSE_PARTIAL(0.25),
    DENSE_FLAG("use_qkv_bias", qkv_bias, 0),
    DENSE_FLAG("qk_layernorm", use_qk_norm, 0),
    {"use_parallel_residual", "use_parallel_residual", SHAPE(parallel), PARAM_BOOL, false, 0, 1, 0},
};

static const model_name NAMES[] = {
    DENSE_NAME(DENSE_Q_NORMS, "self_attn.q_layernorm.norms.%u.weight", "attn_q_norm.weight"),
    DENSE_NAME(DENSE_K_NORMS, "self_attn.k_layernorm.norms.%u.weight", "attn_k_norm.weight"),
};

static const dense RECORD = {
    .norm = DENSE_LN,
    .norm_bias = true,
    .qk = DENSE_QK_OPTIONAL,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_STABLELM = {
    .name = "stablelm",
    .hf_types = DENSE_TYPES("stablelm"),
    .gguf_types = DENSE_TYPES("stablelm"),
    .names = NAMES,
    .n_names = COUNT_OF(NAMES),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
