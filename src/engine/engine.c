/* engine.c - opening, closing, and one step. */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "engine/state.h"

/* Of the experts there are, those that one token goes to. */
static uint64_t experts_bytes(const graph *g, const graph_value *v)
{
    uint64_t bytes = 0;
    for (uint32_t i = 2; i < 5; i++) bytes += graph_stack_bytes(g, v->in[i]);
    return bytes / g->values[v->in[2]].i[1] * g->values[v->in[1]].i[0];
}

uint64_t engine_weight_bytes(const graph *g)
{
    uint64_t bytes = 0;
    for (graph_id id = 1; id < g->n_values; id++) {
        const graph_value *v = &g->values[id];
        if (v->op == GRAPH_LINEAR_HEADS) bytes += graph_stack_bytes(g, v->in[1]);
        if (v->op == GRAPH_EXPERTS) bytes += experts_bytes(g, v);
        if (v->op != GRAPH_LINEAR && v->op != GRAPH_EMBED) continue;
        const tensor *t = &g->tensors[g->values[v->in[1]].i[0]];
        if (v->op == GRAPH_LINEAR) bytes += tensor_bytes(t);
        for (uint32_t i = 0; i < TENSOR_PLANES && v->op == GRAPH_EMBED; i++)
            bytes += t->row_bytes[i];
    }
    return bytes;
}

static backend_experts files_of(const llm *m, uint64_t n_bytes)
{
    const weights *w = m->weights;
    return (backend_experts){
        .n_bytes = n_bytes, .maps = w->maps, .paths = w->paths, .n_files = w->n_maps};
}

experts_size engine_experts_size(const llm *m)
{
    backend_experts files = files_of(m, 0);
    return experts_measure(&m->graph, &files);
}

static weft_status open_backend(weft_engine *e, weft_error *err)
{
    const engine_options *o = &e->options;
    weft_status status = backend_find(o->backend, &e->api, err);
    if (status != WEFT_OK) return status;
    backend_config config = {
        .env = e->env, .isa = o->isa, .act = o->act, .n_threads = o->n_threads};
    if (o->expert_bytes != 0) {
        if (engine_experts_size(e->model).n_all == 0)
            return err_set(err, WEFT_ARGUMENT, "the model has no experts that could be streamed");
        e->experts = files_of(e->model, o->expert_bytes);
        config.experts = &e->experts;
    }
    status = e->api->open(&config, &e->backend, err);
    if (status != WEFT_OK) return status;
    return e->api->supports(e->backend, &e->model->graph, err);
}

weft_status engine_state_bytes(const llm *m, const engine_options *options, uint32_t n_positions,
                               uint64_t *n_bytes, weft_error *err)
{
    arena a;
    kv_spec spec;
    kv_config config;
    arena_init(&a, m->env.allocator, 0);
    weft_status status = cache_spec(m, options, options->kv, &spec, err);
    if (status == WEFT_OK) status = cache_config(m, options, &spec, &a, &config, err);
    if (status == WEFT_OK && n_positions > options->context) {
        status = err_set(err, WEFT_LIMIT, "%u positions, the context holds %u", n_positions,
                         options->context);
    }
    *n_bytes = status == WEFT_OK ? kv_config_bytes(&config, n_positions) : 0;
    arena_deinit(&a);
    return status;
}

static weft_status open_kv(weft_engine *e, weft_error *err)
{
    const engine_options *o = &e->options;
    const engine_store *store;
    weft_status status = cache_store(e, o->kv, &store, err);
    if (status != WEFT_OK) return status;
    uint64_t budget = o->memory_bytes;
    if (budget == 0) {
        budget = kv_config_bytes(&store->config, o->context);
        if (budget < (1u << 30)) budget = 1u << 30;
    }
    const weft_allocator *a = e->env.allocator;
    status = kv_pool_create(a, e->api, e->backend, &store->config, budget, &e->pool, err);
    if (status != WEFT_OK || o->no_cache) return status;
    status = kv_prefix_create(a, e->pool, o->cache_bytes, &e->prefix, err);
    /* Again: how far apart boundaries are depends on the budget. */
    return status == WEFT_OK ? cache_store(e, o->kv, &store, err) : status;
}

/* Tokens that are not of prompts: each has an output. */
static uint32_t most_decoded(const engine_options *o)
{
    uint64_t n = (uint64_t)o->max_sequences * (1 + o->max_drafts);
    return n < o->max_outputs ? (uint32_t)n : o->max_outputs;
}

/* NULL when refused. */
static float *matrix(arena *a, size_t rows, size_t cols)
{
    size_t n;
    return size_mul(rows, cols, &n) ? arena_array(a, n, sizeof(float)) : NULL;
}

static weft_status open_batch(weft_engine *e, weft_error *err)
{
    const engine_options *o = &e->options;
    batch *b = &e->batch;
    uint32_t n_tokens = o->chunk_tokens + most_decoded(o);
    const llm *m = e->model;
    uint32_t n_outputs = m->graph.output != 0 ? o->max_outputs : 0;
    uint32_t n_hidden = m->graph.hidden != 0 ? n_tokens : 0;
    b->limits = (backend_limits){.n_tokens = n_tokens,
                                 .n_rows = o->max_sequences,
                                 .n_outputs = n_outputs,
                                 .n_hidden = n_hidden,
                                 .context = o->context};
    uint32_t n_vocab = m->params.n_vocab;
    arena *a = &e->arena;
    b->ids = arena_array(a, n_tokens, sizeof *b->ids);
    b->positions = arena_array(a, n_tokens, sizeof *b->positions);
    b->row_starts = arena_array(a, (size_t)o->max_sequences + 1, sizeof *b->row_starts);
    b->outputs = arena_array(a, n_outputs, sizeof *b->outputs);
    b->hidden_of = arena_array(a, n_hidden, sizeof *b->hidden_of);
    if (m->params.sees_all) b->highest = arena_array(a, n_tokens, sizeof *b->highest);
    size_t n_states = (size_t)m->n_kv_layers + (o->draft_head ? m->n_draft_kv_layers : 0);
    b->views = arena_array(a, n_states * o->max_sequences, sizeof *b->views);
    b->txn_rows = arena_array(a, o->max_sequences, sizeof *b->txn_rows);
    b->keep = arena_array(a, o->max_sequences, sizeof *b->keep);
    b->rows = arena_array(a, o->max_sequences, sizeof *b->rows);
    e->active = arena_array(a, o->max_sequences, sizeof(request *));
    b->logits = matrix(a, n_outputs, n_vocab);
    b->hidden = matrix(a, n_hidden, m->params.n_embd);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    b->taps = arena_array(a, m->params.n_layers, sizeof *b->taps);
    for (uint32_t i = 0; b->taps != NULL && i < m->params.n_layers; i++) b->taps[i] = NULL;
    e->scratch.ids = arena_array(a, n_vocab, sizeof *e->scratch.ids);
    e->scratch.logits = arena_array(a, n_vocab, sizeof *e->scratch.logits);
    e->scratch.adjusted = arena_array(a, n_vocab, sizeof *e->scratch.adjusted);
    e->scratch.counts = arena_array(a, n_vocab, sizeof *e->scratch.counts);
    e->allowed = arena_array(a, sample_mask_words(n_vocab), sizeof *e->allowed);
    e->scratch.repeats = arena_array(a, (size_t)o->context + 1, sizeof *e->scratch.repeats);
    bool ok =
        b->ids && b->positions && b->row_starts && b->outputs && b->views && b->txn_rows && b->keep;
    ok = ok && b->hidden_of && b->hidden && (b->highest || !m->params.sees_all);
    ok = ok && b->taps && b->rows && e->active && b->logits && e->scratch.ids && e->scratch.logits;
    if (!ok || !e->scratch.adjusted || !e->scratch.counts || !e->scratch.repeats || !e->allowed) {
        return err_set(err, WEFT_NOMEM,
                       "out of memory for steps of %u tokens and %u rows of logits", n_tokens,
                       n_outputs);
    }
    weft_status status = e->api->plan(e->backend, &m->graph, &b->limits, &e->plan, err);
    if (status == WEFT_OK) kv_pool_set_plan(e->pool, e->plan);
    return status;
}

weft_status engine_open(const llm *m, const engine_options *options, weft_engine **out,
                        weft_error *err)
{
    *out = NULL;
    weft_engine *e = mem_alloc_zero(m->env.allocator, sizeof *e);
    if (e == NULL) return err_set(err, WEFT_NOMEM, "out of memory for an engine");
    e->env = m->env;
    e->model = m;
    e->options = *options;
    e->weight_bytes_step = engine_weight_bytes(&m->graph);
    arena_init(&e->arena, e->env.allocator, 0);
    kv_txn_init(&e->txn);
    weft_status status = thread_lock_create(e->env.allocator, &e->lock, err);
    if (status == WEFT_OK) status = open_backend(e, err);
    if (status == WEFT_OK) status = open_kv(e, err);
    if (status == WEFT_OK) status = open_batch(e, err);
    if (status == WEFT_OK) status = draft_open(e, err);
    if (status == WEFT_OK) status = disk_open(e, err);
    if (status != WEFT_OK) {
        engine_close(e);
        return status;
    }
    *out = e;
    return WEFT_OK;
}

void engine_close(weft_engine *e)
{
    if (e == NULL) return;
    disk_close_begin(e);
    queue_close(e);
    disk_close(e);
    cache_close(e);
    kv_pool_destroy(e->pool);
    if (e->backend != NULL) {
        draft_close(e);
        media_close(e);
        e->api->plan_free(e->backend, e->plan);
        e->api->close(e->backend);
    }
    taps_close(e);
    thread_lock_destroy(e->lock);
    arena_deinit(&e->arena);
    mem_free(e->env.allocator, e, sizeof *e);
}

/* What the batch asks for, up to what stays of it; *ns: but for sampling. Called without the lock.
 */
static weft_status run_batch(weft_engine *e, uint64_t *ns, weft_error *err)
{
    uint64_t begun = clock_now_ns();
    weft_status status = media_encode(e, err);
    if (status == WEFT_OK) status = draft_propose(e, err);
    if (status == WEFT_OK) status = e->api->run(e->backend, e->plan, &e->batch.step, err);
    if (status == WEFT_OK) status = e->api->wait(e->backend, err);
    *ns = clock_now_ns() - begun;
    if (status != WEFT_OK) return status;
    thread_lock_take(e->lock);
    scheduler_settle(e);
    thread_lock_drop(e->lock);
    begun = clock_now_ns();
    status = draft_follow(e, err);
    *ns += clock_now_ns() - begun;
    return status;
}

weft_status engine_step(weft_engine *e, uint32_t *n_active, weft_error *err)
{
    *n_active = 0;
    thread_lock_take(e->lock);
    if (e->stepping) {
        thread_lock_drop(e->lock);
        return err_set(err, WEFT_ARGUMENT, "another thread is stepping this engine");
    }
    uint64_t begun = clock_now_ns();
    bool work = scheduler_fill(e);
    e->stepping = work;
    thread_lock_drop(e->lock);
    weft_status status = WEFT_OK;
    weft_error failure = {WEFT_OK, ""};
    uint64_t run = 0;
    if (work) status = run_batch(e, &run, &failure);
    thread_lock_take(e->lock);
    if (work && status == WEFT_OK) scheduler_commit(e);
    if (work && status != WEFT_OK) scheduler_fail(e, &failure);
    if (work) e->stepping = false;
    *n_active = e->n_active + e->n_waiting;
    e->ns_steps += clock_now_ns() - begun;
    e->ns_runs += run;
    thread_lock_drop(e->lock);
    return status == WEFT_OK ? WEFT_OK : err_set(err, status, "%s", failure.message);
}

void engine_info(const weft_engine *e, weft_engine_info *info)
{
    info->backend = e->api->name;
    info->isa = e->api->isa(e->backend);
    info->kv = e->stores->text;
    info->n_threads = e->options.n_threads;
    info->context = e->options.context;
    thread_lock_take(e->lock);
    info->kv_bytes_live = kv_pool_bytes_taken(e->pool);
    if (e->prefix != NULL) {
        kv_prefix_stats stats;
        kv_prefix_get_stats(e->prefix, &stats);
        info->kv_bytes_live -= stats.bytes_idle;
        info->kv_bytes_cached = stats.bytes;
        info->n_cache_lookups = stats.n_lookups;
        info->n_cache_hits = stats.n_hits;
        info->n_cache_tokens = stats.tokens_found;
    }
    info->n_active = e->n_active;
    info->n_waiting = e->n_waiting;
    info->n_paused = e->n_paused;
    info->n_steps = e->n_steps;
    info->ns_steps = e->ns_steps;
    info->ns_runs = e->ns_runs;
    info->ns_samples = e->ns_samples;
    draft_info(e, info);
    disk_info(e, info);
    info->n_drafted = e->n_drafted;
    info->n_accepted = e->n_accepted;
    info->n_kv_nonfinite = atomic_load_explicit(&e->n_nonfinite, memory_order_relaxed);
    info->n_states_saved = e->files.n_saved;
    info->n_states_restored = e->files.n_loaded;
    for (int i = 0; i < KV_MISSES; i++) info->n_state_misses += e->files.n_misses[i];
    thread_lock_drop(e->lock);
    info->kv_bytes_budget = kv_pool_budget(e->pool);
    info->weight_bytes_step = e->weight_bytes_step;
    info->scratch_bytes = e->api->plan_bytes(e->plan) + e->arena.taken;
    info->scratch_bytes += draft_scratch_bytes(e);
    if (e->tower != NULL)
        info->scratch_bytes += e->api->plan_bytes(e->tower->plan) + e->tower->arena.taken;
    backend_expert_stats stats;
    e->api->experts(e->plan, &stats);
    info->expert_bytes = stats.n_bytes;
    info->n_experts_used = stats.n_used;
    info->n_experts_there = stats.n_hits;
    info->n_experts_ahead = stats.n_ahead;
    info->n_experts_ahead_used = stats.n_ahead_used;
    info->expert_bytes_read = stats.bytes_read;
}

const weft_allocator *engine_allocator(const weft_engine *e)
{
    return e->env.allocator;
}

weft_status engine_image_info(const weft_engine *e, uint32_t width, uint32_t height,
                              weft_image_info *info, weft_error *err)
{
    vision_image image;
    weft_status status = media_size(e, width, height, false, &image, err);
    if (status != WEFT_OK) return status;
    info->width = image.width;
    info->height = image.height;
    info->n_tokens = media_tokens(e, &image);
    return WEFT_OK;
}

void engine_drop_cache(weft_engine *e)
{
    thread_lock_take(e->lock);
    if (e->prefix != NULL && e->disk.env != NULL) kv_disk_drop(&e->disk);
    if (e->prefix != NULL) kv_prefix_clear(e->prefix);
    if (e->drafting.prefix != NULL) kv_prefix_clear(e->drafting.prefix);
    thread_lock_drop(e->lock);
}

weft_status engine_trace(weft_engine *e, bool on, weft_error *err)
{
    thread_lock_take(e->lock);
    bool stepping = e->stepping;
    weft_status status = WEFT_OK;
    if (!stepping) status = e->api->trace(e->backend, e->plan, on, err);
    thread_lock_drop(e->lock);
    return stepping ? err_set(err, WEFT_ARGUMENT, "a trace begins and ends outside of steps")
                    : status;
}

uint32_t engine_trace_part(const weft_engine *e, uint32_t i, weft_trace_part *part)
{
    backend_trace_part of = {0};
    thread_lock_take(e->lock);
    uint32_t n = e->api->trace_part(e->plan, i, &of);
    thread_lock_drop(e->lock);
    *part = (weft_trace_part){
        .struct_size = sizeof *part,
        .work = of.work,
        .weights = of.weights,
        .n_in = of.n_in,
        .n_out = of.n_out,
        .n_calls = of.n_calls,
        .n_bytes = of.n_bytes,
        .seconds = (double)of.ns * 1e-9,
        .idle_seconds = (double)of.idle_ns * 1e-9,
    };
    return n;
}

static weft_status measure_read(weft_engine *e, size_t size, double *bytes_per_second,
                                weft_error *err)
{
    void *block = mem_alloc(e->env.allocator, size);
    if (block == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a block of %zu bytes", size);
    memset(block, 1, size);
    weft_status status = e->api->measure_read(e->backend, block, size, bytes_per_second, err);
    mem_free(e->env.allocator, block, size);
    return status;
}

weft_status engine_measure_read(weft_engine *e, uint64_t n_bytes, double *bytes_per_second,
                                weft_error *err)
{
    *bytes_per_second = 0.0;
    if (n_bytes < 4096 || n_bytes > SIZE_MAX / 2) {
        return err_set(err, WEFT_ARGUMENT, "cannot measure a read of %llu bytes",
                       (unsigned long long)n_bytes);
    }
    /* It takes the threads of a step. What is released meanwhile is freed by the next step. */
    thread_lock_take(e->lock);
    bool busy = e->stepping;
    e->stepping = true;
    thread_lock_drop(e->lock);
    if (busy) return err_set(err, WEFT_ARGUMENT, "another thread is stepping this engine");
    weft_status status = measure_read(e, (size_t)n_bytes / 4096 * 4096, bytes_per_second, err);
    thread_lock_take(e->lock);
    e->stepping = false;
    thread_lock_drop(e->lock);
    return status;
}
