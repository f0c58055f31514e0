/* template_lex.h - from template source to tokens, one at a time. */
#ifndef CHAT_TEMPLATE_LEX_H
#define CHAT_TEMPLATE_LEX_H

#include "base/str.h"

typedef enum tpl_token_kind {
    TPL_TOK_EOF,
    TPL_TOK_DATA,
    TPL_TOK_OUTPUT_BEGIN,
    TPL_TOK_OUTPUT_END,
    TPL_TOK_BLOCK_BEGIN,
    TPL_TOK_BLOCK_END,
    TPL_TOK_NAME,
    TPL_TOK_INT,
    TPL_TOK_REAL,
    TPL_TOK_STRING, /* text is what stands between the quotes, escapes not yet resolved */
    TPL_TOK_ADD,
    TPL_TOK_SUB,
    TPL_TOK_MUL,
    TPL_TOK_POW,
    TPL_TOK_DIV,
    TPL_TOK_FLOORDIV,
    TPL_TOK_MOD,
    TPL_TOK_TILDE,
    TPL_TOK_EQ,
    TPL_TOK_NE,
    TPL_TOK_LT,
    TPL_TOK_LE,
    TPL_TOK_GT,
    TPL_TOK_GE,
    TPL_TOK_ASSIGN,
    TPL_TOK_DOT,
    TPL_TOK_COLON,
    TPL_TOK_COMMA,
    TPL_TOK_PIPE,
    TPL_TOK_SEMICOLON,
    TPL_TOK_LPAREN,
    TPL_TOK_RPAREN,
    TPL_TOK_LBRACKET,
    TPL_TOK_RBRACKET,
    TPL_TOK_LBRACE,
    TPL_TOK_RBRACE
} tpl_token_kind;

typedef struct tpl_token {
    tpl_token_kind kind;
    uint32_t line;
    str text; /* a view of the source */
} tpl_token;

enum { TPL_BALANCE = 256 };

typedef struct tpl_lexer {
    str source; /* newlines are '\n', valid UTF-8 */
    size_t at;
    uint32_t line;
    tpl_token_kind inside; /* TPL_TOK_DATA, TPL_TOK_OUTPUT_BEGIN or TPL_TOK_BLOCK_BEGIN */
    bool line_starting;    /* what was matched last ended a line, or nothing was */
    uint32_t n_open;       /* brackets open inside this tag: '}}' and '%}' end it only at 0 */
    char open[TPL_BALANCE];
} tpl_lexer;

void tpl_lexer_init(tpl_lexer *lex, str source);

/* FORMAT or LIMIT with the line in the message. At the end, TPL_TOK_EOF again and again. */
weft_status tpl_lexer_next(tpl_lexer *lex, tpl_token *token, weft_error *err);

/* What a token is called in messages. */
const char *tpl_token_name(tpl_token_kind kind);

#endif
