/* test_thread.c - the pool runs everybody, its barrier holds everybody, and memory is visible
 * after it. Meant to run under ThreadSanitizer too. */
#include "base/thread.h"
#include "support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "support/fault.h"

enum { MOST = 64 };

typedef struct counts {
    thread_pool *pool;
    uint32_t n_threads;
    uint32_t runs[MOST]; /* each written by its own thread only */
    uint32_t n_phases;
    uint32_t cells[2][MOST]; /* the phase in which a thread was last, by parity */
    atomic_uint n_wrong;
} counts;

static void count_run(void *user, uint32_t thread_i)
{
    counts *c = user;
    c->runs[thread_i]++;
}

static void test_everybody_runs(void **state)
{
    (void)state;
    static const uint32_t SIZES[] = {1, 2, 3, 8, 33};
    for (size_t s = 0; s < sizeof SIZES / sizeof SIZES[0]; s++) {
        counts c = {.n_threads = SIZES[s]};
        weft_error err = {0};
        assert_ok(thread_pool_create(mem_system(), SIZES[s], &c.pool, &err), &err);
        assert_int_equal(thread_pool_size(c.pool), SIZES[s]);
        for (uint32_t run = 1; run <= 200; run++) {
            thread_pool_run(c.pool, count_run, &c);
            for (uint32_t i = 0; i < SIZES[s]; i++) assert_int_equal(c.runs[i], run);
        }
        thread_pool_destroy(c.pool);
    }
}

/* Each phase writes its own cell and, behind the barrier, reads all others: plain memory, so that
 * a barrier that lets somebody through early is a data race, and a stale value is counted. */
static void phases(void *user, uint32_t thread_i)
{
    counts *c = user;
    for (uint32_t phase = 1; phase <= c->n_phases; phase++) {
        c->cells[phase & 1][thread_i] = phase;
        thread_pool_barrier(c->pool, thread_i);
        for (uint32_t i = 0; i < c->n_threads; i++) {
            if (c->cells[phase & 1][i] != phase) atomic_fetch_add(&c->n_wrong, 1);
        }
    }
}

static void check_barrier(uint32_t n_threads, uint32_t n_runs, uint32_t n_phases)
{
    counts c = {.n_threads = n_threads, .n_phases = n_phases};
    assert_ok(thread_pool_create(mem_system(), n_threads, &c.pool, NULL), NULL);
    for (uint32_t run = 0; run < n_runs; run++) thread_pool_run(c.pool, phases, &c);
    thread_pool_destroy(c.pool);
    assert_int_equal(c.n_wrong, 0);
    for (uint32_t i = 0; i < n_threads; i++) assert_int_equal(c.cells[n_phases & 1][i], n_phases);
}

static void test_barrier(void **state)
{
    (void)state;
    check_barrier(1, 10, 10);
    check_barrier(2, 50, 200);
    check_barrier(3, 20, 50);
}

/* More threads than processors: whoever is waited for must get a processor. */
static void test_barrier_crowded(void **state)
{
    (void)state;
    uint32_t n_threads = thread_available() * 4;
    if (n_threads > MOST) n_threads = MOST;
    check_barrier(n_threads, 5, 100);
}

static void sleep_ms(long ms)
{
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

/* Threads in turn come so late that the others have gone to sleep. */
static void late_phases(void *user, uint32_t thread_i)
{
    counts *c = user;
    for (uint32_t phase = 1; phase <= c->n_phases; phase++) {
        if (phase % c->n_threads == thread_i) sleep_ms(2);
        c->cells[phase & 1][thread_i] = phase;
        thread_pool_barrier(c->pool, thread_i);
        for (uint32_t i = 0; i < c->n_threads; i++) {
            if (c->cells[phase & 1][i] != phase) atomic_fetch_add(&c->n_wrong, 1);
        }
    }
}

static void test_sleepers_wake(void **state)
{
    (void)state;
    for (uint32_t n_threads = 2; n_threads <= 5; n_threads++) {
        counts c = {.n_threads = n_threads, .n_phases = 10};
        assert_ok(thread_pool_create(mem_system(), n_threads, &c.pool, NULL), NULL);
        for (uint32_t run = 0; run < 5; run++) {
            thread_pool_run(c.pool, late_phases, &c);
            sleep_ms(2);
        }
        thread_pool_destroy(c.pool);
        assert_int_equal(c.n_wrong, 0);
    }
}

static void test_unused_pool_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        thread_pool *pool;
        assert_ok(thread_pool_create(mem_system(), 4, &pool, NULL), NULL);
        thread_pool_destroy(pool);
    }
    thread_pool_destroy(NULL);
}

static void test_limits(void **state)
{
    (void)state;
    static const uint32_t SIZES[] = {0, 257, UINT32_MAX};
    for (size_t s = 0; s < sizeof SIZES / sizeof SIZES[0]; s++) {
        int something = 0;
        thread_pool *pool = (thread_pool *)(void *)&something;
        weft_error err = {0};
        assert_status(WEFT_LIMIT, thread_pool_create(mem_system(), SIZES[s], &pool, &err), &err);
        assert_null(pool);
        assert_message(&err, "256");
    }
    thread_pool *pool;
    assert_ok(thread_pool_create(mem_system(), 256, &pool, NULL), NULL);
    thread_pool_destroy(pool);
    assert_true(thread_available() >= 1);
}

/* Two pools and a lock: pools share nothing, and the lock keeps a plain counter whole. */
typedef struct shared {
    thread_pool *pool;
    thread_lock *lock;
    uint32_t *counter;
} shared;

static void add_locked(void *user, uint32_t thread_i)
{
    shared *s = user;
    for (int i = 0; i < 500; i++) {
        thread_lock_take(s->lock);
        ++*s->counter;
        thread_lock_drop(s->lock);
        if (i % 100 == 0) thread_pool_barrier(s->pool, thread_i);
    }
}

static void *run_pool(void *user)
{
    shared *s = user;
    thread_pool_run(s->pool, add_locked, s);
    return NULL;
}

static void test_two_pools_and_a_lock(void **state)
{
    (void)state;
    uint32_t counter = 0;
    thread_lock *lock;
    assert_ok(thread_lock_create(mem_system(), &lock, NULL), NULL);
    shared a = {.lock = lock, .counter = &counter};
    shared b = a;
    assert_ok(thread_pool_create(mem_system(), 3, &a.pool, NULL), NULL);
    assert_ok(thread_pool_create(mem_system(), 2, &b.pool, NULL), NULL);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, run_pool, &b), 0);
    run_pool(&a);
    pthread_join(other, NULL);
    assert_int_equal(counter, 5 * 500);
    thread_pool_destroy(a.pool);
    thread_pool_destroy(b.pool);
    thread_lock_destroy(lock);
    thread_lock_destroy(NULL);
}

static weft_status create_all(const env *world, void *user, weft_error *err)
{
    (void)user;
    thread_lock *lock;
    weft_status status = thread_lock_create(world->allocator, &lock, err);
    if (status != WEFT_OK) return status;
    thread_pool *pool;
    status = thread_pool_create(world->allocator, 3, &pool, err);
    counts c = {.n_threads = 3};
    if (status == WEFT_OK) thread_pool_run(pool, count_run, &c);
    thread_pool_destroy(pool);
    thread_lock_destroy(lock);
    return status;
}

static void test_sweep(void **state)
{
    (void)state;
    assert_int_equal(fault_sweep(create_all, NULL), 2);
}

static void look_at_signals(void *user, uint32_t thread_i)
{
    atomic_uint *n_wrong = user;
    sigset_t blocked;
    if (thread_i == 0) return; /* the host's own */
    bool ok = pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0;
    ok = ok && sigismember(&blocked, SIGINT) == 1 && sigismember(&blocked, SIGTERM) == 1;
    ok = ok && sigismember(&blocked, SIGBUS) == 0 && sigismember(&blocked, SIGSEGV) == 0;
    if (!ok) atomic_fetch_add(n_wrong, 1);
}

/* A fault in a worker reaches the host's handler, a request to end never a worker. */
static void test_signals(void **state)
{
    (void)state;
    atomic_uint n_wrong = 0;
    thread_pool *pool;
    weft_error err = {0};
    assert_ok(thread_pool_create(mem_system(), 4, &pool, &err), &err);
    thread_pool_run(pool, look_at_signals, &n_wrong);
    thread_pool_destroy(pool);
    assert_int_equal(atomic_load(&n_wrong), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_runs),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_barrier_crowded),
        cmocka_unit_test(test_sleepers_wake),
        cmocka_unit_test(test_unused_pool_ends),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_two_pools_and_a_lock),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_signals),
    };
    return TEST_RUN("base/thread", tests);
}
