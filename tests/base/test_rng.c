/* test_rng.c - values computed independently, and that they look even. */
#include "base/rng.h"
#include "support/test.h"

#include <math.h>

#include "base/clock.h"

static void test_values(void **state)
{
    (void)state;
    assert_true(rng_u64(0, 0) == 0xb86944daa8a2aa81u);
    assert_true(rng_u64(1, 0) == 0x61975cb13a2ae6c6u);
    assert_true(rng_u64(0, 1) == 0x5a42ba9cbc548534u);
    assert_true(rng_u64(42, 7) == 0xe079eddf47b19bf5u);
    assert_true(rng_u64(UINT64_MAX, UINT64_MAX) == 0x74fe59e1010851d8u);
}

static void test_unit(void **state)
{
    (void)state;
    enum { N = 100000, CELLS = 16 };
    uint32_t cells[CELLS] = {0};
    double sum = 0.0;
    double product = 0.0;
    for (uint64_t i = 0; i < N; i++) {
        double value = rng_unit(3, i);
        assert_true(value >= 0.0 && value < 1.0);
        assert_true(value == rng_unit(3, i));
        cells[(size_t)(value * CELLS)]++;
        sum += value;
        /* Neighbouring counters and neighbouring seeds are not alike. */
        product +=
            (value - 0.5) * (rng_unit(3, i + 1) - 0.5) + (value - 0.5) * (rng_unit(4, i) - 0.5);
    }
    /* Five standard deviations. */
    assert_true(fabs(sum / N - 0.5) < 5.0 * sqrt(1.0 / 12.0 / N));
    assert_true(fabs(product / N) < 5.0 * sqrt(2.0 / 144.0 / N));
    for (size_t i = 0; i < CELLS; i++) {
        double expected = (double)N / CELLS;
        assert_true(fabs((double)cells[i] - expected) < 5.0 * sqrt(expected));
    }
}

static void test_clock(void **state)
{
    (void)state;
    uint64_t before = clock_now_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = clock_now_ns();
        assert_true(now >= before);
        before = now;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_unit),
        cmocka_unit_test(test_clock),
    };
    return TEST_RUN("base/rng", tests);
}
