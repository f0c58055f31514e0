/* draft_head.c - drafts of the head that a model has for that (docs/graph.md).
 *
 * The head's layers stand behind the model's in every sequence of the engine, so that whatever
 * shares, keeps, saves or shortens a sequence does so with both. Its position i is made of token
 * i + 1 and the model's hidden state of token i. When it is known what of a step stays, it goes
 * over that, before the commit: so no position is ever without its state. What it gives behind
 * the last is a draft; others it makes of that and of its own hidden states, in the next step's
 * transaction, in places which that step's own tokens take afterwards.
 *
 * Where a sequence begins with what another left, the state at the last position was made of the
 * token that the other one had next. It is as it is: drafts behind it are a little worse. */
#include <string.h>

#include "base/assert.h"
#include "engine/state.h"

weft_status draft_head_open(weft_engine *e, weft_error *err)
{
    const llm *m = e->model;
    draft_graph *g = &e->head;
    g->n_states = m->n_draft_kv_layers;
    g->n_feed = g->n_hidden = m->params.n_embd;
    g->n_vocab = m->params.n_vocab;
    g->limits = e->batch.limits;
    g->limits.n_outputs = g->limits.n_hidden = g->limits.n_rows;
    weft_status status = draft_graph_open(e, g, &m->draft, err);
    if (status != WEFT_OK) err_context(err, "the head that drafts: ");
    return status;
}

/* The head's layers of row row_i of the batch, which has reserved what it writes. */
static void lay_views(weft_engine *e, uint32_t row_i, uint32_t at)
{
    draft_graph *g = &e->head;
    const batch *b = &e->batch;
    for (uint32_t i = 0; i < g->n_states; i++) {
        size_t layer = (size_t)e->model->n_kv_layers + i;
        g->views[(size_t)i * g->step.n_rows + at] = b->views[layer * b->step.n_rows + row_i];
    }
}

static bool is_ours(const request *r)
{
    return r->drafter != NULL && r->drafter->graph == DRAFT_GRAPH_HEAD;
}

static bool forwards(const batch_row *row, uint32_t i)
{
    return is_ours(row->r) && i + 1 < row->r->draft.n_planned;
}

/* A draft of the request's, and the hidden state that another one is made of. */
static int32_t take_draft(weft_engine *e, request *r, uint32_t output_i, uint32_t position)
{
    const draft_graph *g = &e->head;
    memcpy(r->draft.hidden, g->hidden + (size_t)output_i * g->n_hidden,
           g->n_hidden * sizeof *g->hidden);
    return draft_sample(e, r, g->logits + (size_t)output_i * g->n_vocab, position);
}

/* From draft i of every row that has more to draft i + 1. */
static weft_status make_next(weft_engine *e, uint32_t i, weft_error *err)
{
    draft_graph *g = &e->head;
    const batch *b = &e->batch;
    uint32_t n = 0;
    draft_graph_begin(g);
    for (uint32_t k = 0; k < b->step.n_rows; k++) {
        const batch_row *row = &b->rows[k];
        if (!forwards(row, i)) continue;
        constraint_try(row->r, row->drafts[i]);
        uint32_t at = draft_graph_add(g, row->r, 1, true);
        g->ids[at] = row->drafts[i];
        g->positions[at] = row->r->seq->len + i;
        memcpy(g->feed + (size_t)at * g->n_feed, row->r->draft.hidden, g->n_feed * sizeof *g->feed);
    }
    for (uint32_t k = 0; k < b->step.n_rows; k++) {
        if (forwards(&b->rows[k], i)) lay_views(e, k, n++);
    }
    if (n == 0) return WEFT_OK;
    weft_status status = draft_graph_run(e, g, err);
    n = 0;
    for (uint32_t k = 0; k < b->step.n_rows && status == WEFT_OK; k++) {
        const batch_row *row = &b->rows[k];
        if (!forwards(row, i)) continue;
        row->drafts[i + 1] = take_draft(e, row->r, n++, row->r->n_tokens + i + 1);
    }
    return status;
}

weft_status draft_head_propose(weft_engine *e, weft_error *err)
{
    const batch *b = &e->batch;
    weft_status status = WEFT_OK;
    for (uint32_t k = 0; k < b->step.n_rows; k++) {
        const batch_row *row = &b->rows[k];
        const request *r = row->r;
        if (is_ours(r) && r->draft.n_planned > 0) row->drafts[0] = r->draft.first;
    }
    for (uint32_t i = 0; i + 1 < DRAFTS_MOST && status == WEFT_OK; i++) {
        status = make_next(e, i, err);
        if (e->head.step.n_rows == 0) break;
    }
    return status;
}

/* Whether a draft behind what stays of the row may be verified by its next step. */
static bool draws(const weft_engine *e, const batch_row *row, uint32_t n)
{
    const request *r = row->r;
    bool decodes = row->finish == WEFT_FINISH_NONE && r->seq->len + n + 1 == r->n_tokens;
    return is_ours(r) && !r->draft.lost && decodes && r->n_tokens > r->n_prompt &&
           r->drafter->length(r->draft_state, r->n_tokens, e->head.cost, 1) > 0;
}

/* Tokens behind those that stay, and the model's hidden states of these. A text that ends with its
 * last one has no token behind it: any will do, and 0 is the same every time. */
static void add_kept(weft_engine *e, uint32_t row_i)
{
    draft_graph *g = &e->head;
    const batch *b = &e->batch;
    const batch_row *row = &b->rows[row_i];
    request *r = row->r;
    uint32_t n = b->keep[row_i];
    uint32_t len = r->seq->len;
    size_t from = b->row_starts[row_i];
    uint32_t at = draft_graph_add(g, r, n, draws(e, row, n));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t behind = len + i + 1;
        g->ids[at + i] = behind < r->n_tokens ? r->tokens[behind] : 0;
        g->positions[at + i] = len + i;
    }
    memcpy(g->feed + (size_t)at * g->n_feed, b->hidden + from * g->n_feed,
           (size_t)n * g->n_feed * sizeof *g->feed);
}

weft_status draft_head_follow(weft_engine *e, weft_error *err)
{
    draft_graph *g = &e->head;
    const batch *b = &e->batch;
    uint32_t output_i = 0;
    draft_graph_begin(g);
    for (uint32_t k = 0; k < b->step.n_rows; k++) add_kept(e, k);
    for (uint32_t k = 0; k < b->step.n_rows; k++) lay_views(e, k, k);
    weft_status status = draft_graph_run(e, g, err);
    for (uint32_t k = 0; k < b->step.n_rows && status == WEFT_OK; k++) {
        request *r = b->rows[k].r;
        if (!draws(e, &b->rows[k], b->keep[k])) continue;
        r->draft.first = take_draft(e, r, output_i++, r->n_tokens);
        r->draft.first_at = r->n_tokens;
    }
    return status;
}
