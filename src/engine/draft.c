/* draft.c - what the graphs that draft have in common, and who is asked when. */
#include <string.h>

#include "base/assert.h"
#include "engine/state.h"

/* ---- a graph and its steps ------------------------------------------------------------------- */

/* What is streamed is found in the files of the engine's model, under a budget for its graph. */
static weft_status check_experts(const weft_engine *e, const graph *g, weft_error *err)
{
    for (graph_id id = 1; id < g->n_values && e->options.expert_bytes != 0; id++) {
        if (g->values[id].op != GRAPH_EXPERTS) continue;
        return err_set(err, WEFT_UNSUPPORTED, "experts that draft are not streamed (expert_bytes)");
    }
    return WEFT_OK;
}

weft_status draft_graph_open(weft_engine *e, draft_graph *g, const graph *of, weft_error *err)
{
    const backend_limits *l = &g->limits;
    arena *a = &g->arena;
    size_t n_views = (size_t)g->n_states * l->n_rows;
    size_t n_feed = (size_t)l->n_tokens * g->n_feed;
    g->graph = of;
    arena_init(a, e->env.allocator, 0);
    g->ids = arena_array(a, l->n_tokens, sizeof *g->ids);
    g->positions = arena_array(a, l->n_tokens, sizeof *g->positions);
    g->row_starts = arena_array(a, (size_t)l->n_rows + 1, sizeof *g->row_starts);
    g->outputs = arena_array(a, l->n_outputs, sizeof *g->outputs);
    g->views = arena_array(a, n_views, sizeof *g->views);
    g->feed = arena_array(a, n_feed, sizeof *g->feed);
    g->logits = arena_array(a, (size_t)l->n_outputs * g->n_vocab, sizeof *g->logits);
    g->hidden = arena_array(a, (size_t)l->n_hidden * g->n_hidden, sizeof *g->hidden);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    g->requests = arena_array(a, l->n_rows, sizeof *g->requests);
    bool ok = g->ids && g->positions && g->row_starts && g->outputs && g->views && g->feed;
    if (!ok || !g->logits || !g->hidden || !g->requests) {
        return err_set(err, WEFT_NOMEM, "out of memory for drafts of %u rows", l->n_rows);
    }
    weft_status status = check_experts(e, of, err);
    if (status == WEFT_OK) status = e->api->supports(e->backend, of, err);
    if (status == WEFT_OK) status = e->api->plan(e->backend, of, l, &g->plan, err);
    uint64_t of_model = e->weight_bytes_step > 0 ? e->weight_bytes_step : 1;
    g->cost = (uint32_t)((engine_weight_bytes(of) + g->more_bytes) * DRAFT_STEP / of_model);
    return status;
}

void draft_graph_close(weft_engine *e, draft_graph *g)
{
    if (g->plan != NULL) e->api->plan_free(e->backend, g->plan);
    if (g->graph != NULL) arena_deinit(&g->arena);
    *g = (draft_graph){0};
}

void draft_graph_begin(draft_graph *g)
{
    g->step = (backend_step){.ids = g->ids,
                             .positions = g->positions,
                             .row_starts = g->row_starts,
                             .outputs = g->outputs,
                             .hidden_of = g->outputs,
                             .views = g->views,
                             .feeds = &g->feed,
                             .logits = g->logits,
                             .hidden = g->hidden};
    g->row_starts[0] = 0;
}

uint32_t draft_graph_add(draft_graph *g, request *r, uint32_t n, bool draws)
{
    backend_step *s = &g->step;
    uint32_t first = s->n_tokens;
    ASSERT(n > 0 && n <= g->limits.n_tokens - first && s->n_rows < g->limits.n_rows);
    g->requests[s->n_rows++] = r;
    s->n_tokens += n;
    g->row_starts[s->n_rows] = s->n_tokens;
    if (draws) g->outputs[s->n_outputs++] = s->n_tokens - 1;
    if (g->n_hidden > 0) s->n_hidden = s->n_outputs;
    return first;
}

weft_status draft_graph_run(weft_engine *e, draft_graph *g, weft_error *err)
{
    g->step.n_nonfinite = &e->n_nonfinite;
    weft_status status = e->api->run(e->backend, g->plan, &g->step, err);
    return status == WEFT_OK ? e->api->wait(e->backend, err) : status;
}

int32_t draft_sample(weft_engine *e, const request *r, const float *logits, uint32_t position)
{
    sample s;
    weft_error ignored;
    const request_sampling *how = &r->sampling;
    bool early = position - r->n_prompt < how->min_new;
    err_clear(&ignored);
    /* History without the drafts before: a guess may be a little off. */
    sample_input in = {.logits = logits,
                       .n_vocab = e->model->params.n_vocab,
                       .params = &how->params,
                       .position = position,
                       .history = r->tokens,
                       .n_history = r->n_tokens,
                       .n_prompt = r->n_prompt,
                       .forbidden = how->stop_ids,
                       .n_forbidden = early ? how->n_stop_ids : 0,
                       .breakers = how->breakers};
    weft_status status = constraint_allow(e, r, &in, &ignored);
    if (status == WEFT_OK) status = sample_token(&in, &e->scratch, &s, &ignored);
    return status == WEFT_OK ? s.id : 0;
}

uint32_t draft_n_right(const batch_row *row)
{
    const request *r = row->r;
    const int32_t *sampled = r->tokens + row->n_known;
    uint32_t n_sampled = r->n_tokens - row->n_known;
    uint32_t n = 0;
    while (n < row->n_drafts && n < n_sampled && sampled[n] == row->drafts[n]) n++;
    return n;
}

/* ---- the engine's graphs --------------------------------------------------------------------- */

weft_status draft_open(weft_engine *e, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (e->options.draft_head) status = draft_head_open(e, err);
    const llm *m = e->options.draft_model;
    if (status != WEFT_OK || m == NULL) return status;
    return m->params.is_assistant ? draft_assistant_open(e, err) : draft_model_open(e, err);
}

void draft_close(weft_engine *e)
{
    draft_graph_close(e, &e->head);
    draft_model_close(e);
    draft_assistant_close(e);
}

weft_status draft_check(const weft_engine *e, const engine_drafter *drafter, weft_error *err)
{
    if (drafter->graph == DRAFT_GRAPH_MODEL && e->options.draft_model == NULL) {
        return err_set(err, WEFT_ARGUMENT, "draft is 'model', the engine has no draft_model");
    }
    if (drafter->graph == DRAFT_GRAPH_HEAD && !e->options.draft_head) {
        return err_set(err, WEFT_ARGUMENT,
                       "draft is 'mtp', the engine was opened without WEFT_ENGINE_MTP");
    }
    return WEFT_OK;
}

static bool drafts_by(const request *r, draft_graph_kind kind)
{
    return r->drafter != NULL && r->drafter->graph == kind;
}

static bool drafts_by_assistant(const weft_engine *e, const request *r)
{
    return e->assistant.model != NULL && drafts_by(r, DRAFT_GRAPH_MODEL);
}

bool draft_init(const weft_engine *e, request *r)
{
    if (!drafts_by(r, DRAFT_GRAPH_HEAD) && !drafts_by_assistant(e, r)) return true;
    r->draft.hidden = mem_alloc(e->env.allocator, e->model->params.n_embd * sizeof(float));
    return r->draft.hidden != NULL;
}

void draft_deinit(const weft_engine *e, request *r)
{
    mem_free(e->env.allocator, r->draft.hidden, e->model->params.n_embd * sizeof(float));
    r->draft.hidden = NULL;
}

bool draft_reads_hidden(const weft_engine *e)
{
    return e->options.draft_head || e->assistant.model != NULL;
}

const kv_layer *draft_layers(const llm *m, bool head, arena *a, uint32_t *n_layers)
{
    *n_layers = m->n_kv_layers;
    if (!head) return m->kv_layers;
    *n_layers += m->n_draft_kv_layers;
    kv_layer *layers = arena_array(a, *n_layers, sizeof *layers);
    if (layers == NULL) return NULL;
    memcpy(layers, m->kv_layers, m->n_kv_layers * sizeof *layers);
    memcpy(layers + m->n_kv_layers, m->draft_kv_layers, m->n_draft_kv_layers * sizeof *layers);
    return layers;
}

void draft_info(const weft_engine *e, weft_engine_info *info)
{
    const draft_model *d = &e->drafting;
    if (d->pool == NULL) return;
    info->draft_bytes_live = kv_pool_bytes_taken(d->pool);
    info->draft_bytes_budget = kv_pool_budget(d->pool);
    if (d->prefix == NULL) return;
    kv_prefix_stats stats;
    kv_prefix_get_stats(d->prefix, &stats);
    info->draft_bytes_live -= stats.bytes_idle;
}

uint64_t draft_scratch_bytes(const weft_engine *e)
{
    const draft_graph *of[] = {&e->head, &e->drafting.g, &e->assistant.g};
    uint64_t bytes = e->drafting.arena.taken + e->assistant.arena.taken;
    for (size_t i = 0; i < COUNT_OF(of); i++) {
        bytes += of[i]->arena.taken;
        if (of[i]->plan != NULL) bytes += e->api->plan_bytes(of[i]->plan);
    }
    return bytes;
}

/* ---- a step ---------------------------------------------------------------------------------- */

void draft_prepare(weft_engine *e)
{
    for (uint32_t i = 0; i < e->n_active; i++) e->active[i]->draft.n_planned = 0;
    if (e->drafting.model != NULL) draft_model_prepare(e);
}

static uint32_t plan_head(const weft_engine *e, const request *r, uint32_t most)
{
    if (r->draft.first_at != r->n_tokens) return 0;
    return r->drafter->length(r->draft_state, r->n_tokens, e->head.cost, most);
}

uint32_t draft_plan(weft_engine *e, request *r, uint32_t most, int32_t *out)
{
    request_draft *d = &r->draft;
    if (r->drafter->graph == DRAFT_GRAPH_HEAD) {
        d->n_planned = plan_head(e, r, most);
    } else if (e->assistant.model != NULL) {
        d->n_planned = draft_assistant_plan(e, r, most);
    } else {
        d->n_planned = draft_model_plan(&e->drafting, r, most);
    }
    memset(out, 0, d->n_planned * sizeof *out);
    return d->n_planned;
}

/* The places that a graph was to fill keep what they have, which is a guess like any other, and
 * nobody learns of them. */
static void give_up(weft_engine *e, draft_graph_kind kind)
{
    for (uint32_t i = 0; i < e->n_active; i++) {
        if (drafts_by(e->active[i], kind)) e->active[i]->draft.n_planned = 0;
    }
    if (kind == DRAFT_GRAPH_MODEL && e->drafting.model != NULL) draft_model_give_up(e);
}

void draft_fill(weft_engine *e)
{
    if (e->drafting.model == NULL) return;
    if (draft_model_fill(e, NULL) != WEFT_OK) give_up(e, DRAFT_GRAPH_MODEL);
}

/* Whether a failure is the engine's; else it is forgotten. */
static bool is_fatal(weft_status status, const weft_error *failure, const char *who,
                     weft_error *err)
{
    if (status == WEFT_DEVICE) err_set(err, status, "%s: %s", who, failure->message);
    return status == WEFT_DEVICE;
}

weft_status draft_propose(weft_engine *e, weft_error *err)
{
    weft_error failure = {WEFT_OK, ""};
    weft_status status = e->head.graph != NULL ? draft_head_propose(e, &failure) : WEFT_OK;
    if (status != WEFT_OK) {
        if (is_fatal(status, &failure, "the head that drafts", err)) return status;
        give_up(e, DRAFT_GRAPH_HEAD);
        err_clear(&failure);
    }
    status = WEFT_OK;
    if (e->drafting.model != NULL) status = draft_model_propose(e, &failure);
    if (e->assistant.model != NULL) status = draft_assistant_propose(e, &failure);
    if (status != WEFT_OK) {
        if (is_fatal(status, &failure, "the draft model", err)) return status;
        thread_lock_take(e->lock);
        give_up(e, DRAFT_GRAPH_MODEL);
        thread_lock_drop(e->lock);
        err_clear(&failure);
    }
    status = e->assistant.model != NULL ? draft_assistant_propose(e, &failure) : WEFT_OK;
    if (status != WEFT_OK) {
        if (is_fatal(status, &failure, "the assistant", err)) return status;
        give_up(e, DRAFT_GRAPH_MODEL);
    }
    for (uint32_t i = 0; i < e->batch.step.n_rows; i++) {
        batch_row *row = &e->batch.rows[i];
        constraint_forget(row->r);
        if (row->r->draft.n_planned > 0) media_pad(e, row->drafts, row->n_drafts);
    }
    return WEFT_OK;
}

/* What became of drafts, to those who ask how many pay. */
static void learn(const weft_engine *e, const batch_row *row)
{
    const request *r = row->r;
    if (row->n_drafts == 0 || r->draft.n_planned == 0 || r->drafter->learn == NULL) return;
    const draft_graph *g = r->drafter->graph == DRAFT_GRAPH_HEAD ? &e->head
                           : e->assistant.model != NULL          ? &e->assistant.g
                                                                 : &e->drafting.g;
    r->drafter->learn(r->draft_state, r->n_tokens, g->cost, row->n_drafts, draft_n_right(row));
}

weft_status draft_follow(weft_engine *e, weft_error *err)
{
    for (uint32_t i = 0; i < e->batch.step.n_rows; i++) learn(e, &e->batch.rows[i]);
    if (e->assistant.model != NULL) draft_assistant_follow(e);
    if (e->head.graph == NULL) return WEFT_OK;
    weft_error failure = {WEFT_OK, ""};
    weft_status status = draft_head_follow(e, &failure);
    if (status == WEFT_OK || is_fatal(status, &failure, "the head that drafts", err)) return status;
    /* What these sequences hold of the head is not theirs: they draft no more, and nobody begins
     * with them. */
    for (uint32_t i = 0; i < e->batch.step.n_rows; i++) {
        request *r = e->batch.rows[i].r;
        r->draft.lost = true;
        r->draft.first_at = 0;
        r->space = NULL;
    }
    return WEFT_OK;
}

void draft_commit(weft_engine *e)
{
    if (e->drafting.model != NULL) draft_model_commit(e);
}

void draft_fail(weft_engine *e)
{
    kv_txn_rollback(&e->drafting.txn);
}

void draft_end(weft_engine *e, request *r)
{
    if (r->draft.seq != NULL) draft_model_end(e, r);
    if (drafts_by_assistant(e, r)) r->draft.first_at = 0;
    r->draft.refused = false;
}

void draft_begin(request *r)
{
    r->draft.lost = false;
    r->draft.first_at = 0;
}
