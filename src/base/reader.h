/* reader.h - files read by threads of their own: urgent jobs first, then those that may wait, each
 * kind in the order in which they came.
 *
 * A job is some ranges of files and where they go. Several threads share a job, a piece of at most
 * READER_PIECE bytes at a time, so that one job alone keeps a disk busy. */
#ifndef BASE_READER_H
#define BASE_READER_H

#include <stdatomic.h>

#include "base/io.h"

enum { READER_RANGES = 9, READER_PIECE = 1 << 20, READER_THREADS = 64 };

/* Offset, size and memory as io.read_blocks takes them. */
typedef struct reader_range {
    const io_file *file;
    uint64_t offset;
    unsigned char *to;
    size_t n_bytes, n_least;
} reader_range;

typedef enum reader_state { READER_IDLE, READER_WAITS, READER_RUNS, READER_DONE } reader_state;

/* The caller's memory; from reader_submit until it is done or dropped the reader's. */
typedef struct reader_job {
    reader_range ranges[READER_RANGES];
    uint32_t n_ranges;
    /* The reader's own. */
    struct reader_job *next;
    uint32_t range; /* of the next piece */
    size_t at;      /* where it begins in that range */
    uint32_t n_out; /* pieces that are being read */
    bool urgent;
    weft_status status; /* once it is done */
    _Atomic(int) state; /* reader_state */
} reader_job;

typedef struct reader reader;

/* 1 to READER_THREADS threads. NOMEM, or DEVICE when the system gives no thread. files and what
 * jobs name are borrowed. */
weft_status reader_create(const weft_allocator *allocator, const io *files, uint32_t n_threads,
                          reader **out, weft_error *err);

/* Returns when no thread reads any more; jobs that wait are forgotten. Accepts NULL. */
void reader_destroy(reader *r);

void reader_submit(reader *r, reader_job *job, bool urgent);

/* A job that waits becomes urgent. */
void reader_hurry(reader *r, reader_job *job);

/* Takes a job back that waits; false when it is being read or done already. */
bool reader_drop(reader *r, reader_job *job);

/* What it came to, once it is done: what was read is visible then. Any thread may wait. */
weft_status reader_wait(reader *r, reader_job *job, weft_error *err);

/* Whether it is done, without waiting; what was read is visible then. */
static inline bool reader_is_done(const reader_job *job)
{
    return atomic_load_explicit(&job->state, memory_order_acquire) == READER_DONE;
}

/* Bytes read so far. */
uint64_t reader_bytes(reader *r);

#endif
