/* vec_scores_bytes.h - scores of keys that are integer codes, by VNNI: what query.h says.
 *
 * VL keys at a time. For one or two queries rows are multiplied as they lie, and the sums of their
 * lanes are added with those of the others. For more, 16 bytes of each key become four words of all
 * of them, a word's lanes being keys, and every query multiplies them by its own four bytes, the
 * same for all keys: that costs more for a key, and less for each query. Keys that are left are
 * done one by one. The sums are whole numbers, so in any order the same. */
#ifndef BACKEND_CPU_VEC_SCORES_BYTES_H
#define BACKEND_CPU_VEC_SCORES_BYTES_H

#include "backend/cpu/query.h"
#include "backend/cpu/vec_attend.h"

/* Keys that are codes: of 4 or 8 bits, those of tk signed. */
typedef struct byte_keys {
    const kernel_scores *a;
    const unsigned char *at; /* the first key at work */
    size_t row_bytes, codes_bytes, fetch;
    uint32_t group, n_groups;
    bool half; /* parameters are f16, else bf16 */
} byte_keys;

/* Scale and other of each group, of VL keys. */
typedef struct byte_params {
    vf scale[KV_PACKED_MOST / 32], other[KV_PACKED_MOST / 32];
} byte_params;

enum { BYTE_QUERIES = 4 };

/* n lines from line i on of those that are to be fetched while VL keys are at work. */
INLINE void byte_fetch(const byte_keys *k, size_t i, const uint32_t n)
{
    UNROLL
    for (size_t l = 0; l < n; l++) {
        v_prefetch_at((uintptr_t)k->at + k->fetch + (i + l) * LINE);
    }
}

/* The low and the high 16 bits of each lane as numbers. */
INLINE void byte_halves(vi words, bool half, vf *low, vf *high)
{
    if (half) {
        *low = vf_from_f16(vi_and(words, vi_set1(0xffff)));
        *high = vf_from_f16(vi_srl(words, 16));
    } else {
        *low = vf_of(vi_sll(words, 16));
        *high = vf_of(vi_and(words, vi_set1((int32_t)0xffff0000)));
    }
}

INLINE vf byte_column(const unsigned char *at, size_t stride, bool half)
{
    uint16_t column[VL];
    v_column_16(at, stride, column);
    return half ? vf_load_f16(column) : vf_load_bf16(column);
}

/* Words i .. i + n - 1 of the parameters: two scales each, then two others each. */
INLINE void byte_params_put(const byte_keys *k, byte_params *p, uint32_t i, const vi *words,
                            const uint32_t n)
{
    UNROLL
    for (uint32_t w = 0; w < n; w++) {
        uint32_t g = 2 * (i + w);
        vf *all = g < k->n_groups ? p->scale + g : p->other + (g - k->n_groups);
        byte_halves(words[w], k->half, all, all + 1);
    }
}

INLINE void byte_params_of(const byte_keys *k, const bool tk, byte_params *p)
{
    const unsigned char *at = k->at + k->codes_bytes;
    const uint32_t n = k->n_groups;
    if (n % 2 != 0) {
        for (uint32_t g = 0; g < n; g++) {
            p->scale[g] = byte_column(at + (size_t)2 * g, k->row_bytes, k->half);
            p->other[g] = byte_column(at + (size_t)2 * (n + g), k->row_bytes, k->half);
        }
    } else {
        uint32_t i = 0;
        vi words[4];
        for (; n - i >= 4; i += 4) {
            v_turn_words(at + (size_t)4 * i, k->row_bytes, words);
            byte_params_put(k, p, i, words, 4);
        }
        if (i < n) {
            v_column_64(at + (size_t)4 * i, k->row_bytes, words);
            byte_params_put(k, p, i, words, 2);
        }
    }
    for (uint32_t g = 0; tk && g < n; g++) p->other[g] = vf_mul(p->other[g], p->scale[g]);
}

/* Four bytes of a query in all lanes. */
INLINE vi byte_word(const unsigned char *at)
{
    int32_t word;
    memcpy(&word, at, sizeof word);
    return vi_set1(word);
}

/* Sums of the high and the low bytes, for queries and sets of VL keys. */
typedef struct byte_sums {
    vi high[BYTE_QUERIES][2], low[BYTE_QUERIES][2];
} byte_sums;

/* 16 bytes of the codes of n_sets times VL keys from byte i of a row on, for n_q queries. */
INLINE void byte_chunk(const byte_keys *k, const bool four, const bool tk, const float *q,
                       uint32_t i, const uint32_t n_q, const uint32_t n_sets, byte_sums *sums)
{
    const uint32_t dim = k->a->dim;
    vi words[2][4];
    v_turn_words(k->at + i, k->row_bytes, words[0]);
    if (n_sets > 1) v_turn_words(k->at + VL * k->row_bytes + i, k->row_bytes, words[1]);
    UNROLL
    for (size_t w = 0; w < 4; w++) {
        vi codes[2];
        vi odd[2];
        UNROLL
        for (uint32_t n = 0; n < n_sets; n++) {
            codes[n] = odd[n] = words[n][w];
            if (tk) codes[n] = vi_xor(codes[n], vi_set1((int32_t)0x80808080));
            if (!four) continue;
            odd[n] = vi_and(vi_srl(codes[n], 4), vi_set1(0x0f0f0f0f));
            codes[n] = vi_and(codes[n], vi_set1(0x0f0f0f0f));
        }
        UNROLL
        for (uint32_t r = 0; r < n_q; r++) {
            const unsigned char *high = (const unsigned char *)(q + r * k->a->q_stride) + i + 4 * w;
            const unsigned char *low = high + dim;
            vi word[2] = {byte_word(high), byte_word(low)};
            UNROLL
            for (uint32_t n = 0; n < n_sets; n++) {
                sums->high[r][n] = _mm512_dpbusd_epi32(sums->high[r][n], codes[n], word[0]);
                sums->low[r][n] = _mm512_dpbusd_epi32(sums->low[r][n], codes[n], word[1]);
            }
            if (!four) continue;
            word[0] = byte_word(high + dim / 2);
            word[1] = byte_word(low + dim / 2);
            UNROLL
            for (uint32_t n = 0; n < n_sets; n++) {
                sums->high[r][n] = _mm512_dpbusd_epi32(sums->high[r][n], odd[n], word[0]);
                sums->low[r][n] = _mm512_dpbusd_epi32(sums->low[r][n], odd[n], word[1]);
            }
        }
    }
}

/* Sums of VL keys become a part of their scores: of group g. */
INLINE vf byte_add(const byte_params *p, const kernel_query_group *of, uint32_t g, const bool tk,
                   vi sum, vf score)
{
    if (tk) sum = vi_sub(sum, vi_set1(128 * of[g].total));
    vf times = vf_mul(vf_set1(of[g].step), p->scale[g]);
    score = vf_fma(times, vf_from_int(sum), score);
    return vf_fma(p->other[g], vf_set1(of[g].sum), score);
}

/* n_sets times VL keys and n_q queries from i on. */
INLINE void byte_tile(const byte_keys *k, const bool four, const bool tk, const byte_params *p,
                      uint32_t i, float *s, const uint32_t n_q, const uint32_t n_sets)
{
    const kernel_scores *a = k->a;
    const uint32_t n_chunks = k->group * (four ? 4 : 8) / 128;
    const float *q = a->q + i * a->q_stride;
    vf score[BYTE_QUERIES][2];
    UNROLL
    for (uint32_t r = 0; r < n_q; r++) score[r][0] = score[r][1] = vf_zero();
    for (uint32_t g = 0; g < k->n_groups; g++) {
        byte_sums sums;
        UNROLL
        for (uint32_t r = 0; r < n_q; r++) {
            UNROLL
            for (uint32_t n = 0; n < n_sets; n++) sums.high[r][n] = sums.low[r][n] = vi_zero();
        }
        for (uint32_t c = 0; c < n_chunks; c++) {
            if (i == 0) byte_fetch(k, (size_t)4 * n_sets * (g * n_chunks + c), (size_t)4 * n_sets);
            byte_chunk(k, four, tk, q, 16 * (g * n_chunks + c), n_q, n_sets, &sums);
        }
        UNROLL
        for (uint32_t r = 0; r < n_q; r++) {
            const kernel_query_group *of = kernel_query_groups(q + r * a->q_stride, a->dim);
            UNROLL
            for (uint32_t n = 0; n < n_sets; n++) {
                vi sum = vi_add(vi_sll(sums.high[r][n], 8), sums.low[r][n]);
                score[r][n] = byte_add(&p[n], of, g, tk, sum, score[r][n]);
            }
        }
    }
    UNROLL
    for (uint32_t r = 0; r < n_q; r++) {
        UNROLL
        for (size_t n = 0; n < n_sets; n++) {
            vf_store(s + (i + r) * a->s_stride + n * VL, vf_mul(score[r][n], vf_set1(a->scale)));
        }
    }
}

/* ---- few queries: rows as they lie */

/* The sums of the four lanes of each 128 bits of 16 rows: those of rows 4 i .. 4 i + 3 in quad i,
 * then of n_groups equal parts of the lanes, a vector each with a lane for each row. */
INLINE void byte_tree(const vi a[VL], const uint32_t n_groups, vi out[4])
{
    vi quad[4];
    UNROLL
    for (size_t i = 0; i < 4; i++) quad[i] = v_quad_tree(a + 4 * i);
    if (n_groups == 4) {
        vi x = _mm512_shuffle_i32x4(quad[0], quad[1], 0x88);
        vi y = _mm512_shuffle_i32x4(quad[0], quad[1], 0xdd);
        vi z = _mm512_shuffle_i32x4(quad[2], quad[3], 0x88);
        vi w = _mm512_shuffle_i32x4(quad[2], quad[3], 0xdd);
        out[0] = _mm512_shuffle_i32x4(x, z, 0x88);
        out[1] = _mm512_shuffle_i32x4(y, w, 0x88);
        out[2] = _mm512_shuffle_i32x4(x, z, 0xdd);
        out[3] = _mm512_shuffle_i32x4(y, w, 0xdd);
        return;
    }
    vi u = vi_add(_mm512_shuffle_i32x4(quad[0], quad[1], 0x88),
                  _mm512_shuffle_i32x4(quad[0], quad[1], 0xdd));
    vi v = vi_add(_mm512_shuffle_i32x4(quad[2], quad[3], 0x88),
                  _mm512_shuffle_i32x4(quad[2], quad[3], 0xdd));
    out[0] = _mm512_shuffle_i32x4(u, v, 0x88);
    out[1] = _mm512_shuffle_i32x4(u, v, 0xdd);
    if (n_groups == 1) out[0] = vi_add(out[0], out[1]);
}

/* 64 bytes of codes of VL keys from byte i of a row on, and one query. */
INLINE void byte_unit(const byte_keys *k, const bool four, const bool tk, const unsigned char *q,
                      uint32_t i, vi sums[VL])
{
    const uint32_t dim = k->a->dim;
    const unsigned char *row = k->at + i;
    vi high = vi_load(q + i);
    vi low = vi_load(q + dim + i);
    vi high_odd = four ? vi_load(q + dim / 2 + i) : high;
    vi low_odd = four ? vi_load(q + dim + dim / 2 + i) : low;
    UNROLL
    for (uint32_t c = 0; c < VL; c++, row += k->row_bytes) {
        vi codes = vi_load(row);
        byte_fetch(k, i * VL / LINE + c, 1);
        vi odd = codes;
        if (tk) codes = vi_xor(codes, vi_set1((int32_t)0x80808080));
        if (four) {
            odd = vi_and(vi_srl(codes, 4), vi_set1(0x0f0f0f0f));
            codes = vi_and(codes, vi_set1(0x0f0f0f0f));
        }
        vi h = _mm512_dpbusd_epi32(vi_zero(), codes, high);
        if (four) h = _mm512_dpbusd_epi32(h, odd, high_odd);
        vi l = _mm512_dpbusd_epi32(vi_sll(h, 8), codes, low);
        sums[c] = four ? _mm512_dpbusd_epi32(l, odd, low_odd) : l;
    }
}

/* VL keys whose codes are whole units; n_groups: of a unit, or 0 where a group is two. */
INLINE vf byte_row_scores(const byte_keys *k, const bool four, const bool tk,
                          const uint32_t n_groups, const byte_params *p, const float *query)
{
    const kernel_query_group *of = kernel_query_groups(query, k->a->dim);
    const unsigned char *q = (const unsigned char *)query;
    const uint32_t n_parts = n_groups == 0 ? 1 : n_groups;
    vf score = vf_zero();
    uint32_t g = 0;
    for (uint32_t i = 0; i < k->codes_bytes; i += 64) {
        vi sums[VL];
        vi of_groups[4];
        byte_unit(k, four, tk, q, i, sums);
        byte_tree(sums, n_parts, of_groups);
        if (n_groups == 0) {
            vi first = of_groups[0];
            i += 64;
            byte_unit(k, four, tk, q, i, sums);
            byte_tree(sums, 1, of_groups);
            of_groups[0] = vi_add(of_groups[0], first);
        }
        UNROLL
        for (uint32_t n = 0; n < n_parts; n++, g++) {
            score = byte_add(p, of, g, tk, of_groups[n], score);
        }
    }
    return vf_mul(score, vf_set1(k->a->scale));
}

/* One key and one query. */
static float byte_score(const byte_keys *k, const bool four, const bool tk, const float *query)
{
    const uint32_t dim = k->a->dim;
    const kernel_query_group *groups = kernel_query_groups(query, dim);
    const unsigned char *params = k->at + k->codes_bytes;
    const unsigned char *q = (const unsigned char *)query;
    float score = 0.0F;
    for (uint32_t g = 0; g < k->n_groups; g++) {
        __m256i high = _mm256_setzero_si256();
        __m256i low = high;
        for (uint32_t i = g * k->group; i < (g + 1) * k->group; i += 32) {
            __m256i codes;
            __m256i of[2];
            if (four) {
                __m128i both = v_load_16(k->at + i / 2);
                const __m128i mask = _mm_set1_epi8(15);
                codes = _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16(both, 4), mask),
                                         _mm_and_si128(both, mask));
                for (uint32_t h = 0; h < 2; h++) {
                    const unsigned char *from = q + (size_t)h * dim + i / 2;
                    of[h] = _mm256_set_m128i(v_load_16(from + dim / 2), v_load_16(from));
                }
            } else {
                codes = _mm256_loadu_si256((const __m256i *)(const void *)(k->at + i));
                if (tk) codes = _mm256_xor_si256(codes, _mm256_set1_epi8((char)-128));
                of[0] = _mm256_loadu_si256((const __m256i *)(const void *)(q + i));
                of[1] = _mm256_loadu_si256((const __m256i *)(const void *)(q + dim + i));
            }
            high = _mm256_dpbusd_epi32(high, codes, of[0]);
            low = _mm256_dpbusd_epi32(low, codes, of[1]);
        }
        __m256i all = _mm256_add_epi32(_mm256_slli_epi32(high, 8), low);
        int32_t sum = _mm512_reduce_add_epi32(_mm512_zextsi256_si512(all));
        if (tk) sum -= 128 * groups[g].total;
        float scale = kernel_query_param(params + (size_t)2 * g, k->half);
        float other = kernel_query_param(params + (size_t)2 * (k->n_groups + g), k->half);
        if (tk) other *= scale;
        score = fmaf(groups[g].step * scale, (float)sum, score);
        score = fmaf(other, groups[g].sum, score);
    }
    return score * k->a->scale;
}

/* Lines that hold no codes are fetched with the parameters. */
INLINE void byte_begin(byte_keys *k, const bool tk, byte_params *p, const uint32_t n_sets)
{
    const size_t n_rows = (size_t)n_sets * VL;
    k->fetch = fetch_step(k->a->ahead, k->at, FETCH_AHEAD);
    for (size_t l = k->codes_bytes * n_rows / LINE; l * LINE < k->row_bytes * n_rows; l++) {
        byte_fetch(k, l, 1);
    }
    for (uint32_t n = 0; n < n_sets; n++) {
        byte_keys set = *k;
        set.at += (size_t)n * VL * k->row_bytes;
        byte_params_of(&set, tk, &p[n]);
    }
}

/* of_unit: groups of 64 bytes of codes, or 0 where a group is two such. */
INLINE void byte_scores(byte_keys k, const bool four, const bool tk, const uint32_t of_unit)
{
    const kernel_scores *a = k.a;
    const bool rows = a->n_q <= 2 && k.codes_bytes % (of_unit == 0 ? 128 : 64) == 0;
    byte_params p[2];
    uint32_t j = 0;
    for (; a->n_q >= 4 && a->n_keys - j >= 2 * VL;
         j += 2 * VL, k.at += (size_t)2 * VL * k.row_bytes) {
        float *s = a->s + j;
        uint32_t i = 0;
        byte_begin(&k, tk, p, 2);
        for (; a->n_q - i >= 4; i += 4) byte_tile(&k, four, tk, p, i, s, 4, 2);
        for (; i < a->n_q; i++) byte_tile(&k, four, tk, p, i, s, 1, 2);
    }
    for (; a->n_keys - j >= VL; j += VL, k.at += VL * k.row_bytes) {
        float *s = a->s + j;
        uint32_t i = 0;
        byte_begin(&k, tk, p, 1);
        for (; rows && i < a->n_q; i++) {
            vf score = byte_row_scores(&k, four, tk, of_unit, p, a->q + i * a->q_stride);
            vf_store(s + i * a->s_stride, score);
        }
        for (; a->n_q - i >= 4; i += 4) byte_tile(&k, four, tk, p, i, s, 4, 1);
        for (; i < a->n_q; i++) byte_tile(&k, four, tk, p, i, s, 1, 1);
    }
    for (; j < a->n_keys; j++, k.at += k.row_bytes) {
        for (uint32_t i = 0; i < a->n_q; i++) {
            a->s[i * a->s_stride + j] = byte_score(&k, four, tk, a->q + i * a->q_stride);
        }
    }
}

static void prepare_query(const kernel_query *a)
{
    kernel_query_put(a, true);
}

static void scores_packed(const kernel_scores *a)
{
    const kv_codec *c = a->packed.codec;
    byte_keys k = {.a = a, .at = a->k, .row_bytes = a->packed.row_bytes, .group = c->group};
    k.codes_bytes = (size_t)a->dim * c->bits / 8;
    k.n_groups = a->dim / c->group;
    k.half = c->kind == KV_TK || a->packed.base == KV_BASE_F16;
    if (c->kind == KV_TK) {
        byte_scores(k, false, true, 2);
    } else if (c->bits == 8 && c->group == 32) {
        byte_scores(k, false, false, 2);
    } else if (c->bits == 8 && c->group == 64) {
        byte_scores(k, false, false, 1);
    } else if (c->bits == 8) {
        byte_scores(k, false, false, 0);
    } else if (c->group == 32) {
        byte_scores(k, true, false, 4);
    } else if (c->group == 64) {
        byte_scores(k, true, false, 2);
    } else {
        byte_scores(k, true, false, 1);
    }
}

#endif
