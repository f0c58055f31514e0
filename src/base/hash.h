/* hash.h - xxHash64 for tables and checksums, SHA-256 for identities, SHA-1 for names that git
 * gave. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/err.h"

uint64_t hash_xx64(const void *data, size_t n_bytes, uint64_t seed);

/* XXH3: 128 bits in one pass over files too long for two. */
typedef struct hash128 {
    uint64_t low, high;
} hash128;

hash128 hash_xx128(const void *data, size_t n_bytes, uint64_t seed);

/* DEVICE when the crypto library fails. */
weft_status hash_sha256(const void *data, size_t n_bytes, unsigned char digest[32],
                        weft_error *err);

/* SHA-256 of what comes in pieces. */
typedef struct hash_stream {
    void *context;
    bool failed;
    uint32_t n_digest; /* bytes of the digest */
} hash_stream;

/* Whoever opened it closes it. */
weft_status hash_stream_open(hash_stream *s, weft_error *err);

/* The same with SHA-1, whose digest is the first 20 bytes: no proof against somebody who makes two
 * texts for one name. */
weft_status hash_stream_open_sha1(hash_stream *s, weft_error *err);
void hash_stream_add(hash_stream *s, const void *data, size_t n_bytes);

/* The length goes before the data, so that no two lists of fields have the same bytes. */
void hash_stream_add_field(hash_stream *s, const void *data, uint64_t n_bytes);
weft_status hash_stream_close(hash_stream *s, unsigned char digest[32], weft_error *err);

#endif
