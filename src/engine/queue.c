/* queue.c - requests between submit and release: handles, who waits, who runs, who makes room.
 *
 * A request waits, is active (it has a sequence), and is done. Its level is its priority, and rises
 * with the steps that it had no part in; of equal ones the first submitted comes first. Who waits
 * for a sequence pauses those of lower priority and level.
 *
 * An active request is promised memory for all it may become while there is plenty. When somebody
 * else must wait for that, promises shrink to what comes next, and grow step by step: whoever
 * cannot grow pauses whom it comes before. A pause leaves the state where the prefix cache finds
 * it, or lets it go; going on is what beginning is, with tokens that are known already. Room for
 * state from the folder (engine/disk.c) is made in the same way. So nothing of this changes an
 * answer. The highest is never paused for want of memory, and what it may become
 * fits the budget (submit checks it): somebody always gets on. */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "engine/state.h"

enum {
    PROMISE_TOKENS = 128, /* by which a promise grows when memory is short */
    ADMIT_TOKENS = 256,   /* and what must be there to begin with: room for others to grow */
    SHARED_TOKENS = KV_PAGE_TOKENS, /* of a prompt, for which another's is waited for */
};

/* ---- handles --------------------------------------------------------------------------------- */

/* The low half is the slot, 1 more, the high half how often that was used. */
static weft_handle handle_of(const weft_engine *e, uint32_t slot_i)
{
    return (weft_handle)e->slots[slot_i].generation << 32 | (slot_i + 1);
}

weft_status queue_reserve(weft_engine *e, weft_error *err)
{
    if (e->n_requests == ENGINE_REQUESTS) {
        return err_set(err, WEFT_LIMIT, "%u requests are open, at most %d", e->n_requests,
                       ENGINE_REQUESTS);
    }
    if (e->n_requests < e->n_slots) return WEFT_OK;
    uint32_t n = e->n_slots == 0 ? 16 : 2 * e->n_slots;
    request_slot *more =
        mem_resize(e->env.allocator, e->slots, e->n_slots * sizeof *more, n * sizeof *more);
    if (more == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a request");
    e->slots = more;
    for (uint32_t i = n; i > e->n_slots; i--) {
        more[i - 1] = (request_slot){.next_free = e->free_slot};
        e->free_slot = i;
    }
    e->n_slots = n;
    return WEFT_OK;
}

request *queue_find(const weft_engine *e, weft_handle handle)
{
    uint32_t slot_i = (uint32_t)handle - 1;
    if (slot_i >= e->n_slots || e->slots[slot_i].r == NULL) return NULL;
    request *r = e->slots[slot_i].r;
    return handle_of(e, slot_i) == handle && !r->released ? r : NULL;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static int64_t level_of(const request *r)
{
    return (int64_t)r->priority + (int64_t)(r->n_idle / WEFT_PRIORITY_STEPS);
}

static bool comes_before(const request *a, const request *b)
{
    int64_t level_a = level_of(a);
    int64_t level_b = level_of(b);
    return level_a != level_b ? level_a > level_b : a->number < b->number;
}

/* In order of submission. */
static void link_waiting(weft_engine *e, request *r)
{
    request *before = e->last_waiting;
    while (before != NULL && before->number > r->number) before = before->prev;
    r->prev = before;
    r->next = before == NULL ? e->first_waiting : before->next;
    if (r->next != NULL) r->next->prev = r;
    if (r->next == NULL) e->last_waiting = r;
    if (before != NULL) before->next = r;
    if (before == NULL) e->first_waiting = r;
    r->phase = REQUEST_WAITING;
    e->n_waiting++;
}

static void unlink_waiting(weft_engine *e, request *r)
{
    if (r->prev != NULL) r->prev->next = r->next;
    if (r->prev == NULL) e->first_waiting = r->next;
    if (r->next != NULL) r->next->prev = r->prev;
    if (r->next == NULL) e->last_waiting = r->prev;
    r->prev = r->next = NULL;
    e->n_waiting--;
}

static void remove_active(weft_engine *e, const request *r)
{
    uint32_t i = 0;
    while (e->active[i] != r) i++;
    e->n_active--;
    memmove(e->active + i, e->active + i + 1, (e->n_active - i) * sizeof(request *));
}

/* Nearly in order already: only who had no part in steps rises. */
static void sort_active(weft_engine *e)
{
    for (uint32_t i = 1; i < e->n_active; i++) {
        request *r = e->active[i];
        uint32_t j = i;
        for (; j > 0 && comes_before(r, e->active[j - 1]); j--) e->active[j] = e->active[j - 1];
        e->active[j] = r;
    }
}

void queue_add(weft_engine *e, request *r)
{
    ASSERT(e->free_slot != 0);
    uint32_t slot_i = e->free_slot - 1;
    e->free_slot = e->slots[slot_i].next_free;
    e->slots[slot_i].r = r;
    e->slots[slot_i].generation++;
    r->handle = handle_of(e, slot_i);
    r->number = ++e->n_submitted;
    e->n_requests++;
    link_waiting(e, r);
}

void request_end(weft_engine *e, request *r, weft_finish finish, const weft_error *error)
{
    ASSERT(r->phase != REQUEST_DONE);
    if (r->phase == REQUEST_ACTIVE) remove_active(e, r);
    if (r->phase == REQUEST_WAITING) unlink_waiting(e, r);
    draft_end(e, r);
    disk_end(e, r);
    cache_end(e, r);
    r->phase = REQUEST_DONE;
    r->finish = finish;
    if (error != NULL) r->error = *error;
}

void queue_remove(weft_engine *e, request *r)
{
    uint32_t slot_i = (uint32_t)r->handle - 1;
    if (r->phase != REQUEST_DONE) request_end(e, r, WEFT_FINISH_CANCELLED, NULL);
    e->slots[slot_i].r = NULL;
    e->slots[slot_i].next_free = e->free_slot;
    e->free_slot = slot_i + 1;
    e->n_requests--;
    request_destroy(e, r);
}

void queue_close(weft_engine *e)
{
    for (uint32_t i = 0; i < e->n_slots; i++) {
        if (e->slots[i].r != NULL) queue_remove(e, e->slots[i].r);
    }
    mem_free(e->env.allocator, e->slots, e->n_slots * sizeof *e->slots);
}

/* ---- who ends -------------------------------------------------------------------------------- */

/* Ends the request, and frees it, where that was asked for meanwhile. */
static void settle(weft_engine *e, request *r, uint64_t now)
{
    bool late = r->deadline != 0 && now >= r->deadline;
    if (r->cancelled || late)
        request_end(e, r, r->cancelled ? WEFT_FINISH_CANCELLED : WEFT_FINISH_DEADLINE, NULL);
    if (r->released) queue_remove(e, r);
}

static void end_some(weft_engine *e)
{
    uint64_t now = clock_now_ns();
    for (uint32_t i = e->n_active; i > 0; i--) settle(e, e->active[i - 1], now);
    for (request *r = e->first_waiting; r != NULL;) {
        request *next = r->next;
        settle(e, r, now);
        r = next;
    }
}

void queue_free_released(weft_engine *e)
{
    for (uint32_t i = e->n_active; i > 0; i--) {
        if (e->active[i - 1]->released) queue_remove(e, e->active[i - 1]);
    }
}

/* ---- who makes room -------------------------------------------------------------------------- */

/* Whether the request can give its sequence up and begin again: what it hands out of its prompt is
 * handed out once, and images are encoded once. */
static bool can_pause(const request *r)
{
    return r->prompt_logits == NULL && r->embedding.to == NULL && r->media.n_images == 0 &&
           r->taps.n == 0;
}

static uint32_t positions_with(const request *r, uint32_t more)
{
    uint64_t n = (uint64_t)r->n_tokens + more;
    return can_pause(r) && n < r->n_positions ? (uint32_t)n : r->n_positions;
}

static void pause_request(weft_engine *e, request *r)
{
    ASSERT(can_pause(r) && r->phase == REQUEST_ACTIVE);
    remove_active(e, r);
    draft_end(e, r);
    cache_end(e, r);
    link_waiting(e, r);
    r->looked = r->made_room = false;
    r->n_paused++;
    e->n_paused++;
}

/* Promises become what comes next. */
static void shrink_promises(weft_engine *e)
{
    for (uint32_t i = 0; i < e->n_active; i++) {
        const request *r = e->active[i];
        uint32_t n = positions_with(r, PROMISE_TOKENS);
        /* A smaller one fails for want of memory only, and then it stays. */
        if (n < r->seq->limit) kv_seq_resize(e->env.allocator, r->seq, n, NULL);
    }
}

/* Whether a makes room for r, which waits: having waited puts nobody out, but whoever has is not
 * put out himself. r NULL: memory is short, and a is the last. */
static bool gives_way(const request *a, const request *r)
{
    if (!can_pause(a)) return false;
    return r == NULL || (r->priority > a->priority && level_of(r) > level_of(a));
}

/* The last of those behind position i that gives way; NULL: none. */
static request *last_behind(const weft_engine *e, uint32_t i, const request *r)
{
    for (uint32_t j = e->n_active; j > i; j--) {
        if (gives_way(e->active[j - 1], r)) return e->active[j - 1];
    }
    return NULL;
}

/* What those who give way to r were lent: as if it had been given back, and as it is. */
static void regard_lent(weft_engine *e, const request *r, bool lent)
{
    for (uint32_t i = 0; i < e->n_active; i++) {
        if (gives_way(e->active[i], r)) kv_prefix_regard(e->prefix, e->active[i]->seq, lent);
    }
}

/* Whether r would find room for n positions if all who give way were paused: beside what others
 * were promised, and what the cache lent them, once for all. Of that r would be lent a part (lent),
 * or is to have all n beside it. */
static bool could_have(weft_engine *e, const request *r, uint32_t n, bool lent)
{
    uint64_t bytes = kv_config_bytes(&r->store->config, n);
    bool any = false;
    for (uint32_t i = 0; i < e->n_active; i++) {
        bool stays = !gives_way(e->active[i], r);
        if (stays) bytes += kv_seq_bytes(e->active[i]->seq);
        any = any || !stays;
    }
    regard_lent(e, r, false);
    bytes += cache_bytes_fixed(e, lent ? r : NULL);
    regard_lent(e, r, true);
    return any && bytes <= kv_pool_budget(e->pool);
}

/* Room for the next step of an active request, as much as is there. */
static bool grow(weft_engine *e, request *r)
{
    const weft_allocator *a = e->env.allocator;
    if (r->seq->limit >= r->n_tokens) return true;
    uint32_t n = positions_with(r, PROMISE_TOKENS);
    if (kv_seq_resize(a, r->seq, n, NULL) == WEFT_OK) return true;
    shrink_promises(e);
    return kv_seq_resize(a, r->seq, n, NULL) == WEFT_OK;
}

static void grow_all(weft_engine *e)
{
    for (uint32_t i = 0; i < e->n_active;) {
        request *r = e->active[i];
        if (grow(e, r)) {
            i++;
            continue;
        }
        request *last = last_behind(e, i + 1, NULL);
        pause_request(e, last != NULL ? last : r);
    }
}

/* ---- who begins ------------------------------------------------------------------------------ */

static uint32_t n_shared(const request *a, const request *b)
{
    uint32_t most = a->n_prompt < b->n_prompt ? a->n_prompt : b->n_prompt;
    uint32_t n = 0;
    while (n < most && a->tokens[n] == b->tokens[n]) n++;
    return n;
}

/* Whether b finds what a leaves. */
static bool shares_state(const request *a, const request *b)
{
    return a->store == b->store && a->salt == b->salt && a->space != NULL &&
           (b->flags & WEFT_REQUEST_NO_CACHE) == 0 && can_pause(a) && can_pause(b);
}

/* Whether the prompt is being read for another request, and is had sooner from there: it waits no
 * longer than reading it would take. */
static bool waits_for_prompt(const weft_engine *e, const request *r)
{
    if (e->prefix == NULL) return false;
    for (uint32_t i = 0; i < e->n_active; i++) {
        const request *a = e->active[i];
        if (a->seq->len >= a->n_prompt || level_of(r) > level_of(a) || !shares_state(a, r))
            continue;
        uint32_t n = n_shared(a, r);
        uint32_t left = a->n_prompt - a->seq->len;
        if (n >= a->n_begun + SHARED_TOKENS && n - a->n_begun >= left) return true;
    }
    return false;
}

/* Who comes next; NULL: nobody. */
static request *choose(weft_engine *e)
{
    for (;;) {
        request *best = NULL;
        for (request *r = e->first_waiting; r != NULL; r = r->next) {
            if (r->passed == e->n_steps) continue;
            if (best == NULL || comes_before(r, best)) best = r;
        }
        if (best == NULL || !waits_for_prompt(e, best)) return best;
        best->passed = e->n_steps;
    }
}

static weft_status begin(weft_engine *e, request *r, weft_error *err)
{
    bool later;
    weft_status status = disk_begin(e, r, r->n_positions, &later, err);
    if (status != WEFT_LIMIT || later) return status;
    uint32_t n = positions_with(r, ADMIT_TOKENS);
    shrink_promises(e);
    err_clear(err);
    status = disk_begin(e, r, n, &later, err);
    if (status != WEFT_LIMIT || later || !could_have(e, r, n, true)) return status;
    request *last = last_behind(e, 0, r);
    while (status == WEFT_LIMIT && !later && last != NULL) {
        pause_request(e, last);
        err_clear(err);
        status = disk_begin(e, r, n, &later, err);
        last = last_behind(e, 0, r);
    }
    return status;
}

static bool is_full(const weft_engine *e)
{
    return e->n_active == e->options.max_sequences;
}

/* Whether r waits for what the folder has of its tokens. That takes the room that r itself will
 * need, so where others must make it for r, they make it now. */
static bool fetches(weft_engine *e, request *r)
{
    disk_look look = disk_look_for(e, r);
    if (look != DISK_LOOK_ROOM) return look == DISK_LOOK_WAIT;
    shrink_promises(e);
    look = disk_look_for(e, r);
    uint32_t n = positions_with(r, ADMIT_TOKENS);
    if (look != DISK_LOOK_ROOM || !could_have(e, r, n, false) || !disk_has(e, r))
        return look == DISK_LOOK_WAIT;
    request *last = last_behind(e, 0, r);
    while (look == DISK_LOOK_ROOM && last != NULL) {
        pause_request(e, last);
        r->made_room = true;
        look = disk_look_for(e, r);
        last = last_behind(e, 0, r);
    }
    return look == DISK_LOOK_WAIT;
}

/* A sequence for r, where all are taken; false: it waits. */
static bool free_sequence(weft_engine *e, const request *r)
{
    if (!is_full(e)) return true;
    shrink_promises(e);
    if (!could_have(e, r, positions_with(r, ADMIT_TOKENS), true)) return false;
    pause_request(e, last_behind(e, 0, r));
    return true;
}

/* Who must wait for pages keeps those behind it waiting, and so does who waits for its state with
 * room that others made. */
static void admit(weft_engine *e)
{
    while (e->n_waiting > 0) {
        if (is_full(e) && last_behind(e, 0, NULL) == NULL) return;
        request *r = choose(e);
        if (r == NULL || (is_full(e) && last_behind(e, 0, r) == NULL)) return;
        if (fetches(e, r)) {
            if (r->made_room) return;
            r->passed = e->n_steps;
            continue;
        }
        if (!free_sequence(e, r)) return;
        weft_error error = {WEFT_OK, ""};
        weft_status status = begin(e, r, &error);
        if (status == WEFT_LIMIT) return;
        if (status != WEFT_OK) {
            request_end(e, r, WEFT_FINISH_ERROR, &error);
            continue;
        }
        unlink_waiting(e, r);
        r->phase = REQUEST_ACTIVE;
        e->active[e->n_active++] = r;
        sort_active(e);
    }
}

void queue_prepare(weft_engine *e)
{
    e->n_steps++;
    end_some(e);
    disk_step(e);
    sort_active(e);
    grow_all(e);
    admit(e);
}

void queue_count_idle(weft_engine *e)
{
    for (uint32_t i = 0; i < e->n_active; i++) {
        request *r = e->active[i];
        bool rests = r->piece_rows > 0 || request_rests(r);
        if (r->stepped != e->n_steps && !rests) r->n_idle++;
    }
    for (request *r = e->first_waiting; r != NULL; r = r->next) r->n_idle++;
}
