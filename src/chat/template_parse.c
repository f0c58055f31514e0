/* template_parse.c - parsing statements. */
#include "chat/template_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

bool tpl_parse_fail(tpl_parser *p, weft_status status, uint32_t line, const char *fmt, ...)
{
    if (p->status != WEFT_OK) return false;
    char what[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    p->status = err_set(p->err, status, "line %u: %s", line, what);
    return false;
}

bool tpl_parse_advance(tpl_parser *p)
{
    p->token = p->ahead;
    weft_status status = tpl_lexer_next(&p->lexer, &p->ahead, p->err);
    if (status == WEFT_OK) return true;
    /* What could not be read stands one token ahead; the parser stops here all the same. */
    p->status = status;
    return false;
}

bool tpl_parse_expect(tpl_parser *p, tpl_token_kind kind)
{
    if (p->status != WEFT_OK) return false;
    if (p->token.kind == kind) return tpl_parse_advance(p);
    return tpl_parse_fail(p, WEFT_FORMAT, p->token.line, "expected %s, got %s",
                          tpl_token_name(kind), tpl_token_name(p->token.kind));
}

bool tpl_parse_at_name(const tpl_parser *p, const char *name)
{
    return p->token.kind == TPL_TOK_NAME && str_equal_text(p->token.text, name);
}

bool tpl_parse_skip(tpl_parser *p, tpl_token_kind kind)
{
    return p->status == WEFT_OK && p->token.kind == kind && tpl_parse_advance(p);
}

bool tpl_parse_skip_name(tpl_parser *p, const char *name)
{
    return p->status == WEFT_OK && tpl_parse_at_name(p, name) && tpl_parse_advance(p);
}

bool tpl_parse_enter(tpl_parser *p)
{
    if (p->status != WEFT_OK) return false;
    if (p->depth == TPL_PARSE_DEPTH) {
        return tpl_parse_fail(p, WEFT_LIMIT, p->token.line, "nested deeper than %d",
                              TPL_PARSE_DEPTH);
    }
    p->depth++;
    return true;
}

void tpl_parse_leave(tpl_parser *p)
{
    p->depth--;
}

void *tpl_parse_alloc(tpl_parser *p, size_t count, size_t size)
{
    arena *memory = &p->into->memory;
    void *ptr = arena_array(memory, count, size);
    if (ptr != NULL) return ptr;
    /* The limit is far below size_t, so the product cannot have overflowed unnoticed. */
    bool over = memory->limit - memory->taken < count * size + 256;
    tpl_parse_fail(p, over ? WEFT_LIMIT : WEFT_NOMEM, p->token.line,
                   over ? "the template is too large to compile" : "out of memory");
    return NULL;
}

tpl_node *tpl_parse_node(tpl_parser *p, tpl_node_kind kind, uint32_t line)
{
    if (p->status != WEFT_OK) return NULL;
    tpl_node *n = tpl_parse_alloc(p, 1, sizeof *n);
    if (n == NULL) return NULL;
    n->kind = kind;
    n->line = line;
    return n;
}

bool tpl_parse_push(tpl_parser *p, tpl_node *node)
{
    if (node == NULL || p->status != WEFT_OK) return false;
    if (p->n_pending == p->pending_capacity) {
        size_t capacity = p->pending_capacity == 0 ? 64 : p->pending_capacity * 2;
        tpl_node **larger =
            mem_resize(p->allocator, p->pending, p->pending_capacity * sizeof(tpl_node *),
                       capacity * sizeof(tpl_node *));
        if (larger == NULL) return tpl_parse_fail(p, WEFT_NOMEM, p->token.line, "out of memory");
        p->pending = larger;
        p->pending_capacity = capacity;
    }
    p->pending[p->n_pending++] = node;
    return true;
}

bool tpl_parse_take(tpl_parser *p, size_t mark, tpl_nodes *nodes)
{
    if (p->status != WEFT_OK) return false;
    ASSERT(mark <= p->n_pending);
    size_t n = p->n_pending - mark;
    nodes->items = tpl_parse_alloc(p, n, sizeof(tpl_node *));
    if (nodes->items == NULL) return false;
    if (n != 0) memcpy(nodes->items, p->pending + mark, n * sizeof(tpl_node *));
    nodes->n = (uint32_t)n;
    p->n_pending = mark;
    return true;
}

bool tpl_parse_name_id(tpl_parser *p, str name, uint32_t *id)
{
    *id = map_get(&p->names, name);
    if (*id != MAP_NONE) return true;
    chat_template *t = p->into;
    if (t->n_names == p->names_capacity) {
        uint32_t capacity = p->names_capacity == 0 ? 32 : p->names_capacity * 2;
        str *names = tpl_parse_alloc(p, capacity, sizeof *names);
        if (names == NULL) return false;
        if (t->n_names != 0) memcpy(names, t->names, t->n_names * sizeof *names);
        t->names = names;
        p->names_capacity = capacity;
    }
    *id = t->n_names;
    weft_status status = map_put(&p->names, name, *id, NULL, p->err);
    if (status != WEFT_OK) {
        p->status = status;
        return false;
    }
    t->names[t->n_names++] = name;
    return true;
}

bool tpl_parse_text(tpl_parser *p, str bytes, tpl_value *v)
{
    tpl_text *t = tpl_parse_alloc(p, 1, sizeof *t);
    tpl_buffer *b = tpl_parse_alloc(p, 1, sizeof *b);
    if (t == NULL || b == NULL) return false;
    b->ptr = bytes.len == 0 ? "" : bytes.ptr;
    b->used = bytes.len;
    *t = (tpl_text){b, 0, bytes.len, TPL_UNCOUNTED};
    /* Counted now: rendering must not write to what several threads share. */
    tpl_text_chars(t);
    *v = tpl_text_value(t);
    return true;
}

static bool parse_nodes(tpl_parser *p, const char *const *ends, tpl_nodes *nodes);

/* Behind a block's head: its body up to one of ends, which is then the current token. */
static bool parse_body(tpl_parser *p, const char *const *ends, tpl_nodes *nodes)
{
    tpl_parse_skip(p, TPL_TOK_COLON);
    if (!tpl_parse_expect(p, TPL_TOK_BLOCK_END) || !tpl_parse_enter(p)) return false;
    if (!parse_nodes(p, ends, nodes)) return false;
    tpl_parse_leave(p);
    if (p->token.kind != TPL_TOK_EOF) return true;
    return tpl_parse_fail(p, WEFT_FORMAT, p->token.line, "the template ends before '%s'", ends[0]);
}

/* The same, and past its single end. */
static bool parse_closed(tpl_parser *p, const char *end, tpl_nodes *nodes)
{
    const char *const ends[] = {end, NULL};
    return parse_body(p, ends, nodes) && tpl_parse_advance(p);
}

static tpl_node *parse_set(tpl_parser *p)
{
    uint32_t line = p->token.line;
    tpl_node *target = tpl_parse_target(p, true, NULL);
    if (target == NULL) return NULL;
    if (tpl_parse_skip(p, TPL_TOK_ASSIGN)) {
        tpl_node *n = tpl_parse_node(p, TPL_SET, line);
        if (n == NULL) return NULL;
        n->as.three.part[0] = target;
        n->as.three.part[1] = tpl_parse_tuple(p, true, NULL);
        return n->as.three.part[1] == NULL ? NULL : n;
    }
    tpl_node *n = tpl_parse_node(p, TPL_SET_BLOCK, line);
    if (n == NULL) return NULL;
    n->as.block.target = target;
    n->as.block.filter = tpl_parse_filters(p, tpl_parse_node(p, TPL_INPUT, line), false);
    if (n->as.block.filter == NULL) return NULL;
    return parse_closed(p, "endset", &n->as.block.body) ? n : NULL;
}

static tpl_node *parse_for(tpl_parser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    uint32_t n_stores = p->n_loop_stores;
    tpl_node *n = tpl_parse_node(p, TPL_FOR, p->token.line);
    tpl_for_node *loop = tpl_parse_alloc(p, 1, sizeof *loop);
    if (n == NULL || loop == NULL) return NULL;
    n->as.loop = loop;
    loop->target = tpl_parse_target(p, false, "in");
    if (loop->target == NULL) return NULL;
    if (!tpl_parse_skip_name(p, "in")) {
        tpl_parse_fail(p, WEFT_FORMAT, p->token.line, "expected 'in'");
        return NULL;
    }
    loop->source = tpl_parse_tuple(p, false, "recursive");
    if (loop->source == NULL) return NULL;
    if (tpl_parse_skip_name(p, "if")) {
        loop->filter = tpl_parse_expression(p);
        if (loop->filter == NULL) return NULL;
    }
    loop->recursive = tpl_parse_skip_name(p, "recursive");
    p->n_loops++;
    if (!parse_body(p, ends, &loop->body)) return NULL;
    p->n_loops--;
    bool has_else = tpl_parse_at_name(p, "else");
    if (!tpl_parse_advance(p)) return NULL;
    /* The else of a recursive loop is run by calls, from which no loop outside can be left. */
    uint32_t n_loops = p->n_loops;
    if (loop->recursive) p->n_loops = 0;
    if (has_else && !parse_closed(p, "endfor", &loop->otherwise)) return NULL;
    p->n_loops = n_loops;
    if (p->n_loop_stores == n_stores) return n;
    tpl_parse_fail(p, WEFT_FORMAT, n->line, "cannot assign to 'loop' inside a loop");
    return NULL;
}

/* One "test, body" behind "if" or "elif", pushed as two parts of a node. */
static bool parse_branch(tpl_parser *p, tpl_branch *branch)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    branch->test = tpl_parse_tuple(p, false, NULL);
    return branch->test != NULL && parse_body(p, ends, &branch->body);
}

static bool add_branch(tpl_parser *p, tpl_node *n, uint32_t *capacity)
{
    if (n->as.branches.n == *capacity) {
        uint32_t larger = *capacity == 0 ? 2 : *capacity * 2;
        tpl_branch *items = tpl_parse_alloc(p, larger, sizeof *items);
        if (items == NULL) return false;
        if (*capacity != 0) memcpy(items, n->as.branches.items, *capacity * sizeof *items);
        n->as.branches.items = items;
        *capacity = larger;
    }
    return parse_branch(p, &n->as.branches.items[n->as.branches.n++]);
}

static tpl_node *parse_if(tpl_parser *p)
{
    tpl_node *n = tpl_parse_node(p, TPL_IF, p->token.line);
    uint32_t capacity = 0;
    if (n == NULL || !add_branch(p, n, &capacity)) return NULL;
    while (tpl_parse_skip_name(p, "elif")) {
        if (!add_branch(p, n, &capacity)) return NULL;
    }
    if (tpl_parse_skip_name(p, "else")) {
        return parse_closed(p, "endif", &n->as.branches.otherwise) ? n : NULL;
    }
    return p->status == WEFT_OK && tpl_parse_advance(p) ? n : NULL;
}

enum { MAX_PARAMS = 64 };

/* "(a, b=1)"; at '('. */
static bool parse_signature(tpl_parser *p, tpl_macro_node *m)
{
    if (!tpl_parse_expect(p, TPL_TOK_LPAREN)) return false;
    m->params = tpl_parse_alloc(p, MAX_PARAMS, sizeof *m->params);
    m->ids = tpl_parse_alloc(p, MAX_PARAMS, sizeof *m->ids);
    m->defaults = tpl_parse_alloc(p, MAX_PARAMS, sizeof(tpl_node *));
    if (m->params == NULL || m->ids == NULL || m->defaults == NULL) return false;
    while (p->token.kind != TPL_TOK_RPAREN) {
        uint32_t i = m->n_params;
        if (i != 0 && !tpl_parse_expect(p, TPL_TOK_COMMA)) return false;
        if (i == MAX_PARAMS) {
            return tpl_parse_fail(p, WEFT_LIMIT, p->token.line,
                                  "a macro has more than %d parameters", MAX_PARAMS);
        }
        m->params[i] = p->token.text;
        if (!tpl_parse_expect(p, TPL_TOK_NAME)) return false;
        if (!tpl_parse_name_id(p, m->params[i], &m->ids[i])) return false;
        m->n_params++;
        if (tpl_parse_skip(p, TPL_TOK_ASSIGN)) {
            m->defaults[i] = tpl_parse_expression(p);
            if (m->defaults[i] == NULL) return false;
        } else if (i != 0 && m->defaults[i - 1] != NULL) {
            return tpl_parse_fail(p, WEFT_FORMAT, p->token.line,
                                  "a parameter without a default follows one that has one");
        }
    }
    return tpl_parse_advance(p);
}

/* The body of a macro or call block; what it says of caller, kwargs and varargs is its own business
 * and, as Jinja sees it, also that of a macro around it. */
static bool parse_macro_body(tpl_parser *p, tpl_macro_node *m, const char *end)
{
    unsigned special = p->special, hidden = p->hidden;
    uint32_t n_loops = p->n_loops;
    p->special = p->hidden = 0;
    p->n_loops = 0;
    if (!parse_closed(p, end, &m->body)) return false;
    m->uses_caller = (p->special & TPL_CALLER) != 0;
    m->uses_kwargs = (p->special & TPL_KWARGS) != 0;
    m->uses_varargs = (p->special & TPL_VARARGS) != 0;
    p->special = special | (p->special & ~hidden);
    p->hidden = hidden | (p->hidden & ~special);
    p->n_loops = n_loops;
    return tpl_parse_name_id(p, str_of("caller"), &m->caller_id) &&
           tpl_parse_name_id(p, str_of("kwargs"), &m->kwargs_id) &&
           tpl_parse_name_id(p, str_of("varargs"), &m->varargs_id);
}

static tpl_node *parse_macro(tpl_parser *p)
{
    tpl_node *n = tpl_parse_node(p, TPL_MACRO_NODE, p->token.line);
    tpl_macro_node *m = tpl_parse_alloc(p, 1, sizeof *m);
    if (n == NULL || m == NULL) return NULL;
    n->as.macro = m;
    m->name = p->token.text;
    if (!tpl_parse_expect(p, TPL_TOK_NAME) || !tpl_parse_name_id(p, m->name, &m->id)) return NULL;
    return parse_signature(p, m) && parse_macro_body(p, m, "endmacro") ? n : NULL;
}

static tpl_node *parse_call_block(tpl_parser *p)
{
    uint32_t line = p->token.line;
    tpl_node *n = tpl_parse_node(p, TPL_CALL_BLOCK, line);
    tpl_macro_node *m = tpl_parse_alloc(p, 1, sizeof *m);
    if (n == NULL || m == NULL) return NULL;
    n->as.macro = m;
    m->name = str_of("caller");
    if (p->token.kind == TPL_TOK_LPAREN && !parse_signature(p, m)) return NULL;
    m->call = tpl_parse_expression(p);
    if (m->call == NULL) return NULL;
    if (m->call->kind != TPL_CALL) {
        tpl_parse_fail(p, WEFT_FORMAT, line, "a call block needs a call");
        return NULL;
    }
    return parse_macro_body(p, m, "endcall") ? n : NULL;
}

static tpl_node *parse_filter_block(tpl_parser *p)
{
    tpl_node *n = tpl_parse_node(p, TPL_FILTER_BLOCK, p->token.line);
    if (n == NULL) return NULL;
    n->as.block.filter = tpl_parse_filters(p, tpl_parse_node(p, TPL_INPUT, n->line), true);
    if (n->as.block.filter == NULL) return NULL;
    return parse_closed(p, "endfilter", &n->as.block.body) ? n : NULL;
}

static tpl_node *parse_with(tpl_parser *p)
{
    tpl_node *n = tpl_parse_node(p, TPL_WITH, p->token.line);
    if (n == NULL) return NULL;
    size_t mark = p->n_pending;
    uint32_t n_stores = p->n_loop_stores;
    while (p->token.kind != TPL_TOK_BLOCK_END) {
        if (p->n_pending > mark && !tpl_parse_expect(p, TPL_TOK_COMMA)) return NULL;
        tpl_node *pair = tpl_parse_node(p, TPL_SET, p->token.line);
        if (pair == NULL) return NULL;
        pair->as.three.part[0] = tpl_parse_target(p, false, NULL);
        if (pair->as.three.part[0] == NULL || !tpl_parse_expect(p, TPL_TOK_ASSIGN)) return NULL;
        pair->as.three.part[1] = tpl_parse_expression(p);
        if (pair->as.three.part[1] == NULL || !tpl_parse_push(p, pair)) return NULL;
    }
    p->n_loop_stores = n_stores; /* these are parameters, as Jinja sees it */
    if (!tpl_parse_take(p, mark, &n->as.with.pairs)) return NULL;
    return parse_closed(p, "endwith", &n->as.with.body) ? n : NULL;
}

static tpl_node *parse_generation(tpl_parser *p)
{
    tpl_node *n = tpl_parse_node(p, TPL_SCOPE, p->token.line);
    if (n == NULL) return NULL;
    uint32_t n_loops = p->n_loops;
    p->n_loops = 0;
    if (!parse_closed(p, "endgeneration", &n->as.block.body)) return NULL;
    p->n_loops = n_loops;
    return n;
}

static tpl_node *parse_jump(tpl_parser *p, tpl_node_kind kind, const char *what)
{
    if (p->n_loops == 0) {
        tpl_parse_fail(p, WEFT_FORMAT, p->token.line, "'%s' outside a loop", what);
        return NULL;
    }
    return tpl_parse_node(p, kind, p->token.line);
}

static tpl_node *parse_break(tpl_parser *p)
{
    return parse_jump(p, TPL_BREAK, "break");
}

static tpl_node *parse_continue(tpl_parser *p)
{
    return parse_jump(p, TPL_CONTINUE, "continue");
}

/* "print a, b" puts out one after the other. */
static tpl_node *parse_print(tpl_parser *p)
{
    uint32_t line = p->token.line;
    size_t mark = p->n_pending;
    while (p->token.kind != TPL_TOK_BLOCK_END) {
        if (p->n_pending > mark && !tpl_parse_expect(p, TPL_TOK_COMMA)) return NULL;
        if (!tpl_parse_push(p, tpl_parse_expression(p))) return NULL;
    }
    tpl_node *n = tpl_parse_node(p, TPL_OUTPUT, line);
    tpl_node *all = tpl_parse_node(p, TPL_CONCAT, line);
    if (n == NULL || all == NULL || !tpl_parse_take(p, mark, &all->as.list)) return NULL;
    n->as.three.part[0] = all;
    return n;
}

/* parse is called behind the tag's name and ends before '%}'. */
static const struct {
    const char *name;
    tpl_node *(*parse)(tpl_parser *p);
} TAGS[] = {
    {"break", parse_break},
    {"call", parse_call_block},
    {"continue", parse_continue},
    {"filter", parse_filter_block},
    {"for", parse_for},
    {"generation", parse_generation},
    {"if", parse_if},
    {"macro", parse_macro},
    {"print", parse_print},
    {"set", parse_set},
    {"with", parse_with},
};

static bool is_end_word(str name)
{
    return str_starts(name, "end") || str_equal_text(name, "else") || str_equal_text(name, "elif");
}

/* Behind '{%'. */
static tpl_node *parse_statement(tpl_parser *p)
{
    str name = p->token.text;
    uint32_t line = p->token.line;
    if (!tpl_parse_expect(p, TPL_TOK_NAME)) return NULL;
    for (size_t i = 0; i < COUNT_OF(TAGS); i++) {
        if (!str_equal_text(name, TAGS[i].name)) continue;
        if (!tpl_parse_enter(p)) return NULL;
        tpl_node *n = TAGS[i].parse(p);
        tpl_parse_leave(p);
        return n != NULL && tpl_parse_expect(p, TPL_TOK_BLOCK_END) ? n : NULL;
    }
    bool stray = is_end_word(name);
    tpl_parse_fail(p, stray ? WEFT_FORMAT : WEFT_UNSUPPORTED, line,
                   stray ? "unexpected tag '%.*s'" : "tag '%.*s' is not supported",
                   (int)(name.len < 80 ? name.len : 80), name.ptr);
    return NULL;
}

static tpl_node *parse_data(tpl_parser *p)
{
    tpl_node *n = tpl_parse_node(p, TPL_DATA, p->token.line);
    if (n == NULL || !tpl_parse_text(p, p->token.text, &n->as.constant)) return NULL;
    return tpl_parse_advance(p) ? n : NULL;
}

static tpl_node *parse_output(tpl_parser *p)
{
    tpl_node *n = tpl_parse_node(p, TPL_OUTPUT, p->token.line);
    if (n == NULL || !tpl_parse_advance(p)) return NULL;
    n->as.three.part[0] = tpl_parse_tuple(p, true, NULL);
    bool ok = n->as.three.part[0] != NULL && tpl_parse_expect(p, TPL_TOK_OUTPUT_END);
    return ok ? n : NULL;
}

static bool at_end(const tpl_parser *p, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++) {
        if (tpl_parse_at_name(p, *ends)) return true;
    }
    return false;
}

static bool parse_nodes(tpl_parser *p, const char *const *ends, tpl_nodes *nodes)
{
    size_t mark = p->n_pending;
    while (p->token.kind != TPL_TOK_EOF) {
        tpl_node *n;
        if (p->token.kind == TPL_TOK_DATA) {
            n = parse_data(p);
        } else if (p->token.kind == TPL_TOK_OUTPUT_BEGIN) {
            n = parse_output(p);
        } else {
            if (!tpl_parse_expect(p, TPL_TOK_BLOCK_BEGIN)) return false;
            if (at_end(p, ends)) break;
            n = parse_statement(p);
        }
        if (!tpl_parse_push(p, n)) return false;
    }
    return tpl_parse_take(p, mark, nodes);
}

bool tpl_parse_template(tpl_parser *p)
{
    weft_status status = tpl_lexer_next(&p->lexer, &p->ahead, p->err);
    if (status != WEFT_OK) {
        p->status = status;
        return false;
    }
    return tpl_parse_advance(p) && parse_nodes(p, NULL, &p->into->body);
}
