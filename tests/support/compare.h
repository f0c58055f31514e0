/* compare.h - comparing arrays of floats: bit for bit, or by the largest difference. */
#ifndef SUPPORT_COMPARE_H
#define SUPPORT_COMPARE_H

#include "support/test.h"

/* Fails naming the first difference, its indices in an array [n / n_cols, n_cols] (n_cols 0: one
 * row), both values and how many differ. Bits: -0 differs from 0, and a NaN is equal to the same
 * NaN. */
#define assert_floats_identical(actual, expected, n, n_cols)                                       \
    compare_identical((actual), (expected), (n), (n_cols), __FILE__, __LINE__)

/* Fails unless the largest absolute difference is at most bound. */
#define assert_floats_near(actual, expected, n, bound)                                             \
    compare_near((actual), (expected), (n), (bound), __FILE__, __LINE__)

void compare_identical(const float *actual, const float *expected, size_t n, size_t n_cols,
                       const char *file, int line);
void compare_near(const float *actual, const float *expected, size_t n, double bound,
                  const char *file, int line);

/* Largest absolute difference and its index (may be NULL); equal infinities differ by 0, a NaN on
 * either side by infinity. */
double compare_max_abs(const float *actual, const float *expected, size_t n, size_t *index);

/* Root of the mean square of the differences over that of expected. */
double compare_relative_rms(const float *actual, const float *expected, size_t n);

/* Standard deviation of n numbers. */
double compare_deviation(const float *x, size_t n);

/* n numbers in [-scale, scale), the same for the same seed. */
void compare_fill(float *values, size_t n, float scale, uint64_t seed);

#endif
