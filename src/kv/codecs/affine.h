/* affine.h - codes of 4 or 8 bits with a scale and a bias in the base type for each group: the
 * bytes of MLX's quantize on its CPU device. Common subset of C and CUDA C++ (see codec.h).
 *
 * A row: codes, then the scales of all groups, then the biases. */
#ifndef KV_CODECS_AFFINE_H
#define KV_CODECS_AFFINE_H

#include "kv/codecs/packed.h"

// clang-format off
#define KV_AFFINE_ROWS(ROW)                                                        \
    ROW(affine8g32, 4, KV_AFFINE, KV_FOR_K | KV_FOR_V, 8, 32, 8, NULL, affine)     \
    ROW(affine8g64, 5, KV_AFFINE, KV_FOR_K | KV_FOR_V, 8, 64, 8, NULL, affine)     \
    ROW(affine8g128, 6, KV_AFFINE, KV_FOR_K | KV_FOR_V, 8, 128, 8, NULL, affine)   \
    ROW(affine4g32, 7, KV_AFFINE, KV_FOR_K | KV_FOR_V, 4, 32, 8, NULL, affine)     \
    ROW(affine4g64, 8, KV_AFFINE, KV_FOR_K | KV_FOR_V, 4, 64, 8, NULL, affine)     \
    ROW(affine4g128, 9, KV_AFFINE, KV_FOR_K | KV_FOR_V, 4, 128, 8, NULL, affine)
// clang-format on

KV_FN void kv_put_base(unsigned char *at, float value, uint8_t base)
{
    if (base == KV_BASE_F32) {
        memcpy(at, &value, sizeof value);
    } else {
        kv_put_u16(at, base == KV_BASE_F16 ? fp_to_f16(value) : fp_to_bf16(value));
    }
}

KV_FN float kv_get_base(const unsigned char *at, uint8_t base)
{
    float value;
    uint16_t half;
    if (base == KV_BASE_F32) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&half, at, sizeof half);
    return base == KV_BASE_F16 ? fp_from_f16(half) : fp_from_bf16(half);
}

/* The end of the range that is farther from 0 is met exactly, and so is 0 where it lies inside. */
KV_FN void kv_affine_encode_row(const kv_codec *c, uint8_t base, unsigned char *dst,
                                const float *src, uint32_t n)
{
    uint32_t most = (1U << c->bits) - 1;
    uint32_t n_groups = (n + c->group - 1) / c->group;
    size_t size = base == KV_BASE_F32 ? 4 : 2;
    unsigned char *scales = dst + kv_codes_bytes(c, n);
    unsigned char *biases = scales + n_groups * size;
    for (uint32_t i = 0; i < n; i += c->group) {
        float x[KV_GROUP_MOST];
        uint8_t codes[KV_GROUP_MOST] = {0};
        uint32_t n_group = kv_group_size(c, n, i);
        kv_range r = kv_take_group(x, src + i, n_group, base);
        float scale = (r.most - r.least) / (float)most;
        if (!(scale > 1e-7F)) scale = 1e-7F;
        float edge = r.least;
        if (!(fabsf(r.least) > fabsf(r.most))) {
            scale = -scale;
            edge = r.most;
        }
        float bias = 0.0F;
        float steps = rintf(edge / scale);
        if (steps != 0.0F) {
            scale = edge / steps;
            bias = edge;
        }
        for (uint32_t j = 0; j < n_group; j++) codes[j] = kv_code((x[j] - bias) / scale, most);
        kv_pack(dst + kv_codes_bytes(c, i), codes, n_group, c->bits);
        kv_put_base(scales + i / c->group * size, scale, base);
        kv_put_base(biases + i / c->group * size, bias, base);
    }
}

KV_FN void kv_affine_decode_row(const kv_codec *c, uint8_t base, const unsigned char *src,
                                float *dst, uint32_t n)
{
    uint32_t n_groups = (n + c->group - 1) / c->group;
    size_t size = base == KV_BASE_F32 ? 4 : 2;
    const unsigned char *scales = src + kv_codes_bytes(c, n);
    const unsigned char *biases = scales + n_groups * size;
    for (uint32_t i = 0; i < n; i += c->group) {
        uint8_t codes[KV_GROUP_MOST] = {0};
        uint32_t n_group = kv_group_size(c, n, i);
        float scale = kv_get_base(scales + i / c->group * size, base);
        float bias = kv_get_base(biases + i / c->group * size, base);
        kv_unpack(src + kv_codes_bytes(c, i), codes, n_group, c->bits);
        for (uint32_t j = 0; j < n_group; j++) dst[i + j] = (float)codes[j] * scale + bias;
    }
}

#endif
