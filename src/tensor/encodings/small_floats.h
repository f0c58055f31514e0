/* small_floats.h - numbers of 4 and 8 bits, as the OCP formats have them.
 *
 * e2m1: a sign and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6. e4m3: sign, exponent with bias 7, three bits
 * of mantissa, no infinity, NaN where all bits but the sign are set. e8m0: a power of two. */
#ifndef TENSOR_ENCODINGS_SMALL_FLOATS_H
#define TENSOR_ENCODINGS_SMALL_FLOATS_H

#include "base/fp.h"

/* Twice the values of e2m1, which are whole. */
static const int8_t E2M1_DOUBLED[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Minus 0 is a number of its own. */
static inline float e2m1_value(uint32_t code)
{
    uint32_t sign = (code & 8u) << 28;
    return fp_from_bits(fp_to_bits(0.5F * (float)E2M1_DOUBLED[code & 7u]) | sign);
}

/* What each code stands for in a group of this scale: a group is looked up. */
static inline void e2m1_scaled(float values[16], float scale)
{
    for (uint32_t i = 0; i < 8; i++) {
        values[i] = 0.5F * (float)E2M1_DOUBLED[i] * scale;
        values[i + 8] = -(0.5F * (float)E2M1_DOUBLED[i]) * scale;
    }
}

/* e4m3 without its sign, and with a number where it has NaN. */
#define E4M3_EIGHT(step)                                                                           \
    8 * (step), 9 * (step), 10 * (step), 11 * (step), 12 * (step), 13 * (step), 14 * (step),       \
        15 * (step)
static const float E4M3[128] = {
    0x0p-9F,
    0x1p-9F,
    0x2p-9F,
    0x3p-9F,
    0x4p-9F,
    0x5p-9F,
    0x6p-9F,
    0x7p-9F,
    E4M3_EIGHT(0x1p-9F),
    E4M3_EIGHT(0x1p-8F),
    E4M3_EIGHT(0x1p-7F),
    E4M3_EIGHT(0x1p-6F),
    E4M3_EIGHT(0x1p-5F),
    E4M3_EIGHT(0x1p-4F),
    E4M3_EIGHT(0x1p-3F),
    E4M3_EIGHT(0x1p-2F),
    E4M3_EIGHT(0x1p-1F),
    E4M3_EIGHT(0x1p+0F),
    E4M3_EIGHT(0x1p+1F),
    E4M3_EIGHT(0x1p+2F),
    E4M3_EIGHT(0x1p+3F),
    E4M3_EIGHT(0x1p+4F),
    E4M3_EIGHT(0x1p+5F),
};

static inline float e4m3_value(uint32_t code)
{
    uint32_t magnitude = code & 0x7fu;
    uint32_t bits = magnitude == 0x7f ? 0x7fc00000u : fp_to_bits(E4M3[magnitude]);
    return fp_from_bits(bits | (code & 0x80u) << 24);
}

/* The nearest of e2m1; the smaller one of two that are as near, and minus 0 is 0. */
static inline uint32_t e2m1_code(float x)
{
    float a = x < 0.0F ? -x : x;
    uint32_t code = (uint32_t)(a > 0.25F) + (uint32_t)(a > 0.75F) + (uint32_t)(a > 1.25F) +
                    (uint32_t)(a > 1.75F) + (uint32_t)(a > 2.5F) + (uint32_t)(a > 3.5F) +
                    (uint32_t)(a > 5.0F);
    return x < 0.0F && code != 0 ? code | 8u : code;
}

/* The nearest of e4m3, ties to even; what is larger than 448 is 448. */
static inline uint32_t e4m3_code(float x)
{
    uint32_t bits = fp_to_bits(x);
    uint32_t sign = (bits >> 24) & 0x80u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7fu;
    if (magnitude >= fp_to_bits(448.0F)) return sign | 0x7eu;
    if (magnitude < fp_to_bits(0x1p-6F)) {
        /* Whole numbers of 2^-9, by an addition that rounds below 1. */
        float whole = fp_from_bits(magnitude) * 0x1p9F + 0x1.8p23F;
        return sign | (uint32_t)(whole - 0x1.8p23F);
    }
    magnitude += 0x7ffffu + ((magnitude >> 20) & 1u);
    return sign | ((magnitude >> 20) - (120u << 3));
}

/* 2^(code - 127); of 255 infinity, as MLX has it. */
static inline float e8m0_value(uint32_t code)
{
    return code == 0 ? 0x1p-127F : fp_from_bits(code << 23);
}

#endif
