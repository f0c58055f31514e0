/* q8_0.h - GGUF's block of 32: an f16 scale, then codes of one signed byte. Common subset of C and
 * CUDA C++ (see codec.h). */
#ifndef KV_CODECS_Q8_0_H
#define KV_CODECS_Q8_0_H

#include "kv/codecs/packed.h"

#define KV_Q8_0_ROWS(ROW) ROW(q8_0, 10, KV_Q8, KV_FOR_K | KV_FOR_V, 8, 32, 32, NULL, q8_0)

enum { KV_Q8_0_BYTES = 34 };

/* Ties go away from 0, as GGUF's reference has it. */
KV_FN void kv_q8_0_encode_row(const kv_codec *c, uint8_t base, unsigned char *dst, const float *src,
                              uint32_t n)
{
    (void)c;
    for (uint32_t i = 0; i < n; i += 32, dst += KV_Q8_0_BYTES) {
        float x[32];
        kv_range r = kv_take_group(x, src + i, 32, base);
        float most = r.most > -r.least ? r.most : -r.least;
        /* What f16 cannot hold as a scale is as large as it gets. */
        if (most > 127.0F * KV_F16_MOST) most = 127.0F * KV_F16_MOST;
        float scale = most / 127.0F;
        float inverse = scale > 0.0F ? 1.0F / scale : 0.0F;
        if (isinf(inverse)) inverse = 0.0F;
        kv_put_u16(dst, fp_to_f16(scale));
        for (uint32_t j = 0; j < 32; j++) {
            float whole = roundf(x[j] * inverse);
            if (whole > 127.0F) whole = 127.0F;
            if (whole < -127.0F) whole = -127.0F;
            dst[2 + j] = (unsigned char)(int8_t)whole;
        }
    }
}

KV_FN void kv_q8_0_decode_row(const kv_codec *c, uint8_t base, const unsigned char *src, float *dst,
                              uint32_t n)
{
    (void)c;
    (void)base;
    for (uint32_t i = 0; i < n; i += 32, src += KV_Q8_0_BYTES) {
        float scale = kv_get_f16(src);
        for (uint32_t j = 0; j < 32; j++) dst[i + j] = (float)(int8_t)src[2 + j] * scale;
    }
}

#endif
