/* tk.h - TurboQuant's keys: codes of 2, 4, 5 or 8 bits, not rotated, with a scale and a zero point
 * in f16 for each group of 32. Common subset of C and CUDA C++ (see codec.h).
 *
 * A row: codes, then the scales of all groups, then the zeros. Files and decoders are those of
 * vllm-metal; the encoder is not: it takes the zero point from range / 254, so that a group whose
 * range is small beside its offset has one that f16 cannot hold, and a constant group is not a
 * number. Here the scale is large enough for the zero point to stay within 2048, and what follows
 * is computed with the scale that is stored. */
#ifndef KV_CODECS_TK_H
#define KV_CODECS_TK_H

#include "kv/codecs/packed.h"

// clang-format off
#define KV_TK_ROWS(ROW)                                 \
    ROW(tk2, 11, KV_TK, KV_FOR_K, 2, 32, 8, NULL, tk)   \
    ROW(tk4, 12, KV_TK, KV_FOR_K, 4, 32, 8, NULL, tk)   \
    ROW(tk5, 13, KV_TK, KV_FOR_K, 5, 32, 8, NULL, tk)   \
    ROW(tk8, 14, KV_TK, KV_FOR_K, 8, 32, 8, NULL, tk)
// clang-format on

#define KV_TK_ZERO_MOST 2048.0F

/* The least f16 that is not below x, which is within 0 .. 65504. */
KV_FN uint16_t kv_f16_up(float x)
{
    uint16_t half = fp_to_f16(x);
    return fp_from_f16(half) < x ? (uint16_t)(half + 1) : half;
}

KV_FN uint16_t kv_tk_scale(kv_range r, uint32_t bits)
{
    float steps = bits == 8 ? 254.0F : (float)((1U << bits) - 1);
    float offset = bits == 8 ? fabsf(r.most + r.least) / 4096.0F : fabsf(r.least) / 2048.0F;
    float scale = (r.most - r.least) / steps;
    if (scale < offset) scale = offset;
    if (scale < 1e-7F) scale = 1e-7F;
    if (scale > KV_F16_MOST) scale = KV_F16_MOST;
    return kv_f16_up(scale);
}

KV_FN float kv_tk_zero(kv_range r, float scale, uint32_t bits)
{
    float zero = rintf(bits == 8 ? (r.most + r.least) / (2.0F * scale) : r.least / scale);
    if (zero > KV_TK_ZERO_MOST) return KV_TK_ZERO_MOST;
    return zero < -KV_TK_ZERO_MOST ? -KV_TK_ZERO_MOST : zero;
}

/* 8 bits are a signed byte of at least -127, fewer bits have no sign. */
KV_FN uint8_t kv_tk_code(float x, uint32_t bits)
{
    if (bits < 8) return kv_code(x, (1U << bits) - 1);
    if (x > 127.0F) x = 127.0F;
    if (x < -127.0F) x = -127.0F;
    return (uint8_t)(int8_t)kv_whole(x);
}

KV_FN void kv_tk_encode_row(const kv_codec *c, uint8_t base, unsigned char *dst, const float *src,
                            uint32_t n)
{
    uint32_t bits = c->bits;
    unsigned char *scales = dst + kv_codes_bytes(c, n);
    unsigned char *zeros = scales + 2 * (size_t)((n + 31) / 32);
    for (uint32_t i = 0; i < n; i += 32) {
        float x[32];
        uint8_t codes[32] = {0};
        uint32_t n_group = kv_group_size(c, n, i);
        kv_range r = kv_take_group(x, src + i, n_group, base);
        uint16_t stored = kv_tk_scale(r, bits);
        float scale = fp_from_f16(stored);
        float zero = kv_tk_zero(r, scale, bits);
        for (uint32_t j = 0; j < n_group; j++) codes[j] = kv_tk_code(x[j] / scale - zero, bits);
        kv_pack(dst + kv_codes_bytes(c, i), codes, n_group, bits);
        kv_put_u16(scales + i / 16, stored);
        kv_put_u16(zeros + i / 16, fp_to_f16(zero));
    }
}

KV_FN void kv_tk_decode_row(const kv_codec *c, uint8_t base, const unsigned char *src, float *dst,
                            uint32_t n)
{
    (void)base;
    const unsigned char *scales = src + kv_codes_bytes(c, n);
    const unsigned char *zeros = scales + 2 * (size_t)((n + 31) / 32);
    for (uint32_t i = 0; i < n; i += 32) {
        uint8_t codes[32] = {0};
        uint32_t n_group = kv_group_size(c, n, i);
        float scale = kv_get_f16(scales + i / 16);
        float zero = kv_get_f16(zeros + i / 16);
        kv_unpack(src + kv_codes_bytes(c, i), codes, n_group, c->bits);
        for (uint32_t j = 0; j < n_group; j++) {
            float code = c->bits == 8 ? (float)(int8_t)codes[j] : (float)codes[j];
            dst[i + j] = (code + zero) * scale;
        }
    }
}

#endif
