/* q5_1.c - ggml Q5_1: 32 columns share an f16 scale and an f16 minimum; the value is scale *
 * code + minimum, each step rounded.
 * Block: f16 scale; f16 minimum; u32 whose bit i is the fifth bit of column i; 16 bytes, byte i
 * with column i in its low half and column 16 + i in its high half. */
#include "tensor/encodings/load.h"

enum { COLS = 32, BYTES = 24 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES, dst += COLS) {
        float scale = load_f16(block);
        float minimum = load_f16(block + 2);
        uint32_t fifth = load_u32(block + 4);
        const unsigned char *codes = block + 8;
        for (uint32_t i = 0; i < COLS; i++) {
            uint32_t code = i < COLS / 2 ? codes[i] & 15u : (uint32_t)codes[i - COLS / 2] >> 4;
            code |= (fifth >> i & 1u) << 4;
            dst[i] = scale * (float)code + minimum;
        }
    }
}

const encoding ENCODING_Q5_1 = {
    .name = "q5_1",
    .id = ENCODING_ID_Q5_1,
    .gguf_type = 7,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
