/* test_regex_rewrite.c - what becomes of Oniguruma's syntax, and what is refused. */
#include "tokenizer/regex.h"
#include "support/test.h"

#include <string.h>

#include "base/assert.h"
#include "support/fault.h"

#define W "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

static void test_rewrites(void **state)
{
    static const char *const CASES[][2] = {
        {"a b", "a\\ b"},
        {"'s|'t", "\\'s|\\'t"},
        {"(a)(?:b)(?<n>c)", "(?:a)(?:b)(?:c)"},
        {"(?=a)(?!b)(?<=c)(?<!d)(?>e)", "(?=a)(?!b)(?<=c)(?<!d)(?>e)"},
        {"(?i)a|b", "(?i)a|b"},
        {"(?m-i:.)", "(?s-i:.)"},
        {"\\p{N}{1,3}", "\\p{N}{1,3}"},
        {"\\p{Han}\\P{Letter}\\p{^lu}", "\\p{sc:Han}\\P{L}\\P{Lu}"},
        {"\\p{White_Space}", "\\p{White_Space}"},
        {"a{2,3}+", "(?:a{2,3})+"},
        {"(ab){2}+c", "(?:(?:ab){2})+c"},
        {"a{,3}?", "a{0,3}?"},
        {"a{x}", "a\\{x\\}"},
        {"a?+b*+c++d*?", "a?+b*+c++d*?"},
        {"[a-z&]", "[a-z\\&]"},
        {"[]a]", "[\\]a]"},
        {"[a-]", "[a\\-]"},
        {"[^\\d]", "[^\\p{Nd}]"},
        {"[a[bc]]", "(?:(?:[a]|[bc]))"},
        {"[a-z&&[^b]]", "(?:(?=(?:[a-z]))(?:[^b]))"},
        {"[^a&&b]", "(?:(?!(?=(?:[a]))(?:[b]))(?s:.))"},
        {"[\\w]", "[" W "]"},
        {"\\h\\v\\x41\\x{e9}\\u00e9\\.", "[0-9a-fA-F]\\x{b}A\xc3\xa9\xc3\xa9\\."},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        strbuf out;
        weft_error err = {0};
        strbuf_init(&out, mem_system(), 0);
        assert_ok(regex_rewrite(str_of(CASES[i][0]), &out, &err), &err);
        assert_string_equal(strbuf_text(&out), CASES[i][1]);
        strbuf_deinit(&out);
    }
}

static void test_refusals(void **state)
{
    static const char *const CASES[][2] = {
        {"(a", "a group without an end"},
        {"a)", "a closing parenthesis"},
        {"[a", "a class without an end"},
        {"[a&&]", "an empty operand"},
        {"[[:alpha:]]", "a POSIX class"},
        {"[\\W]", "an escape of this kind in a class"},
        {"[a-\\d]", "a range that ends in a set"},
        {"(a)\\1", "an escape of this kind"},
        {"a(?i)b", "a group of this kind"},
        {"(?x:a b)", "a group of this kind"},
        {"(*UTF)", "a verb"},
        {"*a", "a repeat of nothing"},
        {"a**", "a repeat of nothing"},
        {"a{2}?", "a lazy repeat"},
        {"\\pL", "a property without braces"},
        {"\\xff", "a byte that is no character"},
        {"\\x{110000}", "a code point that is no character"},
        {"\\ud800", "a code point that is no character"},
        {"\\R", "an escape of this kind"},
        {"\\", "an escape of this kind"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        strbuf out;
        weft_error err = {0};
        strbuf_init(&out, mem_system(), 0);
        assert_status(WEFT_UNSUPPORTED, regex_rewrite(str_of(CASES[i][0]), &out, &err), &err);
        assert_message(&err, CASES[i][1]);
        strbuf_deinit(&out);
    }
}

/* What the rewriting lets through, PCRE2 may refuse: properties it does not know, say. */
static void test_compiling(void **state)
{
    static const char *const CASES[] = {"\\p{Nonsense}", "(?<=a+)b", "[z-a]", "\\p{Punct}"};
    (void)state;
    regex_memory memory;
    weft_error err = {0};
    assert_ok(regex_memory_init(&memory, mem_system(), &err), &err);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        regex r;
        err = (weft_error){0};
        assert_status(WEFT_UNSUPPORTED, regex_init(&r, &memory, str_of(CASES[i]), false, &err),
                      &err);
        assert_null(r.code);
    }
    regex_memory_deinit(&memory);
}

static void test_steps_are_bounded(void **state)
{
    (void)state;
    regex_memory memory;
    regex_search search;
    regex r;
    weft_error err = {0};
    char text[65];
    memset(text, 'a', 64);
    text[64] = 'c';
    bool found;
    size_t start, end;
    assert_ok(regex_memory_init(&memory, mem_system(), &err), &err);
    assert_ok(regex_init(&r, &memory, str_of("(a|a)*(a|a)*(?=b)"), false, &err), &err);
    assert_ok(regex_search_init(&search, mem_system(), 65, &err), &err);
    for (int jit = 0; jit < 2; jit++) {
        r.jit = r.jit && jit == 0;
        err = (weft_error){0};
        assert_status(WEFT_LIMIT,
                      regex_find(&r, &search, (str){text, 65}, 0, &found, &start, &end, &err),
                      &err);
    }
    regex_search_deinit(&search);
    regex_deinit(&r);
    regex_memory_deinit(&memory);
}

static weft_status life(const env *world, void *user, weft_error *err)
{
    (void)user;
    regex_memory memory;
    regex_search search = {0};
    regex r = {0};
    bool found;
    size_t start, end;
    weft_status status = regex_memory_init(&memory, world->allocator, err);
    if (status != WEFT_OK) return status;
    status = regex_init(&r, &memory, str_of("[a&&[^b]]{1,2}+x"), false, err);
    if (status == WEFT_OK) {
        status = regex_search_init(&search, world->allocator, 4, err);
        if (status == WEFT_OK) {
            r.jit = false;
            status = regex_find(&r, &search, str_of("baax"), 0, &found, &start, &end, err);
            if (status == WEFT_OK) assert_true(found && start == 1 && end == 4);
            regex_search_deinit(&search);
        }
    }
    regex_deinit(&r);
    regex_memory_deinit(&memory);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(fault_sweep(life, NULL) >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rewrites), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_compiling), cmocka_unit_test(test_steps_are_bounded),
        cmocka_unit_test(test_faults)};
    return TEST_RUN("tokenizer/regex_rewrite", tests);
}
