/* f16.h - keys and values as f16. Common subset of C and CUDA C++ (see codec.h). */
#ifndef KV_CODECS_F16_H
#define KV_CODECS_F16_H

#include "kv/codecs/codec.h"

#define KV_F16_ROWS(ROW) ROW(f16, 2, KV_DENSE, KV_FOR_K | KV_FOR_V, 16, 1, 1, NULL, f16)

KV_FN void kv_f16_encode_row(const kv_codec *c, uint8_t base, unsigned char *dst, const float *src,
                             uint32_t n)
{
    (void)c;
    (void)base;
    for (uint32_t i = 0; i < n; i++) {
        uint16_t half = fp_to_f16(src[i]);
        memcpy(dst + 2 * (size_t)i, &half, sizeof half);
    }
}

KV_FN void kv_f16_decode_row(const kv_codec *c, uint8_t base, const unsigned char *src, float *dst,
                             uint32_t n)
{
    (void)c;
    (void)base;
    for (uint32_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, src + 2 * (size_t)i, sizeof half);
        dst[i] = fp_from_f16(half);
    }
}

#endif
