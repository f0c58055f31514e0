/* template_strings.c - methods of strings: case, white space, padding, classes, and the table of
 * all. */
#include "chat/template_strings.h"

#include <string.h>

#include "base/assert.h"
#include "chat/template_format.h"
#include "chat/template_render.h"

enum { CASED = TPL_CHAR_UPPER | TPL_CHAR_LOWER | TPL_CHAR_TITLE };

static bool take(tpl_text *t, tpl_value *out)
{
    if (t == NULL) return false;
    *out = tpl_text_value(t);
    return true;
}

bool tpl_string_final_sigma(str s, size_t at, size_t n)
{
    size_t before = at, length;
    while (before > 0 && ((unsigned char)s.ptr[before - 1] & 0xc0) == 0x80) before--;
    if (before > 0) before--;
    if (before == at) return false;
    unsigned left = tpl_char_class(tpl_char_at((str){s.ptr + before, at - before}, &length));
    if ((left & CASED) == 0) return false;
    if (at + n == s.len) return true;
    size_t next = at + n;
    return (tpl_char_class(tpl_char_at((str){s.ptr + next, s.len - next}, &length)) & CASED) == 0;
}

/* What decides a character's new case: the one before it. */
typedef enum style {
    STYLE_UPPER,
    STYLE_LOWER,
    STYLE_CAPITAL,
    STYLE_TITLE,
    STYLE_SWAP,
    STYLE_FOLD
} style;

static tpl_case case_for(style s, uint32_t c, bool first, bool after_cased)
{
    switch (s) {
    case STYLE_UPPER:
        return TPL_CASE_UPPER;
    case STYLE_LOWER:
        return TPL_CASE_LOWER;
    case STYLE_CAPITAL:
        return first ? TPL_CASE_TITLE : TPL_CASE_LOWER;
    case STYLE_FOLD:
        return TPL_CASE_FOLD;
    case STYLE_TITLE:
        return after_cased ? TPL_CASE_LOWER : TPL_CASE_TITLE;
    default:
        return (tpl_char_class(c) & TPL_CHAR_UPPER) != 0 ? TPL_CASE_LOWER : TPL_CASE_UPPER;
    }
}

static bool add_mapped(tpl_render *r, tpl_buffer *b, uint32_t c, tpl_case to, bool untrusted)
{
    uint32_t mapped[3];
    size_t n = tpl_char_map(c, to, mapped);
    for (size_t i = 0; i < n; i++) {
        if (!tpl_buffer_add_char(r, b, mapped[i], untrusted)) return false;
    }
    return true;
}

static bool recase(tpl_render *r, const tpl_text *t, style how, tpl_value *out)
{
    tpl_buffer *b = tpl_buffer_new(r, t->len);
    str s = tpl_text_str(t);
    bool after_cased = false, untrusted = false;
    if (b == NULL || !tpl_charge(r, 4 * s.len)) return false;
    for (size_t at = 0, piece_end = 0; at < s.len;) {
        if (at >= piece_end) piece_end = at + tpl_text_piece(t, at, &untrusted);
        size_t n;
        uint32_t c = tpl_char_at((str){s.ptr + at, s.len - at}, &n);
        tpl_case to = case_for(how, c, at == 0, after_cased);
        after_cased = (tpl_char_class(c) & CASED) != 0;
        bool final = c == TPL_SIGMA && to == TPL_CASE_LOWER && tpl_string_final_sigma(s, at, n);
        bool ok = final ? tpl_buffer_add_char(r, b, TPL_FINAL_SIGMA, untrusted)
                        : add_mapped(r, b, c, to, untrusted);
        if (!ok) return false;
        at += n;
    }
    return take(tpl_buffer_text(r, b), out);
}

bool tpl_string_case(tpl_render *r, const tpl_text *t, tpl_case to, tpl_value *out)
{
    return recase(r, t, to == TPL_CASE_UPPER ? STYLE_UPPER : STYLE_LOWER, out);
}

bool tpl_string_capitalize(tpl_render *r, const tpl_text *t, tpl_value *out)
{
    return recase(r, t, STYLE_CAPITAL, out);
}

static bool in_set(const tpl_text *chars, uint32_t c)
{
    if (chars == NULL) return tpl_char_is_space(c);
    str s = tpl_text_str(chars);
    for (size_t i = 0, n; i < s.len; i += n) {
        if (tpl_char_at((str){s.ptr + i, s.len - i}, &n) == c) return true;
    }
    return false;
}

bool tpl_string_strip(tpl_render *r, const tpl_text *t, const tpl_text *chars, bool left,
                      bool right, tpl_value *out)
{
    str s = tpl_text_str(t);
    size_t first = 0, end = s.len, n, set = chars == NULL ? 1 : chars->len;
    while (left && first < end &&
           in_set(chars, tpl_char_at((str){s.ptr + first, end - first}, &n))) {
        first += n;
        if (!tpl_charge(r, set)) return false;
    }
    while (right && end > first) {
        size_t start = end - 1;
        while (start > first && ((unsigned char)s.ptr[start] & 0xc0) == 0x80) start--;
        if (!in_set(chars, tpl_char_at((str){s.ptr + start, end - start}, &n))) break;
        end = start;
        if (!tpl_charge(r, set)) return false;
    }
    return take(tpl_text_view(r, t, first, end - first), out);
}

/* Room on either side of t in a field of width characters. */
static bool pad(tpl_render *r, tpl_text *t, size_t left, size_t right, const tpl_text *fill,
                tpl_value *out)
{
    if (left + right == 0) {
        *out = tpl_text_value(t);
        return true;
    }
    tpl_buffer *b = tpl_buffer_new(r, t->len);
    if (b == NULL) return false;
    for (size_t i = 0; i < left; i++) {
        if (!tpl_step(r, 1) || !tpl_buffer_add_text(r, b, fill)) return false;
    }
    if (!tpl_buffer_add_text(r, b, t)) return false;
    for (size_t i = 0; i < right; i++) {
        if (!tpl_step(r, 1) || !tpl_buffer_add_text(r, b, fill)) return false;
    }
    return take(tpl_buffer_text(r, b), out);
}

/* share: 0 pads on the right, 1 on the left, 2 on both sides. */
static bool pad_to(tpl_render *r, tpl_value self, const tpl_call *call, int share, tpl_value *out)
{
    int64_t width;
    tpl_text *fill;
    size_t n;
    if (!tpl_slot_int(r, call, 0, 0, &width) || !tpl_slot_text(r, call, 1, " ", &fill) ||
        !tpl_length(r, self, &n)) {
        return false;
    }
    if (tpl_text_chars(fill) != 1) return tpl_fail(r, WEFT_FORMAT, "the fill is not one character");
    size_t room = width > 0 && (uint64_t)width > n ? (size_t)width - n : 0;
    size_t left = share == 1 ? room : 0;
    if (share == 2) left = room / 2 + (room & (size_t)width & 1);
    return pad(r, self.as.text, left, room - left, fill, out);
}

bool tpl_string_center(tpl_render *r, tpl_text *t, int64_t width, char fill, tpl_value *out)
{
    size_t n;
    if (!tpl_length(r, tpl_text_value(t), &n)) return false;
    tpl_text *filling = tpl_text_copy(r, (str){&fill, 1});
    if (filling == NULL) return false;
    size_t room = width > 0 && (uint64_t)width > n ? (size_t)width - n : 0;
    size_t left = room / 2 + (room & (size_t)width & 1);
    return pad(r, t, left, room - left, filling, out);
}

bool tpl_string_all_cased(const tpl_text *t, unsigned bits)
{
    str s = tpl_text_str(t);
    bool any = false;
    for (size_t i = 0, n; i < s.len; i += n) {
        unsigned class = tpl_char_class(tpl_char_at((str){s.ptr + i, s.len - i}, &n));
        if ((class & CASED) == 0) continue;
        if ((class & bits) == 0) return false;
        any = true;
    }
    return any;
}

/* Whether there is a character and all are of the class. */
static bool all_of(const tpl_text *t, unsigned bits)
{
    str s = tpl_text_str(t);
    for (size_t i = 0, n; i < s.len; i += n) {
        if ((tpl_char_class(tpl_char_at((str){s.ptr + i, s.len - i}, &n)) & bits) == 0)
            return false;
    }
    return s.len != 0;
}

static bool method_upper(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return recase(r, self.as.text, STYLE_UPPER, out);
}

static bool method_lower(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return recase(r, self.as.text, STYLE_LOWER, out);
}

static bool method_capitalize(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return recase(r, self.as.text, STYLE_CAPITAL, out);
}

static bool method_title(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return recase(r, self.as.text, STYLE_TITLE, out);
}

static bool method_swapcase(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return recase(r, self.as.text, STYLE_SWAP, out);
}

static bool strip_of(tpl_render *r, tpl_value self, const tpl_call *call, int sides, tpl_value *out)
{
    tpl_text *chars = NULL;
    bool given = call->given[0] && call->slot[0].kind != TPL_NONE;
    if (given && !tpl_slot_text(r, call, 0, "", &chars)) return false;
    return tpl_string_strip(r, self.as.text, chars, (sides & 1) != 0, (sides & 2) != 0, out);
}

static bool method_strip(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return strip_of(r, self, call, 3, out);
}

static bool method_lstrip(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return strip_of(r, self, call, 1, out);
}

static bool method_rstrip(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return strip_of(r, self, call, 2, out);
}

static bool method_center(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return pad_to(r, self, call, 2, out);
}

static bool method_ljust(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return pad_to(r, self, call, 0, out);
}

static bool method_rjust(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return pad_to(r, self, call, 1, out);
}

/* Zeros go behind a sign. */
static bool method_zfill(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    int64_t width;
    size_t n;
    tpl_text *t = self.as.text;
    if (!tpl_slot_int(r, call, 0, 0, &width) || !tpl_length(r, self, &n)) return false;
    str s = tpl_text_str(t);
    size_t sign = s.len != 0 && (s.ptr[0] == '-' || s.ptr[0] == '+') ? 1 : 0;
    size_t room = width > 0 && (uint64_t)width > n ? (size_t)width - n : 0;
    tpl_text *head = tpl_text_view(r, t, 0, sign);
    tpl_text *tail = tpl_text_view(r, t, sign, s.len - sign);
    tpl_buffer *b = tpl_buffer_new(r, s.len);
    if (head == NULL || tail == NULL || b == NULL) return false;
    return tpl_buffer_add_text(r, b, head) && tpl_buffer_fill(r, b, '0', room) &&
           tpl_buffer_add_text(r, b, tail) && take(tpl_buffer_text(r, b), out);
}

static bool method_replace(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    tpl_text *from, *to;
    int64_t n;
    return tpl_slot_text(r, call, 0, "", &from) && tpl_slot_text(r, call, 1, "", &to) &&
           tpl_slot_int(r, call, 2, -1, &n) &&
           tpl_string_replace(r, self.as.text, from, to, n, out);
}

static bool method_join(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return tpl_string_join(r, self.as.text, call->slot[0], true, out);
}

static bool method_splitlines(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return tpl_string_lines(r, self.as.text, tpl_slot_flag(call, 0, false), out);
}

static bool remove_affix(tpl_render *r, tpl_value self, const tpl_call *call, bool at_end,
                         tpl_value *out)
{
    tpl_text *affix;
    if (!tpl_slot_text(r, call, 0, "", &affix)) return false;
    str s = tpl_text_str(self.as.text), a = tpl_text_str(affix);
    *out = self;
    if (a.len == 0 || a.len > s.len) return true;
    if (memcmp(at_end ? s.ptr + s.len - a.len : s.ptr, a.ptr, a.len) != 0) return true;
    return take(tpl_text_view(r, self.as.text, at_end ? 0 : a.len, s.len - a.len), out);
}

static bool method_removeprefix(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return remove_affix(r, self, call, false, out);
}

static bool method_removesuffix(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return remove_affix(r, self, call, true, out);
}

static bool method_format(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    return tpl_format_braces(r, self.as.text, call->args, out);
}

static bool class_method(tpl_render *r, tpl_value self, unsigned bits, tpl_value *out)
{
    *out = tpl_bool(all_of(self.as.text, bits));
    return tpl_charge(r, 4 * self.as.text->len);
}

static bool method_isalpha(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return class_method(r, self, TPL_CHAR_ALPHA, out);
}

static bool method_isalnum(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return class_method(r, self,
                        TPL_CHAR_ALPHA | TPL_CHAR_DECIMAL | TPL_CHAR_DIGIT | TPL_CHAR_NUMERIC, out);
}

static bool method_isdecimal(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return class_method(r, self, TPL_CHAR_DECIMAL, out);
}

static bool method_isdigit(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return class_method(r, self, TPL_CHAR_DIGIT, out);
}

static bool method_isnumeric(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return class_method(r, self, TPL_CHAR_NUMERIC, out);
}

static bool method_isspace(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    str s = tpl_text_str(self.as.text);
    *out = tpl_bool(s.len != 0 && tpl_space_prefix(s) == s.len);
    return tpl_charge(r, s.len);
}

static bool method_islower(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    *out = tpl_bool(tpl_string_all_cased(self.as.text, TPL_CHAR_LOWER));
    return tpl_charge(r, 4 * self.as.text->len);
}

static bool method_isupper(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    *out = tpl_bool(tpl_string_all_cased(self.as.text, TPL_CHAR_UPPER));
    return tpl_charge(r, 4 * self.as.text->len);
}

static bool method_isascii(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    str s = tpl_text_str(self.as.text);
    bool ascii = true;
    for (size_t i = 0; i < s.len; i++) ascii &= (unsigned char)s.ptr[i] < 0x80;
    *out = tpl_bool(ascii);
    return tpl_charge(r, s.len);
}

static bool method_isprintable(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    *out = tpl_bool(self.as.text->len == 0 || all_of(self.as.text, TPL_CHAR_PRINTABLE));
    return tpl_charge(r, 4 * self.as.text->len);
}

/* Upper and title case stand only where a run of cased characters begins, lower case only inside
 * one. */
static bool method_istitle(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    str s = tpl_text_str(self.as.text);
    bool any = false, inside = false, title = true;
    for (size_t i = 0, n; i < s.len; i += n) {
        unsigned class = tpl_char_class(tpl_char_at((str){s.ptr + i, s.len - i}, &n));
        bool begins = (class & (TPL_CHAR_UPPER | TPL_CHAR_TITLE)) != 0;
        if (begins || (class & TPL_CHAR_LOWER) != 0) title &= begins != inside;
        inside = (class & CASED) != 0;
        any |= inside;
    }
    *out = tpl_bool(any && title);
    return tpl_charge(r, 4 * s.len);
}

static bool method_expandtabs(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    int64_t width;
    const tpl_text *t = self.as.text;
    str s = tpl_text_str(t);
    tpl_buffer *b = tpl_buffer_new(r, s.len);
    if (b == NULL || !tpl_slot_int(r, call, 0, 8, &width) || !tpl_charge(r, s.len)) return false;
    uint64_t column = 0;
    bool untrusted = false;
    for (size_t at = 0, piece_end = 0, n; at < s.len; at += n) {
        if (at >= piece_end) piece_end = at + tpl_text_piece(t, at, &untrusted);
        uint32_t c = tpl_char_at((str){s.ptr + at, s.len - at}, &n);
        uint64_t room = width > 0 ? (uint64_t)width - column % (uint64_t)width : 0;
        bool ok = c == '\t' ? tpl_buffer_fill(r, b, ' ', (size_t)room)
                            : tpl_buffer_add_char(r, b, c, untrusted);
        if (!ok) return false;
        column = c == '\n' || c == '\r' ? 0 : c == '\t' ? column + room : column + 1;
    }
    return take(tpl_buffer_text(r, b), out);
}

static bool method_casefold(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return recase(r, self.as.text, STYLE_FOLD, out);
}

static const tpl_row METHODS[] = {
    {"capitalize", "", method_capitalize},
    {"casefold", "", method_casefold},
    {"center", "width fillchar?", method_center},
    {"count", "sub start? end?", tpl_method_count},
    {"endswith", "suffix start? end?", tpl_method_endswith},
    {"expandtabs", "tabsize?", method_expandtabs},
    {"find", "sub start? end?", tpl_method_find_left},
    {"format", "* **", method_format},
    {"index", "sub start? end?", tpl_method_index},
    {"isalnum", "", method_isalnum},
    {"isalpha", "", method_isalpha},
    {"isascii", "", method_isascii},
    {"isdecimal", "", method_isdecimal},
    {"isdigit", "", method_isdigit},
    {"islower", "", method_islower},
    {"isnumeric", "", method_isnumeric},
    {"isprintable", "", method_isprintable},
    {"isspace", "", method_isspace},
    {"istitle", "", method_istitle},
    {"isupper", "", method_isupper},
    {"join", "iterable", method_join},
    {"ljust", "width fillchar?", method_ljust},
    {"lower", "", method_lower},
    {"lstrip", "chars?", method_lstrip},
    {"partition", "sep", tpl_method_partition},
    {"removeprefix", "prefix", method_removeprefix},
    {"removesuffix", "suffix", method_removesuffix},
    {"replace", "old new count?", method_replace},
    {"rfind", "sub start? end?", tpl_method_find_right},
    {"rindex", "sub start? end?", tpl_method_rindex},
    {"rjust", "width fillchar?", method_rjust},
    {"rpartition", "sep", tpl_method_rpartition},
    {"rsplit", "sep? maxsplit?", tpl_method_rsplit},
    {"rstrip", "chars?", method_rstrip},
    {"split", "sep? maxsplit?", tpl_method_split},
    {"splitlines", "keepends?", method_splitlines},
    {"startswith", "prefix start? end?", tpl_method_startswith},
    {"strip", "chars?", method_strip},
    {"swapcase", "", method_swapcase},
    {"title", "", method_title},
    {"upper", "", method_upper},
    {"zfill", "width", method_zfill},
};

const tpl_row *tpl_string_method(str name)
{
    return tpl_row_find(METHODS, COUNT_OF(METHODS), name);
}
