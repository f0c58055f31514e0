/* draft_assistant.c - drafts of a model that reads the keys and values of the engine's own
 * (models/assistant.h).
 *
 * It has no state: what it reads of a request are the views of the step that will verify its
 * drafts, up to what was committed before; windows then have the newest W positions, whatever came
 * in which steps. Beside that it needs the model's hidden state of the last of these, which
 * draft_follow keeps when it is known what stays. So drafts are made of the tokens alone. A request
 * that was paused has neither the hidden state nor, for its first step, a window that is whole: it
 * drafts again from the second on. */
#include <string.h>

#include "base/assert.h"
#include "engine/state.h"
#include "models/assistant.h"

static weft_status check_models(const weft_engine *e, const llm *m, weft_error *err)
{
    if (e->options.draft_kv != NULL) {
        return err_set(err, WEFT_ARGUMENT,
                       "draft_kv is '%.40s', and it stores nothing: it reads what the model has",
                       e->options.draft_kv);
    }
    if (m->params.n_vocab != e->model->params.n_vocab) {
        return err_set(err, WEFT_ARGUMENT, "it has a vocabulary of %u, the model one of %u",
                       m->params.n_vocab, e->model->params.n_vocab);
    }
    return WEFT_OK;
}

weft_status draft_assistant_open(weft_engine *e, weft_error *err)
{
    draft_assistant *d = &e->assistant;
    const llm *m = e->options.draft_model;
    uint32_t n_rows = e->options.max_sequences;
    arena *a = &d->arena;
    arena_init(a, e->env.allocator, 0);
    d->model = m;
    d->g.n_states = m->n_donor_layers;
    d->g.n_feed = m->params.join_dim;
    d->g.n_hidden = assistant_n_hidden(m);
    d->g.n_vocab = assistant_n_scores(m);
    d->g.more_bytes = assistant_bytes(m);
    d->g.limits = (backend_limits){.n_tokens = n_rows,
                                   .n_rows = n_rows,
                                   .n_outputs = n_rows,
                                   .n_hidden = n_rows,
                                   .context = e->options.context};
    d->donors = arena_array(a, d->g.n_states, sizeof *d->donors);
    d->places = arena_array(a, (size_t)GRAPH_AXES * n_rows, sizeof *d->places);
    d->row = arena_array(a, m->params.n_embd, sizeof *d->row);
    d->logits = arena_array(a, m->params.n_vocab, sizeof *d->logits);
    if (!d->donors || !d->places || !d->row || !d->logits)
        return err_set(err, WEFT_NOMEM, "out of memory for drafts of %u rows", n_rows);
    weft_status status = check_models(e, m, err);
    if (status == WEFT_OK) status = assistant_donors(m, e->model, d->donors, err);
    if (status == WEFT_OK) status = draft_graph_open(e, &d->g, &m->graph, err);
    if (status != WEFT_OK) err_context(err, "draft_model: ");
    return status;
}

void draft_assistant_close(weft_engine *e)
{
    draft_assistant *d = &e->assistant;
    if (d->model == NULL) return;
    draft_graph_close(e, &d->g);
    arena_deinit(&d->arena);
    *d = (draft_assistant){0};
}

uint32_t draft_assistant_plan(const weft_engine *e, const request *r, uint32_t most)
{
    if (r->draft.first_at != r->n_tokens) return 0;
    return r->drafter->length(r->draft_state, r->n_tokens, e->assistant.g.cost, most);
}

static bool is_ours(const request *r)
{
    return r->drafter != NULL && r->drafter->graph == DRAFT_GRAPH_MODEL;
}

static bool wants(const batch_row *row, uint32_t i)
{
    return is_ours(row->r) && i < row->r->draft.n_planned;
}

/* Draft i of a row: made of the token before it, in sight of all that is committed. */
static void add_row(weft_engine *e, const batch_row *row, uint32_t i)
{
    draft_graph *g = &e->assistant.g;
    request *r = row->r;
    uint32_t n_embd = e->model->params.n_embd;
    uint32_t at = draft_graph_add(g, r, 1, true);
    float *feed = g->feed + (size_t)at * g->n_feed;
    ASSERT(r->seq->len > 0 && r->seq->len + 1 == r->n_tokens);
    if (i > 0) constraint_try(r, row->drafts[i - 1]);
    g->positions[at] = r->seq->len - 1;
    assistant_embed(e->model, i == 0 ? r->tokens[r->n_tokens - 1] : row->drafts[i - 1], feed);
    memcpy(feed + n_embd, r->draft.hidden, n_embd * sizeof *feed);
}

static void lay_views(weft_engine *e, uint32_t row_i, uint32_t at)
{
    draft_assistant *d = &e->assistant;
    const batch *b = &e->batch;
    for (uint32_t i = 0; i < d->g.n_states; i++) {
        const kv_view *view = &b->views[(size_t)d->donors[i] * b->step.n_rows + row_i];
        const kv_seq *seq = b->rows[row_i].r->seq;
        ASSERT(seq->firsts[d->donors[i]] <= kv_lowest(view->geometry, seq->len - 1));
        d->g.views[(size_t)i * d->g.step.n_rows + at] = *view;
    }
}

/* A draft, and the hidden state that another one is made of. */
static void take(weft_engine *e, const batch_row *row, uint32_t i, uint32_t output_i)
{
    draft_assistant *d = &e->assistant;
    request *r = row->r;
    const float *hidden = d->g.hidden + (size_t)output_i * d->g.n_hidden;
    float *scores = d->g.logits + (size_t)output_i * d->g.n_vocab;
    assistant_logits(d->model, scores, hidden, d->row, d->logits);
    row->drafts[i] = draft_sample(e, r, d->logits, r->n_tokens + i);
    memcpy(r->draft.hidden, hidden, e->model->params.n_embd * sizeof *hidden);
}

/* Draft i of every row that has so many. */
static weft_status make_next(weft_engine *e, uint32_t i, weft_error *err)
{
    draft_assistant *d = &e->assistant;
    const batch *b = &e->batch;
    uint32_t n = 0;
    draft_graph_begin(&d->g);
    for (uint32_t k = 0; k < b->step.n_rows; k++)
        if (wants(&b->rows[k], i)) add_row(e, &b->rows[k], i);
    for (uint32_t k = 0; k < b->step.n_rows; k++)
        if (wants(&b->rows[k], i)) lay_views(e, k, n++);
    if (n == 0) return WEFT_OK;
    for (uint32_t k = 0; k < GRAPH_AXES * n; k++) d->places[k] = d->g.positions[k % n] + 1;
    d->g.step.places = d->places;
    weft_status status = draft_graph_run(e, &d->g, err);
    n = 0;
    for (uint32_t k = 0; k < b->step.n_rows && status == WEFT_OK; k++)
        if (wants(&b->rows[k], i)) take(e, &b->rows[k], i, n++);
    return status;
}

weft_status draft_assistant_propose(weft_engine *e, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < DRAFTS_MOST && status == WEFT_OK; i++) {
        status = make_next(e, i, err);
        if (e->assistant.g.step.n_rows == 0) break;
    }
    return status;
}

/* The step had hidden states of all its tokens. */
void draft_assistant_follow(weft_engine *e)
{
    const batch *b = &e->batch;
    size_t n_embd = e->model->params.n_embd;
    for (uint32_t k = 0; k < b->step.n_rows; k++) {
        const batch_row *row = &b->rows[k];
        request *r = row->r;
        uint32_t n = b->keep[k];
        bool decodes = row->finish == WEFT_FINISH_NONE && r->seq->len + n + 1 == r->n_tokens &&
                       r->n_tokens > r->n_prompt;
        if (!is_ours(r) || !decodes) continue;
        memcpy(r->draft.hidden, b->hidden + (b->row_starts[k] + n - 1) * n_embd,
               n_embd * sizeof *b->hidden);
        r->draft.first_at = r->n_tokens;
    }
}
