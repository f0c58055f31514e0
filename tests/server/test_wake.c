/* test_wake.c - whatever is told from another thread is followed by a call. */
#include "server/wake.h"
#include "support/test.h"

enum { TELLS = 20000 };

typedef struct world {
    uv_loop_t loop;
    wake wake;
    uint32_t n_told; /* atomic: by the other thread, before each tell */
    uint32_t n_seen; /* of these, by the last call */
    uint32_t n_calls;
} world;

static void on_call(void *user)
{
    world *w = user;
    w->n_calls++;
    w->n_seen = __atomic_load_n(&w->n_told, __ATOMIC_SEQ_CST);
    if (w->n_seen == TELLS) wake_close(&w->wake);
}

static void tell_all(void *user)
{
    world *w = user;
    for (uint32_t i = 0; i < TELLS; i++) {
        __atomic_add_fetch(&w->n_told, 1, __ATOMIC_SEQ_CST);
        wake_tell(&w->wake);
    }
}

/* The loop ends, so the last one was seen. */
static void test_none_is_lost(void **state)
{
    (void)state;
    world w = {.n_told = 0};
    uv_thread_t thread;
    assert_int_equal(uv_loop_init(&w.loop), 0);
    assert_int_equal(wake_open(&w.wake, &w.loop, on_call, &w, NULL), WEFT_OK);
    assert_int_equal(uv_thread_create(&thread, tell_all, &w), 0);
    assert_int_equal(uv_run(&w.loop, UV_RUN_DEFAULT), 0);
    uv_thread_join(&thread);
    assert_int_equal(w.n_seen, TELLS);
    assert_true(w.n_calls >= 1 && w.n_calls <= TELLS);
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

/* As many tells as there may be, one call. */
static void test_many_are_one(void **state)
{
    (void)state;
    world w = {.n_told = TELLS};
    assert_int_equal(uv_loop_init(&w.loop), 0);
    assert_int_equal(wake_open(&w.wake, &w.loop, on_call, &w, NULL), WEFT_OK);
    for (int i = 0; i < 3; i++) wake_tell(&w.wake);
    assert_int_equal(uv_run(&w.loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(w.n_calls, 1);
    wake_close(&w.wake);
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_none_is_lost),
                                       cmocka_unit_test(test_many_are_one)};
    return TEST_RUN("server/wake", tests);
}
