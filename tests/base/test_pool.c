/* test_pool.c - objects of one size. */
#include "base/pool.h"
#include "support/test.h"

#include <string.h>

#include "support/fault.h"

static void test_take_and_give(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    pool p;
    weft_error err = {0};
    assert_ok(pool_init(&p, &fault.allocator, 65, 10, &err), &err);
    assert_int_equal(p.stride, 128);
    fault.armed = true;
    unsigned char *objects[10];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++) {
            objects[i] = pool_take(&p);
            assert_non_null(objects[i]);
            assert_int_equal((uintptr_t)objects[i] % 64, 0);
            memset(objects[i], i, 65);
        }
        assert_null(pool_take(&p));
        for (int i = 0; i < 10; i++) {
            assert_int_equal(objects[i][0], i);
            assert_int_equal(objects[i][64], i);
        }
        /* In another order each round. */
        for (int i = 0; i < 10; i++) pool_give(&p, objects[(i * 3 + round) % 10]);
        assert_int_equal(p.n_free, 10);
    }
    void *first = pool_take(&p);
    pool_give(&p, first);
    assert_ptr_equal(pool_take(&p), first);
    fault.armed = false;
    pool_deinit(&p);
    pool_deinit(&p);
    fault_allocator_check(&fault);
}

static void test_sizes(void **state)
{
    (void)state;
    pool p;
    assert_ok(pool_init(&p, mem_system(), 0, 2, NULL), NULL);
    assert_int_equal(p.stride, 64);
    assert_ptr_not_equal(pool_take(&p), pool_take(&p));
    pool_deinit(&p);
    assert_ok(pool_init(&p, mem_system(), 64, 0, NULL), NULL);
    assert_null(pool_take(&p));
    pool_deinit(&p);
    static const size_t SIZES[] = {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2};
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        weft_error err = {0};
        assert_status(WEFT_LIMIT, pool_init(&p, mem_system(), SIZES[i], 3, &err), &err);
        assert_null(pool_take(&p));
        pool_deinit(&p);
    }
}

typedef struct gift {
    pool *p;
    void *object;
} gift;

static void give(void *user)
{
    gift *g = user;
    pool_give(g->p, g->object);
}

static void test_wrong_gifts_trap(void **state)
{
    (void)state;
    pool p;
    assert_ok(pool_init(&p, mem_system(), 64, 2, NULL), NULL);
    unsigned char *object = pool_take(&p);
    int other = 0;
    assert_true(test_traps(give, &(gift){&p, object + 1}));
    assert_true(test_traps(give, &(gift){&p, object + 128}));
    assert_true(test_traps(give, &(gift){&p, &other}));
    assert_true(test_traps(give, &(gift){&p, NULL}));
    assert_false(test_traps(give, &(gift){&p, object}));
    pool_give(&p, object);
    assert_true(test_traps(give, &(gift){&p, object}));
    pool_deinit(&p);
}

static weft_status use(const env *world, void *user, weft_error *err)
{
    (void)user;
    pool p;
    weft_status status = pool_init(&p, world->allocator, 100, 3, err);
    if (status == WEFT_OK) pool_give(&p, pool_take(&p));
    assert_true(status == WEFT_OK || pool_take(&p) == NULL);
    pool_deinit(&p);
    return status;
}

static void test_sweep(void **state)
{
    (void)state;
    assert_int_equal(fault_sweep(use, NULL), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_and_give),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_wrong_gifts_trap),
        cmocka_unit_test(test_sweep),
    };
    return TEST_RUN("base/pool", tests);
}
