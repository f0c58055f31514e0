/* call_named.c - a name, a separator, and the arguments as a JSON object: what the separator is and
 * what stands around the name is the dialect's.
 *
 * The older way of a dialect, an array of objects, is told from it by the first byte. */
#include <string.h>

#include "chat/call.h"
#include "chat/dialects/dialect.h"

enum {
    START,
    NAME,
    ID,         /* between the name and the separator */
    OBJECT,     /* the first byte of the arguments */
    FENCE,      /* a line that begins a block of code */
    TYPED_NAME, /* a name behind the separator, to the end of its line */
    ARGUMENTS
};

static void begin(call_reader *r)
{
    call_reader_reset(r);
    r->delegated = false;
}

/* functions.name:0 is name. */
static bool set_name(call_reader *r, str name)
{
    const dialect_named *how = &r->dialect->named;
    name = call_trim(name);
    if (how->prefix != NULL && str_starts(name, how->prefix)) {
        name.ptr += strlen(how->prefix);
        name.len -= strlen(how->prefix);
    }
    size_t n = name.len;
    while (how->numbered && n > 0 && name.ptr[n - 1] >= '0' && name.ptr[n - 1] <= '9') n--;
    if (how->numbered && n > 0 && name.ptr[n - 1] == ':') name.len = n - 1;
    return call_set_name(r, name);
}

static call_result begin_arguments(call_reader *r, char c)
{
    if (!call_announce(r)) return CALL_BAD;
    json_scan_init(&r->scan);
    (void)json_scan_push(&r->scan, c);
    call_give(r, (str){&c, 1});
    r->phase = ARGUMENTS;
    return CALL_MORE;
}

/* n: bytes of the word that are not the name's. */
static call_result named(call_reader *r, size_t n, uint8_t phase)
{
    bool typed = r->dialect->named.typed && phase == OBJECT;
    str name = {strbuf_text(&r->word), r->word.len - n};
    bool ok = set_name(r, name);
    strbuf_clear(&r->word);
    r->phase = phase;
    return ok || typed ? CALL_MORE : CALL_BAD;
}

static call_result push_name(call_reader *r, char c)
{
    const dialect_named *how = &r->dialect->named;
    if (r->word.len == CALL_WORD_BYTES) return CALL_BAD;
    if (c == '{') {
        call_result result = named(r, 0, ARGUMENTS);
        return result == CALL_BAD ? result : begin_arguments(r, c);
    }
    call_put(r, &r->word, c);
    if (call_word_ends(r, how->separator)) return named(r, strlen(how->separator), OBJECT);
    if (how->id != NULL && call_word_ends(r, how->id)) return named(r, strlen(how->id), ID);
    return CALL_MORE;
}

static call_result push_id(call_reader *r, char c)
{
    if (r->word.len == CALL_WORD_BYTES) return CALL_BAD;
    call_put(r, &r->word, c);
    if (!call_word_ends(r, r->dialect->named.separator)) return CALL_MORE;
    r->phase = OBJECT;
    return CALL_MORE;
}

static call_result push_object(call_reader *r, char c)
{
    bool typed = r->dialect->named.typed;
    if (call_is_space(c)) return CALL_MORE;
    if (c == '{') {
        bool ok = tool_name_ok(call_text(&r->name)) && (r->tool != NULL || !r->known_only);
        return ok ? begin_arguments(r, c) : CALL_BAD;
    }
    if (!typed) return CALL_BAD;
    strbuf_clear(&r->word);
    r->phase = c == '`' ? FENCE : TYPED_NAME;
    call_put(r, &r->word, c);
    return CALL_MORE;
}

static call_result push_line(call_reader *r, char c)
{
    if (r->word.len == CALL_WORD_BYTES) return CALL_BAD;
    if (c != '\n') {
        call_put(r, &r->word, c);
        return CALL_MORE;
    }
    bool ok = r->phase == FENCE || set_name(r, call_text(&r->word));
    r->phase = OBJECT;
    return ok ? CALL_MORE : CALL_BAD;
}

static call_result push_arguments(call_reader *r, char c)
{
    bool in_text = json_scan_in_text(&r->scan);
    json_scan_result result = json_scan_push(&r->scan, c);
    if (result == JSON_SCAN_BAD) return CALL_BAD;
    strbuf_clear(&r->arguments);
    if (json_scan_write(in_text, c, &r->arguments) != WEFT_OK) r->parts->failed = true;
    call_give(r, call_text(&r->arguments));
    if (result != JSON_SCAN_DONE) return CALL_MORE;
    call_finish(r);
    return CALL_DONE;
}

static call_result push(call_reader *r, char c)
{
    if (r->delegated) return CALL_FORM_JSON.push(r, c);
    switch (r->phase) {
    case START:
        if (call_is_space(c)) return CALL_MORE;
        if (r->dialect->named.or_json && (c == '[' || c == '{')) {
            CALL_FORM_JSON.begin(r);
            r->delegated = true;
            return CALL_FORM_JSON.push(r, c);
        }
        r->phase = NAME;
        return push_name(r, c);
    case NAME:
        return push_name(r, c);
    case ID:
        return push_id(r, c);
    case OBJECT:
        return push_object(r, c);
    case ARGUMENTS:
        return push_arguments(r, c);
    default:
        return push_line(r, c);
    }
}

static call_result end(call_reader *r)
{
    return r->delegated ? CALL_FORM_JSON.end(r) : CALL_BAD;
}

const call_form CALL_FORM_NAMED = {begin, push, end};
