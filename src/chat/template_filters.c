/* template_filters.c - filters of text and numbers, and the look-up of all filters. */
#include "chat/template_filters.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "chat/template_format.h"
#include "chat/template_number.h"
#include "chat/template_ops.h"
#include "chat/template_print.h"
#include "chat/template_render.h"
#include "chat/template_strings.h"

#define FILTER(name)                                                                               \
    static bool name(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)

static bool take(tpl_text *t, tpl_value *out)
{
    if (t == NULL) return false;
    *out = tpl_text_value(t);
    return true;
}

static bool finish(tpl_render *r, tpl_buffer *b, tpl_value *out)
{
    return take(tpl_buffer_text(r, b), out);
}

FILTER(filter_string)
{
    (void)call;
    tpl_text *t;
    return tpl_to_text(r, self, &t) && take(t, out);
}

FILTER(filter_upper)
{
    (void)call;
    tpl_text *t;
    return tpl_to_text(r, self, &t) && tpl_string_case(r, t, TPL_CASE_UPPER, out);
}

FILTER(filter_lower)
{
    (void)call;
    tpl_text *t;
    return tpl_to_text(r, self, &t) && tpl_string_case(r, t, TPL_CASE_LOWER, out);
}

FILTER(filter_capitalize)
{
    (void)call;
    tpl_text *t;
    return tpl_to_text(r, self, &t) && tpl_string_capitalize(r, t, out);
}

/* Words begin behind white space and these, which is not where str.title() sees them begin. */
static bool begins_word(uint32_t before)
{
    return tpl_char_is_space(before) || before == '-' || before == '(' || before == '{' ||
           before == '[' || before == '<';
}

/* One character of a title; s starts at the second character of its word. */
static bool add_titled(tpl_render *r, tpl_buffer *b, str s, size_t at, bool first, bool untrusted)
{
    size_t n;
    uint32_t c = tpl_char_at((str){s.ptr + at, s.len - at}, &n), mapped[3];
    if (!first && c == TPL_SIGMA && tpl_string_final_sigma(s, at, n)) {
        return tpl_buffer_add_char(r, b, TPL_FINAL_SIGMA, untrusted);
    }
    size_t n_mapped = tpl_char_map(c, first ? TPL_CASE_UPPER : TPL_CASE_LOWER, mapped);
    for (size_t i = 0; i < n_mapped; i++) {
        if (!tpl_buffer_add_char(r, b, mapped[i], untrusted)) return false;
    }
    return true;
}

FILTER(filter_title)
{
    (void)call;
    tpl_text *t;
    if (!tpl_to_text(r, self, &t)) return false;
    str s = tpl_text_str(t);
    tpl_buffer *b = tpl_buffer_new(r, s.len);
    uint32_t before = ' ';
    bool untrusted = false;
    if (b == NULL || !tpl_charge(r, 4 * s.len)) return false;
    for (size_t at = 0, n, piece_end = 0, tail = 0; at < s.len; at += n) {
        if (at >= piece_end) piece_end = at + tpl_text_piece(t, at, &untrusted);
        uint32_t c = tpl_char_at((str){s.ptr + at, s.len - at}, &n);
        bool first = begins_word(before);
        str rest = {s.ptr + tail, s.len - tail};
        if (!add_titled(r, b, rest, at - tail, first, untrusted)) return false;
        if (first) tail = at + n;
        before = c;
    }
    return finish(r, b, out);
}

FILTER(filter_trim)
{
    tpl_text *t, *chars = NULL;
    bool given = call->given[0] && call->slot[0].kind != TPL_NONE;
    if (!tpl_to_text(r, self, &t) || (given && !tpl_slot_text(r, call, 0, "", &chars)))
        return false;
    return tpl_string_strip(r, t, chars, true, true, out);
}

FILTER(filter_center)
{
    tpl_text *t;
    int64_t width;
    return tpl_to_text(r, self, &t) && tpl_slot_int(r, call, 0, 80, &width) &&
           tpl_string_center(r, t, width, ' ', out);
}

FILTER(filter_replace)
{
    tpl_text *t, *from, *to;
    int64_t n = -1;
    bool counted = call->given[2] && call->slot[2].kind != TPL_NONE;
    return tpl_to_text(r, self, &t) && tpl_to_text(r, call->slot[0], &from) &&
           tpl_to_text(r, call->slot[1], &to) && (!counted || tpl_slot_int(r, call, 2, -1, &n)) &&
           tpl_string_replace(r, t, from, to, n, out);
}

FILTER(filter_format)
{
    tpl_text *t;
    const tpl_args *args = call->args;
    if (!tpl_to_text(r, self, &t)) return false;
    if (args->n != 0 && args->n_keywords != 0) {
        return tpl_fail(r, WEFT_FORMAT, "format takes either positional or keyword arguments");
    }
    if (args->n_keywords != 0) {
        tpl_dict *d = tpl_dict_new(r);
        if (d == NULL) return false;
        for (size_t i = 0; i < args->n_keywords; i++) {
            tpl_text *name = tpl_text_borrow(r, args->keywords[i].name, false);
            if (name == NULL ||
                !tpl_dict_put(r, d, tpl_text_value(name), args->keywords[i].value)) {
                return false;
            }
        }
        return tpl_format_percent(r, t, tpl_dict_value(d), out);
    }
    tpl_seq *values = tpl_seq_new(r, TPL_TUPLE, args->n);
    if (values == NULL) return false;
    for (size_t i = 0; i < args->n; i++) values->items[i] = args->items[i];
    return tpl_format_percent(r, t, tpl_seq_value(values), out);
}

static bool need_text(tpl_render *r, tpl_value v, tpl_text **t)
{
    *t = NULL;
    if (v.kind != TPL_TEXT) {
        tpl_fail_type(r, "the filter needs a string, got", v);
        return false;
    }
    *t = v.as.text;
    return true;
}

/* What stands in front of lines: width spaces, or a string. */
static bool indentation(tpl_render *r, const tpl_call *call, tpl_text **t)
{
    int64_t width;
    if (call->given[0] && call->slot[0].kind == TPL_TEXT) {
        *t = call->slot[0].as.text;
        return true;
    }
    tpl_buffer *b = tpl_buffer_new(r, 0);
    if (b == NULL || !tpl_slot_int(r, call, 0, 4, &width)) return false;
    if (!tpl_buffer_fill(r, b, ' ', width < 0 ? 0 : (size_t)width)) return false;
    *t = tpl_buffer_text(r, b);
    return *t != NULL;
}

FILTER(filter_indent)
{
    tpl_text *t, *margin;
    tpl_value lines;
    bool first = tpl_slot_flag(call, 1, false), blank = tpl_slot_flag(call, 2, false);
    if (!need_text(r, self, &t) || !indentation(r, call, &margin)) return false;
    /* A line more than splitlines() gives: the text ends in a newline as Jinja sees it. */
    tpl_buffer *whole = tpl_buffer_new(r, t->len + 1);
    if (whole == NULL || !tpl_buffer_add_text(r, whole, t) ||
        !tpl_buffer_add(r, whole, (str){"\n", 1}, false)) {
        return false;
    }
    tpl_text *ended = tpl_buffer_text(r, whole);
    tpl_buffer *b = tpl_buffer_new(r, t->len);
    if (ended == NULL || b == NULL || !tpl_string_lines(r, ended, false, &lines)) return false;
    for (size_t i = 0; i < lines.as.seq->n; i++) {
        const tpl_text *line = lines.as.seq->items[i].as.text;
        bool indents = i == 0 ? first : blank || line->len != 0;
        if (i != 0 && !tpl_buffer_add(r, b, (str){"\n", 1}, false)) return false;
        if (indents && !tpl_buffer_add_text(r, b, margin)) return false;
        if (!tpl_buffer_add_text(r, b, line)) return false;
    }
    return finish(r, b, out);
}

/* The last space among the first n characters, or n. */
static size_t last_space(tpl_text *t, size_t end)
{
    str s = tpl_text_str(t);
    for (size_t i = end; i-- > 0;) {
        if (s.ptr[i] == ' ') return i;
    }
    return end;
}

FILTER(filter_truncate)
{
    tpl_text *t, *end;
    int64_t length, leeway = 5;
    size_t n;
    bool loose = call->given[3] && call->slot[3].kind != TPL_NONE;
    if (!tpl_slot_int(r, call, 0, 255, &length) || !tpl_slot_text(r, call, 2, "...", &end) ||
        (loose && !tpl_slot_int(r, call, 3, 5, &leeway)) || !tpl_length(r, self, &n)) {
        return false;
    }
    int64_t n_end = (int64_t)tpl_text_chars(end);
    if (length < n_end || leeway < 0 || length > INT64_MAX - leeway) {
        return tpl_fail(r, WEFT_FORMAT, "truncate has a length below its ending's");
    }
    *out = self;
    if ((int64_t)n <= length + leeway) return true;
    if (!need_text(r, self, &t)) return false;
    if (!tpl_charge(r, t->len)) return false;
    size_t cut = tpl_text_offset(t, (size_t)(length - n_end));
    if (!tpl_slot_flag(call, 1, false)) cut = last_space(t, cut);
    tpl_text *head = tpl_text_view(r, t, 0, cut);
    return head != NULL && take(tpl_text_concat(r, head, end), out);
}

FILTER(filter_wordcount)
{
    (void)call;
    tpl_text *t;
    if (!tpl_to_text(r, self, &t) || !tpl_charge(r, 4 * t->len)) return false;
    str s = tpl_text_str(t);
    int64_t n_words = 0;
    bool inside = false;
    for (size_t at = 0, n; at < s.len; at += n) {
        uint32_t c = tpl_char_at((str){s.ptr + at, s.len - at}, &n);
        unsigned bits = TPL_CHAR_ALPHA | TPL_CHAR_DECIMAL | TPL_CHAR_DIGIT | TPL_CHAR_NUMERIC;
        bool is_word = c == '_' || (tpl_char_class(c) & bits) != 0;
        n_words += is_word && !inside ? 1 : 0;
        inside = is_word;
    }
    *out = tpl_int(n_words);
    return true;
}

static const char *html_entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&#34;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

FILTER(filter_escape)
{
    (void)call;
    tpl_text *t;
    if (!tpl_to_text(r, self, &t)) return false;
    str s = tpl_text_str(t);
    tpl_buffer *b = tpl_buffer_new(r, s.len);
    bool untrusted = false;
    if (b == NULL) return false;
    for (size_t at = 0, piece_end = 0; at < s.len; at++) {
        if (at >= piece_end) piece_end = at + tpl_text_piece(t, at, &untrusted);
        const char *entity = html_entity(s.ptr[at]);
        str add = entity == NULL ? (str){s.ptr + at, 1} : str_of(entity);
        if (!tpl_buffer_add(r, b, add, untrusted)) return false;
    }
    return finish(r, b, out);
}

static bool is_unreserved(char c, bool for_query)
{
    char lower = (char)(c | 0x20);
    return (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z' && (unsigned char)c < 0x80) ||
           (c != '\0' && strchr("_.-~", c) != NULL) || (c == '/' && !for_query);
}

static bool add_quoted(tpl_render *r, tpl_buffer *b, tpl_value v, bool for_query)
{
    static const char hex[] = "0123456789ABCDEF";
    tpl_text *t;
    if (!tpl_to_text(r, v, &t)) return false;
    str s = tpl_text_str(t);
    bool untrusted = false;
    for (size_t at = 0, piece_end = 0; at < s.len; at++) {
        if (at >= piece_end) piece_end = at + tpl_text_piece(t, at, &untrusted);
        unsigned char c = (unsigned char)s.ptr[at];
        char quoted[3] = {'%', hex[c >> 4], hex[c & 15]};
        str add = {quoted, 3};
        if (is_unreserved((char)c, for_query)) {
            add = (str){s.ptr + at, 1};
        } else if (c == ' ' && for_query) {
            add = (str){"+", 1};
        }
        if (!tpl_buffer_add(r, b, add, untrusted)) return false;
    }
    return true;
}

static bool add_pair(tpl_render *r, tpl_buffer *b, tpl_value key, tpl_value value)
{
    return (b->used == 0 || tpl_buffer_add(r, b, (str){"&", 1}, false)) &&
           add_quoted(r, b, key, true) && tpl_buffer_add(r, b, (str){"=", 1}, false) &&
           add_quoted(r, b, value, true);
}

FILTER(filter_urlencode)
{
    (void)call;
    tpl_buffer *b = tpl_buffer_new(r, 0);
    if (b == NULL) return false;
    if (self.kind == TPL_DICT) {
        for (size_t i = 0; i < self.as.dict->n; i++) {
            const tpl_entry *e = &self.as.dict->entries[i];
            if (!add_pair(r, b, e->key, e->value)) return false;
        }
        return finish(r, b, out);
    }
    if (self.kind != TPL_SEQ) return add_quoted(r, b, self, false) && finish(r, b, out);
    tpl_iter it;
    tpl_value item;
    if (!tpl_iter_init(r, &it, self)) return false;
    while (tpl_iter_next(r, &it, &item)) {
        tpl_seq *pair = tpl_collect(r, item);
        if (pair == NULL) return false;
        if (pair->n != 2) return tpl_fail(r, WEFT_FORMAT, "urlencode needs pairs");
        if (!add_pair(r, b, pair->items[0], pair->items[1])) return false;
    }
    return r->status == WEFT_OK && finish(r, b, out);
}

static bool json_indent(tpl_render *r, const tpl_call *call, tpl_json_options *o)
{
    if (!call->given[1] || call->slot[1].kind == TPL_NONE) return true;
    if (call->slot[1].kind == TPL_TEXT) {
        o->indent = call->slot[1].as.text;
        return true;
    }
    int64_t width;
    tpl_buffer *b = tpl_buffer_new(r, 0);
    if (b == NULL || !tpl_slot_int(r, call, 1, 0, &width)) return false;
    if (!tpl_buffer_fill(r, b, ' ', width < 0 ? 0 : (size_t)width)) return false;
    o->indent = tpl_buffer_text(r, b);
    return o->indent != NULL;
}

FILTER(filter_tojson)
{
    tpl_json_options o = {.ascii = tpl_slot_flag(call, 0, false),
                          .sort = tpl_slot_flag(call, 3, false)};
    if (!json_indent(r, call, &o)) return false;
    if (call->given[2] && call->slot[2].kind != TPL_NONE) {
        tpl_seq *pair = tpl_collect(r, call->slot[2]);
        if (pair == NULL) return false;
        if (pair->n != 2 || pair->items[0].kind != TPL_TEXT || pair->items[1].kind != TPL_TEXT) {
            return tpl_fail(r, WEFT_FORMAT, "tojson's separators are not a pair of strings");
        }
        o.item_separator = pair->items[0].as.text;
        o.key_separator = pair->items[1].as.text;
    } else {
        o.item_separator = tpl_text_borrow(r, str_of(o.indent == NULL ? ", " : ","), false);
        o.key_separator = tpl_text_borrow(r, str_of(": "), false);
        if (o.item_separator == NULL || o.key_separator == NULL) return false;
    }
    tpl_buffer *b = tpl_buffer_new(r, 0);
    return b != NULL && tpl_print_json(r, b, self, &o) && finish(r, b, out);
}

FILTER(filter_default)
{
    (void)r;
    *out = self;
    bool replace =
        self.kind == TPL_UNDEFINED || (tpl_slot_flag(call, 1, false) && !tpl_truth(self));
    if (!replace) return true;
    if (call->given[0]) {
        *out = call->slot[0];
        return true;
    }
    return take(tpl_text_borrow(r, (str){"", 0}, false), out);
}

FILTER(filter_abs)
{
    (void)call;
    if (self.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, self);
    if (!tpl_is_number(self)) return tpl_fail_type(r, "abs needs a number, got", self);
    if (self.kind == TPL_REAL) {
        *out = tpl_real(fabs(self.as.d));
        return true;
    }
    return tpl_as_int(self) < 0 ? tpl_negate(r, self, out) : tpl_positive(r, self, out);
}

static str stripped(const tpl_text *t)
{
    str s = tpl_text_str(t);
    size_t first = tpl_space_prefix(s);
    s = (str){s.ptr + first, s.len - first};
    s.len -= tpl_space_suffix(s);
    return s;
}

static bool int_of_real(tpl_render *r, double d, tpl_value fallback, tpl_value *out)
{
    *out = fallback;
    if (!isfinite(d)) return true;
    if (d < -0x1p63 || d >= 0x1p63) return tpl_fail(r, WEFT_FORMAT, "a number exceeds 64 bits");
    *out = tpl_int((int64_t)d);
    return true;
}

FILTER(filter_int)
{
    int64_t base;
    tpl_value fallback = call->given[0] ? call->slot[0] : tpl_int(0);
    if (!tpl_slot_int(r, call, 1, 10, &base)) return false;
    if (self.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, self);
    *out = fallback;
    if (tpl_is_int(self)) return tpl_positive(r, self, out);
    if (self.kind == TPL_REAL) {
        if (isinf(self.as.d)) return tpl_fail(r, WEFT_FORMAT, "infinity is no integer");
        if (!int_of_real(r, self.as.d, fallback, out)) return false;
    } else if (self.kind == TPL_TEXT) {
        str s = stripped(self.as.text);
        int64_t i;
        double d;
        bool valid_base = base == 0 || (base >= 2 && base <= 36);
        tpl_number_result result =
            valid_base ? tpl_number_int(s, (unsigned)base, &i) : TPL_NUMBER_BAD;
        if (result == TPL_NUMBER_RANGE) return tpl_fail(r, WEFT_FORMAT, "a number exceeds 64 bits");
        if (result == TPL_NUMBER_OK) {
            *out = tpl_int(i);
        } else if (tpl_number_real(s, &d) && !int_of_real(r, d, fallback, out)) {
            return false;
        }
        out->untrusted |= out->kind == TPL_INT && !tpl_text_trusted(self.as.text);
    }
    out->untrusted |= self.untrusted;
    return true;
}

FILTER(filter_float)
{
    if (self.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, self);
    *out = call->given[0] ? call->slot[0] : tpl_real(0.0);
    double d;
    if (tpl_is_number(self)) {
        *out = tpl_real(tpl_as_real(self));
        out->untrusted = self.untrusted;
    } else if (self.kind == TPL_TEXT && tpl_number_real(stripped(self.as.text), &d)) {
        *out = tpl_real(d);
        out->untrusted = !tpl_text_trusted(self.as.text);
    }
    return true;
}

/* round() of Python: to the nearest decimal of the number as it is stored, ties to even. */
static bool round_common(tpl_render *r, tpl_value v, int64_t precision, tpl_value *out)
{
    *out = v;
    if (v.kind == TPL_REAL) {
        if (!isfinite(v.as.d) || precision > 300) return true;
        if (precision < 0) {
            double scale = pow(10.0, (double)-precision);
            *out = tpl_real(precision < -308 ? 0.0 : nearbyint(v.as.d / scale) * scale);
            return true;
        }
        char text[700];
        size_t n = tpl_number_format(v.as.d, 'f', (int)precision, text, sizeof text);
        double d;
        if (n == 0 || !tpl_number_real((str){text, n}, &d)) {
            return tpl_fail(r, WEFT_FORMAT, "a number cannot be rounded");
        }
        *out = tpl_real(d);
        return true;
    }
    if (v.kind == TPL_BOOL) *out = tpl_int(tpl_as_int(v));
    if (precision >= 0) return true;
    if (precision < -18) {
        *out = tpl_int(0);
        return true;
    }
    int64_t scale = 1, i = tpl_as_int(v);
    for (int64_t k = 0; k < -precision; k++) scale *= 10;
    int64_t rest = i % scale, low = i - rest;
    int64_t distance = rest < 0 ? -rest : rest, half = scale / 2;
    bool up = distance > half || (distance == half && (low / scale) % 2 != 0);
    if (up && __builtin_add_overflow(low, rest < 0 ? -scale : scale, &low)) {
        return tpl_fail(r, WEFT_FORMAT, "a number exceeds 64 bits");
    }
    *out = tpl_int(low);
    return true;
}

FILTER(filter_round)
{
    int64_t precision;
    tpl_text *method;
    if (self.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, self);
    if (!tpl_is_number(self)) return tpl_fail_type(r, "round needs a number, got", self);
    if (!tpl_slot_int(r, call, 0, 0, &precision) || !tpl_slot_text(r, call, 1, "common", &method)) {
        return false;
    }
    str name = tpl_text_str(method);
    if (str_equal_text(name, "common")) return round_common(r, self, precision, out);
    bool up = str_equal_text(name, "ceil");
    if (!up && !str_equal_text(name, "floor")) {
        return tpl_fail(r, WEFT_FORMAT, "round's method is common, ceil or floor");
    }
    double scale = pow(10.0, (double)precision);
    double scaled = tpl_as_real(self) * scale;
    if (!isfinite(scaled)) return tpl_fail(r, WEFT_FORMAT, "a number cannot be rounded");
    *out = tpl_real((up ? ceil(scaled) : floor(scaled)) / scale);
    out->untrusted = self.untrusted;
    return true;
}

FILTER(filter_filesizeformat)
{
    static const char *const units[2][8] = {
        {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
        {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"},
    };
    tpl_value number = tpl_real(0.0);
    bool binary = tpl_slot_flag(call, 0, false);
    tpl_call none = {.args = call->args};
    double parsed;
    bool is_number = tpl_is_number(self) ||
                     (self.kind == TPL_TEXT && tpl_number_real(stripped(self.as.text), &parsed));
    if (!is_number) return tpl_fail_type(r, "a size is a number, not", self);
    if (!filter_float(r, self, &none, &number)) return false;
    double bytes = number.as.d, base = binary ? 1024.0 : 1000.0;
    char text[400];
    size_t n;
    const char *name = bytes == 1.0 ? " Byte" : " Bytes";
    if (bytes < base) {
        n = tpl_number_format(trunc(bytes), 'f', 0, text, sizeof text - 8);
    } else {
        int i = 0;
        double unit = base * base;
        while (i < 7 && bytes >= unit) {
            unit *= base;
            i++;
        }
        n = tpl_number_format(base * bytes / unit, 'f', 1, text, sizeof text - 8);
        text[n++] = ' ';
        name = units[binary ? 1 : 0][i];
    }
    tpl_buffer *b = tpl_buffer_new(r, n + 8);
    return b != NULL && tpl_buffer_add(r, b, (str){text, n}, self.untrusted) &&
           tpl_buffer_add(r, b, str_of(name), false) && finish(r, b, out);
}

static const tpl_row FILTERS[] = {
    {"abs", "", filter_abs},
    {"capitalize", "", filter_capitalize},
    {"center", "width?", filter_center},
    {"d", "default_value? boolean?", filter_default},
    {"default", "default_value? boolean?", filter_default},
    {"e", "", filter_escape},
    {"escape", "", filter_escape},
    {"filesizeformat", "binary?", filter_filesizeformat},
    {"float", "default?", filter_float},
    {"forceescape", "", filter_escape},
    {"format", "* **", filter_format},
    {"indent", "width? first? blank?", filter_indent},
    {"int", "default? base?", filter_int},
    {"lower", "", filter_lower},
    {"replace", "old new count?", filter_replace},
    {"round", "precision? method?", filter_round},
    {"safe", "", filter_string},
    {"string", "", filter_string},
    {"title", "", filter_title},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", filter_tojson},
    {"trim", "chars?", filter_trim},
    {"truncate", "length? killwords? end? leeway?", filter_truncate},
    {"upper", "", filter_upper},
    {"urlencode", "", filter_urlencode},
    {"wordcount", "", filter_wordcount},
};

const tpl_row *tpl_filter_find(str name)
{
    const tpl_row *row = tpl_row_find(FILTERS, COUNT_OF(FILTERS), name);
    return row != NULL ? row : tpl_list_filter_find(name);
}
