/* hybrid.c - the graph of Qwen's hybrids. */
#include "models/hybrid.h"

static uint32_t add_state(model_build *b)
{
    const model_params *p = b->p;
    uint32_t i = b->n_kv_layers++;
    b->kv_layers[i] = (kv_layer){
        .layout = KV_LAYOUT_RECURRENT,
        .buffers = {(p->conv_taps - 1) * p->conv_dim, p->delta_dim * p->delta_k_dim},
        .record = p->conv_dim + 2 * p->n_delta_v_heads,
    };
    return i;
}

/* What goes into a delta net: queries, keys and values of all heads, z, and in d decay and rate. */
typedef struct delta_inputs {
    graph_id qkv, z;
} delta_inputs;

/* Of one matrix, taken apart behind it. */
static delta_inputs take_all(model_build *b, graph_id all)
{
    graph *g = b->g;
    const model_params *p = b->p;
    uint32_t k_dim = p->delta_k_dim;
    uint32_t v_dim = p->n_delta_v_heads / p->n_delta_k_heads * p->delta_v_dim;
    uint32_t group = 2 * (k_dim + v_dim);
    graph_id q = graph_cols(g, all, group, 0, k_dim);
    graph_id k = graph_cols(g, all, group, k_dim, k_dim);
    graph_id v = graph_cols(g, all, group, 2 * k_dim, v_dim);
    delta_inputs in = {.z = graph_cols(g, all, group, 2 * k_dim + v_dim, v_dim)};
    in.qkv = graph_concat(g, graph_concat(g, q, k, 1), v, 1);
    return in;
}

static delta_inputs build_inputs(model_build *b, uint32_t l, graph_id x, graph_delta *d)
{
    graph *g = b->g;
    const model_params *p = b->p;
    uint32_t each = p->n_delta_v_heads / p->n_delta_k_heads;
    delta_inputs in = {0};
    graph_id all = 0;
    if (p->delta_grouped) {
        all = graph_linear(g, x, build_slot(b, DELTA_ALL, l), 0);
    } else {
        in.qkv = graph_linear(g, x, build_slot(b, DELTA_QKV, l), 0);
        in.z = graph_linear(g, x, build_slot(b, DELTA_Z, l), 0);
    }
    if (p->gates_apart) {
        d->decay = graph_linear(g, x, build_slot(b, DELTA_DECAY, l), 0);
        d->rate = graph_linear(g, x, build_slot(b, DELTA_RATE, l), 0);
        return p->delta_grouped ? take_all(b, all) : in;
    }
    graph_id gates = graph_linear(g, x, build_slot(b, DELTA_GATES, l), 0);
    if (p->delta_grouped) in = take_all(b, all);
    d->rate = graph_cols(g, gates, 2 * each, 0, each);
    d->decay = graph_cols(g, gates, 2 * each, each, each);
    return in;
}

static graph_id build_delta(model_build *b, uint32_t l, graph_id x)
{
    graph *g = b->g;
    const model_params *p = b->p;
    uint32_t state_i = add_state(b);
    graph_delta d = {
        .state_i = state_i, .n_k_heads = p->n_delta_k_heads, .k_dim = p->delta_k_dim, .eps = 1e-6F};
    if (p->delta_tiled) d.flags |= GRAPH_DELTA_TILED;
    if (p->delta_speed) d.flags |= GRAPH_DELTA_SPEED;
    delta_inputs in = build_inputs(b, l, x, &d);
    d.x = graph_conv(g, in.qkv, build_slot(b, DELTA_CONV, l), state_i, GRAPH_CONV_SILU);
    d.a_log = build_slot(b, DELTA_A_LOG, l);
    d.bias = build_slot(b, DELTA_BIAS, l);
    graph_id y = graph_gated_delta(g, &d);
    y = graph_rms_norm(g, y, build_slot(b, DELTA_NORM, l), p->norm_eps, 0.0F);
    return graph_linear(g, graph_glu(g, in.z, y, GRAPH_SILU), build_slot(b, DELTA_OUT, l), 0);
}

/* x, and what experts and the shared one make of m, its norm. */
static graph_id add_experts(model_build *b, uint32_t l, graph_id x, graph_id m)
{
    static const uint32_t SHARED[] = {SHARED_GATE, SHARED_UP, SHARED_DOWN};
    static const uint32_t EXPERTS[] = {EXPERT_GATE, EXPERT_UP, EXPERT_DOWN};
    graph *g = b->g;
    const model_params *p = b->p;
    graph_id factor = graph_linear(g, m, build_slot(b, SHARED_FACTOR, l), 0);
    graph_id h = part_gated_build(b, l, m, SHARED);
    x = graph_add(g, x, graph_mul(g, h, graph_act_apply(g, factor, GRAPH_SIGMOID)));
    graph_id scores = graph_linear(g, m, build_slot(b, ROUTER, l), 0);
    graph_route how = {
        .top_k = p->n_top, .flags = p->route_normalize ? GRAPH_ROUTE_NORMALIZE : 0, .scale = 1.0F};
    graph_id route = graph_route_experts(g, scores, 0, 0, how);
    return graph_add(g, x, part_experts_build(b, l, m, route, EXPERTS));
}

static graph_id build_layer(model_build *b, uint32_t l, graph_id x)
{
    const model_params *p = b->p;
    graph_id a = part_norm(b, PART_ATTN_NORM, l, x);
    part_attention how = {.rope_i = 0, .gated = true};
    a = p->is_recurrent[l] ? build_delta(b, l, a) : part_attention_build(b, l, a, how);
    x = graph_add(b->g, x, a);
    graph_id m = part_norm(b, PART_MLP_NORM, l, x);
    return p->is_moe[l] ? add_experts(b, l, x, m) : graph_add(b->g, x, part_mlp_build(b, l, m));
}

/* The layer behind the model's last, over token i + 1 and the model's hidden state of token i. */
void hybrid_build_draft(model_build *b)
{
    graph *g = b->g;
    graph_id e = part_norm(b, DRAFT_EMBED_NORM, 0, part_embed(b));
    graph_id h = graph_feed(g, 0, b->p->n_embd);
    h = part_norm(b, DRAFT_HIDDEN_NORM, 0, h);
    graph_id x = graph_linear(g, graph_concat(g, e, h, 1), build_slot(b, DRAFT_JOIN, 0), 0);
    part_head_behind(b, DRAFT_NORM, build_layer(b, b->p->n_layers, x));
}

void hybrid_build(model_build *b)
{
    graph_id x = part_embed(b);
    for (uint32_t l = 0; l < b->p->n_layers; l++) {
        x = build_layer(b, l, x);
        graph_tap(b->g, x, l);
    }
    part_head(b, x);
}
