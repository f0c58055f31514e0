/* test_support.c - the tools of the other tests: that they notice what they are for. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "support/compare.h"
#include "support/fault.h"

static void *take(fault_allocator *fault, size_t size)
{
    return fault->allocator.resize(fault->allocator.user, NULL, 0, size, 64);
}

static void *resize(fault_allocator *fault, void *ptr, size_t old_size, size_t new_size)
{
    return fault->allocator.resize(fault->allocator.user, ptr, old_size, new_size, 64);
}

static void test_allocator_counts(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    unsigned char *a = take(&fault, 100);
    assert_non_null(a);
    assert_int_equal((uintptr_t)a % 64, 0);
    assert_int_equal(a[99], 0xa5);
    memset(a, 7, 100);
    unsigned char *b = resize(&fault, a, 100, 300);
    assert_ptr_not_equal(a, b);
    assert_int_equal(b[99], 7);
    assert_int_equal(b[100], 0xa5);
    assert_int_equal(fault.live_blocks, 1);
    assert_int_equal(fault.live_bytes, 300);
    expect_assert_failure(fault_allocator_check(&fault));
    assert_null(resize(&fault, b, 300, 0));
    fault_allocator_check(&fault);
    assert_int_equal(fault.n_allocations, 2);
    assert_int_equal(fault.peak_bytes, 400);
}

static void test_allocator_fails_the_nth(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 2);
    unsigned char *a = take(&fault, 10);
    memset(a, 3, 10);
    assert_null(resize(&fault, a, 10, 20));
    assert_true(fault.hit);
    assert_int_equal(a[9], 3);
    a = resize(&fault, a, 10, 20);
    assert_non_null(a);
    resize(&fault, a, 20, 0);
    fault_allocator_check(&fault);

    fault_allocator_init(&fault, 0);
    fault.largest = 100;
    assert_null(take(&fault, 101));
    assert_false(fault.hit);
}

static void test_allocator_sees_wrong_sizes(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    unsigned char *a = take(&fault, 10);
    expect_assert_failure(resize(&fault, a, 11, 0));
    expect_assert_failure(resize(&fault, a, 9, 20));
    expect_assert_failure(fault.allocator.resize(fault.allocator.user, a, 10, 0, 16));
    expect_assert_failure(fault.allocator.resize(fault.allocator.user, NULL, 0, 10, 24));
    expect_assert_failure(resize(&fault, NULL, 5, 10));
    resize(&fault, a, 10, 0);
    fault_allocator_check(&fault);
}

static void test_allocator_traps_while_armed(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    void *a = take(&fault, 10);
    fault.armed = true;
    expect_assert_failure(take(&fault, 1));
    expect_assert_failure(resize(&fault, a, 10, 5));
    resize(&fault, a, 10, 0);
    fault.armed = false;
    fault_allocator_check(&fault);
}

#ifndef FAULT_ASAN
static void test_allocator_sees_guards(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    unsigned char *a = take(&fault, 10);
    volatile unsigned char *beyond = a;
    unsigned char old = beyond[10];
    beyond[10] = 0;
    expect_assert_failure(resize(&fault, a, 10, 0));
    beyond[10] = old;
    resize(&fault, a, 10, 0);
    fault_allocator_check(&fault);
}
#endif

/* Two blocks, and what goes wrong with them. */
enum { GOOD, LEAKS, SWALLOWS };

static weft_status two_blocks(const env *world, void *user, weft_error *err)
{
    int mode = *(int *)user;
    void *a = mem_alloc(world->allocator, 5);
    void *b = mem_alloc(world->allocator, 6);
    bool failed = a == NULL || b == NULL;
    mem_free(world->allocator, b, 6);
    if (!(mode == LEAKS && b == NULL)) mem_free(world->allocator, a, 5);
    if (failed && mode != SWALLOWS) return err_set(err, WEFT_NOMEM, "out of memory");
    return WEFT_OK;
}

static void test_sweep(void **state)
{
    (void)state;
    int mode = GOOD;
    assert_int_equal(fault_sweep(two_blocks, &mode), 2);
    assert_int_equal(fault_sweep_io(two_blocks, &mode), 0);
    mode = SWALLOWS;
    expect_assert_failure(fault_sweep(two_blocks, &mode));
}

#ifndef FAULT_ASAN
static void test_sweep_sees_leaks(void **state)
{
    (void)state;
    int mode = LEAKS;
    expect_assert_failure(fault_sweep(two_blocks, &mode));
}
#endif

static weft_status every_operation(const env *world, void *user, weft_error *err)
{
    test_folder *folder = user;
    const char *path = test_folder_path(folder, "file");
    const io *files = world->io;
    uint64_t size;
    char c;
    io_map map;
    char *names;
    size_t n_names;
    weft_status status = files->write(files, path, "abc", 3, err);
    if (status == WEFT_OK) status = files->size(files, path, &size, err);
    if (status == WEFT_OK) status = files->read(files, path, 1, &c, 1, err);
    if (status == WEFT_OK) status = files->map(files, path, &map, err);
    if (status != WEFT_OK) return status;
    files->unmap(files, &map);
    assert_true(files->is_folder(files, folder->path));
    status = files->list(files, folder->path, world->allocator, &names, &n_names, err);
    if (status == WEFT_OK) mem_free(world->allocator, names, n_names);
    return status;
}

static void test_sweep_io(void **state)
{
    (void)state;
    test_folder folder;
    test_folder_create(&folder);
    test_folder_write(&folder, "another", "", 0);
    assert_int_equal(fault_sweep_io(every_operation, &folder), 5);
    assert_int_equal(fault_sweep(every_operation, &folder), 3);
    fault_io files;
    fault_io_init(&files, 0);
    io_map map;
    assert_ok(files.io.map(&files.io, test_folder_path(&folder, "file"), &map, NULL), NULL);
    expect_assert_failure(fault_io_check(&files));
    files.io.unmap(&files.io, &map);
    fault_io_check(&files);
    test_folder_remove(&folder);
}

static void test_compare(void **state)
{
    (void)state;
    const float a[3] = {1.0f, 2.0f, NAN};
    const float b[3] = {1.0f, 2.5f, NAN};
    size_t index;
    assert_true(compare_max_abs(a, b, 2, &index) == 0.5);
    assert_int_equal(index, 1);
    assert_true(isinf(compare_max_abs(a, b, 3, &index)));
    assert_floats_identical(a, a, 3, 0);
    assert_floats_near(a, b, 2, 0.5);
    float c[64];
    float d[64];
    compare_fill(c, 64, 2.0f, 7);
    compare_fill(d, 64, 2.0f, 7);
    assert_floats_identical(c, d, 64, 8);
    assert_true(compare_relative_rms(c, d, 64) == 0.0);
    d[5] = -d[5];
    assert_true(compare_relative_rms(c, d, 64) > 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocator_counts),
        cmocka_unit_test(test_allocator_fails_the_nth),
        cmocka_unit_test(test_allocator_sees_wrong_sizes),
        cmocka_unit_test(test_allocator_traps_while_armed),
#ifndef FAULT_ASAN
        cmocka_unit_test(test_allocator_sees_guards),
        cmocka_unit_test(test_sweep_sees_leaks),
#endif
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_sweep_io),
        cmocka_unit_test(test_compare),
    };
    return TEST_RUN("base/support", tests);
}
