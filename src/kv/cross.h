/* cross.h - what an encoder leaves for a decoder: keys and values of all its positions, written by
 * one step, then read by every step of the sequence, and by its clones. */
#ifndef KV_CROSS_H
#define KV_CROSS_H

#include "kv/txn.h"

/* A sequence and how many positions its encoder has. */
typedef struct kv_cross_row {
    kv_seq *seq;
    uint32_t n;
} kv_cross_row;

/* The step of an encoder. Sequences are in it as in a kv_txn: no other may begin on them. */
typedef struct kv_cross {
    bool open;
    const kv_cross_row *rows; /* [n_rows], borrowed until commit or rollback */
    uint32_t n_rows;
} kv_cross;

void kv_cross_init(kv_cross *cross);

/* Takes the pages of positions 0 .. n - 1 in every cross layer of every row, all or nothing; views
 * of those layers have len 0 until commit. ARGUMENT when already begun, when a sequence stands
 * twice in rows, is in another step, was written before, has positions that ran without, or has no
 * cross layers; LIMIT when a row exceeds what its sequence was reserved for. */
weft_status kv_cross_begin(kv_cross *cross, const kv_cross_row *rows, uint32_t n_rows,
                           weft_error *err);

/* What was written is there from now on; what was promised beyond it no more. Cannot fail. */
void kv_cross_commit(kv_cross *cross);

/* As if begin had not been called: it may be tried again. */
void kv_cross_rollback(kv_cross *cross);

#endif
