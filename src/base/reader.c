/* reader.c - the threads and queues of reader.h.
 *
 * One lock guards queues and jobs. It is taken twice for each piece, which takes a disk far longer
 * than that. */
#include "base/reader.h"

#include <pthread.h>

#include "base/assert.h"
#include "base/signals.h"

typedef struct job_queue {
    reader_job *first, *last;
} job_queue;

struct reader {
    const weft_allocator *allocator; /* borrowed, as files */
    const io *files;
    pthread_mutex_t lock;
    pthread_cond_t work;    /* something was queued, or the end */
    pthread_cond_t done;    /* a job is done */
    job_queue urgent, rest; /* jobs with pieces that nobody reads yet */
    bool ends;
    uint64_t n_bytes;
    weft_error error; /* of the last failure */
    uint32_t n_threads;
    pthread_t threads[READER_THREADS];
};

/* A part of a job's range. */
typedef struct piece {
    reader_job *job;
    const io_file *file;
    uint64_t offset;
    unsigned char *to;
    size_t n_bytes, n_least;
} piece;

static void lock_take(reader *r)
{
    int code = pthread_mutex_lock(&r->lock);
    ASSERT(code == 0);
}

static void lock_drop(reader *r)
{
    int code = pthread_mutex_unlock(&r->lock);
    ASSERT(code == 0);
}

/* ---- queues; the lock is held ---------------------------------------------------------------- */

static job_queue *queue_of(reader *r, const reader_job *job)
{
    return job->urgent ? &r->urgent : &r->rest;
}

static void queue_add(reader *r, reader_job *job)
{
    job_queue *q = queue_of(r, job);
    job->next = NULL;
    if (q->last != NULL) q->last->next = job;
    if (q->last == NULL) q->first = job;
    q->last = job;
}

static void queue_remove(reader *r, reader_job *job)
{
    job_queue *q = queue_of(r, job);
    reader_job *before = NULL;
    for (reader_job *at = q->first; at != job; at = at->next) before = at;
    if (before == NULL) q->first = job->next;
    if (before != NULL) before->next = job->next;
    if (q->last == job) q->last = before;
}

/* The next piece there is. A job leaves its queue with the last of them, or when one failed. */
static bool take_piece(reader *r, piece *p)
{
    reader_job *job = r->urgent.first != NULL ? r->urgent.first : r->rest.first;
    if (job == NULL) return false;
    const reader_range *range = &job->ranges[job->range];
    size_t left = range->n_bytes - job->at;
    size_t n = left < READER_PIECE ? left : READER_PIECE;
    *p = (piece){.job = job,
                 .file = range->file,
                 .offset = range->offset + job->at,
                 .to = range->to + job->at,
                 .n_bytes = n};
    size_t least = range->n_least > job->at ? range->n_least - job->at : 0;
    p->n_least = least < n ? least : n;
    job->at += n;
    if (job->at == range->n_bytes) {
        job->range++;
        job->at = 0;
    }
    job->n_out++;
    atomic_store_explicit(&job->state, READER_RUNS, memory_order_relaxed);
    if (job->range == job->n_ranges) queue_remove(r, job);
    return true;
}

static void end_piece(reader *r, const piece *p, weft_status status, const weft_error *error)
{
    reader_job *job = p->job;
    job->n_out--;
    if (status == WEFT_OK) {
        r->n_bytes += p->n_least;
    } else {
        if (job->range < job->n_ranges) queue_remove(r, job);
        job->range = job->n_ranges;
        job->status = status;
        r->error = *error;
    }
    if (job->range < job->n_ranges || job->n_out > 0) return;
    atomic_store_explicit(&job->state, READER_DONE, memory_order_release);
    pthread_cond_broadcast(&r->done);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *reader_main(void *user)
{
    reader *r = user;
    lock_take(r);
    while (!r->ends) {
        piece p;
        if (!take_piece(r, &p)) {
            pthread_cond_wait(&r->work, &r->lock);
            continue;
        }
        lock_drop(r);
        weft_error error = {WEFT_OK, ""};
        weft_status status =
            r->files->read_blocks(r->files, p.file, p.offset, p.to, p.n_bytes, p.n_least, &error);
        lock_take(r);
        end_piece(r, &p, status, &error);
    }
    lock_drop(r);
    return NULL;
}

/* The host program's signals are none of these threads' business. */
static int start_thread(reader *r)
{
    sigset_t outside;
    sigset_t before;
    signals_from_outside(&outside);
    int code = pthread_sigmask(SIG_BLOCK, &outside, &before);
    if (code != 0) return code;
    code = pthread_create(&r->threads[r->n_threads], NULL, reader_main, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

static void free_reader(reader *r)
{
    pthread_cond_destroy(&r->done);
    pthread_cond_destroy(&r->work);
    pthread_mutex_destroy(&r->lock);
    mem_free(r->allocator, r, sizeof *r);
}

weft_status reader_create(const weft_allocator *allocator, const io *files, uint32_t n_threads,
                          reader **out, weft_error *err)
{
    *out = NULL;
    ASSERT(n_threads >= 1 && n_threads <= READER_THREADS);
    reader *r = mem_alloc_zero(allocator, sizeof *r);
    if (r == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a reader");
    r->allocator = allocator;
    r->files = files;
    bool ok = pthread_mutex_init(&r->lock, NULL) == 0;
    ok = pthread_cond_init(&r->work, NULL) == 0 && ok;
    ok = pthread_cond_init(&r->done, NULL) == 0 && ok;
    if (!ok) {
        mem_free(allocator, r, sizeof *r);
        return err_set(err, WEFT_DEVICE, "the system gives no lock");
    }
    while (r->n_threads < n_threads) {
        int code = start_thread(r);
        if (code == 0) {
            r->n_threads++;
            continue;
        }
        uint32_t n = r->n_threads;
        reader_destroy(r);
        return err_set(err, WEFT_DEVICE, "the system gives %u of %u threads that read (error %d)",
                       n, n_threads, code);
    }
    *out = r;
    return WEFT_OK;
}

void reader_destroy(reader *r)
{
    if (r == NULL) return;
    lock_take(r);
    r->ends = true;
    pthread_cond_broadcast(&r->work);
    lock_drop(r);
    for (uint32_t i = 0; i < r->n_threads; i++) {
        int code = pthread_join(r->threads[i], NULL);
        ASSERT(code == 0);
    }
    free_reader(r);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

void reader_submit(reader *r, reader_job *job, bool urgent)
{
    ASSERT(job->n_ranges > 0 && job->n_ranges <= READER_RANGES);
    job->range = job->n_out = 0;
    job->at = 0;
    job->urgent = urgent;
    job->status = WEFT_OK;
    atomic_store_explicit(&job->state, READER_WAITS, memory_order_relaxed);
    lock_take(r);
    queue_add(r, job);
    pthread_cond_broadcast(&r->work);
    lock_drop(r);
}

void reader_hurry(reader *r, reader_job *job)
{
    lock_take(r);
    bool queued = atomic_load_explicit(&job->state, memory_order_relaxed) != READER_DONE &&
                  job->range < job->n_ranges;
    if (queued && !job->urgent) {
        queue_remove(r, job);
        job->urgent = true;
        queue_add(r, job);
    }
    lock_drop(r);
}

bool reader_drop(reader *r, reader_job *job)
{
    lock_take(r);
    bool waits = atomic_load_explicit(&job->state, memory_order_relaxed) == READER_WAITS;
    if (waits) {
        queue_remove(r, job);
        atomic_store_explicit(&job->state, READER_IDLE, memory_order_relaxed);
    }
    lock_drop(r);
    return waits;
}

weft_status reader_wait(reader *r, reader_job *job, weft_error *err)
{
    if (reader_is_done(job) && job->status == WEFT_OK) return WEFT_OK;
    lock_take(r);
    while (!reader_is_done(job)) pthread_cond_wait(&r->done, &r->lock);
    weft_status status = job->status;
    if (status != WEFT_OK) err_set(err, status, "%s", r->error.message);
    lock_drop(r);
    return status;
}

uint64_t reader_bytes(reader *r)
{
    lock_take(r);
    uint64_t n = r->n_bytes;
    lock_drop(r);
    return n;
}
