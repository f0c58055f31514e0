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
#include "grammar/program.h"
#include "support/fault.h"
#include "support/grammar_world.h"
#include "support/test.h"

/* ---- a small world ---- */

/* "<t>" is a token with bytes, as those that a tokenizer adds without calling them special. */
enum { T_MARK = 4, T_CONTROL = 5, N_PLAIN = 11, T_END = N_PLAIN, T_RETURN, N_TOKENS, N_ROWS = 15 };

static const char *const SPELLED[N_TOKENS] = {"a",    "b",    "<",  ">", "<t>", NULL, "ab",
                                              "\xc3", "\xa9", "\"", "t", NULL,  NULL};
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
        from =
            id < N_TOKENS ? after_token(u, id, from) : after_bytes(u, (str){text.ptr + i, 1}, from);
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
    {"{\"repeat\":{\"text\":\"ab\"},\"min\":1,\"max\":3,\"separator\":{\"token\":\"<|c|>\"}}", 2,
     5},
    {"{\"repeat\":{\"optional\":{\"text\":\"a\"}},\"min\":2,\"max\":4,\"separator\":{\"text\":\"b\""
     "}}",
     2, 5},
    {"{\"repeat\":{\"any\":[{\"text\":\"a\"},{\"text\":\"ab\"},{\"token\":\"ab\"}]},\"min\":2}", 2,
     5},
    {"{\"repeat\":{\"all\":[{\"text\":\"a\"},{\"optional\":{\"text\":\"<|end|>\"}}]},\"min\":1}", 1,
     5},
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
        walk w = {.part = doc.root,
                  .source = CASES[i].source,
                  .to_end = CASES[i].to_end,
                  .length = CASES[i].length};
        assert_ok(grammar_state_create(g, &w.s, &err), &err);
        check_from(&w, 0);
        assert_true(w.n_whole > 0);
        print_message("%6u states, %5u ends: %s\n", w.n_states, w.n_whole, w.source);
        grammar_state_destroy(w.s);
        grammar_unref(g);
        json_doc_free(&doc);
    }
}

/* ---- a larger world ---- */

/* A byte each, then control tokens, and a token with letters that is none. */
enum { CHANNEL = 256, MESSAGE, CALL, DONE, TOOL, N_LARGE };

static const char *const LARGE[] = {"<|channel|>", "<|message|>", "<|call|>", "<|done|>",
                                    "<tool_call>"};

static grammar_vocab *large_vocab(void)
{
    static char rooms[256];
    str bytes[N_LARGE], names[N_LARGE];
    const env world = {mem_system(), NULL, NULL};
    grammar_vocab *v;
    weft_error err = {.status = WEFT_OK};
    for (uint32_t i = 0; i < N_LARGE; i++) {
        rooms[i & 255] = (char)i;
        bytes[i] = i < 256 ? (str){&rooms[i], 1} : str_of(i == TOOL ? LARGE[i - 256] : "");
        names[i] = str_of(i < 256 || i == TOOL ? "" : LARGE[i - 256]);
    }
    static const int32_t ENDS[] = {DONE, CALL};
    const grammar_tokens tokens = {N_LARGE, N_LARGE, bytes, names, ENDS, 2};
    assert_ok(grammar_vocab_create(&world, &tokens, &v, &err), &err);
    return v;
}

/* Whether the tokens of the text, which end it, are taken: letters one by one unless merged. */
static bool takes_large(grammar *g, const char *text, bool merged)
{
    grammar_state *s;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_state_create(g, &s, &err), &err);
    weft_status status = WEFT_OK;
    while (*text != '\0' && status == WEFT_OK) {
        int32_t token = (unsigned char)*text;
        size_t len = 1;
        for (int32_t t = CHANNEL; t < (merged ? N_LARGE : TOOL); t++)
            if (strncmp(text, LARGE[t - 256], strlen(LARGE[t - 256])) == 0) {
                token = t;
                len = strlen(LARGE[t - 256]);
            }
        status = grammar_state_accept(s, token, &err);
        text += len;
    }
    assert_true(status == WEFT_OK || status == WEFT_ARGUMENT);
    bool taken = status == WEFT_OK && grammar_state_ended(s);
    grammar_state_destroy(s);
    return taken;
}

/* texts: NUL-separated, ended by an empty one; the first n_yes are taken. */
static void check_large(const grammar_vocab *v, grammar_kind kind, const char *source,
                        uint32_t n_yes, const char *texts)
{
    grammar *g = world_compile(v, kind, source);
    for (uint32_t i = 0; *texts != '\0'; i++, texts += strlen(texts) + 1) {
        bool letters = takes_large(g, texts, false), merged = takes_large(g, texts, true);
        if (letters != (i < n_yes))
            fail_msg("%s: '%s' is %s", source, texts, letters ? "taken" : "not");
        if (merged != letters) fail_msg("%s: '%s' with <tool_call> as a token", source, texts);
    }
    grammar_unref(g);
}

/* Free text, in which <tool_call> begins a call of one of two functions. */
static const char CALLS[] =
    "{\"all\":[{\"optional\":{\"all\":[{\"text\":\"<think>\"},{\"until\":\"</think>\"}]}},"
    "{\"repeat\":{\"all\":[{\"until\":\"<tool_call>\"},{\"text\":\"\\n\"},{\"any\":["
    "{\"schema\":{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"add\"},\"arguments\":{"
    "\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"}}"
    ","
    "\"required\":[\"a\",\"b\"],\"additionalProperties\":false}},\"required\":[\"name\","
    "\"arguments\"],\"additionalProperties\":false}},"
    "{\"schema\":{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"say\"},\"arguments\":{"
    "\"$ref\":\"#/$defs/t\"}},\"required\":[\"name\",\"arguments\"],\"additionalProperties\":false,"
    "\"$defs\":{\"t\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"}}}}}]},"
    "{\"text\":\"\\n</tool_call>\"}]},\"max\":3},{\"free\":true,\"without\":[\"<tool_call>\"]}]}";

/* Channels: thoughts, then a call or a final answer. */
static const char CHANNELS[] =
    "{\"all\":[{\"repeat\":{\"all\":[{\"text\":\"<|channel|>thought\"},{\"until\":\"<|message|>\","
    "\"max_chars\":4},{\"free\":true}]}},{\"any\":[{\"all\":[{\"text\":\"<|channel|>to=\"},{"
    "\"choice\":[\"f\",\"g.h\"]},{\"token\":\"<|message|>\"},{\"json\":true},{\"text\":\"<|call|>"
    "\"}"
    "]},{\"all\":[{\"text\":\"<|channel|>final<|message|>\"},{\"regex\":\"[a-z ]+\\\\.\"},{"
    "\"optional\":{\"text\":\"<|done|>\"}}]}]}]}";

static void test_dialects(void **state)
{
    (void)state;
    grammar_vocab *v = large_vocab();
    check_large(
        v, GRAMMAR_PARTS, CALLS, 8,
        "Hello.<|done|>\0"
        "<think>2 < 3, </think so</think>five<|call|>\0"
        "<|done|>\0"
        "<tool_cal<|done|>\0"
        "<think>never closed: text without a call<|done|>\0"
        "x<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":-2}}\n</tool_call><|done|>\0"
        "<think></think>\n<tool_call>\n{\"name\": \"say\", \"arguments\": [[], [[]]]}\n"
        "</tool_call> and\n<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":2}}"
        "\n</tool_call>\n<|done|>\0"
        "<think><tool_call>\n</think><|done|>\0"
        "x<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":1}}\n</tool_call><|done|>\0"
        "x<tool_call><|done|>\0"
        "x<tool_call>no call</tool_call><|done|>\0"
        "x<|channel|><|done|>\0"
        "x\0");
    check_large(
        v, GRAMMAR_PARTS, CHANNELS, 5,
        "<|channel|>final<|message|>yes.<|done|>\0"
        "<|channel|>final<|message|>yes.<|call|>\0"
        "<|channel|>thought<|message|><|channel|>to=f<|message|>{}<|call|>\0"
        "<|channel|>thoughtabcd<|message|>x <|channel|>thought<|message|>y<|channel|>to=g.h"
        "<|message|>{\"a\": [1, 2]}<|call|>\0"
        "<|channel|>thought \xc3\xa9<|message|>\xe2\x82\xac<|channel|>to=f<|message|>{}<|call|>\0"
        "<|channel|>to=f<|message|>{}<|done|>\0"
        "<|channel|>to=f<|message|>{}\0"
        "<|channel|>thoughtabcde<|message|><|channel|>final<|message|>a.<|done|>\0"
        "<|channel|>thought<|channel|>final<|message|>a.<|done|>\0"
        "<|channel|>final<|message|>a<|message|>.<|done|>\0"
        "<|channel|>thought<|message|>\xe2\x82<|channel|>final<|message|>a.<|done|>\0"
        "<|message|><|done|>\0");
    /* A marker that has to be the token, and one that has to be letters or the token. */
    grammar *g = world_compile(v, GRAMMAR_PARTS, "{\"until\":\"<tool_call>\",\"token\":true}");
    assert_true(takes_large(g, "<tool<tool_call><|done|>", true));
    assert_false(takes_large(g, "<tool<tool_call><|done|>", false));
    grammar_unref(g);
    check_large(v, GRAMMAR_GBNF,
                "root ::= <|channel|> [a-z]* (<|message|> \"x\"){2} end?\nend ::= <[258]>", 3,
                "<|channel|>ab<|message|>x<|message|>x<|call|>\0"
                "<|channel|><|message|>x<|message|>x<|call|>\0"
                "<|channel|>a<|message|>x<|message|>x<|done|>\0"
                "<|channel|>a<|message|>x<|call|>\0"
                "ab<|message|>x<|message|>x<|call|>\0");
    grammar_vocab_destroy(v);
}

/* Added tokens of a tokenizer: one that is special is a control token, one that is not is matched
 * by its bytes, as one token or in others, and can be demanded. */
static void test_added_tokens(void **state)
{
    (void)state;
    const env world = {mem_system(), io_system(), NULL};
    static const char ADDED[] = "<|system|>", YES[] = "\"special\": true",
                      NO[] = "\"special\":false";
    char *text;
    size_t n;
    tokenizer *t;
    grammar_vocab *v;
    weft_error err = {.status = WEFT_OK};
    assert_ok(io_read_file(world.io, world.allocator, TINY_PATH("draft/tokenizer.json"), 1 << 24,
                           &text, &n, &err),
              &err);
    char *flag = strstr(strstr(text, ADDED), YES);
    memcpy(flag, NO, sizeof NO - 1);
    assert_ok(tokenizer_parse(&world, text, n, &t, &err), &err);
    mem_free(world.allocator, text, n + 1);
    int32_t end = tokenizer_find(t, str_of("<|end|>")), added = tokenizer_find(t, str_of(ADDED));
    int32_t user = tokenizer_find(t, str_of("<|user|>"));
    assert_ok(grammar_vocab_of(&world, t, tokenizer_n_vocab(t), &end, 1, &v, &err), &err);
    token_list letters;
    token_list_init(&letters, world.allocator);
    assert_ok(tokenizer_encode(t, str_of(ADDED), TOKENIZER_PLAIN, &letters, &err), &err);
    assert_true(letters.len > 1);
    static const struct {
        const char *source;
        bool one, spelled, control;
    } ADDED_CASES[] = {
        {"{\"text\":\"<|system|>\"}", true, true, false},
        {"{\"until\":\"<|system|>\"}", true, true, false},
        {"{\"until\":\"<|system|>\",\"token\":true}", true, false, false},
        {"{\"token\":\"<|system|>\"}", true, false, false},
        {"{\"text\":\"<|user|>\"}", false, false, true},
        {"{\"token\":\"<|user|>\"}", false, false, true},
        {"{\"until\":\"<|user|>\"}", false, false, true},
        {"{\"free\":true}", true, true, false},
        {"{\"free\":true,\"without\":[\"<|system|>\"]}", false, false, false},
    };
    for (size_t i = 0; i < COUNT_OF(ADDED_CASES); i++) {
        grammar *g = world_compile(v, GRAMMAR_PARTS, ADDED_CASES[i].source);
        for (uint32_t way = 0; way < 3; way++) {
            grammar_state *s;
            assert_ok(grammar_state_create(g, &s, &err), &err);
            const int32_t *ids = way == 0 ? &added : way == 1 ? letters.ids : &user;
            size_t n_ids = way == 1 ? letters.len : 1, k = 0;
            while (k < n_ids && grammar_state_accept(s, ids[k], NULL) == WEFT_OK) k++;
            bool taken = k == n_ids && grammar_state_can_end(s);
            const bool wanted[] = {ADDED_CASES[i].one, ADDED_CASES[i].spelled,
                                   ADDED_CASES[i].control};
            if (taken != wanted[way]) fail_msg("%s: %u", ADDED_CASES[i].source, way);
            grammar_state_destroy(s);
        }
        grammar_unref(g);
    }
    token_list_deinit(&letters);
    grammar_vocab_destroy(v);
    tokenizer_destroy(t);
}

/* ---- drawn texts ---- */

/* Every call of a drawn text is one. */
static void check_calls(const char *text)
{
    static const char BEGIN[] = "<tool_call>\n", END[] = "\n</tool_call>";
    if (strncmp(text, "<think>", 7) == 0 && strstr(text, "</think>") != NULL)
        text = strstr(text, "</think>");
    for (const char *at = strstr(text, "<tool_call>"); at != NULL; at = strstr(at, "<tool_call>")) {
        assert_int_equal(strncmp(at, BEGIN, strlen(BEGIN)), 0);
        at += strlen(BEGIN);
        const char *end = strstr(at, END);
        assert_non_null(end);
        json_doc doc;
        weft_error err = {.status = WEFT_OK};
        assert_ok(json_parse(&doc, at, (size_t)(end - at), &err), &err);
        str name = json_text(json_get(doc.root, "name"));
        const json *arguments = json_get(doc.root, "arguments");
        if (str_equal_text(name, "add")) {
            assert_int_equal(json_kind_of(json_get(arguments, "b")), JSON_KIND_INT);
        } else {
            assert_true(str_equal_text(name, "say"));
            assert_int_equal(json_kind_of(arguments), JSON_KIND_ARRAY);
        }
        json_doc_free(&doc);
    }
}

/* Draws tokens; <tool_call> and what is forced as often as it may come. */
static bool draw(grammar *g, uint64_t seed, strbuf *text, uint32_t *n_forced)
{
    grammar_state *s;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_state_create(g, &s, &err), &err);
    for (uint32_t k = 0; k < 400 && !grammar_state_ended(s); k++) {
        uint64_t bits[(N_LARGE + 63) / 64];
        int32_t allowed[N_LARGE], token;
        uint32_t n = 0, forced;
        assert_ok(grammar_state_mask(s, bits, &err), &err);
        assert_ok(grammar_state_forced(s, &token, 1, &forced, &err), &err);
        for (int32_t t = 0; t < N_LARGE; t++)
            if ((bits[t >> 6] >> (t & 63) & 1) != 0) allowed[n++] = t;
        assert_true(n > 0);
        bool tool = (bits[TOOL >> 6] >> (TOOL & 63) & 1) != 0;
        if (forced == 1) {
            ++*n_forced;
        } else {
            uint64_t r = rng_u64(seed, k);
            bool quick = (r >> 40) % 4 == 0;
            token = tool && quick ? TOOL : allowed[r % n];
            if (grammar_state_can_end(s) && (r >> 50) % 20 == 0) token = DONE;
        }
        assert_ok(grammar_state_accept(s, token, &err), &err);
        if (token < 256) (void)strbuf_add_char(text, (char)token);
        if (token == TOOL) (void)strbuf_add(text, LARGE[TOOL - 256], strlen(LARGE[TOOL - 256]));
    }
    bool ended = grammar_state_ended(s);
    grammar_state_destroy(s);
    return ended;
}

static void test_drawn(void **state)
{
    (void)state;
    grammar_vocab *v = large_vocab();
    grammar *g = world_compile(v, GRAMMAR_PARTS, CALLS);
    uint32_t n_ended = 0, n_called = 0, n_forced = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        strbuf text;
        strbuf_init(&text, mem_system(), 0);
        if (draw(g, seed, &text, &n_forced)) {
            n_ended++;
            /* Free text may have a NUL, behind which no call is looked for. */
            check_calls(strbuf_text(&text));
            n_called += strstr(strbuf_text(&text), "</tool_call>") != NULL;
        }
        strbuf_deinit(&text);
    }
    print_message("%u ended, %u with calls, %u forced tokens\n", n_ended, n_called, n_forced);
    assert_true(n_ended > 50 && n_called > 20 && n_forced > 1000);
    grammar_unref(g);
    grammar_vocab_destroy(v);
}

/* ---- what is refused ---- */

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *source, *part;
        weft_status status;
    } CASES_REFUSED[] = {
        {"", "are no JSON", WEFT_FORMAT},
        {"[]", "part at '': is array where a part belongs", WEFT_FORMAT},
        {"{}", "no member that says", WEFT_FORMAT},
        {"{\"min\":1}", "no member that says", WEFT_FORMAT},
        {"{\"all\":[{\"text\":\"a\"},{\"nothing\":1}]}", "part at '/all/1'", WEFT_FORMAT},
        {"{\"any\":[]}", "'any' is no array of 1 parts", WEFT_FORMAT},
        {"{\"any\":{}}", "'any' is no array", WEFT_FORMAT},
        {"{\"text\":1}", "'text' is integer where a text belongs", WEFT_FORMAT},
        {"{\"text\":\"a\",\"max_chars\":1}", "'max_chars' does not stand beside 'text'",
         WEFT_FORMAT},
        {"{\"text\":\"a\",\"regex\":\"b\"}", "'regex' does not stand beside 'text'", WEFT_FORMAT},
        {"{\"until\":\"\"}", "0 bytes in 'until'", WEFT_FORMAT},
        {"{\"until\":\"a\",\"token\":1}", "neither true nor false", WEFT_FORMAT},
        {"{\"until\":\"zz\",\"token\":true}", "'zz' is no token", WEFT_ARGUMENT},
        {"{\"until\":\"a<|c|>\"}", "a control token and more", WEFT_UNSUPPORTED},
        {"{\"until\":\"<|c|>a\"}", "a control token and more", WEFT_UNSUPPORTED},
        {"{\"until\":\"a\",\"without\":\"b\"}", "'without' is no array", WEFT_FORMAT},
        {"{\"until\":\"a\",\"without\":[\"\"]}", "0 bytes in 'without'", WEFT_FORMAT},
        {"{\"until\":\"a\",\"max_chars\":-1}", "'max_chars' is no whole number", WEFT_FORMAT},
        {"{\"until\":\"a\",\"max_chars\":1.5}", "'max_chars' is no whole number", WEFT_FORMAT},
        {"{\"free\":false}", "'free' is not true", WEFT_FORMAT},
        {"{\"json\":1}", "'json' is not true", WEFT_FORMAT},
        {"{\"token\":\"c\"}", "'c' is no token of this model", WEFT_ARGUMENT},
        {"{\"token\":13}", "token 13 of a vocabulary of 13", WEFT_ARGUMENT},
        {"{\"token\":-1}", "token -1", WEFT_ARGUMENT},
        {"{\"token\":7}", "token 7 is a part of a character", WEFT_UNSUPPORTED},
        {"{\"token\":true}", "'token' is boolean", WEFT_FORMAT},
        {"{\"all\":[{\"text\":\"<|end|>\"},{\"text\":\"a\"}]}",
         "part at '/all/0': token 11 ends an answer", WEFT_ARGUMENT},
        {"{\"text\":\"<|end|>a\"}", "ends an answer", WEFT_ARGUMENT},
        {"{\"repeat\":{\"text\":\"<|end|>\"},\"min\":2}", "/repeat': token 11 ends", WEFT_ARGUMENT},
        {"{\"all\":[{\"until\":\"<|end|>\"},{\"regex\":\"a\"}]}", "ends an answer", WEFT_ARGUMENT},
        {"{\"repeat\":{\"text\":\"a\"},\"min\":2,\"max\":1}", "'min' is 2 and 'max' 1",
         WEFT_FORMAT},
        {"{\"repeat\":{\"text\":\"a\"},\"max\":2000000000}", "'max' is no whole", WEFT_FORMAT},
        {"{\"repeat\":{\"text\":\"a\"},\"separator\":{\"text\":2}}", "part at '/separator'",
         WEFT_FORMAT},
        {"{\"optional\":{\"regex\":\"(\"}}", "part at '/optional': ", WEFT_FORMAT},
        {"{\"optional\":{\"regex\":\"a(?=b)\"}}", "lookahead", WEFT_UNSUPPORTED},
        {"{\"all\":[{\"schema\":{\"properties\":{\"a\":{\"type\":\"x\"}}}}]}",
         "part at '/all/0': schema at '/properties/a/type'", WEFT_FORMAT},
        {"{\"schema\":false}", "no text satisfies it", WEFT_ARGUMENT},
        {"{\"choice\":[\"a\",1]}", "/1 of a choice", WEFT_ARGUMENT},
        {"{\"rules\":\"root ::= x\"}", "rule 'x'", WEFT_FORMAT},
        {"{\"regex\":\"[]\"}", "no finite text", WEFT_ARGUMENT},
        {"{\"regex\":\"\"}", "an empty pattern allows no text", WEFT_ARGUMENT},
    };
    for (size_t i = 0; i < COUNT_OF(CASES_REFUSED); i++) {
        weft_error err = {.status = WEFT_OK};
        weft_status status =
            world_compiles(small, GRAMMAR_PARTS, str_of(CASES_REFUSED[i].source), &err);
        if (status != CASES_REFUSED[i].status)
            fail_msg("%s: %d %s", CASES_REFUSED[i].source, status, err.message);
        assert_message(&err, CASES_REFUSED[i].part);
    }
    static const char *const RULES[] = {"root ::= <x>",    "root ::= <|c|",   "root ::= !<|c|>",
                                        "root ::= <[99]>", "root ::= <[-1]>", "root ::= <[]>"};
    for (size_t i = 0; i < COUNT_OF(RULES); i++) {
        weft_error err = {.status = WEFT_OK};
        assert_true(world_compiles(small, GRAMMAR_GBNF, str_of(RULES[i]), &err) < 0);
        assert_message(&err, "byte");
    }
}

static weft_status compiles(const strbuf *text, weft_error *err)
{
    return world_compiles(bytes_vocab, GRAMMAR_PARTS, (str){strbuf_text(text), text->len}, err);
}

static void add_times(strbuf *text, const char *what, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) (void)strbuf_add(text, what, strlen(what));
}

static void test_limits(void **state)
{
    (void)state;
    /* Repeats with a separator within each other: each is there once. */
    static const struct {
        const char *open, *inner, *close;
        uint32_t n;
        weft_status status;
        const char *part;
    } NESTED[] = {
        {"{\"optional\":", "{\"text\":\"a\"}", "}", 63, WEFT_OK, ""},
        {"{\"optional\":", "{\"text\":\"a\"}", "}", 64, WEFT_LIMIT, "64 parts within each other"},
        {"{\"repeat\":", "{\"text\":\"a\"}", ",\"separator\":{\"text\":\"b\"}}", 60, WEFT_OK, ""},
        {"{\"separator\":{\"text\":\"b\"},\"repeat\":", "{\"until\":\"x\"}", "}", 400, WEFT_LIMIT,
         "within each other"},
        {"{\"all\":[{\"text\":\"a\"},", "{\"text\":\"a\"}", "]}", 30, WEFT_OK, ""},
    };
    for (size_t i = 0; i < COUNT_OF(NESTED); i++) {
        strbuf text;
        weft_error err = {.status = WEFT_OK};
        strbuf_init(&text, mem_system(), 0);
        add_times(&text, NESTED[i].open, NESTED[i].n);
        add_times(&text, NESTED[i].inner, 1);
        add_times(&text, NESTED[i].close, NESTED[i].n);
        assert_status(NESTED[i].status, compiles(&text, &err), &err);
        if (*NESTED[i].part != '\0') assert_message(&err, NESTED[i].part);
        strbuf_deinit(&text);
    }
    static const struct {
        const char *open, *item, *close;
        uint32_t n;
        const char *part;
    } LONG[] = {
        {"{\"any\":[{\"text\":\"\"}", ",{\"text\":\"a\"}", "]}", 20000, "16384 in all"},
        {"{\"until\":\"", "a", "\"}", 257, "257 bytes in 'until', of 1 to 256"},
        {"{\"all\":[{\"text\":\"\"}", ",{\"until\":\"abcdefghijklmnopqrstuvwxyz\"}", "]}", 16000,
         ""},
        {"{\"all\":[{\"text\":\"\"}", ",{\"rules\":\"root ::= \\\"a\\\"\"}", "]}", 16000, ""},
        {"{\"all\":[{\"text\":\"\"}", ",{\"schema\":{\"type\":\"string\",\"minLength\":2}}", "]}",
         16000, ""},
    };
    for (size_t i = 0; i < COUNT_OF(LONG); i++) {
        strbuf text;
        weft_error err = {.status = WEFT_OK};
        strbuf_init(&text, mem_system(), 0);
        add_times(&text, LONG[i].open, 1);
        add_times(&text, LONG[i].item, LONG[i].n);
        add_times(&text, LONG[i].close, 1);
        assert_status(WEFT_LIMIT, compiles(&text, &err), &err);
        if (*LONG[i].part != '\0') assert_message(&err, LONG[i].part);
        print_message("%s\n", err.message);
        strbuf_deinit(&text);
    }
}

/* More tokens by name than a table has columns for. */
static void test_many_names(void **state)
{
    (void)state;
    enum { N = 260 };
    static const str BYTES[N] = {{"a", 1}, {"b", 1}};
    static const int32_t END = 1;
    const grammar_tokens tokens = {N, N, BYTES, NULL, &END, 1};
    const env world = {mem_system(), NULL, NULL};
    grammar_vocab *v;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_vocab_create(&world, &tokens, &v, &err), &err);
    for (uint32_t n = PROGRAM_TOKENS; n <= PROGRAM_TOKENS + 1; n++) {
        strbuf text;
        strbuf_init(&text, mem_system(), 0);
        add_times(&text, "{\"all\":[{\"text\":\"\"}", 1);
        for (uint32_t i = 0; i < n; i++) (void)strbuf_printf(&text, ",{\"token\":%u}", i + 2);
        add_times(&text, "]}", 1);
        weft_status status =
            world_compiles(v, GRAMMAR_PARTS, (str){strbuf_text(&text), text.len}, &err);
        assert_status(n == PROGRAM_TOKENS ? WEFT_OK : WEFT_LIMIT, status, &err);
        strbuf_deinit(&text);
    }
    assert_message(&err, "256 named tokens");
    grammar_vocab_destroy(v);
}

/* ---- failures ---- */

static weft_status scenario(const env *world, void *user, weft_error *err)
{
    grammar_vocab *v = NULL;
    grammar *g = NULL;
    grammar_state *s = NULL, *clone = NULL;
    uint64_t bits;
    weft_status status = small_vocab(world, &v, err);
    if (status == WEFT_OK) status = grammar_compile(world, v, GRAMMAR_PARTS, str_of(user), &g, err);
    if (status == WEFT_OK) status = grammar_state_create(g, &s, err);
    if (status == WEFT_OK) status = grammar_state_mask(s, &bits, err);
    if (status == WEFT_OK) status = grammar_state_accept(s, T_CONTROL, err);
    if (status == WEFT_OK) status = grammar_state_clone(s, &clone, err);
    if (status == WEFT_OK) status = grammar_state_mask(clone, &bits, err);
    grammar_state_destroy(s);
    grammar_state_destroy(clone);
    grammar_unref(g);
    grammar_vocab_destroy(v);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    static char source[] =
        "{\"all\":[{\"text\":\"<|c|>\"},{\"any\":[{\"choice\":[\"a\",\"b\"]},{\"regex\":\"a+b\"},{"
        "\"repeat\":{\"token\":\"<t>\"},\"min\":2,\"separator\":{\"text\":\"b\"}},{\"rules\":"
        "\"root "
        "::= <|c|>\"}]},{\"until\":\"<t>\",\"without\":[\"ab\"],\"max_chars\":9},{\"optional\":{"
        "\"json\":true}}]}";
    assert_true(fault_sweep(scenario, source) >= 45);
}

/* Nothing is allocated while a state runs, and no room is lost: more states than there is room for,
 * with a token that has a name and bytes. */
static void test_steady(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    const env world = {&fault.allocator, NULL, NULL};
    static const char SOURCE[] = "{\"repeat\":{\"any\":[{\"text\":\"a\"},{\"all\":[{\"token\":"
                                 "\"ab\"},{\"text\":\"<|c|>\"}]},{"
                                 "\"text\":\"abb\"}]},\"max\":100000}";
    grammar *g;
    grammar_state *s;
    uint64_t bits;
    int32_t tokens[8];
    uint32_t n;
    weft_error err = {.status = WEFT_OK};
    assert_ok(grammar_compile(&world, small, GRAMMAR_PARTS, str_of(SOURCE), &g, &err), &err);
    assert_ok(grammar_state_create(g, &s, &err), &err);
    fault.armed = true;
    for (uint32_t i = 0; i < 9000; i++) {
        static const int32_t NEXT[] = {6, T_CONTROL, 0, 6, 1}; /* ab <|c|> a ab b */
        assert_ok(grammar_state_mask(s, &bits, &err), &err);
        assert_true((bits >> NEXT[i % 5] & 1) != 0);
        assert_ok(grammar_state_forced(s, tokens, 8, &n, &err), &err);
        assert_ok(grammar_state_accept(s, NEXT[i % 5], &err), &err);
    }
    fault.armed = false;
    assert_true(grammar_state_can_end(s));
    grammar_state_destroy(s);
    grammar_unref(g);
    fault_allocator_check(&fault);
}

int main(void)
{
    const env world = {mem_system(), NULL, NULL};
    weft_error err = {.status = WEFT_OK};
    if (small_vocab(&world, &small, &err) != WEFT_OK) return 1;
    bytes_vocab = world_vocab(false);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sequences), cmocka_unit_test(test_dialects),
        cmocka_unit_test(test_drawn),         cmocka_unit_test(test_added_tokens),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_limits),
        cmocka_unit_test(test_many_names),    cmocka_unit_test(test_faults),
        cmocka_unit_test(test_steady),
    };
    int failed = TEST_RUN("grammar/parts", tests);
    grammar_vocab_destroy(small);
    grammar_vocab_destroy(bytes_vocab);
    return failed;
}
