/* q5_k.c - ggml Q5_K: 256 columns in eight groups of 32; the value is (scale * s) * code -
 * (minimum * m), each step rounded.
 * Block: f16 scale; f16 minimum; 12 bytes of 6-bit s and m (k_scales.h); 32 bytes, of which bit g
 * of byte i is the fifth bit of column i of group g; 128 bytes, of which each run of 32 holds one
 * group in its low halves and the next in its high halves. */
#include "tensor/encodings/k_scales.h"
#include "tensor/encodings/load.h"

enum { COLS = 256, GROUP = 32, BYTES = 4 + K_SCALES_BYTES + COLS / 8 + COLS / 2 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES) {
        float scale = load_f16(block);
        float minimum = load_f16(block + 2);
        const unsigned char *fifths = block + 4 + K_SCALES_BYTES;
        for (uint32_t group_i = 0; group_i < COLS / GROUP; group_i++, dst += GROUP) {
            float s, m;
            k_scales_unpack(block + 4, group_i, &s, &m);
            float step = scale * s;
            float offset = minimum * m;
            const unsigned char *codes = fifths + COLS / 8 + (size_t)(group_i / 2) * GROUP;
            uint32_t shift = group_i % 2 * 4;
            for (uint32_t i = 0; i < GROUP; i++) {
                int code = (codes[i] >> shift & 15) | (fifths[i] >> group_i & 1) << 4;
                dst[i] = step * (float)code - offset;
            }
        }
    }
}

const encoding ENCODING_Q5_K = {
    .name = "q5_k",
    .id = ENCODING_ID_Q5_K,
    .gguf_type = 13,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
