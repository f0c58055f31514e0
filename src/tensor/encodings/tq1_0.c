/* tq1_0.c - ggml TQ1_0: 256 columns of -1, 0 or 1 share an f16 scale.
 * Block: 52 bytes of base-3 digits; f16 scale. A byte is a fraction of 256 whose digits behind the
 * point are columns: five of each of 32 bytes, column 32 * d + i being digit d of byte i; then five
 * of each of 16 bytes; then four of each of 4. */
#include "tensor/encodings/load.h"

enum { COLS = 256, DIGITS = 52, BYTES = DIGITS + 2 };

/* count bytes, n_digits of each. */
static float *decode_digits(const unsigned char *bytes, uint32_t count, uint32_t n_digits,
                            float scale, float *dst)
{
    uint32_t power = 1;
    for (uint32_t d = 0; d < n_digits; d++, power *= 3, dst += count) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t rest = bytes[i] * power & 255u;
            dst[i] = scale * (float)((int32_t)(rest * 3 >> 8) - 1);
        }
    }
    return dst;
}

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES) {
        float scale = load_f16(block + DIGITS);
        dst = decode_digits(block, 32, 5, scale, dst);
        dst = decode_digits(block + 32, 16, 5, scale, dst);
        dst = decode_digits(block + 48, 4, 4, scale, dst);
    }
}

const encoding ENCODING_TQ1_0 = {
    .name = "tq1_0",
    .id = ENCODING_ID_TQ1_0,
    .gguf_type = 34,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
