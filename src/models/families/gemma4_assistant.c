/* gemma4_assistant.c - models that draft for Gemma 4: layers with queries alone, which read the
 * keys and values of another model's last layers (models/assistant.h). Source: Transformers'
 * modeling_gemma4_assistant; llama.cpp's architecture "gemma4-assistant".
 *
 * A token comes as the target's embedding of it and the target's hidden state before it, side by
 * side; what goes back has the target's width and is the next hidden state. Logits are of all
 * tokens, or behind them stands what chooses the few that are looked at. */
#include "models/gemma4.h"

static weft_status check(model_params *p, const model_source *source, weft_error *err)
{
    if (p->target_embd == 0) {
        return err_set(err, WEFT_FORMAT, "%s has no %s",
                       source->is_gguf ? "the file" : "config.json",
                       source->is_gguf ? "embedding_length_out" : "backbone_hidden_size");
    }
    const char *what = p->has_moe        ? "enable_moe_block"
                       : p->ple_dim != 0 ? "hidden_size_per_layer_input"
                       : p->wide_mlp     ? "use_double_wide_mlp"
                                         : NULL;
    if (what != NULL)
        return err_set(err, WEFT_UNSUPPORTED, "%s is not supported for an assistant", what);
    bool even = p->n_vocab % p->n_centroids == 0 && p->n_top_centroids <= p->n_centroids;
    if (!p->has_centroids || even) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "%u of %u centroids do not go with a vocabulary of %u",
                   p->n_top_centroids, p->n_centroids, p->n_vocab);
}

/* Queries turn by the place that a step gives them, which is not the position that they see from.
 */
static weft_status derive(model_params *p, const model_source *source, weft_error *err)
{
    p->is_assistant = true;
    weft_status status = gemma4_derive(p, source, err);
    if (status == WEFT_OK) status = check(p, source, err);
    p->join_dim = 2 * p->target_embd;
    for (uint32_t i = 0; i < p->n_ropes; i++) p->ropes[i].axes = ROPE_AXES_FIRST;
    return status;
}

/* The final hidden states, as the target has them; where centroids choose, as they are beside that,
 * for the tokens that are chosen. */
static void finish(model_build *b, graph_id x)
{
    graph *g = b->g;
    graph_id y = part_norm(b, PART_FINAL_NORM, 0, graph_take_hidden(g, x));
    graph_id back = graph_linear(g, y, build_slot(b, GEMMA4_BACK, 0), 0);
    graph_hidden(g, b->p->has_centroids ? graph_concat(g, back, y, 1) : back);
    graph_id head = build_slot(b, b->p->has_centroids ? GEMMA4_CENTROIDS : PART_HEAD, 0);
    if (head == 0) head = build_slot(b, PART_EMBED, 0);
    x = part_norm(b, PART_FINAL_NORM, 0, graph_take(g, x));
    graph_finish(g, graph_linear(g, x, head, 0));
}

static void build(model_build *b)
{
    graph *g = b->g;
    const model_params *p = b->p;
    gemma4_kind kinds[2];
    gemma4_kinds(p, kinds);
    graph_id x = graph_feed(g, 0, p->join_dim);
    x = graph_linear(g, x, build_slot(b, GEMMA4_JOIN, 0), 0);
    for (uint32_t l = 0; l < p->n_layers; l++) {
        gemma4_kind *of = &kinds[p->is_window[l] ? 1 : 0];
        if (of->state == 0)
            of->state =
                graph_state(g, gemma4_state(b, of), of->n_kv_heads, of->head_dim, of->head_dim);
        x = gemma4_layer(b, l, kinds, x, 0);
    }
    finish(b, x);
}

static const char *const HF_TYPES[] = {"gemma4_assistant", "gemma4_unified_assistant", NULL};
static const char *const GGUF_TYPES[] = {"gemma4-assistant", NULL};
/* GGUF files do not say how many centroids are looked at: logits are of all tokens there. */
static const char *const DROP[] = {"*.rotary_emb.inv_freq", "masked_embd_centroids.weight",
                                   "masked_embd_ordering", NULL};

const model_family MODEL_FAMILY_GEMMA4_ASSISTANT = {
    .name = "gemma4_assistant",
    .hf_types = HF_TYPES,
    .gguf_types = GGUF_TYPES,
    .by_top = true,
    .params = GEMMA4_PARAMS,
    .n_params = GEMMA4_N_PARAMS,
    .slots = GEMMA4_SLOTS,
    .n_slots = GEMMA4_N_SLOTS,
    .drop = DROP,
    .derive = derive,
    .build = build,
};
