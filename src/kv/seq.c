/* seq.c - the life of a sequence outside of steps: how it is made, shared, shortened and seen.
 * Invariants are those of txn.c. */
#include "kv/seq.h"

#include <string.h>

void kv_seq_drop_mark(kv_seq *seq)
{
    ASSERT(!seq->open); /* T-5 */
    seq_drop_mark(seq);
}

kv_page *kv_seq_marked(const kv_seq *seq, uint32_t layer)
{
    return seq->open ? NULL : seq->states[layer].marked;
}

static void give_all(kv_seq *seq)
{
    const kv_config *c = seq->config;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        for (uint32_t i = 0; i < seq->n_slots[layer]; i++) {
            kv_page *page = seq->held[seq->first_slots[layer] + i];
            if (page != NULL) kv_pool_give(seq->pool, seq_class_of(seq, layer), page);
        }
        seq_give_state(seq, c->class_of[layer], &seq->states[layer].committed);
        seq_give_state(seq, c->class_of[layer], &seq->states[layer].marked);
    }
}

static void free_slots(const weft_allocator *allocator, kv_seq *seq)
{
    mem_free(allocator, seq->held, seq->slots_total * sizeof(void *));
    mem_free(allocator, seq->pages, seq->slots_total * sizeof *seq->pages);
    mem_free(allocator, seq->first_slots, seq->config->n_layers * sizeof *seq->first_slots);
    mem_free(allocator, seq->n_slots, seq->config->n_layers * sizeof *seq->n_slots);
}

void kv_seq_destroy(const weft_allocator *allocator, kv_seq *seq)
{
    if (seq == NULL) return;
    const kv_config *c = seq->config;
    ASSERT(!seq->open); /* T-5 */
    /* limit is set once there are tables. */
    if (seq->limit != 0) give_all(seq);
    if (seq->reserved) kv_pool_unreserve(seq->pool, seq->need);
    if (seq->reserved && !seq->converted) kv_pool_unreserve(seq->pool, seq->base_need);
    if (seq->reserved && c->n_cross > 0) kv_pool_unreserve(seq->pool, seq->cross_need);
    if (seq->lender.take_back != NULL) seq->lender.take_back(seq->lender.user, seq->lender.lent);
    free_slots(allocator, seq);
    mem_free(allocator, seq->firsts, c->n_layers * sizeof *seq->firsts);
    mem_free(allocator, seq->filled, c->n_layers * sizeof *seq->filled);
    mem_free(allocator, seq->states, c->n_layers * sizeof *seq->states);
    mem_free(allocator, seq, sizeof *seq);
}

/* Tables for so many positions; false when refused, and free_slots takes what there is. */
static bool take_slots(const weft_allocator *allocator, kv_seq *seq, uint32_t n_positions,
                       uint32_t n_cross)
{
    const kv_config *c = seq->config;
    seq->slots_total = 0;
    seq->held = NULL;
    seq->pages = NULL;
    seq->first_slots = mem_alloc_zero(allocator, c->n_layers * sizeof *seq->first_slots);
    seq->n_slots = mem_alloc_zero(allocator, c->n_layers * sizeof *seq->n_slots);
    if (!seq->first_slots || !seq->n_slots) return false;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        seq->first_slots[i] = (uint32_t)seq->slots_total;
        seq->n_slots[i] = kv_config_slots(c, i, kv_is_cross(c, i) ? n_cross : n_positions);
        seq->slots_total += seq->n_slots[i];
    }
    seq->held = mem_alloc_zero(allocator, seq->slots_total * sizeof(void *));
    seq->pages = mem_alloc_zero(allocator, seq->slots_total * sizeof *seq->pages);
    return (seq->held && seq->pages) || seq->slots_total == 0;
}

static bool take_tables(const weft_allocator *allocator, kv_seq *seq, uint32_t n_positions,
                        uint32_t n_cross)
{
    const kv_config *c = seq->config;
    seq->firsts = mem_alloc_zero(allocator, c->n_layers * sizeof *seq->firsts);
    seq->filled = mem_alloc_zero(allocator, c->n_layers * sizeof *seq->filled);
    seq->states = mem_alloc_zero(allocator, c->n_layers * sizeof *seq->states);
    if (!seq->firsts || !seq->filled || !seq->states) return false;
    return take_slots(allocator, seq, n_positions, n_cross);
}

uint64_t kv_seq_bytes(const kv_seq *seq)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < KV_CLASSES_MOST; i++) {
        uint64_t n = (uint64_t)seq->need[i] + seq->cross_need[i];
        if (!seq->converted) n += seq->base_need[i];
        if (n > 0) bytes += n * kv_pool_page_bytes(seq->pool, i);
    }
    return bytes;
}

/* Of layers that keep all, the pages of positions [from, to), both at the start of one, which are
 * added to or taken from what a sequence needs. */
static void count_whole(const kv_seq *seq, uint32_t from, uint32_t to, uint32_t sign,
                        uint32_t *need)
{
    uint32_t n = (to - from) / seq->config->bounds.page_tokens;
    for (uint32_t layer = 0; layer < seq->config->n_layers; layer++) {
        if (kv_keeps_all(seq->config, layer)) need[seq_class_of(seq, layer)] += sign * n;
    }
}

/* What a promise of n positions is, but for cross layers. */
static void count_need(const kv_seq *seq, uint32_t n, uint32_t *need, uint32_t *base)
{
    kv_config_need(seq->config, n, need, base);
    count_whole(seq, 0, seq->lent, UINT32_MAX, seq->converted ? need : base);
}

/* All promises, or none. */
static weft_status reserve(kv_seq *seq, weft_error *err)
{
    uint32_t *needs[] = {seq->need, seq->converted ? NULL : seq->base_need,
                         seq->config->n_cross > 0 ? seq->cross_need : NULL};
    count_need(seq, seq->limit, seq->need, seq->base_need);
    kv_config_need_cross(seq->config, seq->cross_limit, seq->cross_need);
    weft_status status = WEFT_OK;
    size_t n = 0;
    for (; n < COUNT_OF(needs) && status == WEFT_OK; n++) {
        if (needs[n] != NULL) status = kv_pool_reserve(seq->pool, needs[n], err);
    }
    seq->reserved = status == WEFT_OK;
    if (seq->reserved) return WEFT_OK;
    /* The last is the one that failed. */
    for (n--; n > 0; n--) {
        if (needs[n - 1] != NULL) kv_pool_unreserve(seq->pool, needs[n - 1]);
    }
    return status;
}

/* A sequence without a promise. */
static weft_status create(const weft_allocator *allocator, kv_pool *pool, const kv_config *config,
                          uint32_t n_positions, uint32_t n_cross, kv_seq **out, weft_error *err)
{
    *out = NULL;
    if (n_positions == 0 || n_positions > config->bounds.context) {
        return err_set(err, WEFT_LIMIT, "a sequence of %u positions, at most %u", n_positions,
                       config->bounds.context);
    }
    if (n_cross > config->bounds.cross_context) {
        return err_set(err, WEFT_LIMIT, "an encoder of %u positions, at most %u", n_cross,
                       config->bounds.cross_context);
    }
    kv_seq *seq = mem_alloc_zero(allocator, sizeof *seq);
    if (seq == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a sequence");
    seq->pool = pool;
    seq->config = config;
    seq->converted = config->start == 0;
    if (!take_tables(allocator, seq, n_positions, n_cross)) {
        kv_seq_destroy(allocator, seq);
        return err_set(err, WEFT_NOMEM, "out of memory for a sequence");
    }
    seq->limit = n_positions;
    seq->cross_limit = n_cross;
    *out = seq;
    return WEFT_OK;
}

/* The promise, or no sequence. */
static weft_status finish_create(const weft_allocator *allocator, kv_seq **seq, weft_error *err)
{
    weft_status status = reserve(*seq, err);
    if (status == WEFT_OK) return WEFT_OK;
    kv_seq_destroy(allocator, *seq);
    *seq = NULL;
    return status;
}

weft_status kv_seq_create(const weft_allocator *allocator, kv_pool *pool, const kv_config *config,
                          uint32_t n_positions, kv_seq **out, weft_error *err)
{
    return kv_seq_create_cross(allocator, pool, config, n_positions, config->bounds.cross_context,
                               out, err);
}

weft_status kv_seq_create_cross(const weft_allocator *allocator, kv_pool *pool,
                                const kv_config *config, uint32_t n_positions, uint32_t n_cross,
                                kv_seq **out, weft_error *err)
{
    weft_status status = create(allocator, pool, config, n_positions, n_cross, out, err);
    return status == WEFT_OK ? finish_create(allocator, out, err) : status;
}

/* The pages of a layer that holds positions. A chunk that has just ended leaves nothing alive, so
 * that there may be none for what is to come: that one is taken later. */
static void share_pages(kv_seq *seq, const kv_source *source, uint32_t layer)
{
    uint32_t keep = seq_keep_at(seq->config, layer, seq->len);
    uint32_t first = source->first(source->user, layer);
    seq->firsts[layer] = keep > first ? keep : first;
    seq->filled[layer] = first;
    ASSERT(seq->firsts[layer] <= kv_lowest(&seq->config->geometries[layer], seq->len));
    uint32_t end = seq_pages_for(seq->config, seq->len);
    for (uint32_t j = seq->firsts[layer] / seq->config->bounds.page_tokens; j < end; j++) {
        kv_page *page = source->page(source->user, layer, j);
        if (page == NULL) continue;
        page->refs++;
        seq_put_page(seq, seq_slot_of(seq, layer, j), page);
    }
}

static void share(kv_seq *seq, const kv_source *source)
{
    for (uint32_t layer = 0; layer < seq->config->n_layers; layer++) {
        if (kv_is_cross(seq->config, layer)) continue;
        if (!kv_is_recurrent(seq->config, layer)) {
            share_pages(seq, source, layer);
            continue;
        }
        kv_page *page = source->state(source->user, layer);
        ASSERT(page != NULL); /* T-8 */
        page->refs++;
        seq->states[layer].committed = page;
        seq->firsts[layer] = seq->len;
    }
}

/* T-1: a partly filled page is there always. */
static void fill_last(kv_seq *seq)
{
    uint32_t p = seq->config->bounds.page_tokens;
    if (seq->len % p == 0) return;
    for (uint32_t layer = 0; layer < seq->config->n_layers; layer++) {
        if (kv_is_recurrent(seq->config, layer) || kv_is_cross(seq->config, layer)) continue;
        size_t slot = seq_slot_of(seq, layer, seq->len / p);
        if (seq->held[slot] != NULL) continue;
        ASSERT(seq->firsts[layer] == seq->len);
        seq_put_page(seq, slot, kv_pool_take(seq->pool, seq_class_of(seq, layer)));
    }
}

static weft_status resume(const weft_allocator *allocator, const kv_source *source, kv_seq **out,
                          weft_error *err)
{
    kv_seq *seq = *out;
    uint32_t p = seq->config->bounds.page_tokens;
    seq->converted = source->converted;
    seq->len = source->len;
    if (seq->len > 0) share(seq, source);
    if (source->lender.take_back != NULL) seq->lent = seq->len - seq->len % p;
    weft_status status = finish_create(allocator, out, err);
    if (status != WEFT_OK) return status;
    seq->lender = source->lender;
    fill_last(seq);
    return WEFT_OK;
}

weft_status kv_seq_resume(const weft_allocator *allocator, kv_pool *pool, const kv_config *config,
                          uint32_t n_positions, const kv_source *source, kv_seq **out,
                          weft_error *err)
{
    *out = NULL;
    if (n_positions < source->len) {
        return err_set(err, WEFT_ARGUMENT, "a sequence of %u positions cannot begin with %u",
                       n_positions, source->len);
    }
    weft_status status = create(allocator, pool, config, n_positions, 0, out, err);
    return status == WEFT_OK ? resume(allocator, source, out, err) : status;
}

static kv_page *own_page(const void *user, uint32_t layer, uint32_t page_i)
{
    const kv_seq *seq = user;
    return seq->held[seq_slot_of(seq, layer, page_i)];
}

static uint32_t own_first(const void *user, uint32_t layer)
{
    return ((const kv_seq *)user)->firsts[layer];
}

static kv_page *own_state(const void *user, uint32_t layer)
{
    return ((const kv_seq *)user)->states[layer].committed;
}

static void share_cross(kv_seq *seq, const kv_seq *source)
{
    seq->cross_len = source->cross_len;
    for (uint32_t layer = 0; layer < seq->config->n_layers; layer++) {
        if (!kv_is_cross(seq->config, layer)) continue;
        for (uint32_t j = 0; j < seq_pages_for(seq->config, seq->cross_len); j++) {
            kv_page *page = source->held[seq_slot_of(source, layer, j)];
            page->refs++;
            seq_put_page(seq, seq_slot_of(seq, layer, j), page);
        }
    }
}

weft_status kv_seq_clone(const weft_allocator *allocator, const kv_seq *source,
                         uint32_t n_positions, kv_seq **out, weft_error *err)
{
    *out = NULL;
    if (source->open) return err_set(err, WEFT_ARGUMENT, "cannot clone a sequence inside a step");
    if (n_positions < source->len) {
        return err_set(err, WEFT_ARGUMENT, "a clone of %u positions, the sequence has %u",
                       n_positions, source->len);
    }
    kv_source of = {.len = source->len,
                    .converted = source->converted,
                    .user = source,
                    .page = own_page,
                    .first = own_first,
                    .state = own_state};
    weft_status status =
        create(allocator, source->pool, source->config, n_positions, source->cross_limit, out, err);
    if (status != WEFT_OK) return status;
    share_cross(*out, source);
    return resume(allocator, &of, out, err);
}

/* ---- another promise ------------------------------------------------------------------------- */

/* What of a is more than in b. */
static void count_more(const kv_config *c, const uint32_t *a, const uint32_t *b, uint32_t *more)
{
    memset(more, 0, KV_CLASSES_MOST * sizeof *more);
    for (uint32_t i = 0; i < c->n_classes; i++) more[i] = a[i] > b[i] ? a[i] - b[i] : 0;
}

/* Both parts of a promise become those of n positions, or stay. */
static weft_status promise(kv_seq *seq, uint32_t n, weft_error *err)
{
    const kv_config *c = seq->config;
    uint32_t need[KV_CLASSES_MOST] = {0};
    uint32_t base[KV_CLASSES_MOST] = {0};
    uint32_t more[KV_CLASSES_MOST];
    uint32_t more_base[KV_CLASSES_MOST];
    count_need(seq, n, need, base);
    count_more(c, need, seq->need, more);
    count_more(c, base, seq->base_need, more_base);
    weft_status status = kv_pool_reserve(seq->pool, more, err);
    if (status != WEFT_OK) return status;
    if (!seq->converted) status = kv_pool_reserve(seq->pool, more_base, err);
    if (status != WEFT_OK) {
        kv_pool_unreserve(seq->pool, more);
        return status;
    }
    count_more(c, seq->need, need, more);
    count_more(c, seq->base_need, base, more_base);
    kv_pool_unreserve(seq->pool, more);
    if (!seq->converted) kv_pool_unreserve(seq->pool, more_base);
    memcpy(seq->need, need, sizeof need);
    memcpy(seq->base_need, base, sizeof base);
    return WEFT_OK;
}

/* Every page to the slot that other tables have for it. */
static void move_pages(kv_seq *to, const kv_seq *from)
{
    const kv_config *c = to->config;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        if (kv_is_recurrent(c, layer)) continue;
        bool cross = kv_is_cross(c, layer);
        uint32_t first = cross ? 0 : from->firsts[layer] / c->bounds.page_tokens;
        uint32_t end = seq_pages_for(c, cross ? from->cross_len : from->len);
        for (uint32_t j = first; j < end; j++) {
            seq_put_page(to, seq_slot_of(to, layer, j), from->held[seq_slot_of(from, layer, j)]);
        }
    }
}

weft_status kv_seq_resize(const weft_allocator *allocator, kv_seq *seq, uint32_t n_positions,
                          weft_error *err)
{
    if (seq->open) return err_set(err, WEFT_ARGUMENT, "cannot resize a sequence inside a step");
    if (n_positions == 0 || n_positions < seq->len || n_positions > seq->config->bounds.context) {
        return err_set(err, WEFT_ARGUMENT,
                       "cannot resize to %u: the sequence has %u positions, and may have %u",
                       n_positions, seq->len, seq->config->bounds.context);
    }
    kv_seq to = *seq;
    if (!take_slots(allocator, &to, n_positions, seq->cross_limit)) {
        free_slots(allocator, &to);
        return err_set(err, WEFT_NOMEM, "out of memory for a sequence");
    }
    weft_status status = promise(&to, n_positions, err);
    if (status != WEFT_OK) {
        free_slots(allocator, &to);
        return status;
    }
    move_pages(&to, seq);
    free_slots(allocator, seq);
    to.limit = n_positions;
    *seq = to;
    return WEFT_OK;
}

uint32_t kv_seq_most_append(const kv_seq *seq)
{
    uint32_t most = seq->config->bounds.most_append;
    if (seq->converted) return most;
    uint32_t left = seq->config->start - seq->len;
    return left < most ? left : most;
}

/* What was lent and will be written anew needs a promise of its own. */
static weft_status keep_lent(kv_seq *seq, uint32_t len, weft_error *err)
{
    uint32_t more[KV_CLASSES_MOST] = {0};
    uint32_t lent = len - len % seq->config->bounds.page_tokens;
    if (lent >= seq->lent) return WEFT_OK;
    count_whole(seq, lent, seq->lent, 1, more);
    weft_status status = kv_pool_reserve(seq->pool, more, err);
    if (status != WEFT_OK) return status;
    count_whole(seq, lent, seq->lent, 1, seq->converted ? seq->need : seq->base_need);
    seq->lent = lent;
    return WEFT_OK;
}

weft_status kv_seq_trim(kv_seq *seq, uint32_t len, weft_error *err)
{
    const kv_config *c = seq->config;
    if (seq->open) return err_set(err, WEFT_ARGUMENT, "cannot trim a sequence inside a step");
    if (len > seq->len) {
        return err_set(err, WEFT_ARGUMENT, "cannot trim to %u: the sequence has %u positions", len,
                       seq->len);
    }
    if (seq->converted && len < c->start) {
        return err_set(err, WEFT_LIMIT, "cannot trim to %u: the sequence was converted at %u", len,
                       c->start);
    }
    /* Nothing is refused to go on from where it is, or from nothing. */
    bool always = len == 0 || len == seq->len;
    for (uint32_t layer = 0; layer < c->n_layers && !always; layer++) {
        if (kv_is_recurrent(c, layer)) {
            return err_set(err, WEFT_LIMIT,
                           "cannot trim to %u: layer %u is recurrent and stands at %u", len, layer,
                           seq->len);
        }
        if (kv_lowest(&c->geometries[layer], len) < seq->firsts[layer]) {
            return err_set(err, WEFT_LIMIT, "cannot trim to %u: layer %u keeps positions from %u",
                           len, layer, seq->firsts[layer]);
        }
    }
    weft_status status = keep_lent(seq, len, err);
    if (status != WEFT_OK) return status;
    if (len < seq->mark_at) seq_drop_mark(seq);
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        if (kv_is_recurrent(c, layer)) {
            if (len == 0) seq_give_state(seq, c->class_of[layer], &seq->states[layer].committed);
            seq->firsts[layer] = len;
        } else if (kv_is_cross(c, layer)) {
            continue;
        } else if (len == 0) {
            seq_give_pages(seq, layer, seq->firsts[layer] / c->bounds.page_tokens,
                           seq_pages_for(c, seq->len));
            seq->firsts[layer] = seq->filled[layer] = 0;
        } else {
            seq_give_pages(seq, layer, seq_pages_for(c, len), seq_pages_for(c, seq->len));
        }
    }
    seq->len = len;
    return WEFT_OK;
}

void kv_seq_views(const kv_seq *seq, kv_view *views, uint32_t stride)
{
    const kv_config *c = seq->config;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        kv_view *view = &views[(size_t)layer * stride];
        if (kv_is_recurrent(c, layer)) {
            *view = seq_state_view(seq, layer);
            continue;
        }
        *view = (kv_view){
            .geometry = seq_geometry_of(seq, layer),
            .pages = seq->pages + seq->first_slots[layer],
            .n_slots = seq->n_slots[layer],
            .len = kv_is_cross(c, layer) ? seq->cross_len : seq->len,
        };
    }
}
