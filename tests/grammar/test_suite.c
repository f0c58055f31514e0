/* test_suite.c - JSON-Schema-Test-Suite (tests/grammar/suite) against grammars: what a schema
 * forbids is never taken; what is refused, and what is outside of the smaller language that is
 * written, stands in suite/expected.txt, so that neither grows unseen. Texts drawn from grammars
 * are judged by a plain validator, which the suite judges first.
 *
 * With an argument, writes there what expected.txt should hold. */
#include "grammar/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "support/grammar_world.h"
#include "support/json_schema.h"
#include "support/test.h"

/* Numbers as they were written, not as their doubles are. */
#define DUMP (JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(16))

enum { SAMPLES = TEST_SLOWED ? 1 : 3, SAMPLE_TOKENS = 90 };

static json_t *suite;
static grammar_vocab *bytes_vocab, *merged_vocab;

static json_t *load_suite(void)
{
    json_error_t error;
    json_t *root = json_load_file(WEFT_SOURCE_DIR "/tests/grammar/suite/draft2020-12.json",
                                  JSON_ALLOW_NUL, &error);
    if (root == NULL) fprintf(stderr, "suite: line %d: %s\n", error.line, error.text);
    return root;
}

static bool about_formats(const char *file)
{
    return strncmp(file, "optional/format/", 16) == 0;
}

static void note(strbuf *out, const char *verb, const char *file, const json_t *test,
                 const char *rest)
{
    (void)strbuf_printf(out, "%s %s: %s: %s\n", verb, file,
                        json_string_value(json_array_get(test, 0)), rest);
}

/* One case of the suite; what is worth a line goes to out. */
static void check_case(const char *file, const json_t *test, strbuf *out)
{
    const env world = {mem_system(), NULL, NULL};
    grammar *g;
    weft_error err = {.status = WEFT_OK};
    char *source = json_dumps(json_array_get(test, 1), DUMP);
    weft_status status =
        grammar_compile(&world, bytes_vocab, GRAMMAR_SCHEMA, str_of(source), &g, &err);
    assert_true(status == err.status && status != WEFT_NOMEM);
    if (status != WEFT_OK) note(out, "refused", file, test, err.message);
    const json_t *instances = json_array_get(test, 2);
    for (size_t i = 0; g != NULL && i < json_array_size(instances); i++) {
        const json_t *pair = json_array_get(instances, i);
        char *text = json_dumps(json_array_get(pair, 0), DUMP);
        bool valid = json_is_true(json_array_get(pair, 1));
        bool taken = world_takes(g, str_of(text), NULL);
        if (taken && !valid) fail_msg("%s: %s takes %s", file, source, text);
        if (!taken && valid) note(out, "outside", file, test, text);
        free(text);
    }
    grammar_unref(g);
    free(source);
}

static void check_all(strbuf *out)
{
    const char *file;
    json_t *cases;
    json_object_foreach(suite, file, cases)
    {
        for (size_t i = 0; i < json_array_size(cases); i++)
            check_case(file, json_array_get(cases, i), out);
    }
}

/* Shows the first line that differs. */
static void compare(const char *actual, const char *expected)
{
    while (*actual != '\0' || *expected != '\0') {
        size_t n = strcspn(actual, "\n"), m = strcspn(expected, "\n");
        if (n != m || memcmp(actual, expected, n) != 0)
            fail_msg("is: %.*s\nexpected: %.*s", (int)n, actual, (int)m, expected);
        actual += n + (actual[n] == '\n');
        expected += m + (expected[m] == '\n');
    }
}

static void test_cases(void **state)
{
    (void)state;
    strbuf out;
    char *expected;
    size_t n;
    weft_error err = {.status = WEFT_OK};
    strbuf_init(&out, mem_system(), 0);
    check_all(&out);
    assert_ok(io_read_file(io_system(), mem_system(),
                           WEFT_SOURCE_DIR "/tests/grammar/suite/expected.txt", 1 << 20, &expected,
                           &n, &err),
              &err);
    compare(strbuf_text(&out), expected);
    mem_free(mem_system(), expected, n + 1);
    strbuf_deinit(&out);
}

/* The judge itself. */
static void test_validator(void **state)
{
    (void)state;
    const char *file;
    json_t *cases;
    uint32_t n_known = 0, n_unknown = 0;
    json_object_foreach(suite, file, cases)
    {
        /* Keywords of other drafts and formats mean nothing to it. */
        bool other = strstr(file, "compatibility") != NULL || about_formats(file);
        for (size_t i = 0; !other && i < json_array_size(cases); i++) {
            const json_t *test = json_array_get(cases, i), *instances = json_array_get(test, 2);
            for (size_t k = 0; k < json_array_size(instances); k++) {
                const json_t *pair = json_array_get(instances, k);
                json_schema_answer answer =
                    json_schema_validate(json_array_get(test, 1), json_array_get(pair, 0), false);
                bool valid = json_is_true(json_array_get(pair, 1));
                n_unknown += answer == JSON_SCHEMA_UNKNOWN;
                n_known += answer != JSON_SCHEMA_UNKNOWN;
                if (answer == JSON_SCHEMA_UNKNOWN || (answer == JSON_SCHEMA_YES) == valid) continue;
                fail_msg("%s: %s: %zu", file, json_string_value(json_array_get(test, 0)), k);
            }
        }
    }
    assert_true(n_known > 1000 && n_unknown < 150);
}

/* What is drawn from the grammar of a schema satisfies it. */
static void check_samples(const json_t *schema, const grammar_vocab *v, uint64_t seed,
                          uint32_t *n_drawn)
{
    const env world = {mem_system(), NULL, NULL};
    grammar *g;
    char *source = json_dumps(schema, DUMP);
    if (grammar_compile(&world, v, GRAMMAR_SCHEMA, str_of(source), &g, NULL) == WEFT_OK) {
        for (uint64_t i = 0; i < SAMPLES; i++) {
            strbuf text;
            strbuf_init(&text, mem_system(), 0);
            if (world_sample(g, v, seed * 1000 + i, SAMPLE_TOKENS, &text)) {
                json_error_t error;
                json_t *value = json_loadb(strbuf_text(&text), text.len,
                                           JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
                if (value == NULL) fail_msg("%s\nis no JSON: %s", strbuf_text(&text), error.text);
                if (json_schema_validate(schema, value, true) == JSON_SCHEMA_NO)
                    fail_msg("%s\ndoes not satisfy %s", strbuf_text(&text), source);
                ++*n_drawn;
                json_decref(value);
            }
            strbuf_deinit(&text);
        }
        grammar_unref(g);
    }
    free(source);
}

static void test_samples(void **state)
{
    (void)state;
    const char *file;
    json_t *cases;
    uint32_t n_drawn = 0;
    uint64_t seed = 1;
    json_object_foreach(suite, file, cases)
    {
        for (size_t i = 0; i < json_array_size(cases); i++, seed++) {
            const json_t *schema = json_array_get(json_array_get(cases, i), 1);
            check_samples(schema, bytes_vocab, seed, &n_drawn);
            check_samples(schema, merged_vocab, seed, &n_drawn);
        }
    }
    assert_true(n_drawn >= 400 * SAMPLES);
}

static int write_expected(const char *path)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    check_all(&out);
    FILE *f = fopen(path, "wb");
    bool done = f != NULL && fwrite(strbuf_text(&out), 1, out.len, f) == out.len;
    if (f != NULL) done = fclose(f) == 0 && done;
    strbuf_deinit(&out);
    return done ? 0 : 1;
}

int main(int argc, char **argv)
{
    suite = load_suite();
    bytes_vocab = world_vocab(false);
    merged_vocab = world_vocab(true);
    if (suite == NULL) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_validator),
                                       cmocka_unit_test(test_cases),
                                       cmocka_unit_test(test_samples)};
    int failed = argc > 1 ? write_expected(argv[1]) : TEST_RUN("grammar/suite", tests);
    grammar_vocab_destroy(bytes_vocab);
    grammar_vocab_destroy(merged_vocab);
    json_decref(suite);
    return failed;
}
