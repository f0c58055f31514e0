/* kernel_checks.h - what is compared with generic in test_kernels.c, and how. */
#ifndef BACKEND_KERNEL_CHECKS_H
#define BACKEND_KERNEL_CHECKS_H

#include "backend/kernel_cases.h"

typedef enum slot_id {
#define SLOT_ID(slot, type, bound) SLOT_##slot,
    CPU_KERNEL_MAP(SLOT_ID)
#undef SLOT_ID
} slot_id;

/* What is being compared; for messages. */
static const cpu_kernels *now_kernels;
static const char *now_isa;
static const char *now_slot;
static size_t n_compared;

static inline cpu_kernels kernels(const char *isa)
{
    cpu_kernels k;
    weft_error err = {0};
    if (cpu_kernels_select(isa, &k, &err) != WEFT_OK) fail_msg("%s", err.message);
    return k;
}

/* |actual - expected| <= bound * 2^-24 * terms, with the least normal number to spare. */
static inline void check_near(float actual, float expected, double terms, double bound,
                              const char *what, size_t i)
{
    n_compared++;
    if (isnan(expected) && isnan(actual)) return;
    if (actual == expected) return;
    double limit = bound * 0x1p-24 * terms + 0x1p-125;
    double off = fabs((double)actual - (double)expected);
    if (bound > 0 && off <= limit) return;
    fail_msg(
        "%s %s, %s, output %zu: %.9g, generic has %.9g: off by %.3g units of 2^-24, %.0f allowed",
        now_isa, now_slot, what, i, (double)actual, (double)expected,
        terms > 0 ? off / terms * 0x1p24 : (double)INFINITY, bound);
}

static inline void check_same(const void *actual, const void *expected, size_t size,
                              const char *what)
{
    n_compared++;
    if (memcmp(actual, expected, size) == 0) return;
    const unsigned char *a = actual;
    const unsigned char *b = expected;
    size_t i = 0;
    while (a[i] == b[i]) i++;
    fail_msg("%s %s, %s: byte %zu of %zu differs", now_isa, now_slot, what, i, size);
}

#endif
