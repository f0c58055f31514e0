/* iq2_xxs.c - ggml IQ2_XXS: 256 columns in eight groups of 32; the value is ((scale * (s + 0.5))
 * * 0.25) * a coordinate of one of 256 points, with signs.
 * Block: f16 scale; then each group: 4 bytes, the points of 8 columns each; u32 with four times
 * seven signs and, in its upper four bits, s. */
#include "tensor/encodings/iq_points.h"
#include "tensor/encodings/load.h"

enum { COLS = 256, GROUP = 32, BYTES = 2 + COLS / GROUP * 8 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES) {
        float scale = load_f16(block);
        for (const unsigned char *at = block + 2; at < block + BYTES; at += 8) {
            uint32_t packed = load_u32(at + 4);
            float step = scale * (0.5F + (float)(packed >> 28)) * 0.25F;
            for (uint32_t i = 0; i < 4; i++, dst += 8)
                iq2_point(GRID_IQ2_XXS[at[i]], iq_signs(packed >> 7 * i), step, dst);
        }
    }
}

const encoding ENCODING_IQ2_XXS = {
    .name = "iq2_xxs",
    .id = ENCODING_ID_IQ2_XXS,
    .gguf_type = 16,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
