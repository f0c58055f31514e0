/* affine.c - MLX's affine quantization: group columns share a scale and a bias; the value is code
 * * scale + bias in f32, product and sum each rounded once.
 * Planes: codes, each row a little-endian bit stream with column i in bits [i * bits, (i + 1) *
 * bits); scales; biases. tensor_bind_affine has checked that rows are whole groups and groups
 * whole bytes. */
#include "tensor/encodings/load.h"

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *codes = load_row(t, 0, row);
    const unsigned char *scales = load_row(t, 1, row);
    const unsigned char *biases = load_row(t, 2, row);
    uint32_t bits = t->bits;
    uint32_t mask = (1u << bits) - 1;
    for (uint64_t first = 0; first < t->n_cols; first += t->group, dst += t->group) {
        float scale = load_number(scales, first / t->group, t->param_type);
        float bias = load_number(biases, first / t->group, t->param_type);
        /* window holds the next n_bits bits of the stream, the lowest first. */
        uint32_t window = 0, n_bits = 0;
        for (uint32_t i = 0; i < t->group; i++) {
            if (n_bits < bits) {
                window |= (uint32_t)*codes++ << n_bits;
                n_bits += 8;
            }
            dst[i] = (float)(window & mask) * scale + bias;
            window >>= bits;
            n_bits -= bits;
        }
    }
}

const encoding ENCODING_AFFINE = {
    .name = "affine",
    .id = ENCODING_ID_AFFINE,
    .gguf_type = GGUF_TYPE_NONE,
    .decode_row = decode_row,
};
