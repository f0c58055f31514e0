/* iq3_xxs.c - ggml IQ3_XXS: 256 columns in eight groups of 32; the value is ((scale * (s + 0.5))
 * * 0.5) * a coordinate of one of 256 points, with signs.
 * Block: f16 scale; 64 bytes, the points of 4 columns each; a u32 a group with four times seven
 * signs and, in its upper four bits, s. */
#include "tensor/encodings/iq_points.h"
#include "tensor/encodings/load.h"

enum { COLS = 256, GROUP = 32, WORDS = 2 + COLS / 4, BYTES = WORDS + COLS / GROUP * 4 };

static const uint8_t VALUES[8] = {4, 12, 20, 28, 36, 44, 52, 62};

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES) {
        float scale = load_f16(block);
        for (uint32_t i = 0; i < COLS / 4; i++, dst += 4) {
            uint32_t packed = load_u32(block + WORDS + (size_t)(i / 8) * 4);
            float step = scale * (0.5F + (float)(packed >> 28)) * 0.5F;
            uint32_t signs = iq_signs(packed >> i / 2 % 4 * 7) >> i % 2 * 4;
            iq3_point(GRID_IQ3_XXS[block[2 + i]], VALUES, signs, step, dst);
        }
    }
}

const encoding ENCODING_IQ3_XXS = {
    .name = "iq3_xxs",
    .id = ENCODING_ID_IQ3_XXS,
    .gguf_type = 18,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
