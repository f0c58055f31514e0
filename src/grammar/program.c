/* program.c - building a network from its end, and what is settled once it stands. */
#include "grammar/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

void program_init(program *p, arena *memory, weft_error *err)
{
    *p = (program){.memory = memory, .err = err};
    static const program_node FIXED[NODE_FIRST] = {{.kind = NODE_KIND_FAIL},
                                                   {.kind = NODE_KIND_RETURN},
                                                   {.kind = NODE_KIND_AGAIN},
                                                   {.kind = NODE_KIND_END}};
    p->nodes = program_alloc(p, 64, sizeof *p->nodes);
    if (p->nodes == NULL) return;
    p->node_room = 64;
    memcpy(p->nodes, FIXED, sizeof FIXED);
    p->n_nodes = NODE_FIRST;
}

void program_fail(program *p, weft_status status, const char *fmt, ...)
{
    if (p->status != WEFT_OK) return;
    char text[240];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    p->status = err_set(p->err, status, "%s", text);
}

void *program_alloc(program *p, size_t count, size_t size)
{
    if (p->status != WEFT_OK) return NULL;
    void *memory = arena_array(p->memory, count, size);
    if (memory != NULL) return memory;
    /* The arena does not say which of the two it was. */
    bool over = size != 0 && count > (p->memory->limit - p->memory->taken) / size;
    if (over) {
        program_fail(p, WEFT_LIMIT, "the grammar takes more than %zu bytes", p->memory->limit);
    } else {
        program_fail(p, WEFT_NOMEM, "out of memory compiling a grammar of %u rules", p->n_rules);
    }
    return NULL;
}

/* Room for one more behind the n elements of *array. */
static bool room(program *p, void **array, uint32_t *capacity, uint32_t n, size_t size)
{
    if (n < *capacity) return true;
    uint32_t grown = *capacity == 0 ? 16 : *capacity * 2;
    void *moved = program_alloc(p, grown, size);
    if (moved == NULL) return false;
    if (n != 0) memcpy(moved, *array, n * size);
    *array = moved;
    *capacity = grown;
    return true;
}

static bool within(program *p, uint32_t n, uint32_t limit, const char *what)
{
    if (n < limit) return true;
    program_fail(p, WEFT_LIMIT, "the grammar has more than %u %s", limit, what);
    return false;
}

#define ROOM(p, array, capacity, n)                                                                \
    room((p), (void **)&(p)->array, &(p)->capacity, (p)->n, sizeof *(p)->array)

uint32_t program_set(program *p, const byte_set *set)
{
    uint32_t first = p->n_sets > 256 ? p->n_sets - 256 : 0;
    for (uint32_t i = p->n_sets; i > first; i--)
        if (memcmp(&p->sets[i - 1], set, sizeof *set) == 0) return i - 1;
    if (!within(p, p->n_sets, PROGRAM_SETS, "sets of bytes") || !ROOM(p, sets, set_room, n_sets))
        return 0;
    p->sets[p->n_sets] = *set;
    return p->n_sets++;
}

uint32_t program_rule(program *p, const char *name)
{
    if (!within(p, p->n_rules, PROGRAM_RULES, "rules") || !ROOM(p, rules, rule_room, n_rules))
        return 0;
    p->rules[p->n_rules] = (rule){NODE_FAIL, false, name};
    return p->n_rules++;
}

static uint32_t add(program *p, node_kind kind, uint32_t arg, uint32_t next)
{
    if (p->status != WEFT_OK || !within(p, p->n_nodes, PROGRAM_NODES, "nodes") ||
        !ROOM(p, nodes, node_room, n_nodes))
        return NODE_FAIL;
    p->nodes[p->n_nodes] = (program_node){kind, next, arg, 0};
    return p->n_nodes++;
}

uint32_t node_split(program *p, uint32_t a, uint32_t b)
{
    if (a == NODE_FAIL || a == b) return b;
    if (b == NODE_FAIL) return a;
    return add(p, NODE_KIND_SPLIT, b, a);
}

uint32_t node_bytes(program *p, const byte_set *set, uint32_t next)
{
    if (next == NODE_FAIL) return NODE_FAIL;
    return add(p, NODE_KIND_BYTES, program_set(p, set), next);
}

uint32_t node_range(program *p, unsigned char first, unsigned char last, uint32_t next)
{
    byte_set set = {{0}};
    byte_set_add(&set, first, last);
    return node_bytes(p, &set, next);
}

uint32_t node_text(program *p, str text, uint32_t next)
{
    for (size_t i = text.len; i > 0; i--) {
        unsigned char byte = (unsigned char)text.ptr[i - 1];
        next = node_range(p, byte, byte, next);
    }
    return next;
}

uint32_t node_lexeme(program *p, const lexeme *lex, uint32_t next)
{
    if (lex == NULL || next == NODE_FAIL) return NODE_FAIL;
    uint32_t at = p->n_lexemes;
    while (at > 0 && p->lexemes[at - 1] != lex) at--;
    if (at == 0) {
        if (!within(p, p->n_lexemes, PROGRAM_LEXEMES, "lexemes") ||
            !room(p, (void **)&p->lexemes, &p->lexeme_room, p->n_lexemes, sizeof(lexeme *)))
            return NODE_FAIL;
        p->lexemes[p->n_lexemes] = lex;
        at = ++p->n_lexemes;
    }
    return add(p, NODE_KIND_LEXEME, at - 1, next);
}

uint32_t node_token(program *p, named_token token, uint32_t next)
{
    if (next == NODE_FAIL) return NODE_FAIL;
    uint32_t at = 0;
    while (at < p->n_tokens && p->tokens[at].id != token.id) at++;
    if (at == p->n_tokens) {
        if (!within(p, p->n_tokens, PROGRAM_TOKENS, "named tokens") ||
            !ROOM(p, tokens, token_room, n_tokens))
            return NODE_FAIL;
        p->tokens[p->n_tokens++] = token;
    }
    return add(p, NODE_KIND_TOKEN, at, next);
}

uint32_t node_call(program *p, uint32_t rule_i, uint32_t next)
{
    if (next == NODE_FAIL) return NODE_FAIL;
    return add(p, NODE_KIND_CALL, rule_i, next);
}

uint32_t node_star(program *p, uint32_t next)
{
    return add(p, NODE_KIND_SPLIT, NODE_FAIL, next);
}

void star_set_body(program *p, uint32_t at, uint32_t body)
{
    if (p->status == WEFT_OK) p->nodes[at].arg = body;
}

uint32_t node_loop(program *p, uint32_t min, uint32_t max, uint32_t next)
{
    if (!within(p, p->n_loops, PROGRAM_LOOPS, "counted repeats") ||
        !ROOM(p, loops, loop_room, n_loops))
        return NODE_FAIL;
    p->loops[p->n_loops++] = (loop){NODE_FAIL, min, max, false};
    return add(p, NODE_KIND_LOOP, p->n_loops - 1, next);
}

void loop_set_body(program *p, uint32_t at, uint32_t body)
{
    if (p->status == WEFT_OK) p->loops[p->nodes[at].arg].body = body;
}

void byte_set_add(byte_set *set, unsigned char first, unsigned char last)
{
    for (uint32_t b = first; b <= last; b++) set->bits[b >> 6] |= (uint64_t)1 << (b & 63);
}

/* ---- classes of bytes ---- */

/* Splits classes so that bytes with different keys are apart. */
static void refine(program *p, const unsigned char key[256])
{
    unsigned char class_of[256];
    uint32_t old_class[256], old_key[256], n = 0;
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = 0;
        while (c < n && (old_class[c] != p->class_of[b] || old_key[c] != key[b])) c++;
        if (c == n) {
            old_class[n] = p->class_of[b];
            old_key[n] = key[b];
            n++;
        }
        class_of[b] = (unsigned char)c;
    }
    memcpy(p->class_of, class_of, sizeof class_of);
    p->n_classes = n;
}

static void settle_classes(program *p)
{
    memset(p->class_of, 0, sizeof p->class_of);
    p->n_classes = 1;
    for (uint32_t i = 0; i < p->n_sets && p->n_classes < 256; i++) {
        unsigned char key[256];
        for (uint32_t b = 0; b < 256; b++) key[b] = byte_set_has(&p->sets[i], (unsigned char)b);
        refine(p, key);
    }
    for (uint32_t i = 0; i < p->n_lexemes && p->n_classes < 256; i++)
        refine(p, p->lexemes[i]->automaton->class_of);
    memset(p->class_bytes, 0, sizeof p->class_bytes);
    for (uint32_t b = 256; b > 0; b--) {
        p->byte_of[p->class_of[b - 1]] = (unsigned char)(b - 1);
        p->class_bytes[p->class_of[b - 1]]++;
    }
}

/* ---- what nodes need ---- */

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t one_more(uint32_t need)
{
    return need == PROGRAM_ENDLESS ? need : need + 1;
}

static uint32_t loop_need(const program *p, const loop *l, uint32_t next)
{
    if (l->min == 0) return next;
    return larger(one_more(p->nodes[l->body].need), next);
}

static uint32_t node_need(const program *p, const program_node *n)
{
    uint32_t next = p->nodes[n->next].need;
    switch ((node_kind)n->kind) {
    case NODE_KIND_FAIL:
        return PROGRAM_ENDLESS;
    case NODE_KIND_RETURN:
    case NODE_KIND_AGAIN:
    case NODE_KIND_END:
        return 0;
    case NODE_KIND_SPLIT:
        return next < p->nodes[n->arg].need ? next : p->nodes[n->arg].need;
    case NODE_KIND_BYTES:
    case NODE_KIND_LEXEME:
    case NODE_KIND_TOKEN:
        return next;
    case NODE_KIND_CALL:
        return larger(one_more(p->nodes[p->rules[n->arg].start].need), next);
    case NODE_KIND_LOOP:
        return loop_need(p, &p->loops[n->arg], next);
    }
    return PROGRAM_ENDLESS;
}

/* Needs only fall from PROGRAM_ENDLESS on; a node's successors mostly stand before it. */
static void settle_needs(program *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) p->nodes[i].need = PROGRAM_ENDLESS;
    bool changed = true;
    for (uint32_t sweep = 0; changed; sweep++) {
        if (!within(p, sweep, PROGRAM_SWEEPS, "rules that wait for each other")) return;
        changed = false;
        for (uint32_t k = 0; k < p->n_nodes; k++) {
            program_node *n = &p->nodes[sweep % 2 == 0 ? k : p->n_nodes - 1 - k];
            uint32_t need = node_need(p, n);
            if (need == n->need) continue;
            n->need = need;
            changed = true;
        }
    }
}

/* ---- what may be empty, and rules that begin with themselves ---- */

/* A walk over what can be reached from a node without a byte. */
typedef struct edge_walk {
    program *p;
    uint32_t *seen;  /* [n_nodes] the walk that saw it */
    uint32_t *stack; /* [n_nodes] */
    uint32_t depth, walk, steps;
} edge_walk;

static void meet(edge_walk *w, uint32_t at)
{
    if (w->seen[at] == w->walk) return;
    w->seen[at] = w->walk;
    w->stack[w->depth++] = at;
}

static bool may_be_empty(const program *p, const lexeme *lex)
{
    return (lex->automaton->flag[1] & DFA_ACCEPT) != 0 && lex->min == 0 && p->status == WEFT_OK;
}

/* Where a node leads without a byte; calls are entered only if nothing else is done with them. */
static void meet_next(edge_walk *w, const program_node *n)
{
    const program *p = w->p;
    switch ((node_kind)n->kind) {
    case NODE_KIND_SPLIT:
        meet(w, n->next);
        meet(w, n->arg);
        break;
    case NODE_KIND_LEXEME:
        if (may_be_empty(p, p->lexemes[n->arg])) meet(w, n->next);
        break;
    case NODE_KIND_CALL:
        if (p->rules[n->arg].nullable) meet(w, n->next);
        break;
    case NODE_KIND_LOOP:
        if (p->loops[n->arg].min == 0 || p->loops[n->arg].nullable) meet(w, n->next);
        break;
    default:
        break;
    }
}

/* Whether the end of start's rule or body can be reached without a byte. */
static bool walk_is_empty(edge_walk *w, uint32_t start)
{
    w->walk++;
    w->depth = 0;
    meet(w, start);
    bool empty = false;
    while (w->depth > 0 && !empty) {
        uint32_t at = w->stack[--w->depth];
        empty = at == NODE_RETURN || at == NODE_AGAIN || at == NODE_END;
        meet_next(w, &w->p->nodes[at]);
        w->steps++;
    }
    return empty;
}

static void settle_nullable(program *p, edge_walk *w)
{
    bool changed = true;
    while (changed && within(p, w->steps, PROGRAM_STEPS, "ways to begin a rule")) {
        changed = false;
        for (uint32_t i = 0; i < p->n_rules; i++) {
            if (p->rules[i].nullable || !walk_is_empty(w, p->rules[i].start)) continue;
            p->rules[i].nullable = changed = true;
        }
        for (uint32_t i = 0; i < p->n_loops; i++) {
            if (p->loops[i].nullable || !walk_is_empty(w, p->loops[i].body)) continue;
            p->loops[i].nullable = changed = true;
            p->loops[i].min = 0;
        }
    }
}

/* An edge a -> b: rule b may stand at the very beginning of rule a. A call's node belongs to one
 * rule, so there are no more edges than calls. */
typedef struct left_edges {
    uint32_t *first; /* [n_rules + 1] into to */
    uint32_t *to;
    uint32_t n;
} left_edges;

static void collect_edges(program *p, edge_walk *w, left_edges *e)
{
    for (uint32_t i = 0; i < p->n_rules; i++) {
        e->first[i] = e->n;
        w->walk++;
        w->depth = 0;
        meet(w, p->rules[i].start);
        while (w->depth > 0) {
            const program_node *n = &p->nodes[w->stack[--w->depth]];
            meet_next(w, n);
            if (n->kind == NODE_KIND_LOOP) meet(w, p->loops[n->arg].body);
            if (n->kind != NODE_KIND_CALL) continue;
            e->to[e->n++] = n->arg;
        }
    }
    e->first[p->n_rules] = e->n;
}

/* Depth first; a rule that is met again while it is open begins with itself. */
static void find_left_recursion(program *p, const left_edges *e, unsigned char *color,
                                uint32_t *path, uint32_t *at)
{
    for (uint32_t root = 0; root < p->n_rules; root++) {
        if (color[root] != 0) continue;
        uint32_t depth = 1;
        path[0] = root;
        at[0] = e->first[root];
        color[root] = 1;
        while (depth > 0) {
            uint32_t i = path[depth - 1];
            if (at[depth - 1] == e->first[i + 1]) {
                color[i] = 2;
                depth--;
                continue;
            }
            uint32_t to = e->to[at[depth - 1]++];
            if (color[to] == 1) {
                program_fail(p, WEFT_UNSUPPORTED, "%s begins with itself (left recursion)",
                             p->rules[to].name == NULL ? "a rule" : p->rules[to].name);
                return;
            }
            if (color[to] == 2) continue;
            color[to] = 1;
            path[depth] = to;
            at[depth++] = e->first[to];
        }
    }
}

static void settle_edges(program *p)
{
    edge_walk w = {.p = p};
    w.seen = program_alloc(p, p->n_nodes, sizeof *w.seen);
    w.stack = program_alloc(p, p->n_nodes, sizeof *w.stack);
    if (p->status != WEFT_OK) return;
    settle_nullable(p, &w);
    left_edges e = {.n = 0};
    uint32_t n_calls = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) n_calls += p->nodes[i].kind == NODE_KIND_CALL;
    e.first = program_alloc(p, (size_t)p->n_rules + 1, sizeof *e.first);
    e.to = program_alloc(p, (size_t)n_calls + 1, sizeof *e.to);
    unsigned char *color = program_alloc(p, p->n_rules, 1);
    uint32_t *path = program_alloc(p, p->n_rules, sizeof *path);
    uint32_t *at = program_alloc(p, p->n_rules, sizeof *at);
    if (p->status != WEFT_OK) return;
    collect_edges(p, &w, &e);
    if (p->status == WEFT_OK) find_left_recursion(p, &e, color, path, at);
}

void program_finish(program *p)
{
    if (p->status != WEFT_OK) return;
    ASSERT(p->n_rules > 0);
    settle_edges(p);
    if (p->status != WEFT_OK) return;
    settle_needs(p);
    settle_classes(p);
    if (p->status == WEFT_OK && p->nodes[p->rules[0].start].need == PROGRAM_ENDLESS)
        program_fail(p, WEFT_ARGUMENT, "no finite text satisfies the grammar");
}
