/* iq1_m.c - ggml IQ1_M: 256 columns in sixteen groups of 16; the value is (scale * (2 * s + 1))
 * * (a coordinate of one of 2048 points, plus or minus 0.125).
 * Block: 32 bytes, the points of 8 columns each; 16 bytes of nibbles, each the upper three bits
 * of a point and the sign of its 0.125; four u16, each four times three bits of s and, above,
 * four bits of the f16 scale, the lowest first. */
#include "tensor/encodings/iq_points.h"
#include "tensor/encodings/load.h"

enum { COLS = 256, POINTS = COLS / 8, UPPER = POINTS, SCALES = UPPER + POINTS / 2 };
enum { WORDS = 4, BYTES = SCALES + WORDS * 2 };

static float block_scale(const unsigned char *words)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < WORDS; i++)
        bits |= (uint32_t)load_u16(words + (size_t)i * 2) >> 12 << 4 * i;
    return fp_from_f16((uint16_t)bits);
}

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES) {
        float scale = block_scale(block + SCALES);
        for (uint32_t i = 0; i < POINTS; i++, dst += 8) {
            uint32_t word = load_u16(block + SCALES + (size_t)(i / 8) * 2);
            uint32_t s = word >> i / 2 % 4 * 3 & 7u;
            uint32_t upper = (uint32_t)block[UPPER + i / 2] >> i % 2 * 4;
            float delta = (upper & 8u) != 0 ? -0.125F : 0.125F;
            uint32_t point = block[i] | (upper & 7u) << 8;
            iq1_point(GRID_IQ1_S[point], delta, scale * (float)(2 * s + 1), dst);
        }
    }
}

const encoding ENCODING_IQ1_M = {
    .name = "iq1_m",
    .id = ENCODING_ID_IQ1_M,
    .gguf_type = 29,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
