/* ministral3.c - Ministral 3: Mistral whose queries grow with the logarithm of their position, past
 * the context that the model was trained on first. Source: Transformers' modeling_ministral3;
 * llama.cpp's architecture "mistral3", in which rows of q and k are permuted as in "llama". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 128},
    DENSE_THETA(1e6),
};

/* Yarn with the first of its two magnitudes 1, and queries that grow if it says so. */
static weft_status derive_gguf(model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    double number = 0.0;
    weft_status status =
        source_number(source, NULL, "rope.scaling.yarn_log_multiplier", &found, &number, err);
    if (status != WEFT_OK) return status;
    if (found && !(number >= 0.0 && number <= 100.0))
        return err_set(err, WEFT_FORMAT, "rope.scaling.yarn_log_multiplier is %g", number);
    if (found) {
        p->ropes[0].mscale = 1.0;
        p->ropes[0].mscale_all_dim = number;
    }
    number = 0.0;
    status = source_number(source, NULL, "attention.temperature_scale", &found, &number, err);
    if (status != WEFT_OK || number == 0.0) return status;
    p->query_beta = (float)number;
    p->query_period = (float)p->ropes[0].original_context;
    if (p->query_beta > 0.0F && p->query_beta < 100.0F && p->query_period >= 1.0F) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "attention.temperature_scale is %g with a first context of %g",
                   number, (double)p->query_period);
}

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    const json *settings = json_get(source->config, "rope_parameters");
    const json *beta = json_get(settings, "llama_4_scaling_beta");
    if (source->is_gguf) return derive_gguf(p, source, err);
    if (json_kind_of(beta) == JSON_KIND_NULL) return WEFT_OK;
    p->query_beta = (float)json_number(beta, 0.0);
    p->query_period = (float)p->ropes[0].original_context;
    if (p->query_beta > 0.0F && p->query_beta < 100.0F && p->query_period >= 1.0F) return WEFT_OK;
    return err_set(err, WEFT_FORMAT,
                   "config.json: llama_4_scaling_beta is %g with an original context of %g",
                   (double)p->query_beta, (double)p->query_period);
}

static const dense RECORD = {
    .gguf_interleaved = true,
    .window = DENSE_WINDOW_ALL,
    .derive = derive,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

static const mlx_form MLX = {.only_json = true};

const model_family MODEL_FAMILY_MINISTRAL3 = {
    .name = "ministral3",
    .hf_types = DENSE_TYPES("ministral3"),
    .gguf_types = DENSE_TYPES("mistral3"),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &MLX,
};
