/* hash.c - xxHash and OpenSSL behind our names. */
#include "base/hash.h"

#include <openssl/evp.h>
#include <string.h>
#include <xxhash.h>

uint64_t hash_xx64(const void *data, size_t n_bytes, uint64_t seed)
{
    return XXH64(data, n_bytes, seed);
}

hash128 hash_xx128(const void *data, size_t n_bytes, uint64_t seed)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(data, n_bytes, seed);
    return (hash128){hash.low64, hash.high64};
}

weft_status hash_sha256(const void *data, size_t n_bytes, unsigned char digest[32], weft_error *err)
{
    unsigned int n_digest = 0;
    if (EVP_Digest(data, n_bytes, digest, &n_digest, EVP_sha256(), NULL) != 1 || n_digest != 32) {
        memset(digest, 0, 32);
        return err_set(err, WEFT_DEVICE, "the crypto library cannot hash %zu bytes", n_bytes);
    }
    return WEFT_OK;
}
