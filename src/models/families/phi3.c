/* phi3.c - Phi 3, 3.5 and 4: Llama with fused matrices and perhaps a window. Source: Transformers'
 * modeling_phi3; llama.cpp's architecture "phi3". */
#include "models/dense.h"

static const model_name NAMES[] = {
    DENSE_FUSED_GATE("mlp.gate_up_proj.weight", "ffn_up.weight"),
    DENSE_FUSED_UP("mlp.gate_up_proj.weight", "ffn_up.weight"),
};

static const dense RECORD = {
    .window = DENSE_WINDOW_ALL,
};

static const mlx_form MLX = {.fused = 1u << PART_Q | 1u << PART_K | 1u << PART_V};

const model_family MODEL_FAMILY_PHI3 = {
    .name = "phi3",
    .hf_types = DENSE_TYPES("phi3"),
    .gguf_types = DENSE_TYPES("phi3"),
    .names = NAMES,
    .n_names = COUNT_OF(NAMES),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &MLX,
};
