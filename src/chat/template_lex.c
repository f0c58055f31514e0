/* template_lex.c - from template source to tokens, one at a time.
 *
 * Whitespace control happens here, with trim_blocks and lstrip_blocks on, so that the parser never
 * sees it: a '-' removes all white space on its side, a '+' keeps what the two options would
 * remove, and neither option touches {{ }}. */
#include "chat/template_lex.h"

#include <string.h>

#include "base/assert.h"
#include "chat/template_unicode.h"

static const char *const NAMES[] = {
    [TPL_TOK_EOF] = "the end of the template",
    [TPL_TOK_DATA] = "text",
    [TPL_TOK_OUTPUT_BEGIN] = "'{{'",
    [TPL_TOK_OUTPUT_END] = "'}}'",
    [TPL_TOK_BLOCK_BEGIN] = "'{%'",
    [TPL_TOK_BLOCK_END] = "'%}'",
    [TPL_TOK_NAME] = "a name",
    [TPL_TOK_INT] = "an integer",
    [TPL_TOK_REAL] = "a number",
    [TPL_TOK_STRING] = "a string",
    [TPL_TOK_ADD] = "'+'",
    [TPL_TOK_SUB] = "'-'",
    [TPL_TOK_MUL] = "'*'",
    [TPL_TOK_POW] = "'**'",
    [TPL_TOK_DIV] = "'/'",
    [TPL_TOK_FLOORDIV] = "'//'",
    [TPL_TOK_MOD] = "'%'",
    [TPL_TOK_TILDE] = "'~'",
    [TPL_TOK_EQ] = "'=='",
    [TPL_TOK_NE] = "'!='",
    [TPL_TOK_LT] = "'<'",
    [TPL_TOK_LE] = "'<='",
    [TPL_TOK_GT] = "'>'",
    [TPL_TOK_GE] = "'>='",
    [TPL_TOK_ASSIGN] = "'='",
    [TPL_TOK_DOT] = "'.'",
    [TPL_TOK_COLON] = "':'",
    [TPL_TOK_COMMA] = "','",
    [TPL_TOK_PIPE] = "'|'",
    [TPL_TOK_SEMICOLON] = "';'",
    [TPL_TOK_LPAREN] = "'('",
    [TPL_TOK_RPAREN] = "')'",
    [TPL_TOK_LBRACKET] = "'['",
    [TPL_TOK_RBRACKET] = "']'",
    [TPL_TOK_LBRACE] = "'{'",
    [TPL_TOK_RBRACE] = "'}'",
};

/* Longer operators first: the first that matches is taken. */
static const struct {
    const char *text;
    tpl_token_kind kind;
} OPERATORS[] = {
    {"**", TPL_TOK_POW},   {"//", TPL_TOK_FLOORDIV}, {"==", TPL_TOK_EQ},
    {"!=", TPL_TOK_NE},    {"<=", TPL_TOK_LE},       {">=", TPL_TOK_GE},
    {"+", TPL_TOK_ADD},    {"-", TPL_TOK_SUB},       {"*", TPL_TOK_MUL},
    {"/", TPL_TOK_DIV},    {"%", TPL_TOK_MOD},       {"~", TPL_TOK_TILDE},
    {"<", TPL_TOK_LT},     {">", TPL_TOK_GT},        {"=", TPL_TOK_ASSIGN},
    {".", TPL_TOK_DOT},    {":", TPL_TOK_COLON},     {",", TPL_TOK_COMMA},
    {"|", TPL_TOK_PIPE},   {";", TPL_TOK_SEMICOLON}, {"(", TPL_TOK_LPAREN},
    {")", TPL_TOK_RPAREN}, {"[", TPL_TOK_LBRACKET},  {"]", TPL_TOK_RBRACKET},
    {"{", TPL_TOK_LBRACE}, {"}", TPL_TOK_RBRACE},
};

const char *tpl_token_name(tpl_token_kind kind)
{
    ASSERT((size_t)kind < COUNT_OF(NAMES));
    return NAMES[kind];
}

void tpl_lexer_init(tpl_lexer *lex, str source)
{
    memset(lex, 0, sizeof *lex);
    lex->source = source;
    lex->line = 1;
    lex->inside = TPL_TOK_DATA;
    lex->line_starting = true;
}

/* The byte at an offset, 0 behind the end. */
static char peek(const tpl_lexer *lex, size_t at)
{
    return at < lex->source.len ? lex->source.ptr[at] : '\0';
}

static bool looking_at(const tpl_lexer *lex, size_t at, const char *what)
{
    size_t n = strlen(what);
    return at <= lex->source.len && lex->source.len - at >= n &&
           memcmp(lex->source.ptr + at, what, n) == 0;
}

/* Moves on to an offset, counting lines. */
static void advance(tpl_lexer *lex, size_t to)
{
    ASSERT(to >= lex->at && to <= lex->source.len);
    if (to == lex->at) return;
    for (size_t i = lex->at; i < to; i++) {
        if (lex->source.ptr[i] == '\n') lex->line++;
    }
    lex->line_starting = lex->source.ptr[to - 1] == '\n';
    lex->at = to;
}

static size_t skip_space(const tpl_lexer *lex, size_t at)
{
    return at + tpl_space_prefix((str){lex->source.ptr + at, lex->source.len - at});
}

/* Behind an end mark (2 bytes, an optional sign before it), or 0 when none stands here. */
static size_t match_end(const tpl_lexer *lex, size_t at, const char *mark, bool is_block)
{
    char sign = peek(lex, at);
    if (sign == '-' && looking_at(lex, at + 1, mark)) return skip_space(lex, at + 3);
    if (is_block && sign == '+' && looking_at(lex, at + 1, mark)) return at + 3;
    if (!looking_at(lex, at, mark)) return 0;
    return is_block && peek(lex, at + 2) == '\n' ? at + 3 : at + 2;
}

/* Text in front of a tag, after what the tag's sign or lstrip_blocks removes. */
static str strip_data(const tpl_lexer *lex, str data, char sign, bool is_output)
{
    if (sign == '-') {
        data.len -= tpl_space_suffix(data);
        return data;
    }
    if (sign == '+' || is_output) return data;
    size_t start = data.len;
    while (start > 0 && data.ptr[start - 1] != '\n') start--;
    if (start == 0 && !lex->line_starting) return data;
    str tail = {data.ptr + start, data.len - start};
    if (tpl_space_prefix(tail) == tail.len) data.len = start;
    return data;
}

static char sign_at(const tpl_lexer *lex, size_t at)
{
    char sign = peek(lex, at);
    return sign == '-' || sign == '+' ? sign : '\0';
}

/* Behind '{% raw %}' when that stands here, else 0. */
static size_t match_raw_begin(const tpl_lexer *lex, size_t at)
{
    size_t i = at + 2;
    if (sign_at(lex, i) != '\0') i++;
    i = skip_space(lex, i);
    if (!looking_at(lex, i, "raw")) return 0;
    i = skip_space(lex, i + 3);
    if (looking_at(lex, i, "-%}")) return skip_space(lex, i + 3);
    return looking_at(lex, i, "%}") ? i + 2 : 0;
}

/* Behind '{% endraw %}' when that stands here, else 0. */
static size_t match_raw_end(const tpl_lexer *lex, size_t at)
{
    if (!looking_at(lex, at, "{%")) return 0;
    size_t i = at + 2;
    if (sign_at(lex, i) != '\0') i++;
    i = skip_space(lex, i);
    if (!looking_at(lex, i, "endraw")) return 0;
    return match_end(lex, skip_space(lex, i + 6), "%}", true);
}

/* at: behind '{% raw %}'. */
static weft_status lex_raw(tpl_lexer *lex, tpl_token *token, weft_error *err)
{
    size_t begin = lex->at;
    for (size_t i = begin; i < lex->source.len; i++) {
        size_t end = lex->source.ptr[i] == '{' ? match_raw_end(lex, i) : 0;
        if (end == 0) continue;
        str data = {lex->source.ptr + begin, i - begin};
        *token =
            (tpl_token){TPL_TOK_DATA, lex->line, strip_data(lex, data, sign_at(lex, i + 2), false)};
        advance(lex, end);
        return WEFT_OK;
    }
    return err_set(err, WEFT_FORMAT, "line %u: the raw block is never ended", lex->line);
}

/* at: behind '{#' and its sign. */
static weft_status skip_comment(tpl_lexer *lex, weft_error *err)
{
    for (size_t i = lex->at; i < lex->source.len; i++) {
        size_t end = match_end(lex, i, "#}", true);
        if (end == 0) continue;
        advance(lex, end);
        return WEFT_OK;
    }
    return err_set(err, WEFT_FORMAT, "line %u: the comment is never ended", lex->line);
}

/* The next '{{', '{%' or '{#', or the end. */
static size_t find_tag(const tpl_lexer *lex)
{
    size_t i = lex->at;
    while (i < lex->source.len) {
        const char *brace = memchr(lex->source.ptr + i, '{', lex->source.len - i);
        if (brace == NULL) return lex->source.len;
        i = (size_t)(brace - lex->source.ptr);
        char second = peek(lex, i + 1);
        if (second == '{' || second == '%' || second == '#') return i;
        i++;
    }
    return lex->source.len;
}

/* Sets *found when it made a token: empty text, a comment and the start of a raw block make none.
 * */
static weft_status lex_data(tpl_lexer *lex, tpl_token *token, bool *found, weft_error *err)
{
    size_t tag = find_tag(lex);
    str data = {lex->source.ptr + lex->at, tag - lex->at};
    if (tag == lex->source.len) {
        *token = (tpl_token){TPL_TOK_DATA, lex->line, data};
        *found = true;
        advance(lex, tag);
        return WEFT_OK;
    }
    char second = peek(lex, tag + 1);
    char sign = sign_at(lex, tag + 2);
    data = strip_data(lex, data, sign, second == '{');
    if (data.len != 0) {
        /* The tag itself comes with the next call, which then finds no text in front of it. */
        *token = (tpl_token){TPL_TOK_DATA, lex->line, data};
        *found = true;
        advance(lex, tag);
        return WEFT_OK;
    }
    advance(lex, tag);
    size_t raw = second == '%' ? match_raw_begin(lex, tag) : 0;
    if (raw != 0) {
        advance(lex, raw);
        *found = true;
        return lex_raw(lex, token, err);
    }
    advance(lex, tag + (sign == '\0' ? 2 : 3));
    if (second == '#') return skip_comment(lex, err);
    lex->inside = second == '{' ? TPL_TOK_OUTPUT_BEGIN : TPL_TOK_BLOCK_BEGIN;
    *token = (tpl_token){lex->inside, lex->line, {lex->source.ptr + tag, 2}};
    *found = true;
    return WEFT_OK;
}

static bool is_digit(char c, unsigned base)
{
    if (base <= 10) return c >= '0' && (unsigned)(c - '0') < base;
    char lower = (char)(c | 0x20);
    return (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'f');
}

/* Behind digits with single underscores between them; at itself when there is none. */
static size_t skip_digits(const tpl_lexer *lex, size_t at, unsigned base)
{
    size_t i = at;
    while (is_digit(peek(lex, i), base) ||
           (i > at && peek(lex, i) == '_' && is_digit(peek(lex, i + 1), base))) {
        i++;
    }
    return i;
}

static unsigned prefix_base(char c)
{
    switch (c | 0x20) {
    case 'b':
        return 2;
    case 'o':
        return 8;
    case 'x':
        return 16;
    default:
        return 0;
    }
}

/* Behind the fraction and exponent of a real whose whole part ends at whole, or 0. */
static size_t match_real(const tpl_lexer *lex, size_t whole)
{
    size_t i = whole;
    if (peek(lex, i) == '.' && is_digit(peek(lex, i + 1), 10)) i = skip_digits(lex, i + 1, 10);
    if ((peek(lex, i) | 0x20) == 'e') {
        size_t exponent = i + 1;
        if (sign_at(lex, exponent) != '\0') exponent++;
        if (is_digit(peek(lex, exponent), 10)) return skip_digits(lex, exponent, 10);
    }
    return i == whole ? 0 : i;
}

static size_t lex_number(const tpl_lexer *lex, tpl_token_kind *kind)
{
    size_t at = lex->at;
    bool after_dot = at > 0 && lex->source.ptr[at - 1] == '.';
    size_t whole = skip_digits(lex, at, 10);
    size_t real = after_dot ? 0 : match_real(lex, whole);
    *kind = real != 0 ? TPL_TOK_REAL : TPL_TOK_INT;
    if (real != 0) return real;
    if (peek(lex, at) != '0') return whole;
    unsigned base = prefix_base(peek(lex, at + 1));
    if (base != 0) {
        size_t digits = peek(lex, at + 2) == '_' ? at + 3 : at + 2;
        size_t end = skip_digits(lex, digits, base);
        if (end > digits) return end;
    }
    return skip_digits(lex, at, 1);
}

static size_t skip_name(const tpl_lexer *lex)
{
    size_t i = lex->at;
    while (i < lex->source.len) {
        size_t n = tpl_name_char((str){lex->source.ptr + i, lex->source.len - i});
        if (n == 0) break;
        i += n;
    }
    return i;
}

/* at: the opening quote. Returns the closing one, or 0. */
static size_t find_quote(const tpl_lexer *lex)
{
    char quote = peek(lex, lex->at);
    for (size_t i = lex->at + 1; i < lex->source.len; i++) {
        char c = lex->source.ptr[i];
        if (c == quote) return i;
        if (c == '\\') i++;
    }
    return 0;
}

static weft_status balance(tpl_lexer *lex, char c, weft_error *err)
{
    if (c == '(' || c == '[' || c == '{') {
        if (lex->n_open == TPL_BALANCE) {
            return err_set(err, WEFT_LIMIT, "line %u: brackets nest deeper than %d", lex->line,
                           TPL_BALANCE);
        }
        lex->open[lex->n_open++] = c;
        return WEFT_OK;
    }
    if (c != ')' && c != ']' && c != '}') return WEFT_OK;
    char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (lex->n_open == 0 || lex->open[lex->n_open - 1] != opening) {
        return err_set(err, WEFT_FORMAT, "line %u: unexpected '%c'", lex->line, c);
    }
    lex->n_open--;
    return WEFT_OK;
}

static weft_status lex_operator(tpl_lexer *lex, tpl_token *token, weft_error *err)
{
    for (size_t i = 0; i < COUNT_OF(OPERATORS); i++) {
        if (!looking_at(lex, lex->at, OPERATORS[i].text)) continue;
        size_t n = strlen(OPERATORS[i].text);
        *token = (tpl_token){OPERATORS[i].kind, lex->line, {lex->source.ptr + lex->at, n}};
        weft_status status = balance(lex, lex->source.ptr[lex->at], err);
        advance(lex, lex->at + n);
        return status;
    }
    return err_set(err, WEFT_FORMAT, "line %u: unexpected character '%c'", lex->line,
                   peek(lex, lex->at));
}

static weft_status lex_expression(tpl_lexer *lex, tpl_token *token, weft_error *err)
{
    size_t at = lex->at;
    char c = lex->source.ptr[at];
    size_t end;
    tpl_token_kind kind = TPL_TOK_NAME;
    if (c >= '0' && c <= '9') {
        end = lex_number(lex, &kind);
    } else {
        end = skip_name(lex);
    }
    if (end > at) {
        *token = (tpl_token){kind, lex->line, {lex->source.ptr + at, end - at}};
        advance(lex, end);
        return WEFT_OK;
    }
    if (c != '\'' && c != '"') return lex_operator(lex, token, err);
    size_t quote = find_quote(lex);
    if (quote == 0) {
        return err_set(err, WEFT_FORMAT, "line %u: the string is never ended", lex->line);
    }
    *token = (tpl_token){TPL_TOK_STRING, lex->line, {lex->source.ptr + at + 1, quote - at - 1}};
    advance(lex, quote + 1);
    return WEFT_OK;
}

/* Inside a tag: its end when no bracket is open, else an expression's token. */
static weft_status lex_tag(tpl_lexer *lex, tpl_token *token, weft_error *err)
{
    bool is_block = lex->inside == TPL_TOK_BLOCK_BEGIN;
    for (;;) {
        size_t at = lex->at;
        size_t end = lex->n_open == 0 ? match_end(lex, at, is_block ? "%}" : "}}", is_block) : 0;
        if (end != 0) {
            *token = (tpl_token){is_block ? TPL_TOK_BLOCK_END : TPL_TOK_OUTPUT_END,
                                 lex->line,
                                 {lex->source.ptr + at, 2}};
            advance(lex, end);
            lex->inside = TPL_TOK_DATA;
            return WEFT_OK;
        }
        size_t space = skip_space(lex, at);
        if (space == at) break;
        advance(lex, space);
    }
    if (lex->at == lex->source.len) {
        *token = (tpl_token){TPL_TOK_EOF, lex->line, {lex->source.ptr + lex->at, 0}};
        return WEFT_OK;
    }
    return lex_expression(lex, token, err);
}

weft_status tpl_lexer_next(tpl_lexer *lex, tpl_token *token, weft_error *err)
{
    if (lex->inside != TPL_TOK_DATA) return lex_tag(lex, token, err);
    bool found = false;
    while (!found) {
        if (lex->at == lex->source.len) {
            *token = (tpl_token){TPL_TOK_EOF, lex->line, {lex->source.ptr + lex->at, 0}};
            return WEFT_OK;
        }
        weft_status status = lex_data(lex, token, &found, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}
