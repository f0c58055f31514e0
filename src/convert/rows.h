/* rows.h - the rows of a planned tensor, as they are stored: made by several threads, a few MiB at
 * a time, with the same bytes for any number of threads. */
#ifndef CONVERT_ROWS_H
#define CONVERT_ROWS_H

#include "base/thread.h"
#include "convert/plan.h"

typedef struct row_maker {
    const weft_allocator *allocator;
    thread_pool *pool;
    uint32_t n_threads;
    float *scratch; /* [n_threads, 2, most_cols] */
    uint64_t most_cols;
    unsigned char *out; /* [out_bytes] */
    size_t out_bytes;
    const plan_tensor *t;
    float *turned; /* [t->n_rows, t->n_cols] of a turned tensor, else NULL */
    uint64_t row_bytes[TENSOR_PLANES];
    uint64_t batch;                       /* rows of t that fit into out */
    unsigned char *planes[TENSOR_PLANES]; /* in out: the rows made last */
    uint64_t first, n;                    /* those */
    uint64_t *bad; /* [n_threads, 2]: row + 1 and column of the first number that
                                            cannot be coded */
} row_maker;

/* NOMEM, LIMIT, or DEVICE for the threads; row_maker_deinit in any case. */
weft_status row_maker_init(row_maker *m, const weft_allocator *allocator, const plan *p,
                           uint32_t n_threads, weft_error *err);
void row_maker_deinit(row_maker *m);

/* t is the tensor that rows are made of until the next call. */
weft_status row_maker_take(row_maker *m, const plan_tensor *t, weft_error *err);

/* Rows first .. first + n - 1 into planes, n at most batch. FORMAT, naming the number, when one
 * cannot be coded. */
weft_status row_maker_make(row_maker *m, uint64_t first, uint64_t n, weft_error *err);

#endif
