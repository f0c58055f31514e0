/* olmoe.c - OLMoE: experts as wide as an MLP would be, norms of queries and keys as a whole.
 * Source: Transformers' modeling_olmoe; llama.cpp's architecture "olmoe". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_EXPERTS("num_experts"),
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
};

static const dense_moe MOE = {.gguf_normalize = false};

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    (void)p;
    bool found;
    double bound;
    weft_status status = source_number(source, "clip_qkv", NULL, &found, &bound, err);
    if (status != WEFT_OK || !found) return status;
    return err_set(err, WEFT_UNSUPPORTED, "config.json: a clip_qkv of %g is not supported", bound);
}

static const dense RECORD = {
    .qk = DENSE_QK_WIDE,
    .moe = &MOE,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
    .derive = derive,
};

const model_family MODEL_FAMILY_OLMOE = {
    .name = "olmoe",
    .hf_types = DENSE_TYPES("olmoe"),
    .gguf_types = DENSE_TYPES("olmoe"),
    .dense = &RECORD,
    DENSE_FAMILY,
};
