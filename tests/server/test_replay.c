/* test_replay.c - answers that come back: which are the same, and how many are kept. */
#include "server/replay.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

static replay_key key(const char *model, const char *content)
{
    replay_key k;
    replay_key_init(&k, str_of(model), str_of(content));
    return k;
}

static replay_key called(const char *content, const char *name, const char *arguments)
{
    replay_key k = key("m", content);
    replay_key_add_call(&k, str_of(name), str_of(arguments));
    return k;
}

static bool same(replay_key a, replay_key b)
{
    return a.low == b.low && a.high == b.high;
}

static bool has(replay *r, replay_key k, const char *expected)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    bool found = replay_get(r, k, &out);
    if (found) assert_string_equal(strbuf_text(&out), expected);
    if (!found) assert_int_equal(out.len, 0);
    strbuf_deinit(&out);
    return found;
}

static void test_keys(void **state)
{
    (void)state;
    assert_true(same(key("m", "hello"), key("m", "  hello\n")));
    assert_true(same(key("m", ""), key("m", " \t")));
    assert_false(same(key("m", "hello"), key("n", "hello")));
    assert_false(same(key("m", "hello"), key("m", "hell o")));
    assert_false(same(key("mh", "ello"), key("m", "hello")));
    assert_true(same(called("x", "f", "{\"a\":1}"), called("x", "f", " { \"a\" : 1 } ")));
    assert_false(same(called("x", "f", "{\"a\":1}"), called("x", "f", "{\"a\":2}")));
    assert_false(same(called("x", "f", "{}"), called("x", "g", "{}")));
    assert_false(same(called("x", "f", "{}"), key("m", "x")));
    /* What is told of one does not count for another. */
    assert_false(same(called("xf", "", "{}"), called("x", "f", "{}")));
    assert_false(same(called("x", "f{}", ""), called("x", "f", "{}")));
    /* No JSON at all is text. */
    assert_true(same(called("x", "f", "{"), called("x", "f", "{")));
    assert_false(same(called("x", "f", "{"), called("x", "f", "{ ")));
    /* Calls count in their order. */
    replay_key a = called("x", "f", "{}");
    replay_key b = called("x", "g", "{}");
    replay_key_add_call(&a, str_of("g"), str_of("{}"));
    replay_key_add_call(&b, str_of("f"), str_of("{}"));
    assert_false(same(a, b));
}

static void test_budget(void **state)
{
    (void)state;
    enum { BYTES = 1 << 16, N = 1000 };
    replay *r;
    weft_error err = {WEFT_OK, ""};
    int32_t ids[64];
    char text[16];
    for (int i = 0; i < 64; i++) ids[i] = i;
    assert_ok(replay_create(BYTES, &r, &err), &err);
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "%d", i);
        ids[0] = i;
        replay_put(r, key("m", text), ids, i % 2 == 0 ? 1 : 64);
        /* The first is asked for each time, and stays. */
        assert_true(has(r, key("m", "0"), "[0]"));
    }
    uint32_t n_kept = 0;
    for (int i = 2; i < N; i += 2) {
        char expected[16];
        snprintf(text, sizeof text, "%d", i);
        snprintf(expected, sizeof expected, "[%d]", i);
        bool found = has(r, key("m", text), expected);
        /* Those that were put last. */
        if (n_kept > 0) assert_true(found);
        n_kept += found;
    }
    assert_true(n_kept > 50 && n_kept < N / 2);
    replay_destroy(r);
}

static void test_one_in_the_place_of_another(void **state)
{
    (void)state;
    replay *r;
    weft_error err = {WEFT_OK, ""};
    static const int32_t IDS[20000] = {7, 8};
    assert_ok(replay_create(1 << 16, &r, &err), &err);
    replay_put(r, key("m", "x"), IDS, 1);
    replay_put(r, key("m", "x"), IDS, 2);
    assert_true(has(r, key("m", "x"), "[7,8]"));
    /* The same slot, other keys. */
    replay_key k = key("m", "x");
    for (int i = 0; i < 50; i++) {
        k.low += 4096;
        assert_false(has(r, k, ""));
        replay_put(r, k, IDS + 1, 1);
        assert_true(has(r, k, "[8]"));
    }
    assert_true(has(r, key("m", "x"), "[7,8]"));
    /* Too large, or nothing: not kept, and nothing else goes for it. */
    replay_put(r, key("m", "large"), IDS, 20000);
    replay_put(r, key("m", "none"), IDS, 0);
    assert_false(has(r, key("m", "large"), ""));
    assert_false(has(r, key("m", "none"), ""));
    assert_true(has(r, key("m", "x"), "[7,8]"));
    replay_destroy(r);
    replay_destroy(NULL);
    assert_ok(replay_create(0, &r, &err), &err);
    replay_put(r, key("m", "x"), IDS, 1);
    assert_false(has(r, key("m", "x"), ""));
    replay_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_one_in_the_place_of_another),
    };
    return TEST_RUN("server/replay", tests);
}
