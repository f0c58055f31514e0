/* bf16.h - keys and values as bf16. Common subset of C and CUDA C++ (see codec.h). */
#ifndef KV_CODECS_BF16_H
#define KV_CODECS_BF16_H

#include "kv/codecs/codec.h"

#define KV_BF16_ROWS(ROW) ROW(bf16, 3, KV_DENSE, KV_FOR_K | KV_FOR_V, 16, 1, 1, NULL, bf16)

KV_FN void kv_bf16_encode_row(const kv_codec *c, uint8_t base, unsigned char *dst, const float *src,
                              uint32_t n)
{
    (void)c;
    (void)base;
    for (uint32_t i = 0; i < n; i++) {
        uint16_t half = fp_to_bf16(src[i]);
        memcpy(dst + 2 * (size_t)i, &half, sizeof half);
    }
}

KV_FN void kv_bf16_decode_row(const kv_codec *c, uint8_t base, const unsigned char *src, float *dst,
                              uint32_t n)
{
    (void)c;
    (void)base;
    for (uint32_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, src + 2 * (size_t)i, sizeof half);
        dst[i] = fp_from_bf16(half);
    }
}

#endif
