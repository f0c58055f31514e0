/* avx512bf16.c - what AVX-512 with BF16 adds to avx512.c: bf16 weights against bf16 inputs by dot
 * products of pairs. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/vec_avx512.h"

/* Columns of a vector of bf16. The input of a group stays in the second-level cache. */
enum { HALVES = 2 * VL, HALF_ROWS = 4, HALF_GROUP = 48 };

typedef struct half_rows {
    const kernel_linear *a;
    const unsigned char *w[HALF_ROWS];
    uint32_t first, n;
    size_t cols;
} half_rows;

INLINE __m512bh half_load(const void *at)
{
    return (__m512bh)_mm512_loadu_si512(at);
}

INLINE __m512bh half_load_part(const void *at, uint32_t n)
{
    return (__m512bh)_mm512_maskz_loadu_epi16((__mmask32)((1u << n) - 1u), at);
}

/* Lane l adds the products of columns 2 l and 2 l + 1 of each vector, ascending; the lanes are
 * added in the order of vf_tree. ahead: what lies as far behind the rows at work as those are long,
 * or NULL. */
INLINE void half_tile(const half_rows *rows, uint32_t token, const uint32_t n_tokens,
                      const unsigned char *ahead)
{
    const kernel_linear *a = rows->a;
    const uint16_t *x = a->x.h + token * rows->cols;
    vf sum[DENSE_TOKENS][HALF_ROWS];
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        UNROLL
        for (int r = 0; r < HALF_ROWS; r++) sum[t][r] = vf_zero();
    }
    size_t k = 0;
    for (; rows->cols - k >= HALVES; k += HALVES) {
        __m512bh in[DENSE_TOKENS];
        UNROLL
        for (uint32_t t = 0; t < n_tokens; t++) in[t] = half_load(x + t * rows->cols + k);
        UNROLL
        for (int r = 0; r < HALF_ROWS; r++) {
            if (ahead != NULL) v_prefetch(ahead + (size_t)HALF_ROWS * 2 * k + 64 * (size_t)r);
            __m512bh w = half_load(rows->w[r] + 2 * k);
            UNROLL
            for (uint32_t t = 0; t < n_tokens; t++) {
                sum[t][r] = _mm512_dpbf16_ps(sum[t][r], w, in[t]);
            }
        }
    }
    if (k < rows->cols) {
        uint32_t n = (uint32_t)(rows->cols - k);
        UNROLL
        for (uint32_t t = 0; t < n_tokens; t++) {
            __m512bh in = half_load_part(x + t * rows->cols + k, n);
            UNROLL
            for (int r = 0; r < HALF_ROWS; r++) {
                __m512bh w = half_load_part(rows->w[r] + 2 * k, n);
                sum[t][r] = _mm512_dpbf16_ps(sum[t][r], w, in);
            }
        }
    }
    UNROLL
    for (uint32_t t = 0; t < n_tokens; t++) {
        UNROLL
        for (uint32_t r = 0; r < HALF_ROWS; r++) {
            if (r < rows->n) kernel_put(a, token + t, rows->first + r, vf_sum(sum[t][r]));
        }
    }
}

static void half_tiles(const half_rows *rows, uint32_t token, uint32_t n,
                       const unsigned char *ahead)
{
    uint32_t end = token + n;
    /* Only the first tile of a group meets rows that are not yet in a cache. */
    for (; end - token >= DENSE_TOKENS; token += DENSE_TOKENS) {
        half_tile(rows, token, DENSE_TOKENS, ahead);
        ahead = NULL;
    }
    if (end - token >= 3) {
        half_tile(rows, token, 3, ahead);
        ahead = NULL;
        token += 3;
    }
    if (end - token >= 2) {
        half_tile(rows, token, 2, ahead);
        ahead = NULL;
        token += 2;
    }
    if (end > token) half_tile(rows, token, 1, ahead);
}

static void linear_bf16_h(const kernel_linear *a)
{
    half_rows rows = {.a = a, .cols = (size_t)a->w->n_cols};
    for (uint32_t group = 0; group < a->n_tokens; group += HALF_GROUP) {
        uint32_t left = a->n_tokens - group;
        uint32_t n = left < HALF_GROUP ? left : HALF_GROUP;
        for (uint32_t row = a->first; row < a->end; row += HALF_ROWS) {
            const unsigned char *base = a->w->planes[0] + (uint64_t)row * a->w->row_bytes[0];
            rows.first = row;
            rows.n = a->end - row < HALF_ROWS ? a->end - row : HALF_ROWS;
            for (uint32_t r = 0; r < HALF_ROWS; r++) {
                uint32_t of = r < rows.n ? r : rows.n - 1;
                rows.w[r] = base + (uint64_t)of * a->w->row_bytes[0];
            }
            bool more = a->end - row >= 2 * HALF_ROWS;
            half_tiles(&rows, group, n, more ? base + HALF_ROWS * a->w->row_bytes[0] : NULL);
        }
    }
}

void cpu_fill_avx512bf16(cpu_kernels *k)
{
    k->linear_bf16_h = linear_bf16_h;
}
