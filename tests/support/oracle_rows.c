/* oracle_rows.c - stored rows, decoded one by one. */
#include "support/oracle_rows.h"

#include <math.h>
#include <stdlib.h>

#include "support/test.h"

/* One rounding to f32. */
static const double U = 0x1p-24;

static void *zeros(size_t count, size_t size)
{
    void *block = calloc(count == 0 ? 1 : count, size);
    if (block == NULL) fail_msg("out of memory");
    return block;
}

/* How far a packed row of small numbers may be: a scale in f16 is a multiple of 2^-24, and a code
 * times that. */
static double packed_step(const kv_codec *c, uint32_t dim)
{
    return ldexp(sqrt((double)dim), (int)c->bits - 25);
}

/* How far a packed row may be from what it stands for, relative to its length. */
static double packed_error(const kv_codec *c)
{
    return c->bits == 8   ? 0.03
           : c->bits == 5 ? 0.15
           : c->bits == 4 ? 0.3
           : c->bits == 3 ? 0.5
                          : 0.9;
}

void oracle_check_packed(const kv_codec *c, const double *x, const double *e, float *row,
                         uint32_t dim)
{
    double off = 0.0;
    double size = 0.0;
    double slack = 0.0;
    kv_codec_finish(c, row, dim);
    for (uint32_t d = 0; d < dim; d++) {
        off += ((double)row[d] - x[d]) * ((double)row[d] - x[d]);
        size += x[d] * x[d];
        slack += e[d] * e[d];
    }
    slack = sqrt(slack) + packed_step(c, dim) + 1e-5;
    if (sqrt(off) <= packed_error(c) * (sqrt(size) + slack) + slack) return;
    fail_msg("%s: a row of length %g is off by %g", c->name, sqrt(size), sqrt(off));
}

static const kv_codec *codec_of(const kv_view *view, bool key)
{
    return kv_codec_by_id(key ? view->geometry->k_codec : view->geometry->v_codec);
}

static uint32_t dim_of(const kv_view *view, bool key)
{
    return key ? view->geometry->k_coded : view->geometry->v_dim;
}

void oracle_read_rows(const kv_view *view, bool key, uint32_t n, double *x)
{
    const kv_geometry *g = view->geometry;
    const kv_codec *c = codec_of(view, key);
    uint32_t dim = dim_of(view, key);
    float *row = zeros(dim, sizeof *row);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t h = 0; h < g->n_heads; h++) {
            const unsigned char *record = key ? kv_key(view, h, i) : kv_value(view, h, i);
            c->decode_row(c, g->base, record, row, dim);
            for (uint32_t d = 0; d < dim; d++) *x++ = (double)row[d];
        }
    }
    free(row);
}

void oracle_read_packed(const kv_view *view, bool key, uint32_t n, const double *expected,
                        const double *e, double *x)
{
    uint32_t dim = dim_of(view, key);
    float *row = zeros(dim, sizeof *row);
    oracle_read_rows(view, key, n, x);
    for (size_t at = 0; at < (size_t)n * view->geometry->n_heads * dim; at += dim) {
        for (uint32_t d = 0; d < dim; d++) row[d] = (float)x[at + d];
        oracle_check_packed(codec_of(view, key), expected + at, e + at, row, dim);
    }
    free(row);
}

void oracle_turn_back(double *x, double *e, uint32_t n)
{
    double *y = zeros(n, sizeof *y);
    double *ye = zeros(n, sizeof *ye);
    uint32_t first = 0;
    for (uint32_t size = 1u << 31; size > 0; size /= 2) {
        if ((n & size) == 0) continue;
        double root = sqrt((double)size);
        for (uint32_t i = 0; i < size; i++) {
            double terms = 0.0;
            for (uint32_t j = 0; j < size; j++) {
                double factor = (__builtin_popcount(i & j) & 1) != 0 ? -1.0 / root : 1.0 / root;
                y[first + i] += factor * x[first + j];
                ye[first + i] += e[first + j] / root;
                terms += (fabs(x[first + j]) + e[first + j]) / root;
            }
            ye[first + i] += 2 * U * (log2((double)size) + 3) * terms;
        }
        first += size;
    }
    for (uint32_t i = 0; i < n; i++) {
        x[i] = kv_codec_sign(n, i) ? -y[i] : y[i];
        e[i] = ye[i];
    }
    free(y);
    free(ye);
}
