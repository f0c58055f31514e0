/* nvfp4_planes.c - NVFP4 as MLX and Hugging Face checkpoints store it: 16 columns share a scale in
 * e4m3; the value is e2m1 times (scale * the tensor's factor), each product rounded.
 * Planes: codes, two a byte, the even column in the low half; a byte a group, the scale. */
#include "tensor/encodings/load.h"
#include "tensor/encodings/small_floats.h"

enum { BITS = 4, GROUP = 16 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *codes = load_row(t, 0, row);
    const unsigned char *scales = load_row(t, 1, row);
    float factor = load_factor(t);
    for (uint64_t g = 0; g < t->n_cols / GROUP; g++) {
        float values[16];
        e2m1_scaled(values, e4m3_value(scales[g]) * factor);
        for (uint32_t i = 0; i < GROUP; i += 2, codes++, dst += 2) {
            dst[0] = values[*codes & 15u];
            dst[1] = values[*codes >> 4];
        }
    }
}

const encoding ENCODING_NVFP4_PLANES = {
    .name = "nvfp4_planes",
    .id = ENCODING_ID_NVFP4_PLANES,
    .gguf_type = GGUF_TYPE_NONE,
    .plane_bits = BITS,
    .plane_group = GROUP,
    .decode_row = decode_row,
};
