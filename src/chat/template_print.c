/* template_print.c - values as text: str(), repr() and json.dumps() of Python. */
#include "chat/template_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chat/template_eval.h"
#include "chat/template_number.h"
#include "chat/template_render.h"
#include "chat/template_unicode.h"

static bool add(tpl_render *r, tpl_buffer *b, const char *text)
{
    return tpl_buffer_add(r, b, str_of(text), false);
}

bool tpl_to_text(tpl_render *r, tpl_value v, tpl_text **t)
{
    *t = NULL;
    if (v.kind == TPL_TEXT) {
        *t = v.as.text;
        return true;
    }
    tpl_buffer *b = tpl_buffer_new(r, 0);
    if (b == NULL || !tpl_print(r, b, v)) return false;
    *t = tpl_buffer_text(r, b);
    return *t != NULL;
}

static bool print_number(tpl_render *r, tpl_buffer *b, tpl_value v)
{
    char text[TPL_NUMBER_BYTES];
    if (v.kind == TPL_REAL) {
        tpl_number_print(v.as.d, text);
    } else {
        snprintf(text, sizeof text, "%" PRId64, v.as.i);
    }
    return tpl_buffer_add(r, b, str_of(text), v.untrusted);
}

bool tpl_print(tpl_render *r, tpl_buffer *b, tpl_value v)
{
    if (v.kind == TPL_TEXT) return tpl_buffer_add_text(r, b, v.as.text);
    if (v.kind == TPL_UNDEFINED) return true;
    return tpl_repr(r, b, v);
}

/* Whether a character stands for itself in repr(). */
static bool repr_plain(uint32_t c, char quote)
{
    if (c == '\\' || c == (uint32_t)(unsigned char)quote) return false;
    if (c < 0x7f) return c >= 0x20;
    return (tpl_char_class(c) & TPL_CHAR_PRINTABLE) != 0;
}

static bool repr_char(tpl_render *r, tpl_buffer *b, uint32_t c, char quote, bool untrusted)
{
    char text[16];
    if (c == '\\' || c == (uint32_t)(unsigned char)quote) {
        snprintf(text, sizeof text, "\\%c", (char)c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
        snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    } else if (c < 0x100) {
        snprintf(text, sizeof text, "\\x%02" PRIx32, c);
    } else if (c < 0x10000) {
        snprintf(text, sizeof text, "\\u%04" PRIx32, c);
    } else {
        snprintf(text, sizeof text, "\\U%08" PRIx32, c);
    }
    return tpl_buffer_add(r, b, str_of(text), untrusted);
}

/* A piece of one mark: runs of plain characters are added whole. */
static bool repr_piece(tpl_render *r, tpl_buffer *b, str s, char quote, bool untrusted)
{
    size_t plain = 0;
    for (size_t i = 0; i < s.len;) {
        size_t n;
        uint32_t c = tpl_char_at((str){s.ptr + i, s.len - i}, &n);
        if (!repr_plain(c, quote)) {
            if (!tpl_buffer_add(r, b, (str){s.ptr + plain, i - plain}, untrusted) ||
                !repr_char(r, b, c, quote, untrusted)) {
                return false;
            }
            plain = i + n;
        }
        i += n;
    }
    return tpl_buffer_add(r, b, (str){s.ptr + plain, s.len - plain}, untrusted);
}

static bool repr_text(tpl_render *r, tpl_buffer *b, const tpl_text *t)
{
    str s = tpl_text_str(t);
    bool single = s.len != 0 && memchr(s.ptr, '\'', s.len) != NULL;
    bool twice = s.len != 0 && memchr(s.ptr, '"', s.len) != NULL;
    char quote[2] = {single && !twice ? '"' : '\'', '\0'};
    if (!add(r, b, quote)) return false;
    for (size_t at = 0; at < s.len;) {
        bool untrusted;
        size_t n = tpl_text_piece(t, at, &untrusted);
        if (!repr_piece(r, b, (str){s.ptr + at, n}, quote[0], untrusted)) return false;
        at += n;
    }
    return add(r, b, quote);
}

static bool repr_range(tpl_render *r, tpl_buffer *b, const tpl_seq *s)
{
    char text[100];
    if (s->step == 1) {
        snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ")", s->start, s->stop);
    } else {
        snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", s->start,
                 s->stop, s->step);
    }
    return add(r, b, text);
}

static bool repr_seq(tpl_render *r, tpl_buffer *b, const tpl_seq *s)
{
    static const char *const opens[] = {
        [TPL_LIST] = "[",
        [TPL_TUPLE] = "(",
        [TPL_RANGE] = "",
        [TPL_KEYS] = "dict_keys([",
        [TPL_VALUES] = "dict_values([",
        [TPL_ITEMS] = "dict_items([",
        [TPL_ITER] = "",
    };
    static const char *const closes[] = {
        [TPL_LIST] = "]",    [TPL_TUPLE] = ")",  [TPL_RANGE] = "", [TPL_KEYS] = "])",
        [TPL_VALUES] = "])", [TPL_ITEMS] = "])", [TPL_ITER] = "",
    };
    if (s->flavour == TPL_RANGE) return repr_range(r, b, s);
    if (s->flavour == TPL_ITER) return add(r, b, "<generator object>");
    if (!add(r, b, opens[s->flavour])) return false;
    for (size_t i = 0; i < s->n; i++) {
        if (i != 0 && !add(r, b, ", ")) return false;
        if (!tpl_repr(r, b, s->items[i])) return false;
    }
    if (s->flavour == TPL_TUPLE && s->n == 1 && !add(r, b, ",")) return false;
    return add(r, b, closes[s->flavour]);
}

static bool repr_dict(tpl_render *r, tpl_buffer *b, const tpl_dict *d)
{
    if (!add(r, b, "{")) return false;
    for (size_t i = 0; i < d->n; i++) {
        if (i != 0 && !add(r, b, ", ")) return false;
        if (!tpl_repr(r, b, d->entries[i].key) || !add(r, b, ": ") ||
            !tpl_repr(r, b, d->entries[i].value)) {
            return false;
        }
    }
    return add(r, b, "}");
}

static bool repr_nested(tpl_render *r, tpl_buffer *b, tpl_value v)
{
    if (!tpl_enter(r)) return false;
    bool ok = true;
    if (v.kind == TPL_SEQ) {
        ok = repr_seq(r, b, v.as.seq);
    } else {
        bool is_namespace = v.kind == TPL_NAMESPACE;
        ok = (!is_namespace || add(r, b, "<Namespace ")) && repr_dict(r, b, v.as.dict) &&
             (!is_namespace || add(r, b, ">"));
    }
    tpl_leave(r);
    return ok;
}

bool tpl_repr(tpl_render *r, tpl_buffer *b, tpl_value v)
{
    if (!tpl_step(r, 1)) return false;
    switch ((tpl_kind)v.kind) {
    case TPL_UNDEFINED:
        return add(r, b, "Undefined");
    case TPL_NONE:
        return add(r, b, "None");
    case TPL_BOOL:
        return add(r, b, v.as.b ? "True" : "False");
    case TPL_INT:
    case TPL_REAL:
        return print_number(r, b, v);
    case TPL_TEXT:
        return repr_text(r, b, v.as.text);
    case TPL_SEQ:
    case TPL_DICT:
    case TPL_NAMESPACE:
        return repr_nested(r, b, v);
    case TPL_MACRO:
        return tpl_macro_repr(r, b, v.as.macro);
    case TPL_LOOP:
        return tpl_loop_repr(r, b, v.as.loop);
    default:
        /* Python shows an address here, which no template can want. */
        return add(r, b, "<") && add(r, b, tpl_type_name(v)) && add(r, b, ">");
    }
}

static bool json_char(tpl_render *r, tpl_buffer *b, uint32_t c, bool untrusted)
{
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    char text[16];
    for (const char *pair = letters; *pair != '\0'; pair += 2) {
        if (c != (uint32_t)(unsigned char)pair[0]) continue;
        text[0] = '\\';
        text[1] = pair[1];
        return tpl_buffer_add(r, b, (str){text, 2}, untrusted);
    }
    if (c < 0x10000) {
        snprintf(text, sizeof text, "\\u%04" PRIx32, c);
    } else {
        uint32_t v = c - 0x10000;
        snprintf(text, sizeof text, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + (v >> 10),
                 0xdc00 + (v & 0x3ff));
    }
    return tpl_buffer_add(r, b, str_of(text), untrusted);
}

static bool json_piece(tpl_render *r, tpl_buffer *b, str s, bool ascii, bool untrusted)
{
    size_t plain = 0;
    for (size_t i = 0; i < s.len;) {
        size_t n;
        uint32_t c = tpl_char_at((str){s.ptr + i, s.len - i}, &n);
        if (c < 0x20 || c == '"' || c == '\\' || (ascii && c > 0x7e)) {
            if (!tpl_buffer_add(r, b, (str){s.ptr + plain, i - plain}, untrusted) ||
                !json_char(r, b, c, untrusted)) {
                return false;
            }
            plain = i + n;
        }
        i += n;
    }
    return tpl_buffer_add(r, b, (str){s.ptr + plain, s.len - plain}, untrusted);
}

static bool write_text(tpl_render *r, tpl_buffer *b, const tpl_text *t, bool ascii)
{
    str s = tpl_text_str(t);
    if (!add(r, b, "\"")) return false;
    for (size_t at = 0; at < s.len;) {
        bool untrusted;
        size_t n = tpl_text_piece(t, at, &untrusted);
        if (!json_piece(r, b, (str){s.ptr + at, n}, ascii, untrusted)) return false;
        at += n;
    }
    return add(r, b, "\"");
}

static bool json_scalar(tpl_render *r, tpl_buffer *b, tpl_value v)
{
    if (v.kind == TPL_NONE) return add(r, b, "null");
    if (v.kind == TPL_BOOL) return add(r, b, v.as.b ? "true" : "false");
    if (v.kind == TPL_REAL && isnan(v.as.d)) return add(r, b, "NaN");
    if (v.kind == TPL_REAL && isinf(v.as.d))
        return add(r, b, v.as.d < 0 ? "-Infinity" : "Infinity");
    return print_number(r, b, v);
}

static bool json_line(tpl_render *r, tpl_buffer *b, const tpl_json_options *o, uint32_t level)
{
    if (o->indent == NULL) return true;
    if (!add(r, b, "\n")) return false;
    for (uint32_t i = 0; i < level; i++) {
        if (!tpl_buffer_add_text(r, b, o->indent)) return false;
    }
    return true;
}

static bool write_json(tpl_render *r, tpl_buffer *b, tpl_value v, const tpl_json_options *o,
                       uint32_t level);

static bool json_seq(tpl_render *r, tpl_buffer *b, const tpl_seq *s, const tpl_json_options *o,
                     uint32_t level)
{
    if (s->n == 0) return add(r, b, "[]");
    if (!add(r, b, "[")) return false;
    for (size_t i = 0; i < s->n; i++) {
        if (i != 0 && !tpl_buffer_add_text(r, b, o->item_separator)) return false;
        if (!json_line(r, b, o, level + 1) || !write_json(r, b, s->items[i], o, level + 1)) {
            return false;
        }
    }
    return json_line(r, b, o, level) && add(r, b, "]");
}

static bool json_key(tpl_render *r, tpl_buffer *b, tpl_value key, const tpl_json_options *o)
{
    if (key.kind == TPL_TEXT) return write_text(r, b, key.as.text, o->ascii);
    if (key.kind != TPL_NONE && !tpl_is_number(key)) {
        return tpl_fail_type(r, "a key of JSON cannot be of type", key);
    }
    return add(r, b, "\"") && json_scalar(r, b, key) && add(r, b, "\"");
}

/* The entries of a dict, in order or by key. */
static bool json_order(tpl_render *r, const tpl_dict *d, bool sort, tpl_value **keys,
                       tpl_value **values)
{
    *keys = tpl_alloc(r, d->n, sizeof **keys);
    *values = tpl_alloc(r, d->n, sizeof **values);
    if (*keys == NULL || *values == NULL) return false;
    for (size_t i = 0; i < d->n; i++) {
        (*keys)[i] = d->entries[i].key;
        (*values)[i] = d->entries[i].value;
    }
    if (!sort) return true;
    return tpl_sort(r, *keys, *values, d->n, false) && tpl_sort(r, *keys, *keys, d->n, false);
}

static bool json_dict(tpl_render *r, tpl_buffer *b, const tpl_dict *d, const tpl_json_options *o,
                      uint32_t level)
{
    if (d->n == 0) return add(r, b, "{}");
    tpl_value *keys, *values;
    if (!json_order(r, d, o->sort, &keys, &values) || !add(r, b, "{")) return false;
    for (size_t i = 0; i < d->n; i++) {
        if (i != 0 && !tpl_buffer_add_text(r, b, o->item_separator)) return false;
        if (!json_line(r, b, o, level + 1) || !json_key(r, b, keys[i], o) ||
            !tpl_buffer_add_text(r, b, o->key_separator) ||
            !write_json(r, b, values[i], o, level + 1)) {
            return false;
        }
    }
    return json_line(r, b, o, level) && add(r, b, "}");
}

static bool write_json(tpl_render *r, tpl_buffer *b, tpl_value v, const tpl_json_options *o,
                       uint32_t level)
{
    if (!tpl_step(r, 1)) return false;
    if (v.kind == TPL_TEXT) return write_text(r, b, v.as.text, o->ascii);
    if (v.kind == TPL_NONE || tpl_is_number(v)) return json_scalar(r, b, v);
    if (v.kind != TPL_DICT && !tpl_is_seq(v, TPL_LIST) && !tpl_is_seq(v, TPL_TUPLE)) {
        return tpl_fail(r, WEFT_FORMAT, "a value of type '%s' cannot be written as JSON",
                        tpl_type_name(v));
    }
    if (!tpl_enter(r)) return false;
    bool ok = v.kind == TPL_DICT ? json_dict(r, b, v.as.dict, o, level)
                                 : json_seq(r, b, v.as.seq, o, level);
    tpl_leave(r);
    return ok;
}

bool tpl_print_json(tpl_render *r, tpl_buffer *b, tpl_value v, const tpl_json_options *options)
{
    return write_json(r, b, v, options, 0);
}
