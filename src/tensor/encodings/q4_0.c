/* q4_0.c - ggml Q4_0: 32 columns share an f16 scale; the value is scale * (code - 8).
 * Block: f16 scale; 16 bytes, byte i with column i in its low half and column 16 + i in its high
 * half. */
#include "tensor/encodings/load.h"

enum { COLS = 32, BYTES = 18 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES, dst += COLS) {
        float scale = load_f16(block);
        const unsigned char *codes = block + 2;
        for (int i = 0; i < COLS / 2; i++) {
            dst[i] = scale * (float)((codes[i] & 15) - 8);
            dst[i + COLS / 2] = scale * (float)((codes[i] >> 4) - 8);
        }
    }
}

const encoding ENCODING_Q4_0 = {
    .name = "q4_0",
    .id = ENCODING_ID_Q4_0,
    .gguf_type = 2,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
