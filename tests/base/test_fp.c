/* test_fp.c - every bf16 and f16 pattern, and rounding against arithmetic in double. */
#include "base/fp.h"
#include "support/test.h"

#include <math.h>

#include "base/rng.h"

/* A small format by its definition: 1 sign bit, then exponent, then n_mantissa bits. */
typedef struct small_format {
    int n_exponent;
    int n_mantissa;
    uint16_t (*encode)(float value);
    float (*decode)(uint16_t pattern);
} small_format;

static const small_format BF16 = {8, 7, fp_to_bf16, fp_from_bf16};
static const small_format F16 = {5, 10, fp_to_f16, fp_from_f16};

static double value_of(const small_format *f, uint32_t pattern)
{
    uint32_t mantissa = pattern & ((1u << f->n_mantissa) - 1);
    int exponent = (int)(pattern >> f->n_mantissa) & ((1 << f->n_exponent) - 1);
    int bias = (1 << (f->n_exponent - 1)) - 1;
    double magnitude;
    if (exponent == (1 << f->n_exponent) - 1) {
        magnitude = mantissa == 0 ? HUGE_VAL : (double)NAN;
    } else if (exponent == 0) {
        magnitude = ldexp((double)mantissa, 1 - bias - f->n_mantissa);
    } else {
        magnitude =
            ldexp((double)(mantissa | 1u << f->n_mantissa), exponent - bias - f->n_mantissa);
    }
    return (pattern & 0x8000u) != 0 ? -magnitude : magnitude;
}

static void check_all_patterns(const small_format *f)
{
    for (uint32_t pattern = 0; pattern < 0x10000; pattern++) {
        double expected = value_of(f, pattern);
        float value = f->decode((uint16_t)pattern);
        uint16_t back = f->encode(value);
        assert_int_equal(signbit(value) != 0, pattern >> 15);
        if (isnan(expected)) {
            assert_true(isnan(value));
            assert_true(isnan(f->decode(back)));
            /* Quiet, with its sign. */
            assert_true((back >> (f->n_mantissa - 1) & 1) == 1);
            assert_int_equal(back >> 15, pattern >> 15);
        } else {
            assert_true((double)value == expected);
            assert_int_equal(back, pattern);
        }
    }
}

/* To nearest, ties to the even pattern; beyond half a step above the largest it is infinity. */
static uint16_t round_by_search(const small_format *f, double value)
{
    uint32_t sign = signbit(value) ? 0x8000u : 0;
    double magnitude = fabs(value);
    uint32_t low = 0;
    uint32_t high = ((1u << f->n_exponent) - 1) << f->n_mantissa;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (value_of(f, middle) <= magnitude) {
            low = middle;
        } else {
            high = middle;
        }
    }
    uint32_t infinity = ((1u << f->n_exponent) - 1) << f->n_mantissa;
    /* The place infinity has in the order of rounding: one step above the largest. */
    double above =
        high == infinity ? 2 * value_of(f, low) - value_of(f, low - 1) : value_of(f, high);
    double to_low = magnitude - value_of(f, low);
    double to_high = above - magnitude;
    uint32_t nearest = to_low < to_high || (to_low == to_high && (low & 1) == 0) ? low : high;
    if (isinf(value)) nearest = infinity;
    return (uint16_t)(sign | nearest);
}

static void check_rounding_at(const small_format *f, float value)
{
    if (isnan(value)) {
        assert_true(isnan(f->decode(f->encode(value))));
        return;
    }
    uint16_t expected = round_by_search(f, (double)value);
    if (f->encode(value) != expected) {
        fail_msg("%a becomes 0x%04x, expected 0x%04x", (double)value, f->encode(value), expected);
    }
}

/* Between every two neighbours: the middle, and the floats right beside it and beside the ends. */
static void check_rounding(const small_format *f)
{
    uint32_t infinity = ((1u << f->n_exponent) - 1) << f->n_mantissa;
    for (uint32_t pattern = 0; pattern < infinity; pattern++) {
        double low = value_of(f, pattern);
        double high =
            pattern + 1 == infinity ? 2 * low - value_of(f, pattern - 1) : value_of(f, pattern + 1);
        const double points[3] = {low, (low + high) / 2, high};
        for (size_t i = 0; i < 3; i++) {
            float point = (float)points[i];
            check_rounding_at(f, point);
            check_rounding_at(f, -point);
            check_rounding_at(f, nextafterf(point, INFINITY));
            check_rounding_at(f, nextafterf(point, -INFINITY));
        }
    }
    for (uint64_t i = 0; i < 200000; i++)
        check_rounding_at(f, fp_from_bits((uint32_t)rng_u64(5, i)));
    static const uint32_t EDGES[] = {0,          1,          0x7fffff,   0x800000,  0x7f7fffff,
                                     0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff};
    for (size_t i = 0; i < sizeof EDGES / sizeof EDGES[0]; i++) {
        check_rounding_at(f, fp_from_bits(EDGES[i]));
        check_rounding_at(f, fp_from_bits(EDGES[i] | 0x80000000u));
    }
}

static void test_bf16(void **state)
{
    (void)state;
    check_all_patterns(&BF16);
    check_rounding(&BF16);
    assert_true(fp_round_bf16(1.00390625f) == 1.0f);
    assert_true(fp_round_bf16(1.01171875f) == 1.015625f);
}

static void test_f16(void **state)
{
    (void)state;
    check_all_patterns(&F16);
    check_rounding(&F16);
    assert_int_equal(fp_to_f16(65519.0f), 0x7bff);
    assert_int_equal(fp_to_f16(65520.0f), 0x7c00);
    assert_int_equal(fp_to_f16(0x1p-25f), 0);
    assert_int_equal(fp_to_f16(0x1.000002p-25f), 1);
}

static void test_bits(void **state)
{
    (void)state;
    assert_int_equal(fp_to_bits(1.0f), 0x3f800000);
    assert_true(fp_from_bits(0xc0000000u) == -2.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_bits),
    };
    return TEST_RUN("base/fp", tests);
}
