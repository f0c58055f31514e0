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

static weft_status stream_open(hash_stream *s, const EVP_MD *kind, uint32_t n_digest,
                               weft_error *err)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    s->context = context;
    s->n_digest = n_digest;
    s->failed = context == NULL || EVP_DigestInit_ex(context, kind, NULL) != 1;
    if (!s->failed) return WEFT_OK;
    EVP_MD_CTX_free(context);
    s->context = NULL;
    return err_set(err, WEFT_DEVICE, "the crypto library cannot begin to hash");
}

weft_status hash_stream_open(hash_stream *s, weft_error *err)
{
    return stream_open(s, EVP_sha256(), 32, err);
}

weft_status hash_stream_open_sha1(hash_stream *s, weft_error *err)
{
    return stream_open(s, EVP_sha1(), 20, err);
}

void hash_stream_add(hash_stream *s, const void *data, size_t n_bytes)
{
    if (!s->failed && n_bytes > 0) s->failed = EVP_DigestUpdate(s->context, data, n_bytes) != 1;
}

void hash_stream_add_field(hash_stream *s, const void *data, uint64_t n_bytes)
{
    unsigned char length[8];
    for (unsigned i = 0; i < 8; i++) length[i] = (unsigned char)(n_bytes >> 8 * i);
    hash_stream_add(s, length, sizeof length);
    hash_stream_add(s, data, (size_t)n_bytes);
}

weft_status hash_stream_close(hash_stream *s, unsigned char digest[32], weft_error *err)
{
    unsigned int n_digest = 0;
    memset(digest, 0, 32);
    bool ok = !s->failed && EVP_DigestFinal_ex(s->context, digest, &n_digest) == 1;
    EVP_MD_CTX_free(s->context);
    s->context = NULL;
    if (ok && n_digest == s->n_digest) return WEFT_OK;
    memset(digest, 0, 32);
    return err_set(err, WEFT_DEVICE, "the crypto library cannot hash");
}
