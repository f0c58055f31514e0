/* gemma2.c - Gemma 2: Gemma with norms around each part of a layer, a window in every other
 * layer, and caps of scores and logits. Source: Transformers' modeling_gemma2; llama.cpp's
 * architecture "gemma2". */
#include <math.h>

#include "models/dense.h"

static const model_param PARAMS[] = {
    {"head_dim", "attention.key_length", SHAPE(head_dim), PARAM_U32, false, 2, 4096, 256},
    DENSE_FLAG("tie_word_embeddings", tied, 1),
    {"sliding_window", "attention.sliding_window", SHAPE(window), PARAM_U32, false, 0, 1 << 30,
     4096},
    DENSE_NUMBER("query_pre_attn_scalar", NULL, query_pre_attn_scalar, 1e-3, 1e6, 256),
    DENSE_NUMBER("attn_logit_softcapping", "attn_logit_softcapping", attn_softcap, 1e-3, 1e6, 50),
    DENSE_NUMBER("final_logit_softcapping", "final_logit_softcapping", final_softcap, 1e-3, 1e6,
                 30),
    DENSE_FLAG("attention_bias", qkv_bias, 0),
    DENSE_FLAG("attention_bias", o_bias, 0),
};

static const model_name NAMES[] = {
    DENSE_NAME(PART_MLP_NORM, "pre_feedforward_layernorm.weight", "ffn_norm.weight"),
};

/* The largest size scales queries by width / heads; its GGUF file does not say so. */
enum { LAYERS_27B = 46 };

/* A null says that there is no such thing. */
static bool is_null(const model_source *source, const char *key)
{
    const json *value = json_get(source->config, key);
    return value != NULL && json_kind_of(value) == JSON_KIND_NULL;
}

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    (void)err;
    if (is_null(source, "attn_logit_softcapping")) p->attn_softcap = 0.0F;
    if (is_null(source, "final_logit_softcapping")) p->final_softcap = 0.0F;
    if (!source->is_gguf) return WEFT_OK;
    double scalar =
        p->n_layers == LAYERS_27B ? (double)p->n_embd / (double)p->n_heads : (double)p->head_dim;
    p->attn_scale = (float)(1.0 / sqrt(scalar));
    return WEFT_OK;
}

static const dense RECORD = {
    .block = DENSE_SANDWICH,
    .norm = DENSE_RMS_OFFSET,
    .act = GRAPH_GELU_TANH,
    .embed_root = true,
    .window = DENSE_WINDOW_EVERY,
    .window_fallback = 4096,
    .window_every = 2,
    .derive = derive,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
};

const model_family MODEL_FAMILY_GEMMA2 = {
    .name = "gemma2",
    .hf_types = DENSE_TYPES("gemma2"),
    .gguf_types = DENSE_TYPES("gemma2"),
    .names = NAMES,
    .n_names = COUNT_OF(NAMES),
    .dense = &RECORD,
    DENSE_FAMILY,
    .mlx = &DENSE_MLX_OFFSET,
};
