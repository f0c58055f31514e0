/* tq2_0.c - ggml TQ2_0: 256 columns share an f16 scale; the value is scale * (code - 1).
 * Block: 64 bytes of codes, each run of 32 with 128 columns as in Q2_K; f16 scale. */
#include "tensor/encodings/load.h"

enum { COLS = 256, HALF = 128, RUN = 32, BYTES = COLS / 4 + 2 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES, dst += COLS) {
        float scale = load_f16(block + COLS / 4);
        for (uint32_t i = 0; i < COLS; i++) {
            uint32_t packed = block[i / HALF * RUN + i % RUN];
            dst[i] = scale * (float)((int32_t)(packed >> 2 * (i % HALF / RUN) & 3u) - 1);
        }
    }
}

const encoding ENCODING_TQ2_0 = {
    .name = "tq2_0",
    .id = ENCODING_ID_TQ2_0,
    .gguf_type = 35,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
