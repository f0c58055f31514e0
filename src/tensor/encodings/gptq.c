/* gptq.c - GPTQ as Hugging Face checkpoints store it: group columns share a scale and a zero; the
 * value is (code - (zero + 1)) * scale, which is rounded once.
 * Planes are transposed, [columns, rows], and packed in words of 32 bits, the first code lowest:
 * codes, of which a word holds several columns of one row; scales, [groups, rows]; zeros, [groups,
 * rows], of which a word holds several rows. Bits are 2, 4 or 8. */
#include "tensor/encodings/load.h"

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    uint64_t n_rows = t->full_rows;
    uint64_t at = t->first_row + row;
    uint32_t bits = t->bits;
    uint32_t per_word = 32 / bits;
    uint32_t mask = (1u << bits) - 1;
    for (uint64_t g = 0; g < t->n_cols / t->group; g++) {
        float scale = load_number(t->planes[1], g * n_rows + at, t->param_type);
        uint32_t zeros = load_u32(t->planes[2] + (g * (n_rows / per_word) + at / per_word) * 4);
        int32_t zero = (int32_t)(zeros >> (uint32_t)(at % per_word) * bits & mask) + 1;
        for (uint64_t col = g * t->group; col < (g + 1) * t->group; col++) {
            uint32_t word = load_u32(t->planes[0] + (col / per_word * n_rows + at) * 4);
            uint32_t code = word >> (uint32_t)(col % per_word) * bits & mask;
            dst[col] = (float)((int32_t)code - zero) * scale;
        }
    }
}

const encoding ENCODING_GPTQ = {
    .name = "gptq",
    .id = ENCODING_ID_GPTQ,
    .gguf_type = GGUF_TYPE_NONE,
    .decode_row = decode_row,
};
