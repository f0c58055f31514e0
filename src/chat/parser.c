/* parser.c - markers in the stream of bytes, and what is between them. */
#include "chat/parser.h"

#include <string.h>

/* Longer than any marker. */
enum { MARKER_BYTES = 64 };

typedef enum marker_kind {
    MARKER_NONE,
    MARKER_CALL,
    MARKER_BEFORE,
    MARKER_AFTER,
    MARKER_OPEN,
    MARKER_CLOSE
} marker_kind;

typedef struct marker {
    marker_kind kind;
    bool whole;
} marker;

void chat_parser_init(chat_parser *p, const weft_allocator *allocator, const chat_reading *how)
{
    *p = (chat_parser){.how = how, .fresh = true};
    part_list_init(&p->parts, allocator);
    strbuf_init(&p->held, allocator, 0);
    strbuf_init(&p->raw, allocator, 0);
    call_reader_init(&p->call, allocator);
    p->call.dialect = how->dialect;
    p->call.tools = how->tools;
    p->call.parts = &p->parts;
    channel_reader_init(&p->channels, allocator, how->calls);
    p->mode = how->in_reasoning ? PARSER_REASONING : PARSER_CONTENT;
    p->skip = how->in_reasoning;
}

void chat_parser_deinit(chat_parser *p)
{
    part_list_deinit(&p->parts);
    strbuf_deinit(&p->held);
    strbuf_deinit(&p->raw);
    call_reader_deinit(&p->call);
    channel_reader_deinit(&p->channels);
}

static void put(chat_parser *p, strbuf *text, const char *bytes, size_t n)
{
    if (strbuf_add(text, bytes, n) != WEFT_OK) p->parts.failed = true;
}

static void give(chat_parser *p, const char *bytes, size_t n)
{
    bool reasoning = p->mode == PARSER_REASONING;
    part_list_add(&p->parts, reasoning ? WEFT_PART_REASONING : WEFT_PART_CONTENT, 0, bytes, n);
}

/* ---- markers --------------------------------------------------------------------------------- */

static void match(str text, const char *with, marker_kind kind, marker *best)
{
    size_t n = with != NULL ? strlen(with) : 0;
    if (best->whole || n < text.len || memcmp(text.ptr, with, text.len) != 0) return;
    *best = (marker){kind, n == text.len};
}

static void match_list(str text, const char *const *list, marker_kind kind, marker *best)
{
    for (size_t i = 0; i < DIALECT_TAGS && list[i] != NULL; i++) match(text, list[i], kind, best);
}

static bool may_call(const chat_parser *p)
{
    if (!p->how->calls || p->how->dialect->form == NULL) return false;
    return p->mode == PARSER_CONTENT || p->how->dialect->think_calls;
}

/* What a text is, or begins, where it stands. */
static marker marker_of(const chat_parser *p, str text)
{
    const dialect *d = p->how->dialect;
    marker best = {MARKER_NONE, false};
    bool reasoning = p->mode == PARSER_REASONING;
    if (may_call(p)) {
        match_list(text, d->calls, MARKER_CALL, &best);
        match_list(text, d->before, MARKER_BEFORE, &best);
        if (d->bare && p->fresh) match(text, "{", MARKER_CALL, &best);
        if (p->behind_call && p->skip && p->n_run == 0)
            match_list(text, d->after, MARKER_AFTER, &best);
    }
    if (p->fresh) match(text, p->how->think_open, MARKER_OPEN, &best);
    if (reasoning) match(text, p->how->think_close, MARKER_CLOSE, &best);
    return best;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void change(chat_parser *p, parser_mode mode)
{
    p->mode = mode;
    p->fresh = p->skip = true;
    p->behind_call = false;
    p->n_run = 0;
    strbuf_clear(&p->held);
}

static void feed_text(chat_parser *p, char c);

/* How many of the last bytes of a call that is none may begin a marker. */
static size_t marker_tail(chat_parser *p, const strbuf *raw)
{
    size_t n = raw->len < MARKER_BYTES ? raw->len : MARKER_BYTES;
    for (; n > 0; n--) {
        marker m = marker_of(p, (str){raw->ptr + raw->len - n, n});
        if (m.kind != MARKER_NONE && !m.whole) break;
    }
    return n;
}

/* What seemed a call is text; its end may begin the next. */
static void undo_call(chat_parser *p)
{
    char tail[MARKER_BYTES];
    if (p->call.announced) {
        part_list_add(&p->parts, WEFT_PART_CALL_UNDONE, p->call.n_calls, "", 0);
        p->call.n_calls++;
    }
    change(p, p->back);
    p->fresh = p->skip = false;
    size_t n_tail = marker_tail(p, &p->raw);
    size_t n = p->raw.len - n_tail;
    give(p, strbuf_text(&p->raw), n);
    if (n_tail > 0) memcpy(tail, p->raw.ptr + n, n_tail);
    strbuf_clear(&p->raw);
    for (size_t i = 0; i < n_tail; i++) feed_text(p, tail[i]);
}

static void close_call(chat_parser *p)
{
    change(p, p->back);
    p->behind_call = true;
    strbuf_clear(&p->raw);
}

static void feed_call(chat_parser *p, char c)
{
    put(p, &p->raw, &c, 1);
    call_result result =
        p->raw.len > WEFT_CHAT_CALL_BYTES ? CALL_BAD : p->how->dialect->form->push(&p->call, c);
    if (p->call.completed) {
        p->call.completed = false;
        strbuf_clear(&p->raw);
        if (p->how->one_call) p->ended = true;
    }
    if (p->ended) return;
    if (result == CALL_BAD) undo_call(p);
    if (result == CALL_DONE) close_call(p);
}

static void begin_call(chat_parser *p)
{
    bool bare = p->held.ptr[p->held.len - 1] == '{' && p->held.len == p->n_run + 1;
    p->back = p->mode;
    p->mode = PARSER_CALL;
    p->call.known_only = bare || p->back == PARSER_REASONING;
    strbuf_clear(&p->raw);
    put(p, &p->raw, strbuf_text(&p->held), p->held.len - (bare ? 1 : 0));
    strbuf_clear(&p->held);
    p->n_run = 0;
    p->how->dialect->form->begin(&p->call);
    if (bare) feed_call(p, '{');
}

/* ---- text ------------------------------------------------------------------------------------ */

static void drop(chat_parser *p, size_t n)
{
    memmove(p->held.ptr, p->held.ptr + n, p->held.len - n);
    p->held.len -= n;
    p->n_run = 0;
}

static void act(chat_parser *p, marker_kind kind)
{
    switch (kind) {
    case MARKER_CALL:
        begin_call(p);
        break;
    case MARKER_BEFORE:
        p->n_run = p->held.len;
        break;
    case MARKER_AFTER:
        strbuf_clear(&p->held);
        break;
    case MARKER_OPEN:
        change(p, PARSER_REASONING);
        break;
    default:
        change(p, PARSER_CONTENT);
        break;
    }
}

static void feed_text(chat_parser *p, char c)
{
    put(p, &p->held, &c, 1);
    while (!p->parts.failed && p->n_run < p->held.len) {
        str text = {p->held.ptr + p->n_run, p->held.len - p->n_run};
        marker m = marker_of(p, text);
        if (m.whole) {
            act(p, m.kind);
            return;
        }
        if (m.kind != MARKER_NONE) return;
        if (!call_is_space(text.ptr[0])) {
            give(p, p->held.ptr, p->n_run + 1);
            drop(p, p->n_run + 1);
            p->fresh = p->skip = p->behind_call = false;
        } else if (p->skip && p->n_run == 0) {
            drop(p, 1);
        } else {
            p->n_run++;
        }
    }
}

/* ---- the parser ------------------------------------------------------------------------------ */

static void feed(chat_parser *p, char c)
{
    if (p->how->dialect->channels) {
        channel_reader_push(&p->channels, &p->call, c);
        if (p->call.completed && p->how->one_call) p->ended = true;
    } else if (p->mode == PARSER_CALL) {
        feed_call(p, c);
    } else {
        feed_text(p, c);
    }
}

static weft_status status_of(const chat_parser *p, weft_error *err)
{
    if (!p->parts.failed) return WEFT_OK;
    return err_set(err, WEFT_NOMEM, "out of memory for the parts of an answer");
}

weft_status chat_parser_push(chat_parser *p, str text, weft_error *err)
{
    for (size_t i = 0; i < text.len && !p->ended && !p->parts.failed; i++) feed(p, text.ptr[i]);
    return status_of(p, err);
}

static void end_call(chat_parser *p, weft_finish finish)
{
    bool complete = finish == WEFT_FINISH_STOP && p->how->dialect->form->end(&p->call) == CALL_DONE;
    if (complete) {
        close_call(p);
    } else if (finish == WEFT_FINISH_STOP || !p->call.announced) {
        undo_call(p);
    }
}

weft_status chat_parser_end(chat_parser *p, weft_finish finish, weft_error *err)
{
    if (p->ended || p->parts.failed) return status_of(p, err);
    p->ended = true;
    if (p->how->dialect->channels) {
        channel_reader_end(&p->channels, &p->call, finish);
        return status_of(p, err);
    }
    if (p->mode == PARSER_CALL) end_call(p, finish);
    if (p->mode == PARSER_CALL || p->held.len == 0) return status_of(p, err);
    str text = {p->held.ptr + p->n_run, p->held.len - p->n_run};
    bool closing = p->n_run == 0 && marker_of(p, text).kind == MARKER_AFTER;
    if (!closing) give(p, p->held.ptr, p->held.len);
    return status_of(p, err);
}

weft_part chat_parser_next(chat_parser *p)
{
    return part_list_next(&p->parts);
}
