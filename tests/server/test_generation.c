/* test_generation.c - what requests may keep, one and all together. The life of a request is in
 * test_apis.py and test_hostile.py. */
#include "server/generation.h"
#include "support/test.h"

#include <string.h>

#include "server/request_world.h"

static request_world world;

static int open_world(void **state)
{
    (void)state;
    request_world_open(&world);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    request_world_close(&world);
    return 0;
}

static void test_one(void **state)
{
    (void)state;
    generation g;
    request_world_begin(&world, &g);
    world.server.n_kept = 0;
    assert_true(generation_keep(&g, GENERATION_KEPT_BYTES - 1));
    assert_true(generation_keep(&g, 1));
    assert_false(generation_keep(&g, 1));
    assert_int_equal(g.err.status, WEFT_LIMIT);
    assert_non_null(strstr(g.err.message, "67108864"));
    request_world_end(&g);
}

/* Others have what there is: it is not this one's fault. */
static void test_all(void **state)
{
    (void)state;
    generation g;
    request_world_begin(&world, &g);
    world.server.n_kept = GENERATION_ALL_KEPT_BYTES - 10;
    assert_true(generation_keep(&g, 10));
    assert_false(generation_keep(&g, 1));
    assert_int_equal(g.err.status, WEFT_NOMEM);
    assert_int_equal(g.n_kept, 11);
    assert_int_equal(world.server.n_kept, GENERATION_ALL_KEPT_BYTES + 1);
    request_world_end(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one), cmocka_unit_test(test_all)};
    return cmocka_run_group_tests_name("server/generation", tests, open_world, close_world);
}
