/* vec_codes.h - weights stored as integer codes: blocks of 32 codes, and the scale and bias of
 * each.
 *
 * Written in the words of vec_avx2.h or vec_avx512.h, one of which is included first. A weight is
 * code * scale + bias; every encoding is a row of CODES_MAP: how to find and unpack a block of 32
 * codes of a row, and its scales. The encodings themselves are described in tensor/encodings. */
#ifndef BACKEND_CPU_VEC_CODES_H
#define BACKEND_CPU_VEC_CODES_H

#include "backend/cpu/cpu_kernels.h"
#include "base/fp.h"
#include "tensor/encoding.h"

/* Columns are walked in chunks of 8 blocks: one super-block of the K encodings, whole affine
 * groups. */
enum { CHUNK_BLOCKS = 8, CHUNK = CHUNK_BLOCKS * KERNEL_BLOCK, LINE = 64 };

_Static_assert((int)VW == (int)KERNEL_BLOCK, "a vw holds a block");

/* name, scales of a block, whether there are biases */
#define CODES_MAP(X)                                                                               \
    X(AFFINE2, 1, true)                                                                            \
    X(AFFINE3, 1, true)                                                                            \
    X(AFFINE4, 1, true)                                                                            \
    X(AFFINE5, 1, true)                                                                            \
    X(AFFINE6, 1, true)                                                                            \
    X(AFFINE8, 1, true)                                                                            \
    X(Q4_0, 1, false)                                                                              \
    X(Q4_1, 1, true)                                                                               \
    X(Q5_0, 1, false)                                                                              \
    X(Q8_0, 1, false)                                                                              \
    X(Q4_K, 1, true)                                                                               \
    X(Q5_K, 1, true)                                                                               \
    X(Q6_K, 2, false)

typedef enum codes_kind {
#define CODES_KIND(name, subs, biased) CODES_##name,
    CODES_MAP(CODES_KIND)
#undef CODES_KIND
        CODES_NONE
} codes_kind;

static codes_kind codes_kind_of(const tensor *w)
{
    switch (w->encoding->id) {
    case ENCODING_ID_AFFINE:
        switch (w->bits) {
        case 2:
            return CODES_AFFINE2;
        case 3:
            return CODES_AFFINE3;
        case 4:
            return CODES_AFFINE4;
        case 5:
            return CODES_AFFINE5;
        case 6:
            return CODES_AFFINE6;
        default:
            return CODES_AFFINE8;
        }
    case ENCODING_ID_Q4_0:
        return CODES_Q4_0;
    case ENCODING_ID_Q4_1:
        return CODES_Q4_1;
    case ENCODING_ID_Q5_0:
        return CODES_Q5_0;
    case ENCODING_ID_Q8_0:
        return CODES_Q8_0;
    case ENCODING_ID_Q4_K:
        return CODES_Q4_K;
    case ENCODING_ID_Q5_K:
        return CODES_Q5_K;
    case ENCODING_ID_Q6_K:
        return CODES_Q6_K;
    default:
        return CODES_NONE;
    }
}

INLINE int codes_subs(const codes_kind kind)
{
    return kind == CODES_Q6_K ? 2 : 1;
}

INLINE bool codes_biased(const codes_kind kind)
{
    return kind != CODES_Q4_0 && kind != CODES_Q5_0 && kind != CODES_Q8_0 && kind != CODES_Q6_K;
}

/* Bytes of 8 blocks of codes: what a row advances by in a chunk. */
INLINE size_t codes_chunk_bytes(const codes_kind kind)
{
    switch (kind) {
    case CODES_AFFINE2:
        return 64;
    case CODES_AFFINE3:
        return 96;
    case CODES_AFFINE4:
        return 128;
    case CODES_AFFINE5:
        return 160;
    case CODES_AFFINE6:
        return 192;
    case CODES_AFFINE8:
        return 256;
    case CODES_Q4_0:
        return 144;
    case CODES_Q4_1:
        return 160;
    case CODES_Q5_0:
        return 176;
    case CODES_Q8_0:
        return 272;
    case CODES_Q4_K:
        return 144;
    case CODES_Q5_K:
        return 176;
    default:
        return 210;
    }
}

INLINE uint16_t load_u16(const unsigned char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

INLINE uint32_t load_u32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

INLINE float load_half(const unsigned char *at)
{
    return _cvtsh_ss(load_u16(at));
}

/* Block b (0..7) of the chunk of a row that begins at: 32 codes, signed where the encoding is. */
INLINE vw codes_unpack(const codes_kind kind, const unsigned char *at, uint32_t b)
{
    switch (kind) {
    case CODES_AFFINE2:
        return vw_bits(at + (size_t)b * 8, 2);
    case CODES_AFFINE3:
        return vw_bits(at + (size_t)b * 12, 3);
    case CODES_AFFINE4:
        return vw_bits(at + (size_t)b * 16, 4);
    case CODES_AFFINE5:
        return vw_bits(at + (size_t)b * 20, 5);
    case CODES_AFFINE6:
        return vw_bits(at + (size_t)b * 24, 6);
    case CODES_AFFINE8:
        return vw_u8(at + (size_t)b * 32);
    case CODES_Q4_0:
        return vw_minus(vw_nibbles(at + (size_t)b * 18 + 2), 8);
    case CODES_Q4_1:
        return vw_nibbles(at + (size_t)b * 20 + 4);
    case CODES_Q5_0: {
        const unsigned char *block = at + (size_t)b * 22;
        vw fifth = vw_where_bit(load_u32(block + 2), 16);
        return vw_minus(vw_or(vw_nibbles(block + 6), fifth), 16);
    }
    case CODES_Q8_0:
        return vw_s8(at + (size_t)b * 34 + 2);
    case CODES_Q4_K:
        return vw_and(vw_srl(vw_u8(at + 16 + (size_t)(b / 2) * 32), b % 2 * 4), 15);
    case CODES_Q5_K: {
        vw low = vw_and(vw_srl(vw_u8(at + 48 + (size_t)(b / 2) * 32), b % 2 * 4), 15);
        return vw_or(low, vw_sll(vw_and(vw_srl(vw_u8(at + 16), b), 1), 4));
    }
    default: {
        uint32_t half = b / 4;
        uint32_t run = b % 4;
        vw low = vw_u8(at + (size_t)half * 64 + (size_t)(run % 2) * 32);
        low = vw_and(vw_srl(low, run / 2 * 4), 15);
        vw upper = vw_and(vw_srl(vw_u8(at + 128 + (size_t)half * 32), run * 2), 3);
        return vw_minus(vw_or(low, vw_sll(upper, 4)), 32);
    }
    }
}

INLINE float affine_param(const unsigned char *row, uint32_t i, uint8_t type)
{
    if (type == ENCODING_ID_F32) return fp_from_bits(load_u32(row + (size_t)i * 4));
    if (type == ENCODING_ID_F16) return load_half(row + (size_t)i * 2);
    return fp_from_bf16(load_u16(row + (size_t)i * 2));
}

/* 16-bit numbers of 8 rows, 4 of each, the rows stride bytes apart -> f32 with rows as lanes: group
 * g at out + g * VL. Of rows beyond n_rows - 1 that one is read; bytes: how many there are of each,
 * 4 or 8. */
INLINE void affine_turn(const unsigned char *row, uint64_t stride, uint32_t n_rows, size_t bytes,
                        uint8_t type, float *out)
{
    __m128i a[8];
    UNROLL
    for (uint32_t r = 0; r < 8; r++) {
        const void *at = row + (r < n_rows ? r : n_rows - 1) * stride;
        a[r] = bytes == 8 ? _mm_loadl_epi64(at) : _mm_cvtsi32_si128((int)load_u32(at));
    }
    __m128i four[4];
    UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m128i x = _mm_unpacklo_epi16(a[4 * i], a[4 * i + 1]);
        __m128i y = _mm_unpacklo_epi16(a[4 * i + 2], a[4 * i + 3]);
        four[2 * i] = _mm_unpacklo_epi32(x, y);
        four[2 * i + 1] = _mm_unpackhi_epi32(x, y);
    }
    UNROLL
    for (int g = 0; g < 4; g++) {
        if (g >= 2 && bytes == 4) break;
        __m128i all = g % 2 == 0 ? _mm_unpacklo_epi64(four[g / 2], four[2 + g / 2])
                                 : _mm_unpackhi_epi64(four[g / 2], four[2 + g / 2]);
        __m256 value = type == ENCODING_ID_F16
                           ? _mm256_cvtph_ps(all)
                           : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(all), 16));
        _mm256_storeu_ps(out + (size_t)g * VL, value);
    }
}

/* The scales or biases of a whole chunk of VL rows, of which n_rows are there: out [block, VL]. */
static void affine_panel(const tensor *w, int plane, uint64_t row, uint32_t n_rows, uint32_t block,
                         float *out)
{
    uint32_t group = w->group;
    uint64_t stride = w->row_bytes[plane];
    const unsigned char *at =
        w->planes[plane] + row * stride + (size_t)(block * KERNEL_BLOCK / group) * 2;
    float of_group[CHUNK_BLOCKS * VL];
    for (uint32_t r = 0; r < VL; r += 8) {
        uint32_t first = r < n_rows ? r : n_rows - 1;
        const unsigned char *from = at + first * stride;
        uint32_t n = n_rows - first;
        affine_turn(from, stride, n, group == 128 ? 4 : 8, w->param_type, of_group + r);
        if (group == 32)
            affine_turn(from + 8, stride, n, 8, w->param_type, of_group + 4 * (size_t)VL + r);
    }
    for (uint32_t b = 0; b < CHUNK_BLOCKS; b++) {
        vf_store(out + (size_t)b * VL, vf_load(of_group + (size_t)(b * KERNEL_BLOCK / group) * VL));
    }
}

static void affine_params(const unsigned char *row, uint32_t group, uint8_t type, uint32_t block,
                          uint32_t n_blocks, float *out)
{
    for (uint32_t b = 0; b < n_blocks; b++) {
        out[b] = affine_param(row, (block + b) * KERNEL_BLOCK / group, type);
    }
}

/* Bytes of a block of the encodings with an f16 scale in front of every 32 codes; 0: another
 * one. */
INLINE uint32_t codes_block_bytes(const codes_kind kind)
{
    switch (kind) {
    case CODES_Q4_0:
        return 18;
    case CODES_Q4_1:
        return 20;
    case CODES_Q5_0:
        return 22;
    case CODES_Q8_0:
        return 34;
    default:
        return 0;
    }
}

/* The f16 number skip bytes into each block of VL rows: out [block, VL]. */
INLINE void block_params(const unsigned char *const codes[VL], size_t at, const uint32_t bytes,
                         uint32_t n_blocks, float *out)
{
    uint16_t half[CHUNK_BLOCKS * VL];
    for (uint32_t b = 0; b < n_blocks; b++) {
        UNROLL
        for (uint32_t r = 0; r < VL; r++)
            half[b * VL + r] = load_u16(codes[r] + at + (size_t)b * bytes);
    }
    for (uint32_t b = 0; b < n_blocks; b++)
        vf_store(out + (size_t)b * VL, vf_load_f16(half + (size_t)b * VL));
}

/* The eight 6-bit scales and eight minimums of a super-block of Q4_K or Q5_K
 * (encodings/k_scales.h), each in a byte: all eight at once, in words of four. */
INLINE void k_scales_words(const unsigned char *packed, uint64_t *scales, uint64_t *minimums)
{
    uint32_t a = load_u32(packed);
    uint32_t b = load_u32(packed + 4);
    uint32_t c = load_u32(packed + 8);
    uint32_t s_high = (c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u);
    uint32_t m_high = (c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u);
    *scales = (a & 0x3f3f3f3fu) | (uint64_t)s_high << 32;
    *minimums = (b & 0x3f3f3f3fu) | (uint64_t)m_high << 32;
}

/* factor * 8 bytes, unsigned. */
INLINE void scale_bytes(uint64_t bytes, float factor, float *out)
{
    __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
    _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(factor)));
}

INLINE void scale_bytes_signed(const unsigned char *at, float factor, float *out)
{
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    __m256i wide = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128((long long)bytes));
    _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(factor)));
}

/* The scales [8] and biases [8] of blocks block .. block + n_blocks - 1 of one row, whose codes
 * begin at; the rest is left alone. Q6_K has two scales a block: [2, 8], that of columns 0..15 of
 * each first. */
INLINE void codes_scales(const codes_kind kind, const tensor *w, uint64_t row,
                         const unsigned char *at, uint32_t block, uint32_t n_blocks, float *scale,
                         float *bias)
{
    switch (kind) {
    case CODES_Q4_0:
        for (uint32_t b = 0; b < n_blocks; b++) scale[b] = load_half(at + (size_t)b * 18);
        return;
    case CODES_Q4_1:
        for (uint32_t b = 0; b < n_blocks; b++) {
            scale[b] = load_half(at + (size_t)b * 20);
            bias[b] = load_half(at + (size_t)b * 20 + 2);
        }
        return;
    case CODES_Q5_0:
        for (uint32_t b = 0; b < n_blocks; b++) scale[b] = load_half(at + (size_t)b * 22);
        return;
    case CODES_Q8_0:
        for (uint32_t b = 0; b < n_blocks; b++) scale[b] = load_half(at + (size_t)b * 34);
        return;
    case CODES_Q4_K:
    case CODES_Q5_K: {
        uint64_t scales;
        uint64_t minimums;
        k_scales_words(at + 4, &scales, &minimums);
        scale_bytes(scales, load_half(at), scale);
        scale_bytes(minimums, -load_half(at + 2), bias);
        return;
    }
    case CODES_Q6_K: {
        float both[16];
        scale_bytes_signed(at + 192, load_half(at + 208), both);
        scale_bytes_signed(at + 200, load_half(at + 208), both + 8);
        for (size_t b = 0; b < CHUNK_BLOCKS; b++) {
            scale[b] = both[2 * b];
            scale[CHUNK_BLOCKS + b] = both[2 * b + 1];
        }
        return;
    }
    default:
        affine_params(w->planes[1] + row * w->row_bytes[1], w->group, w->param_type, block,
                      n_blocks, scale);
        affine_params(w->planes[2] + row * w->row_bytes[2], w->group, w->param_type, block,
                      n_blocks, bias);
    }
}

/* n_blocks blocks of a row from block on -> f32: out [n_blocks * 32]. at: where the chunk
 * begins. */
INLINE void codes_to_float(const codes_kind kind, const tensor *w, uint64_t row,
                           const unsigned char *at, uint32_t block, uint32_t n_blocks, float *out)
{
    float scale[2 * CHUNK_BLOCKS];
    float bias[CHUNK_BLOCKS];
    codes_scales(kind, w, row, at, block, n_blocks, scale, bias);
    for (uint32_t b = 0; b < n_blocks; b++) {
        vf code[VW / VL];
        vw_to_float(codes_unpack(kind, at, b), code);
        UNROLL
        for (uint32_t i = 0; i < VW / VL; i++) {
            uint32_t second = codes_subs(kind) == 2 && i >= VW / VL / 2 ? CHUNK_BLOCKS : 0;
            vf s = vf_set1(scale[second + b]);
            vf value =
                codes_biased(kind) ? vf_fma(code[i], s, vf_set1(bias[b])) : vf_mul(code[i], s);
            vf_store(out + (size_t)b * VW + (size_t)i * VL, value);
        }
    }
}

/* One row, columns first (a multiple of CHUNK) .. first + n - 1 (n a multiple of 32), to f32. */
static void codes_row(const tensor *w, codes_kind kind, uint64_t row, uint32_t first, uint32_t n,
                      float *out)
{
    const unsigned char *at = w->planes[0] + row * w->row_bytes[0];
    for (uint32_t col = first; col < first + n; col += CHUNK, out += CHUNK) {
        uint32_t block = col / KERNEL_BLOCK;
        uint32_t left = (first + n - col) / KERNEL_BLOCK;
        uint32_t n_blocks = left < CHUNK_BLOCKS ? left : CHUNK_BLOCKS;
        switch (kind) {
#define CODES_CASE(name, subs, biased)                                                             \
    case CODES_##name: {                                                                           \
        const unsigned char *from = at + col / CHUNK * codes_chunk_bytes(CODES_##name);            \
        codes_to_float(CODES_##name, w, row, from, block, n_blocks, out);                          \
        break;                                                                                     \
    }
            CODES_MAP(CODES_CASE)
#undef CODES_CASE
        case CODES_NONE:
            break;
        }
    }
}

#endif
