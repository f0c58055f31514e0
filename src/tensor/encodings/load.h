/* load.h - reading numbers of a file: little-endian, at any alignment. */
#ifndef TENSOR_ENCODINGS_LOAD_H
#define TENSOR_ENCODINGS_LOAD_H

#include <string.h>

#include "base/fp.h"
#include "tensor/encoding.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read in place");

static inline const unsigned char *load_row(const tensor *t, uint32_t plane, uint64_t row)
{
    return t->planes[plane] + row * t->row_bytes[plane];
}

static inline uint16_t load_u16(const unsigned char *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline uint32_t load_u32(const unsigned char *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline float load_f16(const unsigned char *from)
{
    return fp_from_f16(load_u16(from));
}

static inline float load_bf16(const unsigned char *from)
{
    return fp_from_bf16(load_u16(from));
}

static inline float load_f32(const unsigned char *from)
{
    return fp_from_bits(load_u32(from));
}

/* Number i of an array of type, an encoding_id: f32, f16 or bf16. */
static inline float load_number(const unsigned char *array, uint64_t i, uint8_t type)
{
    if (type == ENCODING_ID_F32) return load_f32(array + i * 4);
    if (type == ENCODING_ID_F16) return load_f16(array + i * 2);
    return load_bf16(array + i * 2);
}

/* What multiplies the whole tensor. */
static inline float load_factor(const tensor *t)
{
    return t->factor == 0.0F ? 1.0F : t->factor;
}

#endif
