/* embed.c - requests for a vector of their prompt: which hidden states a step makes for them, and
 * what becomes of these.
 *
 * Sums are in double and go from the first token to the last, whatever steps they come in, so a
 * vector has the same bits in any pieces and company. */
#include <math.h>

#include "base/assert.h"
#include "engine/state.h"

/* ---- what is asked for ----------------------------------------------------------------------- */

static weft_status check_plain(const weft_engine *e, const weft_request *from, weft_error *err)
{
    bool logits = from->max_new > 0 || from->prompt_logits != NULL || from->new_logits != NULL;
    if (e->model->graph.output == 0 && logits) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "family %s makes no logits: what it answers is a request for an embedding",
                       e->model->family->name);
    }
    if (from->n_embedding > 0 || from->pooling != WEFT_POOLING_DEFAULT ||
        from->normalize != WEFT_NORMALIZE_DEFAULT) {
        return err_set(err, WEFT_ARGUMENT, "embedding is NULL, and %s is set",
                       from->n_embedding > 0                   ? "n_embedding"
                       : from->pooling != WEFT_POOLING_DEFAULT ? "pooling"
                                                               : "normalize");
    }
    return WEFT_OK;
}

weft_status embed_check(const weft_engine *e, const weft_request *from, weft_error *err)
{
    const llm *m = e->model;
    if (from->embedding == NULL) return check_plain(e, from, err);
    if (m->graph.hidden == 0) {
        return err_set(err, WEFT_UNSUPPORTED, "family %s gives no hidden states", m->family->name);
    }
    if (from->max_new > 0) {
        return err_set(err, WEFT_ARGUMENT, "embedding is set, and max_new is %u, expected 0",
                       from->max_new);
    }
    if (from->n_embedding > m->params.n_embd) {
        return err_set(err, WEFT_ARGUMENT, "n_embedding is %u, the model's vectors have %u",
                       from->n_embedding, m->params.n_embd);
    }
    if ((uint32_t)from->pooling > WEFT_POOLING_TOKENS) {
        return err_set(err, WEFT_ARGUMENT, "pooling is %d, expected 0 to %d", (int)from->pooling,
                       WEFT_POOLING_TOKENS);
    }
    if ((uint32_t)from->normalize > WEFT_NORMALIZE_YES) {
        return err_set(err, WEFT_ARGUMENT, "normalize is %d, expected 0 to %d",
                       (int)from->normalize, WEFT_NORMALIZE_YES);
    }
    bool asks_model =
        from->pooling == WEFT_POOLING_DEFAULT || from->normalize == WEFT_NORMALIZE_DEFAULT;
    if (!asks_model || m->embedding.error.status == WEFT_OK) return WEFT_OK;
    return err_set(err, m->embedding.error.status, "%s", m->embedding.error.message);
}

bool embed_init(const weft_engine *e, request *r, const weft_request *from)
{
    if (from->embedding == NULL) return true;
    const llm *m = e->model;
    request_embedding *v = &r->embedding;
    bool as_model = from->normalize == WEFT_NORMALIZE_DEFAULT;
    v->to = from->embedding;
    v->n = from->n_embedding > 0 ? from->n_embedding : m->params.n_embd;
    v->pooling = from->pooling != WEFT_POOLING_DEFAULT ? from->pooling : m->embedding.pooling;
    v->normalize = as_model ? m->embedding.normalize : from->normalize == WEFT_NORMALIZE_YES;
    if (v->pooling != WEFT_POOLING_MEAN) return true;
    v->sums = mem_alloc_zero(e->env.allocator, v->n * sizeof *v->sums);
    return v->sums != NULL;
}

void embed_deinit(const weft_engine *e, request *r)
{
    request_embedding *v = &r->embedding;
    if (v->sums != NULL) mem_free(e->env.allocator, v->sums, v->n * sizeof *v->sums);
    v->sums = NULL;
}

/* ---- which hidden states --------------------------------------------------------------------- */

uint32_t embed_wanted(const request *r, uint32_t n, uint32_t *skip)
{
    *skip = 0;
    if (r->embedding.to == NULL) return 0;
    if (r->embedding.pooling == WEFT_POOLING_FIRST) return r->seq->len == 0;
    if (r->embedding.pooling != WEFT_POOLING_LAST) return n;
    *skip = n - 1;
    return r->seq->len + n == r->n_prompt;
}

bool embed_needs_all(const request *r)
{
    return r->embedding.to != NULL && r->embedding.pooling != WEFT_POOLING_LAST;
}

/* ---- what becomes of them -------------------------------------------------------------------- */

/* A vector of zeros has no direction, and stays. */
static bool finish_vector(const request_embedding *v, float *to)
{
    double squares = 0.0;
    for (uint32_t c = 0; c < v->n; c++) squares += (double)to[c] * (double)to[c];
    if (!isfinite(squares)) return false;
    if (!v->normalize || squares == 0.0) return true;
    double length = sqrt(squares);
    for (uint32_t c = 0; c < v->n; c++) to[c] = (float)((double)to[c] / length);
    return true;
}

static bool finish_mean(const request *r)
{
    const request_embedding *v = &r->embedding;
    for (uint32_t c = 0; c < v->n; c++) v->to[c] = (float)(v->sums[c] / (double)r->n_prompt);
    return finish_vector(v, v->to);
}

/* Row i of the step's hidden states for this row. */
static bool take_row(request_embedding *v, const float *hidden, size_t at)
{
    if (v->pooling == WEFT_POOLING_MEAN) {
        for (uint32_t c = 0; c < v->n; c++) v->sums[c] += (double)hidden[c];
        return true;
    }
    float *to = v->to + (v->pooling == WEFT_POOLING_TOKENS ? at * v->n : 0);
    for (uint32_t c = 0; c < v->n; c++) to[c] = hidden[c];
    return finish_vector(v, to);
}

void embed_take(weft_engine *e, batch_row *row, uint32_t n)
{
    request *r = row->r;
    request_embedding *v = &r->embedding;
    size_t n_embd = e->model->params.n_embd;
    const float *hidden = e->batch.hidden + row->first_hidden * n_embd;
    bool fine = true;
    for (size_t i = 0; i < row->n_hidden && fine; i++)
        fine = take_row(v, hidden + i * n_embd, r->seq->len + i);
    bool whole = r->seq->len + n == r->n_prompt;
    if (fine && whole && v->pooling == WEFT_POOLING_MEAN) fine = finish_mean(r);
    v->ready = fine && whole;
    if (fine) return;
    row->finish = WEFT_FINISH_ERROR;
    err_set(&r->error, WEFT_FORMAT, "a hidden state of the prompt is not a finite number");
}
