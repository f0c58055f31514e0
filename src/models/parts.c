/* parts.c - pieces of graphs that several families are made of. */
#include "models/parts.h"

#include <math.h>

graph_id part_norm(model_build *b, uint32_t slot, uint32_t layer, graph_id x)
{
    return graph_rms_norm(b->g, x, build_slot(b, slot, layer), b->p->norm_eps, b->p->norm_add);
}

graph_id part_embed(model_build *b)
{
    graph_id x = graph_embed(b->g, graph_tokens(b->g), build_slot(b, PART_EMBED, 0));
    if (b->p->embed_scale != 0.0F) x = graph_scale(b->g, x, b->p->embed_scale);
    return b->images ? graph_replace(b->g, x, graph_feed(b->g, 0, b->p->n_embd)) : x;
}

uint32_t part_state(model_build *b, uint32_t window)
{
    const model_params *p = b->p;
    uint32_t i = b->n_kv_layers++;
    b->kv_layers[i] = (kv_layer){
        .layout = window != 0 ? KV_LAYOUT_WINDOW : KV_LAYOUT_FULL,
        .n_heads = p->n_kv_heads,
        .k_dim = p->head_dim,
        .v_dim = p->head_dim,
        .window = window,
    };
    return i;
}

graph_id part_attention_build(model_build *b, uint32_t layer, graph_id x, part_attention how)
{
    graph *g = b->g;
    const model_params *p = b->p;
    graph_id q_bias = build_slot(b, PART_Q_BIAS, layer);
    graph_id k_bias = build_slot(b, PART_K_BIAS, layer);
    graph_id v_bias = build_slot(b, PART_V_BIAS, layer);
    graph_id o_bias = build_slot(b, PART_O_BIAS, layer);
    graph_id q = graph_linear(g, x, build_slot(b, PART_Q, layer), q_bias);
    graph_id k = graph_linear(g, x, build_slot(b, PART_K, layer), k_bias);
    graph_id v = graph_linear(g, x, build_slot(b, PART_V, layer), v_bias);
    graph_id gate = 0;
    if (how.gated) {
        gate = graph_cols(g, q, 2 * p->head_dim, p->head_dim, p->head_dim);
        q = graph_cols(g, q, 2 * p->head_dim, 0, p->head_dim);
    }
    graph_id q_norm = build_slot(b, PART_Q_NORM, layer);
    graph_id k_norm = build_slot(b, PART_K_NORM, layer);
    if (q_norm != 0) q = graph_rms_norm(g, q, q_norm, p->norm_eps, p->norm_add);
    if (k_norm != 0) k = graph_rms_norm(g, k, k_norm, p->norm_eps, p->norm_add);
    q = graph_rope_apply(g, q, p->head_dim, how.rope_i);
    k = graph_rope_apply(g, k, p->head_dim, how.rope_i);
    graph_id state = graph_kv_append(g, k, v, part_state(b, how.window), p->n_kv_heads);
    graph_id sinks = how.sinks == 0 ? 0 : build_slot(b, how.sinks, layer);
    graph_id o = graph_attend_sinks(g, q, state, sinks, p->n_heads, p->attn_scale, p->attn_softcap);
    if (how.gated) o = graph_glu(g, gate, o, GRAPH_SIGMOID);
    return graph_linear(g, o, build_slot(b, PART_O, layer), o_bias);
}

graph_id part_mlp_build(model_build *b, uint32_t layer, graph_id x)
{
    graph *g = b->g;
    graph_id gate_bias = build_slot(b, PART_GATE_BIAS, layer);
    graph_id up_bias = build_slot(b, PART_UP_BIAS, layer);
    graph_id down_bias = build_slot(b, PART_DOWN_BIAS, layer);
    graph_id gate = graph_linear(g, x, build_slot(b, PART_GATE, layer), gate_bias);
    graph_id up = graph_linear(g, x, build_slot(b, PART_UP, layer), up_bias);
    graph_id h = graph_glu(g, gate, up, b->p->act);
    return graph_linear(g, h, build_slot(b, PART_DOWN, layer), down_bias);
}

graph_id part_gated_build(model_build *b, uint32_t layer, graph_id x, const uint32_t slots[3])
{
    graph *g = b->g;
    graph_id gate = graph_linear(g, x, build_slot(b, slots[0], layer), 0);
    graph_id up = graph_linear(g, x, build_slot(b, slots[1], layer), 0);
    graph_id h = graph_glu(g, gate, up, b->p->act);
    return graph_linear(g, h, build_slot(b, slots[2], layer), 0);
}

graph_id part_experts_build(model_build *b, uint32_t layer, graph_id x, graph_id route,
                            const uint32_t slots[3])
{
    graph_id stacks[3];
    for (int i = 0; i < 3; i++) stacks[i] = build_stack(b, slots[i], layer);
    return graph_experts(b->g, x, route, stacks, b->p->act);
}

void part_head(model_build *b, graph_id x)
{
    part_head_behind(b, PART_FINAL_NORM, x);
}

void part_head_behind(model_build *b, uint32_t norm, graph_id x)
{
    graph *g = b->g;
    graph_hidden(g, part_norm(b, norm, 0, graph_take_hidden(g, x)));
    x = part_norm(b, norm, 0, graph_take(g, x));
    graph_id head = build_slot(b, PART_HEAD, 0);
    if (head == 0) head = build_slot(b, PART_EMBED, 0);
    graph_id logits = graph_linear(g, x, head, 0);
    if (b->p->final_softcap > 0.0F) logits = graph_softcap(g, logits, b->p->final_softcap);
    graph_finish(g, logits);
}

weft_status part_derive(model_params *p, weft_error *err)
{
    if (p->n_kv_heads == 0) p->n_kv_heads = p->n_heads;
    if (p->head_dim == 0) {
        if (p->n_embd % p->n_heads != 0) {
            return err_set(err, WEFT_FORMAT, "width %u is not a multiple of %u heads", p->n_embd,
                           p->n_heads);
        }
        p->head_dim = p->n_embd / p->n_heads;
    }
    if (p->n_heads % p->n_kv_heads != 0) {
        return err_set(err, WEFT_FORMAT, "%u heads are not a multiple of %u key heads", p->n_heads,
                       p->n_kv_heads);
    }
    if (p->rope_dims == 0) p->rope_dims = p->head_dim;
    if (p->rope_dims % 2 != 0 || p->rope_dims > p->head_dim) {
        return err_set(err, WEFT_FORMAT,
                       "%u of %u head dimensions rotate, expected an even number up to that",
                       p->rope_dims, p->head_dim);
    }
    p->q_dim = p->n_heads * p->head_dim;
    p->kv_dim = p->n_kv_heads * p->head_dim;
    if (p->attn_scale == 0.0F) p->attn_scale = (float)(1.0 / sqrt((double)p->head_dim));
    return WEFT_OK;
}

weft_status part_layer_types(model_params *p, const model_source *source, bool *found,
                             weft_error *err)
{
    const json *types = json_get(source->config, "layer_types");
    *found = json_kind_of(types) == JSON_KIND_ARRAY;
    if (!*found) return WEFT_OK;
    if (json_length(types) != p->n_layers) {
        return err_set(err, WEFT_FORMAT, "config.json: layer_types has %zu entries for %u layers",
                       json_length(types), p->n_layers);
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        str type = json_text(json_at(types, i));
        p->is_window[i] = str_equal_text(type, "sliding_attention");
        if (!p->is_window[i] && !str_equal_text(type, "full_attention")) {
            return err_set(err, WEFT_UNSUPPORTED, "config.json: layer type '%.*s' is not supported",
                           (int)(type.len < 64 ? type.len : 64), type.ptr);
        }
        if (p->is_window[i] && p->window == 0) {
            return err_set(err, WEFT_FORMAT,
                           "config.json: layer %u is sliding_attention without sliding_window", i);
        }
    }
    return WEFT_OK;
}
