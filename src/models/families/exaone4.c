/* exaone4.c - EXAONE 4: norms of what attention and the MLP give, and of heads; the larger model
 * has a window in three layers of four, and the others do not rotate. Source: Transformers'
 * modeling_exaone4; llama.cpp's architecture "exaone4". */
#include "models/dense.h"

static const dense RECORD = {
    .block = DENSE_POST,
    .qk = DENSE_QK_HEAD,
    .rotary = DENSE_ROTARY_HYBRID,
    .window = DENSE_WINDOW_EVERY,
    .window_fallback = 4096,
    .window_every = 4,
};

static const mlx_form MLX = {.config = "{\"rope_scaling\":null}"};

const model_family MODEL_FAMILY_EXAONE4 = {
    .name = "exaone4",
    .hf_types = DENSE_TYPES("exaone4"),
    .gguf_types = DENSE_TYPES("exaone4"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &MLX,
};
