/* txn.c - sequences and their transaction.
 *
 *   IDLE --begin--> RESERVED --commit(keep)--> IDLE
 *                   RESERVED --rollback------> IDLE
 *
 * Invariants (docs/kv.md numbers them; asserts cite):
 *   T-1  Between transactions a layer holds exactly the pages from that of its first position to
 *        that of position len - 1; after a commit first is keep(len), higher only where a trim
 *        found less.
 *   T-2  begin takes pages only; bytes of committed positions are never written.
 *   T-3  A slot is empty when a page is put into it (windows: pages go back at commit, never
 *        inside a step).
 *   T-4  commit and rollback cannot fail, and cost the pages touched.
 *   T-5  A sequence is in one transaction at most; meanwhile it is neither trimmed, cloned nor
 *        destroyed.
 *   T-6  A page that more than one sequence holds is never written: begin copies a partly filled
 *        one first.
 *   T-7  All pages of a sequence are in base below start and in its codecs from there on; no row
 *        spans start.
 *   T-8  Between transactions a recurrent layer holds its state at len, none at 0, the one at
 *        mark_at, if that is not 0, and nothing else; what is committed is never written: begin
 *        takes a fresh page, and commit publishes it.
 */
#include "kv/txn.h"

#include <string.h>

#include "base/assert.h"

/* Index of the slot of page page_i of a layer. */
static size_t slot_of(const kv_seq *seq, uint32_t layer, uint32_t page_i)
{
    return (size_t)seq->first_slots[layer] + page_i % seq->n_slots[layer];
}

static uint32_t class_of(const kv_seq *seq, uint32_t layer)
{
    const kv_config *c = seq->config;
    return seq->converted ? c->class_of[layer] : c->base_class_of[layer];
}

static const kv_geometry *geometry_of(const kv_seq *seq, uint32_t layer)
{
    const kv_config *c = seq->config;
    return seq->converted ? &c->geometries[layer] : &c->bases[layer];
}

static void put_page(kv_seq *seq, size_t slot, kv_page *page)
{
    seq->held[slot] = page;
    seq->pages[slot] = page == NULL ? NULL : page->at;
}

/* Gives back a page of a recurrent layer, if there is one. */
static void give_state(const kv_seq *seq, uint32_t class_i, kv_page **page)
{
    if (*page != NULL) kv_pool_give(seq->pool, class_i, *page);
    *page = NULL;
}

static void drop_mark(kv_seq *seq)
{
    const kv_config *c = seq->config;
    for (uint32_t layer = 0; layer < c->n_layers && seq->mark_at != 0; layer++) {
        give_state(seq, c->class_of[layer], &seq->states[layer].marked);
    }
    seq->mark_at = 0;
}

void kv_seq_drop_mark(kv_seq *seq)
{
    ASSERT(!seq->open); /* T-5 */
    drop_mark(seq);
}

kv_page *kv_seq_marked(const kv_seq *seq, uint32_t layer)
{
    return seq->open ? NULL : seq->states[layer].marked;
}

static uint32_t pages_for(const kv_config *c, uint32_t n_positions)
{
    return (uint32_t)(((uint64_t)n_positions + c->bounds.page_tokens - 1) / c->bounds.page_tokens);
}

static void give_all(kv_seq *seq)
{
    const kv_config *c = seq->config;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        for (uint32_t i = 0; i < seq->n_slots[layer]; i++) {
            kv_page *page = seq->held[seq->first_slots[layer] + i];
            if (page != NULL) kv_pool_give(seq->pool, class_of(seq, layer), page);
        }
        give_state(seq, c->class_of[layer], &seq->states[layer].committed);
        give_state(seq, c->class_of[layer], &seq->states[layer].marked);
    }
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
    if (seq->lender.take_back != NULL) seq->lender.take_back(seq->lender.user, seq->lender.lent);
    mem_free(allocator, seq->held, seq->slots_total * sizeof(void *));
    mem_free(allocator, seq->pages, seq->slots_total * sizeof *seq->pages);
    mem_free(allocator, seq->first_slots, c->n_layers * sizeof *seq->first_slots);
    mem_free(allocator, seq->n_slots, c->n_layers * sizeof *seq->n_slots);
    mem_free(allocator, seq->firsts, c->n_layers * sizeof *seq->firsts);
    mem_free(allocator, seq->states, c->n_layers * sizeof *seq->states);
    mem_free(allocator, seq, sizeof *seq);
}

static bool take_tables(const weft_allocator *allocator, kv_seq *seq, uint32_t n_positions)
{
    const kv_config *c = seq->config;
    seq->first_slots = mem_alloc_zero(allocator, c->n_layers * sizeof *seq->first_slots);
    seq->n_slots = mem_alloc_zero(allocator, c->n_layers * sizeof *seq->n_slots);
    seq->firsts = mem_alloc_zero(allocator, c->n_layers * sizeof *seq->firsts);
    seq->states = mem_alloc_zero(allocator, c->n_layers * sizeof *seq->states);
    if (!seq->first_slots || !seq->n_slots || !seq->firsts || !seq->states) return false;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        seq->first_slots[i] = (uint32_t)seq->slots_total;
        seq->n_slots[i] = kv_config_slots(c, i, n_positions);
        seq->slots_total += seq->n_slots[i];
    }
    seq->held = mem_alloc_zero(allocator, seq->slots_total * sizeof(void *));
    seq->pages = mem_alloc_zero(allocator, seq->slots_total * sizeof *seq->pages);
    return (seq->held && seq->pages) || seq->slots_total == 0;
}

/* Of layers that keep all, the pages of positions [from, to), both at the start of one, which are
 * added to or taken from what a sequence needs. */
static void count_whole(const kv_seq *seq, uint32_t from, uint32_t to, uint32_t sign,
                        uint32_t *need)
{
    uint32_t n = (to - from) / seq->config->bounds.page_tokens;
    for (uint32_t layer = 0; layer < seq->config->n_layers; layer++) {
        if (kv_keeps_all(seq->config, layer)) need[class_of(seq, layer)] += sign * n;
    }
}

/* Both promises, or neither. */
static weft_status reserve(kv_seq *seq, weft_error *err)
{
    kv_config_need(seq->config, seq->limit, seq->need, seq->base_need);
    count_whole(seq, 0, seq->lent, UINT32_MAX, seq->converted ? seq->need : seq->base_need);
    weft_status status = kv_pool_reserve(seq->pool, seq->need, err);
    if (status == WEFT_OK && !seq->converted) {
        status = kv_pool_reserve(seq->pool, seq->base_need, err);
        if (status != WEFT_OK) kv_pool_unreserve(seq->pool, seq->need);
    }
    seq->reserved = status == WEFT_OK;
    return status;
}

/* A sequence without a promise. */
static weft_status create(const weft_allocator *allocator, kv_pool *pool, const kv_config *config,
                          uint32_t n_positions, kv_seq **out, weft_error *err)
{
    *out = NULL;
    if (n_positions == 0 || n_positions > config->bounds.context) {
        return err_set(err, WEFT_LIMIT, "a sequence of %u positions, at most %u", n_positions,
                       config->bounds.context);
    }
    kv_seq *seq = mem_alloc_zero(allocator, sizeof *seq);
    if (seq == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a sequence");
    seq->pool = pool;
    seq->config = config;
    seq->converted = config->start == 0;
    if (!take_tables(allocator, seq, n_positions)) {
        kv_seq_destroy(allocator, seq);
        return err_set(err, WEFT_NOMEM, "out of memory for a sequence");
    }
    seq->limit = n_positions;
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
    weft_status status = create(allocator, pool, config, n_positions, out, err);
    return status == WEFT_OK ? finish_create(allocator, out, err) : status;
}

static uint32_t keep_at(const kv_config *c, uint32_t layer, uint32_t len)
{
    return c->layouts[layer]->keep(&c->geometries[layer], len);
}

/* The pages of a layer that holds positions. A chunk that has just ended leaves nothing alive, so
 * that there may be none for what is to come: that one is taken later. */
static void share_pages(kv_seq *seq, const kv_source *source, uint32_t layer)
{
    uint32_t keep = keep_at(seq->config, layer, seq->len);
    uint32_t first = source->first(source->user, layer);
    seq->firsts[layer] = keep > first ? keep : first;
    ASSERT(seq->firsts[layer] <= kv_lowest(&seq->config->geometries[layer], seq->len));
    uint32_t end = pages_for(seq->config, seq->len);
    for (uint32_t j = seq->firsts[layer] / seq->config->bounds.page_tokens; j < end; j++) {
        kv_page *page = source->page(source->user, layer, j);
        if (page == NULL) continue;
        page->refs++;
        put_page(seq, slot_of(seq, layer, j), page);
    }
}

static void share(kv_seq *seq, const kv_source *source)
{
    for (uint32_t layer = 0; layer < seq->config->n_layers; layer++) {
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
        if (kv_is_recurrent(seq->config, layer)) continue;
        size_t slot = slot_of(seq, layer, seq->len / p);
        if (seq->held[slot] != NULL) continue;
        ASSERT(seq->firsts[layer] == seq->len);
        put_page(seq, slot, kv_pool_take(seq->pool, class_of(seq, layer)));
    }
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
    weft_status status = create(allocator, pool, config, n_positions, out, err);
    if (status != WEFT_OK) return status;
    kv_seq *seq = *out;
    seq->converted = source->converted;
    seq->len = source->len;
    if (seq->len > 0) share(seq, source);
    if (source->lender.take_back != NULL)
        seq->lent = seq->len - seq->len % config->bounds.page_tokens;
    status = finish_create(allocator, out, err);
    if (status != WEFT_OK) return status;
    seq->lender = source->lender;
    fill_last(seq);
    return WEFT_OK;
}

static kv_page *own_page(const void *user, uint32_t layer, uint32_t page_i)
{
    const kv_seq *seq = user;
    return seq->held[slot_of(seq, layer, page_i)];
}

static uint32_t own_first(const void *user, uint32_t layer)
{
    return ((const kv_seq *)user)->firsts[layer];
}

static kv_page *own_state(const void *user, uint32_t layer)
{
    return ((const kv_seq *)user)->states[layer].committed;
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
    return kv_seq_resume(allocator, source->pool, source->config, n_positions, &of, out, err);
}

uint32_t kv_seq_most_append(const kv_seq *seq)
{
    uint32_t most = seq->config->bounds.most_append;
    if (seq->converted) return most;
    uint32_t left = seq->config->start - seq->len;
    return left < most ? left : most;
}

/* Gives back pages [first, end) of a layer. */
static void give_pages(kv_seq *seq, uint32_t layer, uint32_t first, uint32_t end)
{
    for (uint32_t j = first; j < end; j++) {
        size_t slot = slot_of(seq, layer, j);
        ASSERT(seq->held[slot] != NULL); /* T-1 */
        kv_pool_give(seq->pool, class_of(seq, layer), seq->held[slot]);
        put_page(seq, slot, NULL);
    }
}

/* The page that is partly filled, if another sequence holds it too: a copy of its own. T-6 */
static void own_last(kv_seq *seq, uint32_t layer)
{
    size_t slot = slot_of(seq, layer, seq->len / seq->config->bounds.page_tokens);
    kv_page *shared = seq->held[slot];
    if (shared->refs == 1) return;
    uint32_t class_i = class_of(seq, layer);
    kv_page *own = kv_pool_take(seq->pool, class_i);
    kv_pool_copy(seq->pool, class_i, own, shared);
    kv_pool_give(seq->pool, class_i, shared);
    put_page(seq, slot, own);
}

/* Whether a commit may have to make the state of a part of the row. */
static bool may_replay(const kv_txn_row *row)
{
    return row->partial && row->n > 1;
}

/* Room for what the step makes of a recurrent layer's state. */
static void begin_state(const kv_txn_row *row, uint32_t layer)
{
    const kv_config *c = row->seq->config;
    kv_state *state = &row->seq->states[layer];
    ASSERT((state->committed == NULL) == (row->seq->len == 0)); /* T-8 */
    state->fresh = kv_pool_take(row->seq->pool, c->class_of[layer]);
    if (row->mark > 0) state->marked = kv_pool_take(row->seq->pool, c->class_of[layer]);
    if (may_replay(row)) {
        state->record = kv_pool_take(row->seq->pool, c->record_class_of[layer]);
    }
}

static void begin_row(const kv_txn_row *row)
{
    kv_seq *seq = row->seq;
    seq->open = true;
    drop_mark(seq);
    if (row->mark > 0) seq->mark_at = seq->len + row->mark;
    uint32_t first = pages_for(seq->config, seq->len);
    uint32_t end = pages_for(seq->config, seq->len + row->n);
    for (uint32_t layer = 0; layer < seq->config->n_layers; layer++) {
        if (kv_is_recurrent(seq->config, layer)) {
            begin_state(row, layer);
            continue;
        }
        if (seq->len % seq->config->bounds.page_tokens != 0) own_last(seq, layer);
        for (uint32_t j = first; j < end; j++) {
            size_t slot = slot_of(seq, layer, j);
            ASSERT(seq->held[slot] == NULL); /* T-3 */
            put_page(seq, slot, kv_pool_take(seq->pool, class_of(seq, layer)));
        }
    }
}

/* Every page into the codecs of the sequence, one by one; then the promise of base ends. */
static void convert(kv_seq *seq)
{
    const kv_config *c = seq->config;
    uint32_t p = c->bounds.page_tokens;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        if (kv_is_recurrent(c, layer)) continue;
        for (uint32_t j = seq->firsts[layer] / p; j < pages_for(c, seq->len); j++) {
            size_t slot = slot_of(seq, layer, j);
            kv_page *base = seq->held[slot];
            kv_page *page = kv_pool_take(seq->pool, c->class_of[layer]);
            uint32_t left = seq->len - j * p;
            backend_conversion of = {&c->bases[layer], &c->geometries[layer], base->at,
                                     page->at,         left < p ? left : p,   c->row};
            kv_pool_convert(seq->pool, &of);
            kv_pool_give(seq->pool, c->base_class_of[layer], base);
            put_page(seq, slot, page);
        }
    }
    seq->converted = true;
    seq->lent = 0;
    kv_pool_unreserve(seq->pool, seq->base_need);
}

void kv_txn_init(kv_txn *txn)
{
    *txn = (kv_txn){.state = KV_TXN_IDLE};
}

static weft_status check_mark(const kv_txn_row *row, uint32_t row_i, weft_error *err)
{
    const kv_config *c = row->seq->config;
    if (row->mark > row->n) {
        return err_set(err, WEFT_ARGUMENT, "row %u marks %u of its %u positions", row_i, row->mark,
                       row->n);
    }
    if (row->mark > 0 && c->n_recurrent > 0 && !c->bounds.marks) {
        return err_set(err, WEFT_LIMIT, "row %u marks a state, for which no page was promised",
                       row_i);
    }
    return WEFT_OK;
}

static weft_status check_rows(const kv_txn_row *rows, uint32_t n_rows, weft_error *err)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        const kv_seq *seq = rows[i].seq;
        weft_status status;
        for (uint32_t k = 0; k < i; k++) {
            if (rows[k].seq == seq) {
                return err_set(err, WEFT_ARGUMENT, "rows %u and %u of a step are the same sequence",
                               k, i);
            }
        }
        if (seq->open) { /* T-5 */
            return err_set(err, WEFT_ARGUMENT, "row %u: the sequence is in another step", i);
        }
        if (rows[i].n == 0 || rows[i].n > seq->config->bounds.most_append) {
            return err_set(err, WEFT_LIMIT, "row %u appends %u positions, a step takes 1 to %u", i,
                           rows[i].n, seq->config->bounds.most_append);
        }
        if (rows[i].n > kv_seq_most_append(seq)) {
            return err_set(err, WEFT_LIMIT, "row %u spans position %u, where it is converted", i,
                           seq->config->start);
        }
        status = check_mark(&rows[i], i, err);
        if (status != WEFT_OK) return status;
        uint32_t verify = seq->config->bounds.most_verify;
        if (seq->config->n_recurrent > 0 && may_replay(&rows[i]) && rows[i].n > verify) {
            return err_set(err, WEFT_LIMIT, "row %u verifies %u positions, a record holds %u", i,
                           rows[i].n, verify);
        }
        if (rows[i].n > seq->limit - seq->len) {
            return err_set(err, WEFT_LIMIT, "row %u would have %u positions, reserved for %u", i,
                           seq->len + rows[i].n, seq->limit);
        }
    }
    return WEFT_OK;
}

weft_status kv_txn_begin(kv_txn *txn, const kv_txn_row *rows, uint32_t n_rows, weft_error *err)
{
    if (txn->state != KV_TXN_IDLE) return err_set(err, WEFT_ARGUMENT, "a step has already begun");
    weft_status status = check_rows(rows, n_rows, err);
    if (status != WEFT_OK) return status;
    for (uint32_t i = 0; i < n_rows; i++) begin_row(&rows[i]);
    txn->state = KV_TXN_RESERVED;
    txn->rows = rows;
    txn->n_rows = n_rows;
    return WEFT_OK;
}

static unsigned char *page_at(const kv_page *page)
{
    return page == NULL ? NULL : page->at;
}

static kv_view state_view(const kv_seq *seq, uint32_t layer)
{
    const kv_state *state = &seq->states[layer];
    return (kv_view){
        .geometry = &seq->config->geometries[layer],
        .len = seq->len,
        .committed = page_at(state->committed),
        .fresh = page_at(state->fresh),
        .record = page_at(state->record),
        .marked = seq->open ? page_at(state->marked) : NULL,
        .mark = seq->open && seq->mark_at != 0 ? seq->mark_at - seq->len : 0,
    };
}

/* One of the two pages becomes what is committed; of a part of the row, once it is replayed. */
static void end_state(const kv_txn_row *row, uint32_t layer, uint32_t keep)
{
    kv_seq *seq = row->seq;
    const kv_config *c = seq->config;
    kv_state *state = &seq->states[layer];
    if (keep > 0 && keep < row->n) {
        ASSERT(state->record != NULL);
        kv_view view = state_view(seq, layer);
        kv_pool_replay(seq->pool, layer, &view, keep);
    }
    if (c->bounds.most_verify > 0) give_state(seq, c->record_class_of[layer], &state->record);
    kv_page *unused = keep > 0 ? state->committed : state->fresh;
    if (keep > 0) state->committed = state->fresh;
    state->fresh = NULL;
    give_state(seq, c->class_of[layer], &unused);
    seq->firsts[layer] = seq->len + keep;
}

static void end_row(const kv_txn_row *row, uint32_t keep)
{
    kv_seq *seq = row->seq;
    const kv_config *c = seq->config;
    ASSERT(seq->open && keep <= row->n);
    uint32_t end = pages_for(c, seq->len + row->n);
    uint32_t len = seq->len + keep;
    if (len < seq->mark_at) drop_mark(seq);
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        if (kv_is_recurrent(c, layer)) {
            end_state(row, layer, keep);
            continue;
        }
        give_pages(seq, layer, pages_for(c, len), end);
        uint32_t first = keep_at(c, layer, len);
        ASSERT(first <= len);
        if (first <= seq->firsts[layer]) continue;
        give_pages(seq, layer, seq->firsts[layer] / c->bounds.page_tokens,
                   first / c->bounds.page_tokens);
        seq->firsts[layer] = first;
    }
    seq->len = len;
    if (!seq->converted && len == c->start) convert(seq);
    seq->open = false;
}

void kv_txn_commit(kv_txn *txn, const uint32_t *keep)
{
    ASSERT(txn->state == KV_TXN_RESERVED);
    for (uint32_t i = 0; i < txn->n_rows; i++) end_row(&txn->rows[i], keep[i]);
    kv_txn_init(txn);
}

void kv_txn_rollback(kv_txn *txn)
{
    if (txn->state == KV_TXN_IDLE) return;
    for (uint32_t i = 0; i < txn->n_rows; i++) end_row(&txn->rows[i], 0);
    kv_txn_init(txn);
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
    if (len < seq->mark_at) drop_mark(seq);
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        if (kv_is_recurrent(c, layer)) {
            if (len == 0) give_state(seq, c->class_of[layer], &seq->states[layer].committed);
            seq->firsts[layer] = len;
        } else if (len == 0) {
            give_pages(seq, layer, seq->firsts[layer] / c->bounds.page_tokens,
                       pages_for(c, seq->len));
            seq->firsts[layer] = 0;
        } else {
            give_pages(seq, layer, pages_for(c, len), pages_for(c, seq->len));
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
            *view = state_view(seq, layer);
            continue;
        }
        *view = (kv_view){
            .geometry = geometry_of(seq, layer),
            .pages = seq->pages + seq->first_slots[layer],
            .n_slots = seq->n_slots[layer],
            .len = seq->len,
        };
    }
}
