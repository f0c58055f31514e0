/* hybrid_params.c - what follows from the config of one of Qwen's hybrids, and what is refused. */
#include "models/hybrid.h"

#include <stdio.h>

#include "base/assert.h"
#include "models/model.h"
#include "models/rope.h"

/* Hugging Face's form, whose convolutions are [C, 1, K], stores norm weights as offsets. */
static bool stores_offsets(const weights *w)
{
    for (uint32_t i = 0; i < w->n_tensors; i++) {
        const tensor *t = &w->tensors[i];
        if (!str_ends(str_of(t->name), ".linear_attn.conv1d.weight")) continue;
        return t->dims[t->n_dims - 1] != 1;
    }
    return true;
}

static weft_status derive_layers(model_params *p, const model_source *source, weft_error *err)
{
    const json *types = json_get(source->config, "layer_types");
    bool listed = json_kind_of(types) == JSON_KIND_ARRAY;
    if (source->is_gguf) return hybrid_read_gguf(p, source, err);
    if (listed && json_length(types) != p->n_layers) {
        return err_set(err, WEFT_FORMAT, "config.json: layer_types has %zu entries for %u layers",
                       json_length(types), p->n_layers);
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        p->is_recurrent[i] = (i + 1) % p->full_interval != 0;
        if (!listed) continue;
        str type = json_text(json_at(types, i));
        p->is_recurrent[i] = str_equal_text(type, "linear_attention");
        if (!p->is_recurrent[i] && !str_equal_text(type, "full_attention")) {
            return err_set(err, WEFT_UNSUPPORTED, "config.json: layer type '%.*s' is not supported",
                           (int)(type.len < 64 ? type.len : 64), type.ptr);
        }
    }
    return WEFT_OK;
}

/* Numbers in the matrices of a layer; real ones have less than a million. */
enum { STATE_MOST = 1 << 27 };

/* A text that must be absent or what is computed. */
static weft_status check_text(const model_source *source, const char *key, const char *expected,
                              weft_error *err)
{
    bool found;
    str text;
    weft_status status = source_text(source, key, NULL, &found, &text, err);
    if (status != WEFT_OK || !found || str_equal_text(text, expected)) return status;
    return err_set(err, WEFT_UNSUPPORTED, "config.json: %s '%.*s' is not supported, expected %s",
                   key, (int)(text.len < 64 ? text.len : 64), text.ptr, expected);
}

static weft_status check_config(const model_params *p, const model_source *source, weft_error *err)
{
    weft_status status = check_text(source, "hidden_act", "silu", err);
    /* It names the gate of the recurrence; that of attention is a sigmoid all the same. */
    if (status == WEFT_OK) status = check_text(source, "output_gate_type", "swish", err);
    if (status != WEFT_OK) return status;
    if (p->qkv_bias || !json_bool(json_get(source->config, "attn_output_gate"), true)) {
        return err_set(err, WEFT_UNSUPPORTED, "config.json: attention %s is not supported",
                       p->qkv_bias ? "with biases" : "without output gates");
    }
    return WEFT_OK;
}

static weft_status check_delta(const model_params *p, weft_error *err)
{
    if (p->n_delta_v_heads % p->n_delta_k_heads != 0) {
        return err_set(err, WEFT_FORMAT, "%u linear value heads are no multiple of %u key heads",
                       p->n_delta_v_heads, p->n_delta_k_heads);
    }
    uint64_t state = (uint64_t)p->n_delta_v_heads * p->delta_v_dim * p->delta_k_dim;
    if (state > STATE_MOST) {
        return err_set(err, WEFT_LIMIT,
                       "a linear state of %u heads of %u by %u, at most %d numbers",
                       p->n_delta_v_heads, p->delta_v_dim, p->delta_k_dim, STATE_MOST);
    }
    return WEFT_OK;
}

/* How many pairs turn by each axis of a token's place, where there are images. */
static weft_status derive_axes(model_params *p, const json *settings, weft_error *err)
{
    static const uint32_t SECTIONS[GRAPH_AXES] = {11, 11, 10};
    const json *sections = json_get(settings, "mrope_section");
    rope_params *rope = &p->ropes[0];
    int64_t sum = 0;
    rope->axes = ROPE_AXES_INTERLEAVED;
    if (!json_bool(json_get(settings, "mrope_interleaved"), true)) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "config.json: mrope_interleaved false is not supported");
    }
    for (uint32_t i = 0; i < GRAPH_AXES; i++) rope->sections[i] = SECTIONS[i];
    if (json_kind_of(sections) == JSON_KIND_NULL) return WEFT_OK;
    for (uint32_t i = 0; i < GRAPH_AXES; i++) {
        int64_t n = json_int(json_at(sections, i), -1);
        if (n < 0 || n > p->rope_dims) sum = INT32_MIN;
        rope->sections[i] = n < 0 ? 0 : (uint32_t)n;
        sum += n;
    }
    if (json_length(sections) == GRAPH_AXES && sum == p->rope_dims / 2) return WEFT_OK;
    return err_set(err, WEFT_FORMAT,
                   "config.json: mrope_section is not three numbers that add up to %u",
                   p->rope_dims / 2);
}

/* The part of a head that turns: beside the rope settings, or in them. */
static weft_status derive_rope(model_params *p, const model_source *source, weft_error *err)
{
    const json *settings = json_get(source->config, "rope_parameters");
    bool found;
    double part = 0.25;
    p->n_ropes = 1;
    if (source->is_gguf)
        return rope_config(&p->ropes[0], source, NULL, (double)p->rope_theta, p->context, err);
    weft_status status = source_number(source, "partial_rotary_factor", NULL, &found, &part, err);
    if (status != WEFT_OK) return status;
    part = json_number(json_get(settings, "partial_rotary_factor"), part);
    if (!(part > 0.0 && part <= 1.0)) {
        return err_set(err, WEFT_FORMAT,
                       "config.json: partial_rotary_factor is %g, expected 0 to 1", part);
    }
    p->rope_dims = (uint32_t)((double)p->head_dim * part);
    if (p->rope_dims == 0) {
        return err_set(err, WEFT_FORMAT, "config.json: %g of heads of %u is nothing", part,
                       p->head_dim);
    }
    status = rope_config(&p->ropes[0], source, settings, (double)p->rope_theta, p->context, err);
    return status == WEFT_OK ? derive_axes(p, settings, err) : status;
}

static weft_status derive_experts(model_params *p, weft_error *err)
{
    p->one = 1;
    p->n_gate_up = 2 * p->n_expert_ff;
    for (uint32_t i = 0; i < p->n_layers && p->moe_interval > 0; i++)
        p->is_moe[i] = (i + 1) % p->moe_interval == 0;
    if (p->n_top <= p->n_experts) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "%u of %u experts a token", p->n_top, p->n_experts);
}

/* The head that drafts, where there is one of one layer that shares the model's embedding; other
 * ones are left out. */
static weft_status derive_draft(model_params *p, const model_source *source, weft_error *err)
{
    static const char *const ROOTS[] = {"mtp.", "model.mtp.", "language_model.mtp."};
    bool found;
    double n = 1.0;
    bool own_embedding = false;
    if (source->is_gguf) {
        hybrid_read_gguf_draft(p, source);
        return WEFT_OK;
    }
    weft_status status = source_number(source, "mtp_num_hidden_layers", NULL, &found, &n, err);
    if (status == WEFT_OK) {
        status =
            source_flag(source, "mtp_use_dedicated_embeddings", NULL, &found, &own_embedding, err);
    }
    if (status != WEFT_OK || n != 1.0 || own_embedding || p->n_layers == MODEL_LAYERS)
        return status;
    for (size_t i = 0; i < COUNT_OF(ROOTS); i++) {
        char name[64];
        snprintf(name, sizeof name, "%sfc.weight", ROOTS[i]);
        if (!llm_has_tensor(source, name)) continue;
        p->draft_root = ROOTS[i];
        p->n_draft_layers = 1;
        p->is_moe[p->n_layers] = p->moe_interval > 0;
    }
    return WEFT_OK;
}

weft_status hybrid_derive(model_params *p, const model_source *source, weft_error *err)
{
    weft_status status = check_config(p, source, err);
    if (status == WEFT_OK) p->gates_grouped = p->delta_grouped;
    if (status == WEFT_OK) status = derive_layers(p, source, err);
    if (status == WEFT_OK) status = check_delta(p, err);
    if (status == WEFT_OK) status = derive_experts(p, err);
    if (status == WEFT_OK) status = derive_draft(p, source, err);
    if (status == WEFT_OK) status = derive_rope(p, source, err);
    if (status == WEFT_OK) status = part_derive(p, err);
    if (status != WEFT_OK) return status;
    p->act = GRAPH_SILU;
    p->norm_add = !source->is_gguf && stores_offsets(source->weights) ? 1.0F : 0.0F;
    p->gated_q_dim = 2 * p->q_dim;
    p->join_dim = 2 * p->n_embd;
    p->delta_dim = p->n_delta_v_heads * p->delta_v_dim;
    p->conv_dim = 2 * p->n_delta_k_heads * p->delta_k_dim + p->delta_dim;
    p->delta_all_dim = p->conv_dim + p->delta_dim;
    p->delta_gates_dim = 2 * p->n_delta_v_heads;
    p->delta_apart = !p->delta_grouped;
    p->gates_apart = !p->gates_grouped;
    p->delta_speed = source->is_gguf;
    return WEFT_OK;
}
