/* iq4_values.h - the sixteen values that IQ4_NL and IQ4_XS share: finer near 0. */
#ifndef TENSOR_ENCODINGS_IQ4_VALUES_H
#define TENSOR_ENCODINGS_IQ4_VALUES_H

#include <stdint.h>

static const int8_t IQ4_VALUES[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

/* 16 bytes: byte i holds column i in its low half and column 16 + i in its high half. */
static inline void iq4_decode(const unsigned char codes[16], float scale, float dst[32])
{
    for (uint32_t i = 0; i < 16; i++) {
        dst[i] = scale * (float)IQ4_VALUES[codes[i] & 15];
        dst[16 + i] = scale * (float)IQ4_VALUES[codes[i] >> 4];
    }
}

#endif
