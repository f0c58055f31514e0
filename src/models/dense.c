/* dense.c - the graph of a dense decoder, from its record. */
#include "models/dense.h"

static graph_id attention(model_build *b, uint32_t layer, graph_id x)
{
    const model_params *p = b->p;
    graph *g = b->g;
    bool window = p->is_window[layer];
    uint32_t rope_i = window && p->n_ropes == 2 ? 1 : 0;
    graph_id q_bias = build_slot(b, PART_Q_BIAS, layer);
    graph_id k_bias = build_slot(b, PART_K_BIAS, layer);
    graph_id v_bias = build_slot(b, PART_V_BIAS, layer);
    graph_id o_bias = build_slot(b, PART_O_BIAS, layer);
    graph_id q = graph_linear(g, x, build_slot(b, PART_Q, layer), q_bias);
    graph_id k = graph_linear(g, x, build_slot(b, PART_K, layer), k_bias);
    graph_id v = graph_linear(g, x, build_slot(b, PART_V, layer), v_bias);
    if (p->has_qk_norm) {
        q = part_norm(b, PART_Q_NORM, layer, q);
        k = part_norm(b, PART_K_NORM, layer, k);
    }
    q = graph_rope_apply(g, q, p->head_dim, rope_i);
    k = graph_rope_apply(g, k, p->head_dim, rope_i);
    /* One as long as the context hides nothing. */
    uint32_t state_i = part_state(b, window && p->window < p->context ? p->window : 0);
    graph_id state = graph_kv_append(g, k, v, state_i, p->n_kv_heads);
    graph_id o = graph_attend(g, q, state, p->n_heads, p->attn_scale, p->attn_softcap);
    return graph_linear(g, o, build_slot(b, PART_O, layer), o_bias);
}

/* What a layer puts between the residual stream and a part of it: the norm before, after, both. */
static graph_id before(model_build *b, uint32_t slot, bool has, uint32_t layer, graph_id x)
{
    return has ? part_norm(b, slot, layer, x) : x;
}

void dense_build(model_build *b)
{
    const model_params *p = b->p;
    graph *g = b->g;
    graph_id x = part_embed(b);
    for (uint32_t l = 0; l < p->n_layers; l++) {
        graph_id a = attention(b, l, before(b, PART_ATTN_NORM, p->has_attn_norm, l, x));
        x = graph_add(g, x, before(b, DENSE_POST_ATTN_NORM, p->has_post_norms, l, a));
        graph_id m = part_mlp_build(b, l, before(b, PART_MLP_NORM, p->has_mlp_norm, l, x));
        x = graph_add(g, x, before(b, DENSE_POST_MLP_NORM, p->has_post_norms, l, m));
    }
    part_head(b, x);
}
