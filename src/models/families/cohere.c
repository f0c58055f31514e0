/* cohere.c - Command R: attention and MLP beside each other, a layer norm without bias. Source:
 * Transformers' modeling_cohere; llama.cpp's architecture "command-r". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_LN_EPS("layer_norm_eps"),
    DENSE_THETA(500000),
    DENSE_NUMBER("logit_scale", "logit_scale", logit_scale, 1e-6, 1e6, 0.0625),
    DENSE_FLAG("use_qk_norm", use_qk_norm, 0),
    DENSE_FLAG("tie_word_embeddings", tied, 1),
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
};

static const model_name NAMES[] = {
    DENSE_NAME(DENSE_Q_NORMS, "self_attn.q_norm.weight", "attn_q_norm.weight"),
    DENSE_NAME(DENSE_K_NORMS, "self_attn.k_norm.weight", "attn_k_norm.weight"),
};

static const dense RECORD = {
    .block = DENSE_PARALLEL,
    .norm = DENSE_LN,
    .qk = DENSE_QK_OPTIONAL,
    .interleaved = true,
    .gguf_interleaved = true,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_COHERE = {
    .name = "cohere",
    .hf_types = DENSE_TYPES("cohere"),
    .gguf_types = DENSE_TYPES("command-r"),
    .names = NAMES,
    .n_names = COUNT_OF(NAMES),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
