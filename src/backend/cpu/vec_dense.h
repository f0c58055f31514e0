/* vec_dense.h - the linear loops whose input is f32: weights in f32, f16, bf16, or codes decoded to
 * f32.
 *
 * Written in the words of vec_avx2.h or vec_avx512.h, one of which is included first. For one
 * output, lane l adds the products of columns k = l modulo VL with k ascending, each by one fused
 * multiply-add; the lanes are added in the order of vf_tree; y = add + (sum + bias). Four rows of
 * weights are decoded, a chunk of columns at a time, and every token of a group uses them. */
#ifndef BACKEND_CPU_VEC_DENSE_H
#define BACKEND_CPU_VEC_DENSE_H

#include "backend/cpu/vec_codes.h"

/* The input of a group and the weights of a chunk stay in the second-level cache. */
enum { DENSE_ROWS = 4, DENSE_CHUNK = 2 * CHUNK, DENSE_GROUP = 24 };

typedef enum dense_type { DENSE_F32, DENSE_F16, DENSE_BF16, DENSE_CODES } dense_type;

typedef struct dense_tile_state {
    _Alignas(64) float w[DENSE_ROWS][DENSE_CHUNK]; /* padded with 0 to whole vectors */
    _Alignas(64) float sum[DENSE_GROUP][DENSE_ROWS][VL];
} dense_tile_state;

INLINE vf dense_load(const dense_type type, const void *at)
{
    if (type == DENSE_F32) return vf_load(at);
    return type == DENSE_F16 ? vf_load_f16(at) : vf_load_bf16(at);
}

/* n < VL elements; the other lanes are 0. */
INLINE vf dense_load_part(const dense_type type, const void *at, uint32_t n)
{
    if (type == DENSE_F32) return vf_load_part(at, n);
    uint16_t half[VL] = {0};
    memcpy(half, at, (size_t)n * 2);
    return dense_load(type, half);
}

/* Columns first .. first + n - 1 of a row to f32, in whole vectors. ahead: bytes to fetch
 * meanwhile, as many as these columns have, or NULL. */
INLINE void dense_decode(const dense_type type, const codes_kind kind, const tensor *w,
                         uint64_t row, uint32_t first, uint32_t n, float *out,
                         const unsigned char *ahead)
{
    const unsigned char *at = w->planes[0] + row * w->row_bytes[0];
    if (type == DENSE_CODES) {
        codes_row(w, kind, row, first, n, out);
        return;
    }
    const uint32_t size = type == DENSE_F32 ? 4 : 2;
    const uint32_t line = LINE / size;
    at += (size_t)first * size;
    uint32_t i = 0;
    for (; n - i >= line; i += line) {
        if (ahead != NULL) v_prefetch_far(ahead + (size_t)i * size);
        UNROLL
        for (uint32_t j = 0; j < line; j += VL) {
            vf_store(out + i + j, dense_load(type, at + (size_t)(i + j) * size));
        }
    }
    for (; n - i >= VL; i += VL) vf_store(out + i, dense_load(type, at + (size_t)i * size));
    if (i < n) vf_store(out + i, dense_load_part(type, at + (size_t)i * size, n - i));
}

/* The n columns of a chunk: four rows, n_tokens tokens. */
INLINE void dense_tile(dense_tile_state *d, uint32_t at, const float *x, size_t stride, uint32_t n,
                       const uint32_t n_tokens)
{
    vf sum[DENSE_TOKENS][DENSE_ROWS];
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        UNROLL
        for (int r = 0; r < DENSE_ROWS; r++) sum[t][r] = vf_load(d->sum[at + t][r]);
    }
    uint32_t i = 0;
    for (; n - i >= VL; i += VL) {
        vf in[DENSE_TOKENS];
        UNROLL
        for (uint32_t t = 0; t < n_tokens; t++) in[t] = vf_load(x + t * stride + i);
        UNROLL
        for (int r = 0; r < DENSE_ROWS; r++) {
            vf w = vf_load(d->w[r] + i);
            UNROLL
            for (uint32_t t = 0; t < n_tokens; t++) sum[t][r] = vf_fma(w, in[t], sum[t][r]);
        }
    }
    if (i < n) {
        UNROLL
        for (uint32_t t = 0; t < n_tokens; t++) {
            vf in = vf_load_part(x + t * stride + i, n - i);
            UNROLL
            for (int r = 0; r < DENSE_ROWS; r++) {
                sum[t][r] = vf_fma(vf_load(d->w[r] + i), in, sum[t][r]);
            }
        }
    }
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        UNROLL
        for (int r = 0; r < DENSE_ROWS; r++) vf_store(d->sum[at + t][r], sum[t][r]);
    }
}

static void dense_tiles(dense_tile_state *d, const float *x, size_t stride, uint32_t n,
                        uint32_t n_tokens)
{
    uint32_t t = 0;
    for (; n_tokens - t >= DENSE_TOKENS; t += DENSE_TOKENS) {
        dense_tile(d, t, x + t * stride, stride, n, DENSE_TOKENS);
    }
    if (DENSE_TOKENS > 3 && n_tokens - t >= 3) {
        dense_tile(d, t, x + t * stride, stride, n, 3);
        t += 3;
    }
    if (n_tokens - t >= 2) {
        dense_tile(d, t, x + t * stride, stride, n, 2);
        t += 2;
    }
    if (n_tokens > t) dense_tile(d, t, x + t * stride, stride, n, 1);
}

INLINE void dense_linear(const dense_type type, const kernel_linear *a)
{
    codes_kind kind = type == DENSE_CODES ? codes_kind_of(a->w) : CODES_NONE;
    uint32_t cols = (uint32_t)a->w->n_cols;
    size_t size = type == DENSE_F32 ? 4 : 2;
    for (uint32_t group = 0; group < a->n_tokens; group += DENSE_GROUP) {
        uint32_t left = a->n_tokens - group;
        uint32_t n_tokens = left < DENSE_GROUP ? left : DENSE_GROUP;
        const float *x = a->x.f + (size_t)group * cols;
        for (uint32_t row = a->first; row < a->end; row += DENSE_ROWS) {
            uint32_t n_rows = a->end - row < DENSE_ROWS ? a->end - row : DENSE_ROWS;
            dense_tile_state d;
            /* The rows after these, if they are ours: those of another thread are its business. */
            const unsigned char *ahead = NULL;
            if (a->end - row >= 2 * DENSE_ROWS) {
                ahead = a->w->planes[0] + (uint64_t)(row + DENSE_ROWS) * a->w->row_bytes[0];
            }
            memset(d.sum, 0, n_tokens * sizeof d.sum[0]);
            for (uint32_t col = 0; col < cols; col += DENSE_CHUNK) {
                uint32_t n = cols - col < DENSE_CHUNK ? cols - col : DENSE_CHUNK;
                for (uint32_t r = 0; r < DENSE_ROWS; r++) {
                    uint32_t of = row + (r < n_rows ? r : n_rows - 1);
                    dense_decode(type, kind, a->w, of, col, n, d.w[r],
                                 ahead == NULL ? NULL : ahead + (col * n_rows + r * n) * size);
                }
                dense_tiles(&d, x + col, cols, n, n_tokens);
            }
            for (uint32_t t = 0; t < n_tokens; t++) {
                for (uint32_t r = 0; r < n_rows; r++) {
                    kernel_put(a, group + t, row + r, vf_sum(vf_load(d.sum[t][r])));
                }
            }
        }
    }
}

static void linear_f32(const kernel_linear *a)
{
    dense_linear(DENSE_F32, a);
}

static void linear_f16(const kernel_linear *a)
{
    dense_linear(DENSE_F16, a);
}

static void linear_bf16(const kernel_linear *a)
{
    dense_linear(DENSE_BF16, a);
}

static void linear_codes(const kernel_linear *a)
{
    dense_linear(DENSE_CODES, a);
}

static void linear_any(const kernel_linear *a)
{
    kernel_linear_decoded(a, linear_f32);
}

#endif
