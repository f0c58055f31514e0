/* mxfp4_planes.c - MXFP4 as MLX and Hugging Face checkpoints store it: 32 columns share a power of
 * two; the value is that times e2m1.
 * Planes: codes, two a byte, the even column in the low half; a byte a group, the exponent. */
#include "tensor/encodings/load.h"
#include "tensor/encodings/small_floats.h"

enum { BITS = 4, GROUP = 32 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *codes = load_row(t, 0, row);
    const unsigned char *scales = load_row(t, 1, row);
    for (uint64_t g = 0; g < t->n_cols / GROUP; g++) {
        float values[16];
        e2m1_scaled(values, e8m0_value(scales[g]));
        for (uint32_t i = 0; i < GROUP; i += 2, codes++, dst += 2) {
            dst[0] = values[*codes & 15u];
            dst[1] = values[*codes >> 4];
        }
    }
}

const encoding ENCODING_MXFP4_PLANES = {
    .name = "mxfp4_planes",
    .id = ENCODING_ID_MXFP4_PLANES,
    .gguf_type = GGUF_TYPE_NONE,
    .plane_bits = BITS,
    .plane_group = GROUP,
    .decode_row = decode_row,
};
