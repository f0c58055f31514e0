/* test_template_number.c - numbers to text and back, as Python writes them. */
#include "chat/template_number.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "support/test.h"

static void test_prints_as_python(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {0.1, "0.1"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1.5e-7, "1.5e-07"},
        {123456.789, "123456.789"},
        {1e100, "1e+100"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {2.0 / 3, "0.6666666666666666"},
        {9007199254740993.0, "9007199254740992.0"},
        {(double)INFINITY, "inf"},
        {-(double)INFINITY, "-inf"},
        {(double)NAN, "nan"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[TPL_NUMBER_BYTES];
        tpl_number_print(cases[i].value, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_any_number_comes_back(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t bits = rng_u64(7, i);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        char text[TPL_NUMBER_BYTES];
        tpl_number_print(value, text);
        assert_true(tpl_number_real(str_of(text), &back));
        assert_memory_equal(&value, &back, sizeof value);
    }
}

static void test_reads_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned base;
        tpl_number_result result;
        int64_t value;
    } cases[] = {
        {"0", 10, TPL_NUMBER_OK, 0},
        {"-12", 10, TPL_NUMBER_OK, -12},
        {"+1_000", 10, TPL_NUMBER_OK, 1000},
        {"0x1F", 0, TPL_NUMBER_OK, 31},
        {"0x1f", 16, TPL_NUMBER_OK, 31},
        {"0b101", 0, TPL_NUMBER_OK, 5},
        {"z", 36, TPL_NUMBER_OK, 35},
        {"9223372036854775807", 10, TPL_NUMBER_OK, INT64_MAX},
        {"-9223372036854775808", 10, TPL_NUMBER_OK, INT64_MIN},
        {"9223372036854775808", 10, TPL_NUMBER_RANGE, 0},
        {"99999999999999999999999", 10, TPL_NUMBER_RANGE, 0},
        {"", 10, TPL_NUMBER_BAD, 0},
        {"-", 10, TPL_NUMBER_BAD, 0},
        {"1_", 10, TPL_NUMBER_BAD, 0},
        {"_1", 10, TPL_NUMBER_BAD, 0},
        {"1__0", 10, TPL_NUMBER_BAD, 0},
        {"12a", 10, TPL_NUMBER_BAD, 0},
        {"0x", 0, TPL_NUMBER_BAD, 0},
        {"0x1f", 10, TPL_NUMBER_BAD, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = 0;
        tpl_number_result result = tpl_number_int(str_of(cases[i].text), cases[i].base, &value);
        assert_int_equal(result, cases[i].result);
        if (result == TPL_NUMBER_OK) assert_true(value == cases[i].value);
    }
}

static void test_refuses_other_text(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      ".",     "e5", "1e",   "1e+",
                                      "1.2.3", "0x1p3", "1 ", "infx", "--1"};
    double value;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(tpl_number_real(str_of(bad[i]), &value));
    }
    assert_true(tpl_number_real(str_of("-Infinity"), &value) && isinf(value) && value < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prints_as_python),
        cmocka_unit_test(test_any_number_comes_back),
        cmocka_unit_test(test_reads_integers),
        cmocka_unit_test(test_refuses_other_text),
    };
    return TEST_RUN("chat/template_number", tests);
}
