/* iq4_xs.c - ggml IQ4_XS: 256 columns in eight groups of 32; the value is (scale * (s - 32)) *
 * one of sixteen (iq4_values.h), each step rounded.
 * Block: f16 scale; u16 whose bits 2 * g and 2 * g + 1 are the upper ones of s of group g; 4
 * bytes of its low halves; 16 bytes of codes a group. */
#include "tensor/encodings/iq4_values.h"
#include "tensor/encodings/load.h"

enum { COLS = 256, GROUP = 32, BYTES = 8 + COLS / 2 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES) {
        float scale = load_f16(block);
        uint32_t upper = load_u16(block + 2);
        for (uint32_t g = 0; g < COLS / GROUP; g++, dst += GROUP) {
            uint32_t low = (uint32_t)block[4 + g / 2] >> g % 2 * 4 & 15u;
            int32_t s = (int32_t)(low | (upper >> 2 * g & 3u) << 4) - 32;
            iq4_decode(block + 8 + (size_t)g * (GROUP / 2), scale * (float)s, dst);
        }
    }
}

const encoding ENCODING_IQ4_XS = {
    .name = "iq4_xs",
    .id = ENCODING_ID_IQ4_XS,
    .gguf_type = 23,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
