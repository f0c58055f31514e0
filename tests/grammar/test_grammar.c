/* test_grammar.c - expressions, choices and rules: what they take and refuse, masks against
 * accepting, rollback, hints, limits and failures. */
#include "grammar/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "base/thread.h"
#include "support/fault.h"
#include "support/grammar_world.h"
#include "support/test.h"

static grammar_vocab *bytes_vocab, *merged_vocab;

/* texts: NUL-separated, ended by an empty one; the first n_yes are taken. */
static void check_texts(grammar_kind kind, const char *source, uint32_t n_yes, const char *texts)
{
    grammar *g = world_compile(bytes_vocab, kind, source);
    for (uint32_t i = 0; *texts != '\0'; i++, texts += strlen(texts) + 1) {
        /* "<>" stands for the empty text. */
        const char *text = strcmp(texts, "<>") == 0 ? "" : texts;
        bool taken = world_takes(g, str_of(text), NULL);
        if (taken != (i < n_yes)) fail_msg("%s: '%s' is %s", source, text, taken ? "taken" : "not");
    }
    grammar_unref(g);
}

static void test_regex(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        uint32_t n_yes;
        const char *texts;
    } CASES[] = {
        {"abc", 1, "abc\0ab\0abcd\0xabc\0"},
        {"^abc$", 1, "abc\0ab\0"},
        {"a*b+c?", 3, "b\0aabbc\0abb\0a\0abcc\0"},
        {"(ab|cd){2,3}", 3, "abcd\0ababab\0cdcd\0ab\0abababab\0"},
        {"[a-c]{2}", 2, "ab\0cc\0a\0abc\0ad\0"},
        {"[^a-c]", 3, "d\0\xc3\xa9\0\xf0\x9f\x98\x80\0a\0dd\0"},
        {".", 2, "a\0\xe2\x82\xac\0\n\0aa\0"},
        {"\\d+\\.\\d{2}", 1,
         "12.34\0"
         "12.3\0.34\0"},
        {"\\w+\\s\\S+", 2, "a b\0_9\t\xc3\xa9\0a\0a \0"},
        {"(a|b*)*c", 4, "c\0abc\0bbbac\0aac\0ab\0"},
        {"(a?){3}b", 4, "b\0ab\0aab\0aaab\0aaaab\0"},
        {"(a{2,3}){2}", 3, "aaaa\0aaaaa\0aaaaaa\0aaa\0aaaaaaa\0"},
        {"((a|b){1,2}c?){2,4}", 3, "ab\0acbc\0abcabcabcabc\0a\0abcabcabcabcabc\0"},
        {"(x|xx){3,5}", 3, "xxx\0xxxxxxxxxx\0xxxx\0xx\0xxxxxxxxxxx\0"},
        {"a{0}b", 1, "b\0ab\0"},
        {"a{,2}", 1, "a{,2}\0aa\0"},
        {"x{2,}", 2, "xx\0xxxxx\0x\0"},
        {"\\u0041\\x42\\u{1F600}\\ud83d\\ude00", 1, "AB\xf0\x9f\x98\x80\xf0\x9f\x98\x80\0AB\0"},
        {"[\\]\\-a]+|\\cA", 3, "]-a\0a\0\x01\0b\0"},
        {"(?:a)(?<name>b)c+?", 2, "abc\0abcc\0ab\0"},
        {"|a", 2, "<>\0a\0b\0"},
        {"[\xc3\xa9-\xc3\xbf\xe2\x82\xac]+", 2, "\xc3\xa9\0\xe2\x82\xac\xc3\xbf\0\xc3\xa8\0\xc3\0"},
        {"(^a|^b)(c|d$)", 2, "ac\0bd\0cd\0"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++)
        check_texts(GRAMMAR_REGEX, CASES[i].pattern, CASES[i].n_yes, CASES[i].texts);
}

/* Nothing that is refused is nothing that is allowed (B58, B55). */
static void test_regex_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *part;
        weft_status status;
    } CASES[] = {
        {"", "empty pattern", WEFT_ARGUMENT},
        {"a(?=b)", "lookahead at byte 3", WEFT_UNSUPPORTED},
        {"(?<!b)a", "lookbehind", WEFT_UNSUPPORTED},
        {"(a)\\1", "back reference", WEFT_UNSUPPORTED},
        {"\\bfoo", "word boundary", WEFT_UNSUPPORTED},
        {"\\p{L}", "Unicode property", WEFT_UNSUPPORTED},
        {"(?i)a", "flags", WEFT_UNSUPPORTED},
        {"a^b", "anchor", WEFT_UNSUPPORTED},
        {"(a$)*", "anchor", WEFT_UNSUPPORTED},
        {"*a", "nothing to repeat", WEFT_FORMAT},
        {"a**", "nothing to repeat at byte 2", WEFT_FORMAT},
        {"(a", "group that does not end", WEFT_FORMAT},
        {"a)", "parenthesis", WEFT_FORMAT},
        {"[a", "class that does not end", WEFT_FORMAT},
        {"[z-a]", "range", WEFT_FORMAT},
        {"a{3,2}", "least is above", WEFT_FORMAT},
        {"a{4294967296}", "count", WEFT_LIMIT},
        {"a\\", "backslash", WEFT_FORMAT},
        {"\\a", "escape", WEFT_UNSUPPORTED},
        {"[]", "no finite text", WEFT_ARGUMENT},
        {"\xff", "UTF-8", WEFT_FORMAT},
        {"\\ud800", "surrogate", WEFT_UNSUPPORTED},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        weft_error err = {.status = WEFT_OK};
        weft_status status =
            world_compiles(bytes_vocab, GRAMMAR_REGEX, str_of(CASES[i].pattern), &err);
        if (status != CASES[i].status) fail_msg("%s: %d %s", CASES[i].pattern, status, err.message);
        assert_message(&err, CASES[i].part);
    }
    char deep[2000];
    memset(deep, '(', 1000);
    memset(deep + 1000, ')', 999);
    deep[1999] = '\0';
    weft_error err = {.status = WEFT_OK};
    assert_status(WEFT_LIMIT, world_compiles(bytes_vocab, GRAMMAR_REGEX, str_of(deep), &err), &err);
}

/* Counts are numbers, not copies. */
static void test_large_counts(void **state)
{
    (void)state;
    grammar *g = world_compile(bytes_vocab, GRAMMAR_REGEX, "(a{3,1000000}b){2,100000}");
    static char text[6000];
    memset(text, 'a', sizeof text);
    text[2999] = text[5999] = 'b';
    assert_true(world_takes(g, (str){text, 6000}, NULL));
    assert_false(world_takes(g, (str){text, 3000}, NULL));
    grammar_unref(g);
    g = world_compile(bytes_vocab, GRAMMAR_REGEX, "(\\w+\\s?){3,100000}");
    assert_true(world_takes(g, str_of("ab c def gh ij k l m n o p q r s t u v w x y z"), NULL));
    assert_false(world_takes(g, str_of("ab"), NULL));
    grammar_unref(g);
}

static void test_choice(void **state)
{
    (void)state;
    check_texts(GRAMMAR_CHOICE, "[\"yes\",\"yes!\",\"no\",\"\\u00e9t\\u00e9\",\"\\u00e8\",\"yes\"]",
                5, "yes\0yes!\0no\0\xc3\xa9t\xc3\xa9\0\xc3\xa8\0ye\0n\0\xc3\0yes!!\0");
    check_texts(GRAMMAR_CHOICE, "[\"\",\"a\"]", 2, "<>\0a\0b\0");
    static const char *const REFUSED[] = {"[]", "{}", "\"a\"", "[1]", "[\"a\",null]", "", "[\"a\""};
    for (size_t i = 0; i < COUNT_OF(REFUSED); i++) {
        weft_error err = {.status = WEFT_OK};
        assert_true(world_compiles(bytes_vocab, GRAMMAR_CHOICE, str_of(REFUSED[i]), &err) < 0);
        assert_true(err.message[0] != '\0');
    }
}

static void test_gbnf(void **state)
{
    (void)state;
    check_texts(GRAMMAR_GBNF,
                "# arithmetic\n"
                "root ::= expr # the text\n"
                "expr ::= term (op term)*\n"
                "op ::= [-+*/] |\n  \" \" [-+] \" \"\n"
                "term ::= num | \"(\" (\n expr )  \")\"\n"
                "num ::= [0-9]{1,3} (\".\" [0-9]+)?\n",
                5,
                "1\0"
                "1+2\0"
                "(1 + 2)*3.14\0((((7))))\0"
                "123/4\0"
                "1234\0(1\0"
                "1+\0"
                "1)\0");
    check_texts(GRAMMAR_GBNF, "root ::= \"\\x41\\n\" [^\\]\\n] . \"\\u00e9\" | x{2}\nx ::= \"z\"?",
                5, "A\nab\xc3\xa9\0A\nx\xe2\x82\xac\xc3\xa9\0z\0zz\0<>\0A\n]b\xc3\xa9\0zzz\0");
    /* Right recursion has no depth. */
    grammar *g = world_compile(bytes_vocab, GRAMMAR_GBNF, "root ::= \"a\" root | \"b\"");
    static char text[20001];
    memset(text, 'a', 20000);
    text[20000] = 'b';
    assert_true(world_takes(g, (str){text, 20001}, NULL));
    grammar_unref(g);
    /* What is nested has, and never leads where it could not end. */
    g = world_compile(bytes_vocab, GRAMMAR_GBNF, "root ::= \"(\" root \")\" | \"b\"");
    memset(text, '(', 20000);
    size_t refused;
    assert_false(world_takes(g, (str){text, 20001}, &refused));
    assert_true(refused > GRAMMAR_DEPTH - 10 && refused <= GRAMMAR_DEPTH);
    memset(text + refused + 1, ')', refused);
    text[refused] = 'b';
    assert_true(world_takes(g, (str){text, refused * 2 + 1}, NULL));
    grammar_unref(g);
}

static void test_gbnf_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } CASES[] = {
        {"", "rule 'root'"},
        {"a ::= \"x\"", "rule 'root'"},
        {"root ::= b", "rule 'b' at byte 9"},
        {"root ::= root \"x\" | \"y\"", "rule 'root' begins with itself"},
        {"root ::= a\na ::= b? root \"x\" | \"y\"\nb ::= \"z\"", "begins with itself"},
        {"root ::= \"x\" root", "no finite text"},
        {"root ::= (a\na ::= \"x\"", "byte 14"},
        {"root ::= \"x", "within a literal"},
        {"root ::= [a", "within a literal or class"},
        {"root = \"x\"", "no '::='"},
        {"root ::= \"x\"\nroot ::= \"y\"", "there before"},
        {"root ::= \"\\q\"", "escape"},
        {"root ::= *", "byte 9"},
        {"root ::= \"x\"?*+?*+?*+", "in a row"},
        {"root ::= \"x\" )", "behind a rule"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        weft_error err = {.status = WEFT_OK};
        if (world_compiles(bytes_vocab, GRAMMAR_GBNF, str_of(CASES[i].text), &err) == WEFT_OK)
            fail_msg("%s", CASES[i].text);
        assert_message(&err, CASES[i].part);
    }
}

/* ---- states ---- */

static const struct {
    grammar_kind kind;
    const char *source;
} SOURCES[] = {
    {GRAMMAR_REGEX, "(a|\xc3\xa9|[\\u4e00-\\u9fff]){0,20}z?"},
    {GRAMMAR_REGEX, "[^x]*|\"[^\"]{2,9}\""},
    {GRAMMAR_REGEX, ".{0,40}"},
    {GRAMMAR_CHOICE, "[\"foo\",\"foobar\",\"the\",\"hello world\"]"},
    {GRAMMAR_GBNF, "root ::= \"[\" (root (\", \" root)*)? \"]\" | [0-9]{1,4} | \"foo\\\":\""},
    {GRAMMAR_JSON, ""},
};

/* Masks, accepting and rollback agree at every step of random texts. */
static void test_masks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(SOURCES); i++) {
        grammar *g = world_compile(merged_vocab, SOURCES[i].kind, SOURCES[i].source);
        for (uint64_t seed = 0; seed < 4; seed++) {
            grammar_state *s, *clone;
            weft_error err = {.status = WEFT_OK};
            assert_ok(grammar_state_create(g, &s, &err), &err);
            for (uint32_t k = 0; k < 25 && !grammar_state_ended(s); k++) {
                uint64_t bits[8], again[8];
                world_check_mask(s, merged_vocab);
                assert_ok(grammar_state_mask(s, bits, &err), &err);
                uint32_t token;
                for (uint64_t n = 0;; n++) {
                    token =
                        (uint32_t)(rng_u64(seed, k * 10000 + n) % grammar_vocab_rows(merged_vocab));
                    if ((bits[token >> 6] >> (token & 63) & 1) != 0) break;
                }
                assert_ok(grammar_state_clone(s, &clone, &err), &err);
                assert_ok(grammar_state_accept(s, (int32_t)token, &err), &err);
                assert_ok(grammar_state_mask(clone, again, &err), &err);
                assert_memory_equal(bits, again, grammar_mask_words(merged_vocab) * sizeof *bits);
                grammar_state_destroy(clone);
                /* There and back again. */
                if (!grammar_state_ended(s)) {
                    assert_ok(grammar_state_mask(s, again, &err), &err);
                    assert_ok(grammar_state_rollback(s, 1, &err), &err);
                    assert_ok(grammar_state_mask(s, again, &err), &err);
                    assert_memory_equal(bits, again, grammar_mask_words(merged_vocab) * 8);
                    assert_ok(grammar_state_accept(s, (int32_t)token, &err), &err);
                }
            }
            grammar_state_destroy(s);
        }
        grammar_unref(g);
    }
}

static void test_end(void **state)
{
    (void)state;
    grammar *g = world_compile(merged_vocab, GRAMMAR_REGEX, "ab?");
    grammar_state *s;
    uint64_t bits[8] = {0};
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_state_create(g, &s, &err), &err);
    assert_status(WEFT_ARGUMENT, grammar_state_accept(s, WORLD_END, &err), &err);
    err.status = WEFT_OK;
    assert_status(WEFT_ARGUMENT, grammar_state_accept(s, WORLD_CONTROL, NULL), NULL);
    assert_status(WEFT_ARGUMENT, grammar_state_accept(s, -1, NULL), NULL);
    /* Rows of the head that no token has are refused as well, and beyond them. */
    for (uint32_t row = world_tokens(true); row < grammar_vocab_rows(merged_vocab) + 70; row++)
        assert_status(WEFT_ARGUMENT, grammar_state_accept(s, (int32_t)row, NULL), NULL);
    assert_ok(grammar_state_accept(s, 'a', &err), &err);
    assert_true(grammar_state_can_end(s));
    assert_false(grammar_state_ended(s));
    assert_ok(grammar_state_accept(s, 'b', &err), &err);
    assert_ok(grammar_state_mask(s, bits, &err), &err);
    for (uint32_t t = 0; t < 512; t++)
        assert_int_equal(bits[t >> 6] >> (t & 63) & 1, t == WORLD_END);
    assert_ok(grammar_state_accept(s, WORLD_END, &err), &err);
    assert_true(grammar_state_ended(s));
    assert_ok(grammar_state_mask(s, bits, &err), &err);
    for (uint32_t t = 0; t < 512; t++)
        assert_int_equal(bits[t >> 6] >> (t & 63) & 1, t == WORLD_END);
    assert_status(WEFT_ARGUMENT, grammar_state_accept(s, 'a', NULL), NULL);
    assert_ok(grammar_state_rollback(s, 2, &err), &err);
    assert_false(grammar_state_ended(s));
    assert_ok(grammar_state_accept(s, 'b', &err), &err);
    assert_status(WEFT_ARGUMENT, grammar_state_rollback(s, 3, &err), &err);
    grammar_state_destroy(s);
    grammar_unref(g);
}

static void test_rollback_far(void **state)
{
    (void)state;
    grammar *g = world_compile(merged_vocab, GRAMMAR_REGEX, "(ab){0,100000}c");
    grammar_state *s;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_state_create(g, &s, &err), &err);
    /* More states than a machine holds: what is of no use is dropped on the way. */
    for (uint32_t i = 0; i < 9001; i++)
        assert_ok(grammar_state_accept(s, i % 2 == 0 ? 'a' : 'b', &err), &err);
    assert_status(WEFT_ARGUMENT, grammar_state_rollback(s, GRAMMAR_ROLLBACK + 1, NULL), NULL);
    assert_ok(grammar_state_rollback(s, GRAMMAR_ROLLBACK, &err), &err);
    assert_status(WEFT_ARGUMENT, grammar_state_accept(s, 'c', NULL), NULL);
    assert_ok(grammar_state_accept(s, 'b', &err), &err);
    assert_ok(grammar_state_accept(s, 'c', &err), &err);
    assert_true(grammar_state_can_end(s));
    grammar_state_destroy(s);
    grammar_unref(g);
}

/* What is forced is allowed, and nothing else could have come. */
static void test_forced(void **state)
{
    (void)state;
    grammar *g = world_compile(merged_vocab, GRAMMAR_CHOICE, "[\"xxfooabcde\",\"xxfooabcdf\"]");
    grammar_state *s;
    int32_t tokens[16];
    uint32_t n;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_state_create(g, &s, &err), &err);
    assert_ok(grammar_state_forced(s, tokens, 16, &n, &err), &err);
    static const int32_t WANTED[] = {'x', 'x'};
    assert_true(n >= 3);
    assert_memory_equal(tokens, WANTED, sizeof WANTED);
    for (uint32_t i = 0; i < n; i++) {
        world_check_mask(s, merged_vocab);
        assert_ok(grammar_state_accept(s, tokens[i], &err), &err);
    }
    assert_ok(grammar_state_rollback(s, n, &err), &err);
    assert_ok(grammar_state_forced(s, tokens, 1, &n, &err), &err);
    assert_int_equal(n, 1);
    grammar_state_destroy(s);
    grammar_unref(g);
}

/* ---- failures ---- */

static weft_status scenario(const env *world, void *user, weft_error *err)
{
    (void)user;
    static const str TOKENS[] = {{"a", 1}, {"b", 1}, {"ab", 2}, {"\"", 1}, {"", 0}};
    static const int32_t ENDS[] = {4};
    const grammar_tokens tokens = {7, 5, TOKENS, NULL, ENDS, 1};
    grammar_vocab *v = NULL;
    grammar *g = NULL;
    grammar_state *s = NULL, *clone = NULL;
    uint64_t bits[1];
    weft_status status = grammar_vocab_create(world, &tokens, &v, err);
    if (status == WEFT_OK)
        status = grammar_compile(world, v, GRAMMAR_GBNF,
                                 str_of("root ::= x{2,9}\nx ::= \"a\" | [b-d]"), &g, err);
    if (status == WEFT_OK) status = grammar_state_create(g, &s, err);
    if (status == WEFT_OK) status = grammar_state_mask(s, bits, err);
    if (status == WEFT_OK) status = grammar_state_accept(s, 2, err);
    if (status == WEFT_OK) status = grammar_state_clone(s, &clone, err);
    if (status == WEFT_OK) status = grammar_state_mask(clone, bits, err);
    grammar_state_destroy(s);
    grammar_state_destroy(clone);
    grammar_unref(g);
    grammar_vocab_destroy(v);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(fault_sweep(scenario, NULL) >= 15);
}

/* Nothing is allocated while a state runs. */
static void test_steady(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    const env world = {&fault.allocator, NULL, NULL};
    grammar *g;
    grammar_state *s;
    uint64_t bits[8];
    int32_t tokens[8];
    uint32_t n;
    weft_error err = {.status = WEFT_OK};
    assert_ok(
        grammar_compile(&world, merged_vocab, GRAMMAR_REGEX, str_of("[a-z]{1,5000}"), &g, &err),
        &err);
    assert_ok(grammar_state_create(g, &s, &err), &err);
    fault.armed = true;
    for (uint32_t i = 0; i < 3000; i++) {
        assert_ok(grammar_state_mask(s, bits, &err), &err);
        assert_ok(grammar_state_forced(s, tokens, 8, &n, &err), &err);
        assert_ok(grammar_state_accept(s, 'a', &err), &err);
    }
    fault.armed = false;
    grammar_state_destroy(s);
    grammar_unref(g);
    fault_allocator_check(&fault);
}

/* A tokenizer's own vocabulary, of a model whose head has more rows (B61). */
static void test_tokenizer(void **state)
{
    (void)state;
    const env world = {mem_system(), io_system(), NULL};
    char *text;
    size_t n;
    tokenizer *t;
    grammar_vocab *v;
    grammar_state *s;
    weft_error err = {.status = WEFT_OK};
    assert_ok(io_read_file(world.io, world.allocator, TINY_PATH("draft/tokenizer.json"), 1 << 24,
                           &text, &n, &err),
              &err);
    assert_ok(tokenizer_parse(&world, text, n, &t, &err), &err);
    mem_free(world.allocator, text, n + 1);
    uint32_t n_tokens = tokenizer_n_vocab(t);
    const int32_t end = tokenizer_find(t, str_of("<|end|>"));
    assert_true(end >= 0 && tokenizer_is_special(t, end));
    assert_ok(grammar_vocab_of(&world, t, n_tokens + 24, &end, 1, &v, &err), &err);
    size_t n_words = grammar_mask_words(v);
    uint64_t *bits = mem_alloc(world.allocator, n_words * sizeof *bits);
    grammar *g = world_compile(v, GRAMMAR_JSON, "");
    assert_non_null(bits);
    assert_ok(grammar_state_create(g, &s, &err), &err);
    for (uint64_t k = 0; k < 120 && !grammar_state_ended(s); k++) {
        assert_ok(grammar_state_mask(s, bits, &err), &err);
        uint32_t token = UINT32_MAX, seen = 0;
        for (uint32_t i = 0; i < n_words * 64; i++) {
            if ((bits[i >> 6] >> (i & 63) & 1) == 0) continue;
            assert_true(i < n_tokens &&
                        (i == (uint32_t)end || !tokenizer_is_special(t, (int32_t)i)));
            seen++;
            if (rng_u64(k, seen) % seen == 0) token = i;
        }
        assert_ok(grammar_state_accept(s, (int32_t)token, &err), &err);
    }
    grammar_state_destroy(s);
    grammar_unref(g);
    mem_free(world.allocator, bits, n_words * sizeof *bits);
    grammar_vocab_destroy(v);
    tokenizer_destroy(t);
}

/* Many threads, one grammar: masks are as one thread makes them. */
typedef struct sharing {
    grammar *g;
    uint64_t sums[4];
} sharing;

static void sum_masks(void *user, uint32_t thread_i)
{
    sharing *all = user;
    grammar_state *s;
    uint64_t bits[8], sum = 0;
    if (grammar_state_create(all->g, &s, NULL) != WEFT_OK) return;
    for (uint32_t i = 0; i < 300; i++) {
        if (grammar_state_mask(s, bits, NULL) != WEFT_OK) break;
        for (uint32_t w = 0; w < grammar_mask_words(merged_vocab); w++) sum = sum * 31 + bits[w];
        if (grammar_state_accept(s, i % 7 == 6 ? ' ' : 'a' + (int32_t)(i % 20), NULL) != WEFT_OK)
            break;
    }
    grammar_state_destroy(s);
    all->sums[thread_i] = sum;
}

static void test_threads(void **state)
{
    (void)state;
    sharing all = {.sums = {0}};
    thread_pool *pool;
    weft_error err = {.status = WEFT_OK};
    all.g = world_compile(merged_vocab, GRAMMAR_REGEX, "([a-t]+ ?)*");
    assert_ok(thread_pool_create(mem_system(), 4, &pool, &err), &err);
    thread_pool_run(pool, sum_masks, &all);
    thread_pool_destroy(pool);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(all.sums[i] != 0);
        assert_int_equal(all.sums[i], all.sums[0]);
    }
    grammar_unref(all.g);
}

static void test_vocab(void **state)
{
    (void)state;
    const env world = {mem_system(), NULL, NULL};
    grammar_vocab *v;
    weft_error err = {.status = WEFT_OK};
    static const str TOKENS[] = {{"a", 1}, {"b", 1}};
    int32_t end = 2;
    grammar_tokens tokens = {2, 2, TOKENS, NULL, &end, 1};
    assert_status(WEFT_ARGUMENT, grammar_vocab_create(&world, &tokens, &v, &err), &err);
    assert_null(v);
    err.status = WEFT_OK;
    tokens.n_ends = 0;
    assert_status(WEFT_ARGUMENT, grammar_vocab_create(&world, &tokens, &v, &err), &err);
    /* A vocabulary that cannot spell what is wanted. */
    err.status = WEFT_OK;
    end = 1;
    tokens.n_ends = 1;
    assert_ok(grammar_vocab_create(&world, &tokens, &v, &err), &err);
    grammar *g = world_compile(v, GRAMMAR_REGEX, "xy");
    grammar_state *s;
    uint64_t bits[1];
    assert_ok(grammar_state_create(g, &s, &err), &err);
    assert_status(WEFT_UNSUPPORTED, grammar_state_mask(s, bits, &err), &err);
    grammar_state_destroy(s);
    grammar_unref(g);
    grammar_vocab_destroy(v);
}

int main(void)
{
    bytes_vocab = world_vocab(false);
    merged_vocab = world_vocab(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regex),        cmocka_unit_test(test_regex_refused),
        cmocka_unit_test(test_large_counts), cmocka_unit_test(test_choice),
        cmocka_unit_test(test_gbnf),         cmocka_unit_test(test_gbnf_refused),
        cmocka_unit_test(test_masks),        cmocka_unit_test(test_end),
        cmocka_unit_test(test_rollback_far), cmocka_unit_test(test_forced),
        cmocka_unit_test(test_faults),       cmocka_unit_test(test_steady),
        cmocka_unit_test(test_vocab),        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_tokenizer),
    };
    int failed = TEST_RUN("grammar/grammar", tests);
    grammar_vocab_destroy(bytes_vocab);
    grammar_vocab_destroy(merged_vocab);
    return failed;
}
