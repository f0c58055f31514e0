/* regex_rewrite.c - Oniguruma patterns as PCRE2 takes them.
 *
 * Where the two differ: \s, \w, \d, \h, \v and \b; names of properties (PCRE2's \p{Han} is the
 * extended script); intersections and nested classes; {n,m}+ (a repeat of the repeat, not a
 * possessive one) and {,m}; (?m) for a dot that takes newlines. Numbered groups become plain
 * ones, since nothing refers to them.
 * Sources: doc/RE of Oniguruma 6.9, pcre2pattern(3) of PCRE2 10.42. */
#include "tokenizer/regex.h"

#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

enum { GROUPS = 128, CLASSES = 8 };

#define SPACES                                                                                     \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"            \
    "\\x{205f}\\x{3000}"
#define NOT_SPACES                                                                                 \
    "\\x{0}-\\x08\\x0e-\\x1f\\x21-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"      \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"                 \
    "\\x{3001}-\\x{d7ff}\\x{e000}-\\x{10ffff}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
/* Outside brackets the numbers of Latin-1 count too: Oniguruma has a table of its own for those. */
#define WORD_ALONE WORD "\\xb2\\xb3\\xb9\\xbc-\\xbe"
#define HEX "0-9a-fA-F"

typedef struct rewriter {
    str in;
    size_t at;
    strbuf *out;
    size_t atom; /* where in out the last thing that can repeat starts; SIZE_MAX: nowhere */
    size_t groups[GROUPS]; /* where open groups start */
    uint32_t n_groups;
    weft_error *err;
} rewriter;

static weft_status refuse(const rewriter *w, const char *what)
{
    return err_set(w->err, WEFT_UNSUPPORTED,
                   "tokenizer: %s at byte %zu of pattern '%.*s' is not supported", what, w->at,
                   (int)(w->in.len < 100 ? w->in.len : 100), w->in.ptr);
}

/* The byte ahead, 0 at the end. */
static char peek(const rewriter *w, size_t ahead)
{
    return w->at + ahead < w->in.len ? w->in.ptr[w->at + ahead] : '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* So that it means itself inside a class and outside. */
static void put_literal(strbuf *out, uint32_t c)
{
    char bytes[4];
    if (c < 0x20 || c == 0x7f) {
        strbuf_printf(out, "\\x{%x}", (unsigned)c);
    } else if (c >= 0x80) {
        strbuf_add(out, bytes, utf8_encode(c, bytes));
    } else {
        if (!is_digit((char)c) && !is_letter((char)c)) strbuf_add_char(out, '\\');
        strbuf_add_char(out, (char)c);
    }
}

/* ---- properties ---- */

static const struct {
    const char *name; /* small letters only */
    const char *pcre;
} PROPERTIES[] = {
    {"any", "Any"},
    {"letter", "L"},
    {"casedletter", "L&"},
    {"lc", "L&"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"digit", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"unassigned", "Cn"},
    {"privateuse", "Co"},
    {"surrogate", "Cs"},
    {"alphabetic", "Alphabetic"},
    {"alpha", "Alphabetic"},
    {"uppercase", "Uppercase"},
    {"upper", "Uppercase"},
    {"lowercase", "Lowercase"},
    {"lower", "Lowercase"},
    {"whitespace", "White_Space"},
    {"space", "White_Space"},
    {"ideographic", "Ideographic"},
    {"emoji", "Emoji"},
    {"emojipresentation", "Emoji_Presentation"},
    {"extendedpictographic", "Extended_Pictographic"},
};

/* Names of scripts that PCRE2 would take for something else. */
static bool is_category(const char *name, char pcre[3])
{
    static const char *const SECOND[] = {"lultmo", "nce", "dlo", "cdseifo", "mcko", "slp", "cfnos"};
    static const char FIRST[] = "lmnpszc";
    const char *major = name[0] == '\0' ? NULL : strchr(FIRST, name[0]);
    if (major == NULL) return false;
    if (name[1] != '\0') {
        if (name[2] != '\0' || strchr(SECOND[major - FIRST], name[1]) == NULL) return false;
    }
    pcre[0] = (char)(name[0] - 'a' + 'A');
    pcre[1] = name[1];
    pcre[2] = '\0';
    return true;
}

/* Behind "\p" or "\P". */
static weft_status property(rewriter *w, strbuf *out, bool negated)
{
    char name[40];
    size_t n = 0;
    if (peek(w, 0) != '{') return refuse(w, "a property without braces");
    w->at++;
    if (peek(w, 0) == '^') {
        negated = !negated;
        w->at++;
    }
    size_t start = w->at;
    for (; is_letter(peek(w, 0)) || is_digit(peek(w, 0)) || strchr("_- ", peek(w, 0)); w->at++) {
        char c = peek(w, 0);
        if (c == '\0') break;
        if (c == '_' || c == '-' || c == ' ') continue;
        if (n + 1 == sizeof name) return refuse(w, "a property with a long name");
        name[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    size_t end = w->at;
    name[n] = '\0';
    if (peek(w, 0) != '}' || n == 0) return refuse(w, "a property that is not just a name");
    w->at++;
    strbuf_add_text(out, negated ? "\\P{" : "\\p{");
    char category[3];
    size_t i = 0;
    while (i < COUNT_OF(PROPERTIES) && strcmp(PROPERTIES[i].name, name) != 0) i++;
    if (i < COUNT_OF(PROPERTIES)) {
        strbuf_add_text(out, PROPERTIES[i].pcre);
    } else if (is_category(name, category)) {
        strbuf_add_text(out, category);
    } else { /* a script, or PCRE2 refuses it */
        strbuf_add_text(out, "sc:");
        strbuf_add(out, w->in.ptr + start, end - start);
    }
    return strbuf_add_char(out, '}');
}

/* ---- escapes ---- */

static weft_status hex(rewriter *w, size_t most, uint32_t *c)
{
    size_t n = 0;
    *c = 0;
    for (; n < most; n++, w->at++) {
        char d = peek(w, 0);
        uint32_t value;
        if (is_digit(d)) {
            value = (uint32_t)(d - '0');
        } else if ((d | 0x20) >= 'a' && (d | 0x20) <= 'f') {
            value = (uint32_t)((d | 0x20) - 'a' + 10);
        } else {
            break;
        }
        *c = *c << 4 | value;
    }
    return n == 0 ? refuse(w, "an escape without digits") : WEFT_OK;
}

/* An escape that is one character: *is_one, and then *c. w->at is behind the letter, which is e. */
static weft_status escaped_char(rewriter *w, char e, bool *is_one, uint32_t *c)
{
    static const char NAMES[] = "nrtfvae";
    static const char VALUES[] = "\n\r\t\f\v\a\x1b";
    const char *name = e == '\0' ? NULL : strchr(NAMES, e);
    weft_status status = WEFT_OK;
    *is_one = true;
    if (name != NULL) {
        *c = (unsigned char)VALUES[name - NAMES];
    } else if (e == 'x' && peek(w, 0) == '{') {
        w->at++;
        status = hex(w, 6, c);
        if (status == WEFT_OK && peek(w, 0) != '}') return refuse(w, "a list of code points");
        w->at++;
    } else if (e == 'x') {
        status = hex(w, 2, c);
        if (status == WEFT_OK && *c >= 0x80) return refuse(w, "a byte that is no character");
    } else if (e == 'u') {
        size_t before = w->at;
        status = hex(w, 4, c);
        if (status == WEFT_OK && w->at != before + 4) return refuse(w, "a short escape");
    } else if (e == '\0' || is_digit(e) || is_letter(e) || (unsigned char)e >= 0x80) {
        *is_one = false;
    } else {
        *c = (unsigned char)e;
    }
    if (status == WEFT_OK && *is_one && (*c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000)))
        return refuse(w, "a code point that is no character");
    return status;
}

/* Escapes that are sets, as they stand inside brackets; NULL for others. */
static const char *set_items(char e)
{
    switch (e) {
    case 's':
        return SPACES;
    case 'S':
        return NOT_SPACES;
    case 'd':
        return "\\p{Nd}";
    case 'D':
        return "\\P{Nd}";
    case 'w':
        return WORD;
    case 'h':
        return HEX;
    default:
        return NULL;
    }
}

static weft_status escape(rewriter *w)
{
    char e = peek(w, 1);
    size_t start = w->out->len;
    w->at += 2;
    if (w->at > w->in.len) w->at = w->in.len;
    const char *text = NULL;
    switch (e) {
    case 'w':
        text = "[" WORD_ALONE "]";
        break;
    case 'W':
        text = "[^" WORD_ALONE "]";
        break;
    case 'H':
        text = "[^" HEX "]";
        break;
    case 'b':
        text = "(?:(?<=[" WORD_ALONE "])(?![" WORD_ALONE "])|(?<![" WORD_ALONE "])(?=[" WORD_ALONE
               "]))";
        break;
    case 'B':
        text = "(?:(?<=[" WORD_ALONE "])(?=[" WORD_ALONE "])|(?<![" WORD_ALONE "])(?![" WORD_ALONE
               "]))";
        break;
    case 'A':
        text = "\\A";
        break;
    case 'z':
        text = "\\z";
        break;
    case 'Z':
        text = "\\Z";
        break;
    default:
        break;
    }
    w->atom = start;
    if (text != NULL) return strbuf_add_text(w->out, text);
    if (set_items(e) != NULL) return strbuf_printf(w->out, "[%s]", set_items(e));
    if (e == 'p' || e == 'P') return property(w, w->out, e == 'P');
    bool is_one;
    uint32_t c = 0;
    weft_status status = escaped_char(w, e, &is_one, &c);
    if (status != WEFT_OK) return status;
    if (!is_one) return refuse(w, "an escape of this kind");
    put_literal(w->out, c);
    return w->out->status;
}

/* ---- classes ---- */

/* One operand of &&: single items, and what cannot stand beside them as alternatives. */
typedef struct operand {
    strbuf items;
    strbuf others;
} operand;

static weft_status class_of(rewriter *w, strbuf *out, uint32_t depth);

/* A character, or a set that goes to o->items. */
static weft_status class_item(rewriter *w, operand *o, bool *is_one, uint32_t *c)
{
    if (peek(w, 0) != '\\') {
        size_t n = utf8_decode(w->in.ptr + w->at, w->in.len - w->at, c);
        if (n == 0) return refuse(w, "invalid UTF-8");
        w->at += n;
        *is_one = true;
        return WEFT_OK;
    }
    char e = peek(w, 1);
    w->at += 2;
    if (w->at > w->in.len) w->at = w->in.len;
    *is_one = false;
    if (set_items(e) != NULL) return strbuf_add_text(&o->items, set_items(e));
    if (e == 'p' || e == 'P') return property(w, &o->items, e == 'P');
    if (e == 'b') {
        *c = '\b';
        *is_one = true;
        return WEFT_OK;
    }
    weft_status status = escaped_char(w, e, is_one, c);
    if (status == WEFT_OK && !*is_one) return refuse(w, "an escape of this kind in a class");
    return status;
}

/* A character, a range or a set. */
static weft_status class_range(rewriter *w, operand *o)
{
    bool is_one;
    uint32_t low = 0;
    weft_status status = class_item(w, o, &is_one, &low);
    if (status != WEFT_OK || !is_one) return status;
    put_literal(&o->items, low);
    char next = peek(w, 1);
    if (peek(w, 0) != '-' || next == ']' || next == '\0') return o->items.status;
    if (next == '[' || (next == '&' && peek(w, 2) == '&'))
        return refuse(w, "a range without an end");
    w->at++;
    uint32_t high = 0;
    strbuf_add_char(&o->items, '-');
    status = class_item(w, o, &is_one, &high);
    if (status != WEFT_OK) return status;
    if (!is_one) return refuse(w, "a range that ends in a set");
    put_literal(&o->items, high);
    return o->items.status;
}

/* Up to && or the closing bracket. */
static weft_status class_operand(rewriter *w, operand *o, bool first, uint32_t depth)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && w->at < w->in.len) {
        char c = peek(w, 0);
        if (c == ']' && !first) break;
        if (c == '&' && peek(w, 1) == '&') break;
        first = false;
        if (c == '[' && peek(w, 1) == ':') return refuse(w, "a POSIX class");
        if (c == '[') {
            if (o->others.len != 0) strbuf_add_char(&o->others, '|');
            w->at++;
            status = class_of(w, &o->others, depth + 1);
        } else {
            status = class_range(w, o);
        }
    }
    if (status == WEFT_OK && w->at >= w->in.len) return refuse(w, "a class without an end");
    if (status == WEFT_OK && o->items.len == 0 && o->others.len == 0)
        return refuse(w, "an empty operand in a class");
    return status;
}

static void put_operand(const operand *o, strbuf *out)
{
    strbuf_add_text(out, "(?:");
    if (o->items.len != 0) strbuf_printf(out, "[%s]", strbuf_text(&o->items));
    if (o->items.len != 0 && o->others.len != 0) strbuf_add_char(out, '|');
    strbuf_add(out, strbuf_text(&o->others), o->others.len);
    strbuf_add_char(out, ')');
}

/* Behind the opening bracket: an expression for one character. In the general case all operands
 * but the last are looked at ahead, and a negation looks ahead for the whole. */
static weft_status class_of(rewriter *w, strbuf *out, uint32_t depth)
{
    if (depth == CLASSES) return refuse(w, "a class nested too deep");
    bool negated = peek(w, 0) == '^';
    if (negated) w->at++;
    bool first = true;
    bool single = true;
    operand o;
    strbuf all;
    strbuf_init(&all, out->allocator, 0);
    strbuf_init(&o.items, out->allocator, 0);
    strbuf_init(&o.others, out->allocator, 0);
    weft_status status = class_operand(w, &o, first, depth);
    while (status == WEFT_OK && peek(w, 0) == '&') {
        single = false;
        first = false;
        w->at += 2;
        strbuf_add_text(&all, "(?=");
        put_operand(&o, &all);
        strbuf_add_char(&all, ')');
        strbuf_clear(&o.items);
        strbuf_clear(&o.others);
        status = class_operand(w, &o, first, depth);
    }
    w->at++; /* the closing bracket */
    if (status == WEFT_OK && single && o.others.len == 0) {
        strbuf_printf(out, negated ? "[^%s]" : "[%s]", strbuf_text(&o.items));
    } else if (status == WEFT_OK) {
        put_operand(&o, &all);
        strbuf_printf(out, negated ? "(?:(?!%s)(?s:.))" : "(?:%s)", strbuf_text(&all));
    }
    if (status == WEFT_OK) status = all.status != WEFT_OK ? all.status : out->status;
    strbuf_deinit(&o.items);
    strbuf_deinit(&o.others);
    strbuf_deinit(&all);
    return status;
}

/* ---- groups and repeats ---- */

static weft_status group_flags(rewriter *w)
{
    size_t start = w->at - 2;
    strbuf_add_text(w->out, "(?");
    for (; strchr("im-", peek(w, 0)) != NULL && peek(w, 0) != '\0'; w->at++)
        strbuf_add_char(w->out, peek(w, 0) == 'm' ? 's' : peek(w, 0));
    char c = peek(w, 0);
    /* Flags without a body hold to the end of the branch in one syntax, of the group in the
     * other. */
    if (c != ':' && !(c == ')' && start == 0)) return refuse(w, "a group of this kind");
    w->at++;
    strbuf_add_char(w->out, c);
    if (c == ')') {
        w->n_groups--;
        w->atom = SIZE_MAX;
    }
    return w->out->status;
}

static weft_status group_open(rewriter *w)
{
    if (w->n_groups == GROUPS) return refuse(w, "a group nested too deep");
    w->groups[w->n_groups++] = w->out->len;
    w->atom = SIZE_MAX;
    w->at++;
    if (peek(w, 0) == '*') return refuse(w, "a verb");
    if (peek(w, 0) != '?') return strbuf_add_text(w->out, "(?:");
    w->at++;
    char c = peek(w, 0);
    if (c == '<' && peek(w, 1) != '=' && peek(w, 1) != '!') { /* a name */
        w->at++;
        while (is_letter(peek(w, 0)) || is_digit(peek(w, 0)) || peek(w, 0) == '_') w->at++;
        if (peek(w, 0) != '>') return refuse(w, "a group of this kind");
        w->at++;
        return strbuf_add_text(w->out, "(?:");
    }
    if (c == '\0' || strchr(":=!><", c) == NULL) return group_flags(w);
    size_t n = c == '<' ? 2 : 1;
    strbuf_add_text(w->out, "(?");
    strbuf_add(w->out, w->in.ptr + w->at, n);
    w->at += n;
    return w->out->status;
}

static weft_status group_close(rewriter *w)
{
    if (w->n_groups == 0) return refuse(w, "a closing parenthesis");
    w->atom = w->groups[--w->n_groups];
    w->at++;
    return strbuf_add_char(w->out, ')');
}

/* Puts "(?:" before the last atom and ")" behind it. */
static weft_status wrap_atom(rewriter *w)
{
    size_t n = w->out->len - w->atom;
    if (strbuf_add_text(w->out, "(?:") != WEFT_OK) return w->out->status;
    memmove(w->out->ptr + w->atom + 3, w->out->ptr + w->atom, n);
    memcpy(w->out->ptr + w->atom, "(?:", 3);
    return strbuf_add_char(w->out, ')');
}

/* {n}, {n,}, {,m} or {n,m}; a brace that opens none of these is itself. */
static weft_status interval(rewriter *w)
{
    size_t at = w->at + 1;
    size_t low = at;
    while (at < w->in.len && is_digit(w->in.ptr[at])) at++;
    size_t n_low = at - low;
    bool comma = at < w->in.len && w->in.ptr[at] == ',';
    if (comma) at++;
    size_t high = at;
    while (at < w->in.len && is_digit(w->in.ptr[at])) at++;
    size_t n_high = at - high;
    if (at >= w->in.len || w->in.ptr[at] != '}' || (n_low == 0 && n_high == 0)) {
        w->atom = w->out->len;
        w->at++;
        return strbuf_add_text(w->out, "\\{");
    }
    if (w->atom == SIZE_MAX) return refuse(w, "a repeat of nothing");
    w->at = at + 1;
    strbuf_add_char(w->out, '{');
    strbuf_add(w->out, n_low == 0 ? "0" : w->in.ptr + low, n_low == 0 ? 1 : n_low);
    if (comma) strbuf_add_char(w->out, ',');
    strbuf_add(w->out, w->in.ptr + high, n_high);
    strbuf_add_char(w->out, '}');
    if (peek(w, 0) == '?') {
        if (!comma) return refuse(w, "a lazy repeat of a fixed number");
        w->at++;
        strbuf_add_char(w->out, '?');
    } else if (peek(w, 0) == '+') {
        if (w->out->status != WEFT_OK) return w->out->status;
        if (wrap_atom(w) != WEFT_OK) return w->out->status;
        w->at++;
        strbuf_add_char(w->out, '+');
    }
    w->atom = SIZE_MAX;
    return w->out->status;
}

static weft_status repeat(rewriter *w)
{
    if (w->atom == SIZE_MAX) return refuse(w, "a repeat of nothing");
    strbuf_add_char(w->out, peek(w, 0));
    w->at++;
    if (peek(w, 0) == '?' || peek(w, 0) == '+') {
        strbuf_add_char(w->out, peek(w, 0));
        w->at++;
    }
    w->atom = SIZE_MAX;
    return w->out->status;
}

static weft_status literal(rewriter *w)
{
    uint32_t c;
    size_t n = utf8_decode(w->in.ptr + w->at, w->in.len - w->at, &c);
    if (n == 0) return refuse(w, "invalid UTF-8");
    w->atom = w->out->len;
    w->at += n;
    put_literal(w->out, c);
    return w->out->status;
}

static weft_status step(rewriter *w)
{
    char c = peek(w, 0);
    switch (c) {
    case '\\':
        return escape(w);
    case '[':
        w->atom = w->out->len;
        w->at++;
        return class_of(w, w->out, 0);
    case '(':
        return group_open(w);
    case ')':
        return group_close(w);
    case '{':
        return interval(w);
    case '*':
    case '+':
    case '?':
        return repeat(w);
    case '^':
    case '$':
    case '|':
    case '.':
        w->atom = c == '.' ? w->out->len : SIZE_MAX;
        w->at++;
        return strbuf_add_char(w->out, c);
    default:
        return literal(w);
    }
}

weft_status regex_rewrite(str pattern, strbuf *out, weft_error *err)
{
    rewriter w = {.in = pattern, .out = out, .atom = SIZE_MAX, .err = err};
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && w.at < pattern.len) status = step(&w);
    if (status == WEFT_OK && w.n_groups != 0) status = refuse(&w, "a group without an end");
    if (status == WEFT_NOMEM) return err_set(err, status, "out of memory for a pattern");
    return status;
}
