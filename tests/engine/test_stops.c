/* test_stops.c - texts that are looked for, against looking everywhere after each byte: what is
 * found and what is held back is the same however the bytes come. */
#include "engine/stops.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "support/fault.h"
#include "support/test.h"

static uint64_t counter;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)(rng_u64(55, counter++) % n);
}

static bool ends_with(const char *bytes, size_t n, const char *text, size_t length)
{
    return n >= length && memcmp(bytes + (n - length), text, length) == 0;
}

/* Up to where bytes [n] are taken, and by the longest of which text. */
static size_t find_plainly(const char *const *texts, uint32_t n_texts, const char *bytes, size_t n,
                           int32_t *which)
{
    *which = -1;
    for (size_t end = 1; end <= n; end++) {
        for (uint32_t i = 0; i < n_texts; i++) {
            if (!ends_with(bytes, end, texts[i], strlen(texts[i]))) continue;
            if (*which < 0 || strlen(texts[i]) > strlen(texts[*which])) *which = (int32_t)i;
        }
        if (*which >= 0) return end;
    }
    return n;
}

static size_t held_plainly(const char *const *texts, uint32_t n_texts, const char *bytes, size_t n)
{
    size_t most = 0;
    for (uint32_t i = 0; i < n_texts; i++) {
        for (size_t length = most + 1; length < strlen(texts[i]); length++) {
            if (ends_with(bytes, n, texts[i], length)) most = length;
        }
    }
    return most;
}

static void check(const char *const *texts, uint32_t n_texts, const char *bytes, size_t n)
{
    fault_allocator memory;
    fault_allocator_init(&memory, 0);
    stops s;
    assert_true(stops_init(&s, &memory.allocator, texts, n_texts));
    int32_t expected;
    size_t end = find_plainly(texts, n_texts, bytes, n, &expected);
    stops_state state = {{0}};
    size_t taken = 0;
    int32_t which = -1;
    while (taken < n && which < 0) {
        size_t piece = 1 + pick(9);
        if (piece > n - taken) piece = n - taken;
        size_t used = stops_feed(&s, &state, bytes + taken, piece, &which);
        assert_true(used == piece || which >= 0);
        taken += used;
        if (which < 0)
            assert_int_equal(stops_held(&s, &state), held_plainly(texts, n_texts, bytes, taken));
    }
    assert_int_equal(which, expected);
    assert_int_equal(taken, end);
    if (which >= 0) assert_int_equal(stops_length(&s, (uint32_t)which), strlen(texts[which]));
    stops_deinit(&s, &memory.allocator);
    fault_allocator_check(&memory);
}

static void test_against_looking_everywhere(void **state)
{
    (void)state;
    uint32_t n_found = 0;
    for (uint32_t round = 0; round < 4000; round++) {
        char memory[WEFT_STOP_TEXTS][24];
        const char *texts[WEFT_STOP_TEXTS];
        char bytes[200];
        uint32_t n_letters = 1 + pick(4);
        uint32_t n_texts = pick(WEFT_STOP_TEXTS + 1);
        for (uint32_t i = 0; i < n_texts; i++) {
            uint32_t length = 1 + pick(round % 2 == 0 ? 4 : 23);
            for (uint32_t k = 0; k < length; k++) memory[i][k] = (char)('a' + (int)pick(n_letters));
            memory[i][length] = '\0';
            texts[i] = memory[i];
        }
        size_t n = pick(sizeof bytes + 1);
        for (size_t k = 0; k < n; k++)
            bytes[k] = (char)('a' + (int)pick(n_letters + (round % 3 > 0)));
        check(texts, n_texts, bytes, n);
        int32_t which;
        find_plainly(texts, n_texts, bytes, n, &which);
        n_found += which >= 0;
    }
    assert_in_range(n_found, 1000, 3900);
}

/* Of texts that end together the longest counts, so that the answer ends before all of them; of
 * others the one that is complete first. */
static void test_which(void **state)
{
    (void)state;
    static const struct {
        const char *texts[3], *bytes;
        int32_t which;
        size_t end;
    } CASES[] = {
        {{"c", "bc", "abc"}, "xxabc", 2, 5},   {{"bc", "abcd", "zz"}, "abcd", 0, 3},
        {{"abcd", "x", "cde"}, "abcde", 0, 4}, {{"aab", "b", "aaab"}, "aaaab", 2, 5},
        {{"\n\n", "\n", "x"}, "a\n\n", 1, 2},  {{"same", "same", "same"}, "the same", 0, 8},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        stops s;
        stops_state at = {{0}};
        int32_t which;
        assert_true(stops_init(&s, mem_system(), CASES[i].texts, 3));
        size_t n = stops_feed(&s, &at, CASES[i].bytes, strlen(CASES[i].bytes), &which);
        assert_int_equal(which, CASES[i].which);
        assert_int_equal(n, CASES[i].end);
        stops_deinit(&s, mem_system());
    }
}

/* The longest texts there may be, as many as there may be, and memory that is refused. */
static void test_largest(void **state)
{
    (void)state;
    char text[WEFT_STOP_TEXT_BYTES + 1];
    char bytes[3 * WEFT_STOP_TEXT_BYTES];
    const char *texts[WEFT_STOP_TEXTS];
    memset(text, 'a', WEFT_STOP_TEXT_BYTES);
    text[WEFT_STOP_TEXT_BYTES] = '\0';
    for (uint32_t i = 0; i < WEFT_STOP_TEXTS; i++) texts[i] = text;
    memset(bytes, 'a', sizeof bytes);
    bytes[WEFT_STOP_TEXT_BYTES - 1] = 'b';
    check(texts, WEFT_STOP_TEXTS, bytes, sizeof bytes);
    check(texts, WEFT_STOP_TEXTS, bytes, 2 * WEFT_STOP_TEXT_BYTES - 1);
    fault_allocator memory;
    fault_allocator_init(&memory, 1);
    stops s;
    assert_false(stops_init(&s, &memory.allocator, texts, WEFT_STOP_TEXTS));
    stops_deinit(&s, &memory.allocator);
    fault_allocator_check(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_looking_everywhere),
        cmocka_unit_test(test_which),
        cmocka_unit_test(test_largest),
    };
    return TEST_RUN("engine/stops", tests);
}
