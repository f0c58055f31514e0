/* test_added.c - which added token is found where. */
#include "tokenizer/added.h"
#include "support/test.h"

#include <string.h>

#include "base/assert.h"
#include "support/fault.h"

typedef struct entry {
    const char *text;
    added_token token;
} entry;

static const added_closed OPEN = {NULL, NULL, 0};

static weft_status write_piece(void *user, str text, int32_t id, weft_error *err)
{
    strbuf *out = user;
    (void)err;
    if (id >= 0) return strbuf_printf(out, "<%d>", (int)id);
    strbuf_add_char(out, '[');
    strbuf_add(out, text.ptr, text.len);
    return strbuf_add_char(out, ']');
}

static weft_status fill(added *a, const weft_allocator *allocator, const entry *entries, size_t n,
                        weft_error *err)
{
    weft_status status = added_init(a, allocator, err);
    for (size_t i = 0; i < n && status == WEFT_OK; i++)
        status = added_put(a, str_of(entries[i].text), entries[i].token, err);
    return status;
}

static void expect_split(const entry *entries, size_t n, const char *text, const char *expected)
{
    added a;
    strbuf out;
    weft_error err = {0};
    strbuf_init(&out, mem_system(), 0);
    assert_ok(fill(&a, mem_system(), entries, n, &err), &err);
    assert_ok(added_split(&a, str_of(text), OPEN, write_piece, &out, &err), &err);
    assert_string_equal(strbuf_text(&out), expected);
    strbuf_deinit(&out);
    added_deinit(&a);
}

static void test_longest(void **state)
{
    static const entry E[] = {{"<a", {.id = 1}},
                              {"<ab>", {.id = 2}},
                              {"b>", {.id = 3}},
                              {"<a", {.id = 4}},
                              {"", {.id = 5}}};
    (void)state;
    expect_split(E, COUNT_OF(E), "", "");
    expect_split(E, COUNT_OF(E), "x", "[x]");
    expect_split(E, COUNT_OF(E), "<ab>", "<2>");
    expect_split(E, COUNT_OF(E), "x<abb>y", "[x]<1>[b]<3>[y]");
    expect_split(E, COUNT_OF(E), "<<a<ab", "[<]<1><1>[b]");
}

static void test_single_word(void **state)
{
    static const entry E[] = {{"cat", {.id = 1, .single_word = true}}};
    (void)state;
    expect_split(E, 1, "cat", "<1>");
    expect_split(E, 1, "a cat.", "[a ]<1>[.]");
    expect_split(E, 1, "cats", "[cats]");
    expect_split(E, 1, "bobcat", "[bobcat]");
    expect_split(E, 1,
                 "\xc3\xa9"
                 "cat",
                 "[\xc3\xa9"
                 "cat]");
    expect_split(E, 1, "cat\xcc\x81", "[cat\xcc\x81]");
    expect_split(E, 1,
                 "\xe2\x98\x83"
                 "cat",
                 "[\xe2\x98\x83]<1>");
    expect_split(E, 1, "cat_cat", "[cat_cat]");
}

static void test_strips(void **state)
{
    static const entry E[] = {{"L", {.id = 1, .lstrip = true}},
                              {"R", {.id = 2, .rstrip = true}},
                              {"\n", {.id = 3, .lstrip = true}}};
    (void)state;
    expect_split(E, COUNT_OF(E), "a \xe3\x80\x80L b", "[a]<1>[ b]");
    expect_split(E, COUNT_OF(E), "a R \tb", "[a ]<2>[b]");
    expect_split(E, COUNT_OF(E), "R L", "<2><1>");
    /* The line ends were taken by the token before. */
    expect_split(E, COUNT_OF(E), "R\n\nx", "<2>[x]");
    expect_split(E, COUNT_OF(E), "a \nb", "[a]<3>[b]");
}

/* Tokens that take white space and are white space: each would look through the whole run again. */
static void test_linear(void **state)
{
    static const entry E[] = {{"\n", {.id = 1, .rstrip = true, .lstrip = true}},
                              {"\t", {.id = 2, .rstrip = true}}};
    enum { N = 1 << 20 };
    (void)state;
    added a;
    strbuf out;
    weft_error err = {0};
    char *text = mem_alloc(mem_system(), N);
    assert_non_null(text);
    for (size_t i = 0; i < N; i++) text[i] = i % 2 == 0 ? '\n' : '\t';
    strbuf_init(&out, mem_system(), 0);
    assert_ok(fill(&a, mem_system(), E, COUNT_OF(E), &err), &err);
    assert_ok(added_split(&a, (str){text, N}, OPEN, write_piece, &out, &err), &err);
    strbuf_deinit(&out);
    added_deinit(&a);
    mem_free(mem_system(), text, N);
}

/* In closed parts nothing is found, and what is found before one does not depend on what is in
 * it. */
static void test_closed(void **state)
{
    static const entry E[] = {{"<s>", {.id = 1}}, {"<s>x", {.id = 2}}};
    static const char TEXT[] = "<s><s>x<s><s>x";
    static const struct {
        str_span spans[2];
        size_t n;
        const char *expected;
    } CASES[] = {{{{0, 0}}, 0, "<1><2><1><2>"},
                 {{{3, 7}}, 1, "<1>[<s>x<s>]<2>"},
                 {{{6, 1}}, 1, "<1><1>[x]<1><2>"},
                 {{{4, 1}, {11, 3}}, 2, "<1>[<s>x]<1>[<s>x]"},
                 {{{0, 14}}, 1, "[<s><s>x<s><s>x]"}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        added a;
        strbuf out;
        weft_error err = {0};
        added_closed closed = {TEXT, CASES[i].spans, CASES[i].n};
        strbuf_init(&out, mem_system(), 0);
        assert_ok(fill(&a, mem_system(), E, COUNT_OF(E), &err), &err);
        assert_ok(added_split(&a, str_of(TEXT), closed, write_piece, &out, &err), &err);
        assert_string_equal(strbuf_text(&out), CASES[i].expected);
        strbuf_deinit(&out);
        added_deinit(&a);
    }
}

static void test_limit(void **state)
{
    char text[TRIE_BYTES + 1];
    (void)state;
    added a;
    weft_error err = {0};
    memset(text, 'x', sizeof text);
    assert_ok(added_init(&a, mem_system(), &err), &err);
    assert_ok(added_put(&a, (str){text, TRIE_BYTES}, (added_token){.id = 1}, &err), &err);
    assert_status(WEFT_LIMIT, added_put(&a, (str){text, sizeof text}, (added_token){.id = 1}, &err),
                  &err);
    added_deinit(&a);
}

static weft_status life(const env *world, void *user, weft_error *err)
{
    static const entry E[] = {{"<|im_start|>", {.id = 1}}, {"<|im_end|>", {.id = 2}}};
    (void)user;
    added a;
    weft_status status = fill(&a, world->allocator, E, COUNT_OF(E), err);
    added_deinit(&a);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(fault_sweep(life, NULL) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest), cmocka_unit_test(test_single_word),
        cmocka_unit_test(test_strips),  cmocka_unit_test(test_linear),
        cmocka_unit_test(test_closed),  cmocka_unit_test(test_limit),
        cmocka_unit_test(test_faults)};
    return TEST_RUN("tokenizer/added", tests);
}
