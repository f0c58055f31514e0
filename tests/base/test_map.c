/* test_map.c - the hash map against a plain array. */
#include "base/map.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "support/fault.h"

enum { N_NAMES = 500 };

static char names[N_NAMES][16];

static void make_names(void)
{
    for (size_t i = 0; i < N_NAMES; i++) snprintf(names[i], sizeof names[i], "key %zu", i * i);
}

static void test_against_array(void **state)
{
    (void)state;
    make_names();
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    map m;
    assert_ok(map_init(&m, &fault.allocator, 0, NULL), NULL);
    uint32_t model[N_NAMES];
    for (size_t i = 0; i < N_NAMES; i++) model[i] = MAP_NONE;
    size_t n_keys = 0;
    for (uint64_t step = 0; step < 5000; step++) {
        size_t k = (size_t)(rng_u64(2, step) % N_NAMES);
        assert_int_equal(map_get(&m, str_of(names[k])), model[k]);
        if (step % 2 == 0) continue;
        uint32_t previous = 7;
        assert_ok(map_put(&m, str_of(names[k]), (uint32_t)step, &previous, NULL), NULL);
        assert_int_equal(previous, model[k]);
        if (model[k] == MAP_NONE) n_keys++;
        model[k] = (uint32_t)step;
        assert_int_equal(m.n_keys, n_keys);
        assert_true(m.n_keys * 2 <= m.n_slots);
    }
    for (size_t i = 0; i < N_NAMES; i++) assert_int_equal(map_get(&m, str_of(names[i])), model[i]);
    assert_int_equal(map_get(&m, str_of("key")), MAP_NONE);
    map_deinit(&m);
    assert_int_equal(map_get(&m, str_of("key 0")), MAP_NONE);
    map_deinit(&m);
    fault_allocator_check(&fault);
}

static void test_odd_keys(void **state)
{
    (void)state;
    map m;
    assert_ok(map_init(&m, mem_system(), 4, NULL), NULL);
    uint32_t previous;
    assert_int_equal(map_get(&m, (str){NULL, 0}), MAP_NONE);
    assert_ok(map_put(&m, (str){NULL, 0}, 1, NULL, NULL), NULL);
    assert_ok(map_put(&m, (str){"", 0}, 2, &previous, NULL), NULL);
    assert_int_equal(previous, 1);
    assert_ok(map_put(&m, (str){NULL, 0}, 3, &previous, NULL), NULL);
    assert_int_equal(previous, 2);
    assert_ok(map_put(&m, (str){"a\0b", 3}, 4, NULL, NULL), NULL);
    assert_ok(map_put(&m, (str){"a\0c", 3}, 0, NULL, NULL), NULL);
    assert_int_equal(map_get(&m, (str){"a\0b", 3}), 4);
    assert_int_equal(map_get(&m, (str){"a\0c", 3}), 0);
    assert_int_equal(map_get(&m, (str){"a", 1}), MAP_NONE);
    map_deinit(&m);
}

static void put_none(void *user)
{
    map_put(user, str_of("a"), MAP_NONE, NULL, NULL);
}

static void test_sizes(void **state)
{
    (void)state;
    make_names();
    map m;
    weft_error err = {0};
    assert_status(WEFT_LIMIT, map_init(&m, mem_system(), SIZE_MAX, &err), &err);
    map_deinit(&m);
    err_clear(&err);
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    fault.largest = 1 << 20;
    assert_status(WEFT_NOMEM, map_init(&m, &fault.allocator, SIZE_MAX / 64, &err), &err);
    map_deinit(&m);
    /* Room for n means no growing before n + 1. */
    for (size_t n = 1; n < N_NAMES; n = n * 2 + 1) {
        fault_allocator_init(&fault, 0);
        assert_ok(map_init(&m, &fault.allocator, n, NULL), NULL);
        fault.armed = true;
        for (size_t i = 0; i < n; i++) map_put(&m, str_of(names[i]), 1, NULL, NULL);
        assert_true(test_traps(put_none, &m));
        fault.armed = false;
        map_deinit(&m);
        fault_allocator_check(&fault);
    }
}

static weft_status fill(const env *world, void *user, weft_error *err)
{
    (void)user;
    map m;
    weft_status status = map_init(&m, world->allocator, 0, err);
    size_t n = 0;
    while (status == WEFT_OK && n < 100) {
        status = map_put(&m, str_of(names[n]), (uint32_t)n, NULL, err);
        if (status == WEFT_OK) n++;
    }
    /* A refused growth leaves the table as it was. */
    for (size_t i = 0; i < 100; i++) {
        uint32_t expected = i < n ? (uint32_t)i : MAP_NONE;
        assert_int_equal(map_get(&m, str_of(names[i])), expected);
    }
    map_deinit(&m);
    return status;
}

static void test_sweep(void **state)
{
    (void)state;
    make_names();
    assert_int_equal(fault_sweep(fill, NULL), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_array),
        cmocka_unit_test(test_odd_keys),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_sweep),
    };
    return TEST_RUN("base/map", tests);
}
