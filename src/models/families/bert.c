/* bert.c - BERT and what is built like it: encoders with learned positions, whose tokens see each
 * other, and whose norms stand behind attention and the MLP. Sources: Transformers' modeling_bert,
 * modeling_roberta and modeling_xlm_roberta, which count positions behind the padding token's id;
 * llama.cpp's architecture "bert", whose converter has left those rows out. The type of every token
 * is 0, as that of a text alone is. Pooler and heads of other tasks are left out. */
#include "base/assert.h"
#include "models/parts.h"

enum {
    BERT_EMBED,
    BERT_POSITIONS,
    BERT_TYPES,
    BERT_EMBED_NORM,
    BERT_EMBED_NORM_BIAS,
    BERT_Q,
    BERT_Q_BIAS,
    BERT_K,
    BERT_K_BIAS,
    BERT_V,
    BERT_V_BIAS,
    BERT_O,
    BERT_O_BIAS,
    BERT_ATTN_NORM,
    BERT_ATTN_NORM_BIAS,
    BERT_UP,
    BERT_UP_BIAS,
    BERT_DOWN,
    BERT_DOWN_BIAS,
    BERT_MLP_NORM,
    BERT_MLP_NORM_BIAS,
    BERT_N_SLOTS
};

static const model_param PARAMS[] = {
    {"num_hidden_layers", "block_count", SHAPE(n_layers), PARAM_U32, true, 1, MODEL_LAYERS, 0},
    {"hidden_size", "embedding_length", SHAPE(n_embd), PARAM_U32, true, 1, 1 << 20, 0},
    {"num_attention_heads", "attention.head_count", SHAPE(n_heads), PARAM_U32, true, 1, 4096, 0},
    {"intermediate_size", "feed_forward_length", SHAPE(n_ff), PARAM_U32, true, 1, 1 << 20, 0},
    {"vocab_size", "vocab_size", SHAPE(n_vocab), PARAM_U32, false, 1, MODEL_VOCAB, 0},
    {"max_position_embeddings", "context_length", SHAPE(n_positions), PARAM_U32, true, 1, 1 << 20,
     0},
    {"layer_norm_eps", "attention.layer_norm_epsilon", SHAPE(norm_eps), PARAM_F32, false, 1e-13, 1,
     1e-12},
    {"type_vocab_size", NULL, SHAPE(n_types), PARAM_U32, false, 1, 1 << 16, 2},
};

#define ONCE(name, gguf, n_rows, n_cols)                                                           \
    {                                                                                              \
        .hf_name = "embeddings." name, .gguf_name = (gguf), .place = SLOT_MODEL, .rows = (n_rows), \
        .cols = SHAPE(n_cols), .if_flag = SHAPE_NONE                                               \
    }
#define LAYER(name, gguf, n_rows, n_cols)                                                          \
    {                                                                                              \
        .hf_name = (name), .gguf_name = (gguf), .place = SLOT_LAYER, .rows = (n_rows),             \
        .cols = SHAPE(n_cols), .if_flag = SHAPE_NONE                                               \
    }

static const model_slot SLOTS[BERT_N_SLOTS] = {
    [BERT_EMBED] = ONCE("word_embeddings.weight", "token_embd.weight", SHAPE(n_vocab), n_embd),
    [BERT_POSITIONS] =
        ONCE("position_embeddings.weight", "position_embd.weight", SHAPE(n_positions), n_embd),
    [BERT_TYPES] =
        ONCE("token_type_embeddings.weight", "token_types.weight", SHAPE(n_types), n_embd),
    [BERT_EMBED_NORM] = ONCE("LayerNorm.weight", "token_embd_norm.weight", SHAPE_NONE, n_embd),
    [BERT_EMBED_NORM_BIAS] = ONCE("LayerNorm.bias", "token_embd_norm.bias", SHAPE_NONE, n_embd),
    [BERT_Q] = LAYER("attention.self.query.weight", "attn_q.weight", SHAPE(n_embd), n_embd),
    [BERT_Q_BIAS] = LAYER("attention.self.query.bias", "attn_q.bias", SHAPE_NONE, n_embd),
    [BERT_K] = LAYER("attention.self.key.weight", "attn_k.weight", SHAPE(n_embd), n_embd),
    [BERT_K_BIAS] = LAYER("attention.self.key.bias", "attn_k.bias", SHAPE_NONE, n_embd),
    [BERT_V] = LAYER("attention.self.value.weight", "attn_v.weight", SHAPE(n_embd), n_embd),
    [BERT_V_BIAS] = LAYER("attention.self.value.bias", "attn_v.bias", SHAPE_NONE, n_embd),
    [BERT_O] = LAYER("attention.output.dense.weight", "attn_output.weight", SHAPE(n_embd), n_embd),
    [BERT_O_BIAS] = LAYER("attention.output.dense.bias", "attn_output.bias", SHAPE_NONE, n_embd),
    [BERT_ATTN_NORM] =
        LAYER("attention.output.LayerNorm.weight", "attn_output_norm.weight", SHAPE_NONE, n_embd),
    [BERT_ATTN_NORM_BIAS] =
        LAYER("attention.output.LayerNorm.bias", "attn_output_norm.bias", SHAPE_NONE, n_embd),
    [BERT_UP] = LAYER("intermediate.dense.weight", "ffn_up.weight", SHAPE(n_ff), n_embd),
    [BERT_UP_BIAS] = LAYER("intermediate.dense.bias", "ffn_up.bias", SHAPE_NONE, n_ff),
    [BERT_DOWN] = LAYER("output.dense.weight", "ffn_down.weight", SHAPE(n_embd), n_ff),
    [BERT_DOWN_BIAS] = LAYER("output.dense.bias", "ffn_down.bias", SHAPE_NONE, n_embd),
    [BERT_MLP_NORM] =
        LAYER("output.LayerNorm.weight", "layer_output_norm.weight", SHAPE_NONE, n_embd),
    [BERT_MLP_NORM_BIAS] =
        LAYER("output.LayerNorm.bias", "layer_output_norm.bias", SHAPE_NONE, n_embd),
};

/* ---- parameters ------------------------------------------------------------------------------ */

static weft_status derive_act(model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    str act;
    p->act = GRAPH_GELU_ERF;
    weft_status status = source_text(source, "hidden_act", NULL, &found, &act, err);
    if (status != WEFT_OK || !found || str_equal_text(act, "gelu")) return status;
    if (str_equal_text(act, "gelu_new") || str_equal_text(act, "gelu_pytorch_tanh")) {
        p->act = GRAPH_GELU_TANH;
        return WEFT_OK;
    }
    return err_set(err, WEFT_UNSUPPORTED, "config.json: hidden_act '%.*s' is not supported",
                   (int)(act.len < 64 ? act.len : 64), act.ptr);
}

/* Settings of decoders, and of other ways to say where a token stands. */
static weft_status check_config(const model_source *source, weft_error *err)
{
    static const struct {
        const char *json_key, *gguf_key;
    } FLAGS[] = {{"is_decoder", "attention.causal"}, {"add_cross_attention", NULL}};
    for (size_t i = 0; i < COUNT_OF(FLAGS); i++) {
        bool found;
        bool flag = false;
        const char *key = source->is_gguf ? FLAGS[i].gguf_key : FLAGS[i].json_key;
        weft_status status =
            source_flag(source, FLAGS[i].json_key, FLAGS[i].gguf_key, &found, &flag, err);
        if (status != WEFT_OK) return status;
        if (flag)
            return err_set(err, WEFT_UNSUPPORTED, "%s is set: only encoders are supported", key);
    }
    bool found;
    str kind;
    weft_status status = source_text(source, "position_embedding_type", NULL, &found, &kind, err);
    if (status != WEFT_OK || !found || str_equal_text(kind, "absolute")) return status;
    return err_set(
        err, WEFT_UNSUPPORTED,
        "config.json: position_embedding_type '%.*s' is not supported, expected absolute",
        (int)(kind.len < 64 ? kind.len : 64), kind.ptr);
}

/* RoBERTa's positions begin behind the row of the padding token. */
static weft_status derive_positions(model_params *p, const model_source *source, weft_error *err)
{
    p->context = p->n_positions;
    if (source->is_gguf || str_equal_text(source->type, "bert")) return WEFT_OK;
    bool found;
    double pad = 1.0;
    weft_status status = source_number(source, "pad_token_id", NULL, &found, &pad, err);
    if (status != WEFT_OK) return status;
    if (!(pad >= 0.0 && pad + 1.0 < (double)p->n_positions)) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: pad_token_id is %g, max_position_embeddings %u", pad,
                       p->n_positions);
    }
    p->first_position = (uint32_t)pad + 1;
    p->context = p->n_positions - p->first_position;
    return WEFT_OK;
}

static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    weft_status status = check_config(source, err);
    if (status == WEFT_OK) status = derive_act(p, source, err);
    if (status == WEFT_OK) status = derive_positions(p, source, err);
    if (status == WEFT_OK) status = part_derive(p, err);
    if (status != WEFT_OK) return status;
    /* No key of the architecture says how many types there are. */
    const tensor *types =
        source->is_gguf ? weights_find(source->weights, "token_types.weight") : NULL;
    if (types != NULL && types->n_rows > 0 && types->n_rows < 1 << 16)
        p->n_types = (uint32_t)types->n_rows;
    p->sees_all = true;
    return WEFT_OK;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* The bias is the slot behind the weight. */
static graph_id norm(model_build *b, uint32_t slot, uint32_t layer, graph_id x)
{
    graph_layer_norm how = {.weight = build_slot(b, slot, layer),
                            .bias = build_slot(b, slot + 1, layer),
                            .group = b->p->n_embd,
                            .eps = b->p->norm_eps};
    return graph_layer_norm_apply(b->g, x, how);
}

static graph_id embed(model_build *b)
{
    graph *g = b->g;
    graph_id x = graph_embed(g, graph_tokens(g), build_slot(b, BERT_EMBED, 0));
    graph_id type = graph_embed(g, graph_one_row(g, 0), build_slot(b, BERT_TYPES, 0));
    graph_id at =
        graph_embed(g, graph_positions(g, b->p->first_position), build_slot(b, BERT_POSITIONS, 0));
    return norm(b, BERT_EMBED_NORM, 0, graph_add(g, graph_add(g, x, type), at));
}

static graph_id attention(model_build *b, uint32_t l, graph_id x)
{
    graph *g = b->g;
    const model_params *p = b->p;
    graph_id matrices[3];
    graph_id biases[3];
    for (uint32_t i = 0; i < 3; i++) {
        matrices[i] = build_slot(b, BERT_Q + 2 * i, l);
        biases[i] = build_slot(b, BERT_Q_BIAS + 2 * i, l);
    }
    graph_id q = graph_linear(g, x, matrices[0], biases[0]);
    graph_id k = graph_linear(g, x, matrices[1], biases[1]);
    graph_id v = graph_linear(g, x, matrices[2], biases[2]);
    graph_id state = graph_kv_append(g, k, v, part_state(b, 0), p->n_heads);
    graph_id o = graph_attend(g, q, state, p->n_heads, p->attn_scale, 0.0F);
    graph_id o_weight = build_slot(b, BERT_O, l);
    return graph_linear(g, o, o_weight, build_slot(b, BERT_O_BIAS, l));
}

static graph_id mlp(model_build *b, uint32_t l, graph_id x)
{
    graph *g = b->g;
    graph_id up = build_slot(b, BERT_UP, l);
    graph_id h = graph_linear(g, x, up, build_slot(b, BERT_UP_BIAS, l));
    graph_id down = build_slot(b, BERT_DOWN, l);
    return graph_linear(g, graph_act_apply(g, h, b->p->act), down,
                        build_slot(b, BERT_DOWN_BIAS, l));
}

static void build(model_build *b)
{
    graph *g = b->g;
    graph_id x = embed(b);
    for (uint32_t l = 0; l < b->p->n_layers; l++) {
        x = norm(b, BERT_ATTN_NORM, l, graph_add(g, x, attention(b, l, x)));
        x = graph_add(g, x, mlp(b, l, x));
        if (l + 1 == b->p->n_layers) x = graph_take_hidden(g, x);
        x = norm(b, BERT_MLP_NORM, l, x);
    }
    graph_hidden(g, x);
    graph_finish(g, 0);
}

static const char *const HF_TYPES[] = {"bert", "roberta", "xlm-roberta", NULL};
static const char *const GGUF_TYPES[] = {"bert", NULL};
static const char *const DROP[] = {"*embeddings.position_ids",
                                   "pooler.*",
                                   "bert.pooler.*",
                                   "roberta.pooler.*",
                                   "cls.*",
                                   "lm_head.*",
                                   NULL};

const model_family MODEL_FAMILY_BERT = {
    .name = "bert",
    .hf_types = HF_TYPES,
    .gguf_types = GGUF_TYPES,
    .params = PARAMS,
    .n_params = COUNT_OF(PARAMS),
    .slots = SLOTS,
    .n_slots = COUNT_OF(SLOTS),
    .layers = "encoder.layer.",
    .drop = DROP,
    .derive = derive,
    .build = build,
};
