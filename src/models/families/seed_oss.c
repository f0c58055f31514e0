/* seed_oss.c - Seed OSS: Llama with a key for the bias of the output of attention. Source:
 * Transformers' modeling_seed_oss; llama.cpp's architecture "seed_oss", which calls the norm
 * before the MLP otherwise. */
#include "models/dense.h"

static const model_param PARAMS[] = {
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 128},
    DENSE_FLAG("attention_bias", qkv_bias, 1),
    DENSE_FLAG("attention_out_bias", o_bias, 0),
    DENSE_FLAG("mlp_bias", mlp_bias, 0),
};

static const model_name NAMES[] = {
    DENSE_NAME(PART_MLP_NORM, "post_attention_layernorm.weight", "post_attention_norm.weight"),
};

static const dense RECORD = {
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_SEED_OSS = {
    .name = "seed_oss",
    .hf_types = DENSE_TYPES("seed_oss"),
    .gguf_types = DENSE_TYPES("seed_oss"),
    .names = NAMES,
    .n_names = COUNT_OF(NAMES),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
