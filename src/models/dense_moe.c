/* dense_moe.c - experts in the place of a dense decoder's MLP: which layers have them, how they are
 * chosen, and the one that every token goes to. */
#include <math.h>

#include "models/dense.h"

/* ---- parameters ------------------------------------------------------------------------------ */

/* A count under a key of config.json. */
static weft_status read_count(const model_source *source, const char *key, double least,
                              uint32_t *n, weft_error *err)
{
    bool found;
    double number;
    weft_status status = source_number(source, key, NULL, &found, &number, err);
    if (status != WEFT_OK || !found) return status;
    if (number < least || number > 4096.0 || number != floor(number)) {
        return err_set(err, WEFT_FORMAT, "config.json: %s is %g, expected a count to 4096", key,
                       number);
    }
    *n = (uint32_t)number;
    return WEFT_OK;
}

/* Every n-th layer has experts, but for those that are listed. */
static weft_status derive_layers(model_params *p, const model_source *source, weft_error *err)
{
    uint32_t every = 1;
    const json *without = json_get(source->config, "mlp_only_layers");
    weft_status status = read_count(source, "decoder_sparse_step", 1.0, &every, err);
    for (uint32_t i = 0; i < p->n_layers; i++) p->is_moe[i] = (i + 1) % every == 0;
    for (size_t i = 0; i < json_length(without) && status == WEFT_OK; i++) {
        int64_t layer = json_int(json_at(without, i), -1);
        if (layer >= 0 && layer < (int64_t)p->n_layers) {
            p->is_moe[layer] = false;
        } else {
            status = err_set(err, WEFT_FORMAT, "config.json: mlp_only_layers has %lld of %u layers",
                             (long long)layer, p->n_layers);
        }
    }
    return status;
}

weft_status dense_derive_moe(model_params *p, const model_source *source, weft_error *err)
{
    const dense_moe *moe = p->dense->moe;
    if (moe == NULL) return WEFT_OK;
    weft_status status = WEFT_OK;
    /* Newer configs have the other name. */
    if (p->n_experts == 0)
        status = read_count(source, "num_local_experts", 0.0, &p->n_experts, err);
    if (status != WEFT_OK || p->n_experts == 0) return status;
    if (p->n_top == 0 || p->n_top > p->n_experts) {
        return err_set(err, WEFT_FORMAT, "%u of %u experts is not possible", p->n_top,
                       p->n_experts);
    }
    if (p->n_expert_ff == 0) p->n_expert_ff = p->n_ff;
    p->n_gate_up = 2 * p->n_expert_ff;
    p->has_shared = moe->shared && p->n_shared_ff > 0;
    p->route_normalize = moe->normalize;
    bool found;
    if (!moe->normalize) {
        p->route_normalize = source->is_gguf && moe->gguf_normalize;
        status = source_flag(source, "norm_topk_prob", "expert_weights_norm", &found,
                             &p->route_normalize, err);
    }
    return status == WEFT_OK ? derive_layers(p, source, err) : status;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* The expert that every token goes to, times a sigmoid. */
static graph_id shared_expert(model_build *b, uint32_t layer, graph_id x)
{
    graph *g = b->g;
    static const uint32_t SHARED[] = {DENSE_SHARED_GATE, DENSE_SHARED_UP, DENSE_SHARED_DOWN};
    graph_id y = part_gated_build(b, layer, x, SHARED);
    graph_id part = graph_linear(g, x, build_slot(b, DENSE_SHARED_PART, layer), 0);
    return graph_mul(g, y, graph_act_apply(g, part, GRAPH_SIGMOID));
}

graph_id dense_moe_build(model_build *b, uint32_t layer, graph_id x)
{
    graph *g = b->g;
    const model_params *p = b->p;
    graph_id shared = p->has_shared ? shared_expert(b, layer, x) : 0;
    graph_id scores = graph_linear(g, x, build_slot(b, DENSE_ROUTER, layer), 0);
    graph_route how = {.top_k = p->n_top, .scale = 1.0F};
    if (p->route_normalize) how.flags = GRAPH_ROUTE_NORMALIZE;
    graph_id route = graph_route_experts(g, scores, 0, 0, how);
    static const uint32_t EXPERTS[] = {DENSE_EXPERT_GATE, DENSE_EXPERT_UP, DENSE_EXPERT_DOWN};
    graph_id y = part_experts_build(b, layer, x, route, EXPERTS);
    return shared == 0 ? y : graph_add(g, y, shared);
}
