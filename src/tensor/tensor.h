/* tensor.h - a weight as it lies in its file: name, shape, encoding, planes. Nothing is copied. */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include <stddef.h>
#include <stdint.h>

enum { TENSOR_DIMS = 4, TENSOR_PLANES = 3 };

typedef struct encoding encoding;

/* A matrix view: leading dimensions are stacked, so a tensor [E, out, in] has E * out rows of in
 * columns; a vector is one row. Planes are row-major and borrowed from the mapped file, at any
 * alignment. */
typedef struct tensor {
    const char *name;           /* borrowed, as in the file */
    const encoding *encoding;   /* how an element is stored; NULL: listed, but not decodable here */
    const char *raw_type;       /* its name in the file ("U32", "iq2_xxs"); static, or NULL */
    uint16_t raw_cols;          /* columns of a block of that type, 1 for plain numbers */
    uint16_t raw_bytes;         /* bytes of such a block */
    uint32_t n_dims;            /* 1..4: further leading dims of a file are folded into the first */
    uint64_t dims[TENSOR_DIMS]; /* outermost first, in elements; the rest is 1 */
    uint64_t n_rows, n_cols;    /* product of the leading dims; the last dim */
    uint16_t bits, group;       /* codes with a plane of scales: width, columns that share a scale;
                                   0 columns: a whole row does */
    uint8_t param_type;         /* encoding_id of scales and biases stored as f32, f16 or bf16 */
    uint32_t scale_rows;        /* f8_e4m3: rows that share a scale; 0: all do */
    float factor;               /* of the whole tensor, beside its scales; 0: there is none */
    const unsigned char *planes[TENSOR_PLANES]; /* codes, scales, biases; most encodings: one */
    uint64_t plane_bytes[TENSOR_PLANES];        /* that belong to the tensor */
    uint64_t row_bytes[TENSOR_PLANES]; /* from one row to the next; 0: the plane is not by rows */
    uint64_t col_bytes; /* of plain numbers that do not lie side by side: from one to the next */
    uint64_t first_row, full_rows; /* planes not by rows belong to a tensor of full_rows rows, of
                                      which first_row is the first of these */
} tensor;

/* Of all planes. */
static inline uint64_t tensor_bytes(const tensor *t)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < TENSOR_PLANES; i++) bytes += t->plane_bytes[i];
    return bytes;
}

#endif
