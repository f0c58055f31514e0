/* cache.c - how requests store their state, and what they leave for those that come after.
 *
 * What a request stores in is a spec, made into a config once for all requests that name it. What
 * it leaves behind is found by its tokens (kv/prefix.h): the prompt when it has been forwarded, all
 * when it ends, however it ends; and where layers can be resumed at boundaries only, some on the
 * way. Nothing of this changes a result: state that is found is the state that would be made. */
#include <string.h>

#include "base/assert.h"
#include "engine/state.h"

/* Boundaries on the way, in tokens; wider where states are large. */
enum { BOUNDARY_TOKENS = 512, BOUNDARY_SHARE = 4 };

/* ---- stores ---------------------------------------------------------------------------------- */

/* So that the states of a sequence as long as the context take no more than a part of the budget.
 */
static uint32_t interval_of(const weft_engine *e, const kv_config *c)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (kv_is_recurrent(c, i)) bytes += c->geometries[i].page_bytes;
    }
    uint64_t budget = kv_pool_budget(e->pool) / BOUNDARY_SHARE;
    uint32_t interval = BOUNDARY_TOKENS;
    while (interval < c->bounds.context && bytes * (c->bounds.context / interval) > budget) {
        interval *= 2;
    }
    return interval;
}

static void store_free(const weft_engine *e, engine_store *s)
{
    arena_deinit(&s->arena);
    mem_free(e->env.allocator, s, sizeof *s);
}

weft_status cache_spec(const llm *m, const engine_options *o, const char *kv, kv_spec *spec,
                       weft_error *err)
{
    /* An encoder's live for one step. */
    bool f32 = o->act == WEFT_ACT_F32 || m->params.sees_all;
    weft_status status = kv_spec_parse(kv, f32 ? "f32" : "bf16", spec, err);
    spec->n_model_layers = m->params.n_layers;
    if (status == WEFT_OK && m->params.sees_all && spec->start > 0) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "kv codec '%s': start= cuts a text, but an encoder's goes through one step",
                       kv);
    }
    return status;
}

weft_status cache_config(const llm *m, const engine_options *o, const kv_spec *spec, arena *a,
                         kv_config *config, weft_error *err)
{
    /* What is known, and the drafts behind it. */
    uint32_t most_verify = o->max_drafts > 0 ? o->max_drafts + 1 : 0;
    kv_bounds bounds = {.context = o->context,
                        .most_append =
                            o->chunk_tokens > most_verify ? o->chunk_tokens : most_verify,
                        .page_tokens = KV_PAGE_TOKENS,
                        .most_verify = most_verify,
                        .marks = !o->no_cache};
    uint32_t n_layers;
    const kv_layer *layers = draft_layers(m, o->draft_head, a, &n_layers);
    if (layers == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for the state of %u layers", n_layers);
    return kv_config_init(config, a, layers, n_layers, spec, &bounds, err);
}

static weft_status store_create(weft_engine *e, const kv_spec *spec, engine_store **out,
                                weft_error *err)
{
    engine_store *s = mem_alloc_zero(e->env.allocator, sizeof *s);
    if (s == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a KV codec");
    s->spec = *spec;
    arena_init(&s->arena, e->env.allocator, 0);
    kv_spec_print(&s->spec, s->text, sizeof s->text);
    weft_status status = cache_config(e->model, &e->options, &s->spec, &s->arena, &s->config, err);
    /* The first is what the pool is made for. */
    if (status == WEFT_OK && e->pool != NULL) status = kv_pool_join(e->pool, &s->config, err);
    if (status != WEFT_OK) {
        store_free(e, s);
        return status;
    }
    *out = s;
    return WEFT_OK;
}

static weft_status find_store(weft_engine *e, const kv_spec *spec, engine_store **out,
                              weft_error *err)
{
    char text[KV_SPEC_TEXT];
    uint32_t n = 0;
    engine_store **link = &e->stores;
    kv_spec_print(spec, text, sizeof text);
    for (; *link != NULL; link = &(*link)->next, n++) {
        if (strcmp((*link)->text, text) != 0) continue;
        *out = *link;
        return WEFT_OK;
    }
    if (n == ENGINE_STORES) {
        return err_set(err, WEFT_LIMIT, "kv codec '%s': %d others are in use, at most %d", text,
                       ENGINE_STORES, ENGINE_STORES);
    }
    weft_status status = store_create(e, spec, link, err);
    *out = *link;
    return status;
}

weft_status cache_store(weft_engine *e, const char *kv, const engine_store **store, weft_error *err)
{
    kv_spec spec;
    engine_store *found = e->stores;
    weft_status status = WEFT_OK;
    if (found == NULL || kv != NULL) {
        status = cache_spec(e->model, &e->options, kv, &spec, err);
        if (status == WEFT_OK) status = find_store(e, &spec, &found, err);
    }
    if (status != WEFT_OK) return status;
    /* Depends on the budget, which the first store comes before. */
    if (e->pool != NULL && found->interval == 0 && kv_needs_boundary(&found->config)) {
        found->interval = interval_of(e, &found->config);
    }
    *store = found;
    return WEFT_OK;
}

void cache_close(weft_engine *e)
{
    kv_prefix_destroy(e->prefix);
    while (e->stores != NULL) {
        engine_store *s = e->stores;
        e->stores = s->next;
        store_free(e, s);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

bool cache_leaves(const weft_engine *e, const request *r)
{
    return e->prefix != NULL && r->store->config.n_cross == 0 &&
           (r->flags & WEFT_REQUEST_NO_CACHE) == 0;
}

/* Logits of a prompt, hidden states and what layers give come from forwarding it. */
bool cache_finds(const weft_engine *e, const request *r)
{
    return cache_leaves(e, r) && r->prompt_logits == NULL && r->taps.n == 0 && !embed_needs_all(r);
}

uint64_t cache_bytes_fixed(weft_engine *e, const request *r)
{
    if (e->prefix == NULL) return 0;
    kv_space *space = NULL;
    kv_history h = {0};
    if (r != NULL && cache_finds(e, r)) {
        space = kv_prefix_space(e->prefix, &r->store->config, r->salt);
        h = request_history(r, r->n_tokens);
    }
    return kv_prefix_bytes_fixed(e->prefix, space, &h);
}

weft_status cache_begin(weft_engine *e, request *r, uint32_t n_positions, weft_error *err)
{
    const weft_allocator *a = e->env.allocator;
    const kv_config *config = &r->store->config;
    r->space = NULL;
    r->n_begun = 0;
    draft_begin(r);
    if (cache_leaves(e, r)) {
        r->space = kv_prefix_space(e->prefix, config, r->salt);
        if (r->space == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the prefix cache");
    }
    if (r->space == NULL || !cache_finds(e, r))
        return kv_seq_create(a, e->pool, config, n_positions, &r->seq, err);
    kv_history h = request_history(r, r->n_tokens);
    kv_match match;
    weft_status status =
        kv_prefix_begin(e->prefix, r->space, &h, n_positions, &r->seq, &match, err);
    if (status != WEFT_OK) return status;
    r->n_kept = r->n_begun = match.n_usable;
    if (r->begun) return WEFT_OK;
    r->begun = true;
    r->n_known = match.n_equal;
    r->n_cached = match.n_usable;
    r->cache_limit = (weft_cache_limit)match.limit;
    return WEFT_OK;
}

/* The last position of a prompt is where the same prompt goes on, as its logits must be made. */
uint32_t cache_mark(const request *r, uint32_t n)
{
    uint32_t at = r->n_prompt - 1;
    uint32_t len = r->seq->len;
    bool passes = at > len && at < len + n;
    return r->space != NULL && r->store->config.n_recurrent > 0 && passes ? at - len : 0;
}

static void keep(weft_engine *e, request *r, uint32_t at)
{
    kv_history h = request_history(r, at);
    kv_prefix_insert(e->prefix, r->space, r->seq, &h);
    r->n_kept = at;
}

void cache_keep(weft_engine *e, request *r)
{
    if (r->space == NULL) return;
    uint32_t len = r->seq->len;
    uint32_t interval = r->store->interval;
    uint32_t end = interval == 0 ? r->n_prompt : r->n_prompt - 1;
    if (r->n_kept < end && len >= end) keep(e, r, end);
    if (interval != 0 && len >= r->n_kept + interval) keep(e, r, len);
    kv_seq_drop_mark(r->seq);
}

void cache_end(weft_engine *e, request *r)
{
    if (r->seq == NULL) return;
    kv_history h = request_history(r, r->seq->len);
    if (r->space == NULL) {
        kv_seq_destroy(e->env.allocator, r->seq);
    } else {
        kv_prefix_retire(e->prefix, r->space, r->seq, &h);
    }
    r->seq = NULL;
}
