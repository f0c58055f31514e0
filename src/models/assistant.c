/* assistant.c - models that draft for another one out of its keys and values: what their graphs
 * leave to the host. */
#include "models/assistant.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "models/gemma4.h"

static const tensor *tensor_of(const llm *m, uint32_t slot)
{
    uint32_t bound = m->bound[model_bound_at(&m->params, slot, 0)];
    return bound == 0 ? NULL : &m->tensors[bound - 1];
}

/* Number i of a tensor of integers; a negative one is larger than any token. */
static uint64_t integer_at(const tensor *t, uint64_t i)
{
    ASSERT(t != NULL && t->planes[0] != NULL);
    const unsigned char *at = t->planes[0] + i * t->raw_bytes;
    return t->raw_bytes == 8 ? get_u64(at) : get_u32(at);
}

weft_status assistant_check(const llm *m, weft_error *err)
{
    const model_params *p = &m->params;
    if (!p->is_assistant || !p->has_centroids) return WEFT_OK;
    const tensor *order = tensor_of(m, GEMMA4_ORDER);
    for (uint64_t i = 0; i < p->n_vocab; i++) {
        uint64_t id = integer_at(order, i);
        if (id < p->n_vocab) continue;
        return err_set(err, WEFT_FORMAT, "tensor '%s': number %llu is %lld, of %u tokens",
                       order->name, (unsigned long long)i,
                       order->raw_bytes == 8 ? (long long)id : (long long)(int32_t)id, p->n_vocab);
    }
    return WEFT_OK;
}

static weft_status find_donor(const llm *m, uint32_t layer, const llm *target, uint32_t *donor,
                              weft_error *err)
{
    const kv_layer *l = &m->donor_layers[layer];
    const char *kind = l->layout == KV_LAYOUT_WINDOW ? "a window" : "full attention";
    uint32_t i = target->n_kv_layers;
    while (i > 0 && target->kv_layers[i - 1].layout != l->layout) i--;
    if (i == 0)
        return err_set(err, WEFT_UNSUPPORTED, "no layer of the model has %s, which it reads", kind);
    const kv_layer *d = &target->kv_layers[i - 1];
    *donor = i - 1;
    if (d->window != l->window) {
        return err_set(err, WEFT_UNSUPPORTED, "it reads windows of %u, the model's last is of %u",
                       l->window, d->window);
    }
    if (d->n_heads == l->n_heads && d->k_dim == l->k_dim && d->v_dim == l->v_dim) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED,
                   "layers with %s read %u heads of %u, the model's last has %u of %u", kind,
                   l->n_heads, l->k_dim, d->n_heads, d->k_dim);
}

weft_status assistant_donors(const llm *m, const llm *target, uint32_t *donors, weft_error *err)
{
    if (target->params.sees_all || target->graph.hidden == 0)
        return err_set(err, WEFT_UNSUPPORTED, "it drafts for text models");
    if (m->params.target_embd != target->params.n_embd) {
        return err_set(err, WEFT_ARGUMENT, "it drafts for a model of width %u, the model has %u",
                       m->params.target_embd, target->params.n_embd);
    }
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < m->n_donor_layers && status == WEFT_OK; i++)
        status = find_donor(m, i, target, &donors[i], err);
    return status;
}

void assistant_embed(const llm *target, int32_t id, float *to)
{
    const tensor *t = tensor_of(target, PART_EMBED);
    float scale = target->params.embed_scale;
    t->encoding->decode_row(t, (uint64_t)id, to);
    for (uint32_t i = 0; i < target->params.n_embd && scale != 0.0F; i++) to[i] *= scale;
}

uint32_t assistant_n_scores(const llm *m)
{
    return m->graph.values[m->graph.output].cols;
}

uint32_t assistant_n_hidden(const llm *m)
{
    return m->graph.values[m->graph.hidden].cols;
}

static const tensor *head_of(const llm *m)
{
    const tensor *head = tensor_of(m, PART_HEAD);
    return head != NULL ? head : tensor_of(m, PART_EMBED);
}

uint64_t assistant_bytes(const llm *m)
{
    const model_params *p = &m->params;
    if (!p->has_centroids) return 0;
    const tensor *head = head_of(m);
    uint64_t n_rows = (uint64_t)p->n_vocab / p->n_centroids * p->n_top_centroids;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < TENSOR_PLANES; i++) bytes += n_rows * head->row_bytes[i];
    return bytes;
}

/* Sums side by side, which a compiler keeps in one register. */
static float dot(const float *x, const float *y, uint32_t n)
{
    enum { LANES = 16 };
    float sums[LANES] = {0};
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (uint32_t k = 0; k < LANES; k++) sums[k] += x[i + k] * y[i + k];
    for (; i < n; i++) sums[i % LANES] += x[i] * y[i];
    float sum = 0.0F;
    for (uint32_t k = 0; k < LANES; k++) sum += sums[k];
    return sum;
}

/* The best of those that are left, the first of equals, which is then no longer left. */
static uint32_t take_best(float *scores, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (scores[i] > scores[best]) best = i;
    scores[best] = -INFINITY;
    return best;
}

void assistant_logits(const llm *m, float *scores, const float *hidden, float *row, float *logits)
{
    const model_params *p = &m->params;
    if (!p->has_centroids) {
        memcpy(logits, scores, p->n_vocab * sizeof *logits);
        return;
    }
    const tensor *order = tensor_of(m, GEMMA4_ORDER);
    const tensor *head = head_of(m);
    const float *own = hidden + p->target_embd;
    uint32_t n_each = p->n_vocab / p->n_centroids;
    float least = INFINITY;
    for (uint32_t i = 0; i < p->n_vocab; i++) logits[i] = NAN;
    for (uint32_t i = 0; i < p->n_top_centroids; i++) {
        uint64_t first = (uint64_t)take_best(scores, p->n_centroids) * n_each;
        for (uint32_t k = 0; k < n_each; k++) {
            uint64_t id = integer_at(order, first + k);
            head->encoding->decode_row(head, id, row);
            logits[id] = dot(own, row, p->n_embd);
            if (logits[id] < least) least = logits[id];
        }
    }
    for (uint32_t i = 0; i < p->n_vocab; i++)
        if (isnan(logits[i])) logits[i] = least - 1.0F;
}
