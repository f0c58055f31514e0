/* test_mem.c - the system allocator and checked sizes. */
#include "base/mem.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "support/fault.h"

static void test_system(void **state)
{
    (void)state;
    const weft_allocator *a = mem_system();
    for (size_t align = 1; align <= 4096; align *= 2) {
        unsigned char *ptr = a->resize(a->user, NULL, 0, 100, align);
        assert_non_null(ptr);
        assert_int_equal((uintptr_t)ptr % align, 0);
        for (unsigned char i = 0; i < 100; i++) ptr[i] = i;
        ptr = a->resize(a->user, ptr, 100, 5000, align);
        assert_non_null(ptr);
        assert_int_equal((uintptr_t)ptr % align, 0);
        ptr = a->resize(a->user, ptr, 5000, 60, align);
        assert_non_null(ptr);
        for (unsigned char i = 0; i < 60; i++) assert_int_equal(ptr[i], i);
        /* Refused: the old block stays. */
        assert_null(a->resize(a->user, ptr, 60, SIZE_MAX - align / 2, align));
        assert_int_equal(ptr[59], 59);
        assert_null(a->resize(a->user, ptr, 60, 0, align));
    }
    assert_null(a->resize(a->user, NULL, 0, 0, 64));
}

static void test_helpers(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    const weft_allocator *a = &fault.allocator;
    assert_null(mem_alloc(a, 0));
    assert_null(mem_alloc_zero(a, 0));
    assert_int_equal(fault.n_allocations, 0);
    unsigned char *ptr = mem_alloc_zero(a, 33);
    for (size_t i = 0; i < 33; i++) assert_int_equal(ptr[i], 0);
    ptr = mem_resize(a, ptr, 33, 50);
    assert_non_null(ptr);
    assert_int_equal(ptr[32], 0);
    mem_free(a, ptr, 50);
    mem_free(a, NULL, 50);
    ptr = mem_resize(a, NULL, 77, 10);
    assert_non_null(ptr);
    mem_free(a, ptr, 10);
    fault_allocator_check(&fault);
    fault_allocator_init(&fault, 1);
    assert_null(mem_alloc_zero(a, 10));
}

/* What the kernel says in another place. */
static void test_of_machine(void **state)
{
    (void)state;
    FILE *f = fopen("/proc/meminfo", "r");
    assert_non_null(f);
    unsigned long long kib = 0;
    assert_int_equal(fscanf(f, "MemTotal: %llu kB", &kib), 1);
    fclose(f);
    assert_int_equal(mem_of_machine(), kib * 1024);
}

static void overflow(void *user)
{
    *(size_t *)user = size_align(SIZE_MAX - 62, 64);
}

static void test_sizes(void **state)
{
    (void)state;
    size_t n;
    assert_true(size_mul(6, 7, &n));
    assert_int_equal(n, 42);
    assert_true(size_mul(SIZE_MAX, 1, &n));
    assert_true(size_mul(SIZE_MAX, 0, &n));
    assert_int_equal(n, 0);
    assert_false(size_mul((size_t)1 << 32, (size_t)1 << 32, &n));
    assert_false(size_mul(SIZE_MAX, 2, &n));
    assert_true(size_add(SIZE_MAX - 1, 1, &n));
    assert_true(n == SIZE_MAX);
    assert_false(size_add(SIZE_MAX, 1, &n));
    assert_int_equal(size_align(0, 64), 0);
    assert_int_equal(size_align(1, 64), 64);
    assert_int_equal(size_align(64, 64), 64);
    assert_int_equal(size_align(65, 1), 65);
    assert_true(size_align(SIZE_MAX - 63, 64) == SIZE_MAX - 63);
    assert_true(test_traps(overflow, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_helpers),
        cmocka_unit_test(test_of_machine),
        cmocka_unit_test(test_sizes),
    };
    return TEST_RUN("base/mem", tests);
}
