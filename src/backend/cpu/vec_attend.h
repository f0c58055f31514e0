/* vec_attend.h - the two sums of attention, over keys and over values.
 *
 * Written in the words of vec_avx2.h or vec_avx512.h, one of which is included first. A score: lane
 * l adds the products of dimensions d = l modulo VL, d ascending, by fused multiply-adds; the lanes
 * are added in the order of vf_tree, and the sum is multiplied by scale. An output value: one fused
 * multiply-add a key, keys ascending, as generic.c does: the same bits. */
#ifndef BACKEND_CPU_VEC_ATTEND_H
#define BACKEND_CPU_VEC_ATTEND_H

#include "backend/cpu/vec_dense.h"

/* A tile: queries and keys of a score, queries and vectors of an output. */
enum { SCORE_QUERIES = 2, SCORE_KEYS = 4, VALUE_QUERIES = 4, VALUE_VECTORS = 4 };

INLINE vf kv_load(const dense_type type, const void *base, size_t index)
{
    return dense_load(type, (const unsigned char *)base + index * (type == DENSE_F32 ? 4 : 2));
}

INLINE vf kv_load_part(const dense_type type, const void *base, size_t index, uint32_t n)
{
    size_t size = type == DENSE_F32 ? 4 : 2;
    return dense_load_part(type, (const unsigned char *)base + index * size, n);
}

/* n_q queries from i on against SCORE_KEYS keys from j on, of which those beyond the last are it
 * again. */
INLINE void scores_tile(const dense_type type, const kernel_scores *a, uint32_t i, uint32_t j,
                        const uint32_t n_q)
{
    uint32_t n_keys = a->n_keys - j < SCORE_KEYS ? a->n_keys - j : SCORE_KEYS;
    size_t key[SCORE_KEYS];
    vf sum[SCORE_QUERIES][SCORE_KEYS];
    UNROLL
    for (uint32_t c = 0; c < SCORE_KEYS; c++) {
        key[c] = (size_t)(j + (c < n_keys ? c : n_keys - 1)) * a->dim;
        UNROLL
        for (uint32_t r = 0; r < n_q; r++) sum[r][c] = vf_zero();
    }
    uint32_t d = 0;
    for (; a->dim - d >= VL; d += VL) {
        UNROLL
        for (uint32_t c = 0; c < SCORE_KEYS; c++) {
            vf k = kv_load(type, a->k, key[c] + d);
            UNROLL
            for (uint32_t r = 0; r < n_q; r++) {
                sum[r][c] = vf_fma(vf_load(a->q + (i + r) * a->q_stride + d), k, sum[r][c]);
            }
        }
    }
    if (d < a->dim) {
        uint32_t n = a->dim - d;
        UNROLL
        for (uint32_t c = 0; c < SCORE_KEYS; c++) {
            vf k = kv_load_part(type, a->k, key[c] + d, n);
            UNROLL
            for (uint32_t r = 0; r < n_q; r++) {
                sum[r][c] = vf_fma(vf_load_part(a->q + (i + r) * a->q_stride + d, n), k, sum[r][c]);
            }
        }
    }
    vf all[VL];
    float out[VL];
    UNROLL
    for (uint32_t r = 0; r < n_q; r++) {
        UNROLL
        for (uint32_t c = 0; c < SCORE_KEYS; c++) all[r * SCORE_KEYS + c] = sum[r][c];
    }
    UNROLL
    for (uint32_t c = n_q * SCORE_KEYS; c < VL; c++) all[c] = vf_zero();
    vf_store(out, vf_mul(vf_tree(all), vf_set1(a->scale)));
    UNROLL
    for (uint32_t r = 0; r < n_q; r++) {
        memcpy(a->s + (i + r) * a->s_stride + j, out + (size_t)r * SCORE_KEYS,
               n_keys * sizeof *out);
    }
}

INLINE void scores(const dense_type type, const kernel_scores *a)
{
    for (uint32_t j = 0; j < a->n_keys; j += SCORE_KEYS) {
        uint32_t i = 0;
        for (; a->n_q - i >= SCORE_QUERIES; i += SCORE_QUERIES) {
            scores_tile(type, a, i, j, SCORE_QUERIES);
        }
        if (i < a->n_q) scores_tile(type, a, i, j, 1);
    }
}

/* n_vectors vectors of output from d on, for n_q queries from i on; part: how much of a last
 * vector, or 0. */
INLINE void values_tile(const dense_type type, const kernel_values *a, uint32_t i, uint32_t d,
                        uint32_t part, const uint32_t n_q, const uint32_t n_vectors)
{
    vf sum[VALUE_QUERIES][VALUE_VECTORS];
    float *o = a->o + i * a->o_stride + d;
    const float *p = a->p + i * a->p_stride;
    UNROLL
    for (uint32_t r = 0; r < n_q; r++) {
        UNROLL
        for (uint32_t c = 0; c < n_vectors; c++) {
            const float *at = o + r * a->o_stride + (size_t)c * VL;
            sum[r][c] = part == 0 ? vf_load(at) : vf_load_part(at, part);
        }
    }
    for (uint32_t j = 0; j < a->n_keys; j++) {
        size_t row = j * a->v_stride + d;
        UNROLL
        for (uint32_t c = 0; c < n_vectors; c++) {
            vf v = part == 0 ? kv_load(type, a->v, row + (size_t)c * VL)
                             : kv_load_part(type, a->v, row, part);
            UNROLL
            for (uint32_t r = 0; r < n_q; r++) {
                sum[r][c] = vf_fma(vf_set1(p[r * a->p_stride + j]), v, sum[r][c]);
            }
        }
    }
    UNROLL
    for (uint32_t r = 0; r < n_q; r++) {
        UNROLL
        for (uint32_t c = 0; c < n_vectors; c++) {
            float *at = o + r * a->o_stride + (size_t)c * VL;
            if (part == 0) {
                vf_store(at, sum[r][c]);
            } else {
                vf_store_part(at, sum[r][c], part);
            }
        }
    }
}

INLINE void values_rows(const dense_type type, const kernel_values *a, uint32_t i,
                        const uint32_t n_q)
{
    /* Fewer queries, more vectors: what is added to must outnumber the latency of an addition. */
    const uint32_t wide = n_q == 1 ? 4 : 2;
    uint32_t d = 0;
    for (; a->dim - d >= wide * VL; d += wide * VL) values_tile(type, a, i, d, 0, n_q, wide);
    for (; a->dim - d >= VL; d += VL) values_tile(type, a, i, d, 0, n_q, 1);
    if (d < a->dim) values_tile(type, a, i, d, a->dim - d, n_q, 1);
}

INLINE void values(const dense_type type, const kernel_values *a)
{
    uint32_t i = 0;
    for (; a->n_q - i >= VALUE_QUERIES; i += VALUE_QUERIES) values_rows(type, a, i, VALUE_QUERIES);
    for (; i < a->n_q; i++) values_rows(type, a, i, 1);
}

#define ATTEND(name, type)                                                                         \
    static void scores_##name(const kernel_scores *a)                                              \
    {                                                                                              \
        scores(type, a);                                                                           \
    }                                                                                              \
    static void values_##name(const kernel_values *a)                                              \
    {                                                                                              \
        values(type, a);                                                                           \
    }
ATTEND(f32, DENSE_F32)
ATTEND(f16, DENSE_F16)
ATTEND(bf16, DENSE_BF16)
#undef ATTEND

#endif
