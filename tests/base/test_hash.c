/* test_hash.c - published and independently computed values. */
#include "base/hash.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_xx64(void **state)
{
    (void)state;
    unsigned char bytes[101];
    for (size_t i = 0; i < 100; i++) bytes[i + 1] = (unsigned char)i;
    assert_true(hash_xx64("", 0, 0) == 0xef46db3751d8e999u);
    assert_true(hash_xx64(NULL, 0, 0) == 0xef46db3751d8e999u);
    assert_true(hash_xx64("abc", 3, 0) == 0x44bc2cf5ad770999u);
    assert_true(hash_xx64("abc", 3, 1) == 0xbea9ca8199328908u);
    assert_true(hash_xx64(bytes + 1, 100, 0) == 0x6ac1e58032166597u);
    assert_true(hash_xx64(bytes + 1, 100, 12345) == 0x28ba1ae2de4de27u);
}

static void check_xx128(const void *data, size_t n_bytes, uint64_t seed, hash128 expected)
{
    hash128 hash = hash_xx128(data, n_bytes, seed);
    assert_true(hash.low == expected.low && hash.high == expected.high);
}

static void test_xx128(void **state)
{
    (void)state;
    unsigned char bytes[101];
    for (size_t i = 0; i < 100; i++) bytes[i + 1] = (unsigned char)i;
    check_xx128("", 0, 0, (hash128){0x6001c324468d497fu, 0x99aa06d3014798d8u});
    check_xx128("abc", 3, 0, (hash128){0x78af5f94892f3950u, 0x06b05ab6733a6185u});
    check_xx128(bytes + 1, 100, 12345, (hash128){0xaf32b66e8a78a926u, 0xa360840cc0ba5d3u});
}

static void check_sha256(const void *data, size_t n_bytes, const char *expected)
{
    unsigned char digest[32];
    char text[65];
    weft_error err = {0};
    assert_ok(hash_sha256(data, n_bytes, digest, &err), &err);
    for (size_t i = 0; i < 32; i++) snprintf(text + i * 2, 3, "%02x", digest[i]);
    assert_string_equal(text, expected);
}

/* The examples of FIPS 180-2. */
static void test_sha256(void **state)
{
    (void)state;
    check_sha256("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha256(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha256("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    char *many = malloc(1000000);
    assert_non_null(many);
    memset(many, 'a', 1000000);
    check_sha256(many, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(many);
}

/* In pieces as in one; a field is its length, then its bytes. */
static void test_stream(void **state)
{
    (void)state;
    hash_stream s;
    unsigned char digest[32];
    unsigned char whole[32];
    weft_error err = {0};
    assert_ok(hash_stream_open(&s, &err), &err);
    hash_stream_add(&s, "a", 1);
    hash_stream_add(&s, NULL, 0);
    hash_stream_add(&s, "bc", 2);
    assert_ok(hash_stream_close(&s, digest, &err), &err);
    assert_ok(hash_sha256("abc", 3, whole, &err), &err);
    assert_memory_equal(digest, whole, 32);
    assert_ok(hash_stream_open(&s, &err), &err);
    hash_stream_add_field(&s, "ab", 2);
    hash_stream_add_field(&s, NULL, 0);
    assert_ok(hash_stream_close(&s, digest, &err), &err);
    assert_ok(hash_sha256("\2\0\0\0\0\0\0\0ab\0\0\0\0\0\0\0", 18, whole, &err), &err);
    assert_memory_equal(digest, whole, 32);
}

/* FIPS 180-2 has "abc"; git hash-object the empty blob. */
static void test_sha1_stream(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *expected;
    } CASES[] = {{"abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d"},
                 {"blob 0", 7, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"}};
    for (size_t i = 0; i < 2; i++) {
        hash_stream s;
        unsigned char digest[32];
        char text[41];
        weft_error err = {0};
        assert_ok(hash_stream_open_sha1(&s, &err), &err);
        hash_stream_add(&s, CASES[i].text, 2);
        hash_stream_add(&s, CASES[i].text + 2, CASES[i].n - 2);
        assert_ok(hash_stream_close(&s, digest, &err), &err);
        for (size_t k = 0; k < 20; k++) snprintf(text + k * 2, 3, "%02x", digest[k]);
        assert_string_equal(text, CASES[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha1_stream), cmocka_unit_test(test_xx64),
        cmocka_unit_test(test_xx128),       cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_stream),
    };
    return TEST_RUN("base/hash", tests);
}
