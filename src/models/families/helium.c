/* helium.c - Helium: Llama whose neighbouring elements rotate together. Source: Transformers'
 * modeling_helium. */
#include "models/dense.h"

static const model_param PARAMS[] = {
    {"head_dim", NULL, SHAPE(head_dim), PARAM_U32, false, 2, 4096, 128},
    DENSE_THETA(100000),
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("mlp_bias", mlp_bias, 0),
};

static const dense RECORD = {
    .interleaved = true,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_HELIUM = {
    .name = "helium",
    .hf_types = DENSE_TYPES("helium"),
    .gguf_types = DENSE_NO_TYPES,
    .dense = &RECORD,
    DENSE_FAMILY,
};
