/* test_utf8.c - every code point, every sequence of up to three bytes and the edges of four,
 * against a decoder by definition: decode, then encode, and it must be the same bytes. */
#include "base/utf8.h"
#include "support/test.h"

#include <string.h>

#include "support/fault.h"

static bool is_scalar(uint32_t code_point)
{
    return code_point < 0xd800 || (code_point > 0xdfff && code_point <= 0x10ffff);
}

static void test_all_code_points(void **state)
{
    (void)state;
    for (uint32_t code_point = 0; code_point <= 0x10ffff; code_point++) {
        if (!is_scalar(code_point)) continue;
        char bytes[8] = {0};
        size_t n = utf8_encode(code_point, bytes);
        size_t expected = code_point < 0x80      ? 1
                          : code_point < 0x800   ? 2
                          : code_point < 0x10000 ? 3
                                                 : 4;
        if (n != expected) fail_msg("U+%04X takes %zu bytes", code_point, n);
        uint32_t back = 1;
        bool same = utf8_decode(bytes, n, &back) == n && back == code_point &&
                    utf8_decode(bytes, sizeof bytes, &back) == n && back == code_point;
        /* Cut off: not decoded, and held back as a whole. */
        for (size_t cut = 0; cut < n; cut++) {
            same = same && utf8_decode(bytes, cut, &back) == 0 && back == 0;
            same = same && utf8_whole(bytes, cut) == 0;
        }
        same = same && utf8_whole(bytes, n) == n && utf8_valid(bytes, n);
        if (!same) fail_msg("U+%04X does not survive", code_point);
    }
}

/* The definition: take the bits as the lead byte says, and encode them again. */
static size_t decode_plainly(const unsigned char *bytes, size_t n_bytes, uint32_t *code_point)
{
    unsigned char c = bytes[0];
    size_t n = c < 0x80 ? 1 : c < 0xc0 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf8 ? 4 : 0;
    if (n == 0 || n > n_bytes) return 0;
    uint32_t value = n == 1 ? c : c & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((bytes[i] & 0xc0) != 0x80) return 0;
        value = value << 6 | (bytes[i] & 0x3fu);
    }
    char again[4];
    if (!is_scalar(value) || utf8_encode(value, again) != n || memcmp(again, bytes, n) != 0)
        return 0;
    *code_point = value;
    return n;
}

static void check_sequence(const unsigned char *bytes, size_t n_bytes)
{
    uint32_t expected = 0;
    uint32_t actual = 0;
    size_t n = decode_plainly(bytes, n_bytes, &expected);
    if (utf8_decode((const char *)bytes, n_bytes, &actual) != n || (n != 0 && actual != expected))
        fail_msg("%02x %02x %02x %02x is decoded wrongly", bytes[0], bytes[1], bytes[2], bytes[3]);
}

static void test_all_sequences(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1u << 24; i++) {
        unsigned char bytes[4] = {(unsigned char)(i >> 16), (unsigned char)(i >> 8),
                                  (unsigned char)i, 0x80};
        check_sequence(bytes, 3);
        if (bytes[0] >= 0xf0) check_sequence(bytes, 4);
    }
}

/* Whether more bytes can make a valid sequence of these, by trying. */
static bool can_grow(const unsigned char *bytes, size_t n_bytes)
{
    unsigned char longer[4] = {0};
    memcpy(longer, bytes, n_bytes);
    uint32_t code_point;
    if (n_bytes == 4 || decode_plainly(longer, n_bytes, &code_point) != 0) return false;
    /* The edges of every range that a continuation byte can be confined to. */
    static const unsigned char NEXT[] = {0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf};
    for (size_t i = 0; i < sizeof NEXT; i++) {
        longer[n_bytes] = NEXT[i];
        if (decode_plainly(longer, n_bytes + 1, &code_point) == n_bytes + 1) return true;
        if (can_grow(longer, n_bytes + 1)) return true;
    }
    return false;
}

static void test_whole(void **state)
{
    (void)state;
    static const unsigned char BYTES[] = {'a',  0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                          0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed,
                                          0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff, 0};
    enum { N = sizeof BYTES };
    for (size_t i = 0; i < (size_t)N * N * N * N; i++) {
        unsigned char text[4] = {BYTES[i % N], BYTES[i / N % N], BYTES[i / N / N % N],
                                 BYTES[i / N / N / N]};
        /* The longest tail of at most three bytes that can grow. */
        size_t expected = 4;
        for (size_t tail = 1; tail <= 3; tail++) {
            unsigned char lead = text[4 - tail];
            if (lead >= 0xc0 && can_grow(text + 4 - tail, tail)) expected = 4 - tail;
        }
        if (utf8_whole((const char *)text, 4) != expected)
            fail_msg("%02x %02x %02x %02x", text[0], text[1], text[2], text[3]);
    }
    assert_int_equal(utf8_whole("", 0), 0);
    assert_int_equal(utf8_whole("\xf0\x9f", 2), 0);
    assert_int_equal(utf8_whole("a\xf0\x9f\x98", 4), 1);
    assert_int_equal(utf8_whole("\x80\x80\x80\x80", 4), 4);
}

static void check_sanitized(const char *bytes, size_t n_bytes, const char *expected)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    assert_ok(utf8_sanitize(bytes, n_bytes, &out), NULL);
    assert_string_equal(strbuf_text(&out), expected);
    assert_true(utf8_valid(out.ptr, out.len));
    strbuf_deinit(&out);
}

#define R UTF8_REPLACEMENT

/* Tables 3-8 to 3-11 of the Unicode standard, section 3.9. */
static void test_sanitize(void **state)
{
    (void)state;
    check_sanitized("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", 9, R R R R R R R R "A");
    check_sanitized("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", 9, R R R R R R R R "A");
    check_sanitized("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", 9, R R R R R "A" R R "B");
    check_sanitized("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 9, R R R R "A");
    check_sanitized("\xc3\xa9 ok", 5, "\xc3\xa9 ok");
    check_sanitized("\xc3", 1, R);
    check_sanitized("x\xf0\x9f\x98", 4, "x" R);
    strbuf out;
    strbuf_init(&out, mem_system(), 3);
    assert_ok(utf8_sanitize("", 0, &out), NULL);
    assert_int_equal(utf8_sanitize("ab\xff", 3, &out), WEFT_LIMIT);
    strbuf_deinit(&out);
}

static void test_valid(void **state)
{
    (void)state;
    assert_true(utf8_valid("", 0));
    assert_true(utf8_valid("a\0b", 3));
    assert_true(utf8_valid("\xf4\x8f\xbf\xbf", 4));
    assert_false(utf8_valid("\xf4\x90\x80\x80", 4));
    assert_false(utf8_valid("a\xc3", 2));
    assert_false(utf8_valid("\xed\xa0\x80", 3));
    assert_false(utf8_valid("\xc1\x81", 2));
}

static void test_tidy(void **state)
{
    (void)state;
    char text[8] = "a\x1b\xc2\x9b\xc2\xa0";
    utf8_tidy(text, sizeof text);
    assert_string_equal(text, "a???\xc2\xa0");
    /* Full: it was cut, so the half character goes; not full: it was like that. */
    memcpy(text, "abcde\xe2\x82", 8);
    utf8_tidy(text, sizeof text);
    assert_string_equal(text, "abcde");
    memcpy(text, "abcd\xe2\x82", 7);
    utf8_tidy(text, sizeof text);
    assert_string_equal(text, "abcd??");
    text[0] = '\0';
    utf8_tidy(text, sizeof text);
    utf8_tidy(text, 1);
    assert_string_equal(text, "");
}

static weft_status sanitize(const env *world, void *user, weft_error *err)
{
    (void)user;
    strbuf out;
    strbuf_init(&out, world->allocator, 0);
    static const char BAD[] = {'a', (char)0xff, 'c'};
    for (int i = 0; i < 100; i++) utf8_sanitize(BAD, sizeof BAD, &out);
    weft_status status = out.status;
    strbuf_deinit(&out);
    return status == WEFT_OK ? status : err_set(err, status, "cannot sanitize");
}

static void test_sweep(void **state)
{
    (void)state;
    assert_true(fault_sweep(sanitize, NULL) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_code_points), cmocka_unit_test(test_all_sequences),
        cmocka_unit_test(test_whole),           cmocka_unit_test(test_sanitize),
        cmocka_unit_test(test_valid),           cmocka_unit_test(test_tidy),
        cmocka_unit_test(test_sweep),
    };
    return TEST_RUN("base/utf8", tests);
}
