/* q3_k.c - ggml Q3_K: 256 columns in sixteen groups of 16; the value is (scale * (s - 32)) *
 * (code - 4), each step rounded.
 * Block: 32 bytes, bit r of byte i the third bit of column 32 * r + i; 64 bytes of lower bit
 * pairs as in Q2_K; 12 bytes of 6-bit s; f16 scale. Of s, bytes 0..7 hold the low halves of
 * groups 0..7 and, above them, of 8..15, and bytes 8..11 the upper pairs: that of group g at bit
 * 2 * (g / 4) of byte 8 + g % 4. */
#include "tensor/encodings/load.h"

enum { COLS = 256, HALF = 128, RUN = 32, GROUP = 16 };
enum { LOW = RUN, SCALES = LOW + COLS / 4, SCALE = SCALES + 12, BYTES = SCALE + 2 };

static float group_scale(const unsigned char *packed, uint32_t group_i)
{
    uint32_t low = (uint32_t)packed[group_i % 8] >> group_i / 8 * 4 & 15u;
    uint32_t upper = (uint32_t)packed[8 + group_i % 4] >> group_i / 4 * 2 & 3u;
    return (float)((int32_t)(low | upper << 4) - 32);
}

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES, dst += COLS) {
        float scale = load_f16(block + SCALE);
        for (uint32_t i = 0; i < COLS; i++) {
            uint32_t low = block[LOW + i / HALF * RUN + i % RUN];
            uint32_t code = low >> 2 * (i % HALF / RUN) & 3u;
            code |= ((uint32_t)block[i % RUN] >> i / RUN & 1u) << 2;
            float step = scale * group_scale(block + SCALES, i / GROUP);
            dst[i] = step * (float)((int32_t)code - 4);
        }
    }
}

const encoding ENCODING_Q3_K = {
    .name = "q3_k",
    .id = ENCODING_ID_Q3_K,
    .gguf_type = 11,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
