/* vec_attend_packed.h - the sum of attention over packed values as they lie.
 *
 * Written in the words of vec_avx2.h or vec_avx512.h, one of which is included first. Codes become
 * numbers in registers and go through the tiles of vec_attend.h: the bits are those of
 * decode_packed and values_f32. A code times a scale of 16 bits needs at most 19 bits, so code *
 * scale + bias by a fused multiply-add is what two operations give. */
#ifndef BACKEND_CPU_VEC_ATTEND_PACKED_H
#define BACKEND_CPU_VEC_ATTEND_PACKED_H

#include "backend/cpu/vec_attend.h"

/* Vectors that are of one group. */
enum { OF_32 = 32 / VL, OF_64 = 64 / VL, OF_128 = 128 / VL };

static attend_rows rows_of_codec(const kernel_packed *of, const void *at, uint32_t dim)
{
    attend_rows rows = {.at = at, .row_bytes = of->row_bytes, .base = of->base};
    rows.codes_bytes = (size_t)dim * of->codec->bits / 8;
    rows.others_at = (size_t)2 * (dim / of->codec->group);
    if (of->codec->kind == KV_TV) rows.book = v_book_of(of->codec->table, 4);
    return rows;
}

/* The codecs that kernel_takes_packed names. */
static void values_packed(const kernel_values *a)
{
    attend_rows rows = rows_of_codec(&a->packed, a->v, a->dim);
    const kv_codec *c = a->packed.codec;
    if (c->kind == KV_TV) {
        values_rows(FORM_BOOK4, OF_32, &rows, a);
    } else if (c->bits == 8 && c->group == 32) {
        values_rows(FORM_U8, OF_32, &rows, a);
    } else if (c->bits == 8 && c->group == 64) {
        values_rows(FORM_U8, OF_64, &rows, a);
    } else if (c->bits == 8) {
        values_rows(FORM_U8, OF_128, &rows, a);
    } else if (c->group == 32) {
        values_rows(FORM_U4, OF_32, &rows, a);
    } else if (c->group == 64) {
        values_rows(FORM_U4, OF_64, &rows, a);
    } else {
        values_rows(FORM_U4, OF_128, &rows, a);
    }
}

#endif
