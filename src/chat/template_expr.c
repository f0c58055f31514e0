/* template_expr.c - parsing expressions. */
#include <string.h>

#include "base/assert.h"
#include "chat/template_filters.h"
#include "chat/template_parse.h"
#include "chat/template_tests.h"

static tpl_node *parse_unary(tpl_parser *p, bool with_filter);

static tpl_node *three(tpl_parser *p, tpl_node_kind kind, uint32_t line, tpl_node *a)
{
    tpl_node *n = a == NULL ? NULL : tpl_parse_node(p, kind, line);
    if (n != NULL) n->as.three.part[0] = a;
    return n;
}

static tpl_node *list_node(tpl_parser *p, tpl_node_kind kind, uint32_t line, size_t mark)
{
    tpl_node *n = tpl_parse_node(p, kind, line);
    return n != NULL && tpl_parse_take(p, mark, &n->as.list) ? n : NULL;
}

/* [a, b,] or {a: b, c: d,}: at the opening bracket. */
static tpl_node *parse_display(tpl_parser *p, tpl_token_kind close)
{
    bool is_dict = close == TPL_TOK_RBRACE;
    uint32_t line = p->token.line;
    size_t mark = p->n_pending;
    if (!tpl_parse_advance(p)) return NULL;
    while (p->token.kind != close) {
        if (p->n_pending > mark && !tpl_parse_expect(p, TPL_TOK_COMMA)) return NULL;
        if (p->token.kind == close) break;
        if (!tpl_parse_push(p, tpl_parse_expression(p))) return NULL;
        if (!is_dict) continue;
        if (!tpl_parse_expect(p, TPL_TOK_COLON) || !tpl_parse_push(p, tpl_parse_expression(p))) {
            return NULL;
        }
    }
    if (!tpl_parse_advance(p)) return NULL;
    return list_node(p, is_dict ? TPL_DICT_NODE : TPL_LIST_NODE, line, mark);
}

static tpl_node *constant(tpl_parser *p, uint32_t line, tpl_value v)
{
    tpl_node *n = tpl_parse_node(p, TPL_CONST, line);
    if (n != NULL) n->as.constant = v;
    return n;
}

static void note_use(tpl_parser *p, str name)
{
    static const char *const NAMES[] = {"caller", "kwargs", "varargs"};
    if (p->in_target && str_equal_text(name, "loop")) p->n_loop_stores++;
    for (unsigned i = 0; i < COUNT_OF(NAMES); i++) {
        unsigned bit = 1u << i;
        if (!str_equal_text(name, NAMES[i])) continue;
        if (p->in_target) {
            p->hidden |= bit & ~p->special;
        } else {
            p->special |= bit & ~p->hidden;
        }
    }
}

/* A name, a word that is a constant, or with attributes "namespace.name" as a target. */
static tpl_node *parse_name(tpl_parser *p, bool attributes)
{
    str name = p->token.text;
    uint32_t line = p->token.line;
    if (name.ptr[0] >= '0' && name.ptr[0] <= '9') {
        tpl_parse_fail(p, WEFT_FORMAT, line, "a name cannot start with a digit");
        return NULL;
    }
    if (!tpl_parse_advance(p)) return NULL;
    if (str_equal_text(name, "true") || str_equal_text(name, "True")) {
        return constant(p, line, tpl_bool(true));
    }
    if (str_equal_text(name, "false") || str_equal_text(name, "False")) {
        return constant(p, line, tpl_bool(false));
    }
    if (str_equal_text(name, "none") || str_equal_text(name, "None")) {
        return constant(p, line, tpl_none());
    }
    tpl_node *n = tpl_parse_node(p, TPL_NAME, line);
    if (n == NULL || !tpl_parse_name_id(p, name, &n->as.name)) return NULL;
    if (!attributes || p->token.kind != TPL_TOK_DOT) {
        note_use(p, name);
        return n;
    }
    tpl_node *ref = tpl_parse_node(p, TPL_ATTR, line);
    if (ref == NULL || !tpl_parse_advance(p)) return NULL;
    str field = p->token.text;
    if (!tpl_parse_expect(p, TPL_TOK_NAME)) return NULL;
    ref->as.attr.object = n;
    return tpl_parse_text(p, field, &ref->as.attr.name) ? ref : NULL;
}

static tpl_node *parse_tuple(tpl_parser *p, bool conditional, const char *end, bool in_parens);

static tpl_node *parse_primary(tpl_parser *p, bool attributes)
{
    switch (p->token.kind) {
    case TPL_TOK_NAME:
        return parse_name(p, attributes);
    case TPL_TOK_STRING:
    case TPL_TOK_INT:
    case TPL_TOK_REAL:
        return tpl_parse_literal(p);
    case TPL_TOK_LBRACKET:
        return parse_display(p, TPL_TOK_RBRACKET);
    case TPL_TOK_LBRACE:
        return parse_display(p, TPL_TOK_RBRACE);
    case TPL_TOK_LPAREN: {
        if (!tpl_parse_advance(p)) return NULL;
        tpl_node *n = parse_tuple(p, true, NULL, true);
        return n != NULL && tpl_parse_expect(p, TPL_TOK_RPAREN) ? n : NULL;
    }
    default:
        tpl_parse_fail(p, WEFT_FORMAT, p->token.line, "expected an expression, got %s",
                       tpl_token_name(p->token.kind));
        return NULL;
    }
}

static bool at_tuple_end(const tpl_parser *p, const char *end)
{
    return p->token.kind == TPL_TOK_OUTPUT_END || p->token.kind == TPL_TOK_BLOCK_END ||
           p->token.kind == TPL_TOK_RPAREN || (end != NULL && tpl_parse_at_name(p, end));
}

/* After the items of a possible tuple were pushed: one without a comma is itself. */
static tpl_node *close_tuple(tpl_parser *p, size_t mark, bool is_tuple, bool may_be_empty)
{
    uint32_t line = p->token.line;
    if (!is_tuple && p->n_pending > mark) {
        ASSERT(p->n_pending == mark + 1);
        return p->pending[--p->n_pending];
    }
    if (!is_tuple && !may_be_empty) {
        tpl_parse_fail(p, WEFT_FORMAT, line, "expected an expression, got %s",
                       tpl_token_name(p->token.kind));
        return NULL;
    }
    return list_node(p, TPL_TUPLE_NODE, line, mark);
}

static tpl_node *parse_tuple(tpl_parser *p, bool conditional, const char *end, bool in_parens)
{
    size_t mark = p->n_pending;
    bool is_tuple = false;
    for (;;) {
        if (p->n_pending > mark && !tpl_parse_expect(p, TPL_TOK_COMMA)) return NULL;
        if (at_tuple_end(p, end)) break;
        tpl_node *item = conditional ? tpl_parse_expression(p) : tpl_parse_plain(p);
        if (!tpl_parse_push(p, item)) return NULL;
        if (p->token.kind != TPL_TOK_COMMA) break;
        is_tuple = true;
    }
    return close_tuple(p, mark, is_tuple, in_parens);
}

tpl_node *tpl_parse_tuple(tpl_parser *p, bool conditional, const char *end)
{
    return parse_tuple(p, conditional, end, false);
}

static bool assignable(const tpl_node *n, uint32_t depth)
{
    if (n->kind == TPL_NAME) return true;
    if (n->kind != TPL_TUPLE_NODE || depth > TPL_PARSE_DEPTH) return false;
    for (uint32_t i = 0; i < n->as.list.n; i++) {
        if (!assignable(n->as.list.items[i], depth + 1)) return false;
    }
    return true;
}

tpl_node *tpl_parse_target(tpl_parser *p, bool attributes, const char *end)
{
    uint32_t line = p->token.line;
    size_t mark = p->n_pending;
    bool is_tuple = false;
    for (;;) {
        if (p->n_pending > mark && !tpl_parse_expect(p, TPL_TOK_COMMA)) return NULL;
        if (at_tuple_end(p, end)) break;
        p->in_target = true;
        tpl_node *item = parse_primary(p, attributes);
        p->in_target = false;
        if (item == NULL) return NULL;
        bool ok = assignable(item, 0) || (attributes && item->kind == TPL_ATTR);
        if (!ok) {
            tpl_parse_fail(p, WEFT_FORMAT, line, "cannot assign to this expression");
            return NULL;
        }
        if (!tpl_parse_push(p, item)) return NULL;
        if (p->token.kind != TPL_TOK_COMMA) break;
        is_tuple = true;
    }
    return close_tuple(p, mark, is_tuple, false);
}

static bool parse_keyword(tpl_parser *p, size_t mark, str *names)
{
    size_t n = p->n_pending - mark;
    for (size_t i = 0; i < n; i++) {
        if (str_equal(names[i], p->token.text)) {
            return tpl_parse_fail(p, WEFT_FORMAT, p->token.line, "a keyword argument is repeated");
        }
    }
    names[n] = p->token.text;
    return tpl_parse_advance(p) && tpl_parse_expect(p, TPL_TOK_ASSIGN) &&
           tpl_parse_push(p, tpl_parse_expression(p));
}

enum { MAX_KEYWORDS = 64 };

static bool take_keywords(tpl_parser *p, tpl_call_node *args, size_t mark, const str *names)
{
    tpl_nodes values;
    if (!tpl_parse_take(p, mark, &values)) return false;
    args->keywords = tpl_parse_alloc(p, values.n, sizeof *args->keywords);
    if (args->keywords == NULL) return false;
    args->n_keywords = values.n;
    for (uint32_t i = 0; i < values.n; i++) {
        args->keywords[i] = (tpl_keyword){names[i], values.items[i]};
    }
    return true;
}

/* One argument of a call; *mark is where its keywords begin, TPL_UNCOUNTED before the first. */
static bool parse_argument(tpl_parser *p, tpl_call_node *args, size_t first, size_t *mark,
                           str *names)
{
    uint32_t line = p->token.line;
    tpl_token_kind kind = p->token.kind;
    bool is_keyword = kind == TPL_TOK_NAME && p->ahead.kind == TPL_TOK_ASSIGN;
    bool is_star = kind == TPL_TOK_MUL;
    bool in_order = args->stars == NULL &&
                    (is_keyword || kind == TPL_TOK_POW || args->star == NULL) &&
                    (is_keyword || is_star || kind == TPL_TOK_POW || *mark == TPL_UNCOUNTED);
    if (!in_order) return tpl_parse_fail(p, WEFT_FORMAT, line, "invalid order of arguments");
    if (is_star || kind == TPL_TOK_POW) {
        if (!tpl_parse_advance(p)) return false;
        tpl_node *all = tpl_parse_expression(p);
        if (is_star) {
            args->star = all;
        } else {
            args->stars = all;
        }
        return all != NULL;
    }
    if (!is_keyword) return tpl_parse_push(p, tpl_parse_expression(p));
    if (*mark == TPL_UNCOUNTED) {
        if (!tpl_parse_take(p, first, &args->positional)) return false;
        *mark = p->n_pending;
    }
    if (p->n_pending - *mark == MAX_KEYWORDS) {
        return tpl_parse_fail(p, WEFT_LIMIT, line, "a call has more than %d keyword arguments",
                              MAX_KEYWORDS);
    }
    return parse_keyword(p, *mark, names);
}

/* At '('. */
static tpl_call_node *parse_args(tpl_parser *p)
{
    tpl_call_node *args = tpl_parse_alloc(p, 1, sizeof *args);
    if (args == NULL || !tpl_parse_advance(p)) return NULL;
    str names[MAX_KEYWORDS];
    size_t first = p->n_pending, mark = TPL_UNCOUNTED;
    bool any = false;
    while (p->token.kind != TPL_TOK_RPAREN) {
        if (any && !tpl_parse_expect(p, TPL_TOK_COMMA)) return NULL;
        if (any && p->token.kind == TPL_TOK_RPAREN) break;
        any = true;
        if (!parse_argument(p, args, first, &mark, names)) return NULL;
    }
    if (!tpl_parse_advance(p)) return NULL;
    bool ok = mark == TPL_UNCOUNTED ? tpl_parse_take(p, first, &args->positional)
                                    : take_keywords(p, args, mark, names);
    return ok ? args : NULL;
}

static tpl_node *parse_call(tpl_parser *p, tpl_node *callee)
{
    tpl_node *n = tpl_parse_node(p, TPL_CALL, p->token.line);
    if (n == NULL) return NULL;
    n->as.call.callee = callee;
    n->as.call.args = parse_args(p);
    return n->as.call.args == NULL ? NULL : n;
}

/* One bound of a slice, NULL in *bound when it is left out. */
static bool parse_bound(tpl_parser *p, tpl_node **bound)
{
    *bound = NULL;
    tpl_token_kind kind = p->token.kind;
    if (kind == TPL_TOK_COLON || kind == TPL_TOK_RBRACKET || kind == TPL_TOK_COMMA) return true;
    *bound = tpl_parse_expression(p);
    return *bound != NULL;
}

/* Behind '[': a slice when a colon follows the first bound, else an index. */
static tpl_node *parse_index(tpl_parser *p, tpl_node *object, uint32_t line)
{
    tpl_node *bounds[3] = {NULL, NULL, NULL};
    if (!parse_bound(p, &bounds[0])) return NULL;
    if (p->token.kind != TPL_TOK_COLON) {
        tpl_node *index = bounds[0];
        if (index != NULL && p->token.kind == TPL_TOK_COMMA) {
            tpl_parse_fail(p, WEFT_UNSUPPORTED, line, "an index with a comma is not supported");
            return NULL;
        }
        if (index == NULL) {
            tpl_parse_fail(p, WEFT_FORMAT, line, "expected an index");
            return NULL;
        }
        tpl_node *n = three(p, TPL_ITEM, line, object);
        if (n != NULL) n->as.three.part[1] = index;
        return n;
    }
    if (!tpl_parse_advance(p) || !parse_bound(p, &bounds[1])) return NULL;
    if (p->token.kind == TPL_TOK_COLON && (!tpl_parse_advance(p) || !parse_bound(p, &bounds[2]))) {
        return NULL;
    }
    tpl_node *n = tpl_parse_node(p, TPL_SLICE, line);
    if (n == NULL) return NULL;
    n->as.slice.object = object;
    n->as.slice.bounds.n = 3;
    n->as.slice.bounds.items = tpl_parse_alloc(p, 3, sizeof(tpl_node *));
    if (n->as.slice.bounds.items == NULL) return NULL;
    memcpy(n->as.slice.bounds.items, bounds, sizeof bounds);
    return n;
}

/* At '.' or '['. */
static tpl_node *parse_subscript(tpl_parser *p, tpl_node *object)
{
    uint32_t line = p->token.line;
    bool is_dot = p->token.kind == TPL_TOK_DOT;
    if (!tpl_parse_advance(p)) return NULL;
    if (!is_dot) {
        tpl_node *n = parse_index(p, object, line);
        return n != NULL && tpl_parse_expect(p, TPL_TOK_RBRACKET) ? n : NULL;
    }
    if (p->token.kind == TPL_TOK_INT) {
        tpl_node *index = tpl_parse_literal(p);
        tpl_node *n = index == NULL ? NULL : three(p, TPL_ITEM, line, object);
        if (n != NULL) n->as.three.part[1] = index;
        return n;
    }
    str name = p->token.text;
    if (!tpl_parse_expect(p, TPL_TOK_NAME)) return NULL;
    tpl_node *n = tpl_parse_node(p, TPL_ATTR, line);
    if (n == NULL || !tpl_parse_text(p, name, &n->as.attr.name)) return NULL;
    n->as.attr.object = object;
    return n;
}

static tpl_node *parse_postfix(tpl_parser *p, tpl_node *n)
{
    while (n != NULL) {
        if (p->token.kind == TPL_TOK_DOT || p->token.kind == TPL_TOK_LBRACKET) {
            n = parse_subscript(p, n);
        } else if (p->token.kind == TPL_TOK_LPAREN) {
            n = parse_call(p, n);
        } else {
            break;
        }
    }
    return n;
}

/* "name" or "name.name", of a filter or test. */
static bool parse_dotted(tpl_parser *p, str *name)
{
    *name = p->token.text;
    if (!tpl_parse_expect(p, TPL_TOK_NAME)) return false;
    while (p->token.kind == TPL_TOK_DOT) {
        if (!tpl_parse_advance(p)) return false;
        const char *end = p->token.text.ptr + p->token.text.len;
        if (!tpl_parse_expect(p, TPL_TOK_NAME)) return false;
        name->len = (size_t)(end - name->ptr);
    }
    return true;
}

static tpl_call_node *no_args(tpl_parser *p)
{
    return tpl_parse_alloc(p, 1, sizeof(tpl_call_node));
}

tpl_node *tpl_parse_filters(tpl_parser *p, tpl_node *input, bool first_without_pipe)
{
    while (input != NULL && (first_without_pipe || p->token.kind == TPL_TOK_PIPE)) {
        if (!first_without_pipe && !tpl_parse_advance(p)) return NULL;
        first_without_pipe = false;
        uint32_t line = p->token.line;
        str name;
        if (!parse_dotted(p, &name)) return NULL;
        tpl_node *n = tpl_parse_node(p, TPL_FILTER, line);
        if (n == NULL) return NULL;
        n->as.apply.input = input;
        n->as.apply.row = tpl_filter_find(name);
        if (n->as.apply.row == NULL) {
            tpl_parse_fail(p, WEFT_UNSUPPORTED, line, "filter '%.*s' is not supported",
                           (int)(name.len < 80 ? name.len : 80), name.ptr);
            return NULL;
        }
        n->as.apply.args = p->token.kind == TPL_TOK_LPAREN ? parse_args(p) : no_args(p);
        if (n->as.apply.args == NULL) return NULL;
        input = n;
    }
    return input;
}

/* Whether a test's argument follows without parentheses. */
static bool at_bare_argument(const tpl_parser *p)
{
    switch (p->token.kind) {
    case TPL_TOK_NAME:
        return !tpl_parse_at_name(p, "else") && !tpl_parse_at_name(p, "or") &&
               !tpl_parse_at_name(p, "and");
    case TPL_TOK_STRING:
    case TPL_TOK_INT:
    case TPL_TOK_REAL:
    case TPL_TOK_LBRACKET:
    case TPL_TOK_LBRACE:
        return true;
    default:
        return false;
    }
}

static tpl_call_node *parse_bare_argument(tpl_parser *p)
{
    if (tpl_parse_at_name(p, "is")) {
        tpl_parse_fail(p, WEFT_FORMAT, p->token.line, "tests with 'is' cannot be chained");
        return NULL;
    }
    tpl_call_node *args = no_args(p);
    if (args == NULL) return NULL;
    size_t mark = p->n_pending;
    if (!tpl_parse_push(p, parse_postfix(p, parse_primary(p, false)))) return NULL;
    return tpl_parse_take(p, mark, &args->positional) ? args : NULL;
}

/* At "is". */
static tpl_node *parse_test(tpl_parser *p, tpl_node *input)
{
    if (!tpl_parse_advance(p)) return NULL;
    bool negated = tpl_parse_skip_name(p, "not");
    uint32_t line = p->token.line;
    str name;
    if (p->status != WEFT_OK || !parse_dotted(p, &name)) return NULL;
    tpl_node *n = tpl_parse_node(p, TPL_TEST, line);
    if (n == NULL) return NULL;
    n->as.apply.input = input;
    n->as.apply.row = tpl_test_find(name);
    if (n->as.apply.row == NULL) {
        tpl_parse_fail(p, WEFT_UNSUPPORTED, line, "test '%.*s' is not supported",
                       (int)(name.len < 80 ? name.len : 80), name.ptr);
        return NULL;
    }
    if (p->token.kind == TPL_TOK_LPAREN) {
        n->as.apply.args = parse_args(p);
    } else {
        n->as.apply.args = at_bare_argument(p) ? parse_bare_argument(p) : no_args(p);
    }
    if (n->as.apply.args == NULL) return NULL;
    return negated ? three(p, TPL_NOT, line, n) : n;
}

static tpl_node *parse_filter_tail(tpl_parser *p, tpl_node *n)
{
    while (n != NULL) {
        if (p->token.kind == TPL_TOK_PIPE) {
            n = tpl_parse_filters(p, n, false);
        } else if (tpl_parse_at_name(p, "is")) {
            n = parse_test(p, n);
        } else if (p->token.kind == TPL_TOK_LPAREN) {
            n = parse_call(p, n);
        } else {
            break;
        }
    }
    return n;
}

static tpl_node *parse_signed(tpl_parser *p)
{
    tpl_node_kind kind = p->token.kind == TPL_TOK_SUB ? TPL_NEG : TPL_POS;
    uint32_t line = p->token.line;
    if (!tpl_parse_enter(p) || !tpl_parse_advance(p)) return NULL;
    tpl_node *n = three(p, kind, line, parse_unary(p, false));
    tpl_parse_leave(p);
    return n;
}

static tpl_node *parse_unary(tpl_parser *p, bool with_filter)
{
    bool is_signed = p->token.kind == TPL_TOK_SUB || p->token.kind == TPL_TOK_ADD;
    tpl_node *n = parse_postfix(p, is_signed ? parse_signed(p) : parse_primary(p, false));
    return with_filter ? parse_filter_tail(p, n) : n;
}

static tpl_node *chain_node(tpl_parser *p, tpl_node_kind kind, size_t mark, const uint8_t *ops)
{
    uint32_t line = p->pending[mark]->line;
    tpl_nodes all;
    tpl_node *n = tpl_parse_node(p, kind, line);
    if (n == NULL || !tpl_parse_take(p, mark, &all)) return NULL;
    n->as.chain.first = all.items[0];
    n->as.chain.n = all.n - 1;
    n->as.chain.rest = tpl_parse_alloc(p, n->as.chain.n, sizeof(tpl_operand));
    if (n->as.chain.rest == NULL) return NULL;
    for (uint32_t i = 1; i < all.n; i++) {
        n->as.chain.rest[i - 1] = (tpl_operand){ops[i - 1], all.items[i]};
    }
    return n;
}

/* A chain is cut into nodes of at most this many operators, so that its list needs no memory of its
 * own. */
enum { CHAIN = 64 };

typedef bool (*match_op)(tpl_parser *p, uint8_t *op);

/* operand (op operand)*, from left to right. */
static tpl_node *parse_chain(tpl_parser *p, tpl_node *(*operand)(tpl_parser *p), match_op match)
{
    tpl_node *left = operand(p);
    uint8_t ops[CHAIN];
    while (left != NULL && match(p, &ops[0])) {
        size_t mark = p->n_pending, n = 1;
        if (!tpl_parse_push(p, left) || !tpl_parse_push(p, operand(p))) return NULL;
        while (n < CHAIN && match(p, &ops[n])) {
            if (!tpl_parse_push(p, operand(p))) return NULL;
            n++;
        }
        left = p->status != WEFT_OK ? NULL : chain_node(p, TPL_CHAIN, mark, ops);
    }
    return p->status == WEFT_OK ? left : NULL;
}

static bool match_token(tpl_parser *p, uint8_t *op, tpl_token_kind kind, tpl_op as)
{
    if (p->status != WEFT_OK || p->token.kind != kind) return false;
    *op = (uint8_t)as;
    return tpl_parse_advance(p);
}

static bool match_pow(tpl_parser *p, uint8_t *op)
{
    return match_token(p, op, TPL_TOK_POW, TPL_OP_POW);
}

static bool match_product(tpl_parser *p, uint8_t *op)
{
    return match_token(p, op, TPL_TOK_MUL, TPL_OP_MUL) ||
           match_token(p, op, TPL_TOK_DIV, TPL_OP_DIV) ||
           match_token(p, op, TPL_TOK_FLOORDIV, TPL_OP_FLOORDIV) ||
           match_token(p, op, TPL_TOK_MOD, TPL_OP_MOD);
}

static bool match_sum(tpl_parser *p, uint8_t *op)
{
    return match_token(p, op, TPL_TOK_ADD, TPL_OP_ADD) ||
           match_token(p, op, TPL_TOK_SUB, TPL_OP_SUB);
}

static tpl_node *parse_operand(tpl_parser *p)
{
    return parse_unary(p, true);
}

static tpl_node *parse_pow(tpl_parser *p)
{
    return parse_chain(p, parse_operand, match_pow);
}

static tpl_node *parse_product(tpl_parser *p)
{
    return parse_chain(p, parse_pow, match_product);
}

static tpl_node *parse_concat(tpl_parser *p)
{
    size_t mark = p->n_pending;
    tpl_node *first = parse_product(p);
    if (first == NULL || p->token.kind != TPL_TOK_TILDE) return first;
    if (!tpl_parse_push(p, first)) return NULL;
    while (tpl_parse_skip(p, TPL_TOK_TILDE)) {
        if (!tpl_parse_push(p, parse_product(p))) return NULL;
    }
    return p->status == WEFT_OK ? list_node(p, TPL_CONCAT, first->line, mark) : NULL;
}

static tpl_node *parse_sum(tpl_parser *p)
{
    return parse_chain(p, parse_concat, match_sum);
}

static bool match_comparison(tpl_parser *p, uint8_t *op)
{
    if (match_token(p, op, TPL_TOK_EQ, TPL_OP_EQ) || match_token(p, op, TPL_TOK_NE, TPL_OP_NE) ||
        match_token(p, op, TPL_TOK_LT, TPL_OP_LT) || match_token(p, op, TPL_TOK_LE, TPL_OP_LE) ||
        match_token(p, op, TPL_TOK_GT, TPL_OP_GT) || match_token(p, op, TPL_TOK_GE, TPL_OP_GE)) {
        return true;
    }
    if (tpl_parse_skip_name(p, "in")) {
        *op = TPL_OP_IN;
        return p->status == WEFT_OK;
    }
    bool not_in = p->status == WEFT_OK && tpl_parse_at_name(p, "not") &&
                  p->ahead.kind == TPL_TOK_NAME && str_equal_text(p->ahead.text, "in");
    *op = TPL_OP_NOT_IN;
    return not_in && tpl_parse_advance(p) && tpl_parse_skip_name(p, "in");
}

static tpl_node *parse_compare(tpl_parser *p)
{
    tpl_node *first = parse_sum(p);
    uint8_t ops[CHAIN];
    if (first == NULL || !match_comparison(p, &ops[0])) return p->status == WEFT_OK ? first : NULL;
    size_t mark = p->n_pending, n = 1;
    if (!tpl_parse_push(p, first) || !tpl_parse_push(p, parse_sum(p))) return NULL;
    while (n < CHAIN && match_comparison(p, &ops[n])) {
        if (!tpl_parse_push(p, parse_sum(p))) return NULL;
        n++;
    }
    return p->status == WEFT_OK ? chain_node(p, TPL_COMPARE, mark, ops) : NULL;
}

static tpl_node *parse_not(tpl_parser *p)
{
    uint32_t line = p->token.line;
    if (!tpl_parse_skip_name(p, "not")) return parse_compare(p);
    if (p->status != WEFT_OK || !tpl_parse_enter(p)) return NULL;
    tpl_node *n = three(p, TPL_NOT, line, parse_not(p));
    tpl_parse_leave(p);
    return n;
}

/* operand (word operand)* as one list. */
static tpl_node *parse_logic(tpl_parser *p, tpl_node *(*operand)(tpl_parser *p), const char *word,
                             tpl_node_kind kind)
{
    size_t mark = p->n_pending;
    tpl_node *first = operand(p);
    if (first == NULL || !tpl_parse_at_name(p, word)) return first;
    if (!tpl_parse_push(p, first)) return NULL;
    while (tpl_parse_skip_name(p, word)) {
        if (!tpl_parse_push(p, operand(p))) return NULL;
    }
    return p->status == WEFT_OK ? list_node(p, kind, first->line, mark) : NULL;
}

static tpl_node *parse_and(tpl_parser *p)
{
    return parse_logic(p, parse_not, "and", TPL_AND);
}

tpl_node *tpl_parse_plain(tpl_parser *p)
{
    if (!tpl_parse_enter(p)) return NULL;
    tpl_node *n = parse_logic(p, parse_and, "or", TPL_OR);
    tpl_parse_leave(p);
    return n;
}

tpl_node *tpl_parse_expression(tpl_parser *p)
{
    if (!tpl_parse_enter(p)) return NULL;
    tpl_node *n = tpl_parse_plain(p);
    while (n != NULL && tpl_parse_skip_name(p, "if")) {
        tpl_node *cond = tpl_parse_node(p, TPL_COND, n->line);
        if (cond == NULL) return NULL;
        cond->as.three.part[1] = n;
        cond->as.three.part[0] = tpl_parse_plain(p);
        if (cond->as.three.part[0] == NULL) return NULL;
        if (tpl_parse_skip_name(p, "else")) {
            cond->as.three.part[2] = tpl_parse_expression(p);
            if (cond->as.three.part[2] == NULL) return NULL;
        }
        n = p->status == WEFT_OK ? cond : NULL;
    }
    tpl_parse_leave(p);
    return p->status == WEFT_OK ? n : NULL;
}
