/* f32.h - keys and values as f32. Common subset of C and CUDA C++ (see codec.h). */
#ifndef KV_CODECS_F32_H
#define KV_CODECS_F32_H

#include "kv/codecs/codec.h"

/* Bytes of a group of F32_GROUP elements. */
enum { KV_F32_ID = 1, KV_F32_GROUP = 1, KV_F32_BYTES = 4 };

KV_FN void kv_f32_encode_row(unsigned char *dst, const float *src, uint32_t n)
{
    memcpy(dst, src, (size_t)n * sizeof(float));
}

KV_FN void kv_f32_decode_row(const unsigned char *src, float *dst, uint32_t n)
{
    memcpy(dst, src, (size_t)n * sizeof(float));
}

#endif
