/* iq3_s.c - ggml IQ3_S: 256 columns in eight groups of 32; the value is (scale * (2 * s + 1)) * a
 * coordinate of one of 512 points, with signs.
 * Block: f16 scale; 64 bytes, the points of 4 columns each; 8 bytes of the points' ninth bits; 32
 * bytes of signs; 4 bytes of s, two a byte. */
#include "tensor/encodings/iq_points.h"
#include "tensor/encodings/load.h"

enum { COLS = 256, POINTS = COLS / 4 };
enum { NINTH = 2 + POINTS, SIGNS = NINTH + POINTS / 8, SCALES = SIGNS + COLS / 8 };
enum { BYTES = SCALES + COLS / 64 };

static const uint8_t VALUES[8] = {1, 3, 5, 7, 9, 11, 13, 15};

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES) {
        float scale = load_f16(block);
        for (uint32_t i = 0; i < POINTS; i++, dst += 4) {
            uint32_t s = (uint32_t)block[SCALES + i / 16] >> i / 8 % 2 * 4 & 15u;
            uint32_t ninth = (uint32_t)block[NINTH + i / 8] >> i % 8 & 1u;
            uint32_t signs = (uint32_t)block[SIGNS + i / 2] >> i % 2 * 4;
            iq3_point(GRID_IQ3_S[block[2 + i] | ninth << 8], VALUES, signs,
                      scale * (float)(2 * s + 1), dst);
        }
    }
}

const encoding ENCODING_IQ3_S = {
    .name = "iq3_s",
    .id = ENCODING_ID_IQ3_S,
    .gguf_type = 21,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
