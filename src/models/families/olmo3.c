/* olmo3.c - OLMo 3: OLMo 2 with a window in three layers of four. Only the others have rope
 * scaling. Source: Transformers' modeling_olmo3. In GGUF files it is an olmo2. */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_THETA(500000),
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
};

static const dense RECORD = {
    .block = DENSE_POST,
    .qk = DENSE_QK_WIDE,
    .full_scaling = true,
    .window = DENSE_WINDOW_EVERY,
    .window_fallback = 4096,
    .window_every = 4,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_OLMO3 = {
    .name = "olmo3",
    .hf_types = DENSE_TYPES("olmo3"),
    .gguf_types = DENSE_NO_TYPES,
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
