/* vec_elem.h - the loops over single rows: rounding of inputs, normalisation, rotation,
 * activations, softmax, and reading memory.
 *
 * Written in the words of vec_avx2.h or vec_avx512.h, one of which is included first. */
#ifndef BACKEND_CPU_VEC_ELEM_H
#define BACKEND_CPU_VEC_ELEM_H

#include <math.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/fp.h"

/* The bits of x rounded to bf16, in place: the lower half is 0. As fp_round_bf16, NaN too. */
INLINE vi bits_round_bf16(vf x)
{
    vi bits = vi_of(x);
    vi odd = vi_and(vi_srl(bits, 16), vi_set1(1));
    vi rounded = vi_add(bits, vi_add(vi_set1(0x7fff), odd));
    vi quiet = vi_or(bits, vi_set1(0x400000));
    vi magnitude = vi_and(bits, vi_set1(0x7fffffff));
    vi chosen = vi_if_greater(magnitude, vi_set1(0x7f800000), quiet, rounded);
    return vi_and(chosen, vi_set1((int32_t)0xffff0000u));
}

LOOP void prepare_bf16(const float *x, uint32_t n, float *f, uint16_t *h)
{
    uint32_t i = 0;
    for (; n - i >= VL; i += VL) {
        vi bits = bits_round_bf16(vf_load(x + i));
        vf_store(f + i, vf_of(bits));
        vi_store_u16(h + i, vi_srl(bits, 16));
    }
    for (; i < n; i++) {
        h[i] = fp_to_bf16(x[i]);
        f[i] = fp_from_bf16(h[i]);
    }
}

/* The sum in double: squares of f32 cannot overflow it. */
LOOP void rms_norm(const float *x, const float *w, uint32_t n, float eps, float *y)
{
    double mean = v_square_sum(x, n) / (double)n;
    float inverse = (float)(1.0 / sqrt(mean + (double)eps));
    vf factor = vf_set1(inverse);
    uint32_t i = 0;
    for (; n - i >= VL; i += VL) {
        vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), factor), vf_load(w + i)));
    }
    for (; i < n; i++) y[i] = x[i] * inverse * w[i];
}

/* Sums in double. The mean is taken off in two parts: what f32 holds of it, and the rest. */
LOOP void layer_norm(const float *x, const float *w, const float *b, uint32_t n, float eps,
                     float *y)
{
    uint32_t whole = n / VL * VL;
    double mean = v_sum(x, n) / (double)n;
    double sum = v_square_sum_around(x, whole, mean);
    for (uint32_t i = whole; i < n; i++) {
        double d = (double)x[i] - mean;
        sum += d * d;
    }
    float inverse = (float)(1.0 / sqrt(sum / (double)n + (double)eps));
    float high = (float)mean;
    float low = (float)(mean - (double)high);
    vf factor = vf_set1(inverse);
    uint32_t i = 0;
    for (; i < whole; i += VL) {
        vf d = vf_sub(vf_sub(vf_load(x + i), vf_set1(high)), vf_set1(low));
        vf_store(y + i, vf_add(vf_mul(vf_mul(d, factor), vf_load(w + i)), vf_load(b + i)));
    }
    for (; i < n; i++) y[i] = (x[i] - high - low) * inverse * w[i] + b[i];
}

/* The products are rounded before they are added, as in generic.c: the same bits. */
LOOP void rope_half(float *x, const float *cos_sin, uint32_t n_pairs)
{
    float *second = x + n_pairs;
    uint32_t j = 0;
    for (; n_pairs - j >= VL; j += VL) {
        vf c;
        vf s;
        vf_load_pairs(cos_sin + 2 * (size_t)j, &c, &s);
        vf a = vf_load(x + j);
        vf b = vf_load(second + j);
        vf_store(x + j, vf_sub(vf_mul(a, c), vf_mul(b, s)));
        vf_store(second + j, vf_add(vf_mul(b, c), vf_mul(a, s)));
    }
    for (; j < n_pairs; j++) {
        float a = x[j];
        float b = second[j];
        float c = cos_sin[2 * (size_t)j];
        float s = cos_sin[2 * (size_t)j + 1];
        x[j] = a * c - b * s;
        second[j] = b * c + a * s;
    }
}

LOOP void rope_interleaved(float *x, const float *cos_sin, uint32_t n_pairs)
{
    size_t n = 2 * (size_t)n_pairs;
    size_t i = 0;
    for (; n - i >= VL; i += VL) {
        vf v = vf_load(x + i);
        vf turn = vf_load(cos_sin + i);
        vf straight = vf_mul(v, vf_dup_even(turn));
        vf crossed = vf_mul(vf_swap(v), vf_dup_odd(turn));
        vf_store(x + i, vf_addsub(straight, crossed));
    }
    for (; i < n; i += 2) {
        float a = x[i];
        float b = x[i + 1];
        x[i] = a * cos_sin[i] - b * cos_sin[i + 1];
        x[i + 1] = b * cos_sin[i] + a * cos_sin[i + 1];
    }
}

/* e^(x + rest), |rest| tiny beside x: x = n ln 2 + r, a polynomial of degree 7 in r (0.004 units of
 * 2^-24 off, fitted at Chebyshev nodes), and 2^n in two factors, so that subnormal results and
 * infinity come out by themselves. At most 2 units of 2^-24 off in all where the result is normal;
 * NaN stays NaN. */
INLINE vf vf_exp(vf x, vf rest)
{
    x = vf_max(vf_set1(-110.0F), vf_min(vf_set1(90.0F), x));
    vi n = vi_round(vf_mul(x, vf_set1(0x1.715476p+0F)));
    vf whole = vf_from_int(n);
    vf r = vf_fma(whole, vf_set1(-0x1.62e4p-1F), x);
    r = vf_fma(whole, vf_set1(-0x1.7f7d1cp-20F), r);
    r = vf_add(r, rest);
    vf p = vf_set1(1.9890990825e-04F);
    p = vf_fma(p, r, vf_set1(1.3933649996e-03F));
    p = vf_fma(p, r, vf_set1(8.3333109255e-03F));
    p = vf_fma(p, r, vf_set1(4.1666464925e-02F));
    p = vf_fma(p, r, vf_set1(1.6666666682e-01F));
    p = vf_fma(p, r, vf_set1(5.0000000135e-01F));
    p = vf_fma(vf_mul(r, r), p, r);
    p = vf_add(p, vf_set1(1.0F));
    vi half = vi_sra(n, 1);
    vi bias = vi_set1(127);
    vf first = vf_of(vi_sll(vi_add(half, bias), 23));
    vf second = vf_of(vi_sll(vi_add(vi_sub(n, half), bias), 23));
    return vf_mul(vf_mul(p, first), second);
}

/* g / (1 + e^-x) * up, where x = high + low. */
INLINE vf vf_gate(vf g, vf up, vf high, vf low)
{
    vf minus = vf_set1(-0.0F);
    vf e =
        vf_exp(vf_of(vi_xor(vi_of(high), vi_of(minus))), vf_of(vi_xor(vi_of(low), vi_of(minus))));
    return vf_mul(vf_div(g, vf_add(vf_set1(1.0F), e)), up);
}

INLINE vf vf_silu(vf g, vf up)
{
    return vf_gate(g, up, g, vf_zero());
}

/* (1 + tanh u) / 2 = 1 / (1 + e^-2u), with 2 u = g (A + B g^2). Where the result is small, an error
 * of 2 u is a relative one of the result, so 2 u is kept in two words; the lower holds what
 * rounding took from each step. */
INLINE vf vf_gelu_tanh(vf g, vf up)
{
    const vf a = vf_set1(0x1.988454p+0F);
    const vf a_low = vf_set1(-0x1.857936p-25F);
    const vf b = vf_set1(0x1.2444f2p-4F);
    const vf b_low = vf_set1(0x1.49b16ap-29F);
    /* Beyond, the result is g or 0, and the products below would overflow. */
    vf x = vf_max(vf_set1(-32.0F), vf_min(vf_set1(32.0F), g));
    vf square = vf_mul(x, x);
    vf square_low = vf_fma(x, x, vf_sub(vf_zero(), square));
    vf t = vf_mul(b, square);
    vf t_low = vf_fma(b, square, vf_sub(vf_zero(), t));
    t_low = vf_fma(b, square_low, vf_fma(b_low, square, t_low));
    vf p = vf_add(a, t);
    vf t_used = vf_sub(p, a);
    vf p_low = vf_add(vf_sub(a, vf_sub(p, t_used)), vf_sub(t, t_used));
    p_low = vf_add(p_low, vf_add(t_low, a_low));
    vf high = vf_mul(x, p);
    vf low = vf_fma(x, p, vf_sub(vf_zero(), high));
    low = vf_fma(x, p_low, low);
    return vf_gate(g, up, high, low);
}

LOOP void glu_silu(const float *gate, const float *up, uint32_t n, float *y)
{
    uint32_t i = 0;
    for (; n - i >= VL; i += VL) vf_store(y + i, vf_silu(vf_load(gate + i), vf_load(up + i)));
    if (i == n) return;
    vf last = vf_silu(vf_load_part(gate + i, n - i), vf_load_part(up + i, n - i));
    vf_store_part(y + i, last, n - i);
}

LOOP void glu_gelu_tanh(const float *gate, const float *up, uint32_t n, float *y)
{
    uint32_t i = 0;
    for (; n - i >= VL; i += VL) vf_store(y + i, vf_gelu_tanh(vf_load(gate + i), vf_load(up + i)));
    if (i == n) return;
    vf last = vf_gelu_tanh(vf_load_part(gate + i, n - i), vf_load_part(up + i, n - i));
    vf_store_part(y + i, last, n - i);
}

LOOP void glu_sigmoid(const float *gate, const float *up, uint32_t n, float *y)
{
    vf one = vf_set1(1.0F);
    uint32_t i = 0;
    for (; n - i >= VL; i += VL) {
        vf_store(y + i, vf_gate(one, vf_load(up + i), vf_load(gate + i), vf_zero()));
    }
    if (i == n) return;
    vf last = vf_gate(one, vf_load_part(up + i, n - i), vf_load_part(gate + i, n - i), vf_zero());
    vf_store_part(y + i, last, n - i);
}

/* x = 1.702 g and what rounding took from it; g / (1 + e^-x), of negative x as g e^x / (1 + e^x),
 * so that nothing overflows. Beyond 100 the result is g or 0. */
INLINE vf vf_gpt_oss(vf g, vf up)
{
    const vf alpha = vf_set1(1.702F);
    const vi minus = vi_of(vf_set1(-0.0F));
    vf x = vf_max(vf_set1(-100.0F), vf_min(vf_set1(100.0F), g));
    vf high = vf_mul(alpha, x);
    vf low = vf_fma(alpha, x, vf_sub(vf_zero(), high));
    vi turn = vi_xor(vi_and(vi_of(high), minus), minus);
    vf e = vf_exp(vf_of(vi_or(vi_of(high), minus)), vf_of(vi_xor(vi_of(low), turn)));
    vi top = vi_if_greater(vi_of(high), vi_set1(-1), vi_of(g), vi_of(vf_mul(g, e)));
    vf gate = vf_div(vf_of(top), vf_add(vf_set1(1.0F), e));
    return vf_mul(gate, vf_add(up, vf_set1(1.0F)));
}

LOOP void glu_gpt_oss(const float *gate, const float *up, uint32_t n, float *y)
{
    uint32_t i = 0;
    for (; n - i >= VL; i += VL) vf_store(y + i, vf_gpt_oss(vf_load(gate + i), vf_load(up + i)));
    if (i == n) return;
    vf last = vf_gpt_oss(vf_load_part(gate + i, n - i), vf_load_part(up + i, n - i));
    vf_store_part(y + i, last, n - i);
}

/* e^(x - top), 0 where x is -INFINITY. What rounding takes from a difference far below 0 would show
 * in the result, so it is kept. */
INLINE vf vf_exp_below(vf x, vf top)
{
    vf high = vf_sub(x, top);
    vf used = vf_sub(high, x);
    vf low = vf_sub(vf_sub(x, vf_sub(high, used)), vf_add(top, used));
    return vf_where_masked(x, vf_zero(), vf_exp(high, low));
}

/* Lane l adds the elements i = l modulo VL, the lanes are added in the order of vf_tree: what is
 * masked adds 0 wherever it stands. */
LOOP float exp_sum(float *s, uint32_t n, float max)
{
    vf top = vf_set1(max);
    vf sum = vf_zero();
    uint32_t i = 0;
    for (; n - i >= VL; i += VL) {
        vf x = vf_load(s + i);
        vf e = vf_exp_below(x, top);
        vf_store(s + i, e);
        sum = vf_add(sum, e);
    }
    if (i < n) {
        float last[VL];
        for (uint32_t j = 0; j < VL; j++) last[j] = i + j < n ? s[i + j] : -INFINITY;
        vf x = vf_load(last);
        vf e = vf_exp_below(x, top);
        vf_store_part(s + i, e, n - i);
        sum = vf_add(sum, e);
    }
    return vf_sum(sum);
}

LOOP float largest(const float *s, uint32_t n)
{
    vf tops[4];
    uint32_t i = 0;
    UNROLL
    for (uint32_t j = 0; j < 4; j++) tops[j] = vf_set1(s[0]);
    for (; n - i >= 4 * VL; i += 4 * VL) {
        UNROLL
        for (uint32_t j = 0; j < 4; j++) tops[j] = vf_max(vf_load(s + i + (size_t)j * VL), tops[j]);
    }
    for (; n - i >= VL; i += VL) tops[0] = vf_max(vf_load(s + i), tops[0]);
    vf top = vf_max(vf_max(tops[0], tops[1]), vf_max(tops[2], tops[3]));
    float lane[VL];
    vf_store(lane, top);
    float best = lane[0];
    for (uint32_t j = 1; j < VL; j++) {
        if (lane[j] > best) best = lane[j];
    }
    for (; i < n; i++) {
        if (s[i] > best) best = s[i];
    }
    return best;
}

/* n_vectors vectors of relu_sum from column j on; the last may be a part of `part` columns. */
INLINE void relu_sum_at(const kernel_relu_sum *a, uint32_t j, const uint32_t n_vectors,
                        uint32_t part)
{
    vf sum[4];
    vf zero = vf_zero();
    UNROLL
    for (uint32_t k = 0; k < n_vectors; k++)
        sum[k] = part > 0 ? vf_load_part(a->y + j, part) : vf_load(a->y + j + (size_t)k * VL);
    for (uint32_t i = 0; i < a->n_rows; i++) {
        const float *s = a->s + i * a->s_stride + j;
        vf w = vf_set1(a->w[i]);
        UNROLL
        for (uint32_t k = 0; k < n_vectors; k++) {
            vf x = part > 0 ? vf_load_part(s, part) : vf_load(s + (size_t)k * VL);
            sum[k] = vf_fma(w, vf_max(x, zero), sum[k]);
        }
    }
    UNROLL
    for (uint32_t k = 0; k < n_vectors; k++) {
        if (part > 0) {
            vf_store_part(a->y + j, sum[k], part);
        } else {
            vf_store(a->y + j + (size_t)k * VL, sum[k]);
        }
    }
}

LOOP void relu_sum(const kernel_relu_sum *a)
{
    uint32_t j = 0;
    for (; a->n - j >= 4 * VL; j += 4 * VL) relu_sum_at(a, j, 4, 0);
    for (; a->n - j >= VL; j += VL) relu_sum_at(a, j, 1, 0);
    if (j < a->n) relu_sum_at(a, j, 1, a->n - j);
}

/* n_streams runs of n_bytes / n_streams, side by side, each ahead bytes in front of itself. */
INLINE uint64_t read_streams(const unsigned char *at, size_t n_bytes, const uint32_t n_streams,
                             const size_t ahead)
{
    size_t run = n_bytes / n_streams;
    vi sum[8];
    UNROLL
    for (int i = 0; i < 8; i++) sum[i] = vi_zero();
    for (size_t i = 0; i < run; i += 256) {
        UNROLL
        for (uint32_t s = 0; s < n_streams; s++) {
            const unsigned char *from = at + s * run + i;
            UNROLL
            for (size_t j = 0; j < 256; j += sizeof(vi)) {
                if (ahead != 0 && j % 64 == 0) v_prefetch(from + j + ahead);
                size_t to = j / sizeof(vi) % 8;
                sum[to] = vi_xor(sum[to], vi_load(from + j));
            }
        }
    }
    vi all = vi_xor(vi_xor(vi_xor(sum[0], sum[1]), vi_xor(sum[2], sum[3])),
                    vi_xor(vi_xor(sum[4], sum[5]), vi_xor(sum[6], sum[7])));
    return vi_xor_words(all);
}

LOOP uint64_t read_block(const void *block, size_t n_bytes, uint32_t loop)
{
    if (loop == 0) return read_streams(block, n_bytes, 1, 0);
    if (loop == 1) return read_streams(block, n_bytes, 1, 2048);
    return read_streams(block, n_bytes, 4, 1024);
}

#endif
