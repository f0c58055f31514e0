/* test_fleet.c - models by name. What loading them does is looked at in test_hostile.py. */
#include "server/fleet.h"
#include "support/test.h"

static void check_names(const char *second, uint32_t default_i)
{
    uv_loop_t loop;
    fleet *f;
    const server_model models[] = {{"a", "/nowhere"}, {second, "/nowhere"}};
    const server_options options = {.models = models, .n_models = 2};
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(fleet_create(&loop, &options, &f, NULL), WEFT_OK);
    assert_int_equal(fleet_size(f), 2);
    assert_ptr_equal(fleet_find(f, str_of("")), fleet_at(f, 0));
    assert_ptr_equal(fleet_find(f, str_of("a")), fleet_at(f, 0));
    assert_ptr_equal(fleet_find(f, str_of(second)), fleet_at(f, 1));
    assert_ptr_equal(fleet_find(f, str_of("default")), fleet_at(f, default_i));
    assert_null(fleet_find(f, str_of("A")));
    fleet_close(f);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    fleet_destroy(f);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_names(void **state)
{
    (void)state;
    check_names("b", 0);
    /* A model that is called so is no other. */
    check_names("default", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return TEST_RUN("server/fleet", tests);
}
