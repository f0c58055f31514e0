#include "support/grammar_world.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

static const char *const PIECES[] = {
    "{\"",         "\":",
    "\": ",        "\", \"",
    "\",\"",       "\"}",
    "}}",          "]}",
    "[]",          "{}",
    "[{\"",        "\"}]",
    ", ",          "true",
    "false",       "null",
    "12",          "00",
    ".5",          "-1",
    "e1",          "name",
    "id",          "value",
    "the",         " a",
    "foo",         "bar",
    "\\n",         "\\\"",
    "\\\\",        "\\u00",
    "\\ud83d",     "\n  ",
    "  ",          "\n",
    "\xc3\xa9",    "\xe2\x82",
    "\x82",        "\xf0\x9f",
    "\x98\x80",    "a\xc3",
    "\xa9z",       "ab",
    "abc",         "abcdefghijklmnopqrstuvwxyz",
    "0123456789",  "foo\":",
    "\"foo\": 1",  "2026-",
    "-01-",        "@",
    "hello world", "\x80",
    "\xff",        "ar\"",
    "1, 2",        "\xed\xa0",
};

uint32_t world_tokens(bool merged)
{
    return WORLD_CONTROL + 1 + (merged ? (uint32_t)COUNT_OF(PIECES) : 0);
}

str world_bytes(uint32_t token, char room[1])
{
    if (token < 256) {
        room[0] = (char)token;
        return (str){room, 1};
    }
    if (token <= WORLD_CONTROL) return (str){"", 0};
    return str_of(PIECES[token - WORLD_CONTROL - 1]);
}

grammar_vocab *world_vocab(bool merged)
{
    static char rooms[256];
    str list[WORLD_CONTROL + 1 + COUNT_OF(PIECES)];
    const env world = {mem_system(), NULL, NULL};
    uint32_t n = world_tokens(merged);
    for (uint32_t i = 0; i < n; i++) list[i] = world_bytes(i, &rooms[i & 255]);
    static const int32_t ENDS[] = {WORLD_END};
    const grammar_tokens tokens = {n + WORLD_PADDING, n, list, NULL, ENDS, 1};
    grammar_vocab *v;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_vocab_create(&world, &tokens, &v, &err), &err);
    return v;
}

weft_status world_compiles(const grammar_vocab *v, grammar_kind kind, str text, weft_error *err)
{
    const env world = {mem_system(), NULL, NULL};
    grammar *g;
    weft_status status = grammar_compile(&world, v, kind, text, &g, err);
    grammar_unref(g);
    return status;
}

grammar *world_compile(const grammar_vocab *v, grammar_kind kind, const char *text)
{
    const env world = {mem_system(), NULL, NULL};
    grammar *g;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_compile(&world, v, kind, str_of(text), &g, &err), &err);
    return g;
}

bool world_takes(grammar *g, str text, size_t *refused)
{
    grammar_state *s;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_state_create(g, &s, &err), &err);
    size_t i = 0;
    weft_status status = WEFT_OK;
    for (; i < text.len; i++) {
        status = grammar_state_accept(s, (unsigned char)text.ptr[i], &err);
        if (status != WEFT_OK) break;
    }
    assert_true(status == WEFT_OK || status == WEFT_ARGUMENT);
    bool taken = i == text.len && grammar_state_can_end(s);
    if (refused != NULL) *refused = i;
    grammar_state_destroy(s);
    return taken;
}

void world_check_mask(grammar_state *s, const grammar_vocab *v)
{
    uint64_t bits[8] = {0};
    weft_error err = {.status = WEFT_OK};
    assert_true(grammar_mask_words(v) <= COUNT_OF(bits));
    assert_ok(grammar_state_mask(s, bits, &err), &err);
    uint32_t n_allowed = 0;
    for (uint32_t token = 0; token < grammar_mask_words(v) * 64; token++) {
        bool allowed = (bits[token >> 6] >> (token & 63) & 1) != 0;
        weft_status status = grammar_state_accept(s, (int32_t)token, NULL);
        if (status == WEFT_OK) assert_ok(grammar_state_rollback(s, 1, &err), &err);
        assert_true(status == WEFT_OK || status == WEFT_ARGUMENT);
        if (allowed != (status == WEFT_OK)) fail_msg("token %u: mask %d", token, allowed);
        n_allowed += allowed;
    }
    assert_true(n_allowed > 0);
}

bool world_sample(grammar *g, const grammar_vocab *v, uint64_t seed, uint32_t most, strbuf *text)
{
    grammar_state *s;
    weft_error err = {.status = WEFT_OK};
    uint64_t bits[8];
    assert_ok(grammar_state_create(g, &s, &err), &err);
    for (uint32_t k = 0; k < most && !grammar_state_ended(s); k++) {
        assert_ok(grammar_state_mask(s, bits, &err), &err);
        uint32_t allowed[512], n = 0;
        for (uint32_t t = 0; t < grammar_vocab_rows(v); t++)
            if ((bits[t >> 6] >> (t & 63) & 1) != 0) allowed[n++] = t;
        assert_true(n > 0);
        uint32_t token = allowed[rng_u64(seed, k) % n];
        bool end = (bits[WORLD_END >> 6] >> (WORLD_END & 63) & 1) != 0;
        if (end && (k > most / 3 || rng_u64(seed + 1, k) % 4 == 0)) token = WORLD_END;
        /* Closing what is open brings the end nearer. */
        static const unsigned char CLOSING[] = {'"', '}', ']'};
        for (uint32_t c = 0; c < 3 && k > most / 3 && token != WORLD_END; c++)
            if ((bits[CLOSING[c] >> 6] >> (CLOSING[c] & 63) & 1) != 0) token = CLOSING[c];
        assert_ok(grammar_state_accept(s, (int32_t)token, &err), &err);
        char room[1];
        str bytes = world_bytes(token, room);
        assert_true(strbuf_add(text, bytes.ptr, bytes.len) == WEFT_OK);
    }
    bool ended = grammar_state_ended(s);
    grammar_state_destroy(s);
    return ended;
}
