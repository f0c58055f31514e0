/* test_bpe.c - merging against a naive loop, and in time for texts made to be slow. */
#include "tokenizer/bpe.h"
#include "support/test.h"

#include <string.h>

#include "base/assert.h"
#include "support/fault.h"

/* Spellings over "ab" whose parts are there too, each the result of one merge. */
static const char *const TOKENS[] = {"a", "b", "aa", "ab", "ba", "aab", "abab", "bb", "aaaa"};
static const char *const MERGES[][2] = {{"a", "b"}, {"a", "a"},  {"ab", "ab"}, {"b", "b"},
                                        {"b", "a"}, {"a", "ab"}, {"aa", "b"},  {"aa", "aa"}};

typedef struct machine {
    vocab vocab;
    bpe bpe;
} machine;

static weft_status machine_init(machine *m, const weft_allocator *allocator, weft_error *err)
{
    *m = (machine){0};
    weft_status status = vocab_init(&m->vocab, allocator, COUNT_OF(TOKENS), err);
    if (status == WEFT_OK) status = bpe_init(&m->bpe, allocator, &m->vocab, 0, err);
    for (size_t i = 0; i < COUNT_OF(TOKENS) && status == WEFT_OK; i++)
        status = vocab_put(&m->vocab, (int64_t)i, str_of(TOKENS[i]), VOCAB_MODEL, err);
    for (uint32_t i = 0; i < COUNT_OF(MERGES) && status == WEFT_OK; i++)
        status = bpe_merge(&m->bpe, str_of(MERGES[i][0]), str_of(MERGES[i][1]), i, err);
    if (status == WEFT_OK) bpe_finish(&m->bpe, true);
    return status;
}

static void machine_deinit(machine *m)
{
    bpe_deinit(&m->bpe);
    vocab_deinit(&m->vocab);
}

/* The definition: the pair of the lowest rank, leftmost first, until none is left. */
static size_t naive(const machine *m, const char *text, size_t n, int32_t *ids)
{
    for (size_t i = 0; i < n; i++) ids[i] = text[i] - 'a';
    for (;;) {
        size_t best = SIZE_MAX;
        const pairs_slot *lowest = NULL;
        for (size_t i = 0; i + 1 < n; i++) {
            const pairs_slot *slot =
                pairs_get(&m->bpe.merges, pairs_key((uint32_t)ids[i], (uint32_t)ids[i + 1]));
            if (slot == NULL || (lowest != NULL && slot->rank >= lowest->rank)) continue;
            lowest = slot;
            best = i;
        }
        if (lowest == NULL) return n;
        ids[best] = (int32_t)lowest->value;
        memmove(&ids[best + 1], &ids[best + 2], (n - best - 2) * sizeof *ids);
        n--;
    }
}

static void test_against_naive(void **state)
{
    (void)state;
    machine m;
    weft_error err = {0};
    assert_ok(machine_init(&m, mem_system(), &err), &err);
    bpe_scratch scratch;
    bpe_scratch_init(&scratch, mem_system());
    uint64_t seed = 1;
    for (size_t round = 0; round < 3000; round++) {
        char text[200];
        int32_t expected[200];
        size_t n = 1 + round % COUNT_OF(text); /* both ways of merging */
        for (size_t i = 0; i < n; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            text[i] = (char)('a' + (seed >> 62) % 2);
        }
        token_list list;
        token_list_init(&list, mem_system());
        assert_ok(bpe_encode(&m.bpe, &scratch, (str){text, n}, &list, &err), &err);
        assert_int_equal(list.len, naive(&m, text, n, expected));
        assert_memory_equal(list.ids, expected, list.len * sizeof expected[0]);
        token_list_deinit(&list);
    }
    bpe_scratch_deinit(&scratch);
    machine_deinit(&m);
}

/* Quadratic merging of this would take minutes. */
static void test_long_word(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    machine m;
    weft_error err = {0};
    bpe_scratch scratch;
    token_list list;
    char *text = mem_alloc(mem_system(), N);
    assert_non_null(text);
    memset(text, 'a', N);
    assert_ok(machine_init(&m, mem_system(), &err), &err);
    bpe_scratch_init(&scratch, mem_system());
    token_list_init(&list, mem_system());
    assert_ok(bpe_encode(&m.bpe, &scratch, (str){text, N}, &list, &err), &err);
    assert_int_equal(list.len, N / 4);
    for (size_t i = 0; i < list.len; i++) assert_int_equal(list.ids[i], 8);
    token_list_deinit(&list);
    bpe_scratch_deinit(&scratch);
    machine_deinit(&m);
    mem_free(mem_system(), text, N);
}

static void test_refusals(void **state)
{
    (void)state;
    machine m;
    weft_error err = {0};
    assert_ok(machine_init(&m, mem_system(), &err), &err);
    assert_status(WEFT_FORMAT, bpe_merge(&m.bpe, str_of("x"), str_of("a"), 9, &err), &err);
    assert_message(&err, "'x' of merge 9");
    err = (weft_error){0};
    assert_status(WEFT_FORMAT, bpe_merge(&m.bpe, str_of("bb"), str_of("bb"), 9, &err), &err);
    assert_message(&err, "'bbbb' of merge 9");
    err = (weft_error){0};
    assert_status(WEFT_FORMAT, vocab_put(&m.vocab, 0, str_of("z"), 0, &err), &err);
    err = (weft_error){0};
    assert_status(WEFT_LIMIT, vocab_put(&m.vocab, -1, str_of("z"), 0, &err), &err);
    err = (weft_error){0};
    assert_status(WEFT_LIMIT, vocab_put(&m.vocab, 4000000, str_of("z"), 0, &err), &err);
    machine_deinit(&m);
}

/* A word that is a token is taken as it is, unless the token is special. */
static void test_whole_words(void **state)
{
    (void)state;
    machine m;
    weft_error err = {0};
    bpe_scratch scratch;
    token_list list;
    assert_ok(machine_init(&m, mem_system(), &err), &err);
    assert_ok(vocab_put(&m.vocab, 20, str_of("bab"), VOCAB_MODEL, &err), &err);
    assert_ok(vocab_put(&m.vocab, 21, str_of("bba"), VOCAB_MODEL | VOCAB_SPECIAL, &err), &err);
    m.bpe.whole_words = true;
    bpe_scratch_init(&scratch, mem_system());
    token_list_init(&list, mem_system());
    assert_ok(bpe_encode(&m.bpe, &scratch, str_of("bab"), &list, &err), &err);
    assert_int_equal(list.len, 1);
    assert_int_equal(list.ids[0], 20);
    assert_ok(bpe_encode(&m.bpe, &scratch, str_of("bba"), &list, &err), &err);
    assert_int_equal(list.len, 3);
    token_list_deinit(&list);
    bpe_scratch_deinit(&scratch);
    machine_deinit(&m);
}

static weft_status life(const env *world, void *user, weft_error *err)
{
    (void)user;
    machine m;
    bpe_scratch scratch;
    weft_status status = machine_init(&m, world->allocator, err);
    if (status == WEFT_OK) {
        token_list list;
        char text[100];
        memset(text, 'b', sizeof text);
        bpe_scratch_init(&scratch, world->allocator);
        token_list_init(&list, world->allocator);
        status = bpe_encode(&m.bpe, &scratch, (str){text, sizeof text}, &list, err);
        token_list_deinit(&list);
        bpe_scratch_deinit(&scratch);
    }
    machine_deinit(&m);
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
        cmocka_unit_test(test_against_naive), cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_whole_words),
        cmocka_unit_test(test_faults)};
    return TEST_RUN("tokenizer/bpe", tests);
}
