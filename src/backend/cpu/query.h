/* query.h - a query as whole numbers, for keys that are integer codes.
 *
 * For each group of the codec's columns, m the largest |x| of it: x is held as q * step with step =
 * m / KERNEL_QUERY_MOST and q = rint(x * (KERNEL_QUERY_MOST / m)), each operation in f32. So |q| is
 * at most KERNEL_QUERY_MOST, and x is off by less than 2^-15.9 m: half a step, and two roundings.
 * Below 2^-100 all of a group count as 0; a number that is not finite makes its group NaN. A
 * query's numbers depend on it alone.
 *
 * The score of a key: for groups ascending, with I the sum of code * q and T that of q, which are
 * whole numbers below 2^31, exact in any order,
 *     sum = fma(step * scale, (float)I, sum); sum = fma(other, step * (float)T, sum)
 * and in the end sum * scale of the call. scale and other are the key's: other is the bias of
 * affine, and zero point * scale (exact) of tk. The same bits on every instruction set.
 *
 * In memory, within the dim floats that the query had: q, then kernel_query_group for each group.
 * q are words, or bytes (cpu_kernels.query_bytes) with q = 256 * high + low: all high ones, then
 * all low ones. The order of columns is that in which codes come out of their bytes. */
#ifndef BACKEND_CPU_QUERY_H
#define BACKEND_CPU_QUERY_H

#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/fp.h"

#define KERNEL_QUERY_MOST 32512.0F /* 127 * 256 */

typedef struct kernel_query_group {
    float step, sum; /* sum: step * total */
    int32_t total;
} kernel_query_group;

/* Place of a column among words, or among the high or the low bytes: of codes of 4 bits the four of
 * each 16 bits apart, in blocks of 32, or even columns before odd ones. */
static inline uint32_t kernel_query_place(uint32_t column, uint32_t dim, uint32_t bits, bool bytes)
{
    if (bits == 8) return column;
    if (bytes) return column % 2 * (dim / 2) + column / 2;
    return column / 32 * 32 + column % 4 * 8 + column % 32 / 4;
}

/* q of a column. */
static inline int32_t kernel_query_code(const float *query, uint32_t column, uint32_t dim,
                                        uint32_t bits, bool bytes)
{
    const unsigned char *at = (const unsigned char *)query;
    uint32_t place = kernel_query_place(column, dim, bits, bytes);
    int16_t word;
    int8_t high;
    int8_t low;
    if (!bytes) {
        memcpy(&word, at + 2 * (size_t)place, sizeof word);
        return word;
    }
    memcpy(&high, at + place, sizeof high);
    memcpy(&low, at + dim + place, sizeof low);
    return 256 * high + low;
}

/* Of a query that kernel_query has prepared. */
static inline const kernel_query_group *kernel_query_groups(const float *query, uint32_t dim)
{
    return (const kernel_query_group *)(const void *)((const unsigned char *)query +
                                                      2 * (size_t)dim);
}

/* A parameter of a key. */
static inline float kernel_query_param(const unsigned char *at, bool half)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return half ? fp_from_f16(bits) : fp_from_bf16(bits);
}

/* 32 columns from column on; times 0: they count as 0. Returns the sum of q. */
static inline int32_t kernel_query_block(const kernel_query *a, uint32_t column, float times,
                                         const bool bytes)
{
    unsigned char *to = (unsigned char *)a->to;
    const uint32_t bits = a->codec->bits;
    int32_t q[32];
    int32_t total = 0;
    int8_t high[32];
    int8_t low[32];
    int16_t words[32];
    memset(q, 0, sizeof q);
    if (times != 0.0F) {
        for (uint32_t i = 0; i < 32; i++) q[i] = (int32_t)rintf(a->x[column + i] * times);
    }
    for (uint32_t i = 0; i < 32; i++) total += q[i];
    if (!bytes) {
        for (uint32_t i = 0; i < 32; i++) {
            words[bits == 8 ? i : i % 4 * 8 + i / 4] = (int16_t)q[i];
        }
        memcpy(to + 2 * (size_t)column, words, sizeof words);
        return total;
    }
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t place = bits == 8 ? i : i % 2 * 16 + i / 2;
        high[place] = (int8_t)((q[i] + 128) >> 8);
        low[place] = (int8_t)(q[i] - 256 * ((q[i] + 128) >> 8));
    }
    if (bits == 8) {
        memcpy(to + column, high, 32);
        memcpy(to + a->dim + column, low, 32);
        return total;
    }
    for (uint32_t odd = 0; odd < 2; odd++) {
        unsigned char *half = to + column / 2 + (size_t)odd * (a->dim / 2);
        memcpy(half, high + (size_t)16 * odd, 16);
        memcpy(half + a->dim, low + (size_t)16 * odd, 16);
    }
    return total;
}

/* a->to may not be a->x. */
static inline void kernel_query_put(const kernel_query *a, const bool bytes)
{
    const uint32_t group = a->codec->group;
    kernel_query_group *numbers =
        (kernel_query_group *)(void *)((unsigned char *)a->to + 2 * (size_t)a->dim);
    for (uint32_t g = 0; g * group < a->dim; g++) {
        uint32_t bits = fp_largest_bits(a->x + (size_t)g * group, group);
        float most = fp_from_bits(bits);
        bool finite = bits < 0x7f800000u;
        bool some = finite && most >= 0x1p-100F;
        kernel_query_group n = {finite ? 0.0F : NAN, 0.0F, 0};
        if (some) n.step = most / KERNEL_QUERY_MOST;
        float times = some ? KERNEL_QUERY_MOST / most : 0.0F;
        for (uint32_t i = 0; i < group; i += 32) {
            n.total += kernel_query_block(a, g * group + i, times, bytes);
        }
        n.sum = n.step * (float)n.total;
        numbers[g] = n;
    }
}

#endif
