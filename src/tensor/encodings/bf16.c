/* bf16.c - the upper half of an f32. */
#include "tensor/encodings/load.h"

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *src = load_row(t, 0, row);
    if (t->col_bytes == 0) {
        for (uint64_t i = 0; i < t->n_cols; i++) dst[i] = load_bf16(src + i * 2);
        return;
    }
    for (uint64_t i = 0; i < t->n_cols; i++) dst[i] = load_bf16(src + i * t->col_bytes);
}

const encoding ENCODING_BF16 = {
    .name = "bf16",
    .id = ENCODING_ID_BF16,
    .gguf_type = 30,
    .safetensors = "BF16",
    .block_cols = 1,
    .block_bytes = 2,
    .decode_row = decode_row,
};
