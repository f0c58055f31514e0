/* cross.c - the step of an encoder.
 *
 *   IDLE --begin--> open --commit----> IDLE, cross_len = n, for good
 *                   open --rollback--> IDLE, nothing held
 *
 * Pages are those of the sequence's tables (txn.c, T-9): page j of the encoder's positions lies in
 * slot j of the layer. */
#include "kv/cross.h"

#include "kv/seq.h"

void kv_cross_init(kv_cross *cross)
{
    *cross = (kv_cross){.open = false};
}

static weft_status check_row(const kv_cross_row *rows, uint32_t i, weft_error *err)
{
    const kv_seq *seq = rows[i].seq;
    for (uint32_t k = 0; k < i; k++) {
        if (rows[k].seq == seq) {
            return err_set(err, WEFT_ARGUMENT, "rows %u and %u of a step are the same sequence", k,
                           i);
        }
    }
    if (seq->open) {
        return err_set(err, WEFT_ARGUMENT, "row %u: the sequence is in another step", i);
    }
    if (seq->config->n_cross == 0) {
        return err_set(err, WEFT_ARGUMENT, "row %u: no layer of the sequence reads an encoder", i);
    }
    if (seq->cross_len != 0) {
        return err_set(err, WEFT_ARGUMENT,
                       "row %u: the %u positions of its encoder are written already", i,
                       seq->cross_len);
    }
    if (seq->len != 0) {
        return err_set(err, WEFT_ARGUMENT,
                       "row %u: %u positions of the sequence have not seen its encoder", i,
                       seq->len);
    }
    if (rows[i].n == 0 || rows[i].n > seq->cross_limit) {
        return err_set(err, WEFT_LIMIT, "row %u encodes %u positions, reserved for %u", i,
                       rows[i].n, seq->cross_limit);
    }
    return WEFT_OK;
}

static void begin_row(const kv_cross_row *row)
{
    kv_seq *seq = row->seq;
    const kv_config *c = seq->config;
    seq->open = true;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        if (!kv_is_cross(c, layer)) continue;
        for (uint32_t j = 0; j < seq_pages_for(c, row->n); j++) {
            size_t slot = seq_slot_of(seq, layer, j);
            ASSERT(seq->held[slot] == NULL); /* T-9 */
            seq_put_page(seq, slot, kv_pool_take(seq->pool, c->class_of[layer]));
        }
    }
}

weft_status kv_cross_begin(kv_cross *cross, const kv_cross_row *rows, uint32_t n_rows,
                           weft_error *err)
{
    if (cross->open) return err_set(err, WEFT_ARGUMENT, "a step has already begun");
    for (uint32_t i = 0; i < n_rows; i++) {
        weft_status status = check_row(rows, i, err);
        if (status != WEFT_OK) return status;
    }
    for (uint32_t i = 0; i < n_rows; i++) begin_row(&rows[i]);
    *cross = (kv_cross){.open = true, .rows = rows, .n_rows = n_rows};
    return WEFT_OK;
}

/* What was promised beyond n positions is promised no more. */
static void narrow(kv_seq *seq, uint32_t n)
{
    const kv_config *c = seq->config;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        if (kv_is_cross(c, layer)) seq->cross_need[c->class_of[layer]] -= seq_pages_for(c, n);
    }
    kv_pool_unreserve(seq->pool, seq->cross_need);
    kv_config_need_cross(c, n, seq->cross_need);
}

void kv_cross_commit(kv_cross *cross)
{
    ASSERT(cross->open);
    for (uint32_t i = 0; i < cross->n_rows; i++) {
        kv_seq *seq = cross->rows[i].seq;
        seq->cross_len = seq->cross_limit = cross->rows[i].n;
        narrow(seq, seq->cross_len);
        seq->open = false;
    }
    kv_cross_init(cross);
}

static void give_row(const kv_cross_row *row)
{
    kv_seq *seq = row->seq;
    const kv_config *c = seq->config;
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        for (uint32_t j = 0; j < seq_pages_for(c, row->n) && kv_is_cross(c, layer); j++) {
            size_t slot = seq_slot_of(seq, layer, j);
            kv_pool_give(seq->pool, c->class_of[layer], seq->held[slot]);
            seq_put_page(seq, slot, NULL);
        }
    }
    seq->open = false;
}

void kv_cross_rollback(kv_cross *cross)
{
    for (uint32_t i = 0; i < cross->n_rows && cross->open; i++) give_row(&cross->rows[i]);
    kv_cross_init(cross);
}
