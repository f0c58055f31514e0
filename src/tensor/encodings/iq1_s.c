/* iq1_s.c - ggml IQ1_S: 256 columns in eight groups of 32; the value is (scale * (2 * s + 1)) * (a
 * coordinate of one of 2048 points, plus or minus 0.125).
 * Block: f16 scale; 32 bytes, the points of 8 columns each; a u16 a group with four times the upper
 * three bits of a point, s in three bits, and the sign of 0.125. */
#include "tensor/encodings/iq_points.h"
#include "tensor/encodings/load.h"

enum { COLS = 256, GROUP = 32, POINTS = COLS / 8, UPPER = 2 + POINTS };
enum { BYTES = UPPER + COLS / GROUP * 2 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES) {
        float scale = load_f16(block);
        for (uint32_t i = 0; i < POINTS; i++, dst += 8) {
            uint32_t packed = load_u16(block + UPPER + (size_t)(i / 4) * 2);
            uint32_t upper = packed >> i % 4 * 3 & 7u;
            float step = scale * (float)(2 * (packed >> 12 & 7u) + 1);
            float delta = packed >> 15 != 0 ? -0.125F : 0.125F;
            iq1_point(GRID_IQ1_S[block[2 + i] | upper << 8], delta, step, dst);
        }
    }
}

const encoding ENCODING_IQ1_S = {
    .name = "iq1_s",
    .id = ENCODING_ID_IQ1_S,
    .gguf_type = 19,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
