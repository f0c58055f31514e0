/* regex_class.c - escapes and classes of regular expressions. Source: ECMA-262, 22.2.1 and 22.2.2.
 */
#include "grammar/regex_class.h"

#include "base/utf8.h"

void regex_fail(regex_reader *r, weft_status status, const char *what)
{
    program_fail(r->p, status, "%s at byte %zu of a pattern", what, r->at);
}

uint32_t regex_take(regex_reader *r)
{
    uint32_t c = 0;
    size_t n = utf8_decode(r->text.ptr + r->at, r->text.len - r->at, &c);
    r->at += n == 0 ? 1 : n;
    return c;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* n digits; false, and nothing read, when there are fewer. */
static bool take_hex(regex_reader *r, uint32_t n, uint32_t *value)
{
    uint32_t v = 0;
    for (uint32_t i = 0; i < n; i++) {
        int digit = r->at + i < r->text.len ? hex_value(r->text.ptr[r->at + i]) : -1;
        if (digit < 0) return false;
        v = v * 16 + (uint32_t)digit;
    }
    r->at += n;
    *value = v;
    return true;
}

/* \u{...} */
static bool take_braced(regex_reader *r, uint32_t *value)
{
    uint32_t v = 0, n = 0;
    size_t at = r->at + 1;
    for (; at < r->text.len && hex_value(r->text.ptr[at]) >= 0 && v <= CHARS_LAST; at++, n++)
        v = v * 16 + (uint32_t)hex_value(r->text.ptr[at]);
    if (n == 0 || v > CHARS_LAST || at >= r->text.len || r->text.ptr[at] != '}') return false;
    r->at = at + 1;
    *value = v;
    return true;
}

static uint32_t unicode_escape(regex_reader *r)
{
    uint32_t c = 0, low = 0;
    if (regex_next_is(r, '{') ? !take_braced(r, &c) : !take_hex(r, 4, &c)) {
        regex_fail(r, WEFT_FORMAT, "no hexadecimal digits");
        return 0;
    }
    size_t before = r->at;
    if (c >= 0xd800 && c <= 0xdbff && r->at + 1 < r->text.len && regex_next_is(r, '\\') &&
        r->text.ptr[r->at + 1] == 'u') {
        r->at += 2;
        if (take_hex(r, 4, &low) && low >= 0xdc00 && low <= 0xdfff)
            return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        r->at = before;
    }
    if (c >= 0xd800 && c <= 0xdfff) regex_fail(r, WEFT_UNSUPPORTED, "half of a surrogate pair");
    return c;
}

/* ---- classes by a letter ---- */

static void add_spaces(program *p, chars *set)
{
    static const chars_range SPACES[] = {
        {0x09, 0x0d},     {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    for (uint32_t i = 0; i < sizeof SPACES / sizeof *SPACES; i++)
        chars_add(p, set, SPACES[i].first, SPACES[i].last);
}

static void add_lettered(regex_reader *r, char letter, chars *set)
{
    program *p = r->p;
    chars part = {NULL, 0, 0};
    char small = (char)(letter | 0x20);
    if (small == 'd' || small == 'w') chars_add(p, &part, '0', '9');
    if (small == 'w') {
        chars_add(p, &part, 'A', 'Z');
        chars_add(p, &part, '_', '_');
        chars_add(p, &part, 'a', 'z');
    }
    if (small == 's') add_spaces(p, &part);
    if (small != letter) chars_invert(p, &part);
    chars_add_all(p, set, &part);
}

void regex_any_but_newline(regex_reader *r, chars *set)
{
    chars_add(r->p, set, '\n', '\n');
    chars_add(r->p, set, '\r', '\r');
    chars_add(r->p, set, 0x2028, 0x2029);
    chars_invert(r->p, set);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Letters that name a character; false for others. */
static bool control_escape(regex_reader *r, char letter, uint32_t *c)
{
    switch (letter) {
    case 't':
        *c = '\t';
        return true;
    case 'n':
        *c = '\n';
        return true;
    case 'v':
        *c = '\v';
        return true;
    case 'f':
        *c = '\f';
        return true;
    case 'r':
        *c = '\r';
        return true;
    case '0':
        *c = 0;
        if (r->at < r->text.len && is_digit(r->text.ptr[r->at]))
            regex_fail(r, WEFT_UNSUPPORTED, "an octal escape");
        return true;
    case 'c':
        if (r->at < r->text.len && ((unsigned char)r->text.ptr[r->at] | 0x20) >= 'a' &&
            ((unsigned char)r->text.ptr[r->at] | 0x20) <= 'z') {
            *c = (unsigned char)r->text.ptr[r->at++] & 31u;
        } else {
            regex_fail(r, WEFT_FORMAT, "no letter behind \\c");
        }
        return true;
    case 'x':
        if (!take_hex(r, 2, c)) regex_fail(r, WEFT_FORMAT, "no hexadecimal digits");
        return true;
    case 'u':
        *c = unicode_escape(r);
        return true;
    default:
        return false;
    }
}

void regex_escape(regex_reader *r, bool in_class, chars *set, uint32_t *c)
{
    *c = CHARS_NONE;
    if (r->at >= r->text.len) {
        regex_fail(r, WEFT_FORMAT, "a backslash that escapes nothing");
        return;
    }
    uint32_t letter = regex_take(r);
    if (letter < 128 && control_escape(r, (char)letter, c)) return;
    if (in_class && letter == 'b') {
        *c = '\b';
        return;
    }
    switch (letter) {
    case 'd':
    case 'D':
    case 'w':
    case 'W':
    case 's':
    case 'S':
        add_lettered(r, (char)letter, set);
        return;
    case 'b':
    case 'B':
        regex_fail(r, WEFT_UNSUPPORTED, "a word boundary");
        return;
    case 'p':
    case 'P':
        regex_fail(r, WEFT_UNSUPPORTED, "a Unicode property");
        return;
    case 'k':
        regex_fail(r, WEFT_UNSUPPORTED, "a back reference");
        return;
    default:
        break;
    }
    if (letter >= '1' && letter <= '9') {
        regex_fail(r, WEFT_UNSUPPORTED, "a back reference");
    } else if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) {
        regex_fail(r, WEFT_UNSUPPORTED, "an escape that ECMA-262 does not have");
    } else {
        *c = letter;
    }
}

/* ---- classes in brackets ---- */

/* One end of a range, or CHARS_NONE for a class. */
static uint32_t take_item(regex_reader *r, chars *set)
{
    uint32_t c = regex_take(r);
    if (c == '\\') regex_escape(r, true, set, &c);
    return c;
}

static bool starts_range(const regex_reader *r)
{
    return regex_next_is(r, '-') && r->at + 1 < r->text.len && r->text.ptr[r->at + 1] != ']';
}

void regex_class(regex_reader *r, chars *set)
{
    bool inverted = regex_next_is(r, '^');
    if (inverted) r->at++;
    while (r->p->status == WEFT_OK && r->at < r->text.len && !regex_next_is(r, ']')) {
        uint32_t first = take_item(r, set);
        if (!starts_range(r)) {
            if (first != CHARS_NONE) chars_add(r->p, set, first, first);
            continue;
        }
        r->at++;
        uint32_t last = take_item(r, set);
        if (first == CHARS_NONE || last == CHARS_NONE || first > last) {
            regex_fail(r, WEFT_FORMAT, "a range that has no order");
        } else {
            chars_add(r->p, set, first, last);
        }
    }
    if (regex_next_is(r, ']')) {
        r->at++;
    } else {
        regex_fail(r, WEFT_FORMAT, "a class that does not end");
    }
    if (inverted) {
        chars_invert(r->p, set);
    } else {
        chars_tidy(set);
    }
}
