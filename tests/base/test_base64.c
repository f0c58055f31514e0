/* test_base64.c - known vectors, every length there and back, what is no base64. */
#include "base/base64.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

/* Into memory of just the size that is promised to do. */
static bool decode_by(uint32_t flags, const char *text, size_t n, unsigned char *out, size_t *n_out)
{
    size_t capacity = base64_room(n);
    unsigned char *bytes = malloc(capacity);
    assert_non_null(bytes);
    bool fine = base64_decode((str){text, n}, flags, bytes, n_out);
    assert_true(*n_out <= capacity);
    if (fine) memcpy(out, bytes, *n_out);
    free(bytes);
    return fine;
}

static bool decode(const char *text, size_t n, unsigned char *out, size_t *n_out)
{
    return decode_by(BASE64_LOOSE, text, n, out, n_out);
}

static void test_vectors(void **state)
{
    (void)state;
    /* RFC 4648, 10. */
    static const struct {
        const char *plain, *coded;
    } ROWS[] = {{"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="},
                {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"},
                {"\xfb\xff\xbf", "+/+/"}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        unsigned char out[16];
        size_t n;
        strbuf coded;
        strbuf_init(&coded, mem_system(), 0);
        assert_int_equal(base64_encode(ROWS[i].plain, strlen(ROWS[i].plain), &coded), WEFT_OK);
        assert_string_equal(strbuf_text(&coded), ROWS[i].coded);
        strbuf_deinit(&coded);
        assert_true(decode(ROWS[i].coded, strlen(ROWS[i].coded), out, &n));
        assert_int_equal(n, strlen(ROWS[i].plain));
        assert_memory_equal(out, ROWS[i].plain, n);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    unsigned char bytes[300];
    unsigned char back[300];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 151 + 7);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        strbuf coded;
        size_t n_back;
        strbuf_init(&coded, mem_system(), 0);
        assert_int_equal(base64_encode(bytes, n, &coded), WEFT_OK);
        assert_int_equal(coded.len, (n + 2) / 3 * 4);
        assert_true(decode(strbuf_text(&coded), coded.len, back, &n_back));
        assert_int_equal(n_back, n);
        assert_memory_equal(back, bytes, n);
        /* Without its padding, too. */
        size_t n_digits = coded.len - (3 - n % 3) % 3;
        assert_true(decode(strbuf_text(&coded), n_digits, back, &n_back));
        assert_int_equal(n_back, n);
        strbuf_deinit(&coded);
    }
}

static void test_what_is_none(void **state)
{
    (void)state;
    static const char *const BAD[] = {"A",       "AAAAA",    "=",     "====",     "A=",   "A===",
                                      "AA===",   "AAA==",    "AAAA=", "AA=A",     "A=AA", "AA*A",
                                      "AAA\x80", "Zg==Zg==", ",",     "AAAA====", "%41"};
    static const char *const GOOD[] = {" Zm 9v\r\nYm\tFy ", "Zm9vYmFy\n", "-_-_"};
    unsigned char out[32];
    size_t n;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        if (decode(BAD[i], strlen(BAD[i]), out, &n)) fail_msg("taken: %s", BAD[i]);
    }
    assert_false(decode("AA\0A", 4, out, &n));
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        if (!decode(GOOD[i], strlen(GOOD[i]), out, &n)) fail_msg("refused: %s", GOOD[i]);
        /* These are for the loose rule alone. */
        if (decode_by(0, GOOD[i], strlen(GOOD[i]), out, &n)) fail_msg("taken: %s", GOOD[i]);
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_false(decode_by(0, BAD[i], strlen(BAD[i]), out, &n));
    assert_true(decode_by(0, "Zm9vYg==", 8, out, &n));
    assert_int_equal(n, 4);
    assert_true(decode_by(0, "+/+/", 4, out, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_what_is_none),
    };
    return TEST_RUN("base/base64", tests);
}
