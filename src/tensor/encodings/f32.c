/* f32.c - numbers as they are. */
#include "tensor/encodings/load.h"

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    memcpy(dst, load_row(t, 0, row), (size_t)t->n_cols * sizeof *dst);
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
