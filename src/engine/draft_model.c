/* draft_model.c - drafts of a smaller model.
 *
 * It has a sequence of its own for each request that drafts, in a pool and with a cache of its own,
 * and reads what the request has: prompts in pieces, beside the pieces that the engine's model
 * reads, and then what each step added. So it may begin late or fall behind, which makes a request
 * no slower than one without drafts. When it has all, it goes on by itself for as many tokens as
 * the row has places for, in a transaction that stays open until it is known which of them were
 * right; those it keeps, unless it has recurrent layers: they would have to be replayed.
 *
 * A draft is drawn as the request itself draws, from the same stream at the same position: where
 * both models are of one mind, so are their samples. */
#include <string.h>

#include "base/assert.h"
#include "engine/state.h"

enum { DRAFT_BYTES_LEAST = 256 << 20 }; /* of state, unless the engine's options say */

/* ---- opening --------------------------------------------------------------------------------- */

static weft_status check_model(const llm *m, const llm *target, weft_error *err)
{
    if (m->params.sees_all || m->graph.output == 0) {
        return err_set(err, WEFT_UNSUPPORTED, "it is an encoder, which says no tokens");
    }
    if (m->params.n_vocab != target->params.n_vocab) {
        return err_set(err, WEFT_ARGUMENT, "it has a vocabulary of %u, the model one of %u",
                       m->params.n_vocab, target->params.n_vocab);
    }
    return WEFT_OK;
}

static weft_status open_state(weft_engine *e, draft_model *d, weft_error *err)
{
    const engine_options *o = &e->options;
    const weft_allocator *a = e->env.allocator;
    const llm *m = d->model;
    kv_spec spec;
    kv_bounds bounds = {.context = o->context < m->params.context ? o->context : m->params.context,
                        .most_append =
                            o->chunk_tokens > DRAFTS_MOST ? o->chunk_tokens : DRAFTS_MOST,
                        .page_tokens = KV_PAGE_TOKENS,
                        /* The page that it takes is also what a second draft's state goes to. */
                        .marks = true};
    weft_status status = cache_spec(m, o, o->draft_kv, &spec, err);
    if (status == WEFT_OK) {
        status = kv_config_init(&d->config, &d->arena, m->kv_layers, m->n_kv_layers, &spec, &bounds,
                                err);
    }
    if (status != WEFT_OK) return status;
    uint64_t budget = o->draft_memory_bytes;
    if (budget == 0) {
        budget = kv_config_bytes(&d->config, bounds.context);
        if (budget < DRAFT_BYTES_LEAST) budget = DRAFT_BYTES_LEAST;
    }
    status = kv_pool_create(a, e->api, e->backend, &d->config, budget, &d->pool, err);
    if (status != WEFT_OK || o->no_cache) return status;
    return kv_prefix_create(a, d->pool, 0, &d->prefix, err);
}

weft_status draft_model_open(weft_engine *e, weft_error *err)
{
    const engine_options *o = &e->options;
    draft_model *d = &e->drafting;
    const llm *m = o->draft_model;
    uint32_t n_rows = o->max_sequences;
    uint32_t n_tokens = o->chunk_tokens > n_rows ? o->chunk_tokens : n_rows;
    d->model = m;
    arena_init(&d->arena, e->env.allocator, 0);
    d->g.n_states = m->n_kv_layers;
    d->g.n_vocab = m->params.n_vocab;
    d->g.limits = (backend_limits){
        .n_tokens = n_tokens, .n_rows = n_rows, .n_outputs = n_rows, .context = o->context};
    d->txn_rows = arena_array(&d->arena, n_rows, sizeof *d->txn_rows);
    d->keep = arena_array(&d->arena, n_rows, sizeof *d->keep);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    d->places = arena_array(&d->arena, n_rows, sizeof *d->places);
    if (!d->txn_rows || !d->keep || !d->places)
        return err_set(err, WEFT_NOMEM, "out of memory for drafts of %u rows", n_rows);
    weft_status status = check_model(m, e->model, err);
    if (status == WEFT_OK) status = open_state(e, d, err);
    if (status == WEFT_OK) status = draft_graph_open(e, &d->g, &m->graph, err);
    if (status == WEFT_OK) kv_pool_set_plan(d->pool, d->g.plan);
    if (status != WEFT_OK) err_context(err, "draft_model: ");
    return status;
}

void draft_model_close(weft_engine *e)
{
    draft_model *d = &e->drafting;
    if (d->model == NULL) return;
    kv_prefix_destroy(d->prefix);
    kv_pool_destroy(d->pool);
    draft_graph_close(e, &d->g);
    arena_deinit(&d->arena);
    *d = (draft_model){0};
}

/* ---- sequences ------------------------------------------------------------------------------- */

/* Where there is no room the request goes on without drafts, until some comes free. */
static void begin(weft_engine *e, request *r)
{
    draft_model *d = &e->drafting;
    request_draft *of = &r->draft;
    uint32_t context = d->config.bounds.context;
    uint32_t n = r->n_positions < context ? r->n_positions : context;
    kv_match match;
    weft_error ignored;
    if (of->seq != NULL || of->refused || r->n_tokens >= n) return;
    err_clear(&ignored);
    of->space = NULL;
    of->n_kept = 0;
    if (d->prefix != NULL && (r->flags & WEFT_REQUEST_NO_CACHE) == 0) {
        of->space = kv_prefix_space(d->prefix, &d->config, r->salt);
        of->refused = of->space == NULL;
    }
    if (of->refused) return;
    kv_history h = request_history(r, r->n_tokens);
    weft_status status =
        of->space == NULL
            ? kv_seq_create(e->env.allocator, d->pool, &d->config, n, &of->seq, &ignored)
            : kv_prefix_begin(d->prefix, of->space, &h, n, &of->seq, &match, &ignored);
    of->refused = status != WEFT_OK;
    if (status == WEFT_OK) of->n_kept = of->seq->len;
}

void draft_model_end(weft_engine *e, request *r)
{
    request_draft *of = &r->draft;
    kv_history h = request_history(r, of->seq->len);
    if (of->space == NULL) {
        kv_seq_destroy(e->env.allocator, of->seq);
    } else {
        kv_prefix_retire(e->drafting.prefix, of->space, of->seq, &h);
    }
    of->seq = NULL;
    for (uint32_t i = 0; i < e->n_active; i++) e->active[i]->draft.refused = false;
}

/* Where the same prompt would go on: as cache.c has it. */
static uint32_t kept_end(const draft_model *d, const request *r)
{
    return kv_needs_boundary(&d->config) ? r->n_prompt - 1 : r->n_prompt;
}

static uint32_t mark_of(const draft_model *d, const request *r, uint32_t n)
{
    uint32_t at = kept_end(d, r);
    uint32_t len = r->draft.seq->len;
    bool wanted = d->config.n_recurrent > 0 && r->draft.space != NULL;
    return wanted && at > len && at < len + n ? at - len : 0;
}

static void keep_prompt(draft_model *d, request *r)
{
    request_draft *of = &r->draft;
    uint32_t end = kept_end(d, r);
    if (of->space != NULL && of->n_kept < end && of->seq->len >= end) {
        kv_history h = request_history(r, end);
        kv_prefix_insert(d->prefix, of->space, of->seq, &h);
        of->n_kept = end;
    }
    kv_seq_drop_mark(of->seq);
}

/* ---- before the run -------------------------------------------------------------------------- */

static bool takes_part(const request *r)
{
    return r->drafter != NULL && r->drafter->graph == DRAFT_GRAPH_MODEL && r->max_new > 1;
}

void draft_model_prepare(weft_engine *e)
{
    e->drafting.budget = e->options.chunk_tokens;
    for (uint32_t i = 0; i < e->n_active; i++) {
        if (takes_part(e->active[i])) begin(e, e->active[i]);
    }
}

static uint32_t length_of(const draft_model *d, const request *r, uint32_t most)
{
    return r->drafter->length(r->draft_state, r->n_tokens, d->g.cost, most);
}

uint32_t draft_model_plan(draft_model *d, request *r, uint32_t most)
{
    const kv_seq *seq = r->draft.seq;
    if (seq == NULL || r->n_tokens > seq->limit) return 0;
    uint32_t new_tokens = r->n_tokens - seq->len;
    /* The last draft is not forwarded. */
    uint32_t room = seq->limit - r->n_tokens + 1;
    if (most > room) most = room;
    if (new_tokens > d->budget || new_tokens > kv_seq_most_append(seq)) return 0;
    uint32_t n = length_of(d, r, most);
    if (n > 0) d->budget -= new_tokens;
    return n;
}

/* Tokens that it reads in this step; those of rows that draft were counted when it was planned. */
static uint32_t reads(draft_model *d, const request *r)
{
    const kv_seq *seq = r->draft.seq;
    if (!takes_part(r) || seq == NULL) return 0;
    uint32_t known = r->n_tokens < seq->limit ? r->n_tokens : seq->limit;
    uint32_t n = known > seq->len ? known - seq->len : 0;
    if (r->draft.n_planned > 0) return n;
    /* One that rests, or has no room for more, reads when it goes on. */
    if (length_of(d, r, 1) == 0 || r->n_tokens >= seq->limit) return 0;
    uint32_t most = kv_seq_most_append(seq);
    if (n > most) n = most;
    if (n > d->budget) n = d->budget;
    d->budget -= n;
    return n;
}

weft_status draft_model_fill(weft_engine *e, weft_error *err)
{
    draft_model *d = &e->drafting;
    draft_graph *g = &d->g;
    draft_graph_begin(g);
    for (uint32_t i = 0; i < e->n_active; i++) {
        request *r = e->active[i];
        uint32_t n = reads(d, r);
        if (n == 0) continue;
        kv_seq *seq = r->draft.seq;
        d->txn_rows[g->step.n_rows] = (kv_txn_row){seq, n, false, mark_of(d, r, n)};
        uint32_t first = draft_graph_add(g, r, n, r->draft.n_planned > 0);
        memcpy(g->ids + first, r->tokens + seq->len, n * sizeof *g->ids);
        for (uint32_t k = 0; k < n; k++) g->positions[first + k] = seq->len + k;
    }
    if (g->step.n_rows == 0) return WEFT_OK;
    weft_status status = kv_txn_begin(&d->txn, d->txn_rows, g->step.n_rows, err);
    for (uint32_t i = 0; i < g->step.n_rows && status == WEFT_OK; i++)
        kv_seq_views(d->txn_rows[i].seq, g->views + i, g->step.n_rows);
    return status;
}

/* ---- drafts ---------------------------------------------------------------------------------- */

/* What was read stays. Rows of the step that want more than one draft begin to make them. */
static weft_status go_on(weft_engine *e, weft_error *err)
{
    draft_model *d = &e->drafting;
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->txn.n_rows; i++) d->keep[i] = d->txn_rows[i].n;
    kv_txn_commit(&d->txn, d->keep);
    for (uint32_t i = 0; i < d->g.step.n_rows; i++) keep_prompt(d, d->g.requests[i]);
    for (uint32_t i = 0; i < e->batch.step.n_rows; i++) {
        const batch_row *row = &e->batch.rows[i];
        const request *r = row->r;
        if (r->draft.seq == NULL || r->draft.n_planned < 2) continue;
        uint32_t most = kv_seq_most_append(r->draft.seq);
        uint32_t more = r->draft.n_planned - 1;
        if (more > most) more = most;
        /* Marked at its end, it has a page more in recurrent layers. */
        d->txn_rows[n] = (kv_txn_row){r->draft.seq, more, d->config.n_recurrent == 0, more};
        d->places[n++] = row;
    }
    return n > 0 ? kv_txn_begin(&d->txn, d->txn_rows, n, err) : WEFT_OK;
}

/* A recurrent layer's states in the step that comes `behind` others of one transaction: each fills
 * the page that the one before did not, and reads that one's; the first reads what is committed,
 * which nobody writes. */
static void shift_state(kv_view *view, const kv_state *state, uint32_t behind)
{
    unsigned char *pages[2] = {state->fresh->at, state->marked->at};
    view->fresh = pages[behind % 2];
    if (behind > 0) view->committed = pages[(behind - 1) % 2];
    view->marked = NULL;
    view->mark = 0;
}

static void lay_views(draft_model *d, const kv_seq *seq, uint32_t row_i, uint32_t behind)
{
    uint32_t stride = d->g.step.n_rows;
    kv_seq_views(seq, d->g.views + row_i, stride);
    for (uint32_t layer = 0; layer < d->config.n_layers; layer++) {
        kv_view *view = &d->g.views[(size_t)layer * stride + row_i];
        view->len = seq->len + behind;
        if (kv_is_recurrent(&d->config, layer)) shift_state(view, &seq->states[layer], behind);
    }
}

/* The row's draft number i, which is forwarded for the next one. */
static bool forwards(const draft_model *d, uint32_t row_i, uint32_t i)
{
    return i < d->txn_rows[row_i].n;
}

/* From draft i of every row that goes on so far to draft i + 1. */
static weft_status make_next(weft_engine *e, uint32_t i, weft_error *err)
{
    draft_model *d = &e->drafting;
    draft_graph *g = &d->g;
    draft_graph_begin(g);
    for (uint32_t k = 0; k < d->txn.n_rows; k++) {
        if (!forwards(d, k, i)) continue;
        const batch_row *row = d->places[k];
        constraint_try(row->r, row->drafts[i]);
        uint32_t at = draft_graph_add(g, row->r, 1, true);
        g->ids[at] = row->drafts[i];
        g->positions[at] = row->r->n_tokens + i;
    }
    for (uint32_t k = 0, row_i = 0; k < d->txn.n_rows; k++) {
        if (forwards(d, k, i)) lay_views(d, d->txn_rows[k].seq, row_i++, i);
    }
    if (g->step.n_rows == 0) return WEFT_OK;
    weft_status status = draft_graph_run(e, g, err);
    if (status != WEFT_OK) return status;
    for (uint32_t k = 0, row_i = 0; k < d->txn.n_rows; k++) {
        if (!forwards(d, k, i)) continue;
        const batch_row *row = d->places[k];
        const float *logits = g->logits + (size_t)row_i++ * g->n_vocab;
        row->drafts[i + 1] = draft_sample(e, row->r, logits, row->r->n_tokens + i + 1);
    }
    return WEFT_OK;
}

/* The first draft of each row, from what was read. */
static void take_first(weft_engine *e)
{
    const draft_graph *g = &e->drafting.g;
    uint32_t output_i = 0;
    for (uint32_t i = 0; i < g->step.n_rows; i++) {
        request *r = g->requests[i];
        if (r->draft.n_planned == 0) continue;
        const float *logits = g->logits + (size_t)output_i++ * g->n_vocab;
        r->draft.first = draft_sample(e, r, logits, r->n_tokens);
    }
    for (uint32_t i = 0; i < e->batch.step.n_rows; i++) {
        const batch_row *row = &e->batch.rows[i];
        bool ours = row->r->draft.seq != NULL && row->r->draft.n_planned > 0;
        if (ours) row->drafts[0] = row->r->draft.first;
    }
}

weft_status draft_model_propose(weft_engine *e, weft_error *err)
{
    draft_model *d = &e->drafting;
    if (d->g.step.n_rows == 0) return WEFT_OK;
    weft_status status = draft_graph_run(e, &d->g, err);
    if (status != WEFT_OK) return status;
    take_first(e);
    thread_lock_take(e->lock);
    status = go_on(e, err);
    thread_lock_drop(e->lock);
    for (uint32_t i = 0; i < DRAFTS_MOST && status == WEFT_OK && d->txn.n_rows > 0; i++) {
        status = make_next(e, i, err);
        if (d->g.step.n_rows == 0) break;
    }
    return status;
}

void draft_model_give_up(weft_engine *e)
{
    kv_txn_rollback(&e->drafting.txn);
    draft_graph_begin(&e->drafting.g);
}

/* Drafts that were right are tokens now, and their state is what forwarding them gives (docs/
 * numerics.md). */
void draft_model_commit(weft_engine *e)
{
    draft_model *d = &e->drafting;
    if (d->txn.state == KV_TXN_IDLE) return;
    for (uint32_t i = 0; i < d->txn.n_rows; i++) {
        uint32_t n = draft_n_right(d->places[i]);
        uint32_t most = d->txn_rows[i].n;
        d->keep[i] = d->config.n_recurrent > 0 ? 0 : n < most ? n : most;
    }
    kv_txn_commit(&d->txn, d->keep);
}
