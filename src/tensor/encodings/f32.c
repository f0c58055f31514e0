/* f32.c - numbers as they are. */
#include "tensor/encodings/load.h"

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *src = load_row(t, 0, row);
    if (t->col_bytes == 0) {
        memcpy(dst, src, (size_t)t->n_cols * sizeof *dst);
        return;
    }
    for (uint64_t i = 0; i < t->n_cols; i++) dst[i] = load_f32(src + i * t->col_bytes);
}

const encoding ENCODING_F32 = {
    .name = "f32",
    .id = ENCODING_ID_F32,
    .gguf_type = 0,
    .safetensors = "F32",
    .block_cols = 1,
    .block_bytes = 4,
    .decode_row = decode_row,
};
