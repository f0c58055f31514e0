/* compare.c - comparing arrays of floats. */
#include "support/compare.h"

#include <math.h>

#include "base/fp.h"
#include "base/rng.h"

void compare_identical(const float *actual, const float *expected, size_t n, size_t n_cols,
                       const char *file, int line)
{
    size_t first = n;
    size_t n_different = 0;
    for (size_t i = 0; i < n; i++) {
        if (fp_to_bits(actual[i]) == fp_to_bits(expected[i])) continue;
        if (n_different++ == 0) first = i;
    }
    if (n_different == 0) return;
    if (n_cols == 0) n_cols = n;
    print_error("%zu of %zu floats differ, first at [%zu, %zu]: %.9g (0x%08x), expected %.9g "
                "(0x%08x)\n",
                n_different, n, first / n_cols, first % n_cols, (double)actual[first],
                fp_to_bits(actual[first]), (double)expected[first], fp_to_bits(expected[first]));
    _fail(file, line);
}

void compare_near(const float *actual, const float *expected, size_t n, double bound,
                  const char *file, int line)
{
    size_t i = 0;
    double largest = compare_max_abs(actual, expected, n, &i);
    if (largest <= bound) return;
    print_error("largest difference of %zu floats is %.6g at %zu, at most %.6g expected: %.9g, "
                "expected %.9g\n",
                n, largest, i, bound, (double)actual[i], (double)expected[i]);
    _fail(file, line);
}

double compare_max_abs(const float *actual, const float *expected, size_t n, size_t *index)
{
    double largest = 0.0;
    if (index != NULL) *index = 0;
    for (size_t i = 0; i < n; i++) {
        if (actual[i] == expected[i]) continue;
        double difference = fabs((double)actual[i] - (double)expected[i]);
        if (isnan(difference)) difference = (double)INFINITY;
        if (difference <= largest) continue;
        largest = difference;
        if (index != NULL) *index = i;
    }
    return largest;
}

double compare_relative_rms(const float *actual, const float *expected, size_t n)
{
    double error = 0.0;
    double power = 0.0;
    for (size_t i = 0; i < n; i++) {
        double difference = (double)actual[i] - (double)expected[i];
        error += difference * difference;
        power += (double)expected[i] * (double)expected[i];
    }
    return error == 0.0 ? 0.0 : sqrt(error / power);
}

double compare_deviation(const float *x, size_t n)
{
    double sum = 0.0;
    double squares = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    double mean = sum / (double)n;
    return sqrt(squares / (double)n - mean * mean);
}

void compare_fill(float *values, size_t n, float scale, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (float)((rng_unit(seed, i) * 2.0 - 1.0) * (double)scale);
}
