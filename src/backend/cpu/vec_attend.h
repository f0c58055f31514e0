/* vec_attend.h - the two sums of attention, over keys and over values: tiles, and dense rows.
 *
 * Written in the words of vec_avx2.h or vec_avx512.h, one of which is included first. A score: lane
 * l adds the products of dimensions d = l modulo VL, d ascending, by fused multiply-adds; the lanes
 * are added in the order of vf_tree, and the sum is multiplied by scale. An output value: one fused
 * multiply-add a key, keys ascending, as generic.c does: the same bits.
 *
 * Queries that share a key head share what is loaded and decoded, up to TILE_QUERIES of them. Rows
 * are read from end to end, one after the other, as memory has them: what fetches ahead in a
 * processor then moves nearly twice what it moves for rows side by side. */
#ifndef BACKEND_CPU_VEC_ATTEND_H
#define BACKEND_CPU_VEC_ATTEND_H

#include "backend/cpu/vec_dense.h"
#include "kv/codecs/codec.h"

/* Queries of a tile, vectors of a row in a step, rows between loading and storing outputs. */
enum { TILE_QUERIES = 8, ROW_VECTORS = 8, VALUE_ROWS = 32 };

/* How rows are stored. */
typedef enum attend_form {
    FORM_F32,
    FORM_F16,
    FORM_BF16,
    FORM_U8,   /* code * scale + other */
    FORM_U4,   /* code * scale + other */
    FORM_BOOK4 /* centroid * scale */
} attend_form;

/* Rows of keys or values: where the first begins, and what their codes mean. */
typedef struct attend_rows {
    const unsigned char *at;
    size_t row_bytes, codes_bytes;
    size_t others_at; /* from a scale on */
    uint8_t base;
    v_book book;
} attend_rows;

/* What the codes of a group of a row mean. */
typedef struct attend_group {
    vf scale, other;
    v_meaning nibbles;
} attend_group;

INLINE bool form_dense(const attend_form form)
{
    return form <= FORM_BF16;
}

/* Whether decoded columns stand in the lanes of vi_load_nibbles. */
INLINE bool form_turned(const attend_form form)
{
    return form >= FORM_U4;
}

INLINE size_t form_bytes(const attend_form form, size_t n)
{
    if (form == FORM_F32) return 4 * n;
    if (form_dense(form)) return 2 * n;
    return form_turned(form) ? n / 2 : n;
}

/* Groups that a step of n_vectors meets. */
INLINE uint32_t step_groups(const uint32_t of_group, const uint32_t n_vectors)
{
    return n_vectors > of_group ? n_vectors / of_group : 1;
}

/* Where the scale of the group of column d stands in a row. */
INLINE size_t scale_at(const uint32_t of_group, const attend_rows *rows, uint32_t d)
{
    return rows->codes_bytes + (size_t)2 * (d / (of_group * VL));
}

/* n numbers of 16 bits. */
INLINE __m128i load_16s(const unsigned char *at, const uint32_t n)
{
    if (n == 1) return _mm_loadu_si16(at);
    if (n == 2) return _mm_loadu_si32(at);
    return _mm_loadl_epi64((const __m128i *)(const void *)at);
}

/* Scale and other of two groups, of 16 bits, to f32. */
INLINE __m128 params_to_float(__m128i words, const bool half)
{
    if (!half) return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), words));
    return _mm_cvtph_ps(words);
}

/* Numbers that the compiler keeps in memory, from where they reach all lanes for nothing; out of a
 * register that takes one of the two units which move lanes. */
INLINE void v_in_memory(float at[2 * ROW_VECTORS])
{
    __asm__("" : "+m"(*(float(*)[2 * ROW_VECTORS]) at));
}

/* n groups from the one on whose scale stands at: scale, other, scale, other; or only scales, where
 * nothing is added to code * scale. */
INLINE void params_of(const attend_form form, const attend_rows *rows, const unsigned char *at,
                      const uint32_t n, float out[2 * ROW_VECTORS])
{
    if (form_dense(form)) return;
    __m128i scales = load_16s(at, n);
    if (form == FORM_BOOK4) {
        _mm_storeu_ps(out, _mm_cvtph_ps(scales));
        return;
    }
    __m128i words = _mm_unpacklo_epi16(scales, load_16s(at + rows->others_at, n));
    __m128i second = _mm_srli_si128(words, 8);
    if (rows->base == KV_BASE_F16) {
        _mm_storeu_ps(out, params_to_float(words, true));
        if (n > 2) _mm_storeu_ps(out + 4, params_to_float(second, true));
    } else {
        _mm_storeu_ps(out, params_to_float(words, false));
        if (n > 2) _mm_storeu_ps(out + 4, params_to_float(second, false));
    }
}

/* Group i of those of params. */
INLINE attend_group group_of(const attend_form form, const attend_rows *rows, const float *params,
                             const uint32_t i)
{
    attend_group g = {.scale = vf_zero(), .other = vf_zero(), .nibbles = v_meaning_none()};
    if (form_dense(form)) return g;
    g.scale = vf_set1(params[form == FORM_BOOK4 ? i : 2 * i]);
    if (form != FORM_BOOK4) g.other = vf_set1(params[2 * i + 1]);
    if (form == FORM_U4) g.nibbles = v_meaning_affine(g.scale, g.other);
    if (form == FORM_BOOK4) g.nibbles = v_meaning_book(rows->book, g.scale);
    return g;
}

/* VL columns at; part: how many of a last vector of dense ones, or 0. */
INLINE vf form_load(const attend_form form, const unsigned char *at, const attend_group *g,
                    uint32_t part)
{
    switch (form) {
    case FORM_F32:
        return part == 0 ? vf_load((const float *)(const void *)at)
                         : dense_load_part(DENSE_F32, at, part);
    case FORM_F16:
        return part == 0 ? vf_load_f16(at) : dense_load_part(DENSE_F16, at, part);
    case FORM_BF16:
        return part == 0 ? vf_load_bf16(at) : dense_load_part(DENSE_BF16, at, part);
    case FORM_U8:
        return vf_fma(vf_from_int(vi_load_u8(at)), g->scale, g->other);
    case FORM_U4:
        return v_mean_affine(g->nibbles, vi_load_nibbles(at));
    default:
        return v_mean_book(g->nibbles, vi_load_nibbles(at));
    }
}

/* How far ahead rows are fetched, in bytes. */
enum { FETCH_AHEAD = 8192 };

/* From a row on to what is to be fetched while it is at work: bytes further on, or what is read
 * next in the place of what lies behind the end. */
INLINE size_t fetch_step(kernel_ahead of, const void *at, size_t bytes)
{
    uintptr_t end = (uintptr_t)of.end;
    bool within = of.next == NULL || (uintptr_t)at + bytes < end;
    return within ? bytes : (uintptr_t)of.next - end + bytes;
}

/* A row of n_vectors vectors at, step further on. Decoded rows lie in a cache. */
INLINE void fetch_ahead(const attend_form form, const unsigned char *at, size_t step,
                        const uint32_t n_vectors)
{
    /* Packed rows are not whole lines: one more. */
    const size_t n = form_bytes(form, (size_t)n_vectors * VL) + (form_dense(form) ? 0 : 1);
    if (form == FORM_F32) return;
    UNROLL
    for (size_t i = 0; i < n; i += LINE) {
        v_prefetch_at((uintptr_t)at + step + i);
    }
}

/* ---- scores */

/* Sums by lanes of VL keys. */
typedef struct scores_sums {
    vf at[TILE_QUERIES][VL];
} scores_sums;

/* Columns from d on of n keys at, for queries q; part: how many of a last vector, or 0. */
typedef struct scores_part {
    const float *q;
    size_t q_stride;
    const unsigned char *at;
    size_t row_bytes, fetch;
    uint32_t n, d, part;
} scores_part;

INLINE void scores_step(const attend_form form, scores_part a, const uint32_t n_vectors,
                        const uint32_t n_q, scores_sums *sums)
{
    const uint32_t d = a.d;
    const uint32_t part = a.part;
    const float *q = a.q + d;
    const unsigned char *from = a.at + form_bytes(form, d);
    const attend_group none = {.scale = vf_zero(), .other = vf_zero()};
    vf in[2][ROW_VECTORS];
    UNROLL
    for (uint32_t r = 0; r < n_q; r++) {
        UNROLL
        for (uint32_t v = 0; v < n_vectors; v++) {
            if (n_q > 2) continue;
            const float *x = q + r * a.q_stride + (size_t)v * VL;
            in[r & 1][v] = part == 0 ? vf_load(x) : vf_load_part(x, part);
        }
    }
    for (uint32_t c = 0; c < a.n; c++, from += a.row_bytes) {
        vf sum[TILE_QUERIES];
        UNROLL
        for (uint32_t r = 0; r < n_q; r++) sum[r] = d == 0 ? vf_zero() : sums->at[r][c];
        fetch_ahead(form, from, a.fetch, n_vectors);
        UNROLL
        for (uint32_t v = 0; v < n_vectors; v++) {
            vf k = form_load(form, from + form_bytes(form, (size_t)v * VL), &none, part);
            UNROLL
            for (uint32_t r = 0; r < n_q; r++) {
                const float *y = q + r * a.q_stride + (size_t)v * VL;
                vf x = n_q <= 2 ? in[r & 1][v] : part == 0 ? vf_load(y) : vf_load_part(y, part);
                sum[r] = vf_fma(x, k, sum[r]);
            }
        }
        UNROLL
        for (uint32_t r = 0; r < n_q; r++) sums->at[r][c] = sum[r];
    }
}

/* n_q queries from i on against n <= VL keys from j on. */
INLINE void scores_tile(const attend_form form, const kernel_scores *a, uint32_t i, uint32_t j,
                        uint32_t n, const uint32_t n_q)
{
    scores_part p = {.q = a->q + i * a->q_stride, .q_stride = a->q_stride, .n = n};
    p.row_bytes = form_bytes(form, a->dim);
    p.at = (const unsigned char *)a->k + j * p.row_bytes;
    p.fetch = fetch_step(a->ahead, p.at, FETCH_AHEAD);
    scores_sums sums;
    for (; a->dim - p.d >= 8 * VL; p.d += 8 * VL) scores_step(form, p, 8, n_q, &sums);
    if (a->dim - p.d >= 4 * VL) {
        scores_step(form, p, 4, n_q, &sums);
        p.d += 4 * VL;
    }
    for (; a->dim - p.d >= 2 * VL; p.d += 2 * VL) scores_step(form, p, 2, n_q, &sums);
    if (a->dim - p.d >= VL) {
        scores_step(form, p, 1, n_q, &sums);
        p.d += VL;
    }
    p.part = a->dim - p.d;
    if (p.part > 0) scores_step(form, p, 1, n_q, &sums);
    for (uint32_t r = 0; r < n_q; r++) {
        vf all[VL];
        UNROLL
        for (uint32_t c = 0; c < VL; c++) all[c] = c < n ? sums.at[r][c] : vf_zero();
        vf scores = vf_mul(vf_tree(all), vf_set1(a->scale));
        float *to = a->s + (i + r) * a->s_stride + j;
        if (n == VL) {
            vf_store(to, scores);
        } else {
            vf_store_part(to, scores, n);
        }
    }
}

INLINE void scores_rows(const attend_form form, const kernel_scores *a)
{
    for (uint32_t j = 0; j < a->n_keys; j += VL) {
        uint32_t n = a->n_keys - j < VL ? a->n_keys - j : VL;
        uint32_t i = 0;
        for (; a->n_q - i >= 8; i += 8) scores_tile(form, a, i, j, n, 8);
        for (; a->n_q - i >= 4; i += 4) scores_tile(form, a, i, j, n, 4);
        for (; a->n_q - i >= 2; i += 2) scores_tile(form, a, i, j, n, 2);
        if (i < a->n_q) scores_tile(form, a, i, j, n, 1);
    }
}

/* ---- values */

/* Columns from d on, queries from i on, n rows from j on; part: how much of a last vector, or 0. */
typedef struct values_part {
    size_t fetch;
    uint32_t i, j, n, d, part;
} values_part;

/* n_vectors vectors of output for n_q queries; of_group: vectors within which a group is the
 * same. */
INLINE void values_tile(const attend_form form, const uint32_t of_group, const attend_rows *rows,
                        const kernel_values *a, values_part of, const uint32_t n_q,
                        const uint32_t n_vectors)
{
    const uint32_t d = of.d;
    const uint32_t part = of.part;
    const size_t to_scale = scale_at(of_group, rows, d) - form_bytes(form, d);
    float params[2 * ROW_VECTORS] = {0};
    vf sum[TILE_QUERIES][ROW_VECTORS];
    float *o = a->o + of.i * a->o_stride + d;
    const float *p = a->p + of.i * a->p_stride + of.j;
    const unsigned char *row = rows->at + of.j * rows->row_bytes + form_bytes(form, d);
    UNROLL
    for (uint32_t r = 0; r < n_q; r++) {
        UNROLL
        for (uint32_t c = 0; c < n_vectors; c++) {
            const float *from = o + r * a->o_stride + (size_t)c * VL;
            sum[r][c] = part == 0 ? vf_load(from) : vf_load_part(from, part);
            if (form_turned(form)) sum[r][c] = vf_turn(sum[r][c]);
        }
    }
    for (uint32_t k = 0; k < of.n; k++, row += rows->row_bytes) {
        fetch_ahead(form, row, of.fetch, n_vectors);
        params_of(form, rows, row + to_scale, step_groups(of_group, n_vectors), params);
        if (n_q <= 2 || form == FORM_BOOK4) v_in_memory(params);
        attend_group g = group_of(form, rows, params, 0);
        UNROLL
        for (uint32_t c = 0; c < n_vectors; c++) {
            if (c > 0 && c % of_group == 0) g = group_of(form, rows, params, c / of_group);
            vf v = form_load(form, row + form_bytes(form, (size_t)c * VL), &g, part);
            UNROLL
            for (uint32_t r = 0; r < n_q; r++) {
                sum[r][c] = vf_fma(vf_set1(p[r * a->p_stride + k]), v, sum[r][c]);
            }
        }
    }
    UNROLL
    for (uint32_t r = 0; r < n_q; r++) {
        UNROLL
        for (uint32_t c = 0; c < n_vectors; c++) {
            float *to = o + r * a->o_stride + (size_t)c * VL;
            if (form_turned(form)) sum[r][c] = vf_turn_back(sum[r][c]);
            if (part == 0) {
                vf_store(to, sum[r][c]);
            } else {
                vf_store_part(to, sum[r][c], part);
            }
        }
    }
}

/* Fewer queries, more vectors: what is added to must outnumber the latency of an addition, and fit
 * in registers. */
INLINE void values_queries(const attend_form form, const uint32_t of_group, const attend_rows *rows,
                           const kernel_values *a, values_part of, const uint32_t n_q)
{
    const uint32_t wide = VL / n_q < ROW_VECTORS ? VL / n_q : ROW_VECTORS;
    for (; a->dim - of.d >= wide * VL; of.d += wide * VL) {
        values_tile(form, of_group, rows, a, of, n_q, wide);
    }
    for (; a->dim - of.d >= VL; of.d += VL) values_tile(form, of_group, rows, a, of, n_q, 1);
    of.part = a->dim - of.d;
    if (form_dense(form) && of.part > 0) values_tile(form, of_group, rows, a, of, n_q, 1);
}

INLINE void values_rows(const attend_form form, const uint32_t of_group, const attend_rows *rows,
                        const kernel_values *a)
{
    for (uint32_t j = 0; j < a->n_keys; j += VALUE_ROWS) {
        values_part of = {.j = j, .n = a->n_keys - j < VALUE_ROWS ? a->n_keys - j : VALUE_ROWS};
        of.fetch = fetch_step(a->ahead, rows->at + j * rows->row_bytes, FETCH_AHEAD);
        for (; a->n_q - of.i >= 8; of.i += 8) values_queries(form, of_group, rows, a, of, 8);
        for (; a->n_q - of.i >= 4; of.i += 4) values_queries(form, of_group, rows, a, of, 4);
        for (; a->n_q - of.i >= 2; of.i += 2) values_queries(form, of_group, rows, a, of, 2);
        if (of.i < a->n_q) values_queries(form, of_group, rows, a, of, 1);
    }
}

/* ---- dense rows */

#define ATTEND(name, form)                                                                         \
    static void scores_##name(const kernel_scores *a)                                              \
    {                                                                                              \
        scores_rows(form, a);                                                                      \
    }                                                                                              \
    static void values_##name(const kernel_values *a)                                              \
    {                                                                                              \
        attend_rows rows = {.at = a->v, .row_bytes = form_bytes(form, a->v_stride)};               \
        values_rows(form, 1, &rows, a);                                                            \
    }
ATTEND(f32, FORM_F32)
ATTEND(f16, FORM_F16)
ATTEND(bf16, FORM_BF16)
#undef ATTEND

static void linear_turned(const kernel_linear *a)
{
    encoding_id id = a->w->encoding->id;
    kernel_linear_turned(a, id == ENCODING_ID_F32   ? values_f32
                            : id == ENCODING_ID_F16 ? values_f16
                                                    : values_bf16);
}

#endif
