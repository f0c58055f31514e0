/* cohere2.c - Command R7B and A: Command R with a window in three layers of four; the others do not
 * rotate. Source: Transformers' modeling_cohere2; llama.cpp's architecture "cohere2". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_LN_EPS("layer_norm_eps"),
    DENSE_NUMBER("logit_scale", "logit_scale", logit_scale, 1e-6, 1e6, 0.0625),
    DENSE_FLAG("tie_word_embeddings", tied, 1),
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
};

static const dense RECORD = {
    .block = DENSE_PARALLEL,
    .norm = DENSE_LN,
    .interleaved = true,
    .gguf_interleaved = true,
    .rotary = DENSE_ROTARY_WINDOWS,
    .window = DENSE_WINDOW_EVERY,
    .window_fallback = 4096,
    .window_every = 4,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_COHERE2 = {
    .name = "cohere2",
    .hf_types = DENSE_TYPES("cohere2"),
    .gguf_types = DENSE_TYPES("cohere2"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
