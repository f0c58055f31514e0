/* call_xml.c - a name, and parameters between tags, one by one: values are bare text, which the
 * tool's schema gives a type.
 *
 * A string goes out as it comes; anything else is read to its end first. Closing tags that come
 * twice are passed over. */
#include <string.h>

#include "chat/call.h"
#include "chat/dialects/dialect.h"

enum { NAME, BETWEEN, KEY, VALUE_TAG, VALUE };

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

static void give_text(call_reader *r, const char *text)
{
    call_give(r, str_of(text));
}

/* ---- the name -------------------------------------------------------------------------------- */

static call_result named(call_reader *r, size_t n_bytes)
{
    if (!call_set_name(r, (str){strbuf_text(&r->word), n_bytes}) || !call_announce(r))
        return CALL_BAD;
    give_text(r, "{");
    return more(r, BETWEEN);
}

static call_result finish(call_reader *r)
{
    give_text(r, "}");
    call_finish(r);
    return CALL_DONE;
}

static call_result push_name(call_reader *r, char c)
{
    const dialect_xml *how = &r->dialect->xml;
    if (r->word.len == CALL_WORD_BYTES) return CALL_BAD;
    call_put(r, &r->word, c);
    size_t n = r->word.len;
    if (how->name_close != NULL) {
        size_t n_close = strlen(how->name_close);
        return call_word_ends(r, how->name_close) ? named(r, n - n_close) : CALL_MORE;
    }
    /* A name ends where a tag begins; white space before it is none of it. */
    if (c != '<') return CALL_MORE;
    call_result result = named(r, n - 1);
    if (result == CALL_MORE) call_put(r, &r->word, c);
    return result;
}

/* ---- between parameters ---------------------------------------------------------------------- */

/* 0: it cannot become the tag; 1: it may; 2: it is. */
static int tag_of(str word, const char *tag)
{
    if (tag == NULL) return 0;
    size_t n = strlen(tag);
    if (n < word.len || memcmp(tag, word.ptr, word.len) != 0) return 0;
    return n == word.len ? 2 : 1;
}

static call_result push_between(call_reader *r, char c)
{
    const dialect_xml *how = &r->dialect->xml;
    if (r->word.len == 0 && call_is_space(c)) return CALL_MORE;
    call_put(r, &r->word, c);
    str word = call_text(&r->word);
    int key = tag_of(word, how->key_open);
    if (key == 2) return ++r->n_parameters > CALL_PARAMETERS ? CALL_BAD : more(r, KEY);
    int close = tag_of(word, how->value_close);
    if (close == 2) return more(r, BETWEEN);
    bool maybe = key == 1 || close == 1;
    for (size_t i = 0; i < DIALECT_TAGS; i++) {
        int end = tag_of(word, how->ends[i]);
        if (end == 2) return finish(r);
        maybe = maybe || end == 1;
    }
    return maybe ? CALL_MORE : CALL_BAD;
}

/* ---- a parameter ----------------------------------------------------------------------------- */

static bool was_seen(const call_reader *r, str key)
{
    const char *at = strbuf_text(&r->seen), *last = at + r->seen.len;
    for (; at < last; at += strlen(at) + 1) {
        if (str_equal_text(key, at)) return true;
    }
    return false;
}

static void add_escaped(call_reader *r, str text)
{
    strbuf_clear(&r->arguments);
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < text.len && status == WEFT_OK; i++)
        status = json_scan_escape(text.ptr[i], &r->arguments);
    if (status != WEFT_OK) r->parts->failed = true;
    call_give(r, call_text(&r->arguments));
}

/* A parameter that comes twice is read and left out: JSON has no name for it any more. */
static call_result begin_value(call_reader *r, str key)
{
    key = call_trim(key);
    if (key.len == 0 || memchr(key.ptr, '\0', key.len) != NULL) return CALL_BAD;
    r->has_arguments = !was_seen(r, key);
    if (r->has_arguments) {
        give_text(r, r->seen.len > 0 ? ", \"" : "\"");
        add_escaped(r, key);
        give_text(r, "\": ");
        weft_status status = strbuf_add(&r->seen, key.ptr, key.len);
        if (status == WEFT_OK) status = strbuf_add_char(&r->seen, '\0');
        if (status != WEFT_OK) r->parts->failed = true;
    }
    r->types = tool_types(r->tool, key);
    r->text_parameter = r->has_arguments && r->types == TOOL_TEXT;
    if (r->text_parameter) give_text(r, "\"");
    r->escaped = false;
    strbuf_clear(&r->value);
    return more(r, r->dialect->xml.value_open != NULL ? VALUE_TAG : VALUE);
}

static call_result push_key(call_reader *r, char c)
{
    const char *close = r->dialect->xml.key_close;
    if (r->word.len == CALL_WORD_BYTES) return CALL_BAD;
    call_put(r, &r->word, c);
    if (!call_word_ends(r, close)) return CALL_MORE;
    return begin_value(r, (str){strbuf_text(&r->word), r->word.len - strlen(close)});
}

static call_result push_value_tag(call_reader *r, char c)
{
    const char *open = r->dialect->xml.value_open;
    if (r->word.len == 0 && call_is_space(c)) return CALL_MORE;
    call_put(r, &r->word, c);
    int tag = tag_of(call_text(&r->word), open);
    if (tag == 2) return more(r, VALUE);
    return tag == 1 ? CALL_MORE : CALL_BAD;
}

/* How many of a text's last bytes may be the line's end before the closing tag and its beginning.
 */
static size_t held_back(const dialect_xml *how, str text)
{
    size_t n_close = strlen(how->value_close);
    size_t most = text.len < n_close ? text.len : n_close - 1;
    while (most > 0 && memcmp(text.ptr + text.len - most, how->value_close, most) != 0) most--;
    if (how->lines && most < text.len && text.ptr[text.len - most - 1] == '\n') most++;
    return most;
}

/* escaped: that the value has begun, so that a line's end is a part of it. */
static void skip_first_line(call_reader *r)
{
    if (r->dialect->xml.lines && !r->escaped && r->value.len > 0 && r->value.ptr[0] == '\n') {
        memmove(r->value.ptr, r->value.ptr + 1, r->value.len - 1);
        r->value.len--;
    }
    r->escaped = true;
}

static call_result take_value(call_reader *r, size_t n)
{
    const dialect_xml *how = &r->dialect->xml;
    str text = {strbuf_text(&r->value), n};
    if (how->lines && text.len > 0 && text.ptr[text.len - 1] == '\n') text.len--;
    if (r->text_parameter) {
        add_escaped(r, text);
        give_text(r, "\"");
    } else if (r->has_arguments) {
        strbuf_clear(&r->arguments);
        if (tool_write_value(text, r->types, &r->arguments) != WEFT_OK) r->parts->failed = true;
        call_give(r, call_text(&r->arguments));
    }
    return more(r, BETWEEN);
}

static call_result push_value(call_reader *r, char c)
{
    const dialect_xml *how = &r->dialect->xml;
    call_put(r, &r->value, c);
    skip_first_line(r);
    str text = call_text(&r->value);
    if (str_ends(text, how->value_close)) return take_value(r, text.len - strlen(how->value_close));
    if (!r->text_parameter) return CALL_MORE;
    size_t n = text.len - held_back(how, text);
    if (n == 0) return CALL_MORE;
    add_escaped(r, (str){text.ptr, n});
    memmove(r->value.ptr, r->value.ptr + n, text.len - n);
    r->value.len -= n;
    return CALL_MORE;
}

static call_result push(call_reader *r, char c)
{
    switch (r->phase) {
    case NAME:
        return push_name(r, c);
    case BETWEEN:
        return push_between(r, c);
    case KEY:
        return push_key(r, c);
    case VALUE_TAG:
        return push_value_tag(r, c);
    default:
        return push_value(r, c);
    }
}

static call_result end(call_reader *r)
{
    return r->phase == BETWEEN && r->word.len == 0 ? finish(r) : CALL_BAD;
}

const call_form CALL_FORM_XML = {begin, push, end};
