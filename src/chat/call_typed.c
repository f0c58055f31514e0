/* call_typed.c - name{key:value,...} as Gemma 4 writes it: keys are bare, strings stand between
 * tokens of their own, and the rest is as in JSON. */
#include <string.h>

#include "chat/call.h"
#include "chat/dialects/dialect.h"

enum {
    NAME,
    FIRST_KEY,
    KEY,
    KEY_QUOTED,
    COLON,
    FIRST_VALUE,
    VALUE,
    VALUE_BARE,
    VALUE_QUOTED,
    VALUE_JSON,
    BEHIND
};

static void begin(call_reader *r)
{
    call_reader_reset(r);
}

static call_result more(call_reader *r, uint8_t phase)
{
    r->phase = phase;
    strbuf_clear(&r->word);
    return CALL_MORE;
}

static void give_char(call_reader *r, char c)
{
    call_give(r, (str){&c, 1});
}

static void give_escaped(call_reader *r, char c)
{
    strbuf_clear(&r->arguments);
    if (json_scan_escape(c, &r->arguments) != WEFT_OK) r->parts->failed = true;
    call_give(r, call_text(&r->arguments));
}

static void give_word(call_reader *r, size_t n)
{
    for (size_t i = 0; i < n; i++) give_escaped(r, r->word.ptr[i]);
}

/* ---- containers ------------------------------------------------------------------------------ */

static call_result open(call_reader *r, bool object)
{
    if (r->n_nested == CALL_NESTED) return CALL_BAD;
    r->nested[r->n_nested++] = object;
    give_char(r, object ? '{' : '[');
    return more(r, object ? FIRST_KEY : FIRST_VALUE);
}

static call_result close(call_reader *r, bool object)
{
    if (r->nested[r->n_nested - 1] != object) return CALL_BAD;
    give_char(r, object ? '}' : ']');
    if (--r->n_nested > 0) return more(r, BEHIND);
    call_finish(r);
    return CALL_DONE;
}

static call_result push_behind(call_reader *r, char c)
{
    bool object = r->nested[r->n_nested - 1];
    if (call_is_space(c)) return CALL_MORE;
    if (c == '}' || c == ']') return close(r, c == '}');
    if (c != ',') return CALL_BAD;
    give_char(r, ',');
    return more(r, object ? KEY : VALUE);
}

/* ---- names and keys -------------------------------------------------------------------------- */

static call_result push_name(call_reader *r, char c)
{
    if (c == '{') {
        if (!call_set_name(r, call_text(&r->word)) || !call_announce(r)) return CALL_BAD;
        return open(r, true);
    }
    if (r->word.len == CALL_WORD_BYTES) return CALL_BAD;
    call_put(r, &r->word, c);
    return CALL_MORE;
}

/* What begins with the mark of a string: 1 while it is only its beginning, 2 when it is whole. */
static int mark_of(const call_reader *r)
{
    const char *mark = r->dialect->typed.quote;
    size_t n = strlen(mark);
    if (r->word.len > n || memcmp(mark, r->word.ptr, r->word.len) != 0) return 0;
    return r->word.len == n ? 2 : 1;
}

static call_result push_key(call_reader *r, char c)
{
    if (r->word.len == 0 && call_is_space(c)) return CALL_MORE;
    if (r->phase == FIRST_KEY && r->word.len == 0 && c == '}') return close(r, true);
    if (r->word.len == CALL_WORD_BYTES) return CALL_BAD;
    if (c == ':' && r->word.len > 0) {
        while (r->word.len > 0 && call_is_space(r->word.ptr[r->word.len - 1])) r->word.len--;
        give_char(r, '"');
        give_word(r, r->word.len);
        call_give(r, str_of("\":"));
        return more(r, VALUE);
    }
    if (strchr("{}[],:\"\n", c) != NULL && mark_of(r) != 1) return CALL_BAD;
    call_put(r, &r->word, c);
    if (mark_of(r) != 2) return CALL_MORE;
    give_char(r, '"');
    return more(r, KEY_QUOTED);
}

/* All but what may be the beginning of the closing mark goes out. */
static call_result push_quoted(call_reader *r, char c)
{
    const char *mark = r->dialect->typed.quote;
    size_t n = strlen(mark);
    call_put(r, &r->word, c);
    if (call_word_ends(r, mark)) {
        give_char(r, '"');
        return more(r, r->phase == KEY_QUOTED ? COLON : BEHIND);
    }
    size_t held = r->word.len < n ? r->word.len : n - 1;
    while (held > 0 && memcmp(r->word.ptr + r->word.len - held, mark, held) != 0) held--;
    size_t n_given = r->word.len - held;
    give_word(r, n_given);
    if (n_given > 0) memmove(r->word.ptr, r->word.ptr + n_given, held);
    r->word.len = held;
    return CALL_MORE;
}

/* ---- values ---------------------------------------------------------------------------------- */

static call_result begin_value(call_reader *r, char c)
{
    if (call_is_space(c)) return CALL_MORE;
    if (c == '{' || c == '[') return open(r, c == '{');
    if (c == ']' && r->phase == FIRST_VALUE) return close(r, false);
    if (c == '}' || c == ']' || c == ',' || c == ':') return CALL_BAD;
    if (c == '"') {
        json_scan_init(&r->scan);
        (void)json_scan_push(&r->scan, c);
        give_char(r, c);
        return more(r, VALUE_JSON);
    }
    call_result result = more(r, VALUE_BARE);
    call_put(r, &r->word, c);
    return result;
}

static call_result push_bare(call_reader *r, char c)
{
    if (c == ',' || c == '}' || c == ']') {
        strbuf_clear(&r->arguments);
        str word = call_text(&r->word);
        if (tool_write_value(word, TOOL_ANY, &r->arguments) != WEFT_OK) r->parts->failed = true;
        call_give(r, call_text(&r->arguments));
        (void)more(r, BEHIND);
        return push_behind(r, c);
    }
    if (r->word.len == CALL_WORD_BYTES || (c == '\n' && mark_of(r) != 1)) return CALL_BAD;
    call_put(r, &r->word, c);
    if (mark_of(r) != 2) return CALL_MORE;
    give_char(r, '"');
    return more(r, VALUE_QUOTED);
}

static call_result push_json(call_reader *r, char c)
{
    json_scan_result result = json_scan_push(&r->scan, c);
    if (result == JSON_SCAN_BAD) return CALL_BAD;
    if ((unsigned char)c < 0x20) {
        give_escaped(r, c);
    } else {
        give_char(r, c);
    }
    return result == JSON_SCAN_DONE ? more(r, BEHIND) : CALL_MORE;
}

static call_result push(call_reader *r, char c)
{
    switch (r->phase) {
    case NAME:
        return push_name(r, c);
    case FIRST_KEY:
    case KEY:
        return push_key(r, c);
    case KEY_QUOTED:
    case VALUE_QUOTED:
        return push_quoted(r, c);
    case COLON:
        if (c != ':') return call_is_space(c) ? CALL_MORE : CALL_BAD;
        give_char(r, ':');
        return more(r, VALUE);
    case FIRST_VALUE:
    case VALUE:
        return begin_value(r, c);
    case VALUE_BARE:
        return push_bare(r, c);
    case VALUE_JSON:
        return push_json(r, c);
    default:
        return push_behind(r, c);
    }
}

static call_result end(call_reader *r)
{
    (void)r;
    return CALL_BAD;
}

const call_form CALL_FORM_TYPED = {begin, push, end};
