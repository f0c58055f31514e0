/* ministral3.c - Ministral 3: Mistral whose queries grow with the logarithm of their position, past
 * the context that the model was trained on first. Source: Transformers' modeling_ministral3. */
#include "models/dense.h"

static const model_param PARAMS[] = {
    {"head_dim", NULL, SHAPE(head_dim), PARAM_U32, false, 2, 4096, 128},
    DENSE_THETA(1e6),
};

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    const json *settings = json_get(source->config, "rope_parameters");
    const json *beta = json_get(settings, "llama_4_scaling_beta");
    if (json_kind_of(beta) == JSON_KIND_NULL) return WEFT_OK;
    p->query_beta = (float)json_number(beta, 0.0);
    p->query_period = (float)p->ropes[0].original_context;
    if (p->query_beta > 0.0F && p->query_beta < 100.0F && p->query_period >= 1.0F) return WEFT_OK;
    return err_set(err, WEFT_FORMAT,
                   "config.json: llama_4_scaling_beta is %g with an original context of %g",
                   (double)p->query_beta, (double)p->query_period);
}

static const dense RECORD = {
    .window = DENSE_WINDOW_ALL,
    .derive = derive,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_MINISTRAL3 = {
    .name = "ministral3",
    .hf_types = DENSE_TYPES("ministral3"),
    .gguf_types = DENSE_NO_TYPES,
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
