/* f16.h - keys and values as f16. Common subset of C and CUDA C++ (see codec.h). */
#ifndef KV_CODECS_F16_H
#define KV_CODECS_F16_H

#include "kv/codecs/codec.h"

/* Bytes of a group of F16_GROUP elements. */
enum { KV_F16_ID = 2, KV_F16_GROUP = 1, KV_F16_BYTES = 2 };

KV_FN void kv_f16_encode_row(unsigned char *dst, const float *src, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint16_t half = fp_to_f16(src[i]);
        memcpy(dst + 2 * (size_t)i, &half, sizeof half);
    }
}

KV_FN void kv_f16_decode_row(const unsigned char *src, float *dst, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, src + 2 * (size_t)i, sizeof half);
        dst[i] = fp_from_f16(half);
    }
}

#endif
