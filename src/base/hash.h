/* hash.h - xxHash64 for tables and checksums, SHA-256 for identities. */
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

#endif
