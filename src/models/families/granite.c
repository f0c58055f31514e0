/* granite.c - Granite: Llama with factors of embeddings, scores, what layers add, and logits.
 * Source: Transformers' modeling_granite; llama.cpp's architecture "granite", whose converter
 * permutes the rows of q and k so that neighbouring elements rotate together. */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_NUMBER("embedding_multiplier", "embedding_scale", embed_scale, 1e-6, 1e6, 1),
    DENSE_NUMBER("attention_multiplier", "attention.scale", attn_scale, 1e-6, 1e6, 1),
    DENSE_NUMBER("residual_multiplier", "residual_scale", residual_scale, 1e-6, 1e6, 1),
    DENSE_NUMBER("logits_scaling", "logit_scale", logit_divisor, 1e-6, 1e6, 1),
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
    DENSE_FLAG("mlp_bias", mlp_bias, 0),
};

static const dense RECORD = {
    .gguf_interleaved = true,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

/* mlx-lm gives more bits to matrices whose groups are small in its floating modes. */
static const mlx_form MLX = {.gguf_pairs = true,
                             .in_8_bits = 1u << PART_O | 1u << PART_DOWN | 1u << PART_HEAD};

const model_family MODEL_FAMILY_GRANITE = {
    .name = "granite",
    .hf_types = DENSE_TYPES("granite"),
    .gguf_types = DENSE_TYPES("granite"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &MLX,
};
