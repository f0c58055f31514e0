/* q2_k.c - ggml Q2_K: 256 columns in sixteen groups of 16; the value is (scale * s) * code -
 * (minimum * m), each step rounded.
 * Block: 16 bytes with s in the low and m in the high half; 64 bytes of codes; f16 scale; f16
 * minimum. Of the codes, each run of 32 bytes holds 128 columns: columns 32 * r .. 32 * r + 31 at
 * bit 2 * r. */
#include "tensor/encodings/load.h"

enum { COLS = 256, HALF = 128, RUN = 32, GROUP = 16, SCALES = 16, BYTES = SCALES + COLS / 4 + 4 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES, dst += COLS) {
        float scale = load_f16(block + SCALES + COLS / 4);
        float minimum = load_f16(block + SCALES + COLS / 4 + 2);
        for (uint32_t i = 0; i < COLS; i++) {
            uint32_t packed = block[SCALES + i / HALF * RUN + i % RUN];
            uint32_t code = packed >> 2 * (i % HALF / RUN) & 3u;
            float step = scale * (float)(block[i / GROUP] & 15);
            float offset = minimum * (float)(block[i / GROUP] >> 4);
            dst[i] = step * (float)code - offset;
        }
    }
}

const encoding ENCODING_Q2_K = {
    .name = "q2_k",
    .id = ENCODING_ID_Q2_K,
    .gguf_type = 10,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
