/* test_parts.c - descriptions by parts: every sequence of a few tokens against a naive reading of
 * the same description, control tokens, what is refused, limits and failures. */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "grammar/grammar.h"
#include "support/fault.h"
#include "support/grammar_world.h"
#include "support/test.h"

/* ---- a small world ---- */

/* "<t>" is a token with bytes, as those that a tokenizer adds without calling them special. */
enum { T_MARK = 4, T_CONTROL = 5, N_PLAIN = 11, T_END = N_PLAIN, T_RETURN, N_TOKENS, N_ROWS = 15 };

static const char *const SPELLED[N_TOKENS] = {"a",  "b",    "<",    ">",  "<t>", NULL,
                                              "ab", "\xc3", "\xa9", "\"", "t", NULL,  NULL};
static const char *const NAMED[N_TOKENS] = {
    [T_CONTROL] = "<|c|>", [T_END] = "<|end|>", [T_RETURN] = "<|ret|>"};

static weft_status small_vocab(const env *world, grammar_vocab **v, weft_error *err)
{
    str bytes[N_TOKENS], names[N_TOKENS];
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        bytes[i] = str_of(SPELLED[i] == NULL ? "" : SPELLED[i]);
        names[i] = str_of(NAMED[i] == NULL ? "" : NAMED[i]);
    }
    static const int32_t ENDS[] = {T_END, T_RETURN};
    const grammar_tokens tokens = {N_ROWS, N_TOKENS, bytes, names, ENDS, 2};
    return grammar_vocab_create(world, &tokens, v, err);
}

static grammar_vocab *small, *bytes_vocab;

/* ---- a naive reading ---- */

enum { MOST_UNITS = 60 };

/* Tokens laid out: bytes, or 256 + the id of a token that has none. */
typedef struct units {
    uint32_t list[MOST_UNITS], n;
    uint32_t token_at[MOST_UNITS + 1]; /* 1 + the token that begins here, 0: none */
    uint32_t length_at[MOST_UNITS + 1];
} units;

typedef uint64_t places; /* a bit for each unit that may come next */

static places read_naive(const units *u, const json *part, places from);

static void lay_out(units *u, const uint32_t *tokens, uint32_t n)
{
    memset(u, 0, sizeof *u);
    for (uint32_t i = 0; i < n; i++) {
        const char *bytes = SPELLED[tokens[i]];
        uint32_t len = bytes == NULL ? 1 : (uint32_t)strlen(bytes);
        u->token_at[u->n] = tokens[i] + 1;
        u->length_at[u->n] = len;
        for (uint32_t k = 0; k < len; k++)
            u->list[u->n++] = bytes == NULL ? 256 + tokens[i] : (unsigned char)bytes[k];
    }
}

/* The units first to end as bytes; false when one is a token without any. */
static bool as_bytes(const units *u, uint32_t first, uint32_t end, char *bytes)
{
    for (uint32_t i = first; i < end; i++) {
        if (u->list[i] >= 256) return false;
        bytes[i - first] = (char)u->list[i];
    }
    bytes[end - first] = '\0';
    return true;
}

static places after_bytes(const units *u, str text, places from)
{
    places to = 0;
    char bytes[MOST_UNITS + 1];
    for (uint32_t p = 0; p + text.len <= u->n; p++)
        if ((from >> p & 1) != 0 && as_bytes(u, p, p + (uint32_t)text.len, bytes) &&
            memcmp(bytes, text.ptr, text.len) == 0)
            to |= (places)1 << (p + text.len);
    return to;
}

static places after_token(const units *u, uint32_t token, places from)
{
    places to = 0;
    for (uint32_t p = 0; p < u->n; p++)
        if ((from >> p & 1) != 0 && u->token_at[p] == token + 1)
            to |= (places)1 << (p + u->length_at[p]);
    return to;
}

static uint32_t token_of(const json *value)
{
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        const char *text = NAMED[i] != NULL ? NAMED[i] : SPELLED[i];
        if (json_kind_of(value) == JSON_KIND_INT ? json_int(value, -1) == i
                                                 : str_equal_text(json_text(value), text))
            return i;
    }
    fail_msg("no such token");
    return 0;
}

static const char *find_in(const char *text, str part)
{
    char copy[MOST_UNITS];
    snprintf(copy, sizeof copy, "%.*s", (int)part.len, part.ptr);
    return strstr(text, copy);
}

static places after_free(const units *u, const json *part, places from)
{
    const json *marker = json_get(part, "until"), *without = json_get(part, "without");
    bool control = marker != NULL && str_equal_text(json_text(marker), NAMED[T_CONTROL]);
    bool token = control || json_bool(json_get(part, "token"), false);
    places to = 0;
    char text[MOST_UNITS * 2];
    for (uint32_t p = 0; p <= u->n; p++) {
        for (uint32_t q = p; (from >> p & 1) != 0 && q <= u->n; q++) {
            if (!as_bytes(u, p, q, text) || !utf8_valid(text, q - p)) continue;
            uint32_t n_chars = 0;
            for (uint32_t i = 0; i < q - p; i++) n_chars += ((unsigned char)text[i] & 0xc0) != 0x80;
            bool good = n_chars <= json_int(json_get(part, "max_chars"), 1000);
            for (size_t i = 0; i < json_length(without); i++)
                good = good && find_in(text, json_text(json_at(without, i))) == NULL;
            places here = (places)1 << q;
            if (marker != NULL && token) {
                good = good && find_in(text, json_text(marker)) == NULL;
                here = after_token(u, token_of(marker), here);
            } else if (marker != NULL) {
                str m = json_text(marker);
                snprintf(text + (q - p), MOST_UNITS, "%.*s", (int)m.len, m.ptr);
                good = good && find_in(text, m) == text + (q - p);
                here = after_bytes(u, m, here);
            }
            if (good) to |= here;
        }
    }
    return to;
}

static places after_regex(const units *u, const char *pattern, places from)
{
    regex_t x;
    places to = 0;
    char bytes[MOST_UNITS + 1], whole[100];
    snprintf(whole, sizeof whole, "^(%s)$", pattern);
    assert_int_equal(regcomp(&x, whole, REG_EXTENDED | REG_NOSUB), 0);
    for (uint32_t p = 0; p <= u->n; p++)
        for (uint32_t q = p; (from >> p & 1) != 0 && q <= u->n; q++)
            if (as_bytes(u, p, q, bytes) && regexec(&x, bytes, 0, NULL, 0) == 0)
                to |= (places)1 << q;
    regfree(&x);
    return to;
}

/* Byte by byte, where no control token begins. */
static places after_text(const units *u, str text, places from)
{
    for (size_t i = 0; i < text.len;) {
        uint32_t id = N_TOKENS;
        for (uint32_t t = 0; t < N_TOKENS; t++) {
            size_t len = NAMED[t] == NULL ? 0 : strlen(NAMED[t]);
            if (len > 0 && len <= text.len - i && memcmp(text.ptr + i, NAMED[t], len) == 0) id = t;
        }
        from = id < N_TOKENS ? after_token(u, id, from)
                             : after_bytes(u, (str){text.ptr + i, 1}, from);
        i += id < N_TOKENS ? strlen(NAMED[id]) : 1;
    }
    return from;
}

static places after_repeat(const units *u, const json *part, places from)
{
    int64_t min = json_int(json_get(part, "min"), 0), max = json_int(json_get(part, "max"), 20);
    const json *separator = json_get(part, "separator");
    places to = 0;
    for (int64_t i = 0; i <= max && from != 0; i++) {
        if (i >= min) to |= from;
        if (i > 0 && separator != NULL) from = read_naive(u, separator, from);
        from = read_naive(u, json_get(part, "repeat"), from);
    }
    return to;
}

static places after_list(const units *u, const json *list, bool all, places from)
{
    places to = 0;
    for (size_t i = 0; i < json_length(list); i++) {
        places one = read_naive(u, json_at(list, i), from);
        if (all) from = one;
        to |= one;
    }
    return all ? from : to;
}

/* Enough of JSON Schema for the cases: an enum of texts without escapes. */
static places after_schema(const units *u, const json *schema, places from)
{
    places to = 0;
    const json *list = json_get(schema, "enum");
    for (size_t i = 0; i < json_length(list); i++) {
        char text[MOST_UNITS];
        str value = json_text(json_at(list, i));
        snprintf(text, sizeof text, "\"%.*s\"", (int)value.len, value.ptr);
        to |= after_bytes(u, str_of(text), from);
    }
    return to;
}

static places read_naive(const units *u, const json *part, places from)
{
    const json *value;
    if (json_get(part, "until") != NULL || json_get(part, "free") != NULL)
        return after_free(u, part, from);
    if ((value = json_get(part, "text")) != NULL) return after_text(u, json_text(value), from);
    if ((value = json_get(part, "token")) != NULL) return after_token(u, token_of(value), from);
    if ((value = json_get(part, "regex")) != NULL)
        return after_regex(u, json_text(value).ptr, from);
    if ((value = json_get(part, "schema")) != NULL) return after_schema(u, value, from);
    if ((value = json_get(part, "all")) != NULL) return after_list(u, value, true, from);
    if ((value = json_get(part, "any")) != NULL) return after_list(u, value, false, from);
    if ((value = json_get(part, "optional")) != NULL) return from | read_naive(u, value, from);
    if (json_get(part, "repeat") != NULL) return after_repeat(u, part, from);
    places to = 0;
    value = json_get(part, "choice");
    assert_non_null(value);
    for (size_t i = 0; i < json_length(value); i++)
        to |= after_bytes(u, json_text(json_at(value, i)), from);
    return to;
}

static bool is_whole(const json *part, const uint32_t *tokens, uint32_t n)
{
    units u;
    lay_out(&u, tokens, n);
    return (read_naive(&u, part, 1) >> u.n & 1) != 0;
}

/* ---- all sequences ---- */

enum { MOST_LENGTH = 5, CLONED = 2 /* a copy takes megabytes */ };

typedef struct walk {
    const json *part;
    grammar_state *s;
    const char *source;
    uint32_t tokens[MOST_LENGTH + 1], length;
    uint32_t to_end; /* tokens that lead to an end from anywhere */
    uint32_t n_whole, n_states;
} walk;

static void fail_at(const walk *w, uint32_t n, const char *what)
{
    char text[200] = "";
    size_t len = 0;
    for (uint32_t i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, " %u", w->tokens[i]);
    fail_msg("%s: %s behind%s", w->source, what, text);
}

/* Whether the tokens begin a text of at most length tokens, without its end. */
static bool begins(walk *w, uint32_t n)
{
    if (is_whole(w->part, w->tokens, n)) return true;
    /* A named end is one more token. */
    for (uint32_t end = T_END; end <= T_RETURN; end++) {
        w->tokens[n] = end;
        if (is_whole(w->part, w->tokens, n + 1)) return true;
    }
    for (uint32_t t = 0; n < w->length && t < N_PLAIN; t++) {
        w->tokens[n] = t;
        if (begins(w, n + 1)) return true;
    }
    return false;
}

static void check_ends(walk *w, uint32_t n, uint64_t bits)
{
    bool whole = is_whole(w->part, w->tokens, n);
    w->n_whole += whole;
    if (grammar_state_can_end(w->s) != whole) fail_at(w, n, "an end");
    for (uint32_t end = T_END; end <= T_RETURN; end++) {
        w->tokens[n] = end;
        bool named = is_whole(w->part, w->tokens, n + 1);
        w->n_whole += named;
        if ((bits >> end & 1) != (whole || named)) fail_at(w, n, "an end token");
        weft_status status = grammar_state_accept(w->s, (int32_t)end, NULL);
        if ((status == WEFT_OK) != (whole || named)) fail_at(w, n, "an end that is taken");
        if (status != WEFT_OK) continue;
        assert_true(grammar_state_ended(w->s));
        assert_ok(grammar_state_rollback(w->s, 1, NULL), NULL);
    }
    if (bits >> N_TOKENS != 0) fail_at(w, n, "a row without a token");
}

static void check_forced(walk *w, uint32_t n, uint64_t bits)
{
    int32_t forced[4];
    uint32_t n_forced;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_state_forced(w->s, forced, 4, &n_forced, &err), &err);
    for (uint32_t i = 0; i < n_forced; i++) {
        if ((bits >> forced[i] & 1) == 0) fail_at(w, n, "a forced token");
        assert_ok(grammar_state_accept(w->s, forced[i], &err), &err);
        assert_ok(grammar_state_mask(w->s, &bits, &err), &err);
    }
    assert_ok(grammar_state_rollback(w->s, n_forced, &err), &err);
}

static void check_from(walk *w, uint32_t n)
{
    uint64_t bits, again;
    weft_error err = {.status = WEFT_OK};
    grammar_state *clone = NULL;
    w->n_states++;
    assert_ok(grammar_state_mask(w->s, &bits, &err), &err);
    if (n < CLONED) assert_ok(grammar_state_clone(w->s, &clone, &err), &err);
    check_ends(w, n, bits);
    check_forced(w, n, bits);
    for (uint32_t t = 0; t < N_PLAIN && n < w->length; t++) {
        weft_status status = grammar_state_accept(w->s, (int32_t)t, NULL);
        if ((status == WEFT_OK) != (bits >> t & 1)) fail_at(w, n, "a mask");
        w->tokens[n] = t;
        if (n + 1 + w->to_end <= w->length || status != WEFT_OK)
            if ((status == WEFT_OK) != begins(w, n + 1)) {
                w->tokens[n] = t;
                fail_at(w, n + 1, status == WEFT_OK ? "nothing" : "something");
            }
        w->tokens[n] = t;
        if (status != WEFT_OK) continue;
        check_from(w, n + 1);
        assert_ok(grammar_state_rollback(w->s, 1, &err), &err);
    }
    if (clone == NULL) return;
    assert_ok(grammar_state_mask(clone, &again, &err), &err);
    assert_int_equal(bits, again);
    grammar_state_destroy(clone);
}

static const struct {
    const char *source;
    uint32_t to_end, length;
} CASES[] = {
    {"{\"text\":\"ab<t>\"}", 4, 5},
    {"{\"text\":\"<|c|>a<|c|>\"}", 3, 5},
    {"{\"all\":[{\"text\":\"a\"},{\"text\":\"<|end|>\"}]}", 2, 5},
    {"{\"any\":[{\"all\":[{\"token\":\"<t>\"},{\"text\":\"a\"}]},{\"text\":\"<t>b\"}]}", 3, 5},
    {"{\"all\":[{\"token\":4},{\"optional\":{\"token\":\"<|ret|>\"}}]}", 1, 5},
    {"{\"until\":\"<t>\"}", 3, 4},
    {"{\"until\":\"aba\",\"max_chars\":2}", 3, 5},
    {"{\"all\":[{\"until\":\"aa\"},{\"text\":\"b\"}]}", 3, 4},
    {"{\"until\":\"<t>\",\"token\":true,\"max_chars\":3}", 2, 5},
    {"{\"all\":[{\"until\":\"<|c|>\",\"without\":[\"ab\",\"<t>\"]},{\"text\":\"a\"}]}", 3, 4},
    {"{\"until\":\"<\",\"without\":[\"b<\",\"\xc3\xa9t\"]}", 2, 4},
    {"{\"free\":true}", 1, 4},
    {"{\"free\":true,\"max_chars\":2,\"without\":[\"<t>\",\"b\"]}", 1, 5},
    {"{\"all\":[{\"free\":true},{\"text\":\"b<|c|>\"}]}", 3, 4},
    /* Free text in which a call begins with its marker. */
    {"{\"all\":[{\"repeat\":{\"all\":[{\"until\":\"<t>\"},{\"schema\":{\"enum\":[\"a\",\"b\"]}},{"
     "\"text\":\">\"}]}},{\"free\":true,\"without\":[\"<t>\"]}]}",
     5, 5},
    {"{\"all\":[{\"repeat\":{\"all\":[{\"until\":\"<|c|>\"},{\"choice\":[\"a\",\"ab\"]},{\"text\":"
     "\"<|c|>\"}]},\"max\":2},{\"free\":true}]}",
     3, 4},
    {"{\"repeat\":{\"text\":\"ab\"},\"min\":1,\"max\":3,\"separator\":{\"token\":\"<|c|>\"}}", 2, 5},
    {"{\"repeat\":{\"optional\":{\"text\":\"a\"}},\"min\":2,\"max\":4,\"separator\":{\"text\":\"b\""
     "}}",
     2, 5},
    {"{\"repeat\":{\"any\":[{\"text\":\"a\"},{\"text\":\"ab\"},{\"token\":\"ab\"}]},\"min\":2}", 2, 5},
    {"{\"repeat\":{\"all\":[{\"text\":\"a\"},{\"optional\":{\"text\":\"<|end|>\"}}]},\"min\":1}",
     1, 5},
    {"{\"repeat\":{\"repeat\":{\"text\":\"<|c|>\"},\"max\":2},\"max\":2,\"separator\":{\"text\":"
     "\"a\"}}",
     1, 5},
    {"{\"any\":[{\"free\":true,\"without\":[\"<\"]},{\"all\":[{\"token\":\"<t>\"},{\"regex\":\"[ab]"
     "{2,3}\"}]},{\"text\":\"\"}]}",
     2, 4},
    {"{\"all\":[]}", 1, 5},
    {"{\"repeat\":{\"text\":\"a\"},\"max\":0}", 1, 5},
};

static void test_all_sequences(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        json_doc doc;
        weft_error err = {.status = WEFT_OK};
        assert_ok(json_parse(&doc, CASES[i].source, strlen(CASES[i].source), &err), &err);
        grammar *g = world_compile(small, GRAMMAR_PARTS, CASES[i].source);
        walk w = {.part = doc.root, .source = CASES[i].source, .to_end = CASES[i].to_end, .length = CASES[i].length};
        assert_ok(grammar_state_create(g, &w.s, &err), &err);
        check_from(&w, 0);
        assert_true(w.n_whole > 0);
        print_message("%6u states, %5u ends: %s\n", w.n_states, w.n_whole, w.source);
        grammar_state_destroy(w.s);
        grammar_unref(g);
        json_doc_free(&doc);
    }
}

int main(void)
{
    const env world = {mem_system(), NULL, NULL};
    weft_error err = {.status = WEFT_OK};
    if (small_vocab(&world, &small, &err) != WEFT_OK) return 1;
    bytes_vocab = world_vocab(false);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sequences),
    };
    int failed = TEST_RUN("grammar/parts", tests);
    grammar_vocab_destroy(small);
    grammar_vocab_destroy(bytes_vocab);
    return failed;
}
