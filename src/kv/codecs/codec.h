/* codec.h - how keys and values are stored: the contract, and how to add a codec.
 *
 * A codec is one header in this folder and a row of codecs.def. The header is compiled by C and,
 * later, by nvcc, so it keeps to what both know: casts written out, constants by enum or #define,
 * memcpy for punning, no designated initialisers, compound literals, restrict, recursion or
 * allocation. It defines KV_NAME_ID, KV_NAME_GROUP, KV_NAME_BYTES (of a group) and the two row
 * functions; decoding is total: any bytes decode. A row is one head's key or value of one position;
 * it is encoded alone, once, and read encoded. */
#ifndef KV_CODECS_CODEC_H
#define KV_CODECS_CODEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/fp.h"

#ifdef __CUDACC__
#define KV_FN static inline __host__ __device__
#else
#define KV_FN static inline
#endif

typedef struct kv_codec {
    const char *name;
    uint8_t id;
    uint32_t group, group_bytes;
    void (*encode_row)(unsigned char *dst, const float *src, uint32_t n);
    void (*decode_row)(const unsigned char *src, float *dst, uint32_t n);
} kv_codec;

/* [*count] rows. */
const kv_codec *kv_codec_table(size_t *count);

/* NULL when there is none. */
const kv_codec *kv_codec_by_id(uint8_t id);
const kv_codec *kv_codec_by_name(const char *name, size_t n_bytes);

/* Bytes of a row of n elements. */
size_t kv_codec_row_bytes(const kv_codec *codec, uint32_t n);

#endif
