/* q4_1.c - ggml Q4_1: 32 columns share an f16 scale and minimum; the value is scale * code +
 * minimum, product and sum each rounded.
 * Block: f16 scale; f16 minimum; 16 bytes, byte i with column i in its low half and column 16 + i
 * in its high half. */
#include "tensor/encodings/load.h"

enum { COLS = 32, BYTES = 20 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES, dst += COLS) {
        float scale = load_f16(block);
        float minimum = load_f16(block + 2);
        const unsigned char *codes = block + 4;
        for (int i = 0; i < COLS / 2; i++) {
            dst[i] = scale * (float)(codes[i] & 15) + minimum;
            dst[i + COLS / 2] = scale * (float)(codes[i] >> 4) + minimum;
        }
    }
}

const encoding ENCODING_Q4_1 = {
    .name = "q4_1",
    .id = ENCODING_ID_Q4_1,
    .gguf_type = 3,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
