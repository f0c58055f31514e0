/* vec_avx2.h - the vector words that the vec_*.h loops are written in, for AVX2, FMA and F16C.
 *
 * vec_avx512.h defines the same words. vf: VL floats. vi: VL 32-bit integers. vw: one block of 32
 * 16-bit integers. All loads and stores take any alignment. Everything is static: the copy of an
 * external inline that the linker keeps may be one that this processor cannot run. */
#ifndef BACKEND_CPU_VEC_AVX2_H
#define BACKEND_CPU_VEC_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/vec_words.h"
#include "tensor/encodings/load.h"

/* Floats of a vector; columns of a block; rows and tokens of a dense tile; tokens of a tile of
 * codes. */
enum { VL = 8, VW = 32, DENSE_TOKENS = 3, CODE_TOKENS = 4 };

typedef __m256 vf;
typedef __m256i vi;

typedef struct vw {
    __m256i lo, hi; /* columns 0..15, 16..31 */
} vw;

/* ---- floats */

INLINE vf vf_zero(void)
{
    return _mm256_setzero_ps();
}

INLINE vf vf_set1(float value)
{
    return _mm256_set1_ps(value);
}

INLINE vf vf_load(const float *at)
{
    return _mm256_loadu_ps(at);
}

INLINE void vf_store(float *at, vf a)
{
    _mm256_storeu_ps(at, a);
}

/* All ones in the first n lanes. */
INLINE vi v_mask(uint32_t n)
{
    vi lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

/* The first n < VL; the rest is 0. */
INLINE vf vf_load_part(const float *at, uint32_t n)
{
    return _mm256_maskload_ps(at, v_mask(n));
}

INLINE void vf_store_part(float *at, vf a, uint32_t n)
{
    _mm256_maskstore_ps(at, v_mask(n), a);
}

/* The first n < VL lanes of a, 0 in the others. */
INLINE vf vf_first(vf a, uint32_t n)
{
    return _mm256_and_ps(a, _mm256_castsi256_ps(v_mask(n)));
}

INLINE vf vf_load_bf16(const void *at)
{
    __m128i half = _mm_loadu_si128((const __m128i *)at);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

INLINE vf vf_load_f16(const void *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at));
}

INLINE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

/* a b + c, rounded once. */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* a > b ? a : b, so b where one is not a number. */
INLINE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

INLINE vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

/* a - b in even lanes, a + b in odd ones. */
INLINE vf vf_addsub(vf a, vf b)
{
    return _mm256_addsub_ps(a, b);
}

/* Pairs of lanes: (even, even), (odd, odd), (odd, even). */
INLINE vf vf_dup_even(vf a)
{
    return _mm256_moveldup_ps(a);
}

INLINE vf vf_dup_odd(vf a)
{
    return _mm256_movehdup_ps(a);
}

INLINE vf vf_swap(vf a)
{
    return _mm256_permute_ps(a, 0xb1);
}

/* at [VL, 2] -> its two columns. */
INLINE void vf_load_pairs(const float *at, vf *first, vf *second)
{
    vf a = _mm256_loadu_ps(at);
    vf b = _mm256_loadu_ps(at + VL);
    vf low = _mm256_permute2f128_ps(a, b, 0x20);
    vf high = _mm256_permute2f128_ps(a, b, 0x31);
    *first = _mm256_shuffle_ps(low, high, 0x88);
    *second = _mm256_shuffle_ps(low, high, 0xdd);
}

/* a where x is -INFINITY, else b. */
INLINE vf vf_where_masked(vf x, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, _mm256_set1_ps(-__builtin_inff()), _CMP_EQ_OQ));
}

/* Lane i of the result: the sum of a[i], as ((0+2)+(1+3)) + ((4+6)+(5+7)). */
INLINE vf vf_tree(const vf a[VL])
{
    vf quad[2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        const vf *p = a + 4 * (size_t)i;
        vf x = _mm256_add_ps(_mm256_unpacklo_ps(p[0], p[1]), _mm256_unpackhi_ps(p[0], p[1]));
        vf y = _mm256_add_ps(_mm256_unpacklo_ps(p[2], p[3]), _mm256_unpackhi_ps(p[2], p[3]));
        __m256d xd = _mm256_castps_pd(x);
        __m256d yd = _mm256_castps_pd(y);
        quad[i] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(xd, yd)),
                                _mm256_castpd_ps(_mm256_unpackhi_pd(xd, yd)));
    }
    return _mm256_add_ps(_mm256_permute2f128_ps(quad[0], quad[1], 0x20),
                         _mm256_permute2f128_ps(quad[0], quad[1], 0x31));
}

/* One sum in the order of vf_tree. */
INLINE float vf_sum(vf a)
{
    vf x = _mm256_add_ps(a, _mm256_permute_ps(a, 0x4e));
    x = _mm256_add_ps(x, _mm256_permute_ps(x, 0xb1));
    __m128 low = _mm256_castps256_ps128(x);
    return _mm_cvtss_f32(_mm_add_ss(low, _mm256_extractf128_ps(x, 1)));
}

/* Sum of squares of n numbers in double; lane i holds those whose index is i modulo 8. */
INLINE double v_square_sum(const float *x, uint32_t n)
{
    __m256d low = _mm256_setzero_pd();
    __m256d high = _mm256_setzero_pd();
    for (uint32_t i = 0; i < n; i += VL) {
        vf v = n - i >= VL ? vf_load(x + i) : vf_load_part(x + i, n - i);
        __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        low = _mm256_fmadd_pd(a, a, low);
        high = _mm256_fmadd_pd(b, b, high);
    }
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(low, high));
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* Sum of n numbers in double, in the same lanes. */
INLINE double v_sum(const float *x, uint32_t n)
{
    __m256d low = _mm256_setzero_pd();
    __m256d high = _mm256_setzero_pd();
    for (uint32_t i = 0; i < n; i += VL) {
        vf v = n - i >= VL ? vf_load(x + i) : vf_load_part(x + i, n - i);
        low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(v)));
        high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
    }
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(low, high));
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* Sum of (x - center)^2 of n numbers, a multiple of VL, likewise. */
INLINE double v_square_sum_around(const float *x, uint32_t n, double center)
{
    __m256d low = _mm256_setzero_pd();
    __m256d high = _mm256_setzero_pd();
    __m256d c = _mm256_set1_pd(center);
    for (uint32_t i = 0; i < n; i += VL) {
        vf v = vf_load(x + i);
        __m256d a = _mm256_sub_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)), c);
        __m256d b = _mm256_sub_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)), c);
        low = _mm256_fmadd_pd(a, a, low);
        high = _mm256_fmadd_pd(b, b, high);
    }
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(low, high));
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* ---- integers */

INLINE vi vi_zero(void)
{
    return _mm256_setzero_si256();
}

INLINE vi vi_set1(int32_t value)
{
    return _mm256_set1_epi32(value);
}

INLINE vi vi_load(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

INLINE void vi_store(void *at, vi a)
{
    _mm256_storeu_si256((__m256i *)at, a);
}

INLINE vi vi_of(vf a)
{
    return _mm256_castps_si256(a);
}

INLINE vf vf_of(vi a)
{
    return _mm256_castsi256_ps(a);
}

/* To the nearest integer, ties to even. */
INLINE vi vi_round(vf a)
{
    return _mm256_cvtps_epi32(a);
}

INLINE vf vf_from_int(vi a)
{
    return _mm256_cvtepi32_ps(a);
}

/* The f16 numbers in the low halves of lanes that hold 0 .. 65535. */
INLINE vf vf_from_f16(vi a)
{
    vi packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, a), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

INLINE vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}

INLINE vi vi_sub(vi a, vi b)
{
    return _mm256_sub_epi32(a, b);
}

INLINE vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}

INLINE vi vi_or(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}

INLINE vi vi_xor(vi a, vi b)
{
    return _mm256_xor_si256(a, b);
}

INLINE vi vi_srl(vi a, const int n)
{
    return _mm256_srli_epi32(a, n);
}

/* By a number that is no constant. */
INLINE vi vi_srl_any(vi a, uint32_t n)
{
    return _mm256_srl_epi32(a, _mm_cvtsi32_si128((int)n));
}

INLINE vi vi_sra(vi a, const int n)
{
    return _mm256_srai_epi32(a, n);
}

INLINE vi vi_sll(vi a, const int n)
{
    return _mm256_slli_epi32(a, n);
}

INLINE vi vi_max(vi a, vi b)
{
    return _mm256_max_epi32(a, b);
}

/* a > b ? x : y. */
INLINE vi vi_if_greater(vi a, vi b, vi x, vi y)
{
    return _mm256_blendv_epi8(y, x, _mm256_cmpgt_epi32(a, b));
}

INLINE int32_t vi_top(vi a)
{
    __m128i x = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1));
    return _mm_cvtsi128_si32(x);
}

INLINE int32_t vi_total(vi a)
{
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
    return _mm_cvtsi128_si32(x);
}

INLINE uint64_t vi_xor_words(vi a)
{
    uint64_t word[4];
    vi_store(word, a);
    return word[0] ^ word[1] ^ word[2] ^ word[3];
}

/* The low halves of VL lanes that hold 0 .. 65535. */
INLINE void vi_store_u16(uint16_t *at, vi a)
{
    vi packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, a), 0x08);
    _mm_storeu_si128((__m128i *)at, _mm256_castsi256_si128(packed));
}

/* 16 lanes that hold -32768 .. 32767: those of even index, then those of odd index. */
INLINE void vi_store_even_odd(unsigned char *even, unsigned char *odd, const vi lanes[16 / VL])
{
    const vi order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    vi packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(lanes[0], lanes[1]), 0xd8);
    packed = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(packed, order), 0xd8);
    _mm_storeu_si128((__m128i *)(void *)even, _mm256_castsi256_si128(packed));
    _mm_storeu_si128((__m128i *)(void *)odd, _mm256_extracti128_si256(packed, 1));
}

/* 32 bits in all lanes. */
INLINE vi vi_set1_at(const unsigned char *at)
{
    int32_t all;
    memcpy(&all, at, sizeof all);
    return _mm256_set1_epi32(all);
}

/* sum + the products of pairs of 16-bit numbers, two a lane. The compiler may not put a chain of
 * these in another order: it would hold all products at once, on the stack. */
INLINE vi vi_dot_next(vi sum, vi a, vi b)
{
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    __asm__("" : "+x"(sum));
    return sum;
}

/* rows [8, 8] of 32 bits -> columns. */
INLINE void v_transpose(const vi row[8], vi column[8])
{
    vi quad[8];
    UNROLL
    for (int i = 0; i < 2; i++) {
        const vi *p = row + 4 * (size_t)i;
        vi a = _mm256_unpacklo_epi32(p[0], p[1]);
        vi b = _mm256_unpackhi_epi32(p[0], p[1]);
        vi c = _mm256_unpacklo_epi32(p[2], p[3]);
        vi d = _mm256_unpackhi_epi32(p[2], p[3]);
        quad[4 * i + 0] = _mm256_unpacklo_epi64(a, c);
        quad[4 * i + 1] = _mm256_unpackhi_epi64(a, c);
        quad[4 * i + 2] = _mm256_unpacklo_epi64(b, d);
        quad[4 * i + 3] = _mm256_unpackhi_epi64(b, d);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        column[i] = _mm256_permute2x128_si256(quad[i], quad[4 + i], 0x20);
        column[4 + i] = _mm256_permute2x128_si256(quad[i], quad[4 + i], 0x31);
    }
}

/* The f16 numbers that stand skip bytes into two blocks of so many bytes, of four rows: that of
 * block b of row r in lane 4 b + r. Nothing behind the blocks is read. */
INLINE vf v_blocks_f16(const unsigned char *const row[4], const size_t bytes, const size_t skip)
{
    __m128i all = _mm_unpacklo_epi64(v_four_halves(row, skip), v_four_halves(row, skip + bytes));
    return _mm256_cvtph_ps(all);
}

/* A 16-bit number of each of four rows, bf16 or f16, in lanes r and 4 + r. (In longer vectors, two
 * of them.) */
INLINE vf v_groups_of_2(const unsigned char *const row[4], size_t skip, const bool f16)
{
    __m128i four = v_four_halves(row, skip);
    if (f16) return _mm256_cvtph_ps(_mm_unpacklo_epi64(four, four));
    __m128i wide = _mm_slli_epi32(_mm_cvtepu16_epi32(four), 16);
    return _mm256_castsi256_ps(_mm256_broadcastsi128_si256(wide));
}

/* Four of each of four rows, of which each is for two blocks: [block, row]. */
INLINE void v_groups_of_4(const unsigned char *const row[4], size_t skip, const bool f16,
                          float *out)
{
    __m128i a[4];
    UNROLL
    for (int r = 0; r < 4; r++) a[r] = _mm_loadl_epi64((const void *)(row[r] + skip));
    __m128i x = _mm_unpacklo_epi16(a[0], a[1]);
    __m128i y = _mm_unpacklo_epi16(a[2], a[3]);
    __m128i pair[2] = {_mm_unpacklo_epi32(x, y), _mm_unpackhi_epi32(x, y)};
    UNROLL
    for (int g = 0; g < 4; g++, out += VL) {
        __m128i group = g % 2 == 0 ? pair[g / 2] : _mm_srli_si128(pair[g / 2], 8);
        __m128i wide = _mm_slli_epi32(_mm_cvtepu16_epi32(group), 16);
        __m128 value = f16 ? _mm_cvtph_ps(group) : _mm_castsi128_ps(wide);
        vf_store(out, _mm256_set_m128(value, value));
    }
}

/* The last one. */
INLINE vf v_group_of_last(const unsigned char *const row[4], size_t skip, const bool f16)
{
    return v_groups_of_2(row, skip, f16);
}

/* 16 bytes of each of VL rows, which are stride apart -> their 4 words, each of VL rows. */
INLINE void v_turn_words(const unsigned char *at, size_t stride, vi word[4])
{
    const unsigned char *high = v_kept(at + 4 * stride);
    const size_t skip[4] = {0, stride, 2 * stride, v_kept_size(3 * stride)};
    vi a[4];
    UNROLL
    for (size_t i = 0; i < 4; i++) {
        a[i] = _mm256_set_m128i(v_load_16(high + skip[i]), v_load_16(at + skip[i]));
    }
    vi x = _mm256_unpacklo_epi32(a[0], a[1]);
    vi y = _mm256_unpackhi_epi32(a[0], a[1]);
    vi z = _mm256_unpacklo_epi32(a[2], a[3]);
    vi w = _mm256_unpackhi_epi32(a[2], a[3]);
    word[0] = _mm256_unpacklo_epi64(x, z);
    word[1] = _mm256_unpackhi_epi64(x, z);
    word[2] = _mm256_unpacklo_epi64(y, w);
    word[3] = _mm256_unpackhi_epi64(y, w);
}

/* at [VL, 2] -> its two columns. */
INLINE void vi_load_pairs(const void *at, vi column[2])
{
    vf first;
    vf second;
    vf_load_pairs(at, &first, &second);
    column[0] = vi_of(first);
    column[1] = vi_of(second);
}

/* A column of numbers of VL rows, which are stride apart. Through volatile, as a compiler that
 * makes vectors of them needs three instructions for each, all of them shuffles. */
INLINE void v_column_16(const unsigned char *at, size_t stride, uint16_t out[VL])
{
    const size_t skip[4] = {0, stride, 2 * stride, v_kept_size(3 * stride)};
    volatile uint16_t *to = out;
    UNROLL
    for (size_t r = 0; r < VL; r++) {
        if (r != 0 && r % 4 == 0) at = v_kept(at + 4 * stride);
        to[r] = load_u16(at + skip[r % 4]);
    }
}

INLINE vi v_column_32(const unsigned char *at, size_t stride)
{
    const size_t skip[4] = {0, stride, 2 * stride, v_kept_size(3 * stride)};
    uint32_t bits[VL];
    volatile uint32_t *to = bits;
    UNROLL
    for (size_t r = 0; r < VL; r++) {
        if (r != 0 && r % 4 == 0) at = v_kept(at + 4 * stride);
        to[r] = load_u32(at + skip[r % 4]);
    }
    return vi_load(bits);
}

/* Two words of each row. */
INLINE void v_column_64(const unsigned char *at, size_t stride, vi word[2])
{
    const size_t skip[4] = {0, stride, 2 * stride, v_kept_size(3 * stride)};
    uint64_t bits[VL];
    volatile uint64_t *to = bits;
    UNROLL
    for (size_t r = 0; r < VL; r++) {
        if (r != 0 && r % 4 == 0) at = v_kept(at + 4 * stride);
        uint64_t both;
        memcpy(&both, at + skip[r % 4], sizeof both);
        to[r] = both;
    }
    vi_load_pairs(bits, word);
}

/* In each word, the two bytes in the middle change places. */
INLINE vi vi_swap_middle(vi a)
{
    return _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                      0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15)));
}

/* Shifts of 16-bit numbers. */
INLINE vi vi_srl_halves(vi a, const int n)
{
    return _mm256_srli_epi16(a, n);
}

INLINE vi vi_sra_halves(vi a, const int n)
{
    return _mm256_srai_epi16(a, n);
}

INLINE vi vi_sll_halves(vi a, const int n)
{
    return _mm256_slli_epi16(a, n);
}

INLINE vi vi_minus_16(vi a, int16_t value)
{
    return _mm256_sub_epi16(a, _mm256_set1_epi16(value));
}

/* rows [VL, 8] -> columns [8, VL]. */
INLINE void v_transpose_8(const float *rows, float *columns)
{
    vi row[8];
    vi column[8];
    UNROLL
    for (int i = 0; i < 8; i++) row[i] = vi_load(rows + 8 * (size_t)i);
    v_transpose(row, column);
    UNROLL
    for (int i = 0; i < 8; i++) vi_store(columns + 8 * (size_t)i, column[i]);
}

/* ---- halves: 16 bytes of a block each */

/* 16 bytes at and at + step. */
INLINE vi v_load_quarters(const unsigned char *at, size_t step)
{
    return _mm256_set_m128i(v_load_16(at + step), v_load_16(at));
}

/* The same 16 bytes in both. */
INLINE vi v_load_all(const unsigned char *at)
{
    return _mm256_broadcastsi128_si256(v_load_16(at));
}

/* 16 bytes at, the same again (and, in longer vectors, those at + step twice). */
INLINE vi v_load_twice(const unsigned char *at, size_t step)
{
    (void)step;
    return v_load_all(at);
}

/* 16 bytes at, those at + step. */
INLINE vi v_load_again(const unsigned char *at, size_t step)
{
    return v_load_quarters(at, step);
}

/* Halves of equal 32-bit numbers: the first two. */
INLINE vi v_quarters(int a, int b, int c, int d)
{
    (void)c;
    (void)d;
    return _mm256_setr_epi32(a, a, a, a, b, b, b, b);
}

/* from, from + step. */
INLINE vi v_quarters_from(uint32_t from, int step)
{
    return _mm256_add_epi32(v_quarters(0, step, 0, 0), vi_set1((int32_t)from));
}

INLINE vi vi_srlv(vi a, vi n)
{
    return _mm256_srlv_epi32(a, n);
}

/* In each half, bytes l and 8 + l come together. */
INLINE vi vi_fold_bytes(vi a)
{
    return _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                      0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15)));
}

/* In each half, 16 in 16-bit lane l where bit 2 l of the first word is set (slot 0), or bit
 * 16 + 2 l (1), 2 l + 1 (2) or 17 + 2 l (3). */
INLINE vi v_fifth_bits(vi bits, const int slot)
{
    const int byte = (int)0x80008000u + slot % 2 * 0x00020002;
    __m128i from = _mm_setr_epi32(byte, byte, byte + 0x00010001, byte + 0x00010001);
    const int bit = slot / 2 == 0 ? 0x00040001 : 0x00080002;
    vi mask = _mm256_broadcastsi128_si256(_mm_setr_epi32(bit, bit << 4, bit, bit << 4));
    vi spread = _mm256_shuffle_epi8(bits, _mm256_broadcastsi128_si256(from));
    vi set = _mm256_cmpeq_epi16(_mm256_and_si256(spread, mask), mask);
    return _mm256_and_si256(set, _mm256_set1_epi16(16));
}

/* The sums of the products of pairs of 16-bit numbers. */
INLINE vi vi_pairs(vi a, vi b)
{
    return _mm256_madd_epi16(a, b);
}

/* The same added to sum. */
INLINE vi vi_dot(vi sum, vi a, vi b)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

/* The sums of the halves of four vectors: that of half h of a[r] in lane 4 h + r. */
INLINE vi v_quad_tree(const vi a[4])
{
    vi x = vi_add(_mm256_unpacklo_epi32(a[0], a[1]), _mm256_unpackhi_epi32(a[0], a[1]));
    vi y = vi_add(_mm256_unpacklo_epi32(a[2], a[3]), _mm256_unpackhi_epi32(a[2], a[3]));
    return vi_add(_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
}

/* Half 0 + half 1. */
INLINE __m128 v_sum_groups(vf a)
{
    return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}

/* The same of two vectors. */
INLINE vf v_sum_classes(const float *a, size_t stride)
{
    return vf_add(vf_load(a), vf_load(a + stride));
}

/* ---- blocks of 32 columns */

/* Codes of at most 8 bits, a byte each. */
INLINE void vw_store_bytes(unsigned char *at, vw a)
{
    vi bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(a.lo, a.hi), 0xd8);
    _mm256_storeu_si256((__m256i *)(void *)at, bytes);
}

INLINE void vw_to_float(vw a, vf out[VW / VL])
{
    out[0] = vf_from_int(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(a.lo)));
    out[1] = vf_from_int(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(a.lo, 1)));
    out[2] = vf_from_int(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(a.hi)));
    out[3] = vf_from_int(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(a.hi, 1)));
}

INLINE vw vw_u8(const unsigned char *at)
{
    return (vw){_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)at)),
                _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(at + 16)))};
}

INLINE vw vw_s8(const unsigned char *at)
{
    return (vw){_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)at)),
                _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(at + 16)))};
}

/* 16 bytes: columns 0..15 in the low nibbles, 16..31 in the high ones. */
INLINE vw vw_nibbles(const unsigned char *at)
{
    vi bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)at));
    return (vw){_mm256_and_si256(bytes, _mm256_set1_epi16(15)), _mm256_srli_epi16(bytes, 4)};
}

INLINE vw vw_and(vw a, int16_t mask)
{
    vi m = _mm256_set1_epi16(mask);
    return (vw){_mm256_and_si256(a.lo, m), _mm256_and_si256(a.hi, m)};
}

INLINE vw vw_or(vw a, vw b)
{
    return (vw){_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}

INLINE vw vw_srl(vw a, uint32_t n)
{
    __m128i count = _mm_cvtsi32_si128((int)n);
    return (vw){_mm256_srl_epi16(a.lo, count), _mm256_srl_epi16(a.hi, count)};
}

INLINE vw vw_sll(vw a, uint32_t n)
{
    __m128i count = _mm_cvtsi32_si128((int)n);
    return (vw){_mm256_sll_epi16(a.lo, count), _mm256_sll_epi16(a.hi, count)};
}

INLINE vw vw_minus(vw a, int16_t value)
{
    vi v = _mm256_set1_epi16(value);
    return (vw){_mm256_sub_epi16(a.lo, v), _mm256_sub_epi16(a.hi, v)};
}

/* value where the bit of the column is set. */
INLINE vw vw_where_bit(uint32_t bits, int16_t value)
{
    vi bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384,
                               INT16_MIN);
    vi v = _mm256_set1_epi16(value);
    vi low = _mm256_and_si256(_mm256_set1_epi16((int16_t)(uint16_t)bits), bit);
    vi high = _mm256_and_si256(_mm256_set1_epi16((int16_t)(uint16_t)(bits >> 16)), bit);
    return (vw){_mm256_and_si256(_mm256_cmpeq_epi16(low, bit), v),
                _mm256_and_si256(_mm256_cmpeq_epi16(high, bit), v)};
}

/* Columns j and j + 1 of 8 of a bit stream: the bytes that their 16 bits come from, skip bytes into
 * a run. */
#define WINDOW_LOW(bits, skip, j) ((char)((skip) + (j) * (bits) / 8))
#define WINDOW_HIGH(bits, skip, j)                                                                 \
    (((j) + 1) * (bits) > ((j) * (bits) / 8 + 1) * 8 ? (char)((skip) + (j) * (bits) / 8 + 1)       \
                                                     : (char)-1)
#define WINDOW(bits, skip, j) WINDOW_LOW(bits, skip, j), WINDOW_HIGH(bits, skip, j)
#define WINDOWS(b, s)                                                                              \
    _mm_setr_epi8(WINDOW(b, s, 0), WINDOW(b, s, 1), WINDOW(b, s, 2), WINDOW(b, s, 3),              \
                  WINDOW(b, s, 4), WINDOW(b, s, 5), WINDOW(b, s, 6), WINDOW(b, s, 7))

/* What brings each of the 8 codes to the top of its 16 bits, as a factor. */
#define LIFT(bits, j) (int16_t)(1u << (16 - (bits) - (j) * (bits) % 8))
#define LIFTS(b)                                                                                   \
    _mm_setr_epi16(LIFT(b, 0), LIFT(b, 1), LIFT(b, 2), LIFT(b, 3), LIFT(b, 4), LIFT(b, 5),         \
                   LIFT(b, 6), LIFT(b, 7))

/* Where the run of 16 bytes that holds columns 8 i .. 8 i + 7 begins, and how far before them. */
#define RUN_FROM(bits, i)                                                                          \
    ((bits) <= 4 ? 0 : (i) * (bits) < 4 * (bits)-16 ? (i) * (bits) : 4 * (bits)-16)
#define RUN_SKIP(bits, i) ((i) * (bits)-RUN_FROM(bits, i))

/* 32 codes of 2 to 6 bits (a constant), 4 * bits bytes: not a byte beyond them is read. */
INLINE vw vw_bits(const unsigned char *at, const int bits)
{
    vi low;
    vi high;
    if (bits <= 4) {
        __m128i run;
        if (bits == 4) {
            run = _mm_loadu_si128((const __m128i *)(const void *)at);
        } else {
            run = _mm_loadl_epi64((const __m128i *)(const void *)at);
        }
        if (bits == 3) {
            int32_t last;
            memcpy(&last, at + 8, sizeof last);
            run = _mm_insert_epi32(run, last, 2);
        }
        low = _mm256_broadcastsi128_si256(run);
        high = low;
    } else {
        const __m128i *run[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            run[i] = (const __m128i *)(const void *)(at + RUN_FROM(bits, i));
        low = _mm256_set_m128i(_mm_loadu_si128(run[1]), _mm_loadu_si128(run[0]));
        high = _mm256_set_m128i(_mm_loadu_si128(run[3]), _mm_loadu_si128(run[2]));
    }
    vi lift = _mm256_broadcastsi128_si256(LIFTS(bits));
    low = _mm256_shuffle_epi8(
        low, _mm256_set_m128i(WINDOWS(bits, RUN_SKIP(bits, 1)), WINDOWS(bits, RUN_SKIP(bits, 0))));
    high = _mm256_shuffle_epi8(
        high, _mm256_set_m128i(WINDOWS(bits, RUN_SKIP(bits, 3)), WINDOWS(bits, RUN_SKIP(bits, 2))));
    return (vw){_mm256_srli_epi16(_mm256_mullo_epi16(low, lift), 16 - bits),
                _mm256_srli_epi16(_mm256_mullo_epi16(high, lift), 16 - bits)};
}

/* Blocks of natural order -> slot i: columns 0, 2 .. 14 of each (i 0), 16, 18 .. 30 (1), 1, 3 ..
 * (2), 17, 19 .. (3). */
INLINE void vw_to_slots(const vw block[2], vi slot[4])
{
    const vi order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    vi low[2];  /* even columns of the first half, then odd ones */
    vi high[2]; /* the same of the second */
    UNROLL
    for (int i = 0; i < 2; i++) {
        low[i] = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(block[i].lo, order), 0xd8);
        high[i] = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(block[i].hi, order), 0xd8);
    }
    slot[0] = _mm256_permute2x128_si256(low[0], low[1], 0x20);
    slot[2] = _mm256_permute2x128_si256(low[0], low[1], 0x31);
    slot[1] = _mm256_permute2x128_si256(high[0], high[1], 0x20);
    slot[3] = _mm256_permute2x128_si256(high[0], high[1], 0x31);
}

/* ---- tables */

/* Codes of at most 15 bits, VL a vector. */
INLINE void vw_to_ints(vw a, vi out[VW / VL])
{
    out[0] = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(a.lo));
    out[1] = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(a.lo, 1));
    out[2] = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(a.hi));
    out[3] = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(a.hi, 1));
}

/* 2^bits floats in registers; none for more than 5 bits. */
typedef struct v_book {
    vf part[4];
} v_book;

INLINE v_book v_book_of(const float *at, const int bits)
{
    v_book book;
    UNROLL
    for (int i = 0; i < 4; i++) {
        book.part[i] = vf_zero();
        if (bits <= 5 && VL * (i + 1) <= 1 << bits) book.part[i] = vf_load(at + (size_t)i * VL);
    }
    if (bits == 2) book.part[0] = vf_load_part(at, 4);
    return book;
}

INLINE vf v_book_look(v_book book, const int bits, vi index)
{
    vf part[4];
    UNROLL
    for (int i = 0; i < 4; i++) part[i] = _mm256_permutevar8x32_ps(book.part[i], index);
    if (bits < 4) return part[0];
    vf fourth_bit = vf_of(vi_sll(index, 28));
    vf low = _mm256_blendv_ps(part[0], part[1], fourth_bit);
    if (bits < 5) return low;
    vf high = _mm256_blendv_ps(part[2], part[3], fourth_bit);
    return _mm256_blendv_ps(low, high, vf_of(vi_sll(index, 27)));
}

/* ---- codes of VL columns */

INLINE vi vi_load_u8(const unsigned char *at)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at));
}

/* VL codes of 4 bits in the low bits of the lanes, with others above them. */
INLINE vi vi_load_nibbles(const unsigned char *at)
{
    int32_t all;
    memcpy(&all, at, sizeof all);
    return _mm256_srlv_epi32(_mm256_set1_epi32(all),
                             _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
}

/* Columns in order -> in the lanes of vi_load_nibbles, and back: here they are the same. */
INLINE vf vf_turn(vf a)
{
    return a;
}

INLINE vf vf_turn_back(vf a)
{
    return a;
}

/* What the 16 codes of a group mean: code * scale + other, or centroid * scale, rounded once. */
typedef struct v_meaning {
    vf first, second; /* scale and other; or the lower and the upper eight */
} v_meaning;

INLINE v_meaning v_meaning_none(void)
{
    return (v_meaning){vf_zero(), vf_zero()};
}

INLINE v_meaning v_meaning_affine(vf scale, vf other)
{
    return (v_meaning){scale, other};
}

INLINE v_meaning v_meaning_book(v_book book, vf scale)
{
    return (v_meaning){vf_mul(book.part[0], scale), vf_mul(book.part[1], scale)};
}

/* codes: those of vi_load_nibbles. */
INLINE vf v_mean_affine(v_meaning of, vi codes)
{
    vf code = vf_from_int(vi_and(codes, vi_set1(15)));
    return vf_fma(code, of.first, of.second);
}

INLINE vf v_mean_book(v_meaning of, vi codes)
{
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(of.first, codes),
                            _mm256_permutevar8x32_ps(of.second, codes), vf_of(vi_sll(codes, 28)));
}

#endif
