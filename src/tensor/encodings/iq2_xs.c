/* iq2_xs.c - ggml IQ2_XS: 256 columns in sixteen groups of 16; the value is ((scale * (s + 0.5))
 * * 0.25) * a coordinate of one of 512 points, with signs.
 * Block: f16 scale; 32 u16, each the point of 8 columns in its lower nine bits and seven signs
 * above; 8 bytes of s, two a byte. */
#include "tensor/encodings/iq_points.h"
#include "tensor/encodings/load.h"

enum { COLS = 256, POINTS = COLS / 8, SCALES = 2 + POINTS * 2, BYTES = SCALES + COLS / 32 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES) {
        float scale = load_f16(block);
        for (uint32_t i = 0; i < POINTS; i++, dst += 8) {
            uint32_t s = (uint32_t)block[SCALES + i / 4] >> i / 2 % 2 * 4 & 15u;
            float step = scale * (0.5F + (float)s) * 0.25F;
            uint32_t packed = load_u16(block + 2 + (size_t)i * 2);
            iq2_point(GRID_IQ2_XS[packed & 511u], iq_signs(packed >> 9), step, dst);
        }
    }
}

const encoding ENCODING_IQ2_XS = {
    .name = "iq2_xs",
    .id = ENCODING_ID_IQ2_XS,
    .gguf_type = 17,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
