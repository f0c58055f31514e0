/* vec_words.h - the words that vec_avx2.h and vec_avx512.h have alike. */
#ifndef BACKEND_CPU_VEC_WORDS_H
#define BACKEND_CPU_VEC_WORDS_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline, unused))
#define UNROLL _Pragma("GCC unroll 16")

/* A loop that not every file of an instruction set wants. */
#define LOOP static __attribute__((unused))

typedef int32_t v_word __attribute__((may_alias, aligned(1)));
typedef int16_t v_half __attribute__((may_alias, aligned(1)));

INLINE void v_prefetch(const void *at)
{
    _mm_prefetch((const char *)at, _MM_HINT_T0);
}

/* An address that may be another block's. */
INLINE void v_prefetch_at(uintptr_t at)
{
    __asm__ volatile("prefetcht0 (%0)" : : "r"(at));
}

/* Into the second-level cache. */
INLINE void v_prefetch_far(const void *at)
{
    _mm_prefetch((const char *)at, _MM_HINT_T1);
}

/* A pointer of which the compiler knows nothing: it then keeps that one in a register, and not
 * every sum of it with a constant. */
INLINE const unsigned char *v_kept(const unsigned char *p)
{
    __asm__("" : "+r"(p));
    return p;
}

INLINE size_t v_kept_size(size_t n)
{
    __asm__("" : "+r"(n));
    return n;
}

INLINE __m128i v_load_16(const unsigned char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* 16-bit numbers that stand skip bytes into four rows. */
INLINE __m128i v_four_halves(const unsigned char *const row[4], size_t skip)
{
    __m128i four = _mm_loadu_si16(row[0] + skip);
    four = _mm_insert_epi16(four, *(const v_half *)(const void *)(row[1] + skip), 1);
    four = _mm_insert_epi16(four, *(const v_half *)(const void *)(row[2] + skip), 2);
    return _mm_insert_epi16(four, *(const v_half *)(const void *)(row[3] + skip), 3);
}

#endif
