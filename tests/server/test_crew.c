/* test_crew.c - jobs are begun in order, done in other threads, and none is forgotten. */
#include "server/crew.h"
#include "support/test.h"

enum { JOBS = 500, THREADS = 2 };

typedef struct world world;

typedef struct numbered {
    crew_job job;
    world *world;
    uint32_t i;
    uint32_t begun; /* as which one */
    int priority;
} numbered;

struct world {
    uv_loop_t loop;
    uv_thread_t thread; /* of the loop */
    crew *crew;
    numbered jobs[JOBS];
    uint32_t n_begun; /* atomic */
    uint32_t n_done;
    uint32_t n_wanted; /* then the crew is closed */
};

static void work(crew_job *job)
{
    numbered *n = (numbered *)(void *)job;
    uv_thread_t self = uv_thread_self();
    n->begun = __atomic_fetch_add(&n->world->n_begun, 1, __ATOMIC_SEQ_CST);
    assert_false(uv_thread_equal(&self, &n->world->thread));
    assert_int_equal(uv_os_getpriority(0, &n->priority), 0);
}

static void after(crew_job *job)
{
    numbered *n = (numbered *)(void *)job;
    world *w = n->world;
    uv_thread_t self = uv_thread_self();
    assert_true(uv_thread_equal(&self, &w->thread));
    w->n_done++;
    if (w->n_done == w->n_wanted) crew_close(w->crew);
}

static void open_world(world *w, uint32_t n_threads, uint32_t n_wanted)
{
    *w = (world){.thread = uv_thread_self(), .n_wanted = n_wanted};
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(crew_create(&w->loop, n_threads, &w->crew, NULL), WEFT_OK);
    for (uint32_t i = 0; i < JOBS; i++)
        w->jobs[i] = (numbered){.job = {.work = work, .after = after}, .world = w, .i = i};
}

static void close_world(world *w)
{
    assert_int_equal(uv_run(&w->loop, UV_RUN_DEFAULT), 0);
    crew_destroy(w->crew);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

static world w;

static void test_order(void **state)
{
    (void)state;
    int mine = 0;
    assert_int_equal(uv_os_getpriority(0, &mine), 0);
    open_world(&w, 1, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) assert_true(crew_run(w.crew, &w.jobs[i].job));
    close_world(&w);
    assert_int_equal(w.n_done, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(w.jobs[i].begun, i);
        assert_true(w.jobs[i].priority > mine || mine == UV_PRIORITY_LOW);
    }
    int still = 0;
    assert_int_equal(uv_os_getpriority(0, &still), 0);
    assert_int_equal(still, mine);
}

static void test_several(void **state)
{
    (void)state;
    open_world(&w, THREADS, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) assert_true(crew_run(w.crew, &w.jobs[i].job));
    close_world(&w);
    assert_int_equal(w.n_done, JOBS);
    assert_int_equal(w.n_begun, JOBS);
}

/* Closed while jobs wait: they are done, and told of. */
static void test_the_end(void **state)
{
    (void)state;
    open_world(&w, THREADS, 0);
    for (uint32_t i = 0; i < JOBS; i++) assert_true(crew_run(w.crew, &w.jobs[i].job));
    crew_close(w.crew);
    assert_int_equal(w.n_done, JOBS);
    close_world(&w);
    /* One that nobody ever asked for anything. */
    open_world(&w, THREADS, 0);
    crew_close(w.crew);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_several),
                                       cmocka_unit_test(test_the_end)};
    return TEST_RUN("server/crew", tests);
}
