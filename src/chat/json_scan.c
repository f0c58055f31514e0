/* json_scan.c - JSON byte by byte (RFC 8259), its depth bounded. */
#include "chat/json_scan.h"

#include <string.h>

#include "base/utf8.h"

enum {
    VALUE,      /* white space, or a value's first byte */
    FIRST_ITEM, /* the same behind [, or ] */
    FIRST_KEY,  /* behind {: a key or } */
    KEY,        /* behind a comma in an object */
    COLON,
    BEHIND, /* behind a value within another */
    TEXT,
    ESCAPE,
    HEX,
    WORD,
    MINUS,
    ZERO,
    WHOLE,
    POINT,
    FRACTION,
    EXPONENT,
    EXPONENT_SIGN,
    EXPONENT_DIGITS
};

void json_scan_init(json_scan *s)
{
    *s = (json_scan){.state = VALUE};
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool json_scan_in_text(const json_scan *s)
{
    return s->state == TEXT || s->state == ESCAPE || s->state == HEX;
}

bool json_scan_at_start(const json_scan *s)
{
    return s->state == VALUE && s->depth == 0;
}

static json_scan_result ended(json_scan *s)
{
    s->state = BEHIND;
    return s->depth == 0 ? JSON_SCAN_DONE : JSON_SCAN_MORE;
}

static json_scan_result opens(json_scan *s, bool object)
{
    if (s->depth == JSON_SCAN_DEPTH) return JSON_SCAN_BAD;
    s->objects[s->depth++] = object;
    s->state = object ? FIRST_KEY : FIRST_ITEM;
    return JSON_SCAN_MORE;
}

static json_scan_result closes(json_scan *s, bool object)
{
    if (s->depth == 0 || s->objects[s->depth - 1] != object) return JSON_SCAN_BAD;
    s->depth--;
    return ended(s);
}

static json_scan_result begins_text(json_scan *s, bool is_key)
{
    s->state = TEXT;
    s->is_key = is_key;
    return JSON_SCAN_MORE;
}

static json_scan_result begins_word(json_scan *s, const char *word)
{
    s->state = WORD;
    s->word = word;
    s->n_word = 1;
    return JSON_SCAN_MORE;
}

static json_scan_result begins(json_scan *s, char c)
{
    if (is_space(c)) return JSON_SCAN_MORE;
    switch (c) {
    case '{':
        return opens(s, true);
    case '[':
        return opens(s, false);
    case '"':
        return begins_text(s, false);
    case 't':
        return begins_word(s, "true");
    case 'f':
        return begins_word(s, "false");
    case 'n':
        return begins_word(s, "null");
    default:
        break;
    }
    if (c != '-' && !is_digit(c)) return JSON_SCAN_BAD;
    s->state = c == '-' ? MINUS : c == '0' ? ZERO : WHOLE;
    return JSON_SCAN_MORE;
}

/* Between the values of an array or object. */
static json_scan_result between(json_scan *s, char c)
{
    bool object = s->depth > 0 && s->objects[s->depth - 1];
    if (is_space(c)) return JSON_SCAN_MORE;
    switch (s->state) {
    case FIRST_ITEM:
        if (c == ']') return closes(s, false);
        s->state = VALUE;
        return begins(s, c);
    case FIRST_KEY:
        if (c == '}') return closes(s, true);
        return c == '"' ? begins_text(s, true) : JSON_SCAN_BAD;
    case KEY:
        return c == '"' ? begins_text(s, true) : JSON_SCAN_BAD;
    case COLON:
        s->state = VALUE;
        return c == ':' ? JSON_SCAN_MORE : JSON_SCAN_BAD;
    default:
        break;
    }
    if (s->depth == 0) return JSON_SCAN_BAD;
    if (c == ',') {
        s->state = object ? KEY : VALUE;
        return JSON_SCAN_MORE;
    }
    return c == (object ? '}' : ']') ? closes(s, object) : JSON_SCAN_BAD;
}

static json_scan_result in_text(json_scan *s, char c)
{
    if (s->state == HEX) {
        if (!is_hex(c)) return JSON_SCAN_BAD;
        if (--s->n_hex == 0) s->state = TEXT;
        return JSON_SCAN_MORE;
    }
    if (s->state == ESCAPE) {
        if (c == '\0' || strchr("\"\\/bfnrtu", c) == NULL) return JSON_SCAN_BAD;
        s->state = c == 'u' ? HEX : TEXT;
        s->n_hex = 4;
        return JSON_SCAN_MORE;
    }
    if (c == '\\') s->state = ESCAPE;
    if (c != '"') return JSON_SCAN_MORE;
    if (!s->is_key) return ended(s);
    s->state = COLON;
    return JSON_SCAN_MORE;
}

static json_scan_result in_word(json_scan *s, char c)
{
    if (c != s->word[s->n_word]) return JSON_SCAN_BAD;
    s->n_word++;
    return s->word[s->n_word] == '\0' ? ended(s) : JSON_SCAN_MORE;
}

/* Which state of a number follows; VALUE: none, it has ended. */
static uint8_t number_after(uint8_t state, char c)
{
    bool digit = is_digit(c), exponent = c == 'e' || c == 'E';
    switch (state) {
    case MINUS:
        return c == '0' ? ZERO : digit ? WHOLE : VALUE;
    case ZERO:
    case WHOLE:
        if (digit && state == WHOLE) return WHOLE;
        return c == '.' ? POINT : exponent ? EXPONENT : VALUE;
    case POINT:
        return digit ? FRACTION : VALUE;
    case FRACTION:
        return digit ? FRACTION : exponent ? EXPONENT : VALUE;
    case EXPONENT:
        return c == '+' || c == '-' ? EXPONENT_SIGN : digit ? EXPONENT_DIGITS : VALUE;
    default:
        return digit ? EXPONENT_DIGITS : VALUE;
    }
}

static bool may_end(uint8_t state)
{
    return state == ZERO || state == WHOLE || state == FRACTION || state == EXPONENT_DIGITS;
}

static json_scan_result in_number(json_scan *s, char c)
{
    uint8_t next = number_after(s->state, c);
    if (next != VALUE) {
        s->state = next;
        return JSON_SCAN_MORE;
    }
    if (!may_end(s->state)) return JSON_SCAN_BAD;
    return ended(s) == JSON_SCAN_DONE ? JSON_SCAN_PAST : between(s, c);
}

json_scan_result json_scan_push(json_scan *s, char c)
{
    if (s->state == VALUE) return begins(s, c);
    if (s->state <= BEHIND) return between(s, c);
    if (json_scan_in_text(s)) return in_text(s, c);
    return s->state == WORD ? in_word(s, c) : in_number(s, c);
}

bool json_scan_all(str text)
{
    json_scan s;
    json_scan_init(&s);
    size_t i = 0;
    json_scan_result result = JSON_SCAN_MORE;
    while (i < text.len && result == JSON_SCAN_MORE) result = json_scan_push(&s, text.ptr[i++]);
    if (result == JSON_SCAN_MORE) return may_end(s.state) && s.depth == 0;
    if (result == JSON_SCAN_BAD) return false;
    if (result == JSON_SCAN_PAST) i--;
    while (i < text.len && is_space(text.ptr[i])) i++;
    return i == text.len;
}

/* ---- strings --------------------------------------------------------------------------------- */

weft_status json_scan_escape(char c, strbuf *out)
{
    switch (c) {
    case '"':
        return strbuf_add_text(out, "\\\"");
    case '\\':
        return strbuf_add_text(out, "\\\\");
    case '\n':
        return strbuf_add_text(out, "\\n");
    case '\r':
        return strbuf_add_text(out, "\\r");
    case '\t':
        return strbuf_add_text(out, "\\t");
    default:
        break;
    }
    unsigned char byte = (unsigned char)c;
    return byte < 0x20 ? strbuf_printf(out, "\\u%04x", byte) : strbuf_add_char(out, c);
}

weft_status json_scan_write(bool in_text, char c, strbuf *out)
{
    bool must = in_text && (unsigned char)c < 0x20;
    return must ? json_scan_escape(c, out) : strbuf_add_char(out, c);
}

static uint32_t hex_at(str text, size_t i)
{
    uint32_t value = 0;
    for (size_t k = i; k < i + 4 && k < text.len; k++) {
        char c = text.ptr[k];
        uint32_t digit = is_digit(c) ? (uint32_t)(c - '0') : ((uint32_t)c | 0x20u) - 'a' + 10;
        value = value * 16 + digit;
    }
    return value;
}

/* The character of an escape whose u is at i; *i moves to its last byte. */
static uint32_t code_point(str text, size_t *i)
{
    uint32_t high = hex_at(text, *i + 1);
    *i += 4;
    if (high < 0xd800 || high > 0xdfff) return high;
    bool pair =
        high < 0xdc00 && *i + 6 < text.len && text.ptr[*i + 1] == '\\' && text.ptr[*i + 2] == 'u';
    uint32_t low = pair ? hex_at(text, *i + 3) : 0;
    if (low < 0xdc00 || low > 0xdfff) return 0xfffd;
    *i += 6;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

weft_status json_scan_decode(str quoted, strbuf *out)
{
    static const char FROM[] = "bfnrt", TO[] = "\b\f\n\r\t";
    weft_status status = WEFT_OK;
    for (size_t i = 1; i + 1 < quoted.len && status == WEFT_OK; i++) {
        char c = quoted.ptr[i], bytes[4];
        if (c != '\\') {
            status = strbuf_add_char(out, c);
            continue;
        }
        c = quoted.ptr[++i];
        const char *known = strchr(FROM, c);
        if (c == 'u') {
            status = strbuf_add(out, bytes, utf8_encode(code_point(quoted, &i), bytes));
        } else {
            status = strbuf_add_char(out, known != NULL ? TO[known - FROM] : c);
        }
    }
    return status;
}
