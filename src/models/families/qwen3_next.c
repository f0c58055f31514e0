/* qwen3_next.c - Qwen3-Next: as Qwen 3.5 with experts, but the matrices of a delta net are in two,
 * key head by key head, and layers that the config names have an MLP in place of experts. */
#include <math.h>

#include "base/assert.h"
#include "models/hybrid.h"

static const model_param PARAMS[] = {
    HYBRID_PARAMS,
    HYBRID_EXPERT_PARAMS,
    {"intermediate_size", "feed_forward_length", SHAPE(n_ff), PARAM_U32, true, 1, 1 << 20, 0},
    {"decoder_sparse_step", NULL, SHAPE(moe_interval), PARAM_U32, false, 1, MODEL_LAYERS, 1},
    {"norm_topk_prob", NULL, SHAPE(route_normalize), PARAM_BOOL, false, 0, 1, 1},
};

static const char *const HF_TYPES[] = {"qwen3_next", NULL};
static const char *const GGUF_TYPES[] = {"qwen3next", NULL};

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    const json *listed = json_get(source->config, "mlp_only_layers");
    p->delta_grouped = true;
    weft_status status = hybrid_derive(p, source, err);
    for (size_t i = 0; i < json_length(listed) && status == WEFT_OK; i++) {
        double layer = json_number(json_at(listed, i), -1.0);
        if (layer >= 0.0 && layer < (double)p->n_layers && layer == floor(layer)) {
            p->is_moe[(uint32_t)layer] = false;
        } else {
            status = err_set(err, WEFT_FORMAT, "config.json: mlp_only_layers names layer %g of %u",
                             layer, p->n_layers);
        }
    }
    return status;
}

static const mlx_form MLX = {.only_json = true, .config = "{\"mlp_only_layers\":[]}"};

const model_family MODEL_FAMILY_QWEN3_NEXT = {
    .name = "qwen3_next",
    .hf_types = HF_TYPES,
    .gguf_types = GGUF_TYPES,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
    .derive = derive,
    .mlx = &MLX,
    HYBRID_FAMILY,
};
