/* test_detok.c - streams come out as whole characters, whatever the tokens cut. */
#include "tokenizer/detok.h"
#include "support/test.h"

#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "support/fault.h"
#include "tokenizer/bytelevel.h"

/* A vocabulary of the 256 bytes, in order, then "<|x|>" (special). */
static tokenizer *bytes_only(const weft_allocator *allocator)
{
    strbuf text;
    strbuf_init(&text, mem_system(), 0);
    strbuf_add_text(&text,
                    "{\"added_tokens\":[{\"id\":256,\"content\":\"<|x|>\",\"special\":true}],"
                    "\"decoder\":{\"type\":\"ByteLevel\"},"
                    "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (uint32_t i = 0; i < 256; i++) {
        char c[4];
        size_t n = utf8_encode(bytelevel_char((uint8_t)i), c);
        strbuf_add_text(&text, i == 0 ? "" : ",");
        json_write_text((str){c, n}, &text);
        strbuf_printf(&text, ":%u", i);
    }
    strbuf_add_text(&text, "}}}");
    env world = {allocator, io_system(), NULL};
    tokenizer *t = NULL;
    weft_error err = {0};
    assert_ok(tokenizer_parse(&world, text.ptr, text.len, &t, &err), &err);
    strbuf_deinit(&text);
    return t;
}

/* The same vocabulary as vocabularies with byte_fallback have it: "<0x41>". */
static tokenizer *bytes_fallback(const weft_allocator *allocator)
{
    strbuf text;
    strbuf_init(&text, mem_system(), 0);
    strbuf_add_text(&text, "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
                           "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]},"
                           "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"merges\":[],"
                           "\"vocab\":{");
    for (uint32_t i = 0; i < 256; i++)
        strbuf_printf(&text, "%s\"<0x%02X>\":%u", i == 0 ? "" : ",", i, i);
    strbuf_add_text(&text, "}}}");
    env world = {allocator, io_system(), NULL};
    tokenizer *t = NULL;
    weft_error err = {0};
    assert_ok(tokenizer_parse(&world, text.ptr, text.len, &t, &err), &err);
    strbuf_deinit(&text);
    return t;
}

static void feed(detok *d, const char *bytes, size_t n, strbuf *out)
{
    for (size_t i = 0; i < n; i++) {
        str part;
        assert_ok(detok_push(d, (unsigned char)bytes[i], &part, NULL), NULL);
        assert_true(utf8_valid(part.ptr, part.len));
        strbuf_add(out, part.ptr, part.len);
    }
}

static void expect_stream(const tokenizer *t, const char *bytes, size_t n, const char *expected)
{
    detok d;
    str part;
    strbuf out;
    detok_init(&d, t, mem_system(), false);
    strbuf_init(&out, mem_system(), 0);
    feed(&d, bytes, n, &out);
    assert_ok(detok_flush(&d, &part, NULL), NULL);
    strbuf_add(&out, part.ptr, part.len);
    assert_string_equal(strbuf_text(&out), expected);
    assert_ok(detok_flush(&d, &part, NULL), NULL);
    assert_int_equal(part.len, 0);
    strbuf_deinit(&out);
    detok_deinit(&d);
}

#define BAD "\xef\xbf\xbd"

/* A character of several tokens may be cut by the end of an answer, behind any of them: nothing
 * but whole characters is shown, and what is left of one becomes U+FFFD. */
static void check_streams(tokenizer *t)
{
    static const char ASTRONAUT[] = "\xf0\x9f\xa7\x91\xe2\x80\x8d\xf0\x9f\x9a\x80";
    static const size_t WHOLE[] = {0, 0, 0, 0, 4, 4, 4, 7, 7, 7, 7, 11}; /* shown after n bytes */
    for (size_t n = 0; n <= 11; n++) {
        char expected[32] = "";
        memcpy(expected, ASTRONAUT, WHOLE[n]);
        if (WHOLE[n] < n) strcat(expected, BAD);
        expect_stream(t, ASTRONAUT, n, expected);
    }
    expect_stream(t, "a\xffz", 3, "a" BAD "z");
    expect_stream(t, "\xe2\x80\xe2\x80\x8d", 5, BAD "\xe2\x80\x8d");
    expect_stream(t, "\xf0\x9f\xa7", 3, BAD);
    expect_stream(t, "\xed\xa0\x80", 3, BAD BAD BAD);
    expect_stream(t, "\xc0\xaf", 2, BAD BAD);
    tokenizer_destroy(t);
}

static void test_streams(void **state)
{
    (void)state;
    check_streams(bytes_only(mem_system()));
}

static void test_streams_of_byte_tokens(void **state)
{
    (void)state;
    check_streams(bytes_fallback(mem_system()));
}

static void test_specials(void **state)
{
    (void)state;
    tokenizer *t = bytes_only(mem_system());
    for (int specials = 0; specials < 2; specials++) {
        detok d;
        str part;
        detok_init(&d, t, mem_system(), specials != 0);
        assert_ok(detok_push(&d, 256, &part, NULL), NULL);
        assert_true(str_equal_text(part, specials ? "<|x|>" : ""));
        assert_ok(detok_push(&d, 257, &part, NULL), NULL);
        assert_int_equal(part.len, 0);
        assert_ok(detok_push(&d, -1, &part, NULL), NULL);
        assert_int_equal(part.len, 0);
        detok_deinit(&d);
    }
    tokenizer_destroy(t);
}

/* After a refusal the same push gives what it would have given. */
static void test_memory(void **state)
{
    (void)state;
    static const char TEXT[] = "x\xe2\x82\xac";
    tokenizer *t = bytes_only(mem_system());
    size_t n_refused = 0;
    for (size_t fail_at = 1; fail_at < 8; fail_at++) {
        fault_allocator fault;
        fault_allocator_init(&fault, fail_at);
        detok d;
        strbuf out;
        detok_init(&d, t, &fault.allocator, false);
        strbuf_init(&out, mem_system(), 0);
        assert_int_equal(fault.n_allocations, 0);
        for (size_t i = 0; i < 4; i++) {
            str part;
            weft_error err = {0};
            if (detok_push(&d, (unsigned char)TEXT[i], &part, &err) != WEFT_OK) {
                assert_status(WEFT_NOMEM, err.status, &err);
                assert_int_equal(part.len, 0);
                n_refused++;
                assert_ok(detok_push(&d, (unsigned char)TEXT[i], &part, NULL), NULL);
            }
            strbuf_add(&out, part.ptr, part.len);
        }
        assert_string_equal(strbuf_text(&out), TEXT);
        strbuf_deinit(&out);
        detok_deinit(&d);
        fault_allocator_check(&fault);
    }
    assert_true(n_refused >= 2);
    tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams), cmocka_unit_test(test_streams_of_byte_tokens),
        cmocka_unit_test(test_specials), cmocka_unit_test(test_memory)};
    return TEST_RUN("tokenizer/detok", tests);
}
