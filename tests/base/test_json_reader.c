/* test_json_reader.c - values one by one: the same as a document of them, and the same refused. */
#include "base/json_reader.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "support/json_same.h"

/* A copy of exact size, so that a byte too far is seen. */
static str exact(const char *text, size_t n_bytes)
{
    char *copy = malloc(n_bytes + (n_bytes == 0));
    assert_non_null(copy);
    memcpy(copy, text, n_bytes);
    return (str){copy, n_bytes};
}

static void release(str text)
{
    void *block;
    memcpy(&block, &text.ptr, sizeof block);
    free(block);
}

static void test_same_as_document(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "{}",
        "[]",
        " [ ] ",
        "[[]]",
        "[{}]",
        "0",
        "-0",
        "true",
        "null",
        "\"\"",
        "\"a\"",
        " {\"a\": 1, \"b\": [1, 2.5, -3e2, \"x\"], \"c\": {\"d\": null, \"\": false}}\n",
        "[\"\\u00e9\\ud83d\\ude00\\n\\t\\\"\\\\\\/\\b\\f\\r\", \"\\u0000\", \"é€😀\"]",
        "[9223372036854775807, -9223372036854775808, 123456789012345678, 1e300, 0.1]",
        "[[[[1], 2], 3], {\"a\": {\"b\": [\",\", \"]\", \"\\\"}\"]}}]",
    };
    strbuf room;
    strbuf_init(&room, mem_system(), 0);
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        str text = exact(TEXTS[i], strlen(TEXTS[i]));
        json_doc doc;
        json_reader r;
        weft_error err = {0};
        assert_ok(json_parse(&doc, text.ptr, text.len, &err), &err);
        json_reader_init(&r, text, &room);
        json_same(&r, doc.root);
        assert_ok(json_reader_end(&r, &err), &err);
        json_doc_free(&doc);
        release(text);
    }
    strbuf_deinit(&room);
}

static weft_status read_as(json_reader *r, char how, weft_error *err)
{
    str text;
    int64_t whole;
    double number;
    size_t n;
    switch (how) {
    case 't':
        return json_reader_text(r, &text, err);
    case 'k':
        return json_reader_key(r, &text, err);
    case 'i':
        return json_reader_int(r, &whole, err);
    case 'n':
        return json_reader_number(r, &number, err);
    case 's':
        return json_reader_skip(r, &text, &n, err);
    case 'e':
        return json_reader_end(r, err);
    default:
        return json_reader_open(r, how, err);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        char how;
        const char *message;
    } CASES[] = {
        {"", 't', "ends at byte 7"},
        {"x", 't', "no text at byte 7"},
        {"\"abc", 't', "ends at byte 11"},
        {"\"a\nb\"", 't', "no end of a text at byte 9"},
        {"\"\xff\"", 't', "invalid UTF-8 in the text at byte 7"},
        {"\"\xed\xa0\x80\"", 't', "invalid UTF-8"},
        {"\"\\ud800\"", 't', "Unicode escape"},
        {"\"\\ud800\\u0041\"", 't', "Unicode escape"},
        {"\"\\udc00\"", 't', "Unicode escape"},
        {"\"\\u12", 't', "Unicode escape"},
        {"\"\\u12g4\"", 't', "Unicode escape"},
        {"\"\\x\"", 't', "no escape at byte 9"},
        {"\"\\", 't', "expected escape"},
        {"\"a\" 1", 'k', "no colon at byte 11"},
        {"1.0", 'i', "no integer at byte 7"},
        {"1e2", 'i', "no integer"},
        {"01", 'i', "JSON line 1"},
        {"-", 'i', "JSON line 1"},
        {"9223372036854775808", 'i', "no integer"},
        {"\"1\"", 'i', "no integer"},
        {"+1", 'n', "no number"},
        {"1.", 'n', "JSON line 1"},
        {"1e400", 'n', "overflow"},
        {"[1, 2", 's', "ends at byte 12"},
        {"{\"a\": \"b", 's', "ends at byte 15"},
        {"]", 's', "no value at byte 7"},
        {"1", 'e', "no end at byte 7"},
        {"{", '[', "no array at byte 7"},
        {"[", '{', "no object at byte 7"},
    };
    strbuf room;
    strbuf_init(&room, mem_system(), 0);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        str text = exact(CASES[i].text, strlen(CASES[i].text));
        json_reader r;
        weft_error err = {0};
        json_reader_init(&r, text, &room);
        r.base = 7;
        assert_status(WEFT_FORMAT, read_as(&r, CASES[i].how, &err), &err);
        assert_message(&err, CASES[i].message);
        release(text);
    }
    strbuf_deinit(&room);
}

static void test_lists_refused(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"[1 2]", "[1,]", "[,1]", "[1", "[1,", "[1}"};
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        json_reader r;
        bool first = true;
        bool more = true;
        json_reader_init(&r, str_of(TEXTS[i]), NULL);
        weft_status status = json_reader_open(&r, '[', NULL);
        while (status == WEFT_OK && more) {
            int64_t value;
            status = json_reader_more(&r, '[', &first, &more, NULL);
            if (status == WEFT_OK && more) status = json_reader_int(&r, &value, NULL);
        }
        assert_int_equal(status, WEFT_FORMAT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_document),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lists_refused),
    };
    return TEST_RUN("base/json_reader", tests);
}
