/* vec_avx512.h - the words of vec_avx2.h for AVX-512 F, BW, DQ, VL with VNNI and BF16. */
#ifndef BACKEND_CPU_VEC_AVX512_H
#define BACKEND_CPU_VEC_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/vec_words.h"

/* Floats of a vector; columns of a block; rows and tokens of a dense tile; tokens of a tile of
 * codes. */
enum { VL = 16, VW = 32, DENSE_TOKENS = 6, CODE_TOKENS = 8 };

typedef __m512 vf;
typedef __m512i vi;

typedef struct vw {
    __m512i all; /* columns 0..31 */
} vw;

/* The type that the compiler gives a constant shift of 16-bit numbers. */
#ifdef __clang__
typedef unsigned shift_16;
#else
typedef int shift_16;
#endif

/* ---- floats */

INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}

INLINE vf vf_set1(float value)
{
    return _mm512_set1_ps(value);
}

INLINE vf vf_load(const float *at)
{
    return _mm512_loadu_ps(at);
}

INLINE void vf_store(float *at, vf a)
{
    _mm512_storeu_ps(at, a);
}

/* The first n < VL lanes. */
INLINE __mmask16 v_mask(uint32_t n)
{
    return (__mmask16)((1u << n) - 1u);
}

/* The first n < VL; the rest is 0. */
INLINE vf vf_load_part(const float *at, uint32_t n)
{
    return _mm512_maskz_loadu_ps(v_mask(n), at);
}

INLINE void vf_store_part(float *at, vf a, uint32_t n)
{
    _mm512_mask_storeu_ps(at, v_mask(n), a);
}

INLINE vf vf_load_bf16(const void *at)
{
    __m256i half = _mm256_loadu_si256((const __m256i *)at);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

INLINE vf vf_load_f16(const void *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at));
}

INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

/* a b + c, rounded once. */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* a > b ? a : b, so b where one is not a number. */
INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

INLINE vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

/* a - b in even lanes, a + b in odd ones. */
INLINE vf vf_addsub(vf a, vf b)
{
    return _mm512_mask_sub_ps(_mm512_add_ps(a, b), 0x5555, a, b);
}

/* Pairs of lanes: (even, even), (odd, odd), (odd, even). */
INLINE vf vf_dup_even(vf a)
{
    return _mm512_moveldup_ps(a);
}

INLINE vf vf_dup_odd(vf a)
{
    return _mm512_movehdup_ps(a);
}

INLINE vf vf_swap(vf a)
{
    return _mm512_permute_ps(a, 0xb1);
}

/* at [VL, 2] -> its two columns. */
INLINE void vf_load_pairs(const float *at, vf *first, vf *second)
{
    vf a = _mm512_loadu_ps(at);
    vf b = _mm512_loadu_ps(at + VL);
    vi even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *first = _mm512_permutex2var_ps(a, even, b);
    *second = _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
}

/* a where x is -INFINITY, else b. */
INLINE vf vf_where_masked(vf x, vf a, vf b)
{
    __mmask16 masked = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-__builtin_inff()), _CMP_EQ_OQ);
    return _mm512_mask_blend_ps(masked, b, a);
}

/* Lane i of the result: the sum of a[i]: each quarter as (0+2)+(1+3), then the quarters as
 * (0+1)+(2+3). */
INLINE vf vf_tree(const vf a[VL])
{
    vf quad[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        const vf *p = a + 4 * (size_t)i;
        vf x = _mm512_add_ps(_mm512_unpacklo_ps(p[0], p[1]), _mm512_unpackhi_ps(p[0], p[1]));
        vf y = _mm512_add_ps(_mm512_unpacklo_ps(p[2], p[3]), _mm512_unpackhi_ps(p[2], p[3]));
        __m512d xd = _mm512_castps_pd(x);
        __m512d yd = _mm512_castps_pd(y);
        quad[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(xd, yd)),
                                _mm512_castpd_ps(_mm512_unpackhi_pd(xd, yd)));
    }
    vf u = _mm512_add_ps(_mm512_shuffle_f32x4(quad[0], quad[1], 0x88),
                         _mm512_shuffle_f32x4(quad[0], quad[1], 0xdd));
    vf v = _mm512_add_ps(_mm512_shuffle_f32x4(quad[2], quad[3], 0x88),
                         _mm512_shuffle_f32x4(quad[2], quad[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(u, v, 0x88), _mm512_shuffle_f32x4(u, v, 0xdd));
}

/* One sum in the order of vf_tree. */
INLINE float vf_sum(vf a)
{
    vf x = _mm512_add_ps(a, _mm512_permute_ps(a, 0x4e));
    x = _mm512_add_ps(x, _mm512_permute_ps(x, 0xb1));
    x = _mm512_add_ps(x, _mm512_shuffle_f32x4(x, x, 0xb1));
    x = _mm512_add_ps(x, _mm512_shuffle_f32x4(x, x, 0x4e));
    return _mm512_cvtss_f32(x);
}

/* Sum of squares of n numbers in double; lane i holds those whose index is i modulo 16. */
INLINE double v_square_sum(const float *x, uint32_t n)
{
    __m512d low = _mm512_setzero_pd();
    __m512d high = _mm512_setzero_pd();
    for (uint32_t i = 0; i < n; i += VL) {
        vf v = n - i >= VL ? vf_load(x + i) : vf_load_part(x + i, n - i);
        __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
        __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
        low = _mm512_fmadd_pd(a, a, low);
        high = _mm512_fmadd_pd(b, b, high);
    }
    double lane[8];
    _mm512_storeu_pd(lane, _mm512_add_pd(low, high));
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* Sum of n numbers in double, in the same lanes. */
INLINE double v_sum(const float *x, uint32_t n)
{
    __m512d low = _mm512_setzero_pd();
    __m512d high = _mm512_setzero_pd();
    for (uint32_t i = 0; i < n; i += VL) {
        vf v = n - i >= VL ? vf_load(x + i) : vf_load_part(x + i, n - i);
        low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(v)));
        high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
    }
    double lane[8];
    _mm512_storeu_pd(lane, _mm512_add_pd(low, high));
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* Sum of (x - center)^2 of n numbers, a multiple of VL, likewise. */
INLINE double v_square_sum_around(const float *x, uint32_t n, double center)
{
    __m512d low = _mm512_setzero_pd();
    __m512d high = _mm512_setzero_pd();
    __m512d c = _mm512_set1_pd(center);
    for (uint32_t i = 0; i < n; i += VL) {
        vf v = vf_load(x + i);
        __m512d a = _mm512_sub_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(v)), c);
        __m512d b = _mm512_sub_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)), c);
        low = _mm512_fmadd_pd(a, a, low);
        high = _mm512_fmadd_pd(b, b, high);
    }
    double lane[8];
    _mm512_storeu_pd(lane, _mm512_add_pd(low, high));
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* ---- integers */

INLINE vi vi_zero(void)
{
    return _mm512_setzero_si512();
}

INLINE vi vi_set1(int32_t value)
{
    return _mm512_set1_epi32(value);
}

INLINE vi vi_load(const void *at)
{
    return _mm512_loadu_si512(at);
}

INLINE void vi_store(void *at, vi a)
{
    _mm512_storeu_si512(at, a);
}

INLINE vi vi_of(vf a)
{
    return _mm512_castps_si512(a);
}

INLINE vf vf_of(vi a)
{
    return _mm512_castsi512_ps(a);
}

/* To the nearest integer, ties to even. */
INLINE vi vi_round(vf a)
{
    return _mm512_cvtps_epi32(a);
}

INLINE vf vf_from_int(vi a)
{
    return _mm512_cvtepi32_ps(a);
}

/* The f16 numbers in the low halves of lanes that hold 0 .. 65535. */
INLINE vf vf_from_f16(vi a)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a));
}

INLINE vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

INLINE vi vi_sub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}

INLINE vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}

INLINE vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}

INLINE vi vi_xor(vi a, vi b)
{
    return _mm512_xor_si512(a, b);
}

INLINE vi vi_srl(vi a, const int n)
{
    return _mm512_srli_epi32(a, (unsigned)n);
}

/* By a number that is no constant. */
INLINE vi vi_srl_any(vi a, uint32_t n)
{
    return _mm512_srl_epi32(a, _mm_cvtsi32_si128((int)n));
}

INLINE vi vi_sra(vi a, const int n)
{
    return _mm512_srai_epi32(a, (unsigned)n);
}

INLINE vi vi_sll(vi a, const int n)
{
    return _mm512_slli_epi32(a, (unsigned)n);
}

INLINE vi vi_max(vi a, vi b)
{
    return _mm512_max_epi32(a, b);
}

/* a > b ? x : y. */
INLINE vi vi_if_greater(vi a, vi b, vi x, vi y)
{
    return _mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(a, b), y, x);
}

INLINE int32_t vi_top(vi a)
{
    return _mm512_reduce_max_epi32(a);
}

INLINE int32_t vi_total(vi a)
{
    return _mm512_reduce_add_epi32(a);
}

INLINE uint64_t vi_xor_words(vi a)
{
    uint64_t word[8];
    vi_store(word, a);
    return (word[0] ^ word[1] ^ word[2] ^ word[3]) ^ (word[4] ^ word[5] ^ word[6] ^ word[7]);
}

/* The low halves of VL lanes that hold 0 .. 65535. */
INLINE void vi_store_u16(uint16_t *at, vi a)
{
    _mm256_storeu_si256((__m256i *)(void *)at, _mm512_cvtepi32_epi16(a));
}

/* 32 bits in all lanes: loaded once, where the compiler would have every
 * instruction that meets it load it again, at two thirds of the speed. */
INLINE vi vi_set1_at(const unsigned char *at)
{
    vi all;
    __asm__("vpbroadcastd %1, %0" : "=v"(all) : "m"(*(const v_word *)(const void *)at));
    return all;
}

/* sum + the products of unsigned bytes with signed ones, four a lane. */
INLINE vi vi_dot_bytes(vi sum, vi unsigned_bytes, vi signed_bytes)
{
    return _mm512_dpbusd_epi32(sum, unsigned_bytes, signed_bytes);
}

/* The low bytes of 32 lanes: the first 16 at halves, the others piece bytes on; those of even index
 * at odd_even, those of odd index piece bytes on. */
INLINE void vi_store_bytes(unsigned char *halves, unsigned char *odd_even, size_t piece,
                           const vi lanes[2])
{
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    __m128i first = _mm512_cvtepi32_epi8(lanes[0]);
    __m128i second = _mm512_cvtepi32_epi8(lanes[1]);
    _mm_storeu_si128((__m128i *)(void *)halves, first);
    _mm_storeu_si128((__m128i *)(void *)(halves + piece), second);
    first = _mm_shuffle_epi8(first, order);
    second = _mm_shuffle_epi8(second, order);
    _mm_storeu_si128((__m128i *)(void *)odd_even, _mm_unpacklo_epi64(first, second));
    _mm_storeu_si128((__m128i *)(void *)(odd_even + piece), _mm_unpackhi_epi64(first, second));
}

/* code, 16 more in byte l of each quarter where bit l of the quarter's bits is set, from byte from
 * of them on. */
INLINE vi vi_fifth_bits(vi code, vi bits, const int from)
{
    const long long byte = from * 0x0101010101010101LL;
    vi spread = _mm512_shuffle_epi8(
        bits, _mm512_broadcast_i32x4(_mm_set_epi64x(byte + 0x0101010101010101LL, byte)));
    __mmask64 set =
        _mm512_test_epi8_mask(spread, _mm512_set1_epi64((long long)0x8040201008040201ULL));
    return _mm512_mask_add_epi8(code, set, code, _mm512_set1_epi8(16));
}

/* code, 16 more in byte l of each lane where bit 4 i + l of the lane's bits is set. */
INLINE vi vi_fifth_bits_of_4(vi code, vi bits, const int i)
{
    const int byte = i / 2 * 0x01010101;
    const __m128i from =
        _mm_setr_epi32(byte, byte + 0x04040404, byte + 0x08080808, byte + 0x0c0c0c0c);
    vi spread = _mm512_shuffle_epi8(bits, _mm512_broadcast_i32x4(from));
    const int bit = i % 2 == 0 ? 0x08040201 : (int)0x80402010u;
    __mmask64 set = _mm512_test_epi8_mask(spread, _mm512_set1_epi32(bit));
    return _mm512_mask_add_epi8(code, set, code, _mm512_set1_epi8(16));
}

/* Indices of words: for each of four blocks its own and that odd words further on, twice. */
INLINE vi v_words_of(const int a, const int b, const int c, const int d, const int odd)
{
    const int pair = 0x10001;
    const int next = odd << 16;
    return _mm512_setr_epi32(pair * a + next, pair * a + next, pair * b + next, pair * b + next,
                             pair * c + next, pair * c + next, pair * d + next, pair * d + next, 0,
                             0, 0, 0, 0, 0, 0, 0);
}

/* The f16 numbers that stand skip bytes into four blocks of so many bytes, of four rows: that of
 * block b of row r in lane 4 b + r. Nothing behind the blocks is read. */
INLINE vf v_blocks_f16(const unsigned char *const row[4], const size_t bytes, const size_t skip)
{
    const int step = (int)bytes / 2;
    const int first = (int)skip / 2;
    if (bytes <= 20) {
        /* One vector reaches the numbers of all four blocks: two rows at a time. */
        const vi from = v_words_of(first, first + step, first + 2 * step, first + 3 * step, 32);
        vi low = _mm512_permutex2var_epi16(vi_load(row[0]), from, vi_load(row[1]));
        vi high = _mm512_permutex2var_epi16(vi_load(row[2]), from, vi_load(row[3]));
        vi all = _mm512_mask_mov_epi16(low, 0xcccc, high);
        return _mm512_cvtph_ps(_mm512_castsi512_si256(all));
    }
    __m128i two[2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        const size_t at = skip + 2 * (size_t)i * bytes;
        two[i] = _mm_unpacklo_epi64(v_four_halves(row, at), v_four_halves(row, at + bytes));
    }
    return _mm512_cvtph_ps(_mm256_set_m128i(two[1], two[0]));
}

/* Words of four rows that hold two 16-bit numbers each, bf16 or f16: the first ones in lanes r and
 * 4 + r, the second ones in 8 + r and 12 + r. */
INLINE vf v_groups_of_words(__m128i word, const bool f16)
{
    vi all = _mm512_broadcast_i32x4(word);
    if (f16) {
        const vi up = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16, 16, 16, 16);
        return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srlv_epi32(all, up)));
    }
    const vi down = _mm512_setr_epi32(16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0);
    return vf_of(vi_and(_mm512_sllv_epi32(all, down), vi_set1((int32_t)0xffff0000u)));
}

/* Words that stand skip bytes into four rows. */
INLINE __m128i v_four_words(const unsigned char *const row[4], size_t skip)
{
    __m128i four = _mm_loadu_si32(row[0] + skip);
    four = _mm_insert_epi32(four, *(const v_word *)(const void *)(row[1] + skip), 1);
    four = _mm_insert_epi32(four, *(const v_word *)(const void *)(row[2] + skip), 2);
    return _mm_insert_epi32(four, *(const v_word *)(const void *)(row[3] + skip), 3);
}

/* Two 16-bit numbers of each of four rows, skip bytes into them. */
INLINE vf v_groups_of_2(const unsigned char *const row[4], size_t skip, const bool f16)
{
    return v_groups_of_words(v_four_words(row, skip), f16);
}

/* Four of each of four rows, of which each is for two blocks: [block, row]. */
INLINE void v_groups_of_4(const unsigned char *const row[4], size_t skip, const bool f16,
                          float *out)
{
    __m128 pair[2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        const unsigned char *low = row[2 * (size_t)i] + skip;
        const unsigned char *high = row[2 * (size_t)i + 1] + skip;
        __m128d both = _mm_castsi128_pd(_mm_loadl_epi64((const void *)low));
        pair[i] = _mm_castpd_ps(_mm_loadh_pd(both, (const void *)high));
    }
    __m128 first = _mm_shuffle_ps(pair[0], pair[1], 0x88);
    __m128 second = _mm_shuffle_ps(pair[0], pair[1], 0xdd);
    vf_store(out, v_groups_of_words(_mm_castps_si128(first), f16));
    vf_store(out + VL, v_groups_of_words(_mm_castps_si128(second), f16));
}

/* The last of the 16-bit numbers, which stands skip > 0 bytes into the rows, in lanes r and 4 + r;
 * 0 in the others. */
INLINE vf v_group_of_last(const unsigned char *const row[4], size_t skip, const bool f16)
{
    vf both = v_groups_of_2(row, skip - 2, f16);
    return _mm512_maskz_shuffle_f32x4(0x00ff, both, both, 0x4e);
}

/* The first n lanes of a, 0 in the others. */
INLINE vf vf_first(vf a, uint32_t n)
{
    return _mm512_maskz_mov_ps(v_mask(n), a);
}

/* rows [16, 16] of 32 bits -> columns. */
INLINE void v_transpose(const vi row[VL], vi column[VL])
{
    vi quad[VL]; /* [4 r + c]: rows 4 r .. 4 r + 3 of columns c, 4 + c, 8 + c, 12 + c */
    UNROLL
    for (int i = 0; i < 4; i++) {
        const vi *p = row + 4 * (size_t)i;
        vi a = _mm512_unpacklo_epi32(p[0], p[1]);
        vi b = _mm512_unpackhi_epi32(p[0], p[1]);
        vi c = _mm512_unpacklo_epi32(p[2], p[3]);
        vi d = _mm512_unpackhi_epi32(p[2], p[3]);
        quad[4 * i + 0] = _mm512_unpacklo_epi64(a, c);
        quad[4 * i + 1] = _mm512_unpackhi_epi64(a, c);
        quad[4 * i + 2] = _mm512_unpacklo_epi64(b, d);
        quad[4 * i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        vi even_low = _mm512_shuffle_i32x4(quad[i], quad[4 + i], 0x88);
        vi odd_low = _mm512_shuffle_i32x4(quad[i], quad[4 + i], 0xdd);
        vi even_high = _mm512_shuffle_i32x4(quad[8 + i], quad[12 + i], 0x88);
        vi odd_high = _mm512_shuffle_i32x4(quad[8 + i], quad[12 + i], 0xdd);
        column[i] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
        column[8 + i] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
        column[4 + i] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
        column[12 + i] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
    }
}

/* 16-bit numbers of VL rows, which are stride apart. */
INLINE void v_column_16(const unsigned char *at, size_t stride, uint16_t out[VL])
{
    const size_t skip[4] = {0, stride, 2 * stride, v_kept_size(3 * stride)};
    __m128i eight[2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        __m128i a = _mm_loadu_si16(at);
        a = _mm_insert_epi16(a, *(const v_half *)(const void *)(at + skip[1]), 1);
        a = _mm_insert_epi16(a, *(const v_half *)(const void *)(at + skip[2]), 2);
        a = _mm_insert_epi16(a, *(const v_half *)(const void *)(at + skip[3]), 3);
        at = v_kept(at + 4 * stride);
        a = _mm_insert_epi16(a, *(const v_half *)(const void *)at, 4);
        a = _mm_insert_epi16(a, *(const v_half *)(const void *)(at + skip[1]), 5);
        a = _mm_insert_epi16(a, *(const v_half *)(const void *)(at + skip[2]), 6);
        eight[i] = _mm_insert_epi16(a, *(const v_half *)(const void *)(at + skip[3]), 7);
        at = v_kept(at + 4 * stride);
    }
    _mm256_storeu_si256((__m256i *)(void *)out, _mm256_set_m128i(eight[1], eight[0]));
}

/* Two words of each of VL rows. */
INLINE void v_column_64(const unsigned char *at, size_t stride, vi word[2])
{
    const size_t skip[4] = {0, stride, 2 * stride, v_kept_size(3 * stride)};
    vi pairs[2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        __m256i four[2];
        UNROLL
        for (int k = 0; k < 2; k++) {
            __m128i low = _mm_loadl_epi64((const void *)at);
            low =
                _mm_castpd_si128(_mm_loadh_pd(_mm_castsi128_pd(low), (const void *)(at + skip[1])));
            __m128i high = _mm_loadl_epi64((const void *)(at + skip[2]));
            high = _mm_castpd_si128(
                _mm_loadh_pd(_mm_castsi128_pd(high), (const void *)(at + skip[3])));
            four[k] = _mm256_set_m128i(high, low);
            at = v_kept(at + 4 * stride);
        }
        pairs[i] = _mm512_inserti64x4(_mm512_castsi256_si512(four[0]), four[1], 1);
    }
    const vi even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    word[0] = _mm512_permutex2var_epi32(pairs[0], even, pairs[1]);
    word[1] = _mm512_permutex2var_epi32(pairs[0], _mm512_add_epi32(even, vi_set1(1)), pairs[1]);
}

/* A word of each of VL rows. */
INLINE vi v_column_32(const unsigned char *at, size_t stride)
{
    const size_t skip[4] = {0, stride, 2 * stride, v_kept_size(3 * stride)};
    __m128i four[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m128i a = _mm_loadu_si32(at);
        a = _mm_insert_epi32(a, *(const v_word *)(const void *)(at + skip[1]), 1);
        a = _mm_insert_epi32(a, *(const v_word *)(const void *)(at + skip[2]), 2);
        four[i] = _mm_insert_epi32(a, *(const v_word *)(const void *)(at + skip[3]), 3);
        at = v_kept(at + 4 * stride);
    }
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(four[1], four[0])),
                              _mm256_set_m128i(four[3], four[2]), 1);
}

/* 16 bytes of each of VL rows, which are stride apart -> their 4 words, each of VL rows. */
INLINE void v_turn_words(const unsigned char *at, size_t stride, vi word[4])
{
    const size_t four_rows = v_kept_size(4 * stride);
    const unsigned char *row4 = v_kept(at + four_rows);
    const unsigned char *row8 = v_kept(row4 + four_rows);
    const unsigned char *row12 = v_kept(row8 + four_rows);
    const size_t skip[4] = {0, stride, 2 * stride, v_kept_size(3 * stride)};
    vi a[4];
    UNROLL
    for (size_t i = 0; i < 4; i++) {
        vi four = _mm512_castsi128_si512(v_load_16(at + skip[i]));
        four = _mm512_inserti32x4(four, v_load_16(row4 + skip[i]), 1);
        four = _mm512_inserti32x4(four, v_load_16(row8 + skip[i]), 2);
        a[i] = _mm512_inserti32x4(four, v_load_16(row12 + skip[i]), 3);
    }
    vi x = _mm512_unpacklo_epi32(a[0], a[1]);
    vi y = _mm512_unpackhi_epi32(a[0], a[1]);
    vi z = _mm512_unpacklo_epi32(a[2], a[3]);
    vi w = _mm512_unpackhi_epi32(a[2], a[3]);
    word[0] = _mm512_unpacklo_epi64(x, z);
    word[1] = _mm512_unpackhi_epi64(x, z);
    word[2] = _mm512_unpacklo_epi64(y, w);
    word[3] = _mm512_unpackhi_epi64(y, w);
}

/* rows [VL, 8] -> columns [8, VL]. */
INLINE void v_transpose_8(const float *rows, float *columns)
{
    vi row[VL];
    vi column[VL];
    UNROLL
    for (int i = 0; i < VL; i++) {
        row[i] = _mm512_castsi256_si512(
            _mm256_loadu_si256((const __m256i *)(const void *)(rows + (size_t)i * 8)));
    }
    v_transpose(row, column);
    UNROLL
    for (int i = 0; i < 8; i++) vi_store(columns + (size_t)i * VL, column[i]);
}

/* ---- quarters: 16 bytes of a block each */

/* 16 bytes at, at + step, at + 2 step and at + 3 step. */
INLINE vi v_load_quarters(const unsigned char *at, size_t step)
{
    vi four = _mm512_castsi128_si512(v_load_16(at));
    four = _mm512_inserti32x4(four, v_load_16(at + step), 1);
    four = _mm512_inserti32x4(four, v_load_16(at + 2 * step), 2);
    return _mm512_inserti32x4(four, v_load_16(at + 3 * step), 3);
}

/* The same 16 bytes in all. */
INLINE vi v_load_all(const unsigned char *at)
{
    return _mm512_broadcast_i32x4(v_load_16(at));
}

/* 16 bytes at, the same again, those at + step, the same again. */
INLINE vi v_load_twice(const unsigned char *at, size_t step)
{
    __m256i first = _mm256_broadcastsi128_si256(v_load_16(at));
    __m256i second = _mm256_broadcastsi128_si256(v_load_16(at + step));
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

/* 16 bytes at, those at + step, then both again. */
INLINE vi v_load_again(const unsigned char *at, size_t step)
{
    __m256i both =
        _mm256_inserti128_si256(_mm256_castsi128_si256(v_load_16(at)), v_load_16(at + step), 1);
    return _mm512_broadcast_i64x4(both);
}

/* Quarters of equal 32-bit numbers. */
INLINE vi v_quarters(int a, int b, int c, int d)
{
    return _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d);
}

/* from, from + step, from + 2 step, from + 3 step. */
INLINE vi v_quarters_from(uint32_t from, int step)
{
    return _mm512_add_epi32(v_quarters(0, step, 2 * step, 3 * step), vi_set1((int32_t)from));
}

INLINE vi vi_srlv(vi a, vi n)
{
    return _mm512_srlv_epi32(a, n);
}

/* The sums of the quarters of four vectors: that of quarter q of a[r] in lane 4 q + r. */
INLINE vi v_quad_tree(const vi a[4])
{
    vi x = vi_add(_mm512_unpacklo_epi32(a[0], a[1]), _mm512_unpackhi_epi32(a[0], a[1]));
    vi y = vi_add(_mm512_unpacklo_epi32(a[2], a[3]), _mm512_unpackhi_epi32(a[2], a[3]));
    return vi_add(_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
}

/* To each quarter its neighbour of the same pair is added. */
INLINE vi v_pair_sums(vi a)
{
    return vi_add(a, _mm512_shuffle_i32x4(a, a, 0xb1));
}

/* a b + c in quarters 0 and 2, c in the others. */
INLINE vf vf_fma_pairs(vf a, vf b, vf c)
{
    return _mm512_mask3_fmadd_ps(a, b, c, 0x0f0f);
}

/* (quarter 0 + 2) + (quarter 1 + 3). */
INLINE __m128 v_sum_groups(vf a)
{
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

/* The same of four vectors. */
INLINE vf v_sum_classes(const float *a, size_t stride)
{
    return vf_add(vf_add(vf_load(a), vf_load(a + 2 * stride)),
                  vf_add(vf_load(a + stride), vf_load(a + 3 * stride)));
}

/* ---- blocks of 32 columns */

/* Codes of at most 8 bits, a byte each. */
INLINE void vw_store_bytes(unsigned char *at, vw a)
{
    _mm256_storeu_si256((__m256i *)(void *)at, _mm512_cvtepi16_epi8(a.all));
}

INLINE void vw_to_float(vw a, vf out[VW / VL])
{
    out[0] = vf_from_int(_mm512_cvtepi16_epi32(_mm512_castsi512_si256(a.all)));
    out[1] = vf_from_int(_mm512_cvtepi16_epi32(_mm512_extracti32x8_epi32(a.all, 1)));
}

INLINE vw vw_u8(const unsigned char *at)
{
    return (vw){_mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)at))};
}

INLINE vw vw_s8(const unsigned char *at)
{
    return (vw){_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)at))};
}

/* 16 bytes: columns 0..15 in the low nibbles, 16..31 in the high ones. */
INLINE vw vw_nibbles(const unsigned char *at)
{
    __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)at));
    __m256i low = _mm256_and_si256(bytes, _mm256_set1_epi16(15));
    __m256i high = _mm256_srli_epi16(bytes, 4);
    return (vw){_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)};
}

INLINE vw vw_and(vw a, int16_t mask)
{
    return (vw){_mm512_and_si512(a.all, _mm512_set1_epi16(mask))};
}

INLINE vw vw_or(vw a, vw b)
{
    return (vw){_mm512_or_si512(a.all, b.all)};
}

INLINE vw vw_srl(vw a, uint32_t n)
{
    return (vw){_mm512_srl_epi16(a.all, _mm_cvtsi32_si128((int)n))};
}

INLINE vw vw_sll(vw a, uint32_t n)
{
    return (vw){_mm512_sll_epi16(a.all, _mm_cvtsi32_si128((int)n))};
}

INLINE vw vw_minus(vw a, int16_t value)
{
    return (vw){_mm512_sub_epi16(a.all, _mm512_set1_epi16(value))};
}

/* value where the bit of the column is set. */
INLINE vw vw_where_bit(uint32_t bits, int16_t value)
{
    return (vw){_mm512_maskz_set1_epi16((__mmask32)bits, value)};
}

/* Column j of 8 of a bit stream: the two bytes that hold it; -1 for one that it does not reach. */
#define WINDOW_HIGH(bits, j)                                                                       \
    (((j) + 1) * (bits) > ((j) * (bits) / 8 + 1) * 8 ? (j) * (bits) / 8 + 1 : -1)
#define WINDOW(bits, j)                                                                            \
    (int)(((unsigned)((j) * (bits) / 8) & 255u) | ((unsigned)WINDOW_HIGH(bits, j) & 255u) << 8)
#define WINDOWS(s, j) (WINDOW(s, j) | (int)((unsigned)WINDOW(s, (j) + 1) << 16))

/* How far column j lies above the first bit of its bytes. */
#define RAISED(bits, j)                                                                            \
    (int)((unsigned)((j) * (bits) % 8) | (unsigned)(((j) + 1) * (bits) % 8) << 16)

/* 32 codes of 2 to 6 bits (a constant), 4 * bits bytes: not a byte beyond them is read. */
INLINE vw vw_bits(const unsigned char *at, const int bits)
{
    __m256i all = _mm256_maskz_loadu_epi8((__mmask32)((1ull << (4 * bits)) - 1), at);
    /* Quarter i gets the bytes of columns 8 i .. 8 i + 7, which lie across the halves of all. */
    vi word = _mm512_setr_epi32(0, 1, 2, 3, bits / 4, bits / 4 + 1, bits / 4 + 2, bits / 4 + 3,
                                bits / 2, bits / 2 + 1, bits / 2 + 2, bits / 2 + 3, 3 * bits / 4,
                                3 * bits / 4 + 1, 3 * bits / 4 + 2, 3 * bits / 4 + 3);
    vi run = _mm512_permutexvar_epi32(word, _mm512_castsi256_si512(all));
    /* The run of quarter i begins with byte 4 * (i * bits / 4), so the columns i * bits % 4 bytes
     * later. */
    vi window = _mm512_broadcast_i32x4(
        _mm_setr_epi32(WINDOWS(bits, 0), WINDOWS(bits, 2), WINDOWS(bits, 4), WINDOWS(bits, 6)));
    const int one = 0x01010101;
    vi late = _mm512_setr_epi32(0, 0, 0, 0, one * (bits % 4), one * (bits % 4), one * (bits % 4),
                                one * (bits % 4), one * (2 * bits % 4), one * (2 * bits % 4),
                                one * (2 * bits % 4), one * (2 * bits % 4), one * (3 * bits % 4),
                                one * (3 * bits % 4), one * (3 * bits % 4), one * (3 * bits % 4));
    __mmask64 absent = _mm512_movepi8_mask(window);
    vi from = _mm512_mask_add_epi8(window, ~absent, window, late);
    vi raised = _mm512_broadcast_i32x4(
        _mm_setr_epi32(RAISED(bits, 0), RAISED(bits, 2), RAISED(bits, 4), RAISED(bits, 6)));
    vi code = _mm512_srlv_epi16(_mm512_shuffle_epi8(run, from), raised);
    return (vw){_mm512_and_si512(code, _mm512_set1_epi16((int16_t)((1 << bits) - 1)))};
}

/* Blocks of natural order -> a byte a code: columns 0..15 of each, and 16..31. */
INLINE void vw_to_halves(const vw block[4], vi half[2])
{
    __m256i bytes[4];
    UNROLL
    for (int i = 0; i < 4; i++) bytes[i] = _mm512_cvtepi16_epi8(block[i].all);
    vi first = _mm512_inserti64x4(_mm512_castsi256_si512(bytes[0]), bytes[1], 1);
    vi second = _mm512_inserti64x4(_mm512_castsi256_si512(bytes[2]), bytes[3], 1);
    half[0] = _mm512_shuffle_i32x4(first, second, 0x88);
    half[1] = _mm512_shuffle_i32x4(first, second, 0xdd);
}

/* ---- tables */

/* Codes of at most 15 bits, VL a vector. */
INLINE void vw_to_ints(vw a, vi out[VW / VL])
{
    out[0] = _mm512_cvtepi16_epi32(_mm512_castsi512_si256(a.all));
    out[1] = _mm512_cvtepi16_epi32(_mm512_extracti32x8_epi32(a.all, 1));
}

/* 2^bits floats in registers; none for more than 5 bits. */
typedef struct v_book {
    vf low, high;
} v_book;

INLINE v_book v_book_of(const float *at, const int bits)
{
    v_book book = {vf_zero(), vf_zero()};
    if (bits < 4) book.low = vf_load_part(at, 1u << bits);
    if (bits == 4 || bits == 5) book.low = vf_load(at);
    if (bits == 5) book.high = vf_load(at + VL);
    return book;
}

INLINE vf v_book_look(v_book book, const int bits, vi index)
{
    if (bits == 5) return _mm512_permutex2var_ps(book.low, index, book.high);
    return _mm512_permutexvar_ps(index, book.low);
}

/* ---- codes of VL columns */

INLINE vi vi_load_u8(const unsigned char *at)
{
    return _mm512_cvtepu8_epi32(v_load_16(at));
}

/* VL codes of 4 bits in the low bits of the lanes, with others above them: column i in lane 2 i,
 * column 8 + i in lane 2 i + 1, as one shift of all bytes brings them. */
INLINE vi vi_load_nibbles(const unsigned char *at)
{
    long long all;
    memcpy(&all, at, sizeof all);
    return _mm512_srlv_epi64(_mm512_set1_epi64(all),
                             _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28));
}

/* Columns in order -> in the lanes of vi_load_nibbles, and back. */
INLINE vf vf_turn(vf a)
{
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15), a);
}

INLINE vf vf_turn_back(vf a)
{
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15), a);
}

/* What the 16 codes of a group mean: code * scale + other, or centroid * scale, rounded once. */
typedef struct v_meaning {
    vf all;
} v_meaning;

INLINE v_meaning v_meaning_none(void)
{
    return (v_meaning){vf_zero()};
}

INLINE v_meaning v_meaning_affine(vf scale, vf other)
{
    const vf codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return (v_meaning){_mm512_fmadd_ps(codes, scale, other)};
}

INLINE v_meaning v_meaning_book(v_book book, vf scale)
{
    return (v_meaning){_mm512_mul_ps(book.low, scale)};
}

/* codes: those of vi_load_nibbles. */
INLINE vf v_mean_affine(v_meaning of, vi codes)
{
    return _mm512_permutexvar_ps(codes, of.all);
}

INLINE vf v_mean_book(v_meaning of, vi codes)
{
    return _mm512_permutexvar_ps(codes, of.all);
}

#endif
