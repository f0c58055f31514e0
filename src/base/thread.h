/* thread.h - a pool of threads that run one function together, and the barrier between its phases.
 *
 * Between phases threads spin for some tens of microseconds, then sleep on a futex: a step of a
 * small model has hundreds of phases and a sleeping barrier would cost more than the work. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include "base/err.h"
#include "base/mem.h"

typedef struct thread_pool thread_pool;

/* n_threads in 1..256, the calling thread of thread_pool_run included. NOMEM, LIMIT, or DEVICE
 * when the system gives no thread. */
weft_status thread_pool_create(const weft_allocator *allocator, uint32_t n_threads,
                               thread_pool **pool, weft_error *err);
void thread_pool_destroy(thread_pool *pool);

uint32_t thread_pool_size(const thread_pool *pool);

/* Runs work(user, thread_i) for thread_i in 0..size-1, the caller being 0; returns when all have.
 * Not re-entrant, one caller at a time. */
void thread_pool_run(thread_pool *pool, void (*work)(void *user, uint32_t thread_i), void *user);

/* Called by every thread inside work: returns when all have called it. What was written before is
 * visible after. */
void thread_pool_barrier(thread_pool *pool, uint32_t thread_i);

/* Processors this process may use, at least 1. */
uint32_t thread_available(void);

/* A plain lock. */
typedef struct thread_lock thread_lock;
weft_status thread_lock_create(const weft_allocator *allocator, thread_lock **lock,
                               weft_error *err);
void thread_lock_destroy(thread_lock *lock);
void thread_lock_take(thread_lock *lock);
void thread_lock_drop(thread_lock *lock);

#endif
