/* json_reader.c - JSON without a document. Source: RFC 8259. */
#include "base/json_reader.h"

#include <string.h>

#include "base/utf8.h"

void json_reader_init(json_reader *r, str text, strbuf *room)
{
    *r = (json_reader){.text = text.ptr, .n_bytes = text.len, .room = room};
}

/* NUL at the end of the text: no JSON has one outside of texts. */
static char peek(json_reader *r)
{
    while (r->at < r->n_bytes) {
        char c = r->text[r->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c;
        r->at++;
    }
    return '\0';
}

static weft_status wrong(const json_reader *r, const char *expected, weft_error *err)
{
    if (r->at >= r->n_bytes)
        return err_set(err, WEFT_FORMAT, "JSON ends at byte %zu, expected %s", r->base + r->at,
                       expected);
    return err_set(err, WEFT_FORMAT, "JSON has no %s at byte %zu", expected, r->base + r->at);
}

json_kind json_reader_kind(json_reader *r)
{
    char c = peek(r);
    switch (c) {
    case '"':
        return JSON_KIND_TEXT;
    case '{':
        return JSON_KIND_OBJECT;
    case '[':
        return JSON_KIND_ARRAY;
    case 't':
    case 'f':
        return JSON_KIND_BOOL;
    default:
        return c == '-' || (c >= '0' && c <= '9') ? JSON_KIND_INT : JSON_KIND_NULL;
    }
}

weft_status json_reader_open(json_reader *r, char bracket, weft_error *err)
{
    if (peek(r) != bracket) return wrong(r, bracket == '[' ? "array" : "object", err);
    r->at++;
    return WEFT_OK;
}

weft_status json_reader_more(json_reader *r, char bracket, bool *first, bool *more, weft_error *err)
{
    char c = peek(r);
    bool was_first = *first;
    *first = false;
    *more = false;
    if (c == (bracket == '[' ? ']' : '}')) {
        r->at++;
        return WEFT_OK;
    }
    if (!was_first) {
        if (c != ',') return wrong(r, "comma or end", err);
        r->at++;
        c = peek(r);
        if (c == ']' || c == '}') return wrong(r, "value", err);
    }
    *more = true;
    return WEFT_OK;
}

/* ---- texts ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits at r->at; -1 when they are not there. */
static int32_t hex_four(json_reader *r)
{
    int32_t value = 0;
    if (r->n_bytes - r->at < 4) return -1;
    for (size_t i = 0; i < 4; i++) {
        int digit = hex_digit(r->text[r->at + i]);
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    r->at += 4;
    return value;
}

/* Behind "\u": one character, of two escapes where it is beyond U+FFFF. */
static weft_status read_escaped_char(json_reader *r, weft_error *err)
{
    int32_t c = hex_four(r);
    if (c >= 0xd800 && c < 0xdc00 && r->n_bytes - r->at >= 2 && r->text[r->at] == '\\' &&
        r->text[r->at + 1] == 'u') {
        r->at += 2;
        int32_t low = hex_four(r);
        c = low < 0xdc00 || low > 0xdfff ? -1 : 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c < 0 || (c >= 0xd800 && c <= 0xdfff)) return wrong(r, "Unicode escape", err);
    char bytes[4];
    return strbuf_add(r->room, bytes, utf8_encode((uint32_t)c, bytes));
}

/* r->at is behind the backslash. */
static weft_status read_escape(json_reader *r, weft_error *err)
{
    static const char FROM[] = "\"\\/bfnrt";
    static const char TO[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->n_bytes ? r->text[r->at] : '\0';
    if (c == 'u') {
        r->at++;
        return read_escaped_char(r, err);
    }
    const char *found = c == '\0' ? NULL : strchr(FROM, c);
    if (found == NULL) return wrong(r, "escape", err);
    r->at++;
    return strbuf_add_char(r->room, TO[found - FROM]);
}

/* The bytes from r->at up to a quote, a backslash or what a text cannot hold. */
static str plain_run(json_reader *r)
{
    size_t first = r->at;
    while (r->at < r->n_bytes) {
        unsigned char c = (unsigned char)r->text[r->at];
        if (c == '"' || c == '\\' || c < 0x20) break;
        r->at++;
    }
    return (str){r->text + first, r->at - first};
}

/* A text with escapes, from its first one on; head: what is before it. */
static weft_status read_with_escapes(json_reader *r, str head, weft_error *err)
{
    strbuf_clear(r->room);
    strbuf_add(r->room, head.ptr, head.len);
    while (r->at < r->n_bytes && r->text[r->at] == '\\') {
        r->at++;
        weft_status status = read_escape(r, err);
        if (status == WEFT_FORMAT) return status;
        str run = plain_run(r);
        strbuf_add(r->room, run.ptr, run.len);
    }
    if (r->room->status != WEFT_OK)
        return err_set(err, r->room->status, "out of memory for a text of JSON");
    return WEFT_OK;
}

weft_status json_reader_text(json_reader *r, str *text, weft_error *err)
{
    *text = (str){"", 0};
    if (peek(r) != '"') return wrong(r, "text", err);
    size_t start = r->at++;
    str run = plain_run(r);
    if (r->at < r->n_bytes && r->text[r->at] == '\\') {
        weft_status status = read_with_escapes(r, run, err);
        if (status != WEFT_OK) return status;
        run = (str){strbuf_text(r->room), r->room->len};
    }
    if (r->at >= r->n_bytes || r->text[r->at] != '"') return wrong(r, "end of a text", err);
    r->at++;
    if (!utf8_valid(run.ptr, run.len))
        return err_set(err, WEFT_FORMAT, "JSON has invalid UTF-8 in the text at byte %zu",
                       r->base + start);
    *text = run;
    return WEFT_OK;
}

weft_status json_reader_key(json_reader *r, str *key, weft_error *err)
{
    weft_status status = json_reader_text(r, key, err);
    if (status != WEFT_OK) return status;
    if (peek(r) != ':') return wrong(r, "colon", err);
    r->at++;
    return WEFT_OK;
}

/* ---- numbers: the parser of documents says what they are ---- */

static str number_span(json_reader *r)
{
    size_t first = r->at;
    while (r->at < r->n_bytes && r->text[r->at] != '\0' &&
           strchr("0123456789+-.eE", r->text[r->at]) != NULL) {
        r->at++;
    }
    return (str){r->text + first, r->at - first};
}

weft_status json_reader_int(json_reader *r, int64_t *value, weft_error *err)
{
    *value = 0;
    if (json_reader_kind(r) != JSON_KIND_INT) return wrong(r, "integer", err);
    size_t start = r->at;
    str span = number_span(r);
    bool plain = span.len <= 18 && (span.len == 1 || span.ptr[0] != '0');
    for (size_t i = 0; i < span.len && plain; i++) {
        plain = span.ptr[i] >= '0' && span.ptr[i] <= '9';
        *value = *value * 10 + (span.ptr[i] - '0');
    }
    if (plain) return WEFT_OK;
    json_doc doc;
    weft_status status = json_parse(&doc, span.ptr, span.len, err);
    if (status != WEFT_OK) return status;
    bool whole = json_kind_of(doc.root) == JSON_KIND_INT;
    *value = json_int(doc.root, 0);
    json_doc_free(&doc);
    r->at = whole ? r->at : start;
    return whole ? WEFT_OK : wrong(r, "integer", err);
}

weft_status json_reader_number(json_reader *r, double *value, weft_error *err)
{
    *value = 0.0;
    if (json_reader_kind(r) != JSON_KIND_INT) return wrong(r, "number", err);
    str span = number_span(r);
    json_doc doc;
    weft_status status = json_parse(&doc, span.ptr, span.len, err);
    if (status != WEFT_OK) return status;
    *value = json_number(doc.root, 0.0);
    json_doc_free(&doc);
    return WEFT_OK;
}

/* ---- skipping ---- */

static weft_status skip_text(json_reader *r, weft_error *err)
{
    r->at++;
    for (;;) {
        plain_run(r);
        if (r->at >= r->n_bytes) return wrong(r, "end of a text", err);
        char c = r->text[r->at++];
        if (c == '"') return WEFT_OK;
        if (c == '\\' && r->at < r->n_bytes) r->at++;
    }
}

/* Anything that has no parts. */
static weft_status skip_single(json_reader *r, weft_error *err)
{
    if (r->text[r->at] == '"') return skip_text(r, err);
    size_t first = r->at;
    while (r->at < r->n_bytes && r->text[r->at] != '\0' &&
           strchr(" \n\t\r,:[]{}\"", r->text[r->at]) == NULL) {
        r->at++;
    }
    return r->at > first ? WEFT_OK : wrong(r, "value", err);
}

weft_status json_reader_skip(json_reader *r, str *span, size_t *n, weft_error *err)
{
    size_t depth = 0;
    bool any = false; /* something in the outermost value */
    peek(r);
    const size_t first = r->at;
    *n = 0;
    do {
        char c = peek(r);
        weft_status status = WEFT_OK;
        if (c == '\0') return wrong(r, "value", err);
        if (c == '[' || c == '{') {
            if (depth > 0) any = true;
            depth++;
            r->at++;
        } else if (depth > 0 && (c == ']' || c == '}')) {
            depth--;
            r->at++;
        } else if (depth > 0 && (c == ',' || c == ':')) {
            if (depth == 1 && c == ',') ++*n;
            r->at++;
        } else {
            any = true;
            status = skip_single(r, err);
        }
        if (status != WEFT_OK) return status;
    } while (depth > 0);
    if (any) ++*n;
    *span = (str){r->text + first, r->at - first};
    return WEFT_OK;
}

weft_status json_reader_end(json_reader *r, weft_error *err)
{
    peek(r);
    return r->at == r->n_bytes ? WEFT_OK : wrong(r, "end", err);
}
