/* q6_k.c - ggml Q6_K: 256 columns in sixteen groups of 16; the value is (scale * s) * (code - 32),
 * each step rounded.
 * Block: 128 bytes of low halves, 64 bytes of upper bit pairs, 16 signed bytes s, f16 scale. Each
 * half of the block, 128 columns, is four runs of 32: run r has its low halves in bytes r % 2 * 32
 * + i of the half's 64 (low nibbles for runs 0 and 1, high ones for 2 and 3) and its upper bits at
 * bit 2 * r of byte i of the half's 32. */
#include "tensor/encodings/load.h"

enum {
    COLS = 256,
    HALF = 128,
    RUN = 32,
    GROUP = 16,
    BYTES = COLS / 2 + COLS / 4 + COLS / GROUP + 2
};

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES, dst += COLS) {
        const unsigned char *scales = block + COLS / 2 + COLS / 4;
        float scale = load_f16(scales + COLS / GROUP);
        for (uint32_t i = 0; i < COLS; i++) {
            uint32_t half = i / HALF;
            uint32_t run = i % HALF / RUN;
            uint32_t low = block[half * (HALF / 2) + run % 2 * RUN + i % RUN];
            uint32_t upper = block[COLS / 2 + half * RUN + i % RUN];
            uint32_t code = (low >> run / 2 * 4 & 15u) | (upper >> 2 * run & 3u) << 4;
            float step = scale * (float)(int8_t)scales[i / GROUP];
            dst[i] = step * (float)((int32_t)code - 32);
        }
    }
}

const encoding ENCODING_Q6_K = {
    .name = "q6_k",
    .id = ENCODING_ID_Q6_K,
    .gguf_type = 14,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
