/* thread.c - the thread pool, its barrier, and locks.
 *
 * Everything waits in one way: on a 32-bit word that somebody will change. A waiter spins, then
 * says that it sleeps and sleeps on the word's futex; who changes the word wakes sleepers only if
 * there are any. Both sides do their two steps in opposite order and sequentially consistent, so
 * no wake-up is lost.
 *
 * Workers wait for `generation`, run the work, and meet the caller in the same barrier that the
 * work itself uses between its phases. The caller cannot start the next generation before every
 * worker has been through that barrier, so `work` and `user` are never written while a worker may
 * read them. */
#define _GNU_SOURCE /* syscall, sched_getaffinity */
#include "base/thread.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/signals.h"

enum { THREADS_MOST = 256, CACHE_LINE = 64, SPIN_NS = 30000, SPINS_PER_LOOK = 32 };

/* A word to wait on and its number of sleepers, away from other words that other threads write. */
typedef struct signal_word {
    alignas(CACHE_LINE) _Atomic uint32_t value;
    _Atomic uint32_t n_sleepers;
} signal_word;

typedef struct worker {
    thread_pool *pool;
    uint32_t thread_i;
    pthread_t thread;
} worker;

struct thread_pool {
    signal_word generation; /* one more for each run, and for the end */
    signal_word epoch;      /* one more each time that all have met in the barrier */
    alignas(CACHE_LINE) _Atomic uint32_t n_arrived;
    alignas(CACHE_LINE) void (*work)(void *user, uint32_t thread_i); /* NULL: end the thread */
    void *user;
    const weft_allocator *allocator; /* borrowed */
    uint64_t spin_ns;                /* 0 when there are more threads than processors */
    size_t n_bytes;                  /* of this block */
    uint32_t n_threads;
    bool running;
    worker workers[]; /* [n_threads]; 0 is the caller and has no thread */
};

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Returns when the word is no longer old. */
static void wait_change(signal_word *word, uint32_t old, uint64_t spin_ns)
{
    uint64_t end_ns = spin_ns == 0 ? 0 : clock_now_ns() + spin_ns;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (atomic_load_explicit(&word->value, memory_order_acquire) != old) return;
            pause_briefly();
        }
    } while (spin_ns != 0 && clock_now_ns() < end_ns);
    while (atomic_load(&word->value) == old) {
        atomic_fetch_add(&word->n_sleepers, 1);
        syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
        atomic_fetch_sub(&word->n_sleepers, 1);
    }
}

/* What was written before is visible to whoever sees the new value. */
static void change(signal_word *word, uint32_t value)
{
    atomic_store(&word->value, value);
    if (atomic_load(&word->n_sleepers) == 0) return;
    syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void thread_pool_barrier(thread_pool *pool, uint32_t thread_i)
{
    ASSERT_HOT(thread_i < pool->n_threads);
    (void)thread_i;
    if (pool->n_threads == 1) return;
    /* Read before arriving: the last to arrive may change it at once. */
    uint32_t epoch = atomic_load_explicit(&pool->epoch.value, memory_order_relaxed);
    uint32_t n_before = atomic_fetch_add_explicit(&pool->n_arrived, 1, memory_order_acq_rel);
    if (n_before + 1 < pool->n_threads) {
        wait_change(&pool->epoch, epoch, pool->spin_ns);
        return;
    }
    atomic_store_explicit(&pool->n_arrived, 0, memory_order_relaxed);
    change(&pool->epoch, epoch + 1);
}

static void *worker_main(void *argument)
{
    const worker *me = argument;
    thread_pool *pool = me->pool;
    for (uint32_t generation = 0;; generation++) {
        wait_change(&pool->generation, generation, pool->spin_ns);
        if (pool->work == NULL) return NULL;
        pool->work(pool->user, me->thread_i);
        thread_pool_barrier(pool, me->thread_i);
    }
}

static void start_generation(thread_pool *pool, void (*work)(void *user, uint32_t thread_i),
                             void *user)
{
    pool->work = work;
    pool->user = user;
    uint32_t generation = atomic_load_explicit(&pool->generation.value, memory_order_relaxed);
    change(&pool->generation, generation + 1);
}

/* The host program's signals are none of the workers' business. */
static int start_worker(worker *w)
{
    sigset_t outside;
    sigset_t before;
    signals_from_outside(&outside);
    int code = pthread_sigmask(SIG_BLOCK, &outside, &before);
    if (code != 0) return code;
    code = pthread_create(&w->thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

weft_status thread_pool_create(const weft_allocator *allocator, uint32_t n_threads,
                               thread_pool **pool, weft_error *err)
{
    *pool = NULL;
    if (n_threads == 0 || n_threads > THREADS_MOST) {
        return err_set(err, WEFT_LIMIT, "a pool of %u threads is not in 1 to %d", n_threads,
                       THREADS_MOST);
    }
    size_t n_bytes = sizeof(thread_pool) + n_threads * sizeof(worker);
    thread_pool *made = mem_alloc_zero(allocator, n_bytes);
    if (made == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a pool of %u threads", n_threads);
    made->allocator = allocator;
    made->n_bytes = n_bytes;
    made->spin_ns = n_threads > thread_available() ? 0 : SPIN_NS;
    made->n_threads = n_threads;
    for (uint32_t i = 1; i < n_threads; i++) {
        made->workers[i].pool = made;
        made->workers[i].thread_i = i;
        int code = start_worker(&made->workers[i]);
        if (code == 0) continue;
        /* Those started wait for a generation, which will be the end: none has been in the
         * barrier. */
        made->n_threads = i;
        thread_pool_destroy(made);
        return err_set(err, WEFT_DEVICE, "the system gives %u of %u threads (error %d)", i,
                       n_threads, code);
    }
    *pool = made;
    return WEFT_OK;
}

void thread_pool_destroy(thread_pool *pool)
{
    if (pool == NULL) return;
    ASSERT(!pool->running);
    start_generation(pool, NULL, NULL);
    for (uint32_t i = 1; i < pool->n_threads; i++) {
        int code = pthread_join(pool->workers[i].thread, NULL);
        ASSERT(code == 0);
    }
    mem_free(pool->allocator, pool, pool->n_bytes);
}

uint32_t thread_pool_size(const thread_pool *pool)
{
    return pool->n_threads;
}

void thread_pool_run(thread_pool *pool, void (*work)(void *user, uint32_t thread_i), void *user)
{
    ASSERT(work != NULL && !pool->running);
    pool->running = true;
    if (pool->n_threads > 1) start_generation(pool, work, user);
    work(user, 0);
    thread_pool_barrier(pool, 0);
    pool->running = false;
}

uint32_t thread_available(void)
{
    /* Of the system call's size, not of cpu_set_t's, which large machines exceed. */
    unsigned long mask[1024];
    long n_bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    uint32_t n = 0;
    for (long i = 0; i < n_bytes / (long)sizeof mask[0]; i++)
        n += (uint32_t)__builtin_popcountl(mask[i]);
    if (n != 0) return n;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

struct thread_lock {
    const weft_allocator *allocator; /* borrowed */
    pthread_mutex_t mutex;
};

weft_status thread_lock_create(const weft_allocator *allocator, thread_lock **lock, weft_error *err)
{
    *lock = NULL;
    thread_lock *made = mem_alloc(allocator, sizeof *made);
    if (made == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a lock");
    made->allocator = allocator;
    int code = pthread_mutex_init(&made->mutex, NULL);
    if (code != 0) {
        mem_free(allocator, made, sizeof *made);
        return err_set(err, WEFT_DEVICE, "the system gives no lock (error %d)", code);
    }
    *lock = made;
    return WEFT_OK;
}

void thread_lock_destroy(thread_lock *lock)
{
    if (lock == NULL) return;
    pthread_mutex_destroy(&lock->mutex);
    mem_free(lock->allocator, lock, sizeof *lock);
}

void thread_lock_take(thread_lock *lock)
{
    int code = pthread_mutex_lock(&lock->mutex);
    ASSERT(code == 0);
}

void thread_lock_drop(thread_lock *lock)
{
    int code = pthread_mutex_unlock(&lock->mutex);
    ASSERT(code == 0);
}
