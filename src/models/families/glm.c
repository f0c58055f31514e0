/* glm.c - GLM 4 of 2024: Llama of which half of a head rotates, by neighbouring elements, with gate
 * and up fused. Source: Transformers' modeling_glm. */
#include "models/dense.h"

static const model_param PARAMS[] = {
    {"head_dim", NULL, SHAPE(head_dim), PARAM_U32, false, 2, 4096, 128},
    DENSE_PARTIAL(0.5),
    DENSE_FLAG("attention_bias", qkv_bias, 1),
};

static const dense RECORD = {
    .interleaved = true,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_GLM = {
    .name = "glm",
    .hf_types = DENSE_TYPES("glm"),
    .gguf_types = DENSE_NO_TYPES,
    .dense = &RECORD,
    DENSE_FAMILY,
};
