/* iq2_s.c - ggml IQ2_S: 256 columns in sixteen groups of 16; the value is ((scale * (s + 0.5)) *
 * 0.25) * a coordinate of one of 1024 points, with signs.
 * Block: f16 scale; 32 bytes, the points of 8 columns each; 32 bytes of signs; 8 bytes of the
 * points' upper bit pairs; 8 bytes of s, two a byte. */
#include "tensor/encodings/iq_points.h"
#include "tensor/encodings/load.h"

enum { COLS = 256, POINTS = COLS / 8 };
enum { SIGNS = 2 + POINTS, UPPER = SIGNS + POINTS, SCALES = UPPER + POINTS / 4 };
enum { BYTES = SCALES + COLS / 32 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES) {
        float scale = load_f16(block);
        for (uint32_t i = 0; i < POINTS; i++, dst += 8) {
            uint32_t s = (uint32_t)block[SCALES + i / 4] >> i / 2 % 2 * 4 & 15u;
            float step = scale * (0.5F + (float)s) * 0.25F;
            uint32_t upper = (uint32_t)block[UPPER + i / 4] >> i % 4 * 2 & 3u;
            iq2_point(GRID_IQ2_S[block[2 + i] | upper << 8], block[SIGNS + i], step, dst);
        }
    }
}

const encoding ENCODING_IQ2_S = {
    .name = "iq2_s",
    .id = ENCODING_ID_IQ2_S,
    .gguf_type = 22,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
