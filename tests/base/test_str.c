/* test_str.c - views, and the buffer that grows up to a limit and remembers its first failure. */
#include "base/str.h"
#include "support/test.h"

#include <string.h>

#include "support/fault.h"

static void test_views(void **state)
{
    (void)state;
    str abc = str_of("abc");
    str nothing = {NULL, 0};
    assert_int_equal(abc.len, 3);
    assert_true(str_equal(abc, (str){"abcd", 3}));
    assert_false(str_equal(abc, (str){"abd", 3}));
    assert_false(str_equal(abc, (str){"abc", 2}));
    assert_true(str_equal(nothing, str_of("")));
    assert_true(str_equal_text(abc, "abc"));
    assert_false(str_equal_text((str){"a\0b", 3}, "a"));
    assert_true(str_starts(abc, "ab"));
    assert_true(str_starts(abc, ""));
    assert_true(str_starts(nothing, ""));
    assert_false(str_starts(abc, "abcd"));
    assert_false(str_starts(abc, "b"));
    assert_true(str_ends(abc, "bc"));
    assert_true(str_ends(nothing, ""));
    assert_false(str_ends(abc, "xabc"));
    assert_false(str_ends(abc, "b"));
}

static void test_adding(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    strbuf buf;
    strbuf_init(&buf, &fault.allocator, 0);
    assert_string_equal(strbuf_text(&buf), "");
    assert_int_equal(fault.n_allocations, 0);
    assert_ok(strbuf_add(&buf, NULL, 0), NULL);
    assert_string_equal(buf.ptr, "");
    for (int i = 0; i < 1000; i++) {
        assert_ok(strbuf_add_text(&buf, "ab"), NULL);
        assert_ok(strbuf_add_char(&buf, 'c'), NULL);
        assert_ok(strbuf_printf(&buf, "%04d", i), NULL);
        assert_int_equal(buf.ptr[buf.len], 0);
    }
    assert_int_equal(buf.len, 7000);
    assert_memory_equal(buf.ptr + 6993, "abc0999", 8);
    assert_true(fault.n_allocations < 10);
    strbuf_clear(&buf);
    fault.armed = true;
    assert_string_equal(strbuf_text(&buf), "");
    assert_ok(strbuf_add(&buf, "a\0b", 3), NULL);
    assert_int_equal(buf.len, 3);
    fault.armed = false;
    strbuf_deinit(&buf);
    strbuf_deinit(&buf);
    fault_allocator_check(&fault);
}

static void test_limit(void **state)
{
    (void)state;
    strbuf buf;
    strbuf_init(&buf, mem_system(), 5);
    assert_ok(strbuf_add_text(&buf, "abcde"), NULL);
    assert_int_equal(strbuf_add_char(&buf, 'f'), WEFT_LIMIT);
    assert_string_equal(buf.ptr, "abcde");
    assert_int_equal(strbuf_add(&buf, "", 0), WEFT_LIMIT);
    assert_int_equal(strbuf_printf(&buf, "%d", 1), WEFT_LIMIT);
    strbuf_clear(&buf);
    assert_ok(strbuf_printf(&buf, "%s", "12345"), NULL);
    assert_int_equal(strbuf_printf(&buf, "%s", "6"), WEFT_LIMIT);
    assert_string_equal(buf.ptr, "12345");
    strbuf_deinit(&buf);

    static const size_t LIMITS[] = {0, SIZE_MAX, SIZE_MAX - 1};
    for (size_t i = 0; i < 3; i++) {
        strbuf_init(&buf, mem_system(), LIMITS[i]);
        assert_ok(strbuf_add_text(&buf, "a"), NULL);
        assert_int_equal(strbuf_add(&buf, "a", SIZE_MAX), WEFT_LIMIT);
        strbuf_clear(&buf);
        assert_int_equal(strbuf_add(&buf, "a", SIZE_MAX - 1), WEFT_LIMIT);
        strbuf_deinit(&buf);
    }
}

static weft_status write_much(const env *world, void *user, weft_error *err)
{
    (void)user;
    strbuf buf;
    strbuf_init(&buf, world->allocator, 0);
    for (int i = 0; i < 500; i++) strbuf_printf(&buf, "%d", i);
    if (buf.status == WEFT_OK) assert_int_equal(buf.len, 10 + 90 * 2 + 400 * 3);
    weft_status status = buf.status;
    strbuf_deinit(&buf);
    return status == WEFT_OK ? status : err_set(err, status, "cannot write numbers");
}

static void test_sweep(void **state)
{
    (void)state;
    assert_int_equal(fault_sweep(write_much, NULL), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_adding),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_sweep),
    };
    return TEST_RUN("base/str", tests);
}
