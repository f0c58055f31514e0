/* olmo.c - OLMo: Llama with layer norms that have no weights. Source: Transformers' modeling_olmo;
 * llama.cpp's architecture "olmo", whose converter permutes the rows of q and k so that
 * neighbouring elements rotate together. What is converted has Hugging Face's names, where mlx-lm's
 * olmo reads those of files older than these. */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_NUMBER(NULL, "attention.layer_norm_epsilon", norm_eps, 1e-12, 1, 1e-5),
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
};

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    double number;
    (void)p;
    weft_status status =
        source_number(source, "clip_qkv", "attention.clamp_kqv", &found, &number, err);
    if (status != WEFT_OK || !found) return status;
    return err_set(err, WEFT_UNSUPPORTED, "%s %g is not supported",
                   source->is_gguf ? "attention.clamp_kqv" : "config.json: clip_qkv", number);
}

static const dense RECORD = {
    .norm = DENSE_LN_PLAIN,
    .gguf_interleaved = true,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
    .derive = derive,
};

const model_family MODEL_FAMILY_OLMO = {
    .name = "olmo",
    .hf_types = DENSE_TYPES("olmo"),
    .gguf_types = DENSE_TYPES("olmo"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX_PAIRS,
};
