/* forms.c - reasoning, then calls or content. */
#include "chat/forms.h"

#include <string.h>

#include "base/assert.h"

static void raw(const char *text, strbuf *out)
{
    (void)strbuf_add_text(out, text);
}

static void quoted(str text, strbuf *out)
{
    (void)json_write_text(text, out);
}

static void text_of(str text, strbuf *out)
{
    raw("{\"text\": ", out);
    quoted(text, out);
    raw("}", out);
}

void chat_form_text(const char *text, strbuf *out)
{
    text_of(str_of(text != NULL ? text : ""), out);
}

void chat_form_until(str marker, int64_t max_chars, strbuf *out)
{
    raw("{\"until\": ", out);
    quoted(marker, out);
    if (max_chars >= 0) (void)strbuf_printf(out, ", \"max_chars\": %lld", (long long)max_chars);
    raw("}", out);
}

/* A text and what stands behind it in a list; nothing where there is none. */
static void piece(const char *text, strbuf *out)
{
    if (text == NULL || text[0] == '\0') return;
    chat_form_text(text, out);
    raw(", ", out);
}

/* ---- reasoning ------------------------------------------------------------------------------- */

/* Models write none to two line ends around reasoning. */
static const char LINES[] = "{\"regex\": \"\\\\n{0,2}\"}";

static void write_thoughts(const chat_form *f, strbuf *out)
{
    const chat_reading *how = f->reading;
    if (how->dialect->channels) {
        raw("{\"optional\": {\"all\": [{\"text\": \"<|channel|>analysis<|message|>\"}, "
            "{\"until\": \"<|end|>\"}, {\"text\": \"<|start|>assistant\"}]}}, ",
            out);
        return;
    }
    if (how->think_open == NULL || f->thoughts_closed) return;
    if (!how->in_reasoning) {
        raw("{\"optional\": {\"all\": [{\"regex\": \"\\\\n{0,1}\"}, ", out);
        piece(how->think_open, out);
    }
    chat_form_until(str_of(how->think_close), -1, out);
    raw(", ", out);
    raw(LINES, out);
    raw(how->in_reasoning ? ", " : "]}}, ", out);
}

/* ---- content --------------------------------------------------------------------------------- */

static weft_status write_schema(const chat_form *f, strbuf *out, weft_error *err)
{
    json_doc doc = {NULL};
    weft_status status = json_parse(&doc, f->content.ptr, f->content.len, err);
    if (status != WEFT_OK) {
        err_context(err, "form: ");
        return status;
    }
    raw(f->content_kind == WEFT_GRAMMAR_SCHEMA   ? "{\"schema\": "
        : f->content_kind == WEFT_GRAMMAR_CHOICE ? "{\"choice\": "
                                                 : "",
        out);
    (void)json_write(doc.root, 0, out);
    raw(f->content_kind == WEFT_GRAMMAR_PARTS ? "" : "}", out);
    json_doc_free(&doc);
    return WEFT_OK;
}

static weft_status write_content(const chat_form *f, strbuf *out, weft_error *err)
{
    weft_status status = WEFT_OK;
    if (f->reading->dialect->channels)
        raw("{\"all\": [{\"text\": \"<|channel|>final<|message|>\"}, ", out);
    switch (f->content_kind) {
    case WEFT_GRAMMAR_JSON:
        raw("{\"json\": true}", out);
        break;
    case WEFT_GRAMMAR_REGEX:
    case WEFT_GRAMMAR_RULES:
        raw(f->content_kind == WEFT_GRAMMAR_REGEX ? "{\"regex\": " : "{\"rules\": ", out);
        quoted(f->content, out);
        raw("}", out);
        break;
    case WEFT_GRAMMAR_SCHEMA:
    case WEFT_GRAMMAR_CHOICE:
    case WEFT_GRAMMAR_PARTS:
        status = write_schema(f, out, err);
        break;
    default:
        return err_set(err, WEFT_ARGUMENT, "form_kind is %d, expected 0 to %d",
                       (int)f->content_kind, WEFT_GRAMMAR_PARTS);
    }
    if (f->reading->dialect->channels) raw("]}", out);
    return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static const dialect_writing *writing_of(const chat_form *f)
{
    const dialect *d = f->reading->dialect;
    return f->older ? &d->older : &d->writing;
}

static weft_status write_arguments(const chat_form *f, const tool *t, const json *parameters,
                                   strbuf *out, weft_error *err)
{
    const dialect *d = f->reading->dialect;
    /* What nobody asked to be held to is only what can be read. */
    bool held = f->calls == FORM_CALLS_REQUIRED || t->strict || f->has_content;
    if (d->form == &CALL_FORM_XML)
        return chat_form_write_xml(d, held ? parameters : NULL, out, err);
    if (d->form == &CALL_FORM_TYPED) return chat_form_write_typed(d, parameters, out, err);
    return chat_form_write_json(held ? parameters : NULL, out, err);
}

/* From the name on, up to the end of the call. */
static weft_status write_tool(const chat_form *f, const tool *t, const json *function, strbuf *out,
                              weft_error *err)
{
    const dialect_writing *w = writing_of(f);
    raw("{\"all\": [", out);
    text_of(t->name, out);
    raw(", ", out);
    if (w->numbered) raw("{\"regex\": \":[0-9]{1,3}\"}, ", out);
    piece(w->arguments, out);
    weft_status status = write_arguments(f, t, json_get(function, "parameters"), out, err);
    raw("]}", out);
    if (status != WEFT_OK) err_context(err, "'%.*s': ", (int)t->name.len, t->name.ptr);
    return status;
}

/* One call without its beginning. */
static weft_status write_rest(const chat_form *f, const json *tools, strbuf *out, weft_error *err)
{
    const tool_list *list = f->reading->tools;
    const char *between = "{\"any\": [";
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < list->n && status == WEFT_OK; i++) {
        const tool *t = &list->items[i];
        if (f->only.len > 0 && !str_equal(t->name, f->only)) continue;
        raw(between, out);
        status = write_tool(f, t, json_get(json_at(tools, i), "function"), out, err);
        between = ", ";
    }
    raw("]}, ", out);
    chat_form_text(writing_of(f)->end, out);
    return status;
}

static bool one_call(const chat_form *f)
{
    return f->reading->one_call || writing_of(f)->one;
}

/* Calls behind the first, each with what separates them, and the end of all. */
static weft_status write_more(const chat_form *f, const json *tools, strbuf *out, weft_error *err)
{
    const dialect_writing *w = writing_of(f);
    weft_status status = WEFT_OK;
    if (!one_call(f)) {
        (void)strbuf_printf(out, ", {\"repeat\": {\"all\": [");
        piece(w->separator, out);
        piece(w->begin, out);
        status = write_rest(f, tools, out, err);
        (void)strbuf_printf(out, "]}, \"max\": %d}", WEFT_CHAT_CALLS - 1);
    }
    raw(", ", out);
    chat_form_text(w->close, out);
    return status;
}

static weft_status write_calls(const chat_form *f, const json *tools, strbuf *out, weft_error *err)
{
    const dialect_writing *w = writing_of(f);
    raw("{\"all\": [", out);
    piece(w->open, out);
    piece(w->begin, out);
    weft_status status = write_rest(f, tools, out, err);
    if (status == WEFT_OK) status = write_more(f, tools, out, err);
    raw("]}", out);
    return status;
}

/* What begins calls when text may stand before them: of a token and text behind it, the token. */
static str first_marker(const chat_form *f)
{
    const dialect *d = f->reading->dialect;
    str marker = str_of(d->before[0] != NULL ? d->before[0] : d->calls[0]);
    const char *end = memchr(marker.ptr, marker.ptr[0] == '[' ? ']' : '>', marker.len);
    if (end != NULL) marker.len = (size_t)(end - marker.ptr) + 1;
    return marker;
}

/* What else begins a call to the reader, so that no text has it. */
static void write_without(const dialect *d, str marker, bool all, strbuf *out)
{
    bool any = false;
    raw(", \"without\": [", out);
    if (all) quoted(marker, out);
    any = all;
    for (size_t i = 0; i < DIALECT_TAGS && d->calls[i] != NULL; i++) {
        if (strncmp(d->calls[i], marker.ptr, marker.len) == 0) continue;
        raw(any ? ", " : "", out);
        quoted(str_of(d->calls[i]), out);
        any = true;
    }
    raw("]}", out);
}

/* The answer for the user, or calls. */
static weft_status write_either(const chat_form *f, const json *tools, strbuf *out, weft_error *err)
{
    bool channels = f->reading->dialect->channels;
    raw(channels ? "{\"any\": [{\"all\": [{\"text\": \"<|channel|>final<|message|>\"}, "
                 : "{\"any\": [{\"all\": [{\"regex\": \"[^{\\\\s]\"}, ",
        out);
    raw("{\"free\": true}]}, ", out);
    weft_status status = write_calls(f, tools, out, err);
    raw("]}", out);
    return status;
}

/* Text without calls, or text and then calls. What begins a call otherwise than as it is written
 * here is not written at all. */
static weft_status write_free(const chat_form *f, const json *tools, strbuf *out, weft_error *err)
{
    const dialect *d = f->reading->dialect;
    const dialect_writing *w = writing_of(f);
    if (d->channels || d->bare) return write_either(f, tools, out, err);
    str marker = first_marker(f);
    strbuf head;
    strbuf_init(&head, out->allocator, 0);
    (void)strbuf_add_text(&head, w->open != NULL ? w->open : "");
    (void)strbuf_add_text(&head, w->begin);
    weft_status status = head.status;
    ASSERT(status != WEFT_OK || strncmp(head.ptr, marker.ptr, marker.len) == 0);
    raw("{\"any\": [{\"free\": true", out);
    write_without(d, marker, true, out);
    raw(", {\"all\": [{\"until\": ", out);
    quoted(marker, out);
    write_without(d, marker, false, out);
    raw(", ", out);
    if (status == WEFT_OK) piece(head.ptr + marker.len, out);
    strbuf_deinit(&head);
    if (status == WEFT_OK) status = write_rest(f, tools, out, err);
    if (status == WEFT_OK) status = write_more(f, tools, out, err);
    raw("]}]}", out);
    return status;
}

weft_status chat_form_write(const chat_form *f, const json *tools, strbuf *out, weft_error *err)
{
    weft_status status = WEFT_OK;
    raw("{\"all\": [", out);
    write_thoughts(f, out);
    if (f->calls == FORM_CALLS_REQUIRED) {
        status = write_calls(f, tools, out, err);
    } else if (f->calls == FORM_CALLS_NONE) {
        status = write_content(f, out, err);
    } else if (f->has_content) {
        raw("{\"any\": [", out);
        status = write_calls(f, tools, out, err);
        raw(", ", out);
        if (status == WEFT_OK) status = write_content(f, out, err);
        raw("]}", out);
    } else {
        status = write_free(f, tools, out, err);
    }
    raw("]}", out);
    if (status == WEFT_OK && out->status == WEFT_OK) return WEFT_OK;
    if (status == WEFT_OK || status == WEFT_NOMEM)
        return err_set(err, WEFT_NOMEM, "out of memory for what an answer must be");
    return status;
}
