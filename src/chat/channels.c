/* channels.c - harmony's messages. The prompt ends in the middle of the first one's header. */
#include "chat/channels.h"

#include <string.h>

#include "base/assert.h"

#define CHANNEL "<|channel|>"
#define MESSAGE "<|message|>"
#define START "<|start|>"

/* What ends a message. */
static const char *const ENDS[] = {"<|end|>", "<|call|>", "<|return|>", START, CHANNEL};

void channel_reader_init(channel_reader *c, const weft_allocator *allocator, bool calls)
{
    *c = (channel_reader){.phase = CHANNEL_HEADER, .calls = calls};
    strbuf_init(&c->header, allocator, 0);
    strbuf_init(&c->held, allocator, 0);
    strbuf_init(&c->raw, allocator, 0);
}

void channel_reader_deinit(channel_reader *c)
{
    strbuf_deinit(&c->header);
    strbuf_deinit(&c->held);
    strbuf_deinit(&c->raw);
}

static void give(call_reader *r, weft_part_kind kind, str text)
{
    part_list_add(r->parts, kind, 0, text.ptr, text.len);
}

static void begin_body(channel_reader *c, weft_part_kind kind)
{
    c->phase = CHANNEL_BODY;
    c->kind = kind;
    strbuf_clear(&c->held);
}

/* What was taken for a header or a call is content, byte for byte. */
static void plain(channel_reader *c, call_reader *r, strbuf *text)
{
    give(r, WEFT_PART_CONTENT, call_text(text));
    strbuf_clear(text);
    begin_body(c, WEFT_PART_CONTENT);
}

/* ---- headers --------------------------------------------------------------------------------- */

static const char *find(str text, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= text.len; i++) {
        if (memcmp(text.ptr + i, what, n) == 0) return text.ptr + i;
    }
    return NULL;
}

/* The word behind a marker. */
static str word_behind(str text, const char *what)
{
    const char *at = find(text, what), *last = text.ptr + text.len;
    if (at == NULL) return (str){"", 0};
    at += strlen(what);
    while (at < last && call_is_space(*at)) at++;
    const char *end = at;
    while (end < last && !call_is_space(*end) && *end != '<') end++;
    return (str){at, (size_t)(end - at)};
}

static void take_header(channel_reader *c, call_reader *r)
{
    str header = {c->header.ptr, c->header.len - strlen(MESSAGE)};
    str channel = word_behind(header, CHANNEL), to = word_behind(header, "to=");
    if (str_starts(to, "functions.")) {
        to.ptr += strlen("functions.");
        to.len -= strlen("functions.");
    }
    bool named = to.len > 0 && c->calls;
    call_reader_reset(r);
    if (named && call_set_name(r, to) && call_announce(r)) {
        c->phase = CHANNEL_CALL;
        json_scan_init(&c->scan);
        strbuf_clear(&c->raw);
        if (strbuf_add(&c->raw, c->header.ptr, c->header.len) != WEFT_OK) r->parts->failed = true;
        strbuf_clear(&c->header);
    } else if (named) {
        plain(c, r, &c->header);
    } else {
        bool thought = str_equal_text(channel, "analysis");
        begin_body(c, thought ? WEFT_PART_REASONING : WEFT_PART_CONTENT);
        strbuf_clear(&c->header);
    }
}

/* Behind the prompt an answer that is no message may follow: its first word tells. */
static bool may_be_header(const channel_reader *c)
{
    str text = call_text(&c->header);
    static const char *const FIRST[] = {CHANNEL, "to=", MESSAGE, "<|constrain|>"};
    if (text.len > CHANNEL_HEADER_BYTES) return false;
    if (c->started) return true;
    while (text.len > 0 && call_is_space(text.ptr[0])) {
        text.ptr++;
        text.len--;
    }
    for (size_t i = 0; i < COUNT_OF(FIRST); i++) {
        size_t n = strlen(FIRST[i]) < text.len ? strlen(FIRST[i]) : text.len;
        if (memcmp(text.ptr, FIRST[i], n) == 0) return true;
    }
    return false;
}

static void push_header(channel_reader *c, call_reader *r, char byte)
{
    call_put(r, &c->header, byte);
    if (str_ends(call_text(&c->header), MESSAGE)) {
        take_header(c, r);
    } else if (!may_be_header(c)) {
        plain(c, r, &c->header);
    }
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static void begin_header(channel_reader *c, call_reader *r, const char *marker)
{
    c->phase = CHANNEL_HEADER;
    c->started = true;
    strbuf_clear(&c->header);
    if (strbuf_add_text(&c->header, marker) != WEFT_OK) r->parts->failed = true;
}

/* Markers that end a message; NULL while the text is none. *begins: it may become one. */
static const char *end_of(str text, bool *begins)
{
    *begins = false;
    for (size_t i = 0; i < COUNT_OF(ENDS); i++) {
        size_t n = strlen(ENDS[i]);
        if (text.len > n || memcmp(text.ptr, ENDS[i], text.len) != 0) continue;
        if (text.len == n) return ENDS[i];
        *begins = true;
    }
    return NULL;
}

static void push_body(channel_reader *c, call_reader *r, char byte)
{
    call_put(r, &c->held, byte);
    while (!r->parts->failed && c->held.len > 0) {
        bool begins;
        const char *end = end_of(call_text(&c->held), &begins);
        if (end != NULL) {
            strbuf_clear(&c->held);
            c->phase = CHANNEL_BETWEEN;
            if (strcmp(end, START) == 0 || strcmp(end, CHANNEL) == 0) begin_header(c, r, end);
            return;
        }
        if (begins) return;
        give(r, c->kind, (str){c->held.ptr, 1});
        memmove(c->held.ptr, c->held.ptr + 1, c->held.len - 1);
        c->held.len--;
    }
}

static void undo(channel_reader *c, call_reader *r)
{
    part_list_add(r->parts, WEFT_PART_CALL_UNDONE, r->n_calls, "", 0);
    r->n_calls++;
    r->announced = false;
    /* The last byte may begin the marker that ends the message. */
    char last = c->raw.ptr[c->raw.len - 1];
    c->raw.len--;
    plain(c, r, &c->raw);
    push_body(c, r, last);
}

static void push_call(channel_reader *c, call_reader *r, char byte)
{
    call_put(r, &c->raw, byte);
    if (r->parts->failed) return;
    bool in_text = json_scan_in_text(&c->scan), first = json_scan_at_start(&c->scan);
    json_scan_result result = json_scan_push(&c->scan, byte);
    bool object = !first || byte == '{' || call_is_space(byte);
    if (result == JSON_SCAN_BAD || !object || c->raw.len > WEFT_CHAT_CALL_BYTES) {
        undo(c, r);
        return;
    }
    if (first && byte != '{') return;
    strbuf_clear(&r->arguments);
    if (json_scan_write(in_text, byte, &r->arguments) != WEFT_OK) r->parts->failed = true;
    call_give(r, call_text(&r->arguments));
    if (result != JSON_SCAN_DONE) return;
    call_finish(r);
    strbuf_clear(&c->raw);
    c->phase = CHANNEL_BETWEEN;
}

/* White space and the ends of messages are nothing here. */
static void push_between(channel_reader *c, call_reader *r, char byte)
{
    bool begins;
    if (c->held.len == 0 && call_is_space(byte)) return;
    call_put(r, &c->held, byte);
    const char *end = end_of(call_text(&c->held), &begins);
    if (end != NULL) {
        strbuf_clear(&c->held);
        if (strcmp(end, START) == 0 || strcmp(end, CHANNEL) == 0) begin_header(c, r, end);
    } else if (!begins) {
        c->phase = CHANNEL_BODY;
        c->kind = WEFT_PART_CONTENT;
        c->held.len--;
        push_body(c, r, byte);
    }
}

void channel_reader_push(channel_reader *c, call_reader *r, char byte)
{
    switch (c->phase) {
    case CHANNEL_HEADER:
        push_header(c, r, byte);
        break;
    case CHANNEL_BODY:
        push_body(c, r, byte);
        break;
    case CHANNEL_CALL:
        push_call(c, r, byte);
        break;
    default:
        push_between(c, r, byte);
        break;
    }
}

void channel_reader_end(channel_reader *c, call_reader *r, weft_finish finish)
{
    bool stopped = finish == WEFT_FINISH_STOP;
    if (c->phase == CHANNEL_HEADER) {
        give(r, WEFT_PART_CONTENT, call_text(&c->header));
    } else if (c->phase == CHANNEL_BODY) {
        give(r, c->kind, call_text(&c->held));
    } else if (c->phase == CHANNEL_CALL && stopped) {
        if (json_scan_at_start(&c->scan)) {
            call_give(r, str_of("{}"));
            call_finish(r);
        } else {
            part_list_add(r->parts, WEFT_PART_CALL_UNDONE, r->n_calls, "", 0);
            give(r, WEFT_PART_CONTENT, call_text(&c->raw));
        }
    }
}
