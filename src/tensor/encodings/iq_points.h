/* iq_points.h - how the IQ2, IQ3 and IQ1 encodings turn a point of a grid (tensor/grids.h) and its
 * signs into numbers. */
#ifndef TENSOR_ENCODINGS_IQ_POINTS_H
#define TENSOR_ENCODINGS_IQ_POINTS_H

#include "tensor/grids.h"

/* Seven stored signs and the eighth, by which their number is even: bit i set where column i is
 * negative. */
static inline uint32_t iq_signs(uint32_t seven)
{
    seven &= 127u;
    return seven | ((uint32_t)__builtin_popcount(seven) & 1u) << 7;
}

/* Eight columns at a point of an IQ2 grid. */
static inline void iq2_point(uint32_t point, uint32_t signs, float scale, float dst[8])
{
    static const float VALUES[4] = {8, 25, 43, 0};
    for (uint32_t i = 0; i < 8; i++) {
        float value = scale * VALUES[point >> 2 * i & 3u];
        dst[i] = signs >> i & 1u ? -value : value;
    }
}

/* Four columns at a point of an IQ3 grid: codes of four bits, one of eight values. */
static inline void iq3_point(uint32_t point, const uint8_t values[8], uint32_t signs, float scale,
                             float dst[4])
{
    for (uint32_t i = 0; i < 4; i++) {
        float value = scale * (float)values[point >> 4 * i & 7u];
        dst[i] = signs >> i & 1u ? -value : value;
    }
}

/* Eight columns at a point of the IQ1 grid, shifted by delta: -1, 0 or 1 each. */
static inline void iq1_point(uint32_t point, float delta, float scale, float dst[8])
{
    for (uint32_t i = 0; i < 8; i++)
        dst[i] = scale * ((float)((int32_t)(point >> 2 * i & 3u) - 1) + delta);
}

#endif
