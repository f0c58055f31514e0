/* llama.c - Llama and what is shaped like it: RMS norm, rope, grouped queries, SwiGLU. Source:
 * Transformers' modeling_llama; llama.cpp's architecture "llama", whose converter permutes the rows
 * of q and k so that neighbouring elements rotate together. */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
    DENSE_FLAG("mlp_bias", mlp_bias, 0),
    DENSE_EXPERTS(NULL),
};

/* GGUF calls Mixtral so. */
static const dense_moe MOE = {.normalize = true};

static const dense RECORD = {
    .gguf_interleaved = true,
    .moe = &MOE,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_LLAMA = {
    .name = "llama",
    .hf_types = DENSE_TYPES("llama"),
    .gguf_types = DENSE_TYPES("llama"),
    .dense = &RECORD,
    DENSE_FAMILY,
};
