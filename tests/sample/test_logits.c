/* test_logits.c - loops over a vocabulary against plain ones: every length around a block, what is
 * no number, and terms as small as they come. */
#include "sample/logits.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

enum { MOST = 67 };

static uint64_t counter;

static float number(float width)
{
    return (float)(rng_unit(31, counter++) * 2.0 - 1.0) * width;
}

/* What is behind n, and must not be looked at, is larger than all. */
static void fill(float *logits, uint32_t n, float width)
{
    static const float ODD[] = {NAN, -INFINITY, -3e38F, -0.0F, 0.0F};
    for (uint32_t i = 0; i < MOST; i++) {
        uint64_t die = rng_u64(32, counter++) % 40;
        logits[i] = i >= n ? 1e30F : die < 5 ? ODD[die] : number(width);
    }
}

static int32_t plain_largest(const float *logits, uint32_t n)
{
    int32_t id = -1;
    for (uint32_t i = 0; i < n; i++) {
        if (!isnan(logits[i]) && logits[i] != -INFINITY && (id < 0 || logits[i] > logits[id]))
            id = (int32_t)i;
    }
    return id;
}

static double plain_sum(const float *logits, uint32_t n, float max)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        if (!isnan(logits[i])) sum += exp((double)logits[i] - (double)max);
    }
    return sum;
}

static void test_against_plain(void **state)
{
    (void)state;
    static const float WIDTHS[] = {0.01F, 1.0F, 10.0F, 45.0F, 200.0F};
    float logits[MOST];
    for (uint32_t n = 0; n <= MOST; n++) {
        for (uint32_t round = 0; round < 200; round++) {
            fill(logits, n, WIDTHS[round % 5]);
            int32_t best = plain_largest(logits, n);
            assert_int_equal(logits_largest(logits, n), best);
            if (best < 0) continue;
            double expected = plain_sum(logits, n, logits[best]);
            double sum = logits_sum_exp(logits, n, logits[best]);
            assert_true(sum >= 1.0);
            assert_true(fabs(sum - expected) <= 6e-7 * expected);
        }
    }
}

/* The bound that the header gives, and no more beside the largest than is there. */
static void test_one_term(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= 8400; i++) {
        float logits[2] = {0.0F, -(float)i * 0.01F};
        double x = (double)logits[1];
        double term = logits_sum_exp(logits, 2, 0.0F) - 1.0;
        double bound = x < -79.9 ? 1e-34 : exp(x) * (2e-7 + 6e-8 * -x);
        /* Beside 1 a double has no more. */
        assert_true(fabs(term - exp(x)) <= bound + 3e-16);
    }
    const float largest = 7.25F;
    assert_true(logits_sum_exp(&largest, 1, largest) == 1.0);
}

static void test_first_of_equal_ones(void **state)
{
    (void)state;
    float logits[MOST];
    for (uint32_t n = 1; n <= MOST; n++) {
        for (uint32_t i = 0; i < MOST; i++) logits[i] = i % 3 == 1 ? 2.0F : -1.0F;
        assert_int_equal(logits_largest(logits, n), n == 1 ? 0 : 1);
        logits[n - 1] = 3.0F;
        assert_int_equal(logits_largest(logits, n), n - 1);
    }
}

static void test_infinities(void **state)
{
    (void)state;
    const float some[6] = {1.0F, INFINITY, NAN, INFINITY, -INFINITY, 3e38F};
    assert_int_equal(logits_largest(some, 6), 1);
    assert_true(logits_sum_exp(some, 6, INFINITY) == 2.0);
    const float none[3] = {NAN, -INFINITY, NAN};
    assert_int_equal(logits_largest(none, 3), -1);
    assert_int_equal(logits_largest(none, 0), -1);
    const float apart[3] = {3e38F, -3e38F, NAN};
    assert_true(logits_sum_exp(apart, 3, 3e38F) == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_plain),
        cmocka_unit_test(test_one_term),
        cmocka_unit_test(test_first_of_equal_ones),
        cmocka_unit_test(test_infinities),
    };
    return TEST_RUN("sample/logits", tests);
}
