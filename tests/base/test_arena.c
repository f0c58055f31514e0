/* test_arena.c - cleared, aligned, separate pieces; the limit; everything freed at once. */
#include "base/arena.h"
#include "support/test.h"

#include <string.h>

#include "base/rng.h"
#include "support/fault.h"

enum { N_PIECES = 2000 };

static void test_pieces(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    arena a;
    arena_init(&a, &fault.allocator, 0);
    assert_int_equal(fault.n_allocations, 0);
    static unsigned char *pieces[N_PIECES];
    static size_t sizes[N_PIECES];
    for (size_t i = 0; i < N_PIECES; i++) {
        sizes[i] = (size_t)(rng_u64(1, i) % (i % 100 == 0 ? 100000 : 200));
        pieces[i] = arena_alloc(&a, sizes[i]);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(pieces[i][k], 0);
        memset(pieces[i], (int)(i % 251), sizes[i]);
    }
    for (size_t i = 0; i < N_PIECES; i++) {
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(pieces[i][k], i % 251);
    }
    assert_int_equal(a.taken, fault.live_bytes);
    assert_true(fault.n_allocations < 40);
    arena_deinit(&a);
    fault_allocator_check(&fault);
    arena_deinit(&a);
    assert_non_null(arena_alloc(&a, 1));
    arena_deinit(&a);
    fault_allocator_check(&fault);
}

static void test_limit(void **state)
{
    (void)state;
    static const size_t LIMITS[] = {1, 48, 100, 5000, 12096, 100000, 5000000};
    for (size_t k = 0; k < sizeof LIMITS / sizeof LIMITS[0]; k++) {
        fault_allocator fault;
        fault_allocator_init(&fault, 0);
        arena a;
        arena_init(&a, &fault.allocator, LIMITS[k]);
        size_t n = 0;
        while (arena_alloc(&a, 40) != NULL) n++;
        assert_true(fault.live_bytes <= LIMITS[k]);
        /* Most of the limit is usable. */
        assert_true(n * 48 + 4096 + LIMITS[k] / 50 >= LIMITS[k]);
        assert_null(arena_alloc(&a, LIMITS[k]));
        arena_deinit(&a);
        fault_allocator_check(&fault);
    }
}

static void test_overflow(void **state)
{
    (void)state;
    arena a;
    arena_init(&a, mem_system(), 0);
    for (size_t less = 0; less < 100; less++) assert_null(arena_alloc(&a, SIZE_MAX - less));
    assert_null(arena_array(&a, (size_t)1 << 33, (size_t)1 << 33));
    assert_null(arena_copy_text(&a, "x", SIZE_MAX));
    assert_non_null(arena_array(&a, 3, 5));
    assert_non_null(arena_array(&a, 0, 5));
    assert_ptr_not_equal(arena_alloc(&a, 0), arena_alloc(&a, 0));
    assert_string_equal(arena_copy_text(&a, "abcdef", 3), "abc");
    assert_string_equal(arena_copy_text(&a, NULL, 0), "");
    arena_deinit(&a);
}

static weft_status use(const env *world, void *user, weft_error *err)
{
    (void)user;
    arena a;
    arena_init(&a, world->allocator, 0);
    bool ok = true;
    for (size_t i = 0; i < 100 && ok; i++) ok = arena_alloc(&a, i * 10) != NULL;
    /* A refused block leaves the arena usable. */
    if (!ok) assert_non_null(arena_alloc(&a, 100));
    arena_deinit(&a);
    return ok ? WEFT_OK : err_set(err, WEFT_NOMEM, "out of memory");
}

static void test_sweep(void **state)
{
    (void)state;
    assert_true(fault_sweep(use, NULL) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_sweep),
    };
    return TEST_RUN("base/arena", tests);
}
