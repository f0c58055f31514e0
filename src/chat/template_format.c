/* template_format.c - "..." % values and "...".format(values), as Python has them. */
#include "chat/template_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chat/template_attr.h"
#include "chat/template_number.h"
#include "chat/template_print.h"
#include "chat/template_render.h"
#include "chat/template_unicode.h"

enum { MAX_WIDTH = 1 << 20, MAX_PRECISION = 100 };

/* How one value is written. */
typedef struct spec {
    char align; /* '<' '>' '^' '=', or 0 for the type's own */
    char sign;  /* '+' ' ' or 0 */
    char type;  /* or 0 */
    bool alternate, comma;
    uint32_t fill;
    size_t width;
    int precision; /* -1: none */
} spec;

static bool bad_spec(tpl_render *r)
{
    return tpl_fail(r, WEFT_FORMAT, "a format is malformed or does not fit its value");
}

static bool parse_count(tpl_render *r, str s, size_t *i, size_t limit, size_t *count)
{
    size_t n = 0;
    for (; *i < s.len && s.ptr[*i] >= '0' && s.ptr[*i] <= '9'; (*i)++) {
        n = n * 10 + (size_t)(s.ptr[*i] - '0');
        if (n > limit) {
            return tpl_fail(r, WEFT_LIMIT, "a format's width or precision exceeds %zu", limit);
        }
    }
    *count = n;
    return true;
}

/* head, body and tail of a written value in its field; zeros and '=' go between head (the sign) and
 * body. */
static bool add_field(tpl_render *r, tpl_buffer *b, const spec *s, str head, const tpl_text *body)
{
    size_t used = head.len;
    for (size_t i = 0; i < body->len; i++) {
        if (((unsigned char)tpl_text_str(body).ptr[i] & 0xc0) != 0x80) used++;
    }
    size_t room = s->width > used ? s->width - used : 0;
    size_t left = s->align == '>' ? room : s->align == '^' ? room / 2 : 0;
    size_t middle = s->align == '=' ? room : 0;
    bool ok = true;
    for (size_t i = 0; ok && i < left; i++) ok = tpl_buffer_add_char(r, b, s->fill, false);
    ok = ok && tpl_buffer_add(r, b, head, false);
    for (size_t i = 0; ok && i < middle; i++) ok = tpl_buffer_add_char(r, b, s->fill, false);
    ok = ok && tpl_buffer_add_text(r, b, body);
    for (size_t i = left + middle; ok && i < room; i++)
        ok = tpl_buffer_add_char(r, b, s->fill, false);
    return ok;
}

static bool add_text_field(tpl_render *r, tpl_buffer *b, spec s, tpl_text *t)
{
    if (s.align == '=' || s.sign != 0 || s.comma) return bad_spec(r);
    if (s.align == 0) s.align = '<';
    size_t n = tpl_text_chars(t);
    if (!tpl_charge(r, t->len)) return false;
    if (s.precision >= 0 && (size_t)s.precision < n) n = (size_t)s.precision;
    tpl_text *cut = tpl_text_view(r, t, 0, tpl_text_offset(t, n));
    return cut != NULL && add_field(r, b, &s, (str){"", 0}, cut);
}

/* Commas between groups of three of the digits in front of the point. */
static size_t group(char *digits, size_t n, size_t capacity)
{
    size_t whole = 0;
    while (whole < n && digits[whole] >= '0' && digits[whole] <= '9') whole++;
    for (size_t at = whole; at > 3; at -= 3) {
        if (n + 2 > capacity) break;
        memmove(digits + at - 3 + 1, digits + at - 3, n - (at - 3));
        digits[at - 3] = ',';
        n++;
    }
    return n;
}

static bool add_number_field(tpl_render *r, tpl_buffer *b, spec s, bool negative,
                             const char *prefix, str digits, bool untrusted)
{
    char head[8];
    int n = snprintf(head, sizeof head, "%s%s",
                     negative        ? "-"
                     : s.sign == '+' ? "+"
                     : s.sign == ' ' ? " "
                                     : "",
                     prefix);
    if (s.align == 0) s.align = '>';
    tpl_text *body = tpl_text_borrow(r, digits, untrusted);
    return body != NULL && add_field(r, b, &s, (str){head, (size_t)n}, body);
}

static bool add_int(tpl_render *r, tpl_buffer *b, spec s, tpl_value v)
{
    int64_t i = tpl_as_int(v);
    uint64_t magnitude = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    unsigned base = s.type == 'x' || s.type == 'X' ? 16
                    : s.type == 'o'                ? 8
                    : s.type == 'b'                ? 2
                                                   : 10;
    char reversed[72], digits[128];
    size_t n = 0;
    do {
        unsigned digit = (unsigned)(magnitude % base);
        char letter = s.type == 'X' ? 'A' : 'a';
        reversed[n++] = (char)(digit < 10 ? '0' + (char)digit : letter + (char)(digit - 10));
        magnitude /= base;
    } while (magnitude != 0);
    for (size_t k = 0; k < n; k++) digits[k] = reversed[n - 1 - k];
    if (s.comma) n = group(digits, n, sizeof digits);
    const char *prefix = !s.alternate || base == 10 ? ""
                         : base == 16               ? (s.type == 'X' ? "0X" : "0x")
                         : base == 8                ? "0o"
                                                    : "0b";
    return add_number_field(r, b, s, i < 0, prefix, (str){digits, n}, v.untrusted);
}

static bool add_real(tpl_render *r, tpl_buffer *b, spec s, tpl_value v)
{
    char digits[768];
    double d = tpl_as_real(v);
    bool percent = s.type == '%';
    if (percent) d *= 100.0;
    int precision = s.precision < 0 ? 6 : s.precision;
    char type = s.type == 'F' || percent ? 'f' : s.type;
    size_t n;
    if (type == 0 && s.precision < 0) {
        tpl_number_print(fabs(d), digits);
        n = strlen(digits);
    } else {
        n = tpl_number_format(fabs(d), type == 0 ? 'g' : type,
                              precision == 0 && type == 0 ? 1 : precision, digits,
                              sizeof digits - 300);
    }
    if (n == 0) return bad_spec(r);
    if (s.comma) n = group(digits, n, sizeof digits);
    if (percent) digits[n++] = '%';
    bool negative = signbit(d) != 0 && !isnan(d);
    return add_number_field(r, b, s, negative, "", (str){digits, n}, v.untrusted);
}

static bool is_real_type(char type)
{
    return type != 0 && strchr("eEfFgG%", type) != NULL;
}

/* format(v, spec) */
static bool add_value(tpl_render *r, tpl_buffer *b, const spec *s, bool empty, tpl_value v)
{
    if (v.kind == TPL_TEXT || empty) {
        tpl_text *t;
        if (s->type != 0 && s->type != 's') return bad_spec(r);
        return tpl_to_text(r, v, &t) && add_text_field(r, b, *s, t);
    }
    if (v.kind == TPL_REAL || (tpl_is_int(v) && is_real_type(s->type))) {
        if (s->type != 0 && !is_real_type(s->type)) return bad_spec(r);
        return add_real(r, b, *s, v);
    }
    bool whole = s->type == 0 || strchr("bdoxX", s->type) != NULL;
    if (!tpl_is_int(v) || !whole || s->precision >= 0) return bad_spec(r);
    return add_int(r, b, *s, v);
}

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static bool parse_spec(tpl_render *r, str text, spec *s)
{
    size_t i = 0, fill_bytes = 0, precision = 0;
    *s = (spec){.fill = ' ', .precision = -1};
    if (text.len == 0) return true;
    uint32_t fill = tpl_char_at(text, &fill_bytes);
    if (text.len > fill_bytes && is_align(text.ptr[fill_bytes])) {
        s->fill = fill;
        s->align = text.ptr[fill_bytes];
        i = fill_bytes + 1;
    } else if (is_align(text.ptr[0])) {
        s->align = text.ptr[i++];
    }
    if (i < text.len && (text.ptr[i] == '+' || text.ptr[i] == '-' || text.ptr[i] == ' ')) {
        s->sign = text.ptr[i] == '-' ? 0 : text.ptr[i];
        i++;
    }
    if (i < text.len && text.ptr[i] == '#') {
        s->alternate = true;
        i++;
    }
    if (i < text.len && text.ptr[i] == '0' && s->align == 0) {
        s->fill = '0';
        s->align = '=';
    }
    if (!parse_count(r, text, &i, MAX_WIDTH, &s->width)) return false;
    if (i < text.len && text.ptr[i] == ',') {
        s->comma = true;
        i++;
    }
    if (i + 1 < text.len && text.ptr[i] == '.') {
        i++;
        if (!parse_count(r, text, &i, MAX_PRECISION, &precision)) return false;
        s->precision = (int)precision;
    }
    if (i < text.len) s->type = text.ptr[i++];
    return i == text.len || bad_spec(r);
}

/* The object of "{name.attribute[index]}"; *automatic counts fields without a name. */
static bool field_value(tpl_render *r, tpl_text *format, size_t at, str name, const tpl_args *args,
                        int64_t *automatic, tpl_value *out)
{
    size_t i = 0;
    while (i < name.len && name.ptr[i] != '.' && name.ptr[i] != '[') i++;
    str first = {name.ptr, i};
    int64_t index = -1;
    bool is_index = first.len == 0 || tpl_number_int(first, 10, &index) == TPL_NUMBER_OK;
    if (first.len == 0) index = (*automatic)++;
    bool found = is_index && index >= 0 && (uint64_t)index < args->n;
    if (found) *out = args->items[index];
    for (size_t k = 0; !is_index && k < args->n_keywords; k++) {
        if (!str_equal(args->keywords[k].name, first)) continue;
        *out = args->keywords[k].value;
        found = true;
    }
    if (!found) return tpl_fail(r, WEFT_FORMAT, "format() has no argument for a field");
    while (i < name.len) {
        bool is_item = name.ptr[i] == '[';
        size_t end = ++i;
        while (end < name.len &&
               (is_item ? name.ptr[end] != ']' : name.ptr[end] != '.' && name.ptr[end] != '[')) {
            end++;
        }
        if (is_item && end == name.len) return bad_spec(r);
        str part = {name.ptr + i, end - i};
        tpl_text *key = tpl_text_view(r, format, at + i, part.len);
        if (key == NULL) return false;
        tpl_value key_value = tpl_text_value(key);
        if (is_item && tpl_number_int(part, 10, &index) == TPL_NUMBER_OK)
            key_value = tpl_int(index);
        bool ok =
            is_item ? tpl_getitem(r, *out, key_value, out) : tpl_getattr(r, *out, key_value, out);
        if (!ok) return false;
        i = is_item ? end + 1 : end;
    }
    return true;
}

static bool repr_of(tpl_render *r, tpl_value v, tpl_value *out)
{
    tpl_buffer *b = tpl_buffer_new(r, 0);
    tpl_text *t = b != NULL && tpl_repr(r, b, v) ? tpl_buffer_text(r, b) : NULL;
    if (t == NULL) return false;
    *out = tpl_text_value(t);
    return true;
}

/* "name!conversion:spec" */
static bool add_brace_field(tpl_render *r, tpl_buffer *b, tpl_text *format, size_t at, size_t end,
                            const tpl_args *args, int64_t *automatic)
{
    str body = {tpl_text_str(format).ptr + at, end - at};
    size_t name = 0;
    while (name < body.len && body.ptr[name] != '!' && body.ptr[name] != ':') name++;
    size_t i = name;
    char conversion = 0;
    if (i + 1 < body.len && body.ptr[i] == '!') {
        conversion = body.ptr[i + 1];
        i += 2;
    }
    if (i < body.len && body.ptr[i] != ':') return bad_spec(r);
    str rest = {body.ptr + (i < body.len ? i + 1 : i), i < body.len ? body.len - i - 1 : 0};
    tpl_value v = tpl_none();
    spec s;
    if (!field_value(r, format, at, (str){body.ptr, name}, args, automatic, &v)) return false;
    if (conversion == 'r' && !repr_of(r, v, &v)) return false;
    if (conversion == 's') {
        tpl_text *t;
        if (!tpl_to_text(r, v, &t)) return false;
        v = tpl_text_value(t);
    }
    if (conversion != 0 && conversion != 'r' && conversion != 's') return bad_spec(r);
    return parse_spec(r, rest, &s) && add_value(r, b, &s, rest.len == 0, v);
}

static bool add_view(tpl_render *r, tpl_buffer *b, tpl_text *t, size_t first, size_t end)
{
    tpl_text part = {t->buffer, t->first + first, end - first, TPL_UNCOUNTED};
    return tpl_buffer_add_text(r, b, &part);
}

static bool finish(tpl_render *r, tpl_buffer *b, tpl_value *out)
{
    tpl_text *t = tpl_buffer_text(r, b);
    if (t == NULL) return false;
    *out = tpl_text_value(t);
    return true;
}

bool tpl_format_braces(tpl_render *r, tpl_text *format, const tpl_args *args, tpl_value *out)
{
    tpl_buffer *b = tpl_buffer_new(r, format->len);
    str s = tpl_text_str(format);
    int64_t automatic = 0;
    if (b == NULL) return false;
    for (size_t i = 0; i < s.len;) {
        char c = s.ptr[i];
        bool brace = c == '{' || c == '}';
        if (!brace || (i + 1 < s.len && s.ptr[i + 1] == c)) {
            if (!add_view(r, b, format, i, i + 1)) return false;
            i += brace ? 2 : 1;
            continue;
        }
        size_t end = i + 1;
        while (end < s.len && s.ptr[end] != '}' && s.ptr[end] != '{') end++;
        if (c == '}' || end == s.len || s.ptr[end] == '{') return bad_spec(r);
        if (!add_brace_field(r, b, format, i + 1, end, args, &automatic)) return false;
        i = end + 1;
    }
    return finish(r, b, out);
}

/* The values of "%", and which comes next. */
typedef struct percent {
    tpl_value values;
    size_t n, next;
    bool is_tuple;
} percent;

static bool next_value(tpl_render *r, percent *p, tpl_value *v)
{
    if (p->next >= p->n) return tpl_fail(r, WEFT_FORMAT, "not enough arguments for the format");
    *v = p->is_tuple ? p->values.as.seq->items[p->next] : p->values;
    p->next++;
    return true;
}

/* "(key)" at *i, if it stands there. */
static bool percent_key(tpl_render *r, tpl_text *format, size_t *i, percent *p, tpl_value *v,
                        bool *keyed)
{
    str s = tpl_text_str(format);
    *keyed = *i < s.len && s.ptr[*i] == '(';
    if (!*keyed) return true;
    size_t first = *i + 1, end = first;
    while (end < s.len && s.ptr[end] != ')') end++;
    if (end == s.len || p->values.kind != TPL_DICT) return bad_spec(r);
    tpl_text *key = tpl_text_view(r, format, first, end - first);
    if (key == NULL) return false;
    *i = end + 1;
    p->next = p->n;
    if (tpl_dict_get(r, p->values.as.dict, tpl_text_value(key), v)) return true;
    return r->status == WEFT_OK && tpl_fail(r, WEFT_FORMAT, "the format names a missing key");
}

static bool percent_count(tpl_render *r, str s, size_t *i, percent *p, size_t limit, size_t *count)
{
    if (*i >= s.len || s.ptr[*i] != '*') return parse_count(r, s, i, limit, count);
    tpl_value v = tpl_none();
    (*i)++;
    if (!next_value(r, p, &v)) return false;
    if (!tpl_is_int(v) || tpl_as_int(v) < 0 || (uint64_t)tpl_as_int(v) > limit) return bad_spec(r);
    *count = (size_t)tpl_as_int(v);
    return true;
}

/* Flags, width, precision and type behind '%' and its key. */
static bool percent_spec(tpl_render *r, str s, size_t *i, percent *p, spec *to)
{
    bool zero = false;
    size_t precision = 0;
    *to = (spec){.fill = ' ', .align = '>', .precision = -1};
    for (; *i < s.len && s.ptr[*i] != '\0' && strchr("-+ 0#", s.ptr[*i]) != NULL; (*i)++) {
        char flag = s.ptr[*i];
        if (flag == '-') to->align = '<';
        if (flag == '+' || (flag == ' ' && to->sign == 0)) to->sign = flag;
        zero |= flag == '0';
        to->alternate |= flag == '#';
    }
    if (!percent_count(r, s, i, p, MAX_WIDTH, &to->width)) return false;
    if (*i < s.len && s.ptr[*i] == '.') {
        (*i)++;
        if (!percent_count(r, s, i, p, MAX_PRECISION, &precision)) return false;
        to->precision = (int)precision;
    }
    while (*i < s.len && (s.ptr[*i] == 'l' || s.ptr[*i] == 'h' || s.ptr[*i] == 'L')) (*i)++;
    if (*i == s.len) return bad_spec(r);
    to->type = s.ptr[(*i)++];
    bool is_number = strchr("diuoxXeEfFgG", to->type) != NULL;
    if (zero && is_number && to->align == '>') {
        to->align = '=';
        to->fill = '0';
    }
    if (!is_number) to->sign = 0;
    return true;
}

static bool percent_int(tpl_render *r, tpl_buffer *b, spec s, tpl_value v)
{
    if (v.kind == TPL_REAL && (s.type == 'd' || s.type == 'i' || s.type == 'u')) {
        if (!(v.as.d > -0x1p63 && v.as.d < 0x1p63)) return bad_spec(r);
        tpl_value whole = tpl_int((int64_t)v.as.d);
        whole.untrusted = v.untrusted;
        v = whole;
    }
    if (!tpl_is_int(v)) return tpl_fail_type(r, "a format needs a number, got", v);
    if (s.precision >= 0) {
        /* A precision is a least number of digits: as many zeros as a field of that width has. */
        return tpl_fail(r, WEFT_UNSUPPORTED, "a precision of '%%%c' is not supported", s.type);
    }
    return add_int(r, b, s, v);
}

static bool percent_value(tpl_render *r, tpl_buffer *b, spec s, tpl_value v)
{
    if (strchr("diuoxX", s.type) != NULL) return percent_int(r, b, s, v);
    if (strchr("eEfFgG", s.type) != NULL) {
        if (!tpl_is_number(v)) return tpl_fail_type(r, "a format needs a number, got", v);
        return add_real(r, b, s, v);
    }
    tpl_text *t;
    if (s.type == 'c' && tpl_is_int(v)) {
        int64_t c = tpl_as_int(v);
        bool scalar = c > 0 && c < 0x110000 && (c < 0xd800 || c > 0xdfff);
        tpl_buffer *one = tpl_buffer_new(r, 4);
        if (one == NULL || !scalar) return one != NULL && bad_spec(r);
        if (!tpl_buffer_add_char(r, one, (uint32_t)c, v.untrusted)) return false;
        t = tpl_buffer_text(r, one);
        return t != NULL && add_text_field(r, b, s, t);
    }
    if (s.type == 'r' && !repr_of(r, v, &v)) return false;
    if (s.type != 's' && s.type != 'r' && s.type != 'c') return bad_spec(r);
    if (!tpl_to_text(r, v, &t)) return false;
    if (s.type == 'c' && (v.kind != TPL_TEXT || tpl_text_chars(t) != 1)) return bad_spec(r);
    return add_text_field(r, b, s, t);
}

bool tpl_format_percent(tpl_render *r, tpl_text *format, tpl_value values, tpl_value *out)
{
    percent p = {values, 1, 0, tpl_is_seq(values, TPL_TUPLE)};
    if (p.is_tuple) p.n = values.as.seq->n;
    tpl_buffer *b = tpl_buffer_new(r, format->len);
    str s = tpl_text_str(format);
    if (b == NULL) return false;
    for (size_t i = 0; i < s.len;) {
        if (s.ptr[i] != '%') {
            const char *sign = memchr(s.ptr + i, '%', s.len - i);
            size_t end = sign == NULL ? s.len : (size_t)(sign - s.ptr);
            if (!add_view(r, b, format, i, end)) return false;
            i = end;
            continue;
        }
        i++;
        tpl_value v = tpl_none();
        bool keyed;
        spec one;
        if (!percent_key(r, format, &i, &p, &v, &keyed) || !percent_spec(r, s, &i, &p, &one)) {
            return false;
        }
        if (one.type == '%') {
            if (!tpl_buffer_add(r, b, (str){"%", 1}, false)) return false;
            continue;
        }
        if ((!keyed && !next_value(r, &p, &v)) || !percent_value(r, b, one, v)) return false;
    }
    /* What can be indexed, and is no tuple, counts as a mapping, of which nothing need be used. */
    bool is_mapping = values.kind == TPL_DICT || values.kind == TPL_UNDEFINED ||
                      tpl_is_seq(values, TPL_LIST) || tpl_is_seq(values, TPL_RANGE);
    if (p.next < p.n && !is_mapping)
        return tpl_fail(r, WEFT_FORMAT, "not all arguments were used by the format");
    return finish(r, b, out);
}
