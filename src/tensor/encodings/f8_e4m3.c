/* f8_e4m3.c - 8-bit floats, alone or with scales: one for the tensor, for a row, or for a block of
 * scale_rows x group numbers; the value is number * scale, rounded once.
 * Planes: numbers; scales in f32, f16 or bf16, [blocks of rows, blocks of columns], or none. */
#include "tensor/encodings/load.h"
#include "tensor/encodings/small_floats.h"

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *codes = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col++) dst[col] = e4m3_value(codes[col]);
    if (t->planes[1] == NULL || t->n_cols == 0) return;
    uint64_t group = t->group == 0 ? t->n_cols : t->group;
    uint64_t n_groups = (t->n_cols + group - 1) / group;
    uint64_t scale_row = t->scale_rows == 0 ? 0 : (t->first_row + row) / t->scale_rows;
    for (uint64_t i = 0; i < n_groups; i++) {
        float scale = load_number(t->planes[1], scale_row * n_groups + i, t->param_type);
        uint64_t end = t->n_cols - i * group < group ? t->n_cols : (i + 1) * group;
        for (uint64_t col = i * group; col < end; col++) dst[col] *= scale;
    }
}

const encoding ENCODING_F8_E4M3 = {
    .name = "f8_e4m3",
    .id = ENCODING_ID_F8_E4M3,
    .gguf_type = GGUF_TYPE_NONE,
    .safetensors = "F8_E4M3",
    .block_cols = 1,
    .block_bytes = 1,
    .decode_row = decode_row,
};
