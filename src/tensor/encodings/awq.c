/* awq.c - AWQ's "gemm" layout as Hugging Face checkpoints store it: group columns share a scale and
 * a zero; the value is (code - zero) * scale, which is rounded once.
 * Planes are transposed: codes, [columns, rows]; scales, [groups, rows]; zeros, [groups, rows]. A
 * word of codes or zeros holds eight rows of four bits, in the order 0, 2, 4, 6, 1, 3, 5, 7 from
 * the lowest on. */
#include "tensor/encodings/load.h"

enum { PER_WORD = 8 };

/* Where a row of eight stands. */
static const uint32_t SHIFTS[PER_WORD] = {0, 16, 4, 20, 8, 24, 12, 28};

static int32_t load_code(const unsigned char *words, uint64_t line, const tensor *t, uint64_t at)
{
    uint32_t word = load_u32(words + (line * (t->full_rows / PER_WORD) + at / PER_WORD) * 4);
    return (int32_t)(word >> SHIFTS[at % PER_WORD] & 15u);
}

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    uint64_t at = t->first_row + row;
    for (uint64_t g = 0; g < t->n_cols / t->group; g++) {
        float scale = load_number(t->planes[1], g * t->full_rows + at, t->param_type);
        int32_t zero = load_code(t->planes[2], g, t, at);
        for (uint64_t col = g * t->group; col < (g + 1) * t->group; col++)
            dst[col] = (float)(load_code(t->planes[0], col, t, at) - zero) * scale;
    }
}

const encoding ENCODING_AWQ = {
    .name = "awq",
    .id = ENCODING_ID_AWQ,
    .gguf_type = GGUF_TYPE_NONE,
    .decode_row = decode_row,
};
