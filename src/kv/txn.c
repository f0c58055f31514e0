/* txn.c - the transaction by which sequences grow.
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
 *   T-9  A cross layer holds exactly the pages of its encoder's cross_len positions, in its codecs
 *        from the first; none of this touches them but clone and destroy (cross.c writes them).
 */
#include "kv/seq.h"

/* The page that is partly filled, if another sequence holds it too: a copy of its own. T-6 */
static void own_last(kv_seq *seq, uint32_t layer)
{
    size_t slot = seq_slot_of(seq, layer, seq->len / seq->config->bounds.page_tokens);
    kv_page *shared = seq->held[slot];
    if (shared->refs == 1) return;
    uint32_t class_i = seq_class_of(seq, layer);
    kv_page *own = kv_pool_take(seq->pool, class_i);
    kv_pool_copy(seq->pool, class_i, own, shared);
    kv_pool_give(seq->pool, class_i, shared);
    seq_put_page(seq, slot, own);
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
    seq_drop_mark(seq);
    if (row->mark > 0) seq->mark_at = seq->len + row->mark;
    uint32_t first = seq_pages_for(seq->config, seq->len);
    uint32_t end = seq_pages_for(seq->config, seq->len + row->n);
    for (uint32_t layer = 0; layer < seq->config->n_layers; layer++) {
        if (kv_is_recurrent(seq->config, layer)) {
            begin_state(row, layer);
            continue;
        }
        if (kv_is_cross(seq->config, layer)) continue; /* T-9 */
        if (seq->len % seq->config->bounds.page_tokens != 0) own_last(seq, layer);
        for (uint32_t j = first; j < end; j++) {
            size_t slot = seq_slot_of(seq, layer, j);
            ASSERT(seq->held[slot] == NULL); /* T-3 */
            seq_put_page(seq, slot, kv_pool_take(seq->pool, seq_class_of(seq, layer)));
        }
    }
}

/* Every page into the codecs of the sequence, one by one; then the promise of base ends. */
static void convert(kv_seq *seq)
{
    const kv_config *c = seq->config;
    uint32_t p = c->bounds.page_tokens;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        if (kv_is_recurrent(c, layer) || kv_is_cross(c, layer)) continue;
        for (uint32_t j = seq->firsts[layer] / p; j < seq_pages_for(c, seq->len); j++) {
            size_t slot = seq_slot_of(seq, layer, j);
            kv_page *base = seq->held[slot];
            kv_page *page = kv_pool_take(seq->pool, c->class_of[layer]);
            uint32_t left = seq->len - j * p;
            backend_conversion of = {&c->bases[layer], &c->geometries[layer], base->at,
                                     page->at,         left < p ? left : p,   c->row};
            kv_pool_convert(seq->pool, &of);
            kv_pool_give(seq->pool, c->base_class_of[layer], base);
            seq_put_page(seq, slot, page);
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

/* Whether the row can be; its sequence is not open. */
static weft_status check_row(const kv_txn_row *row, uint32_t row_i, weft_error *err)
{
    const kv_seq *seq = row->seq;
    if (row->n == 0 || row->n > seq->config->bounds.most_append) {
        return err_set(err, WEFT_LIMIT, "row %u appends %u positions, a step takes 1 to %u", row_i,
                       row->n, seq->config->bounds.most_append);
    }
    if (row->n > kv_seq_most_append(seq)) {
        return err_set(err, WEFT_LIMIT, "row %u spans position %u, where it is converted", row_i,
                       seq->config->start);
    }
    weft_status status = check_mark(row, row_i, err);
    if (status != WEFT_OK) return status;
    uint32_t verify = seq->config->bounds.most_verify;
    if (seq->config->n_recurrent > 0 && may_replay(row) && row->n > verify) {
        return err_set(err, WEFT_LIMIT, "row %u verifies %u positions, a record holds %u", row_i,
                       row->n, verify);
    }
    if (row->n > seq->limit - seq->len) {
        return err_set(err, WEFT_LIMIT, "row %u would have %u positions, reserved for %u", row_i,
                       seq->len + row->n, seq->limit);
    }
    return WEFT_OK;
}

/* Why a sequence is open already: T-5. */
static weft_status refuse_open(const kv_txn_row *rows, uint32_t row_i, weft_error *err)
{
    for (uint32_t k = 0; k < row_i; k++) {
        if (rows[k].seq != rows[row_i].seq) continue;
        return err_set(err, WEFT_ARGUMENT, "rows %u and %u of a step are the same sequence", k,
                       row_i);
    }
    return err_set(err, WEFT_ARGUMENT, "row %u: the sequence is in another step", row_i);
}

/* Opens all sequences, or none. */
static weft_status open_rows(const kv_txn_row *rows, uint32_t n_rows, weft_error *err)
{
    weft_status status = WEFT_OK;
    uint32_t i = 0;
    for (; i < n_rows && status == WEFT_OK; i++) {
        status = rows[i].seq->open ? refuse_open(rows, i, err) : check_row(&rows[i], i, err);
        if (status == WEFT_OK) rows[i].seq->open = true;
    }
    if (status == WEFT_OK) return WEFT_OK;
    /* The last is the one that failed. */
    for (i--; i > 0; i--) rows[i - 1].seq->open = false;
    return status;
}

weft_status kv_txn_begin(kv_txn *txn, const kv_txn_row *rows, uint32_t n_rows, weft_error *err)
{
    if (txn->state != KV_TXN_IDLE) return err_set(err, WEFT_ARGUMENT, "a step has already begun");
    weft_status status = open_rows(rows, n_rows, err);
    if (status != WEFT_OK) return status;
    for (uint32_t i = 0; i < n_rows; i++) begin_row(&rows[i]);
    txn->state = KV_TXN_RESERVED;
    txn->rows = rows;
    txn->n_rows = n_rows;
    return WEFT_OK;
}

/* One of the two pages becomes what is committed; of a part of the row, once it is replayed. */
static void end_state(const kv_txn_row *row, uint32_t layer, uint32_t keep)
{
    kv_seq *seq = row->seq;
    const kv_config *c = seq->config;
    kv_state *state = &seq->states[layer];
    if (keep > 0 && keep < row->n) {
        ASSERT(state->record != NULL);
        kv_view view = seq_state_view(seq, layer);
        kv_pool_replay(seq->pool, layer, &view, keep);
    }
    if (c->bounds.most_verify > 0) seq_give_state(seq, c->record_class_of[layer], &state->record);
    kv_page *unused = keep > 0 ? state->committed : state->fresh;
    if (keep > 0) state->committed = state->fresh;
    state->fresh = NULL;
    seq_give_state(seq, c->class_of[layer], &unused);
    seq->firsts[layer] = seq->len + keep;
}

static void end_row(const kv_txn_row *row, uint32_t keep)
{
    kv_seq *seq = row->seq;
    const kv_config *c = seq->config;
    ASSERT(seq->open && keep <= row->n);
    uint32_t end = seq_pages_for(c, seq->len + row->n);
    uint32_t len = seq->len + keep;
    if (len < seq->mark_at) seq_drop_mark(seq);
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        if (kv_is_recurrent(c, layer)) {
            end_state(row, layer, keep);
            continue;
        }
        if (kv_is_cross(c, layer)) continue;
        seq_give_pages(seq, layer, seq_pages_for(c, len), end);
        uint32_t first = seq_keep_at(c, layer, len);
        ASSERT(first <= len);
        if (first <= seq->firsts[layer]) continue;
        seq_give_pages(seq, layer, seq->firsts[layer] / c->bounds.page_tokens,
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
