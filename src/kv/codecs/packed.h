/* packed.h - what the packed codecs share: what they take for an input, and codes as bits. Common
 * subset of C and CUDA C++ (see codec.h). */
#ifndef KV_CODECS_PACKED_H
#define KV_CODECS_PACKED_H

#include <math.h>

#include "kv/codecs/codec.h"

enum { KV_GROUP_MOST = 128 };

/* The largest f16, which stands for an infinity; and the largest number that is taken as it is:
 * differences of two of them, and what an affine group decodes to, are finite. */
#define KV_F16_MOST 65504.0F
#define KV_INPUT_MOST 0x1p125F

KV_FN float kv_round(float x, uint8_t base)
{
    if (base == KV_BASE_BF16) return fp_round_bf16(x);
    return base == KV_BASE_F16 ? fp_from_f16(fp_to_f16(x)) : x;
}

/* Rounded to the base type; 0 for a NaN. */
KV_FN float kv_input(float x, uint8_t base)
{
    x = kv_round(x, base);
    if (isnan(x)) return 0.0F;
    if (isinf(x)) return x < 0.0F ? -KV_F16_MOST : KV_F16_MOST;
    if (x > KV_INPUT_MOST) return KV_INPUT_MOST;
    return x < -KV_INPUT_MOST ? -KV_INPUT_MOST : x;
}

typedef struct kv_range {
    float least, most;
} kv_range;

/* Elements src [n] as the codec takes them, and their range. */
KV_FN kv_range kv_take_group(float *x, const float *src, uint32_t n, uint8_t base)
{
    kv_range r = {0.0F, 0.0F};
    for (uint32_t i = 0; i < n; i++) {
        x[i] = kv_input(src[i], base);
        if (i == 0 || x[i] < r.least) r.least = x[i];
        if (i == 0 || x[i] > r.most) r.most = x[i];
    }
    return r;
}

/* To the nearest integer, ties to even, for |x| of at most 2^22: what lies below 1 is rounded away
 * by the addition. No call, unlike rintf. */
KV_FN float kv_whole(float x)
{
    return (x + 0x1.8p23F) - 0x1.8p23F;
}

/* To the nearest integer, ties to even, within 0 .. most; 0 for a NaN. */
KV_FN uint8_t kv_code(float x, uint32_t most)
{
    if (!(x > 0.0F)) return 0;
    return x >= (float)most ? (uint8_t)most : (uint8_t)kv_whole(x);
}

/* n codes, a multiple of 8: code i in bits [i * bits, (i + 1) * bits) of a little-endian stream. */
KV_FN void kv_pack(unsigned char *dst, const uint8_t *codes, uint32_t n, uint32_t bits)
{
    for (uint32_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        for (uint32_t j = 0; j < 8; j++) word |= (uint64_t)codes[i + j] << (j * bits);
        for (uint32_t j = 0; j < bits; j++) *dst++ = (unsigned char)(word >> (8 * j));
    }
}

KV_FN void kv_unpack(const unsigned char *src, uint8_t *codes, uint32_t n, uint32_t bits)
{
    for (uint32_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        for (uint32_t j = 0; j < bits; j++) word |= (uint64_t)*src++ << (8 * j);
        for (uint32_t j = 0; j < 8; j++) {
            codes[i + j] = (uint8_t)((word >> (j * bits)) & ((1U << bits) - 1));
        }
    }
}

/* Elements of the group that begins at i. */
KV_FN uint32_t kv_group_size(const kv_codec *c, uint32_t n, uint32_t i)
{
    return n - i < c->group ? n - i : c->group;
}

/* Where the parameters begin, behind the codes of n elements. */
KV_FN size_t kv_codes_bytes(const kv_codec *c, uint32_t n)
{
    return (size_t)n * c->bits / 8;
}

KV_FN void kv_put_u16(unsigned char *at, uint16_t value)
{
    memcpy(at, &value, sizeof value);
}

KV_FN float kv_get_f16(const unsigned char *at)
{
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return fp_from_f16(half);
}

#endif
