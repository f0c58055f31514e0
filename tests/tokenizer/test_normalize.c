/* test_normalize.c - normal forms and small letters. Expected texts are from the Unicode
 * Standard (UAX 15, NormalizationTest of version 15). */
#include "tokenizer/normalize.h"
#include "support/test.h"

#include <string.h>

#include "base/assert.h"
#include "support/fault.h"

static void expect(normalizer_kind step, const char *text, const char *expected)
{
    normalizer n = {.n_steps = 0};
    normalizer_scratch scratch;
    str result;
    weft_error err = {0};
    assert_ok(normalizer_init(&n, mem_system(), &err), &err);
    assert_ok(normalizer_add(&n, step, &err), &err);
    normalizer_scratch_init(&scratch, mem_system(), 0);
    assert_ok(normalizer_run(&n, &scratch, str_of(text), true, &result, &err), &err);
    if (!str_equal_text(result, expected))
        fail_msg("step %d: '%s' gives '%.*s'", (int)step, text, (int)result.len, result.ptr);
    normalizer_scratch_deinit(&scratch);
    normalizer_deinit(&n);
}

/* text, NFC, NFD, NFKC, NFKD */
static const char *const FORMS[][5] = {
    {"abc", "abc", "abc", "abc", "abc"},
    {"xe\xcc\x81y", "x\xc3\xa9y", "xe\xcc\x81y", "x\xc3\xa9y", "xe\xcc\x81y"},
    {"\xe2\x84\xab", "\xc3\x85", "A\xcc\x8a", "\xc3\x85", "A\xcc\x8a"}, /* U+212B */
    {"\xef\xac\x81", "\xef\xac\x81", "\xef\xac\x81", "fi", "fi"},       /* U+FB01 */
    {"q\xcc\x87\xcc\xa3", "q\xcc\xa3\xcc\x87", "q\xcc\xa3\xcc\x87", "q\xcc\xa3\xcc\x87",
     "q\xcc\xa3\xcc\x87"}, /* marks in order */
    {"\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc", "\xe0\xa4\x95\xe0\xa4\xbc",
     "\xe0\xa4\x95\xe0\xa4\xbc", "\xe0\xa4\x95\xe0\xa4\xbc"}, /* U+0958, excluded */
    {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8",
     "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"}, /* Hangul */
    {"\xc2\xb2 \xe2\x91\xa0", "\xc2\xb2 \xe2\x91\xa0", "\xc2\xb2 \xe2\x91\xa0", "2 1", "2 1"},
};

static void test_forms(void **state)
{
    static const normalizer_kind STEPS[] = {NORMALIZE_NFC, NORMALIZE_NFD, NORMALIZE_NFKC,
                                            NORMALIZE_NFKD};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(FORMS); i++) {
        for (size_t k = 0; k < COUNT_OF(STEPS); k++) expect(STEPS[k], FORMS[i][0], FORMS[i][k + 1]);
    }
}

static void test_lowercase(void **state)
{
    (void)state;
    expect(NORMALIZE_LOWERCASE, "aBZ[", "abz[");
    expect(NORMALIZE_LOWERCASE, "\xc3\x89\xce\xa3\xe1\xba\x9e", "\xc3\xa9\xcf\x83\xc3\x9f");
    expect(NORMALIZE_LOWERCASE, "\xc4\xb0", "i\xcc\x87");
    expect(NORMALIZE_LOWERCASE, "\xf0\x90\x90\x80", "\xf0\x90\x90\xa8"); /* U+10400 */
}

static void test_sequence(void **state)
{
    (void)state;
    normalizer n = {.n_steps = 0};
    normalizer_scratch scratch;
    str result;
    weft_error err = {0};
    assert_ok(normalizer_init(&n, mem_system(), &err), &err);
    assert_ok(normalizer_add(&n, NORMALIZE_NFD, &err), &err);
    assert_ok(normalizer_add(&n, NORMALIZE_LOWERCASE, &err), &err);
    assert_ok(normalizer_add(&n, NORMALIZE_NFC, &err), &err);
    normalizer_scratch_init(&scratch, mem_system(), 0);
    assert_ok(normalizer_run(&n, &scratch, str_of("\xc3\x89X"), true, &result, &err), &err);
    assert_true(str_equal_text(result, "\xc3\xa9x"));
    assert_ok(normalizer_run(&n, &scratch, (str){"", 0}, true, &result, &err), &err);
    assert_int_equal(result.len, 0);
    for (uint32_t i = n.n_steps; i < NORMALIZER_STEPS; i++)
        assert_ok(normalizer_add(&n, NORMALIZE_NFC, &err), &err);
    assert_status(WEFT_LIMIT, normalizer_add(&n, NORMALIZE_NFC, &err), &err);
    normalizer_scratch_deinit(&scratch);
    normalizer_deinit(&n);
}

/* A mebibyte of marks in the worst order; exchanging neighbours would take hours. */
static void test_marks_in_linear_time(void **state)
{
    enum { N = 1 << 20 };
    (void)state;
    char *text = mem_alloc(mem_system(), N);
    assert_non_null(text);
    for (size_t i = 0; i < N; i += 4) memcpy(text + i, "\xcc\x81\xcc\xa3", 4);
    normalizer n = {.n_steps = 0};
    normalizer_scratch scratch;
    str result;
    weft_error err = {0};
    assert_ok(normalizer_init(&n, mem_system(), &err), &err);
    assert_ok(normalizer_add(&n, NORMALIZE_NFC, &err), &err);
    normalizer_scratch_init(&scratch, mem_system(), 0);
    assert_ok(normalizer_run(&n, &scratch, (str){text, N}, true, &result, &err), &err);
    assert_int_equal(result.len, N);
    for (size_t i = 0; i < N; i += 2)
        assert_memory_equal(result.ptr + i, i < N / 2 ? "\xcc\xa3" : "\xcc\x81", 2);
    normalizer_scratch_deinit(&scratch);
    normalizer_deinit(&n);
    mem_free(mem_system(), text, N);
}

static void test_limit(void **state)
{
    (void)state;
    normalizer n = {.n_steps = 0};
    normalizer_scratch scratch;
    str result;
    weft_error err = {0};
    assert_ok(normalizer_init(&n, mem_system(), &err), &err);
    assert_ok(normalizer_add(&n, NORMALIZE_NFKC, &err), &err);
    normalizer_scratch_init(&scratch, mem_system(), 8);
    assert_status(WEFT_LIMIT,
                  normalizer_run(&n, &scratch, str_of("\xef\xb7\xba"), true, &result, &err), &err);
    assert_int_equal(result.len, 0);
    normalizer_scratch_deinit(&scratch);
    normalizer_deinit(&n);
}

static weft_status life(const env *world, void *user, weft_error *err)
{
    char text[400];
    (void)user;
    normalizer n = {.n_steps = 0};
    normalizer_scratch scratch;
    str result;
    for (size_t i = 0; i < sizeof text; i += 4) memcpy(text + i, "\xcc\x81\xcc\xa3", 4);
    weft_status status = normalizer_init(&n, world->allocator, err);
    if (status == WEFT_OK) status = normalizer_add(&n, NORMALIZE_NFKD, err);
    if (status == WEFT_OK) status = normalizer_add(&n, NORMALIZE_LOWERCASE, err);
    normalizer_scratch_init(&scratch, world->allocator, 0);
    if (status == WEFT_OK)
        status = normalizer_run(&n, &scratch, (str){text, sizeof text}, true, &result, err);
    normalizer_scratch_deinit(&scratch);
    normalizer_deinit(&n);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(fault_sweep(life, NULL) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),    cmocka_unit_test(test_lowercase),
        cmocka_unit_test(test_sequence), cmocka_unit_test(test_marks_in_linear_time),
        cmocka_unit_test(test_limit),    cmocka_unit_test(test_faults)};
    return TEST_RUN("tokenizer/normalize", tests);
}
