/* qwen3_5_moe.c - Qwen 3.5 text models with experts in each layer. */
#include "base/assert.h"
#include "models/hybrid.h"

static const model_param PARAMS[] = {HYBRID_PARAMS, HYBRID_EXPERT_PARAMS};

static const char *const HF_TYPES[] = {"qwen3_5_moe_text", "qwen3_5_moe", NULL};
static const char *const GGUF_TYPES[] = {"qwen35moe", NULL};

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    p->moe_interval = 1;
    p->route_normalize = true;
    return hybrid_derive(p, source, err);
}

static const mlx_type MLX_TYPES[] = {{"qwen3_5_moe_text", "qwen3_5_moe", "language_model.model."},
                                     {"qwen3_5_moe", "qwen3_5_moe", "language_model.model."},
                                     {NULL, NULL, NULL}};
static const mlx_form MLX = {.types = MLX_TYPES, .only_json = true};

const model_family MODEL_FAMILY_QWEN3_5_MOE = {
    .name = "qwen3_5_moe",
    .hf_types = HF_TYPES,
    .gguf_types = GGUF_TYPES,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
    .derive = derive,
    .mlx = &MLX,
    HYBRID_FAMILY,
};
