/* quantize.h - rows of f32 as MLX stores them: plain numbers, affine codes, or floating codes with
 * a plane of scales. The bytes are those of MLX's quantize on its CPU device. */
#ifndef CONVERT_QUANTIZE_H
#define CONVERT_QUANTIZE_H

#include "tensor/encoding.h"

/* How a row is stored. */
typedef struct row_form {
    /* F32, F16, BF16; AFFINE; MXFP4_PLANES, MXFP8_PLANES, NVFP4_PLANES. */
    const encoding *encoding;
    uint32_t bits, group; /* of codes; 0 for plain numbers */
    uint8_t type;         /* encoding_id of f32, f16 or bf16: what values are rounded to before, and
                             affine parameters are stored in */
} row_form;

/* Whether the codes of a form are those of MLX's affine, or of one of its floating modes. */
static inline bool row_form_has_codes(const row_form *f)
{
    return f->bits != 0;
}

/* Bytes of each plane of a row; n_cols is a multiple of the group. */
void row_form_bytes(const row_form *f, uint64_t n_cols, uint64_t bytes[TENSOR_PLANES]);

/* The largest number of a row that codes can stand for: differences of two are finite. */
#define ROW_NUMBER_MOST 0x1p125F

/* Writes a row of x [n_cols] to planes of row_form_bytes. False, with the column, where a number of
 * a row of codes is not finite or beyond ROW_NUMBER_MOST; plain numbers are taken as they are. */
bool row_encode(const row_form *f, const float *x, uint64_t n_cols,
                unsigned char *const planes[TENSOR_PLANES], uint64_t *bad_col);

#endif
