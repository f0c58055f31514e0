/* fp.h - f32 to and from bf16 and IEEE f16, round to nearest even. Header only: kernels inline it.
 */
#ifndef BASE_FP_H
#define BASE_FP_H

#include <stdint.h>
#include <string.h>

static inline float fp_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t fp_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The bits of the largest magnitude of n numbers: 0x7f800000 and more where one is not finite. */
static inline uint32_t fp_largest_bits(const float *x, uint32_t n)
{
    uint32_t largest = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t magnitude = fp_to_bits(x[i]) & 0x7fffffffu;
        if (magnitude > largest) largest = magnitude;
    }
    return largest;
}

static inline float fp_from_bf16(uint16_t half)
{
    return fp_from_bits((uint32_t)half << 16);
}

/* NaN stays NaN (quiet). */
static inline uint16_t fp_to_bf16(float value)
{
    uint32_t bits = fp_to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float fp_round_bf16(float value)
{
    return fp_from_bf16(fp_to_bf16(value));
}

static inline float fp_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1fu;
    uint32_t mantissa = half & 0x3ffu;
    if (exponent == 0) {
        float value = (float)mantissa * 0x1p-24f;
        return fp_from_bits(fp_to_bits(value) | sign);
    }
    if (exponent == 31) return fp_from_bits(sign | 0x7f800000u | (mantissa << 13));
    return fp_from_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

static inline uint16_t fp_to_f16(float value)
{
    uint32_t bits = fp_to_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
        /* Subnormal: adding 0.5 lets the hardware round at 2^-24. */
        float shifted = fp_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (fp_to_bits(shifted) - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

#endif
