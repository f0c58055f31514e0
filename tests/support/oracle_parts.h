/* oracle_parts.h - what the files of graph_oracle.h share. */
#ifndef SUPPORT_ORACLE_PARTS_H
#define SUPPORT_ORACLE_PARTS_H

#include <math.h>
#include <stdlib.h>

#include "base/fp.h"
#include "support/graph_oracle.h"
#include "support/test.h"

/* One rounding to f32. */
#define U 0x1p-24

/* Where it is open what is chosen bounds are this. */
#define UNKNOWN 1e30

/* What is known of one that may be chosen. */
typedef struct candidate {
    double x, e;
    uint32_t at;
} candidate;

static inline void *zeros(size_t count, size_t size)
{
    void *block = calloc(count == 0 ? 1 : count, size);
    if (block == NULL) fail_msg("out of memory");
    return block;
}

/* x +- e rounded: the middle, and how far the ends are from it. */
typedef struct interval {
    double x, e;
} interval;

static inline interval rounded(double x, double e, double (*round)(double))
{
    double middle = round(x);
    double high = round(x + e) - middle;
    double low = middle - round(x - e);
    return (interval){middle, high > low ? high : low};
}

static inline double to_bf16(double x)
{
    return (double)fp_round_bf16((float)x);
}

static inline double to_f16(double x)
{
    return (double)fp_from_f16(fp_to_f16((float)x));
}

static inline double to_f32(double x)
{
    return (double)(float)x;
}

#endif
