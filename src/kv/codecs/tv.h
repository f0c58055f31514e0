/* tv.h - TurboQuant's values: rotated, then codes of 2, 3, 4, 5 or 8 bits for the centroids of
 * codebooks.h, with a scale in f16 for each group of 32. Common subset of C and CUDA C++ (see
 * codec.h). Method: Zandieh et al., arXiv 2504.19874; the format is vllm-metal's, the signs are
 * ours and the scale is searched.
 *
 * A row: codes, then the scales of all groups. The rotation is orthogonal: sums of rows are made in
 * the rotated basis, and turned back once. */
#ifndef KV_CODECS_TV_H
#define KV_CODECS_TV_H

#include "kv/codecs/codebooks.h"
#include "kv/codecs/packed.h"

// clang-format off
#define KV_TV_ROWS(ROW)                                      \
    ROW(tv2, 15, KV_TV, KV_FOR_V, 2, 32, 8, KV_BOOK_2, tv)   \
    ROW(tv3, 16, KV_TV, KV_FOR_V, 3, 32, 8, KV_BOOK_3, tv)   \
    ROW(tv4, 17, KV_TV, KV_FOR_V, 4, 32, 8, KV_BOOK_4, tv)   \
    ROW(tv5, 18, KV_TV, KV_FOR_V, 5, 32, 8, KV_BOOK_5, tv)   \
    ROW(tv8, 19, KV_TV, KV_FOR_V, 8, 32, 8, KV_BOOK_8, tv)
// clang-format on

/* Signs of elements 64 k .. 64 k + 63 of a row of n: output k of splitmix64 from a state that
 * spells a name, a revision and n. A bit that is set is a minus. */
KV_FN uint64_t kv_sign_word(uint32_t n, uint32_t k)
{
    uint64_t z = 0x7765667400010000ULL + n + (k + 1ULL) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

KV_FN void kv_flip_signs(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 64) {
        uint64_t word = kv_sign_word(n, i / 64);
        for (uint32_t j = 0; j < 64 && i + j < n; j++) {
            if ((word >> j) & 1) x[i + j] = -x[i + j];
        }
    }
}

/* Walsh-Hadamard over n elements, a power of two, times 1 / sqrt(n). */
KV_FN void kv_hadamard(float *x, uint32_t n)
{
    for (uint32_t half = 1; half < n; half *= 2) {
        for (uint32_t i = 0; i < n; i += 2 * half) {
            for (uint32_t j = i; j < i + half; j++) {
                float a = x[j];
                float b = x[j + half];
                x[j] = a + b;
                x[j + half] = a - b;
            }
        }
    }
    float factor = (float)(1.0 / sqrt((double)n));
    for (uint32_t i = 0; i < n; i++) x[i] *= factor;
}

/* Over blocks of the powers of two that n is made of, the largest first: its own inverse. */
KV_FN void kv_hadamard_blocks(float *x, uint32_t n)
{
    for (uint32_t size = 1U << 31; size > 0; size /= 2) {
        if ((n & size) == 0) continue;
        kv_hadamard(x, size);
        x += size;
    }
}

KV_FN void kv_rotate(float *x, uint32_t n)
{
    kv_flip_signs(x, n);
    kv_hadamard_blocks(x, n);
}

KV_FN void kv_unrotate(float *x, uint32_t n)
{
    kv_hadamard_blocks(x, n);
    kv_flip_signs(x, n);
}

/* The sum of a [32], in the order of a tree; a is overwritten. */
KV_FN float kv_tree(float *a)
{
    for (uint32_t half = 16; half > 0; half /= 2) {
        for (uint32_t i = 0; i < half; i++) a[i] += a[i + half];
    }
    return a[0];
}

/* What a row is encoded with: the centroids, and the boundaries midway between them. */
typedef struct kv_tv_book {
    const float *centroids;
    uint32_t bits;
    float bounds[256];
} kv_tv_book;

/* codes [32]: how many of the boundaries are below each y / scale. The elements of a step do not
 * wait for one another. */
KV_FN void kv_tv_codes(const kv_tv_book *b, const float *y, float scale, uint32_t *codes)
{
    float x[32];
    for (uint32_t j = 0; j < 32; j++) {
        x[j] = y[j] / scale;
        codes[j] = 0;
    }
    for (uint32_t k = b->bits; k-- > 0;) {
        for (uint32_t j = 0; j < 32; j++) {
            float bound = b->bounds[codes[j] + (1U << k) - 1];
            codes[j] += (uint32_t)(bound < x[j]) << k;
        }
    }
}

/* Codes of one group, y [32] of which n count and the rest is 0, by the best of seven scales around
 * the root of the mean square; returns the stored scale, as f16. What a scale is judged by is what
 * the least-squares scale for its codes would take from the error. */
KV_FN uint16_t kv_tv_group(const kv_tv_book *b, const float *y, uint32_t n, uint8_t *codes)
{
    float a[32];
    float r[32];
    for (uint32_t j = 0; j < 32; j++) a[j] = y[j] * y[j];
    float rms = sqrtf(kv_tree(a) / (float)n);
    float most = 0.0F;
    float best = 0.0F;
    int found = 0;
    for (uint32_t k = 0; k < 7 && rms != 0.0F; k++) {
        const float factor[7] = {0.75F, 0.85F, 0.95F, 1.05F, 1.15F, 1.25F, 1.35F};
        uint32_t tried[32];
        kv_tv_codes(b, y, rms * factor[k], tried);
        for (uint32_t j = 0; j < 32; j++) {
            float centroid = j < n ? b->centroids[tried[j]] : 0.0F;
            a[j] = centroid * y[j];
            r[j] = centroid * centroid;
        }
        float product = kv_tree(a);
        float squares = kv_tree(r);
        float gain = (product * product) / squares;
        if (!(product > 0.0F) || (found && !(gain > most))) continue;
        most = gain;
        best = product / squares;
        found = 1;
        for (uint32_t j = 0; j < n; j++) codes[j] = (uint8_t)tried[j];
    }
    if (!found) {
        memset(codes, (int)((1U << (b->bits - 1)) - 1), n);
        return 0;
    }
    return fp_to_f16(best < KV_F16_MOST ? best : KV_F16_MOST);
}

KV_FN void kv_tv_encode_row(const kv_codec *c, uint8_t base, unsigned char *dst, const float *src,
                            uint32_t n)
{
    float y[KV_PACKED_MOST + 32];
    kv_tv_book b;
    unsigned char *scales = dst + kv_codes_bytes(c, n);
    b.centroids = c->table;
    b.bits = c->bits;
    for (uint32_t k = 0; k + 1 < 1U << c->bits; k++) {
        b.bounds[k] = 0.5F * (c->table[k] + c->table[k + 1]);
    }
    kv_take_group(y, src, n, base);
    kv_rotate(y, n);
    memset(y + n, 0, 32 * sizeof *y);
    for (uint32_t i = 0; i < n; i += 32) {
        uint8_t codes[32] = {0};
        uint32_t n_group = kv_group_size(c, n, i);
        uint16_t scale = kv_tv_group(&b, y + i, n_group, codes);
        kv_pack(dst + kv_codes_bytes(c, i), codes, n_group, c->bits);
        kv_put_u16(scales + i / 16, scale);
    }
}

KV_FN void kv_tv_decode_row(const kv_codec *c, uint8_t base, const unsigned char *src, float *dst,
                            uint32_t n)
{
    (void)base;
    const unsigned char *scales = src + kv_codes_bytes(c, n);
    for (uint32_t i = 0; i < n; i += 32) {
        uint8_t codes[32] = {0};
        uint32_t n_group = kv_group_size(c, n, i);
        float scale = kv_get_f16(scales + i / 16);
        kv_unpack(src + kv_codes_bytes(c, i), codes, n_group, c->bits);
        for (uint32_t j = 0; j < n_group; j++) dst[i + j] = c->table[codes[j]] * scale;
    }
}

#endif
