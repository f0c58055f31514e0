/* hybrid_gguf.c - Qwen's hybrids in GGUF files. Their norm weights are used as they are stored, and
 * -exp(A_log) stands for A_log. Of qwen35 and qwen35moe value heads stand in another order
 * throughout: head h has the keys of head h modulo their count. qwen3next has Hugging Face's, and
 * its queries, keys, values and z in one matrix or in two. */
#include <stdio.h>

#include "base/assert.h"
#include "models/hybrid.h"
#include "models/layer_lists.h"
#include "models/model.h"

/* Whether a layer has it. */
static bool has_named(const weights *w, const char *ending)
{
    bool found = false;
    for (uint32_t i = 0; i < w->n_tensors && !found; i++)
        found = str_ends(str_of(w->tensors[i].name), ending);
    return found;
}

static weft_status check_sizes(model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    double length = (double)p->head_dim;
    weft_status status =
        source_number(source, NULL, "attention.value_length", &found, &length, err);
    if (status != WEFT_OK) return status;
    if (length != (double)p->head_dim) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "attention.value_length is %g, attention.key_length %u", length,
                       p->head_dim);
    }
    if (p->delta_dim % p->n_delta_v_heads != 0) {
        return err_set(err, WEFT_FORMAT, "ssm.inner_size is %u, expected a multiple of %u",
                       p->delta_dim, p->n_delta_v_heads);
    }
    p->delta_v_dim = p->delta_dim / p->n_delta_v_heads;
    if (p->n_later < p->n_layers) return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "nextn_predict_layers is %u of %u layers", p->n_later,
                   p->n_layers);
}

weft_status hybrid_read_gguf(model_params *p, const model_source *source, weft_error *err)
{
    bool found;
    weft_status status = check_sizes(p, source, err);
    if (status != WEFT_OK) return status;
    p->n_layers -= p->n_later;
    for (uint32_t i = 0; i < p->n_layers; i++) p->is_recurrent[i] = (i + 1) % p->full_interval != 0;
    status =
        list_layer_flags(p, source, "attention.recurrent_layers", p->is_recurrent, &found, err);
    p->delta_tiled = !p->delta_grouped;
    p->gates_grouped = p->delta_grouped;
    p->delta_grouped = p->delta_grouped && has_named(source->weights, ".ssm_in.weight");
    p->route_normalize = true;
    return status;
}

/* One layer that shares the model's embedding and output matrix. */
void hybrid_read_gguf_draft(model_params *p, const model_source *source)
{
    static const char *const NAMES[] = {"eh_proj", "shared_head_norm", "embed_tokens",
                                        "shared_head_head"};
    bool has[COUNT_OF(NAMES)];
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.nextn.%s.weight", p->n_layers, NAMES[i]);
        has[i] = llm_has_tensor(source, name);
    }
    if (p->n_later != 1 || !has[0] || !has[1] || has[2] || has[3]) return;
    p->n_later = 0;
    p->draft_root = "nextn.";
    p->n_draft_layers = 1;
    p->is_moe[p->n_layers] = p->moe_interval > 0;
}
