/* oracle_parts.h - what the files of graph_oracle.h share. */
#ifndef SUPPORT_ORACLE_PARTS_H
#define SUPPORT_ORACLE_PARTS_H

#include <math.h>
#include <stdlib.h>

#include "base/fp.h"
#include "support/graph_oracle.h"
#include "support/test.h"
#include "tensor/encoding.h"

/* One rounding to f32. */
#define U 0x1p-24

static inline void *zeros(size_t count, size_t size)
{
    void *block = calloc(count == 0 ? 1 : count, size);
    if (block == NULL) fail_msg("out of memory");
    return block;
}

static inline const tensor *weight(const graph_oracle *o, graph_id id)
{
    return &o->g->tensors[o->g->values[id].i[0]];
}

static inline float *decoded_row(const tensor *t, uint64_t row)
{
    float *w = zeros((size_t)t->n_cols, sizeof *w);
    t->encoding->decode_row(t, row, w);
    return w;
}

/* x +- e rounded: the middle, and how far the ends are from it. */
typedef struct interval {
    double x, e;
} interval;

/* Many of them. */
typedef struct interval_row {
    const double *x, *e;
} interval_row;

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
