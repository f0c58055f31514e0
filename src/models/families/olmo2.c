/* olmo2.c - OLMo 2: norms of what attention and the MLP give, and of queries and keys as a whole.
 * Source: Transformers' modeling_olmo2; llama.cpp's architecture "olmo2", which OLMo 3 is, too:
 * there layers with a window, which are listed, have no rope scaling. */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
    DENSE_NUMBER(NULL, "rope.freq_base_swa", rope_theta_local, 1, 1e12, 0),
};

static const dense RECORD = {
    .block = DENSE_POST,
    .qk = DENSE_QK_WIDE,
    .full_scaling = true,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_OLMO2 = {
    .name = "olmo2",
    .hf_types = DENSE_TYPES("olmo2"),
    .gguf_types = DENSE_TYPES("olmo2"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
