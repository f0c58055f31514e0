/* test_err.c - messages: the first is kept, context goes before it, and what does not fit is cut
 * cleanly. */
#include "base/err.h"
#include "support/test.h"

#include <string.h>

#include "base/log.h"
#include "base/utf8.h"

static void test_first_is_kept(void **state)
{
    (void)state;
    weft_error err = {0};
    assert_int_equal(err_set(&err, WEFT_FORMAT, "tensor %d of %s", 3, "x"), WEFT_FORMAT);
    assert_string_equal(err.message, "tensor 3 of x");
    assert_int_equal(err_set(&err, WEFT_NOMEM, "later"), WEFT_NOMEM);
    assert_int_equal(err.status, WEFT_FORMAT);
    assert_string_equal(err.message, "tensor 3 of x");
    err_context(&err, "loading '%s': ", "file");
    assert_string_equal(err.message, "loading 'file': tensor 3 of x");
    err_clear(&err);
    assert_int_equal(err.status, WEFT_OK);
    assert_string_equal(err.message, "");
    err_context(&err, "nothing ");
    assert_string_equal(err.message, "");
}

static void test_null(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, WEFT_IO, "%s", "x"), WEFT_IO);
    err_context(NULL, "x");
    err_clear(NULL);
}

static void test_cut(void **state)
{
    (void)state;
    char text[400];
    memset(text, 'a', sizeof text);
    text[399] = '\0';
    weft_error err = {0};
    err_set(&err, WEFT_IO, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    err_context(&err, "%s", "where: ");
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_memory_equal(err.message, "where: aaa", 10);
    err_context(&err, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_memory_equal(err.message, "aaaaaaaa", 8);

    /* A character of 1 to 4 bytes at every place where the cut can fall. */
    static const char *const CHARACTERS[] = {"b", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t k = 0; k < 4; k++) {
        size_t n = strlen(CHARACTERS[k]);
        for (size_t at = 240; at < 256; at++) {
            memset(text, 'a', sizeof text);
            memcpy(text + at, CHARACTERS[k], n);
            text[at + n + 20] = '\0';
            err_clear(&err);
            err_set(&err, WEFT_IO, "%s", text);
            size_t whole = at < 251 && at + n > 251 ? at : 251;
            assert_int_equal(strlen(err.message), whole);
            assert_true(utf8_valid(err.message, whole));
            assert_memory_equal(err.message, text, whole);
        }
    }
}

static void test_hostile_names(void **state)
{
    (void)state;
    weft_error err = {0};
    err_set(&err, WEFT_IO, "'%s'", "\x1b[2J\r\n\x7f\xc2\x9b\xff\xc3\xe9 \xc3\xa9");
    /* ESC; CR, LF, DEL; C1 in two bytes; a stray byte and a lead without its follower, twice. */
    assert_string_equal(err.message, "'?"
                                     "[2J"
                                     "???"
                                     "??"
                                     "???"
                                     " \xc3\xa9'");
}

static char logged[1024];
static weft_log_level logged_level;

static void keep(void *user, weft_log_level level, const char *message)
{
    ++*(int *)user;
    logged_level = level;
    strncpy(logged, message, sizeof logged - 1);
}

static void test_log(void **state)
{
    (void)state;
    int n = 0;
    weft_log log = {&n, keep};
    log_write(&log, WEFT_LOG_WARN, "%s has %d\n", "x", 3);
    assert_string_equal(logged, "x has 3?");
    assert_int_equal(logged_level, WEFT_LOG_WARN);
    char text[600];
    memset(text, 'a', sizeof text);
    memcpy(text + 510, "\xe2\x82\xac", 4);
    log_write(&log, WEFT_LOG_INFO, "%s", text);
    assert_int_equal(strlen(logged), 510);
    assert_int_equal(n, 2);
    log_write(NULL, WEFT_LOG_INFO, "x");
    log_write(&(weft_log){0}, WEFT_LOG_INFO, "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_is_kept), cmocka_unit_test(test_null),
        cmocka_unit_test(test_cut),           cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_log),
    };
    return TEST_RUN("base/err", tests);
}
