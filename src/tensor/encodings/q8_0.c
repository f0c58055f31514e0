/* q8_0.c - ggml Q8_0: 32 columns share an f16 scale; the value is scale * code.
 * Block: f16 scale; 32 signed bytes. */
#include "tensor/encodings/load.h"

enum { COLS = 32, BYTES = 34 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES, dst += COLS) {
        float scale = load_f16(block);
        for (int i = 0; i < COLS; i++) dst[i] = scale * (float)(int8_t)block[2 + i];
    }
}

const encoding ENCODING_Q8_0 = {
    .name = "q8_0",
    .id = ENCODING_ID_Q8_0,
    .gguf_type = 8,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
