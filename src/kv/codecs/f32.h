/* f32.h - keys and values as f32. Common subset of C and CUDA C++ (see codec.h). */
#ifndef KV_CODECS_F32_H
#define KV_CODECS_F32_H

#include "kv/codecs/codec.h"

#define KV_F32_ROWS(ROW) ROW(f32, 1, KV_DENSE, KV_FOR_K | KV_FOR_V, 32, 1, 1, NULL, f32)

KV_FN void kv_f32_encode_row(const kv_codec *c, uint8_t base, unsigned char *dst, const float *src,
                             uint32_t n)
{
    (void)c;
    (void)base;
    memcpy(dst, src, (size_t)n * sizeof(float));
}

KV_FN void kv_f32_decode_row(const kv_codec *c, uint8_t base, const unsigned char *src, float *dst,
                             uint32_t n)
{
    (void)c;
    (void)base;
    memcpy(dst, src, (size_t)n * sizeof(float));
}

#endif
