/* request.c - submit, poll, cancel, release. */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "engine/state.h"

/* ---- checks ---------------------------------------------------------------------------------- */

static weft_status check_ids(const int32_t *ids, uint32_t n, uint32_t n_vocab, const char *what,
                             weft_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab) {
            return err_set(err, WEFT_ARGUMENT, "%s %u is token id %d, the vocabulary has %u", what,
                           i, ids[i], n_vocab);
        }
    }
    return WEFT_OK;
}

static weft_status check_prompt(const weft_engine *e, const weft_request *r, weft_error *err)
{
    if (r->prompt == NULL || r->n_prompt == 0)
        return err_set(err, WEFT_ARGUMENT, "the prompt is empty");
    if (r->n_prompt > e->options.context) {
        return err_set(err, WEFT_LIMIT, "the prompt has %u tokens, the context holds %u",
                       r->n_prompt, e->options.context);
    }
    return check_ids(r->prompt, r->n_prompt, e->model->params.n_vocab, "prompt token", err);
}

/* n_prompt: with all tokens of images. */
static weft_status check_request(const weft_engine *e, const weft_request *r, uint32_t n_prompt,
                                 weft_error *err)
{
    uint32_t context = e->options.context;
    if (n_prompt > context) {
        return err_set(err, WEFT_LIMIT, "the prompt has %u tokens, the context holds %u", n_prompt,
                       context);
    }
    if (e->model->params.sees_all && n_prompt > e->options.chunk_tokens) {
        return err_set(
            err, WEFT_LIMIT,
            "the text has %u tokens, which see each other and go through one step, of at "
            "most %u (chunk_tokens)",
            n_prompt, e->options.chunk_tokens);
    }
    if (r->prompt_logits_rows > 0 && r->prompt_logits == NULL)
        return err_set(err, WEFT_ARGUMENT, "prompt_logits_rows is %u, prompt_logits is NULL",
                       r->prompt_logits_rows);
    weft_status status = sampling_check_request(e, r, err);
    if (status == WEFT_OK) status = text_check(e, r, err);
    if (status == WEFT_OK) status = embed_check(e, r, err);
    if (status == WEFT_OK) status = taps_check(e, r, err);
    if (status == WEFT_OK && r->draft != NULL && e->options.max_drafts == 0) {
        return err_set(err, WEFT_ARGUMENT, "draft is '%.40s', the engine was opened for no drafts",
                       r->draft);
    }
    return status;
}

/* A sequence is converted between two steps, and a block lies in one. */
static weft_status check_spans(const request *r, weft_error *err)
{
    uint32_t start = r->store->config.start;
    for (uint32_t i = 0; i < r->media.n_images && r->media.sees_all; i++) {
        const media_image *image = &r->media.images[i];
        if (start <= image->first || start >= image->first + image->n_tokens) continue;
        return err_set(err, WEFT_LIMIT,
                       "image %u: its tokens are at positions %u to %u, the state is converted at "
                       "%u (start=)",
                       i, image->first, image->first + image->n_tokens - 1, start);
    }
    return WEFT_OK;
}

/* What it stores in, and how much of it; LIMIT where that is more than there is. Called with the
 * lock held. */
static weft_status choose_store(weft_engine *e, const weft_request *from, request *r,
                                weft_error *err)
{
    uint32_t context = e->options.context;
    weft_status status = cache_store(e, from->kv, &r->store, err);
    if (status != WEFT_OK) return status;
    /* The last sampled token is never forwarded. */
    uint64_t positions = (uint64_t)r->n_prompt + (from->max_new > 0 ? from->max_new - 1 : 0);
    r->n_positions = positions < context ? (uint32_t)positions : context;
    uint64_t bytes = kv_config_bytes(&r->store->config, r->n_positions);
    weft_status spans = check_spans(r, err);
    if (spans != WEFT_OK || bytes <= kv_pool_budget(e->pool)) return spans;
    return err_set(err, WEFT_LIMIT, "the request needs %llu bytes of state, the budget is %llu",
                   (unsigned long long)bytes, (unsigned long long)kv_pool_budget(e->pool));
}

/* ---- life ------------------------------------------------------------------------------------ */

static size_t token_bytes(const request *r)
{
    return ((size_t)r->n_prompt + r->max_new) * sizeof(int32_t);
}

static size_t key_bytes(const request *r)
{
    return ((size_t)r->n_prompt + r->max_new) * sizeof(uint64_t);
}

void request_destroy(const weft_engine *e, request *r)
{
    const weft_allocator *a = e->env.allocator;
    embed_deinit(e, r);
    constraint_deinit(r);
    sampling_deinit(e, r);
    text_deinit(e, r);
    mem_free(a, r->tokens, token_bytes(r));
    mem_free(a, r->media_keys, key_bytes(r));
    media_free(a, &r->media, e->model->params.n_embd);
    mem_free(a, r->logprobs, r->max_new * sizeof(float));
    if (r->draft_bytes > 0) mem_free(a, r->draft_state, r->draft_bytes);
    draft_deinit(e, r);
    mem_free(a, r, sizeof *r);
}

/* Takes ownership of images, also on failure. */
static request *request_create(const weft_engine *e, const weft_request *from, media *images)
{
    const weft_allocator *a = e->env.allocator;
    request *r = mem_alloc_zero(a, sizeof *r);
    if (r == NULL) {
        media_free(a, images, e->model->params.n_embd);
        return NULL;
    }
    r->media = *images;
    r->n_prompt = r->n_tokens = images->n_prompt;
    /* One token may follow a full context: it needs no position. */
    uint32_t room = e->options.context - r->n_prompt + 1;
    r->max_new = from->max_new < room ? from->max_new : room;
    r->max_ahead = from->max_ahead;
    r->flags = from->flags;
    r->salt = from->cache_salt;
    r->priority = from->priority;
    r->ns_submitted = clock_now_ns();
    if (from->deadline_ms > 0)
        r->deadline = r->ns_submitted + (uint64_t)from->deadline_ms * 1000000;
    r->prompt_logits = from->prompt_logits;
    r->new_logits = from->new_logits;
    r->logits_rows = from->prompt_logits_rows;
    taps_init(r, from);
    r->tokens = mem_alloc(a, token_bytes(r));
    r->media_keys = r->media.n_images > 0 ? mem_alloc_zero(a, key_bytes(r)) : NULL;
    r->logprobs = mem_alloc(a, r->max_new * sizeof(float));
    bool ok = r->tokens && (r->logprobs || r->max_new == 0);
    ok = ok && (r->media_keys != NULL || r->media.n_images == 0);
    ok = sampling_init(e, r, from) && ok;
    ok = text_init(e, r, from) && ok;
    if (!embed_init(e, r, from) || !ok) {
        request_destroy(e, r);
        return NULL;
    }
    media_expand(e, &r->media, from, r->tokens, r->media_keys);
    return r;
}

/* The drafter's state, made where the caller's thread has time for the prompt. */
static bool start_drafter(const weft_allocator *a, request *r)
{
    uint32_t n_tokens = r->n_prompt + r->max_new;
    size_t bytes = r->drafter->state_bytes(n_tokens);
    r->draft_state = mem_alloc(a, bytes);
    if (r->draft_state == NULL) return false;
    r->draft_bytes = bytes;
    r->drafter->init(r->draft_state, n_tokens, r->tokens, r->n_prompt);
    return true;
}

/* state: of a drafter that brings its own; NULL: the request makes it. */
static weft_status submit(weft_engine *e, const weft_request *from, const engine_drafter *drafter,
                          void *state, weft_handle *handle, weft_error *err)
{
    *handle = 0;
    media images;
    weft_status status = check_prompt(e, from, err);
    if (status == WEFT_OK) status = media_take(e, from, &images, err);
    if (status != WEFT_OK) return status;
    status = check_request(e, from, images.n_prompt, err);
    if (status != WEFT_OK) {
        media_free(e->env.allocator, &images, e->model->params.n_embd);
        return status;
    }
    request *r = request_create(e, from, &images);
    if (r != NULL) {
        r->drafter = drafter;
        r->draft_state = state;
    }
    bool ok = r == NULL || drafter == NULL || draft_init(e, r);
    if (ok && r != NULL && drafter != NULL && state == NULL)
        ok = start_drafter(e->env.allocator, r);
    if (!ok) {
        request_destroy(e, r);
        r = NULL;
    }
    if (r == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a request of %u tokens", from->n_prompt);
    status = constraint_init(e, r, from, err);
    if (status != WEFT_OK) {
        request_destroy(e, r);
        return status;
    }
    thread_lock_take(e->lock);
    status = choose_store(e, from, r, err);
    if (status == WEFT_OK && r->media.n_images > 0) status = media_open(e, err);
    if (status == WEFT_OK) status = taps_open(e, r, err);
    if (status == WEFT_OK) status = queue_reserve(e, err);
    if (status == WEFT_OK) {
        queue_add(e, r);
        *handle = r->handle;
    }
    thread_lock_drop(e->lock);
    if (status != WEFT_OK) request_destroy(e, r);
    return status;
}

weft_status engine_submit(weft_engine *e, const weft_request *from, weft_handle *handle,
                          weft_error *err)
{
    const engine_drafter *drafter = NULL;
    weft_status status = WEFT_OK;
    *handle = 0;
    if (from->draft != NULL) status = engine_drafter_find(from->draft, &drafter, err);
    if (drafter != NULL) status = draft_check(e, drafter, err);
    return status == WEFT_OK ? submit(e, from, drafter, NULL, handle, err) : status;
}

weft_status engine_submit_drafted(weft_engine *e, const weft_request *from,
                                  const engine_drafter *drafter, void *state, weft_handle *handle,
                                  weft_error *err)
{
    ASSERT(state != NULL);
    return submit(e, from, drafter, state, handle, err);
}

static weft_status unknown_handle(weft_handle handle, weft_error *err)
{
    return err_set(err, WEFT_ARGUMENT, "there is no request %llu", (unsigned long long)handle);
}

/* The poll after the one that handed a piece out gives its memory back. */
static bool next_piece(request *r)
{
    if (r->piece_polled) r->piece_rows = 0;
    r->piece_polled = r->piece_rows > 0;
    return r->piece_polled;
}

static weft_status poll_token(request *r, weft_event *event, weft_error *err)
{
    event->kind = WEFT_EVENT_TOKEN;
    event->token = r->tokens[r->n_prompt + r->n_polled];
    event->logprob = r->logprobs[r->n_polled];
    sampling_give(r, event);
    weft_status status = text_give(r, event, err);
    if (status == WEFT_OK) r->n_polled++;
    return status;
}

static weft_status poll_done(request *r, weft_event *event, weft_error *err)
{
    event->kind = WEFT_EVENT_DONE;
    event->finish = r->finish;
    event->error = r->error;
    event->n_drafted = r->n_drafted;
    event->n_accepted = r->n_accepted;
    event->n_paused = r->n_paused;
    event->stop_id = r->text.stop_id;
    event->stop_text = r->text.stop_text;
    weft_status status = text_give(r, event, err);
    if (status == WEFT_OK) r->done_polled = true;
    return status;
}

weft_status engine_poll(weft_engine *e, weft_handle handle, weft_event *event, weft_error *err)
{
    weft_status status = WEFT_OK;
    event->text = "";
    event->stop_id = event->stop_text = -1;
    thread_lock_take(e->lock);
    request *r = queue_find(e, handle);
    if (r != NULL && next_piece(r)) {
        event->kind = WEFT_EVENT_LOGITS;
        event->first = r->piece_first;
        event->n_rows = r->piece_rows;
    } else if (r != NULL && r->embedding.ready && !r->embedding.polled) {
        event->kind = WEFT_EVENT_EMBEDDING;
        event->n_rows = r->embedding.pooling == WEFT_POOLING_TOKENS ? r->n_prompt : 1;
        r->embedding.polled = true;
    } else if (r != NULL && r->n_polled < r->n_tokens - r->n_prompt) {
        status = poll_token(r, event, err);
    } else if (r != NULL && r->phase == REQUEST_DONE && !r->done_polled) {
        status = poll_done(r, event, err);
    }
    if (r != NULL) {
        event->n_cached = r->n_cached;
        event->n_known = r->n_known;
        event->cache_limit = r->cache_limit;
        event->ns_first = r->ns_first;
        event->ns_last = r->ns_last;
    }
    thread_lock_drop(e->lock);
    if (r == NULL) return unknown_handle(handle, err);
    if (status != WEFT_OK) event->kind = WEFT_EVENT_NONE;
    return status;
}

weft_status engine_cancel(weft_engine *e, weft_handle handle, weft_error *err)
{
    thread_lock_take(e->lock);
    request *r = queue_find(e, handle);
    if (r != NULL) r->cancelled = true;
    thread_lock_drop(e->lock);
    return r != NULL ? WEFT_OK : unknown_handle(handle, err);
}

weft_status engine_release(weft_engine *e, weft_handle handle, weft_error *err)
{
    thread_lock_take(e->lock);
    request *r = queue_find(e, handle);
    if (r != NULL) {
        /* A step that runs now may hold it: it is freed when the step ends. */
        r->released = r->cancelled = true;
        if (!e->stepping || r->phase != REQUEST_ACTIVE) queue_remove(e, r);
    }
    thread_lock_drop(e->lock);
    return r != NULL ? WEFT_OK : unknown_handle(handle, err);
}
