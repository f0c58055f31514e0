/* k_scales.h - the packed scales that Q4_K and Q5_K share.
 *
 * Eight 6-bit scales and eight 6-bit minimums in 12 bytes. Bytes 0..3 hold scales 0..3 and bytes
 * 4..7 minimums 0..3 in their low six bits; byte 8 + j holds the low four bits of scale 4 + j and,
 * above them, of minimum 4 + j, whose upper two bits are the top bits of bytes j and 4 + j. */
#ifndef TENSOR_ENCODINGS_K_SCALES_H
#define TENSOR_ENCODINGS_K_SCALES_H

#include <stdint.h>

enum { K_SCALES_BYTES = 12 };

/* group_i in 0..7 */
static inline void k_scales_unpack(const unsigned char *packed, uint32_t group_i, float *scale,
                                   float *minimum)
{
    uint32_t s, m;
    if (group_i < 4) {
        s = packed[group_i] & 63u;
        m = packed[4 + group_i] & 63u;
    } else {
        uint32_t low = packed[4 + group_i];
        s = (low & 15u) | ((uint32_t)packed[group_i - 4] >> 6 << 4);
        m = (low >> 4) | ((uint32_t)packed[group_i] >> 6 << 4);
    }
    *scale = (float)s;
    *minimum = (float)m;
}

#endif
