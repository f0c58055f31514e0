/* template_parse.h - the parser's state; statements are in template_parse.c, expressions in
 * template_expr.c. */
#ifndef CHAT_TEMPLATE_PARSE_H
#define CHAT_TEMPLATE_PARSE_H

#include "chat/template_lex.h"
#include "chat/template_node.h"

/* Calls of the parser inside one another: brackets take two each, blocks one. */
enum { TPL_PARSE_DEPTH = 200 };

/* Names that mean something special where they are read before anything is assigned to them. */
enum { TPL_CALLER = 1, TPL_KWARGS = 2, TPL_VARARGS = 4 };

typedef struct tpl_parser {
    chat_template *into;
    tpl_lexer lexer;
    tpl_token token, ahead; /* the current one and the next */
    weft_status status;
    weft_error *err;
    uint32_t depth;
    uint32_t n_loops;         /* around this place, inside the same macro */
    unsigned special, hidden; /* names read first, and assigned first, in this macro */
    uint32_t n_loop_stores;   /* assignments to "loop" so far */
    bool in_target;
    map names;
    uint32_t names_capacity;
    const weft_allocator *allocator;
    tpl_node **pending; /* [n_pending]: items of lists under way, the innermost last */
    size_t n_pending, pending_capacity;
} tpl_parser;

/* Functions return NULL or false on failure, which stands in the parser. */
bool tpl_parse_fail(tpl_parser *p, weft_status status, uint32_t line, const char *fmt, ...)
    ERR_PRINTF(4, 5);
bool tpl_parse_advance(tpl_parser *p);
bool tpl_parse_expect(tpl_parser *p, tpl_token_kind kind);
bool tpl_parse_at_name(const tpl_parser *p, const char *name);
/* Advances when the current token is that. Failure to advance shows in status. */
bool tpl_parse_skip(tpl_parser *p, tpl_token_kind kind);
bool tpl_parse_skip_name(tpl_parser *p, const char *name);
bool tpl_parse_enter(tpl_parser *p);
void tpl_parse_leave(tpl_parser *p);

void *tpl_parse_alloc(tpl_parser *p, size_t count, size_t size);
tpl_node *tpl_parse_node(tpl_parser *p, tpl_node_kind kind, uint32_t line);
bool tpl_parse_push(tpl_parser *p, tpl_node *node);
/* Takes everything pushed since mark. */
bool tpl_parse_take(tpl_parser *p, size_t mark, tpl_nodes *nodes);
bool tpl_parse_name_id(tpl_parser *p, str name, uint32_t *id);
/* A text of the template's own around bytes that live as long as it. */
bool tpl_parse_text(tpl_parser *p, str bytes, tpl_value *v);

tpl_node *tpl_parse_expression(tpl_parser *p);
/* Without "a if b else c" at the top, as the source of a for and the test of an if are. */
tpl_node *tpl_parse_plain(tpl_parser *p);
/* Expressions with commas make a tuple; end, a name or NULL, ends it beside the usual tokens. */
tpl_node *tpl_parse_tuple(tpl_parser *p, bool conditional, const char *end);
/* A name or a tuple of names; with attributes also namespace.name. */
tpl_node *tpl_parse_target(tpl_parser *p, bool attributes, const char *end);
/* "name(args) | name ..." applied to input. */
tpl_node *tpl_parse_filters(tpl_parser *p, tpl_node *input, bool first_without_pipe);

tpl_node *tpl_parse_literal(tpl_parser *p);

bool tpl_parse_template(tpl_parser *p);

#endif
