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
#include "tensor/encodings/load.h"

/* Columns are walked in chunks of 8 blocks: one super-block of the K encodings, whole affine
 * groups. */
enum { CHUNK_BLOCKS = 8, CHUNK = CHUNK_BLOCKS * KERNEL_BLOCK, LINE = 64 };

_Static_assert((int)VW == (int)KERNEL_BLOCK, "a vw holds a block");

/* Blocks of a vector, which are a group of inputs; rows at work where few tokens are; vectors of
 * rows where there are more: an input in all lanes meets both. */
enum { GROUP = VL / 4, QUAD = 4, PANEL_VECTORS = 2 };

_Static_assert((int)GROUP <= (int)KERNEL_GROUP_MOST && (int)CHUNK_BLOCKS % (int)GROUP == 0,
               "a chunk holds groups");

/* Of Q8_0, the most of all encodings. */
enum { MOST_CHUNK_BYTES = 272 };

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

/* The affine encodings that are met most, which have loops of their own. */
INLINE bool codes_common(const codes_kind kind, const tensor *w)
{
    bool known = kind == CODES_AFFINE4 || kind == CODES_AFFINE8;
    return known && w->group == 64 && w->param_type != ENCODING_ID_F32;
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

/* 32 bytes of each of VL rows, which are stride apart -> their 8 words, each of VL rows. */
INLINE void codes_turn_32(const unsigned char *at, size_t stride, vi word[8])
{
    v_turn_words(at, stride, word);
    v_turn_words(at + 16, stride, word + 4);
}

/* Block b of a bit stream of VL rows, a byte a code. */
INLINE void codes_stream_words(const unsigned char *at, size_t stride, uint32_t b, const int bits,
                               vi word[8])
{
    _Alignas(64) unsigned char bytes[VL * KERNEL_BLOCK];
    at += (size_t)b * 4 * (size_t)bits;
    UNROLL
    for (size_t r = 0; r < VL; r++) {
        vw_store_bytes(bytes + r * KERNEL_BLOCK, vw_bits(at + r * stride, bits));
    }
    codes_turn_32(bytes, KERNEL_BLOCK, word);
}

/* Block b (0..7) of the chunk of VL rows that begins at: 32 codes, a byte each, as words of VL
 * rows. Signed for Q8_0 alone; of Q5_0 without the fifth bit. Not for encodings of 4 bits whose
 * blocks stand alone. */
INLINE void codes_words(const codes_kind kind, const unsigned char *at, size_t stride, uint32_t b,
                        vi word[8])
{
    const vi nibble = vi_set1(0x0f0f0f0f);
    switch (kind) {
    case CODES_AFFINE2:
        codes_stream_words(at, stride, b, 2, word);
        return;
    case CODES_AFFINE3:
        codes_stream_words(at, stride, b, 3, word);
        return;
    case CODES_AFFINE5:
        codes_stream_words(at, stride, b, 5, word);
        return;
    case CODES_AFFINE6:
        codes_stream_words(at, stride, b, 6, word);
        return;
    case CODES_AFFINE8:
        codes_turn_32(at + (size_t)b * 32, stride, word);
        return;
    case CODES_Q8_0:
        codes_turn_32(at + (size_t)b * 34 + 2, stride, word);
        return;
    case CODES_Q5_0:
        v_turn_words(at + (size_t)b * 22 + 6, stride, word);
        UNROLL
        for (int c = 0; c < 4; c++) {
            word[4 + c] = vi_and(vi_srl(word[c], 4), nibble);
            word[c] = vi_and(word[c], nibble);
        }
        return;
    case CODES_Q4_K:
    case CODES_Q5_K: {
        size_t low = (kind == CODES_Q4_K ? 16 : 48) + (size_t)(b / 2) * 32;
        codes_turn_32(at + low, stride, word);
        UNROLL
        for (int c = 0; c < 8; c++) word[c] = vi_and(vi_srl_any(word[c], b % 2 * 4), nibble);
        if (kind == CODES_Q4_K) return;
        vi upper[8];
        codes_turn_32(at + 16, stride, upper);
        UNROLL
        for (int c = 0; c < 8; c++) {
            vi bit = vi_and(vi_srl_any(upper[c], b), vi_set1(0x01010101));
            word[c] = vi_or(word[c], vi_sll(bit, 4));
        }
        return;
    }
    default: {
        uint32_t half = b / 4;
        uint32_t run = b % 4;
        vi upper[8];
        codes_turn_32(at + (size_t)half * 64 + (size_t)(run % 2) * 32, stride, word);
        codes_turn_32(at + 128 + (size_t)half * 32, stride, upper);
        UNROLL
        for (int c = 0; c < 8; c++) {
            vi low = vi_and(vi_srl_any(word[c], run / 2 * 4), nibble);
            vi two = vi_and(vi_srl_any(upper[c], run * 2), vi_set1(0x03030303));
            word[c] = vi_or(low, vi_sll(two, 4));
        }
        return;
    }
    }
}

/* Bytes of a block of the encodings with an f16 scale in front of every 32 codes; 0: another
 * one. */
INLINE size_t codes_block_bytes(const codes_kind kind)
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

INLINE bool codes_nibbles(const codes_kind kind)
{
    return kind == CODES_AFFINE4 || kind == CODES_Q4_0 || kind == CODES_Q4_1;
}

/* The 16 bytes of block b of 4-bit codes, as words of VL rows. */
INLINE void codes_nibble_words(const codes_kind kind, const unsigned char *chunk, size_t stride,
                               uint32_t b, vi word[4])
{
    size_t header = kind == CODES_Q4_0 ? 2 : 4;
    size_t at = kind == CODES_AFFINE4 ? 16 * (size_t)b : b * codes_block_bytes(kind) + header;
    v_turn_words(chunk + at, stride, word);
}

/* The bytes of the first and of the second 16 columns of GROUP blocks. Q4_K and Q5_K: 32 bytes hold
 * two blocks, in their low and in their high nibbles. */
INLINE void codes_halves_k(const codes_kind kind, const unsigned char *chunk, uint32_t b,
                           vi half[2])
{
    const unsigned char *low = chunk + (kind == CODES_Q4_K ? 16 : 48) + (size_t)b * 16;
    const vi shift = v_quarters(0, 4, 0, 4);
    const vi nibble = vi_set1(0x0f0f0f0f);
    UNROLL
    for (int h = 0; h < 2; h++) {
        half[h] = vi_and(vi_srlv(v_load_twice(low + 16 * (size_t)h, 32), shift), nibble);
        if (kind == CODES_Q4_K) continue;
        vi bit = vi_srlv(v_load_all(chunk + 16 + 16 * (size_t)h), v_quarters_from(b, 1));
        half[h] = vi_or(half[h], vi_sll(vi_and(bit, vi_set1(0x01010101)), 4));
    }
}

/* Q6_K: of each half of a super-block blocks 0 and 1 lie in the low nibbles of 64 bytes, 2 and 3 in
 * the high ones. */
INLINE void codes_halves_q6_k(const unsigned char *chunk, uint32_t b, vi half[2])
{
    const unsigned char *low = chunk + (size_t)(b / 4) * 64;
    const unsigned char *high = chunk + 128 + (size_t)(b / 4) * 32;
    const vi shift = GROUP == 4 ? v_quarters(0, 0, 4, 4) : vi_set1(b % 4 == 0 ? 0 : 4);
    UNROLL
    for (size_t h = 0; h < 2; h++) {
        vi nibbles = vi_srlv(v_load_again(low + 16 * h, 32), shift);
        vi two = vi_srlv(v_load_all(high + 16 * h), v_quarters_from(b % 4 * 2, 2));
        half[h] = vi_or(vi_and(nibbles, vi_set1(0x0f0f0f0f)),
                        vi_sll(vi_and(two, vi_set1(0x03030303)), 4));
    }
}

INLINE float affine_param(const unsigned char *row, uint32_t i, uint8_t type)
{
    if (type == ENCODING_ID_F32) return fp_from_bits(load_u32(row + (size_t)i * 4));
    if (type == ENCODING_ID_F16) return load_half(row + (size_t)i * 2);
    return fp_from_bf16(load_u16(row + (size_t)i * 2));
}

/* Number i (0 or 1) of words that hold two 16-bit numbers of VL rows, as f32. */
INLINE vf affine_half(vi word, uint8_t type, uint32_t i)
{
    if (type == ENCODING_ID_F16) {
        return vf_from_f16(i == 0 ? vi_and(word, vi_set1(0xffff)) : vi_srl(word, 16));
    }
    return vf_of(i == 0 ? vi_sll(word, 16) : vi_and(word, vi_set1((int32_t)0xffff0000u)));
}

/* The scales or biases of a whole chunk of VL rows, which begin at: out [block, VL]. group: 32, 64
 * or 128, so that there are 16, 8 or 4 bytes of each. */
static void affine_panel(const unsigned char *at, size_t stride, uint32_t group, uint8_t type,
                         float *out)
{
    vi word[4];
    if (group == 32) {
        v_turn_words(at, stride, word);
    } else if (group == 64) {
        v_column_64(at, stride, word);
    } else {
        word[0] = v_column_32(at, stride);
    }
    const uint32_t blocks = group / KERNEL_BLOCK;
    for (uint32_t i = 0; i < CHUNK_BLOCKS / 2 / blocks; i++) {
        vf value[2] = {affine_half(word[i], type, 0), affine_half(word[i], type, 1)};
        for (uint32_t b = 0; b < 2 * blocks; b++, out += VL) vf_store(out, value[b / blocks]);
    }
}

static void affine_params(const unsigned char *row, uint32_t group, uint8_t type, uint32_t block,
                          uint32_t n_blocks, float *out)
{
    for (uint32_t b = 0; b < n_blocks; b++) {
        out[b] = affine_param(row, (block + b) * KERNEL_BLOCK / group, type);
    }
}

/* The f16 scales that stand at, and in the blocks that follow, of VL rows: out [block, VL]. */
INLINE void block_scales(const unsigned char *at, size_t stride, const size_t bytes,
                         uint32_t n_blocks, float *out)
{
    uint16_t half[CHUNK_BLOCKS * VL];
    for (uint32_t b = 0; b < n_blocks; b++) {
        v_column_16(at + b * bytes, stride, half + (size_t)b * VL);
    }
    for (uint32_t b = 0; b < n_blocks; b++)
        vf_store(out + (size_t)b * VL, vf_load_f16(half + (size_t)b * VL));
}

/* Scales and, behind each, biases. */
INLINE void block_params(const unsigned char *at, size_t stride, const size_t bytes,
                         uint32_t n_blocks, float *scale, float *bias)
{
    vi word[CHUNK_BLOCKS];
    for (uint32_t b = 0; b < n_blocks; b++) word[b] = v_column_32(at + b * bytes, stride);
    for (uint32_t b = 0; b < n_blocks; b++) {
        vf_store(scale + (size_t)b * VL, vf_from_f16(vi_and(word[b], vi_set1(0xffff))));
        vf_store(bias + (size_t)b * VL, vf_from_f16(vi_srl(word[b], 16)));
    }
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

/* The scales and biases of VL super-blocks of Q4_K or Q5_K, which are stride apart: each [block,
 * VL]. */
INLINE void k_panel(const unsigned char *at, size_t stride, float *scale, float *bias)
{
    vi word[4];
    v_turn_words(at, stride, word);
    vf d = vf_from_f16(vi_and(word[0], vi_set1(0xffff)));
    vf least = vf_of(vi_xor(vi_of(vf_from_f16(vi_srl(word[0], 16))), vi_set1(INT32_MIN)));
    vi six = vi_set1(0x3f3f3f3f);
    vi four = vi_set1(0x0f0f0f0f);
    vi two = vi_set1(0x30303030);
    vi scales[2] = {vi_and(word[1], six),
                    vi_or(vi_and(word[3], four), vi_and(vi_srl(word[1], 2), two))};
    vi minimums[2] = {vi_and(word[2], six),
                      vi_or(vi_and(vi_srl(word[3], 4), four), vi_and(vi_srl(word[2], 2), two))};
    UNROLL
    for (int b = 0; b < CHUNK_BLOCKS; b++) {
        int shift = 24 - b % 4 * 8;
        vi s = vi_srl(vi_sll(scales[b / 4], shift), 24);
        vi m = vi_srl(vi_sll(minimums[b / 4], shift), 24);
        vf_store(scale + (size_t)b * VL, vf_mul(vf_from_int(s), d));
        vf_store(bias + (size_t)b * VL, vf_mul(vf_from_int(m), least));
    }
}

/* The scales of VL super-blocks of Q6_K, those of the first and of the second halves of their
 * blocks. at: where the 16 scales begin. */
INLINE void q6_k_panel(const unsigned char *at, size_t stride, float *first, float *second)
{
    uint16_t half[VL];
    v_column_16(at + 16, stride, half);
    vf d = vf_load_f16(half);
    vi word[4];
    v_turn_words(at, stride, word);
    UNROLL
    for (int b = 0; b < CHUNK_BLOCKS; b++) {
        int shift = 24 - b % 2 * 16;
        vi a = vi_sra(vi_sll(word[b / 2], shift), 24);
        vi c = vi_sra(vi_sll(word[b / 2], shift - 8), 24);
        vf_store(first + (size_t)b * VL, vf_mul(vf_from_int(a), d));
        vf_store(second + (size_t)b * VL, vf_mul(vf_from_int(c), d));
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
LOOP void codes_row(const tensor *w, codes_kind kind, uint64_t row, uint32_t first, uint32_t n,
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
