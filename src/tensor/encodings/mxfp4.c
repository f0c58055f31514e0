/* mxfp4.c - ggml MXFP4: 32 columns share a power of two; the value is that times e2m1.
 * Block: the exponent, biased by 127; 16 bytes, byte i with column i in its low half and column
 * 16 + i in its high half. Values are kept doubled and powers halved, so that there is no
 * infinity. */
#include "tensor/encodings/load.h"
#include "tensor/encodings/small_floats.h"

enum { COLS = 32, BYTES = 17 };

static float half_power(uint32_t exponent)
{
    return fp_from_bits(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES, dst += COLS) {
        float scale = half_power(block[0]);
        for (uint32_t i = 0; i < COLS / 2; i++) {
            dst[i] = scale * (float)E2M1_DOUBLED[block[1 + i] & 15];
            dst[COLS / 2 + i] = scale * (float)E2M1_DOUBLED[block[1 + i] >> 4];
        }
    }
}

const encoding ENCODING_MXFP4 = {
    .name = "mxfp4",
    .id = ENCODING_ID_MXFP4,
    .gguf_type = 39,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
