/* vec_kv.h - packed keys and values to f32.
 *
 * Written in the words of vec_avx2.h or vec_avx512.h, one of which is included first. Each number
 * is made by the operations of the codec's decode_row, each rounded, so it has the same bits; the
 * formats stand in kv/codecs. A row is decoded 32 codes at a time, as groups are multiples of 32;
 * the last piece of a row may be shorter, and goes through a copy. */
#ifndef BACKEND_CPU_VEC_KV_H
#define BACKEND_CPU_VEC_KV_H

#include "backend/cpu/vec_codes.h"
#include "kv/codecs/codec.h"

/* Parameters of a group: scale, and bias or zero point. */
typedef struct kv_params {
    vf scale, other;
} kv_params;

INLINE float kv_param(const unsigned char *at, uint32_t i, uint8_t base)
{
    if (base == KV_BASE_F16) return load_half(at + 2 * (size_t)i);
    if (base == KV_BASE_BF16) return fp_from_bf16(load_u16(at + 2 * (size_t)i));
    return fp_from_bits(load_u32(at + 4 * (size_t)i));
}

/* Of group i; at: behind the codes of the row. */
INLINE kv_params kv_params_of(const kv_kind kind, const unsigned char *at, uint32_t i,
                              uint32_t n_groups, uint8_t base)
{
    kv_params p = {vf_set1(kv_param(at, i, base)), vf_zero()};
    if (kind == KV_AFFINE || kind == KV_TK) p.other = vf_set1(kv_param(at, n_groups + i, base));
    return p;
}

/* Centroids: in registers where they fit. */
typedef struct kv_book {
    const float *table;
    v_book held;
} kv_book;

/* 32 codes. */
INLINE void kv_block(const kv_kind kind, const int bits, const unsigned char *at, kv_params p,
                     kv_book book, vf out[VW / VL])
{
    vw codes;
    if (kind == KV_TV && bits == 8) {
        /* A table that registers do not hold: the compiler knows whether to gather. */
        float all[VW];
        for (int i = 0; i < VW; i++) all[i] = book.table[at[i]];
        UNROLL
        for (int i = 0; i < VW / VL; i++) out[i] = vf_mul(vf_load(all + (size_t)i * VL), p.scale);
        return;
    }
    if (bits < 8) {
        codes = vw_bits(at, bits);
    } else {
        codes = kind == KV_TK || kind == KV_Q8 ? vw_s8(at) : vw_u8(at);
    }
    if (kind == KV_TV) {
        vi index[VW / VL];
        vw_to_ints(codes, index);
        UNROLL
        for (int i = 0; i < VW / VL; i++) out[i] = v_book_look(book.held, bits, index[i]);
    } else {
        vw_to_float(codes, out);
    }
    UNROLL
    for (int i = 0; i < VW / VL; i++) {
        if (kind == KV_TK) out[i] = vf_add(out[i], p.other);
        out[i] = vf_mul(out[i], p.scale);
        if (kind == KV_AFFINE) out[i] = vf_add(out[i], p.other);
    }
}

/* The left codes of a row's last piece, through a copy. */
INLINE void kv_last(const kv_kind kind, const int bits, const unsigned char *at, uint32_t left,
                    kv_params p, kv_book book, float *to)
{
    unsigned char codes[VW] = {0};
    float all[VW];
    vf out[VW / VL];
    memcpy(codes, at, (size_t)left * (uint32_t)bits / 8);
    kv_block(kind, bits, codes, p, book, out);
    UNROLL
    for (int k = 0; k < VW / VL; k++) vf_store(all + (size_t)k * VL, out[k]);
    memcpy(to, all, left * sizeof *to);
}

/* group: 32 but for affine codecs. */
INLINE void kv_rows(const kv_kind kind, const int bits, const uint32_t group,
                    const kernel_decode *a)
{
    const uint32_t n_groups = (a->dim + group - 1) / group;
    const uint8_t base = kind == KV_AFFINE ? a->base : KV_BASE_F16;
    const size_t step = kind == KV_Q8 ? 34 : 4 * (size_t)bits;
    const float *table = a->codec->table;
    const kv_book book = {table, v_book_of(table, kind == KV_TV ? bits : 8)};
    for (uint32_t r = 0; r < a->n_rows; r++) {
        const unsigned char *at = a->rows + r * a->row_bytes;
        const unsigned char *params = at + (size_t)a->dim * (uint32_t)bits / 8;
        float *to = a->to + r * a->stride;
        kv_params p = {vf_zero(), vf_zero()};
        uint32_t i = 0;
        for (; a->dim - i >= VW; i += VW, at += step) {
            vf out[VW / VL];
            if (kind == KV_Q8) p.scale = vf_set1(load_half(at));
            if (kind != KV_Q8 && i % group == 0) {
                p = kv_params_of(kind, params, i / group, n_groups, base);
            }
            kv_block(kind, bits, kind == KV_Q8 ? at + 2 : at, p, book, out);
            UNROLL
            for (int k = 0; k < VW / VL; k++) vf_store(to + i + (size_t)k * VL, out[k]);
        }
        if (i == a->dim) continue;
        if (i % group == 0) p = kv_params_of(kind, params, i / group, n_groups, base);
        kv_last(kind, bits, at, a->dim - i, p, book, to + i);
    }
}

INLINE void decode_affine_bits(const int bits, const kernel_decode *a)
{
    switch (a->codec->group) {
    case 32:
        kv_rows(KV_AFFINE, bits, 32, a);
        break;
    case 64:
        kv_rows(KV_AFFINE, bits, 64, a);
        break;
    default:
        kv_rows(KV_AFFINE, bits, 128, a);
        break;
    }
}

static void decode_affine(const kernel_decode *a)
{
    if (a->codec->bits == 8) {
        decode_affine_bits(8, a);
    } else {
        decode_affine_bits(4, a);
    }
}

static void decode_tk(const kernel_decode *a)
{
    switch (a->codec->bits) {
    case 2:
        kv_rows(KV_TK, 2, 32, a);
        break;
    case 4:
        kv_rows(KV_TK, 4, 32, a);
        break;
    case 5:
        kv_rows(KV_TK, 5, 32, a);
        break;
    default:
        kv_rows(KV_TK, 8, 32, a);
        break;
    }
}

static void decode_tv(const kernel_decode *a)
{
    switch (a->codec->bits) {
    case 2:
        kv_rows(KV_TV, 2, 32, a);
        break;
    case 3:
        kv_rows(KV_TV, 3, 32, a);
        break;
    case 4:
        kv_rows(KV_TV, 4, 32, a);
        break;
    case 5:
        kv_rows(KV_TV, 5, 32, a);
        break;
    default:
        kv_rows(KV_TV, 8, 32, a);
        break;
    }
}

static void decode_packed(const kernel_decode *a)
{
    switch (a->codec->kind) {
    case KV_AFFINE:
        decode_affine(a);
        break;
    case KV_Q8:
        kv_rows(KV_Q8, 8, 32, a);
        break;
    case KV_TK:
        decode_tk(a);
        break;
    default:
        decode_tv(a);
        break;
    }
}

#endif
