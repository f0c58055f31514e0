/* phi.c - Phi 1, 1.5 and 2: attention and an MLP without a gate beside each other, layer norms,
 * biases everywhere. Source: Transformers' modeling_phi; llama.cpp's architecture "phi2". */
#include "models/dense.h"

static const model_param PARAMS[] = {
    DENSE_LN_EPS("layer_norm_eps"), DENSE_PARTIAL(0.5),     DENSE_ALWAYS(qkv_bias),
    DENSE_ALWAYS(o_bias),           DENSE_ALWAYS(mlp_bias), DENSE_ALWAYS(head_bias),
};

static const model_name NAMES[] = {
    DENSE_NAME(PART_FINAL_NORM, "final_layernorm.weight", "output_norm.weight"),
    DENSE_NAME(DENSE_FINAL_NORM_BIAS, "final_layernorm.bias", "output_norm.bias"),
    DENSE_NAME(PART_O, "self_attn.dense.weight", "attn_output.weight"),
    DENSE_NAME(PART_O_BIAS, "self_attn.dense.bias", "attn_output.bias"),
    DENSE_NAME(PART_UP, "mlp.fc1.weight", "ffn_up.weight"),
    DENSE_NAME(PART_UP_BIAS, "mlp.fc1.bias", "ffn_up.bias"),
    DENSE_NAME(PART_DOWN, "mlp.fc2.weight", "ffn_down.weight"),
    DENSE_NAME(PART_DOWN_BIAS, "mlp.fc2.bias", "ffn_down.bias"),
};

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    (void)p;
    if (!json_bool(json_get(source->config, "qk_layernorm"), false)) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED, "config.json: qk_layernorm is not supported for phi");
}

static const dense RECORD = {
    .block = DENSE_PARALLEL,
    .norm = DENSE_LN,
    .norm_bias = true,
    .plain_mlp = true,
    .act = GRAPH_GELU_TANH,
    .derive = derive,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_PHI = {
    .name = "phi",
    .hf_types = DENSE_TYPES("phi"),
    .gguf_types = DENSE_TYPES("phi2"),
    .names = NAMES,
    .n_names = COUNT_OF(NAMES),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX,
};
