/* vec_scores_words.h - scores of keys that are integer codes, by products of 16-bit numbers: what
 * query.h says.
 *
 * VL keys at a time, which share their parameters' conversion: each is made words once for all its
 * queries, and the sums of its lanes are added with those of the others. */
#ifndef BACKEND_CPU_VEC_SCORES_WORDS_H
#define BACKEND_CPU_VEC_SCORES_WORDS_H

#include "backend/cpu/query.h"
#include "backend/cpu/vec_attend.h"

/* Keys that are codes. */
typedef struct word_keys {
    const kernel_scores *a;
    const unsigned char *at; /* the first key at work */
    size_t row_bytes, codes_bytes;
    uint32_t n_groups;
    bool half; /* parameters are f16, else bf16 */
} word_keys;

enum { WORD_QUERIES = 4 };

/* Parameter i of n <= VL keys. */
INLINE vf word_column(const word_keys *k, uint32_t i, uint32_t n)
{
    const unsigned char *at = k->at + k->codes_bytes + (size_t)2 * i;
    uint16_t column[VL] = {0};
    for (uint32_t c = 0; c < n; c++) memcpy(column + c, at + c * k->row_bytes, sizeof *column);
    return k->half ? vf_load_f16(column) : vf_load_bf16(column);
}

/* 32 codes as words, in the order of query.h. */
INLINE void word_codes(const unsigned char *at, const bool four, const bool tk, vi words[2])
{
    if (four) {
        vi both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)at));
        const vi mask = vi_set1(0x000f000f);
        words[0] = vi_and(_mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4)), mask);
        words[1] =
            vi_and(_mm256_srlv_epi32(both, _mm256_setr_epi32(8, 8, 8, 8, 12, 12, 12, 12)), mask);
        return;
    }
    UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + 16 * i));
        words[i] = tk ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
    }
}

/* Lane c of the result: the sum of a[c]. */
INLINE vi word_tree(const vi a[VL])
{
    vi quad[2];
    UNROLL
    for (size_t i = 0; i < 2; i++) {
        const vi *p = a + 4 * i;
        quad[i] = _mm256_hadd_epi32(_mm256_hadd_epi32(p[0], p[1]), _mm256_hadd_epi32(p[2], p[3]));
    }
    return vi_add(_mm256_permute2x128_si256(quad[0], quad[1], 0x20),
                  _mm256_permute2x128_si256(quad[0], quad[1], 0x31));
}

/* n <= VL keys and n_q queries from i on; n_blocks: of a group, of 32 columns. */
INLINE void word_tile(const word_keys *k, const bool four, const bool tk, const uint32_t n_blocks,
                      uint32_t i, uint32_t j, uint32_t n, const uint32_t n_q)
{
    const kernel_scores *a = k->a;
    const float *q = a->q + i * a->q_stride;
    vf score[WORD_QUERIES];
    UNROLL
    for (uint32_t r = 0; r < n_q; r++) score[r] = vf_zero();
    for (uint32_t g = 0; g < k->n_groups; g++) {
        vi sums[WORD_QUERIES][VL];
        for (uint32_t c = 0; c < VL; c++) {
            /* Where there are fewer the last one stands for them. */
            const unsigned char *row = k->at + (c < n ? c : n - 1) * k->row_bytes;
            vi sum[WORD_QUERIES];
            UNROLL
            for (uint32_t r = 0; r < n_q; r++) sum[r] = vi_zero();
            UNROLL
            for (uint32_t b = 0; b < n_blocks; b++) {
                size_t column = ((size_t)g * n_blocks + b) * 32;
                vi words[2];
                word_codes(row + (four ? column / 2 : column), four, tk, words);
                UNROLL
                for (uint32_t r = 0; r < n_q; r++) {
                    const int16_t *of = (const int16_t *)(const void *)(q + r * a->q_stride);
                    sum[r] = vi_add(sum[r], _mm256_madd_epi16(words[0], vi_load(of + column)));
                    sum[r] = vi_add(sum[r], _mm256_madd_epi16(words[1], vi_load(of + column + 16)));
                }
            }
            UNROLL
            for (uint32_t r = 0; r < n_q; r++) sums[r][c] = sum[r];
        }
        vf scale = word_column(k, g, n);
        vf other = word_column(k, k->n_groups + g, n);
        if (tk) other = vf_mul(other, scale);
        UNROLL
        for (uint32_t r = 0; r < n_q; r++) {
            const kernel_query_group *of = kernel_query_groups(q + r * a->q_stride, a->dim) + g;
            vf times = vf_mul(vf_set1(of->step), scale);
            score[r] = vf_fma(times, vf_from_int(word_tree(sums[r])), score[r]);
            score[r] = vf_fma(other, vf_set1(of->sum), score[r]);
        }
    }
    UNROLL
    for (uint32_t r = 0; r < n_q; r++) {
        vf all = vf_mul(score[r], vf_set1(a->scale));
        float *to = a->s + (i + r) * a->s_stride + j;
        if (n == VL) {
            vf_store(to, all);
        } else {
            vf_store_part(to, all, n);
        }
    }
}

INLINE void word_scores(word_keys k, const bool four, const bool tk, const uint32_t n_blocks)
{
    const kernel_scores *a = k.a;
    for (uint32_t j = 0; j < a->n_keys; j += VL, k.at += VL * k.row_bytes) {
        uint32_t n = a->n_keys - j < VL ? a->n_keys - j : VL;
        uint32_t i = 0;
        size_t fetch = fetch_step(a->ahead, k.at, FETCH_AHEAD);
        for (size_t at = 0; at < VL * k.row_bytes; at += LINE) {
            v_prefetch_at((uintptr_t)k.at + fetch + at);
        }
        for (; a->n_q - i >= 4; i += 4) word_tile(&k, four, tk, n_blocks, i, j, n, 4);
        for (; a->n_q - i >= 2; i += 2) word_tile(&k, four, tk, n_blocks, i, j, n, 2);
        if (i < a->n_q) word_tile(&k, four, tk, n_blocks, i, j, n, 1);
    }
}

static void prepare_query(const kernel_query *a)
{
    kernel_query_put(a, false);
}

static void scores_packed(const kernel_scores *a)
{
    const kv_codec *c = a->packed.codec;
    word_keys k = {.a = a, .at = a->k, .row_bytes = a->packed.row_bytes};
    k.codes_bytes = (size_t)a->dim * c->bits / 8;
    k.n_groups = a->dim / c->group;
    k.half = c->kind == KV_TK || a->packed.base == KV_BASE_F16;
    const uint32_t n_blocks = c->group / 32;
    if (c->kind == KV_TK) {
        word_scores(k, false, true, 1);
    } else if (c->bits == 8 && n_blocks == 1) {
        word_scores(k, false, false, 1);
    } else if (c->bits == 8 && n_blocks == 2) {
        word_scores(k, false, false, 2);
    } else if (c->bits == 8) {
        word_scores(k, false, false, 4);
    } else if (n_blocks == 1) {
        word_scores(k, true, false, 1);
    } else if (n_blocks == 2) {
        word_scores(k, true, false, 2);
    } else {
        word_scores(k, true, false, 4);
    }
}

#endif
