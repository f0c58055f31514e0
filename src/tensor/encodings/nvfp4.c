/* nvfp4.c - ggml NVFP4: 64 columns in four groups of 16; the value is a scale in e4m3, whose sign
 * does not count, times e2m1, times the tensor's factor where there is one.
 * Block: 4 scales; 8 bytes a group, byte i with column i in its low half and column 8 + i in its
 * high half. As in ggml a scale of 0x7f is 0. */
#include "tensor/encodings/load.h"
#include "tensor/encodings/small_floats.h"

enum { COLS = 64, GROUP = 16, GROUPS = COLS / GROUP, BYTES = GROUPS + COLS / 2 };

static float half_scale(uint32_t code)
{
    if (code == 0x7f) return 0.0F;
    /* 0xff is no NaN there, but what its bits would say. */
    if (code == 0xff) return 240.0F;
    return 0.5F * e4m3_value(code & 0x7fu);
}

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    float factor = load_factor(t);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES) {
        for (uint32_t g = 0; g < GROUPS; g++, dst += GROUP) {
            float scale = half_scale(block[g]);
            const unsigned char *codes = block + GROUPS + (size_t)g * (GROUP / 2);
            for (uint32_t i = 0; i < GROUP / 2; i++) {
                dst[i] = scale * (float)E2M1_DOUBLED[codes[i] & 15] * factor;
                dst[GROUP / 2 + i] = scale * (float)E2M1_DOUBLED[codes[i] >> 4] * factor;
            }
        }
    }
}

const encoding ENCODING_NVFP4 = {
    .name = "nvfp4",
    .id = ENCODING_ID_NVFP4,
    .gguf_type = 40,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
