/* kernel_attend.h - the loops of attention against generic: a part of test_kernels.c. */
#ifndef BACKEND_KERNEL_ATTEND_H
#define BACKEND_KERNEL_ATTEND_H

#include "backend/cpu/query.h"
#include "backend/kernel_checks.h"

static inline uint32_t kv_bytes(slot_id slot)
{
    return slot == SLOT_scores_f32 || slot == SLOT_values_f32 ? 4 : 2;
}

/* [n_keys, dim] of the slot's type, one element into its block. */
static inline void *kv_new(slot_id slot, size_t n)
{
    uint32_t bytes = kv_bytes(slot);
    unsigned char *block = case_alloc((n + 1) * bytes);
    bool half = slot == SLOT_scores_f16 || slot == SLOT_values_f16;
    for (size_t i = 0; i <= n; i++) {
        encoding_id type = bytes == 4 ? ENCODING_ID_F32 : half ? ENCODING_ID_F16 : ENCODING_ID_BF16;
        case_put(block + i * bytes, type, case_number());
    }
    return block;
}

static inline double kv_element(slot_id slot, const void *base, size_t i)
{
    uint16_t half;
    if (kv_bytes(slot) == 4) return (double)((const float *)base)[i];
    memcpy(&half, (const unsigned char *)base + 2 * i, sizeof half);
    bool f16 = slot == SLOT_scores_f16 || slot == SLOT_values_f16;
    return (double)(f16 ? fp_from_f16(half) : fp_from_bf16(half));
}

static inline void scores_one(slot_id slot, kernel_scores_fn *fn, kernel_scores_fn *reference,
                              double bound, uint32_t n_q, uint32_t n_keys, uint32_t dim)
{
    size_t s_stride = n_keys + 2u;
    size_t q_stride = dim + 3u;
    unsigned char *block = kv_new(slot, (size_t)n_keys * dim);
    case_floats q = case_floats_new((n_q - 1) * q_stride + dim, 1, 2.0F);
    case_floats s = case_floats_new(n_q * s_stride, 1, 0.0F);
    case_floats s0 = case_floats_new(n_q * s_stride, 0, 0.0F);
    case_floats cut = case_floats_new(n_q * s_stride, 1, 0.0F);
    kernel_scores a = {.q = q.at, .q_stride = q_stride, .n_q = n_q, .n_keys = n_keys};
    a.k = block + kv_bytes(slot);
    a.dim = dim;
    a.scale = 0.3F;
    a.s = s.at;
    a.s_stride = s_stride;
    fn(&a);
    a.s = s0.at;
    reference(&a);
    for (size_t i = 0; i < s.n; i++) {
        size_t j = i % s_stride;
        double terms = 0.0;
        for (uint32_t d = 0; j < n_keys && d < dim; d++) {
            terms += 0.3 * fabs((double)q.at[i / s_stride * q_stride + d] *
                                kv_element(slot, a.k, j * dim + d));
        }
        check_near(s.at[i], s0.at[i], terms, bound, "scores", i);
    }
    /* One query at a time, keys divided anywhere. */
    for (uint32_t i = 0; i < n_q; i++) {
        uint32_t end = 0;
        for (uint32_t j = 0; j < n_keys; j = end) {
            end = j + 1 + case_bits() % (n_keys - j);
            kernel_scores one = a;
            one.q = q.at + i * q_stride;
            one.n_q = 1;
            one.k = block + kv_bytes(slot) * (1 + (size_t)j * dim);
            one.n_keys = end - j;
            one.s = cut.at + i * s_stride + j;
            fn(&one);
        }
    }
    check_same(cut.at, s.at, s.n * sizeof(float), "scores divided");
    free(block);
    free(q.block);
    free(s.block);
    free(s0.block);
    free(cut.block);
}

/* Encoded rows, one byte into a block. */
typedef struct packed_rows {
    unsigned char *block;
    kernel_packed of;
    uint32_t n, dim;
    float *decoded; /* [n, dim] */
} packed_rows;

static inline packed_rows packed_rows_new(const kv_codec *c, uint8_t base, uint32_t n, uint32_t dim)
{
    packed_rows p = {.of = {c, kv_codec_row_bytes(c, base, dim), base}, .n = n, .dim = dim};
    p.block = case_alloc(n * p.of.row_bytes + 1);
    p.decoded = case_alloc((size_t)n * dim * sizeof(float));
    case_floats x = case_floats_new(dim, 1, 4.0F);
    for (uint32_t r = 0; r < n; r++) {
        unsigned char *at = p.block + 1 + r * p.of.row_bytes;
        float size = r % 4 == 0 ? 3.0F : r % 4 == 1 ? 1e-3F : 1.0F;
        for (uint32_t d = 0; d < dim; d++) x.at[d] = case_number() * size + (float)(r % 3);
        if (r % 7 == 6) memset(x.at, 0, dim * sizeof(float));
        c->encode_row(c, base, at, x.at, dim);
        c->decode_row(c, base, at, p.decoded + (size_t)r * dim, dim);
    }
    free(x.block);
    return p;
}

static inline void packed_rows_free(packed_rows *p)
{
    free(p->block);
    free(p->decoded);
}

/* What query.h says that a query may be off by, times what the key has at most: of one score. */
static inline double query_error(const packed_rows *rows, const float *q, uint32_t key)
{
    uint32_t group = rows->of.codec->group;
    const float *k = rows->decoded + (size_t)key * rows->dim;
    double off = 0.0;
    for (uint32_t d = 0; d < rows->dim; d += group) {
        double most = 0.0;
        for (uint32_t i = d; i < d + group; i++) most = fmax(most, fabs((double)q[i]));
        for (uint32_t i = d; i < d + group; i++) {
            off += (most * exp2(-15.9) + 0x1p-100) * fabs((double)k[i]);
        }
    }
    return off;
}

/* Sum of the absolute terms of a score: a code times its scale, and what is added to it. */
static inline double packed_terms(const packed_rows *rows, const float *q, uint32_t key)
{
    const kv_codec *c = rows->of.codec;
    const unsigned char *at = rows->block + 1 + key * rows->of.row_bytes;
    const unsigned char *params = at + (size_t)rows->dim * c->bits / 8;
    uint32_t n_groups = rows->dim / c->group;
    double terms = 0.0;
    for (uint32_t d = 0; d < rows->dim; d++) {
        const unsigned char *of = params + (size_t)2 * (d / c->group);
        uint8_t base = c->kind == KV_TK ? KV_BASE_F16 : rows->of.base;
        float two[2];
        for (size_t i = 0; i < 2; i++) {
            uint16_t half;
            memcpy(&half, of + 2 * i * n_groups, sizeof half);
            two[i] = base == KV_BASE_F16 ? fp_from_f16(half) : fp_from_bf16(half);
        }
        double code = c->bits == 4 ? at[d / 2] >> (d % 2 * 4) & 15 : at[d];
        if (c->kind == KV_TK) code = fabs((double)(int8_t)at[d]);
        double other = c->kind == KV_TK ? (double)two[1] * (double)two[0] : (double)two[1];
        terms += fabs((double)q[d]) * (fabs((double)two[0]) * code + fabs(other));
    }
    return terms;
}

/* The same bits as generic, however keys and queries are divided, and near the sums of decoded
 * rows. */
static inline void scores_packed_one(const packed_rows *rows, kernel_scores_fn *fn,
                                     kernel_scores_fn *reference, uint32_t n_q)
{
    uint32_t dim = rows->dim;
    size_t s_stride = rows->n + 2u;
    case_floats q = case_floats_new((size_t)n_q * dim, 1, 2.0F);
    case_floats own = case_floats_new((size_t)n_q * dim, 1, 0.0F);
    case_floats plain = case_floats_new((size_t)n_q * dim, 1, 0.0F);
    case_floats s = case_floats_new(n_q * s_stride, 1, 0.0F);
    case_floats s0 = case_floats_new(n_q * s_stride, 0, 0.0F);
    cpu_kernels generic;
    cpu_fill_generic(&generic);
    for (uint32_t i = 0; i < n_q; i++) {
        /* Of one query a group is nothing, of another one column is all. */
        if (i == 1) memset(q.at + (size_t)i * dim, 0, 32 * sizeof(float));
        if (i == 2) q.at[(size_t)i * dim + 7] = 1e4F;
        kernel_query to = {q.at + (size_t)i * dim, rows->of.codec, dim, own.at + (size_t)i * dim};
        now_kernels->prepare_query(&to);
        to.to = plain.at + (size_t)i * dim;
        generic.prepare_query(&to);
    }
    kernel_scores a = {.q = own.at, .q_stride = dim, .n_q = n_q, .k = rows->block + 1};
    a.n_keys = rows->n;
    a.dim = dim;
    a.scale = 0.3F;
    a.s = s.at;
    a.s_stride = s_stride;
    a.packed = rows->of;
    fn(&a);
    kernel_scores b = a;
    b.q = plain.at;
    b.s = s0.at;
    reference(&b);
    check_same(s.at, s0.at, s.n * sizeof(float), rows->of.codec->name);
    for (size_t i = 0; i < s.n; i++) {
        uint32_t j = (uint32_t)(i % s_stride);
        if (j >= rows->n) continue;
        const float *x = q.at + i / s_stride * dim;
        double exact = 0.0;
        for (uint32_t d = 0; d < dim; d++) {
            exact += (double)x[d] * (double)rows->decoded[(size_t)j * dim + d];
        }
        double bound = query_error(rows, x, j) + 70 * 0x1p-24 * packed_terms(rows, x, j);
        assert_true(fabs((double)s.at[i] - 0.3 * exact) <= 0.3 * bound + 1e-30);
    }
    for (uint32_t i = 0; i < n_q; i++) {
        uint32_t end = 0;
        for (uint32_t j = 0; j < rows->n; j = end) {
            end = j + 1 + case_bits() % (rows->n - j);
            b = a;
            b.q = own.at + (size_t)i * dim;
            b.n_q = 1;
            b.k = rows->block + 1 + j * rows->of.row_bytes;
            b.n_keys = end - j;
            b.s = s0.at + i * s_stride + j;
            fn(&b);
        }
    }
    check_same(s.at, s0.at, s.n * sizeof(float), "packed scores divided");
    free(q.block);
    free(own.block);
    free(plain.block);
    free(s.block);
    free(s0.block);
}

/* Whole numbers, steps and sums are generic's, and each number is as near as query.h says; what is
 * not finite is seen, wherever it stands. */
static inline void query_one(const kv_codec *c, uint32_t dim, kernel_query_fn *fn,
                             kernel_query_fn *reference)
{
    case_floats x = case_floats_new(dim, 1, 3.0F);
    case_floats own = case_floats_new(dim, 1, 0.0F);
    case_floats plain = case_floats_new(dim, 1, 0.0F);
    uint32_t wrong = case_bits() % (4 * dim);
    if (wrong < dim) x.at[wrong] = wrong % 2 == 0 ? NAN : -INFINITY;
    for (uint32_t d = 0; d < c->group && wrong % 3 == 0; d++) x.at[d] *= 0x1p-110F;
    fn(&(kernel_query){x.at, c, dim, own.at});
    reference(&(kernel_query){x.at, c, dim, plain.at});
    const kernel_query_group *groups = kernel_query_groups(own.at, dim);
    check_same(groups, kernel_query_groups(plain.at, dim), dim / c->group * sizeof *groups,
               "groups of a query");
    for (uint32_t g = 0; g < dim / c->group; g++) {
        double most = 0.0;
        int64_t total = 0;
        bool finite = true;
        for (uint32_t d = g * c->group; d < (g + 1) * c->group; d++) {
            most = fmax(most, fabs((double)x.at[d]));
            finite = finite && isfinite(x.at[d]);
        }
        assert_true(finite == !isnan(groups[g].step));
        for (uint32_t d = g * c->group; d < (g + 1) * c->group; d++) {
            int32_t q = kernel_query_code(own.at, d, dim, c->bits, now_kernels->query_bytes);
            assert_true(q == kernel_query_code(plain.at, d, dim, c->bits, false));
            total += q;
            double off = (double)groups[g].step * q - (double)x.at[d];
            assert_true(!finite || fabs(off) <= most * exp2(-15.9) + 0x1p-100);
        }
        assert_true(total == groups[g].total);
        n_compared++;
    }
    free(x.block);
    free(own.block);
    free(plain.block);
}

static inline void check_kernel_query_fn(slot_id slot, kernel_query_fn *fn,
                                         kernel_query_fn *reference, double bound)
{
    (void)slot;
    assert_true(bound == 0.0);
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    for (size_t i = 0; i < n; i++) {
        for (uint32_t dim = 32; dim <= 1024; dim += 32) {
            bool keys = table[i].kind != KV_DENSE && (table[i].sides & KV_FOR_K) != 0;
            if (!keys || !kernel_takes_packed(&table[i], KV_BASE_BF16, dim)) continue;
            query_one(&table[i], dim, fn, reference);
        }
    }
}

/* Likewise; the bits of values are generic's. */
static inline void values_packed_one(const packed_rows *rows, kernel_values_fn *fn,
                                     kernel_values_fn *reference, uint32_t n_q)
{
    uint32_t dim = rows->dim;
    size_t p_stride = rows->n + 2u;
    size_t o_stride = dim + 3u;
    case_floats p = case_floats_new(n_q * p_stride, 1, 1.0F);
    case_floats o = case_floats_new(n_q * o_stride, 1, 1.0F);
    case_floats o0 = case_floats_new(o.n, 0, 0.0F);
    case_floats cut = case_floats_new(o.n, 1, 0.0F);
    memcpy(o0.at, o.at, o.n * sizeof(float));
    memcpy(cut.at, o.at, o.n * sizeof(float));
    kernel_values a = {.p = p.at, .p_stride = p_stride, .n_q = n_q, .v = rows->block + 1};
    a.n_keys = rows->n;
    a.dim = dim;
    a.o = o.at;
    a.o_stride = o_stride;
    a.packed = rows->of;
    fn(&a);
    kernel_values b = a;
    b.o = o0.at;
    reference(&b);
    check_same(o.at, o0.at, o.n * sizeof(float), rows->of.codec->name);
    for (uint32_t i = 0; i < n_q; i++) {
        uint32_t end = 0;
        for (uint32_t j = 0; j < rows->n; j = end) {
            end = j + 1 + case_bits() % (rows->n - j);
            b = a;
            b.p = p.at + i * p_stride + j;
            b.n_q = 1;
            b.v = rows->block + 1 + j * rows->of.row_bytes;
            b.n_keys = end - j;
            b.o = cut.at + i * o_stride;
            fn(&b);
        }
    }
    check_same(cut.at, o.at, o.n * sizeof(float), "packed values divided");
    free(p.block);
    free(o.block);
    free(o0.block);
    free(cut.block);
}

/* Every codec, base and size that kernel_takes_packed names. */
static inline void check_packed(kernel_scores_fn *scores, kernel_scores_fn *scores0,
                                kernel_values_fn *values, kernel_values_fn *values0)
{
    size_t n;
    size_t n_taken = 0;
    const kv_codec *table = kv_codec_table(&n);
    for (size_t i = 0; i < n; i++) {
        const kv_codec *c = &table[i];
        uint8_t side = scores != NULL ? KV_FOR_K : KV_FOR_V;
        if (c->kind == KV_DENSE || (c->sides & side) == 0) continue;
        for (uint32_t dim = 32; dim <= 1024; dim += dim < 320 ? 32 : 352) {
            uint8_t base = (uint8_t)(KV_BASE_F32 + case_bits() % 3);
            if (!kernel_takes_packed(c, base, dim)) continue;
            packed_rows rows = packed_rows_new(c, base, 1 + case_bits() % 69, dim);
            uint32_t n_q = 1 + case_bits() % (KERNEL_PACKED_QUERIES + 3);
            if (scores != NULL) scores_packed_one(&rows, scores, scores0, n_q);
            if (values != NULL) values_packed_one(&rows, values, values0, n_q);
            packed_rows_free(&rows);
            n_taken++;
        }
        for (uint32_t n_q = 1; n_q <= KERNEL_PACKED_QUERIES; n_q++) {
            if (!kernel_takes_packed(c, KV_BASE_BF16, 128)) continue;
            packed_rows rows = packed_rows_new(c, KV_BASE_BF16, 64 + n_q, 128);
            if (scores != NULL) scores_packed_one(&rows, scores, scores0, n_q);
            if (values != NULL) values_packed_one(&rows, values, values0, n_q);
            packed_rows_free(&rows);
        }
    }
    assert_true(n_taken > 20);
}

static inline void check_kernel_scores_fn(slot_id slot, kernel_scores_fn *fn,
                                          kernel_scores_fn *reference, double bound)
{
    if (slot == SLOT_scores_packed) {
        check_packed(fn, reference, NULL, NULL);
        return;
    }
    for (uint32_t dim = 1; dim <= 69; dim++) {
        scores_one(slot, fn, reference, bound, 1 + dim % 5, 1 + dim % 19, dim);
    }
    for (uint32_t n_keys = 1; n_keys <= 69; n_keys++) {
        scores_one(slot, fn, reference, bound, 1 + n_keys % 19, n_keys, n_keys % 2 == 0 ? 64 : 80);
    }
    scores_one(slot, fn, reference, bound, 3, 33, 128);
    scores_one(slot, fn, reference, bound, 4, 256, 256);
    scores_one(slot, fn, reference, bound, 2, 5, 576);
}

static inline void values_one(slot_id slot, kernel_values_fn *fn, kernel_values_fn *reference,
                              uint32_t n_q, uint32_t n_keys, uint32_t dim)
{
    size_t p_stride = n_keys + 2u;
    size_t o_stride = dim + 3u;
    size_t v_stride = dim + n_keys % 3u * 7u; /* behind one another, or the start of longer rows */
    unsigned char *block = kv_new(slot, n_keys * v_stride);
    case_floats p = case_floats_new(n_q * p_stride, 1, 1.0F);
    case_floats o = case_floats_new((n_q - 1) * o_stride + dim, 1, 1.0F);
    case_floats o0 = case_floats_new(o.n, 0, 0.0F);
    case_floats cut = case_floats_new(o.n, 1, 0.0F);
    memcpy(o0.at, o.at, o.n * sizeof(float));
    memcpy(cut.at, o.at, o.n * sizeof(float));
    kernel_values a = {.p = p.at, .p_stride = p_stride, .n_q = n_q, .n_keys = n_keys};
    a.v = block + kv_bytes(slot);
    a.dim = dim;
    a.o = o.at;
    a.o_stride = o_stride;
    a.v_stride = v_stride;
    fn(&a);
    a.o = o0.at;
    reference(&a);
    /* The map allows more, but the order is that of generic. */
    check_same(o.at, o0.at, o.n * sizeof(float), "values");
    for (uint32_t i = 0; i < n_q; i++) {
        uint32_t end = 0;
        for (uint32_t j = 0; j < n_keys; j = end) {
            end = j + 1 + case_bits() % (n_keys - j);
            kernel_values one = a;
            one.p = p.at + i * p_stride + j;
            one.n_q = 1;
            one.v = block + kv_bytes(slot) * (1 + j * v_stride);
            one.n_keys = end - j;
            one.o = cut.at + i * o_stride;
            fn(&one);
        }
    }
    check_same(cut.at, o.at, o.n * sizeof(float), "values divided");
    free(block);
    free(p.block);
    free(o.block);
    free(o0.block);
    free(cut.block);
}

static inline void check_kernel_values_fn(slot_id slot, kernel_values_fn *fn,
                                          kernel_values_fn *reference, double bound)
{
    (void)bound;
    if (slot == SLOT_values_packed) {
        check_packed(NULL, NULL, fn, reference);
        return;
    }
    for (uint32_t dim = 1; dim <= 69; dim++) {
        values_one(slot, fn, reference, 1 + dim % 6, 1 + dim % 19, dim);
    }
    for (uint32_t n_keys = 0; n_keys <= 69; n_keys++) {
        values_one(slot, fn, reference, 1 + n_keys % 19, n_keys, n_keys % 2 == 0 ? 64 : 80);
    }
    values_one(slot, fn, reference, 4, 256, 256);
    values_one(slot, fn, reference, 3, 5, 576);
}

/* Random records, to be decoded at once and then in pieces: the bits of the codec's own decoding.
 * */
static inline void decode_one(const kv_codec *c, kernel_decode_fn *fn, kernel_decode_fn *reference,
                              uint32_t dim, uint32_t n_rows)
{
    uint8_t base = (uint8_t)(KV_BASE_F32 + case_bits() % 3);
    size_t row_bytes = kv_codec_row_bytes(c, base, dim);
    size_t stride = dim + n_rows % 3u * 5u;
    size_t n = n_rows * stride;
    unsigned char *block = case_alloc(n_rows * row_bytes + 1);
    unsigned char *rows = block + 1;
    for (size_t i = 0; i < n_rows * row_bytes; i++) rows[i] = (unsigned char)case_bits();
    /* Half of them as an encoder makes them; parameters of the rest may be no numbers. */
    case_floats x = case_floats_new(dim, 1, 4.0F);
    for (uint32_t r = 0; r < n_rows; r += 2) {
        for (uint32_t d = 0; d < dim; d++) x.at[d] = case_number() * (r % 4 == 0 ? 3.0F : 1e-3F);
        c->encode_row(c, base, rows + r * row_bytes, x.at, dim);
    }
    case_floats y = case_floats_new(n, 1, 0.0F);
    case_floats y0 = case_floats_new(n, 0, 0.0F);
    memcpy(y0.at, y.at, n * sizeof(float));
    kernel_decode a = {c, base, rows, row_bytes, n_rows, dim, y.at, stride};
    fn(&a);
    a.to = y0.at;
    reference(&a);
    for (size_t i = 0; i < n; i++) {
        if (isnan(y0.at[i]) && isnan(y.at[i])) y.at[i] = y0.at[i] = 0.0F;
    }
    check_same(y.at, y0.at, n * sizeof(float), c->name);
    for (uint32_t r = 0; r < n_rows; r++) {
        float *one = case_alloc(dim * sizeof *one);
        a = (kernel_decode){c, base, rows + r * row_bytes, row_bytes, 1, dim, one, dim};
        fn(&a);
        for (uint32_t d = 0; d < dim; d++) {
            if (isnan(one[d])) one[d] = 0.0F;
        }
        check_same(one, y.at + r * stride, dim * sizeof *one, "one row");
        free(one);
    }
    free(block);
    free(x.block);
    free(y.block);
    free(y0.block);
}

static inline void check_kernel_decode_fn(slot_id slot, kernel_decode_fn *fn,
                                          kernel_decode_fn *reference, double bound)
{
    (void)slot;
    assert_true(bound == 0.0);
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    for (size_t i = 0; i < n; i++) {
        const kv_codec *c = &table[i];
        if (c->kind == KV_DENSE) continue;
        for (uint32_t dim = c->unit; dim <= 320; dim += c->unit) {
            decode_one(c, fn, reference, dim, 1 + dim % 5);
        }
        decode_one(c, fn, reference, 128, KERNEL_ROWS);
        decode_one(c, fn, reference, 1024, 3);
    }
}

static inline void check_kernel_exp_sum_fn(slot_id slot, kernel_exp_sum_fn *fn,
                                           kernel_exp_sum_fn *reference, double bound)
{
    (void)slot;
    for (uint32_t n = 1; n <= 69 + 20; n++) {
        uint32_t length = n <= 69 ? n : KERNEL_SPLIT + 1 - (n - 69);
        case_floats s = case_floats_new(KERNEL_SPLIT, 1, n % 3 == 0 ? 60.0F : 4.0F);
        case_floats s0 = case_floats_new(KERNEL_SPLIT, 0, 0.0F);
        case_floats masked = case_floats_new(KERNEL_SPLIT, 1, 0.0F);
        for (uint32_t i = 1; i < length; i++) {
            if (case_bits() % 9 == 0) s.at[i] = -INFINITY;
        }
        float max = s.at[0];
        for (uint32_t i = 1; i < length; i++) max = s.at[i] > max ? s.at[i] : max;
        memcpy(s0.at, s.at, KERNEL_SPLIT * sizeof(float));
        memcpy(masked.at, s.at, KERNEL_SPLIT * sizeof(float));
        for (uint32_t i = length; i < KERNEL_SPLIT; i++) masked.at[i] = -INFINITY;
        float after = length < KERNEL_SPLIT ? s.at[length] : 0.0F;
        float sum = fn(s.at, length, max);
        float sum0 = reference(s0.at, length, max);
        check_near(sum, sum0, (double)sum0, bound, "sum", length);
        for (uint32_t i = 0; i < length; i++) {
            check_near(s.at[i], s0.at[i], (double)s0.at[i], bound, "exp", i);
            if (s0.at[i] == 0.0F) assert_true(s.at[i] < 0x1p-120F);
        }
        if (length < KERNEL_SPLIT) assert_true(s.at[length] == after);
        for (uint32_t more = length; more <= KERNEL_SPLIT; more += 1 + more / 8) {
            float *again = case_alloc(more * sizeof(float));
            memcpy(again, masked.at, more * sizeof(float));
            float sum_again = fn(again, more, max);
            check_same(&sum_again, &sum, sizeof sum, "sum with more masked");
            check_same(again, s.at, length * sizeof(float), "exp with more masked");
            for (uint32_t i = length; i < more; i++) assert_true(again[i] == 0.0F);
            free(again);
        }
        free(s.block);
        free(s0.block);
        free(masked.block);
    }
}

static inline void check_kernel_max_fn(slot_id slot, kernel_max_fn *fn, kernel_max_fn *reference,
                                       double bound)
{
    (void)slot;
    for (uint32_t n = 1; n <= 69; n++) {
        for (uint32_t at = 0; at < n; at++) {
            case_floats s = case_floats_new(n, n % 3, 5.0F);
            s.at[at] = n % 4 == 0 ? INFINITY : 6.0F;
            if (n % 4 == 1) s.at[(at + 1) % n] = -INFINITY;
            check_near(fn(s.at, n), reference(s.at, n), 0.0, bound, "max", n);
            for (uint32_t i = 0; i < n; i++) s.at[i] = -1.0F - s.at[i] * s.at[i];
            check_near(fn(s.at, n), reference(s.at, n), 0.0, bound, "negative max", n);
            free(s.block);
        }
    }
}

static inline void check_kernel_read_fn(slot_id slot, kernel_read_fn *fn, kernel_read_fn *reference,
                                        double bound)
{
    (void)slot;
    (void)bound;
    for (uint32_t loop = 0; loop < KERNEL_READS; loop++) {
        for (size_t n_bytes = 4096; n_bytes <= 20480; n_bytes += 4096) {
            unsigned char *block = case_alloc(n_bytes + 64);
            unsigned char *at = block + (64 - (uintptr_t)block % 64) % 64;
            for (size_t i = 0; i < n_bytes; i++) at[i] = (unsigned char)case_bits();
            assert_true(fn(at, n_bytes, loop) == reference(at, n_bytes, loop));
            for (size_t i = 0; i < n_bytes; i += 509) {
                uint64_t before = fn(at, n_bytes, loop);
                at[i] ^= 0x10;
                assert_true(fn(at, n_bytes, loop) != before);
            }
            n_compared++;
            free(block);
        }
    }
}

#endif
