/* json.c - JSON by jansson: what it would accept or refuse otherwise than json.h says is settled
 * in the feed that hands it the text. */
#include "base/json.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

/* ---- parsing ---- */

/* The text on its way into jansson. Depth is counted here, so that its recursion never sees more
 * than JSON_DEPTH; and an integer beyond int64_t gets "e0" behind it, which makes it a real.
 *
 * jansson 2.14 does not look when its token buffer cannot grow: it drops the byte and goes on, and
 * a refused copy of a text it calls a syntax error. But malloc leaves ENOMEM in errno, and only
 * the conversion of a number clears that. So the text is handed over in pieces that end before and
 * behind each number, and before each quote that ends a text, and errno is looked at between
 * pieces: a text whose quote was dropped it would read, and write, beyond its end. Its buffer
 * doubles, so it is known which quotes may need more of it; whether that can be had is tried first.
 * A NUL that it ungets (behind a number) it forgets, so none gets there. */
typedef struct feed {
    const char *text;
    size_t n_bytes;
    size_t at;          /* next byte to hand over */
    size_t number_end;  /* the number being handed over ends here */
    const char *suffix; /* what is still to follow that number */
    uint32_t depth;
    size_t n_text; /* bytes of the text that is being handed over, with the quote before it */
    bool in_text;
    bool escaped;
    bool too_deep;
    bool has_nul;
    bool out_of_memory;
} feed;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Looks at the number that starts at f->at: where it ends, and whether int64_t can hold it. */
static void meet_number(feed *f)
{
    const char *limit = f->text[f->at] == '-' ? "9223372036854775808" : "9223372036854775807";
    size_t first = f->at + (f->text[f->at] == '-');
    size_t end = first;
    while (end < f->n_bytes && is_digit(f->text[end])) end++;
    size_t n_digits = end - first;
    bool whole = true;
    while (end < f->n_bytes && f->text[end] != '\0' && strchr("0123456789.eE+-", f->text[end])) {
        whole = false;
        end++;
    }
    f->number_end = end;
    bool beyond = n_digits > 19 || (n_digits == 19 && memcmp(f->text + first, limit, 19) > 0);
    f->suffix = whole && beyond ? "e0" : "";
}

static bool starts_number(const feed *f)
{
    char c = f->text[f->at];
    return !f->in_text && f->at >= f->number_end && (c == '-' || is_digit(c));
}

/* False when the byte opens a level too many. */
static bool meet_byte(feed *f)
{
    char c = f->text[f->at];
    if (f->in_text) {
        f->n_text++;
        if (f->escaped) {
            f->escaped = false;
        } else if (c == '\\') {
            f->escaped = true;
        } else if (c == '"') {
            f->in_text = false;
        }
        return true;
    }
    if (f->at < f->number_end) return true;
    if (c == '"') {
        f->in_text = true;
        f->n_text = 1;
    } else if (c == '[' || c == '{') {
        if (f->depth == JSON_DEPTH) return false;
        f->depth++;
    } else if (c == ']' || c == '}') {
        if (f->depth > 0) f->depth--;
    } else if (starts_number(f)) {
        meet_number(f);
    }
    return true;
}

static bool ends_text(const feed *f)
{
    return f->in_text && !f->escaped && f->text[f->at] == '"';
}

/* Whether jansson's buffer takes one more byte, as far as that can be known. */
static bool has_room(const feed *f)
{
    size_t n = f->n_text + 1;
    if ((n & (n - 1)) != 0) return true;
    void *ptr = mem_alloc(mem_system(), 2 * n);
    mem_free(mem_system(), ptr, 2 * n);
    return ptr != NULL;
}

static size_t feed_next(void *buffer, size_t capacity, void *user)
{
    feed *f = user;
    char *out = buffer;
    size_t n = 0;
    if (errno == ENOMEM) f->out_of_memory = true;
    if (f->at < f->n_bytes && ends_text(f) && !has_room(f)) f->out_of_memory = true;
    if (f->out_of_memory) return 0;
    while (n < capacity && !f->too_deep && !f->has_nul) {
        if (f->at == f->number_end && *f->suffix != '\0') {
            out[n++] = *f->suffix++;
        } else if (f->at == f->n_bytes || (n > 0 && (starts_number(f) || ends_text(f)))) {
            break;
        } else if (f->text[f->at] == '\0') {
            f->has_nul = true;
            break;
        } else if (!meet_byte(f)) {
            f->too_deep = true;
            break;
        } else {
            out[n++] = f->text[f->at++];
        }
        if (f->at == f->number_end && *f->suffix == '\0') break;
    }
    return n;
}

weft_status json_parse(json_doc *doc, const char *text, size_t n_bytes, weft_error *err)
{
    feed f = {.text = text, .n_bytes = n_bytes, .suffix = ""};
    json_error_t error = {.line = -1};
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    errno = 0;
    json_t *root = json_load_callback(feed_next, &f, flags, &error);
    bool out_of_memory = f.out_of_memory || errno == ENOMEM;
    if (f.too_deep || f.has_nul || out_of_memory) {
        json_decref(root);
        root = NULL;
    }
    doc->root = (json *)root;
    if (root != NULL) return WEFT_OK;
    if (f.too_deep) {
        return err_set(err, WEFT_FORMAT, "JSON is nested deeper than %d at byte %zu", JSON_DEPTH,
                       f.at);
    }
    if (f.has_nul) return err_set(err, WEFT_FORMAT, "JSON has a NUL at byte %zu", f.at);
    if (out_of_memory || json_error_code(&error) == json_error_out_of_memory)
        return err_set(err, WEFT_NOMEM, "out of memory for JSON of %zu bytes", n_bytes);
    size_t n_reason = utf8_whole(error.text, strlen(error.text));
    return err_set(err, WEFT_FORMAT, "JSON line %d, column %d: %.*s", error.line, error.column,
                   (int)n_reason, error.text);
}

void json_doc_free(json_doc *doc)
{
    if (doc == NULL) return;
    json_decref((json_t *)doc->root);
    doc->root = NULL;
}

/* ---- reading ---- */

/* jansson takes pointers to mutable values where it only reads. */
static json_t *handle(const json *value)
{
    // NOLINTNEXTLINE(performance-no-int-to-ptr): -Wcast-qual leaves no other way
    return (json_t *)(uintptr_t)value;
}

json_kind json_kind_of(const json *value)
{
    if (value == NULL) return JSON_KIND_NULL;
    switch (json_typeof(handle(value))) {
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_KIND_BOOL;
    case JSON_INTEGER:
        return JSON_KIND_INT;
    case JSON_REAL:
        return JSON_KIND_REAL;
    case JSON_STRING:
        return JSON_KIND_TEXT;
    case JSON_ARRAY:
        return JSON_KIND_ARRAY;
    case JSON_OBJECT:
        return JSON_KIND_OBJECT;
    case JSON_NULL:
        break;
    }
    return JSON_KIND_NULL;
}

const char *json_kind_name(json_kind kind)
{
    static const char *const NAMES[] = {
        [JSON_KIND_NULL] = "null",     [JSON_KIND_BOOL] = "boolean", [JSON_KIND_INT] = "integer",
        [JSON_KIND_REAL] = "real",     [JSON_KIND_TEXT] = "text",    [JSON_KIND_ARRAY] = "array",
        [JSON_KIND_OBJECT] = "object",
    };
    ASSERT((size_t)kind < COUNT_OF(NAMES));
    return NAMES[kind];
}

bool json_bool(const json *value, bool fallback)
{
    return json_kind_of(value) == JSON_KIND_BOOL ? json_is_true(handle(value)) : fallback;
}

int64_t json_int(const json *value, int64_t fallback)
{
    return json_kind_of(value) == JSON_KIND_INT ? json_integer_value(handle(value)) : fallback;
}

double json_number(const json *value, double fallback)
{
    json_kind kind = json_kind_of(value);
    if (kind == JSON_KIND_INT) return (double)json_integer_value(handle(value));
    return kind == JSON_KIND_REAL ? json_real_value(handle(value)) : fallback;
}

str json_text(const json *value)
{
    if (json_kind_of(value) != JSON_KIND_TEXT) return (str){"", 0};
    return (str){json_string_value(handle(value)), json_string_length(handle(value))};
}

size_t json_length(const json *value)
{
    json_kind kind = json_kind_of(value);
    if (kind == JSON_KIND_ARRAY) return json_array_size(handle(value));
    return kind == JSON_KIND_OBJECT ? json_object_size(handle(value)) : 0;
}

const json *json_at(const json *array, size_t index)
{
    return (const json *)json_array_get(handle(array), index);
}

const json *json_get(const json *object, const char *key)
{
    return (const json *)json_object_get(handle(object), key);
}

bool json_next(const json *object, json_iter *iter, str *key, const json **value)
{
    *key = (str){"", 0};
    *value = NULL;
    json_t *h = handle(object);
    void *next = iter->state == NULL ? json_object_iter(h) : json_object_iter_next(h, iter->state);
    if (next == NULL) return false;
    iter->state = next;
    *key = (str){json_object_iter_key(next), json_object_iter_key_len(next)};
    *value = (const json *)json_object_iter_value(next);
    return true;
}

/* ---- writing ---- */

weft_status json_write_text(str text, strbuf *buf)
{
    static const char SHORT[][2] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                    {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
    strbuf_add_char(buf, '"');
    size_t start = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        utf8_sanitize(text.ptr + start, i - start, buf);
        start = i + 1;
        size_t k = 0;
        while (k < COUNT_OF(SHORT) && (unsigned char)SHORT[k][0] != c) k++;
        if (k < COUNT_OF(SHORT)) {
            strbuf_add_char(buf, '\\');
            strbuf_add_char(buf, SHORT[k][1]);
        } else {
            strbuf_printf(buf, "\\u%04x", c);
        }
    }
    if (start < text.len) utf8_sanitize(text.ptr + start, text.len - start, buf);
    return strbuf_add_char(buf, '"');
}

/* printf and strtod use the decimal point of the host program's locale, whose length is one byte
 * or more. */
static void write_real(double value, strbuf *buf)
{
    char text[64];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, value);
        // NOLINTNEXTLINE(check-calls): reads what snprintf has just printed, in the same locale
        if (strtod(text, NULL) == value) break;
    }
    bool whole = true;
    bool in_point = false;
    for (const char *p = text; *p != '\0'; p++) {
        bool plain = is_digit(*p) || *p == 'e' || *p == '+' || *p == '-';
        if (plain) {
            strbuf_add_char(buf, *p);
        } else if (!in_point) {
            strbuf_add_char(buf, '.');
        }
        in_point = !plain;
        if (!plain || *p == 'e') whole = false;
    }
    if (whole) strbuf_add_text(buf, ".0");
}

static void write_break(uint32_t indent, uint32_t depth, strbuf *buf)
{
    if (indent == 0) return;
    strbuf_add_char(buf, '\n');
    for (uint64_t i = (uint64_t)indent * depth; i > 0 && buf->status == WEFT_OK; i--)
        strbuf_add_char(buf, ' ');
}

static void write_value(const json *value, uint32_t indent, uint32_t depth, strbuf *buf);

static void write_array(const json *value, uint32_t indent, uint32_t depth, strbuf *buf)
{
    size_t n = json_length(value);
    strbuf_add_char(buf, '[');
    for (size_t i = 0; i < n && buf->status == WEFT_OK; i++) {
        if (i > 0) strbuf_add_char(buf, ',');
        write_break(indent, depth + 1, buf);
        write_value(json_at(value, i), indent, depth + 1, buf);
    }
    if (n > 0) write_break(indent, depth, buf);
    strbuf_add_char(buf, ']');
}

static void write_object(const json *value, uint32_t indent, uint32_t depth, strbuf *buf)
{
    json_iter iter = {0};
    str key;
    const json *member;
    bool any = false;
    strbuf_add_char(buf, '{');
    while (buf->status == WEFT_OK && json_next(value, &iter, &key, &member)) {
        if (any) strbuf_add_char(buf, ',');
        any = true;
        write_break(indent, depth + 1, buf);
        json_write_text(key, buf);
        strbuf_add_text(buf, indent == 0 ? ":" : ": ");
        write_value(member, indent, depth + 1, buf);
    }
    if (any) write_break(indent, depth, buf);
    strbuf_add_char(buf, '}');
}

/* Recursion ends: json_parse made the value, so it has at most JSON_DEPTH levels. */
static void write_value(const json *value, uint32_t indent, uint32_t depth, strbuf *buf)
{
    ASSERT(depth <= JSON_DEPTH);
    switch (json_kind_of(value)) {
    case JSON_KIND_NULL:
        strbuf_add_text(buf, "null");
        break;
    case JSON_KIND_BOOL:
        strbuf_add_text(buf, json_bool(value, false) ? "true" : "false");
        break;
    case JSON_KIND_INT:
        strbuf_printf(buf, "%lld", (long long)json_int(value, 0));
        break;
    case JSON_KIND_REAL:
        write_real(json_number(value, 0.0), buf);
        break;
    case JSON_KIND_TEXT:
        json_write_text(json_text(value), buf);
        break;
    case JSON_KIND_ARRAY:
        write_array(value, indent, depth, buf);
        break;
    case JSON_KIND_OBJECT:
        write_object(value, indent, depth, buf);
        break;
    }
}

weft_status json_write(const json *value, uint32_t indent, strbuf *buf)
{
    write_value(value, indent, 0, buf);
    return buf->status;
}
