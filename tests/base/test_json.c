/* test_json.c - what is accepted and refused, numbers, order, writing, and jansson's memory
 * running out. */
#define _DEFAULT_SOURCE /* mmap without a file */
#include "base/json.h"
#include "support/test.h"

#include <errno.h>
#include <jansson.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/fault.h"

/* Parses a copy of exact size, so that a byte too far is seen. */
static weft_status parse(json_doc *doc, const char *text, size_t n_bytes, weft_error *err)
{
    char *copy = malloc(n_bytes + (n_bytes == 0));
    assert_non_null(copy);
    memcpy(copy, text, n_bytes);
    weft_status status = json_parse(doc, copy, n_bytes, err);
    free(copy);
    if (status != WEFT_OK) assert_null(doc->root);
    return status;
}

static json_doc parsed(const char *text)
{
    json_doc doc;
    weft_error err = {0};
    assert_ok(parse(&doc, text, strlen(text), &err), &err);
    return doc;
}

static void test_reading(void **state)
{
    (void)state;
    json_doc doc =
        parsed(" {\"i\": -3, \"r\": 2.5, \"t\": true, \"n\": null, \"s\": \"x\\u0000\\u00e9\", "
               "\"a\": [1, [], {}], \"\": 0}\n");
    const json *root = doc.root;
    assert_int_equal(json_kind_of(root), JSON_KIND_OBJECT);
    assert_int_equal(json_length(root), 7);
    const json *i = json_get(root, "i");
    assert_int_equal(json_kind_of(i), JSON_KIND_INT);
    assert_int_equal(json_int(i, 0), -3);
    assert_true(json_number(i, 0.0) == -3.0);
    assert_true(json_bool(i, true));
    assert_int_equal(json_length(i), 0);
    const json *r = json_get(root, "r");
    assert_int_equal(json_kind_of(r), JSON_KIND_REAL);
    assert_true(json_number(r, 0.0) == 2.5);
    assert_int_equal(json_int(r, 9), 9);
    assert_int_equal(json_kind_of(json_get(root, "t")), JSON_KIND_BOOL);
    assert_true(json_bool(json_get(root, "t"), false));
    assert_int_equal(json_kind_of(json_get(root, "n")), JSON_KIND_NULL);
    assert_non_null(json_get(root, "n"));
    str s = json_text(json_get(root, "s"));
    assert_int_equal(s.len, 4);
    assert_memory_equal(s.ptr, "x\0\xc3\xa9", 4);
    const json *a = json_get(root, "a");
    assert_int_equal(json_length(a), 3);
    assert_int_equal(json_int(json_at(a, 0), 0), 1);
    assert_int_equal(json_kind_of(json_at(a, 1)), JSON_KIND_ARRAY);
    assert_null(json_at(a, 3));
    assert_null(json_at(root, 0));
    assert_null(json_get(a, "i"));
    assert_non_null(json_get(root, ""));
    assert_null(json_get(root, "x"));
    json_doc_free(&doc);
    json_doc_free(&doc);
    json_doc_free(NULL);
}

/* Absent values chain: no check between the steps of a path. */
static void test_absent(void **state)
{
    (void)state;
    const json *none = json_get(json_at(json_get(NULL, "a"), 1), "b");
    assert_null(none);
    assert_int_equal(json_kind_of(none), JSON_KIND_NULL);
    assert_int_equal(json_int(none, 5), 5);
    assert_true(json_number(none, 1.5) == 1.5);
    assert_true(json_bool(none, true));
    assert_int_equal(json_text(none).len, 0);
    assert_string_equal(json_text(none).ptr, "");
    assert_int_equal(json_length(none), 0);
    json_iter iter = {0};
    str key;
    const json *value;
    assert_false(json_next(none, &iter, &key, &value));
    for (json_kind kind = JSON_KIND_NULL; kind <= JSON_KIND_OBJECT; kind++) {
        assert_non_null(json_kind_name(kind));
        assert_true(strlen(json_kind_name(kind)) > 0);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } CASES[] = {
        {"", "line 1"},
        {" ", "line 1"},
        {"{\"a\": 1, \"a\": 2}", "duplicate"},
        {"{\"a\": 1, \"\\u0061\": 2}", "duplicate"},
        {"{\"a\\u0000\": 1}", "NUL"},
        {"1 2", "end of file"},
        {"[1]]", "end of file"},
        {"\n\n [1,]", "line 3, column 5"},
        {"{\"a\": 1,}", "line 1"},
        {"[1", "line 1"},
        {"\"abc", "line 1"},
        {"\"\xff\"", "0xff"},
        {"\"\xc0\x80\"", "0xc0"},
        {"\"\xed\xa0\x80\"", "0xed"},
        {"\"\\ud800\"", "Unicode"},
        {"\"\\ud800\\u0041\"", "Unicode"},
        {"\"\\udc00\"", "Unicode"},
        {"\"\\x\"", "escape"},
        {"\"a\nb\"", "newline"},
        {"\"a\tb\"", "control"},
        {"01", "line 1"},
        {"-", "line 1"},
        {"1.", "line 1"},
        {".5", "line 1"},
        {"+1", "line 1"},
        {"1e", "line 1"},
        {"1e400", "overflow"},
        {"-1e400", "overflow"},
        {"NaN", "line 1"},
        {"Infinity", "line 1"},
        {"nul", "line 1"},
        {"{1: 2}", "line 1"},
        {"{\"a\" 1}", "line 1"},
        {"[1 2]", "line 1"},
        {"'a'", "line 1"},
        {"// c\n1", "line 1"},
        {"\xef\xbb\xbf{}", "line 1"},
        {"9223372036854775808e", "line 1"},
        {"99999999999999999999.", "line 1"},
        {"[1-]", "line 1"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        json_doc doc;
        weft_error err = {0};
        weft_status status = parse(&doc, CASES[i].text, strlen(CASES[i].text), &err);
        if (status != WEFT_FORMAT) print_error("text: %s\n", CASES[i].text);
        assert_status(WEFT_FORMAT, status, &err);
        assert_message(&err, CASES[i].message);
    }
    json_doc doc;
    assert_int_equal(parse(&doc, "1\0", 2, NULL), WEFT_FORMAT);
    assert_int_equal(parse(&doc, "[1\0,2]", 6, NULL), WEFT_FORMAT);
    assert_int_equal(parse(&doc, "\0", 1, NULL), WEFT_FORMAT);
    weft_error err = {0};
    assert_status(WEFT_FORMAT, parse(&doc, "\"a\0b\"", 5, &err), &err);
    assert_message(&err, "byte 2");
}

static void put(char *at, const char *piece)
{
    for (size_t i = 0; piece[i] != '\0'; i++) at[i] = piece[i];
}

static void test_depth(void **state)
{
    (void)state;
    enum { DEEP = 300000 };
    char *text = malloc(DEEP);
    assert_non_null(text);
    json_doc doc;
    for (size_t depth = JSON_DEPTH - 1; depth <= JSON_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        weft_error err = {0};
        weft_status expected = depth <= JSON_DEPTH ? WEFT_OK : WEFT_FORMAT;
        assert_status(expected, parse(&doc, text, depth * 2, &err), &err);
        json_doc_free(&doc);
    }
    weft_error err = {0};
    memset(text, '[', DEEP);
    assert_status(WEFT_FORMAT, parse(&doc, text, DEEP, &err), &err);
    assert_message(&err, "512");
    for (size_t i = 0; i + 5 <= DEEP; i += 5) put(text + i, "{\"a\":");
    assert_int_equal(parse(&doc, text, DEEP, NULL), WEFT_FORMAT);
    /* Brackets in texts are no depth, also behind escaped quotes, and wide is not deep. */
    memset(text, '[', DEEP);
    put(text, "[\"\\\\\\\"");
    put(text + DEEP - 2, "\"]");
    assert_ok(parse(&doc, text, DEEP, NULL), NULL);
    assert_int_equal(json_text(json_at(doc.root, 0)).len, DEEP - 6);
    json_doc_free(&doc);
    for (size_t i = 1; i + 3 <= DEEP; i += 3) put(text + i, "[],");
    put(text + (size_t)300 * 3 + 1, "[]]");
    assert_ok(parse(&doc, text, 300 * 3 + 4, NULL), NULL);
    assert_int_equal(json_length(doc.root), 301);
    json_doc_free(&doc);
    free(text);
}

static void check_number(const char *text, json_kind kind, int64_t integer, double real)
{
    json_doc doc = parsed(text);
    assert_int_equal(json_kind_of(doc.root), kind);
    assert_true(json_int(doc.root, 0) == integer);
    assert_true(json_number(doc.root, 0.0) == real);
    json_doc_free(&doc);
}

static void test_numbers(void **state)
{
    (void)state;
    check_number("0", JSON_KIND_INT, 0, 0.0);
    check_number("-0", JSON_KIND_INT, 0, 0.0);
    check_number("9223372036854775807", JSON_KIND_INT, INT64_MAX, 0x1p63);
    check_number("9223372036854775808", JSON_KIND_REAL, 0, 0x1p63);
    check_number("-9223372036854775808", JSON_KIND_INT, INT64_MIN, -0x1p63);
    check_number("-9223372036854775809", JSON_KIND_REAL, 0, -0x1p63);
    check_number("18446744073709551616", JSON_KIND_REAL, 0, 0x1p64);
    check_number(" 18446744073709551616 ", JSON_KIND_REAL, 0, 0x1p64);
    check_number("18446744073709551616.5e0", JSON_KIND_REAL, 0, 0x1p64);
    check_number("1E5", JSON_KIND_REAL, 0, 1e5);
    check_number("1e-400", JSON_KIND_REAL, 0, 0.0);
    check_number("1.7976931348623157e308", JSON_KIND_REAL, 0, 1.7976931348623157e308);
    json_doc doc;
    char digits[400];
    memset(digits, '9', sizeof digits);
    assert_int_equal(parse(&doc, digits, 400, NULL), WEFT_FORMAT);
    assert_int_equal(parse(&doc, digits, 300, NULL), WEFT_OK);
    json_doc_free(&doc);
    /* At every place relative to the pieces in which jansson is fed. */
    char text[2200];
    for (size_t lead = 990; lead < 1040; lead++) {
        memset(text, ' ', sizeof text);
        put(text + lead, "[18446744073709551616,\"18446744073709551616\",7]");
        assert_int_equal(parse(&doc, text, lead + 47, NULL), WEFT_OK);
        assert_true(json_number(json_at(doc.root, 0), 0.0) == 0x1p64);
        assert_true(str_equal_text(json_text(json_at(doc.root, 1)), "18446744073709551616"));
        assert_int_equal(json_int(json_at(doc.root, 2), 0), 7);
        json_doc_free(&doc);
    }
}

static void test_order(void **state)
{
    (void)state;
    enum { N = 3000 };
    strbuf buf;
    strbuf_init(&buf, mem_system(), 0);
    for (unsigned i = 0; i < N; i++)
        strbuf_printf(&buf, "%s\"k%u\":%u", i == 0 ? "{" : ",", (i * 7919) % N, i);
    strbuf_add_char(&buf, '}');
    json_doc doc;
    assert_ok(json_parse(&doc, buf.ptr, buf.len, NULL), NULL);
    json_iter iter = {0};
    str key;
    const json *value;
    for (unsigned i = 0; i < N; i++) {
        char expected[16];
        snprintf(expected, sizeof expected, "k%u", (i * 7919) % N);
        assert_true(json_next(doc.root, &iter, &key, &value));
        assert_true(str_equal_text(key, expected));
        assert_int_equal(json_int(value, 0), i);
    }
    for (int again = 0; again < 3; again++) {
        assert_false(json_next(doc.root, &iter, &key, &value));
        assert_null(value);
        assert_int_equal(key.len, 0);
    }
    json_doc_free(&doc);
    strbuf_deinit(&buf);
}

static void check_written(const char *text, uint32_t indent, const char *expected)
{
    json_doc doc = parsed(text);
    strbuf buf;
    strbuf_init(&buf, mem_system(), 0);
    assert_ok(json_write(doc.root, indent, &buf), NULL);
    assert_string_equal(strbuf_text(&buf), expected);
    strbuf_deinit(&buf);
    json_doc_free(&doc);
}

static void check_all_written(void)
{
    check_written(" { \"b\" : [ 1 , -2.50 , true, false, null ] , \"a\" : { } , \"c\" : [ ] } ", 0,
                  "{\"b\":[1,-2.5,true,false,null],\"a\":{},\"c\":[]}");
    check_written("{\"b\":[1,{\"x\":[]}],\"a\":{}}", 2,
                  "{\n  \"b\": [\n    1,\n    {\n      \"x\": []\n    }\n  ],\n  \"a\": {}\n}");
    check_written(
        "[1.0, 1e22, 1e300, 0.1, 5e-324, 2.2250738585072014e-308, 0.30000000000000004, -0.0]", 0,
        "[1.0,1e+22,1e+300,0.1,4.94065645841247e-324,2.2250738585072014e-308,0.30000000000000004,-"
        "0.0]");
    check_written("\"\\u0000\\u001f\\\"\\\\\\/\\b\\f\\n\\r\\t\x7f\\u00e9\xf0\x9f\x98\x80\"", 0,
                  "\"\\u0000\\u001f\\\"\\\\/\\b\\f\\n\\r\\t\x7f\xc3\xa9\xf0\x9f\x98\x80\"");
}

static void test_writing(void **state)
{
    (void)state;
    check_all_written();
    strbuf buf;
    strbuf_init(&buf, mem_system(), 0);
    assert_ok(json_write(NULL, 0, &buf), NULL);
    assert_ok(json_write_text((str){"a\xff", 2}, &buf), NULL);
    assert_ok(json_write_text((str){NULL, 0}, &buf), NULL);
    assert_string_equal(buf.ptr, "null\"a\xef\xbf\xbd\"\"\"");
    strbuf_deinit(&buf);
    strbuf_init(&buf, mem_system(), 10);
    json_doc doc = parsed("[[[[[1,2,3,4]]]]]");
    assert_int_equal(json_write(doc.root, UINT32_MAX, &buf), WEFT_LIMIT);
    strbuf_deinit(&buf);
    json_doc_free(&doc);
}

/* The host program may have set a locale that writes 1,5. */
static void test_locale(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ps_AF"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (setlocale(LC_NUMERIC, NAMES[i]) != NULL) check_all_written();
    }
    setlocale(LC_NUMERIC, "C");
}

/* ---- jansson's own memory, which weft's allocator does not serve ---- */

static size_t n_asked;
static size_t n_live;
static size_t fail_at;

static void *failing_malloc(size_t size)
{
    if (++n_asked == fail_at) {
        errno = ENOMEM;
        return NULL;
    }
    n_live++;
    return malloc(size);
}

static void counting_free(void *ptr)
{
    if (ptr != NULL) n_live--;
    free(ptr);
}

static void test_jansson_out_of_memory(void **state)
{
    (void)state;
    static const char TEXT[] =
        "[12345678901234567,{\"a\": [1, 2.5, true, \"text\", [1,2,3,4,5,6,7,8,9,10]], \"b\": "
        "{\"c\": null, "
        "\"d\": \"a text that is longer than a first buffer\", \"e\": 18446744073709551616, "
        "\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1}}]";
    json_set_alloc_funcs(failing_malloc, counting_free);
    size_t n_faults = 0;
    for (fail_at = 1;; fail_at++) {
        n_asked = 0;
        json_doc doc;
        weft_error err = {0};
        weft_status status = json_parse(&doc, TEXT, sizeof TEXT - 1, &err);
        bool hit = n_asked >= fail_at;
        assert_status(hit ? WEFT_NOMEM : WEFT_OK, status, &err);
        json_doc_free(&doc);
        assert_int_equal(n_live, 0);
        if (!hit) break;
        n_faults++;
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(n_faults >= 50);
}

static size_t most_bytes;

/* With a page behind it that nobody may read. Never given back. */
static void *guarded_malloc(size_t size)
{
    if (size > most_bytes) {
        n_asked++;
        errno = ENOMEM;
        return NULL;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n = (size + 15) / 16 * 16;
    size_t whole = (n + page - 1) / page * page;
    char *first =
        mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(first, MAP_FAILED);
    assert_int_equal(mprotect(first + whole, page, PROT_NONE), 0);
    memset(first, 'x', whole);
    return first + whole - n;
}

static void ignoring_free(void *ptr)
{
    (void)ptr;
}

/* A text whose end finds no room: jansson would look for it behind its buffer. */
static void test_jansson_without_memory(void **state)
{
    (void)state;
    enum { LONG = 5000 };
    static char text[LONG + 8];
    memset(text, 'x', sizeof text);
    memcpy(text, "[\"", 2);
    memcpy(text + LONG, "\",7]", 4);
    json_set_alloc_funcs(guarded_malloc, ignoring_free);
    for (most_bytes = 16;; most_bytes *= 2) {
        n_asked = 0;
        json_doc doc;
        weft_error err = {0};
        weft_status status = json_parse(&doc, text, LONG + 4, &err);
        assert_status(n_asked > 0 ? WEFT_NOMEM : WEFT_OK, status, &err);
        json_doc_free(&doc);
        if (n_asked == 0) break;
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(most_bytes > LONG);
}

static weft_status write_all(const env *world, void *user, weft_error *err)
{
    strbuf buf;
    strbuf_init(&buf, world->allocator, 0);
    const json_doc *doc = user;
    weft_status status = json_write(doc->root, 4, &buf);
    strbuf_deinit(&buf);
    return status == WEFT_OK ? status : err_set(err, status, "cannot write");
}

static void test_sweep(void **state)
{
    (void)state;
    json_doc doc =
        parsed("{\"a\": [1, 2.5, true, \"text\", null, [[], {\"b\": {\"c\": [false, \"\\n\"]}}]]}");
    assert_true(fault_sweep(write_all, &doc) >= 3);
    json_doc_free(&doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_writing),
        cmocka_unit_test(test_locale),
        cmocka_unit_test(test_jansson_out_of_memory),
        cmocka_unit_test(test_jansson_without_memory),
        cmocka_unit_test(test_sweep),
    };
    return TEST_RUN("base/json", tests);
}
