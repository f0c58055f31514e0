/* bytes.h - numbers in files: little-endian, wherever they stand. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdint.h>

static inline void put_u32(unsigned char *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static inline void put_u64(unsigned char *at, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static inline uint32_t get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t get_u64(const unsigned char *at)
{
    return get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
}

#endif
