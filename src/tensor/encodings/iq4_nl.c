/* iq4_nl.c - ggml IQ4_NL: 32 columns share an f16 scale; the value is scale * one of sixteen
 * (iq4_values.h).
 * Block: f16 scale; 16 bytes of codes. */
#include "tensor/encodings/iq4_values.h"
#include "tensor/encodings/load.h"

enum { COLS = 32, BYTES = 18 };

static void decode_row(const tensor *t, uint64_t row, float *dst)
{
    const unsigned char *block = load_row(t, 0, row);
    for (uint64_t col = 0; col < t->n_cols; col += COLS, block += BYTES, dst += COLS)
        iq4_decode(block + 2, load_f16(block), dst);
}

const encoding ENCODING_IQ4_NL = {
    .name = "iq4_nl",
    .id = ENCODING_ID_IQ4_NL,
    .gguf_type = 20,
    .block_cols = COLS,
    .block_bytes = BYTES,
    .decode_row = decode_row,
};
