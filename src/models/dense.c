/* dense.c - the graph of a dense decoder, from its record. */
#include "models/dense.h"

/* ---- norms ----------------------------------------------------------------------------------- */

/* Of the residual stream or of what is added to it. */
static graph_id norm(model_build *b, uint32_t slot, uint32_t bias_slot, uint32_t layer, graph_id x)
{
    const model_params *p = b->p;
    dense_norm kind = p->dense->norm;
    if (kind == DENSE_RMS || kind == DENSE_RMS_OFFSET) return part_norm(b, slot, layer, x);
    graph_layer_norm how = {.group = p->n_embd, .eps = p->norm_eps, .weight_add = p->norm_add};
    how.weight = build_slot(b, slot, layer);
    how.bias = build_slot(b, bias_slot, layer);
    return graph_layer_norm_apply(b->g, x, how);
}

static graph_id before_attention(model_build *b, uint32_t layer, graph_id x)
{
    if (b->p->dense->block == DENSE_POST) return x;
    return norm(b, PART_ATTN_NORM, DENSE_ATTN_NORM_BIAS, layer, x);
}

static graph_id before_mlp(model_build *b, uint32_t layer, graph_id x)
{
    if (b->p->dense->block == DENSE_POST) return x;
    return norm(b, PART_MLP_NORM, DENSE_MLP_NORM_BIAS, layer, x);
}

/* Adds what attention or the MLP gave to the stream. */
static graph_id add(model_build *b, uint32_t post_norm, uint32_t layer, graph_id x, graph_id y)
{
    const model_params *p = b->p;
    if (p->has_post_norms) y = part_norm(b, post_norm, layer, y);
    if (p->residual_scale != 0.0F) y = graph_scale(b->g, y, p->residual_scale);
    return graph_add(b->g, x, y);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Queries or keys, of heads with one weight or one each. */
static graph_id head_norm(model_build *b, uint32_t slot, uint32_t each, uint32_t layer, graph_id x)
{
    const model_params *p = b->p;
    if (p->has_qk_norm) return part_norm(b, slot, layer, x);
    graph_layer_norm how = {.group = p->head_dim, .eps = p->norm_eps};
    how.weight = build_stack(b, each, layer);
    return how.weight == 0 ? x : graph_layer_norm_apply(b->g, x, how);
}

static void rotate(model_build *b, uint32_t layer, graph_id *q, graph_id *k)
{
    const model_params *p = b->p;
    uint32_t rope_i = p->is_window[layer] && p->n_ropes == 2 ? 1 : 0;
    if (p->is_unrotated[layer]) return;
    *q = graph_rope_apply(b->g, *q, p->head_dim, rope_i);
    *k = graph_rope_apply(b->g, *k, p->head_dim, rope_i);
}

static void norm_heads(model_build *b, uint32_t layer, graph_id *q, graph_id *k)
{
    *q = head_norm(b, PART_Q_NORM, DENSE_Q_NORMS, layer, *q);
    *k = head_norm(b, PART_K_NORM, DENSE_K_NORMS, layer, *k);
}

static graph_id attention(model_build *b, uint32_t layer, graph_id x)
{
    const model_params *p = b->p;
    graph *g = b->g;
    graph_id q_bias = build_slot(b, PART_Q_BIAS, layer);
    graph_id k_bias = build_slot(b, PART_K_BIAS, layer);
    graph_id v_bias = build_slot(b, PART_V_BIAS, layer);
    graph_id o_bias = build_slot(b, PART_O_BIAS, layer);
    graph_id q = graph_linear(g, x, build_slot(b, PART_Q, layer), q_bias);
    graph_id k = graph_linear(g, x, build_slot(b, PART_K, layer), k_bias);
    graph_id v = graph_linear(g, x, build_slot(b, PART_V, layer), v_bias);
    if (!p->dense->qk_after_rope) norm_heads(b, layer, &q, &k);
    rotate(b, layer, &q, &k);
    if (p->dense->qk_after_rope) norm_heads(b, layer, &q, &k);
    if (p->query_beta != 0.0F) q = graph_position_scale(g, q, p->query_beta, p->query_period);
    /* A window as long as the context hides nothing. */
    bool window = p->is_window[layer] && p->window < p->context;
    uint32_t state_i = part_state(b, window ? p->window : 0);
    graph_id state = graph_kv_append(g, k, v, state_i, p->n_kv_heads);
    graph_id o = graph_attend(g, q, state, p->n_heads, p->attn_scale, p->attn_softcap);
    return graph_linear(g, o, build_slot(b, PART_O, layer), o_bias);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static graph_id mlp(model_build *b, uint32_t layer, graph_id x)
{
    graph *g = b->g;
    if (b->p->is_moe[layer]) return dense_moe_build(b, layer, x);
    if (b->p->has_gate) return part_mlp_build(b, layer, x);
    graph_id up_bias = build_slot(b, PART_UP_BIAS, layer);
    graph_id down_bias = build_slot(b, PART_DOWN_BIAS, layer);
    graph_id h = graph_linear(g, x, build_slot(b, PART_UP, layer), up_bias);
    h = graph_act_apply(g, h, b->p->act);
    return graph_linear(g, h, build_slot(b, PART_DOWN, layer), down_bias);
}

static void head(model_build *b, graph_id x)
{
    const model_params *p = b->p;
    graph *g = b->g;
    graph_hidden(g, norm(b, PART_FINAL_NORM, DENSE_FINAL_NORM_BIAS, 0, graph_take_hidden(g, x)));
    x = norm(b, PART_FINAL_NORM, DENSE_FINAL_NORM_BIAS, 0, graph_take(g, x));
    /* Of the input, which is shorter than the logits. */
    if (p->logit_scale != 0.0F) x = graph_scale(g, x, p->logit_scale);
    if (p->logit_divisor != 0.0F) x = graph_scale(g, x, 1.0F / p->logit_divisor);
    graph_id w = build_slot(b, PART_HEAD, 0);
    if (w == 0) w = build_slot(b, PART_EMBED, 0);
    graph_id logits = graph_linear(g, x, w, build_slot(b, DENSE_HEAD_BIAS, 0));
    if (p->final_softcap > 0.0F) logits = graph_softcap(g, logits, p->final_softcap);
    graph_finish(g, logits);
}

void dense_build(model_build *b)
{
    const model_params *p = b->p;
    graph_id x = part_embed(b);
    for (uint32_t l = 0; l < p->n_layers; l++) {
        graph_id n = before_attention(b, l, x);
        x = add(b, DENSE_POST_ATTN_NORM, l, x, attention(b, l, n));
        if (!p->parallel) n = before_mlp(b, l, x);
        x = add(b, DENSE_POST_MLP_NORM, l, x, mlp(b, l, n));
        graph_tap(b->g, x, l);
    }
    head(b, x);
}
