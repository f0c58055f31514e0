/* codec.h - how keys and values are stored: the contract, and how to add a codec.
 *
 * A family of codecs is one header in this folder and a row of codecs.def; KV_NAME_ROWS in it lists
 * its codecs, one ROW each (codecs.c says which fields a ROW has). The header is compiled by C and,
 * later, by nvcc, so it keeps to what both know: casts written out, constants by enum or #define,
 * memcpy for punning, no designated initialisers, compound literals, restrict, recursion or
 * allocation; what device code cannot see comes through `tables`. It has two row functions;
 * decoding is total: any bytes decode, to finite numbers unless a stored parameter is none. A row
 * is one head's key or value of one position; it is encoded alone, once, and read encoded.
 *
 * Packed codecs (all but the dense ones) store codes of a few bits with parameters for each group.
 * Their arithmetic is f32, one operation at a time, so that every compiler makes the same bytes.
 * docs/kv.md has the formats. */
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

/* What a codec's codes mean. */
typedef enum kv_kind { KV_DENSE, KV_AFFINE, KV_Q8, KV_TK, KV_TV } kv_kind;

/* Sides that a codec may stand on. */
enum { KV_FOR_K = 1, KV_FOR_V = 2 };

/* The type that a row is rounded to before it is packed, and that affine parameters have: the id of
 * a dense codec. */
enum { KV_BASE_F32 = 1, KV_BASE_F16 = 2, KV_BASE_BF16 = 3 };

/* The longest row of a packed codec. */
enum { KV_PACKED_MOST = 1024 };

typedef struct kv_codec kv_codec;

typedef void kv_encode_fn(const kv_codec *c, uint8_t base, unsigned char *dst, const float *src,
                          uint32_t n);
typedef void kv_decode_fn(const kv_codec *c, uint8_t base, const unsigned char *src, float *dst,
                          uint32_t n);

struct kv_codec {
    const char *name;
    uint8_t id, kind, sides;
    uint8_t bits;       /* of an element */
    uint16_t group;     /* elements that share parameters; the last group of a row may be shorter */
    uint16_t unit;      /* a row's length is a multiple of it */
    const float *table; /* KV_TV: [2^bits] centroids, ascending; else NULL */
    kv_encode_fn *encode_row;
    kv_decode_fn *decode_row; /* KV_TV: to the rotated basis */
};

/* [*count] rows. */
const kv_codec *kv_codec_table(size_t *count);

/* NULL when there is none. */
const kv_codec *kv_codec_by_id(uint8_t id);
const kv_codec *kv_codec_by_name(const char *name, size_t n_bytes);

/* Whether rows of n elements can be stored. */
int kv_codec_takes(const kv_codec *codec, uint32_t n);

/* Bytes of a row of n elements that the codec takes. */
size_t kv_codec_row_bytes(const kv_codec *codec, uint8_t base, uint32_t n);

/* From the basis that rows decode to back to the one they came in: x is a row, or a sum of rows.
 * Nothing to do but for KV_TV. */
void kv_codec_finish(const kv_codec *codec, float *x, uint32_t n);

/* Whether element i of a row of n changes its sign in a rotation. */
int kv_codec_sign(uint32_t n, uint32_t i);

#endif
