/* call_json.c - {"name": ..., "arguments": {...}}, its members in any order, or an array of such.
 *
 * Arguments that stand before the name wait for it. Arguments may be JSON within a string, may be
 * called parameters, and may be left out; the object may stand in the member "function" of another.
 * Once the object is closed, the call is complete, whatever follows. */
#include <string.h>

#include "chat/call.h"

enum {
    START,
    ITEM,      /* the object of an array */
    FIRST_KEY, /* or the end of the object */
    KEY,
    KEY_TEXT,
    COLON,
    VALUE, /* the first byte of one */
    NAME,
    ARGUMENTS,
    ARGUMENTS_TEXT,
    ARGUMENTS_NULL,
    OTHER,
    BEHIND, /* behind a member's value */
    BEHIND_ITEM
};

static void begin(call_reader *r)
{
    call_reader_reset(r);
    r->listed = false;
    r->phase = START;
}

static call_result more(call_reader *r, uint8_t phase)
{
    r->phase = phase;
    return CALL_MORE;
}

/* What is known goes out: nothing before the name does. */
static call_result flow(call_reader *r)
{
    if (!r->named) return CALL_MORE;
    if (!call_announce(r)) return CALL_BAD;
    call_give(r, call_text(&r->arguments));
    strbuf_clear(&r->arguments);
    return CALL_MORE;
}

static call_result complete(call_reader *r)
{
    if (!r->has_arguments && strbuf_add_text(&r->arguments, "{}") != WEFT_OK)
        r->parts->failed = true;
    if (!r->named || flow(r) == CALL_BAD) return CALL_BAD;
    call_finish(r);
    if (!r->listed) return CALL_DONE;
    call_reader_reset(r);
    return more(r, BEHIND_ITEM);
}

static call_result push_start(call_reader *r, char c)
{
    if (call_is_space(c)) return CALL_MORE;
    if (c == '{') return more(r, FIRST_KEY);
    if (c != '[' || r->phase == ITEM) return CALL_BAD;
    r->listed = true;
    return more(r, ITEM);
}

static call_result push_key(call_reader *r, char c)
{
    if (r->phase == COLON) {
        if (c == ':') return more(r, VALUE);
        return call_is_space(c) ? CALL_MORE : CALL_BAD;
    }
    if (r->phase != KEY_TEXT) {
        if (call_is_space(c)) return CALL_MORE;
        strbuf_clear(&r->word);
        return c == '"' ? more(r, KEY_TEXT) : CALL_BAD;
    }
    if (c == '"') return more(r, COLON);
    /* Keys that matter have no escapes. */
    if (c == '\\' || (unsigned char)c < 0x20 || r->word.len == CALL_WORD_BYTES) return CALL_BAD;
    call_put(r, &r->word, c);
    return CALL_MORE;
}

static bool key_is(const call_reader *r, const char *a, const char *b)
{
    return str_equal_text(call_text(&r->word), a) || str_equal_text(call_text(&r->word), b);
}

static call_result scan_to(call_reader *r, char c, uint8_t phase)
{
    json_scan_init(&r->scan);
    strbuf_clear(&r->value);
    call_put(r, &r->value, c);
    return json_scan_push(&r->scan, c) == JSON_SCAN_BAD ? CALL_BAD : more(r, phase);
}

static call_result begin_arguments(call_reader *r, char c)
{
    if (r->has_arguments) return CALL_BAD;
    r->has_arguments = true;
    if (c == '"') return scan_to(r, c, ARGUMENTS_TEXT);
    if (c == 'n') return scan_to(r, c, ARGUMENTS_NULL);
    if (c != '{') return CALL_BAD;
    call_put(r, &r->arguments, c);
    return flow(r) == CALL_BAD ? CALL_BAD : scan_to(r, c, ARGUMENTS);
}

static call_result push_value(call_reader *r, char c)
{
    if (call_is_space(c)) return CALL_MORE;
    if (key_is(r, "arguments", "parameters")) return begin_arguments(r, c);
    bool function = key_is(r, "function", "function");
    if (key_is(r, "name", "tool_name") || (function && c == '"'))
        return c == '"' && !r->named ? scan_to(r, c, NAME) : CALL_BAD;
    if (function && c == '{' && r->n_nested == 0) {
        r->n_nested = 1;
        return more(r, FIRST_KEY);
    }
    if (r->known_only && !key_is(r, "type", "id")) return CALL_BAD;
    return scan_to(r, c, OTHER);
}

/* The end of a value that was read as a whole. */
static call_result take_value(call_reader *r)
{
    strbuf_clear(&r->word);
    weft_status status = WEFT_OK;
    if (r->phase == NAME || r->phase == ARGUMENTS_TEXT)
        status = json_scan_decode(call_text(&r->value), &r->word);
    if (status != WEFT_OK) r->parts->failed = true;
    str said = call_text(&r->word);
    if (r->phase == NAME && !call_set_name(r, said)) return CALL_BAD;
    if (r->phase == ARGUMENTS_NULL) said = str_of("{}");
    if (r->phase == ARGUMENTS_NULL || r->phase == ARGUMENTS_TEXT) {
        said = call_trim(said);
        if (said.len == 0) said = str_of("{}");
        if (said.ptr[0] != '{' || !json_scan_all(said)) return CALL_BAD;
        if (strbuf_add(&r->arguments, said.ptr, said.len) != WEFT_OK) r->parts->failed = true;
    }
    r->phase = BEHIND;
    return r->has_arguments ? flow(r) : CALL_MORE;
}

static call_result push_scanned(call_reader *r, char c)
{
    bool in_text = json_scan_in_text(&r->scan);
    json_scan_result result = json_scan_push(&r->scan, c);
    if (result == JSON_SCAN_BAD) return CALL_BAD;
    if (r->phase == ARGUMENTS) {
        if (json_scan_write(in_text, c, &r->arguments) != WEFT_OK) r->parts->failed = true;
        if (result == JSON_SCAN_DONE) r->phase = BEHIND;
        return flow(r);
    }
    if (result == JSON_SCAN_PAST) {
        r->phase = BEHIND;
        return CALL_FORM_JSON.push(r, c);
    }
    if (r->phase != OTHER) call_put(r, &r->value, c);
    return result == JSON_SCAN_DONE ? take_value(r) : CALL_MORE;
}

static call_result push_behind(call_reader *r, char c)
{
    if (call_is_space(c)) return CALL_MORE;
    if (r->phase == BEHIND_ITEM) {
        if (c == ']') return CALL_DONE;
        return c == ',' ? more(r, ITEM) : CALL_BAD;
    }
    if (c == ',') return more(r, KEY);
    if (c != '}') return CALL_BAD;
    if (r->n_nested == 0) return complete(r);
    r->n_nested = 0;
    return more(r, BEHIND);
}

static call_result push(call_reader *r, char c)
{
    switch (r->phase) {
    case START:
    case ITEM:
        return push_start(r, c);
    case FIRST_KEY:
    case KEY:
    case KEY_TEXT:
    case COLON:
        return push_key(r, c);
    case VALUE:
        return push_value(r, c);
    case BEHIND:
    case BEHIND_ITEM:
        return push_behind(r, c);
    default:
        return push_scanned(r, c);
    }
}

static call_result end(call_reader *r)
{
    if (r->phase == BEHIND_ITEM) return CALL_DONE;
    if (r->phase != BEHIND || !r->has_arguments) return CALL_BAD;
    r->listed = false;
    return complete(r);
}

const call_form CALL_FORM_JSON = {begin, push, end};
