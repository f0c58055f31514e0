/* mxfp8_planes.c - MXFP8 as MLX and Hugging Face checkpoints store it: 32 columns share a power of
 * two; the value is that times e4m3.
 * Planes: codes, a byte each; a byte a group, the exponent. */
#include "tensor/encodings/load.h"
#include "tensor/encodings/small_floats.h"

enum { BITS = 8, GROUP = 32 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *codes = load_row(t, 0, row);
    const unsigned char *scales = load_row(t, 1, row);
    for (uint64_t g = 0; g < t->n_cols / GROUP; g++, codes += GROUP, dst += GROUP) {
        float scale = e8m0_value(scales[g]);
        for (uint32_t i = 0; i < GROUP; i++) dst[i] = e4m3_value(codes[i]) * scale;
    }
}

const encoding ENCODING_MXFP8_PLANES = {
    .name = "mxfp8_planes",
    .id = ENCODING_ID_MXFP8_PLANES,
    .gguf_type = GGUF_TYPE_NONE,
    .plane_bits = BITS,
    .plane_group = GROUP,
    .decode_row = decode_row,
};
