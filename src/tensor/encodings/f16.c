/* f16.c - IEEE half precision. */
#include "tensor/encodings/load.h"

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *src = load_row(t, 0, row);
    if (t->col_bytes == 0) {
        for (uint64_t i = 0; i < t->n_cols; i++) dst[i] = load_f16(src + i * 2);
        return;
    }
    for (uint64_t i = 0; i < t->n_cols; i++) dst[i] = load_f16(src + i * t->col_bytes);
}

const encoding ENCODING_F16 = {
    .name = "f16",
    .id = ENCODING_ID_F16,
    .gguf_type = 1,
    .safetensors = "F16",
    .block_cols = 1,
    .block_bytes = 2,
    .decode_row = decode_row,
};
