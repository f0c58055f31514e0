/* vec_recur.h - the two loops of recurrent layers.
 *
 * Written in the words of vec_avx2.h or vec_avx512.h, one of which is included first, and of
 * vec_elem.h. A sum over a row of S: lane l adds the products of columns j = l modulo VL, j
 * ascending, by fused multiply-adds, and the lanes are added in the order of vf_tree. Rows go VL at
 * a time, which changes nothing: none looks at another. */
#ifndef BACKEND_CPU_VEC_RECUR_H
#define BACKEND_CPU_VEC_RECUR_H

#include "backend/cpu/vec_elem.h"

INLINE void conv(const kernel_conv *a, const bool silu)
{
    vf one = vf_set1(1.0F);
    uint32_t c = 0;
    for (; a->n - c >= VL; c += VL) {
        vf sum = vf_zero();
        for (uint32_t j = 0; j < a->n_taps; j++) {
            sum = vf_fma(vf_load(a->w + j * a->stride + c), vf_load(a->x[j] + c), sum);
        }
        vf_store(a->y + c, silu ? vf_silu(sum, one) : sum);
    }
    uint32_t n = a->n - c;
    if (n == 0) return;
    vf sum = vf_zero();
    for (uint32_t j = 0; j < a->n_taps; j++) {
        vf w = vf_load_part(a->w + j * a->stride + c, n);
        sum = vf_fma(w, vf_load_part(a->x[j] + c, n), sum);
    }
    vf_store_part(a->y + c, silu ? vf_silu(sum, one) : sum, n);
}

static void conv_silu(const kernel_conv *a)
{
    conv(a, true);
}

static void conv_plain(const kernel_conv *a)
{
    conv(a, false);
}

INLINE vf load_some(const float *at, uint32_t n)
{
    return n >= VL ? vf_load(at) : vf_load_part(at, n);
}

/* n_rows rows of S from i on. */
INLINE void delta_rows(const kernel_delta *a, uint32_t i, const uint32_t n_rows)
{
    const uint32_t k_dim = a->k_dim;
    float *s = a->s + (size_t)i * k_dim;
    vf decay = vf_set1(a->decay);
    vf sum[VL];
    float change[VL];
    UNROLL
    for (uint32_t r = 0; r < VL; r++) sum[r] = vf_zero();
    for (uint32_t j = 0; j < k_dim; j += VL) {
        vf k = load_some(a->k + j, k_dim - j);
        UNROLL
        for (uint32_t r = 0; r < n_rows; r++) {
            vf old = load_some(s + (size_t)r * k_dim + j, k_dim - j);
            sum[r] = vf_fma(vf_mul(old, decay), k, sum[r]);
        }
    }
    vf off = vf_sub(load_some(a->v + i, n_rows), vf_tree(sum));
    vf_store(change, vf_mul(vf_set1(a->rate), off));
    UNROLL
    for (uint32_t r = 0; r < VL; r++) sum[r] = vf_zero();
    for (uint32_t j = 0; j < k_dim; j += VL) {
        uint32_t n = k_dim - j;
        vf k = load_some(a->k + j, n);
        vf q = load_some(a->q + j, n);
        UNROLL
        for (uint32_t r = 0; r < n_rows; r++) {
            float *at = s + (size_t)r * k_dim + j;
            vf new = vf_fma(vf_set1(change[r]), k, vf_mul(load_some(at, n), decay));
            sum[r] = vf_fma(new, q, sum[r]);
            if (n >= VL) {
                vf_store(at, new);
            } else {
                vf_store_part(at, new, n);
            }
        }
    }
    if (n_rows == VL) {
        vf_store(a->y + i, vf_tree(sum));
    } else {
        vf_store_part(a->y + i, vf_tree(sum), n_rows);
    }
}

static void delta(const kernel_delta *a)
{
    uint32_t i = 0;
    for (; a->v_dim - i >= VL; i += VL) delta_rows(a, i, VL);
    if (i < a->v_dim) delta_rows(a, i, a->v_dim - i);
}

#endif
