/* taps.c - what comes out of layers, for requests that ask for it: a step gives it for all of its
 * tokens, and those of prompts are copied to who asked. */
#include <string.h>

#include "engine/state.h"

weft_status taps_check(const weft_engine *e, const weft_request *from, weft_error *err)
{
    uint32_t n_layers = e->model->params.n_layers;
    if (from->n_taps == 0) return WEFT_OK;
    if (from->tap_layers == NULL || from->taps == NULL)
        return err_set(err, WEFT_ARGUMENT, "n_taps is %u, %s is NULL", from->n_taps,
                       from->taps == NULL ? "taps" : "tap_layers");
    if (from->n_taps > WEFT_TAPS)
        return err_set(err, WEFT_LIMIT, "%u taps, at most %d", from->n_taps, WEFT_TAPS);
    if (e->model->params.sees_all)
        return err_set(err, WEFT_UNSUPPORTED, "layers of an encoder are not tapped");
    for (uint32_t i = 0; i < from->n_taps; i++) {
        uint32_t layer = from->tap_layers[i];
        if (layer >= n_layers)
            return err_set(err, WEFT_ARGUMENT, "tap %u is of layer %u, there are %u", i, layer,
                           n_layers);
        for (uint32_t k = 0; k < i; k++) {
            if (from->tap_layers[k] == layer)
                return err_set(err, WEFT_ARGUMENT, "taps %u and %u are of layer %u", k, i, layer);
        }
        if (from->taps[i] == NULL) return err_set(err, WEFT_ARGUMENT, "tap %u has no memory", i);
    }
    return WEFT_OK;
}

void taps_init(request *r, const weft_request *from)
{
    r->taps.n = from->n_taps;
    for (uint32_t i = 0; i < from->n_taps; i++) {
        r->taps.layers[i] = from->tap_layers[i];
        r->taps.to[i] = from->taps[i];
    }
}

static size_t tap_bytes(const weft_engine *e)
{
    return (size_t)e->batch.limits.n_tokens * e->model->params.n_embd * sizeof(float);
}

weft_status taps_open(weft_engine *e, const request *r, weft_error *err)
{
    batch *b = &e->batch;
    for (uint32_t i = 0; i < r->taps.n; i++) {
        float **tap = &b->taps[r->taps.layers[i]];
        if (*tap == NULL) *tap = mem_alloc(e->env.allocator, tap_bytes(e));
        if (*tap == NULL)
            return err_set(err, WEFT_NOMEM, "out of memory for what comes out of layer %u",
                           r->taps.layers[i]);
    }
    return WEFT_OK;
}

void taps_close(weft_engine *e)
{
    for (uint32_t i = 0; e->batch.taps != NULL && i < e->model->params.n_layers; i++)
        mem_free(e->env.allocator, e->batch.taps[i], tap_bytes(e));
}

static bool taps(const request *r)
{
    return r->taps.n > 0 && r->seq->len < r->n_prompt;
}

void taps_lay_out(weft_engine *e)
{
    batch *b = &e->batch;
    for (uint32_t i = 0; i < b->step.n_rows; i++) {
        if (taps(b->rows[i].r)) b->step.taps = b->taps;
    }
}

void taps_take(const weft_engine *e, uint32_t row_i, uint32_t n)
{
    const batch *b = &e->batch;
    const request *r = b->rows[row_i].r;
    size_t d = e->model->params.n_embd;
    if (!taps(r) || r->released) return;
    uint32_t first = r->seq->len;
    if (n > r->n_prompt - first) n = r->n_prompt - first;
    for (uint32_t i = 0; i < r->taps.n; i++) {
        const float *from = b->taps[r->taps.layers[i]] + b->row_starts[row_i] * d;
        memcpy(r->taps.to[i] + first * d, from, n * d * sizeof *from);
    }
}
