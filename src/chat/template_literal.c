/* template_literal.c - numbers and strings written in a template. */
#include <string.h>

#include "base/utf8.h"
#include "chat/template_number.h"
#include "chat/template_parse.h"

/* Digits of a literal without its underscores; false when it is longer than any number of use. */
static bool clean(str digits, char *text, size_t capacity)
{
    size_t n = 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.ptr[i] == '_') continue;
        if (n + 1 == capacity) return false;
        text[n++] = digits.ptr[i];
    }
    text[n] = '\0';
    return true;
}

static bool parse_number(tpl_parser *p, tpl_value *v)
{
    char text[512];
    if (!clean(p->token.text, text, sizeof text)) {
        return tpl_parse_fail(p, WEFT_LIMIT, p->token.line, "a number has more than %zu digits",
                              sizeof text - 1);
    }
    if (p->token.kind == TPL_TOK_REAL) {
        double d;
        if (!tpl_number_real(str_of(text), &d)) {
            return tpl_parse_fail(p, WEFT_FORMAT, p->token.line, "'%s' is not a number", text);
        }
        *v = tpl_real(d);
        return true;
    }
    int64_t i;
    if (tpl_number_int(str_of(text), 0, &i) != TPL_NUMBER_OK) {
        return tpl_parse_fail(p, WEFT_LIMIT, p->token.line, "the integer %.40s exceeds 64 bits",
                              text);
    }
    *v = tpl_int(i);
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Exactly n hexadecimal digits at i. */
static bool hex_value(str s, size_t i, size_t n, uint32_t *code_point)
{
    if (s.len - i < n) return false;
    uint64_t total = 0;
    for (size_t k = 0; k < n; k++) {
        int digit = hex_digit(s.ptr[i + k]);
        if (digit < 0) return false;
        total = total * 16 + (uint64_t)digit;
    }
    *code_point = total > 0x10ffff ? 0xd800 : (uint32_t)total;
    return true;
}

static size_t octal_value(str s, size_t i, uint32_t *code_point)
{
    size_t n = 0;
    *code_point = 0;
    while (n < 3 && i + n < s.len && s.ptr[i + n] >= '0' && s.ptr[i + n] <= '7') {
        *code_point = *code_point * 8 + (uint32_t)(s.ptr[i + n] - '0');
        n++;
    }
    return n;
}

static const char SIMPLE[] = "\\\\'\'\"\"a\ab\bf\fn\nr\rt\tv\v";

/* The escape whose letter is at i: writes bytes, *n_out of them, and returns how much of s it took,
 * 0 when it is malformed. */
static size_t unescape(str s, size_t i, char *bytes, size_t *n_out)
{
    char c = s.ptr[i];
    *n_out = 0;
    if (c == '\n') return 1;
    for (const char *pair = SIMPLE; *pair != '\0'; pair += 2) {
        if (c != pair[0]) continue;
        bytes[(*n_out)++] = pair[1];
        return 1;
    }
    uint32_t code_point;
    size_t taken = 0;
    size_t n_hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n_hex != 0) {
        if (!hex_value(s, i + 1, n_hex, &code_point)) return 0;
        taken = n_hex + 1;
    } else {
        taken = octal_value(s, i, &code_point);
    }
    if (taken == 0 && c == 'N') return 0;
    if (taken == 0) {
        /* Not an escape: the backslash stays. */
        bytes[(*n_out)++] = '\\';
        return SIZE_MAX;
    }
    if (code_point >= 0xd800 && code_point < 0xe000) return 0;
    *n_out = utf8_encode(code_point, bytes);
    return taken;
}

/* Appends a string token; the text grows by at most its length. */
static bool append_string(tpl_parser *p, char *to, size_t *n)
{
    str s = p->token.text;
    for (size_t i = 0; i < s.len;) {
        if (s.ptr[i] != '\\' || i + 1 == s.len) {
            to[(*n)++] = s.ptr[i++];
            continue;
        }
        char bytes[4];
        size_t n_out;
        size_t taken = unescape(s, i + 1, bytes, &n_out);
        if (taken == 0) {
            return tpl_parse_fail(p, WEFT_FORMAT, p->token.line,
                                  "a string has an escape that names no character");
        }
        memcpy(to + *n, bytes, n_out);
        *n += n_out;
        i += taken == SIZE_MAX ? 1 : taken + 1;
    }
    return true;
}

/* Strings beside each other are one. */
static bool parse_string(tpl_parser *p, tpl_value *v)
{
    char *joined = NULL;
    size_t n = 0;
    while (p->token.kind == TPL_TOK_STRING) {
        bool more = p->ahead.kind == TPL_TOK_STRING;
        str s = p->token.text;
        bool plain = !more && joined == NULL && (s.len == 0 || memchr(s.ptr, '\\', s.len) == NULL);
        if (plain) return tpl_parse_text(p, s, v) && tpl_parse_advance(p);
        char *larger = tpl_parse_alloc(p, n + s.len + 1, 1);
        if (larger == NULL) return false;
        if (n != 0) memcpy(larger, joined, n);
        joined = larger;
        if (!append_string(p, joined, &n) || !tpl_parse_advance(p)) return false;
    }
    return tpl_parse_text(p, (str){joined, n}, v);
}

tpl_node *tpl_parse_literal(tpl_parser *p)
{
    tpl_node *n = tpl_parse_node(p, TPL_CONST, p->token.line);
    if (n == NULL) return NULL;
    if (p->token.kind == TPL_TOK_STRING) return parse_string(p, &n->as.constant) ? n : NULL;
    return parse_number(p, &n->as.constant) && tpl_parse_advance(p) ? n : NULL;
}
