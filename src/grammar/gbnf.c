/* gbnf.c - grammars of rules in the notation that llama.cpp's users know:
 *     root ::= "yes" | "no" (" " reason)?
 *     reason ::= [^\n]{1,80} <|call|>   # a comment
 * A rule ends at the end of its line, unless that is within parentheses or behind a '|'. */
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/utf8.h"
#include "grammar/named.h"
#include "grammar/regex_class.h"
#include "grammar/sources.h"

enum { GBNF_REPEATS = 8 /* of one part, as in a?* */ };

typedef struct gbnf {
    regex_reader r; /* text and place, as patterns have them */
    const grammar_vocab *vocab;
    map names;      /* of rules */
    regex **bodies; /* [PROGRAM_RULES], NULL until the rule is met */
    size_t *first;  /* [PROGRAM_RULES] where it was named first */
} gbnf;

static bool fails(gbnf *g, const char *what)
{
    if (g->r.p->status == WEFT_OK)
        program_fail(g->r.p, WEFT_FORMAT, "%s at byte %zu of the grammar", what, g->r.at);
    return false;
}

static bool next_is(const gbnf *g, char c)
{
    return regex_next_is(&g->r, c);
}

static void skip_space(gbnf *g, bool lines)
{
    regex_reader *r = &g->r;
    while (r->at < r->text.len) {
        char c = r->text.ptr[r->at];
        if (c == '#') {
            while (r->at < r->text.len && r->text.ptr[r->at] != '\n') r->at++;
        } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
            r->at++;
        } else {
            return;
        }
    }
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* The number of the rule whose name stands next. */
static uint32_t read_name(gbnf *g)
{
    regex_reader *r = &g->r;
    size_t first = r->at;
    while (r->at < r->text.len && is_name(r->text.ptr[r->at])) r->at++;
    str name = {r->text.ptr + first, r->at - first};
    if (name.len == 0) {
        fails(g, "no name of a rule");
        return 0;
    }
    uint32_t rule_i = map_get(&g->names, name);
    if (rule_i != MAP_NONE) return rule_i;
    char *copy = program_alloc(r->p, name.len + 8, 1);
    if (copy == NULL) return 0;
    snprintf(copy, name.len + 8, "rule '%.*s'", (int)name.len, name.ptr);
    rule_i = program_rule(r->p, copy);
    if (r->p->status != WEFT_OK) return 0;
    g->first[rule_i] = first;
    weft_status status = map_put(&g->names, name, rule_i, NULL, r->p->err);
    if (status != WEFT_OK) r->p->status = status;
    return rule_i;
}

/* ---- what a rule is made of ---- */

static regex *read_alternatives(gbnf *g, bool nested);

static bool hex_escape(gbnf *g, uint32_t n, uint32_t *c)
{
    *c = 0;
    for (uint32_t i = 0; i < n; i++) {
        static const char DIGITS[] = "0123456789abcdef0123456789ABCDEF";
        regex_reader *r = &g->r;
        const char *digit = NULL;
        if (r->at < r->text.len && r->text.ptr[r->at] != '\0')
            digit = strchr(DIGITS, r->text.ptr[r->at]);
        if (digit == NULL) return fails(g, "no hexadecimal digits");
        *c = *c * 16 + ((uint32_t)(digit - DIGITS) & 15);
        r->at++;
    }
    if (*c > CHARS_LAST || (*c >= 0xd800 && *c <= 0xdfff)) return fails(g, "no character");
    return true;
}

/* One character of a literal or class, escapes resolved. */
static bool read_char(gbnf *g, uint32_t *c)
{
    regex_reader *r = &g->r;
    if (r->at >= r->text.len) return fails(g, "the end within a literal or class");
    *c = regex_take(r);
    if (*c == '\n') return fails(g, "a line's end within a literal or class");
    if (*c != '\\') return true;
    if (r->at >= r->text.len) return fails(g, "a backslash that escapes nothing");
    *c = regex_take(r);
    switch (*c) {
    case 'n':
        *c = '\n';
        return true;
    case 'r':
        *c = '\r';
        return true;
    case 't':
        *c = '\t';
        return true;
    case 'x':
        return hex_escape(g, 2, c);
    case 'u':
        return hex_escape(g, 4, c);
    case 'U':
        return hex_escape(g, 8, c);
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
        return true;
    default:
        return fails(g, "an unknown escape");
    }
}

static regex *read_literal(gbnf *g)
{
    regex *whole = regex_make(g->r.p, REGEX_SEQUENCE);
    uint32_t c;
    while (g->r.p->status == WEFT_OK && !next_is(g, '"') && read_char(g, &c)) {
        regex *one = regex_make(g->r.p, REGEX_SET);
        if (one != NULL) chars_add(g->r.p, &one->set, c, c);
        regex_append(whole, one);
    }
    g->r.at++;
    return whole;
}

static regex *read_class(gbnf *g)
{
    program *p = g->r.p;
    regex *x = regex_make(p, REGEX_SET);
    if (x == NULL) return NULL;
    bool inverted = next_is(g, '^');
    if (inverted) g->r.at++;
    uint32_t first, last;
    while (p->status == WEFT_OK && !next_is(g, ']') && read_char(g, &first)) {
        last = first;
        bool range =
            next_is(g, '-') && g->r.at + 1 < g->r.text.len && g->r.text.ptr[g->r.at + 1] != ']';
        if (range) {
            g->r.at++;
            if (!read_char(g, &last)) break;
            if (first > last) fails(g, "a range that has no order");
        }
        chars_add(p, &x->set, first, last);
    }
    g->r.at++;
    if (inverted) {
        chars_invert(p, &x->set);
    } else {
        chars_tidy(&x->set);
    }
    return x;
}

static regex *read_group(gbnf *g)
{
    if (++g->r.depth > REGEX_DEPTH) {
        program_fail(g->r.p, WEFT_LIMIT, "more than %d groups within each other at byte %zu",
                     REGEX_DEPTH, g->r.at);
        return NULL;
    }
    skip_space(g, true);
    regex *x = read_alternatives(g, true);
    if (g->r.p->status == WEFT_OK && !next_is(g, ')')) fails(g, "a group that does not end");
    g->r.at++;
    g->r.depth--;
    return x;
}

/* Behind a '<': a token, by its text, which the brackets are part of, or <[id]>. */
static regex *read_token(gbnf *g)
{
    regex_reader *r = &g->r;
    size_t first = r->at - 1;
    while (r->at < r->text.len && !next_is(g, '>') && !next_is(g, '\n')) r->at++;
    regex *x = regex_make(r->p, REGEX_TOKEN);
    if (!next_is(g, '>')) fails(g, "the name of a token that does not end");
    if (x == NULL || r->p->status != WEFT_OK) return NULL;
    r->at++;
    str name = {r->text.ptr + first, r->at - first};
    if (name.len <= 4 || name.ptr[1] != '[' || name.ptr[name.len - 2] != ']') {
        (void)named_of_text(r->p, g->vocab, name, &x->token);
    } else {
        int64_t id = 0;
        for (size_t i = 2; i < name.len - 2 && id >= 0 && id <= GRAMMAR_TOKENS; i++)
            id = name.ptr[i] < '0' || name.ptr[i] > '9' ? -1 : id * 10 + (name.ptr[i] - '0');
        (void)named_of_id(r->p, g->vocab, id, &x->token);
    }
    if (r->p->status != WEFT_OK) err_context(r->p->err, "byte %zu of the grammar: ", first);
    return x;
}

static regex *read_atom(gbnf *g)
{
    program *p = g->r.p;
    char c = g->r.text.ptr[g->r.at];
    if (is_name(c)) {
        regex *x = regex_make(p, REGEX_RULE);
        if (x != NULL) x->min = read_name(g);
        return x;
    }
    g->r.at++;
    if (c == '"') return read_literal(g);
    if (c == '[') return read_class(g);
    if (c == '(') return read_group(g);
    if (c == '<') return read_token(g);
    if (c != '.') {
        g->r.at--;
        fails(g, "nothing that a rule can hold");
        return NULL;
    }
    regex *x = regex_make(p, REGEX_SET);
    if (x != NULL) chars_add(p, &x->set, 0, CHARS_LAST);
    return x;
}

static bool at_end(const gbnf *g)
{
    return g->r.at >= g->r.text.len || next_is(g, '|') || next_is(g, ')') || next_is(g, '\n') ||
           next_is(g, '\r');
}

static regex *read_sequence(gbnf *g, bool nested)
{
    program *p = g->r.p;
    regex *whole = regex_make(p, REGEX_SEQUENCE);
    while (p->status == WEFT_OK && !at_end(g)) {
        regex *x = read_atom(g);
        skip_space(g, nested);
        uint32_t min, max, n_repeats = 0;
        while (p->status == WEFT_OK && regex_quantifier(&g->r, &min, &max)) {
            if (++n_repeats > GBNF_REPEATS) fails(g, "too many counts in a row");
            regex *repeat = regex_make(p, REGEX_REPEAT);
            if (repeat == NULL || x == NULL) return NULL;
            repeat->min = min;
            repeat->max = max;
            regex_append(repeat, x);
            x = repeat;
            skip_space(g, nested);
        }
        regex_append(whole, x);
    }
    return whole;
}

static regex *read_alternatives(gbnf *g, bool nested)
{
    regex *either = regex_make(g->r.p, REGEX_EITHER);
    for (bool more = true; more && g->r.p->status == WEFT_OK;) {
        regex_append(either, read_sequence(g, nested));
        more = next_is(g, '|');
        if (!more) break;
        g->r.at++;
        skip_space(g, true);
    }
    return either;
}

static void read_rule(gbnf *g)
{
    program *p = g->r.p;
    size_t first = g->r.at;
    uint32_t rule_i = read_name(g);
    skip_space(g, false);
    if (p->status != WEFT_OK) return;
    if (g->r.text.len - g->r.at < 3 || memcmp(g->r.text.ptr + g->r.at, "::=", 3) != 0) {
        fails(g, "no '::=' behind the name of a rule");
        return;
    }
    g->r.at += 3;
    skip_space(g, true);
    if (g->bodies[rule_i] != NULL) {
        g->r.at = first;
        fails(g, "a rule that was there before");
        return;
    }
    g->bodies[rule_i] = read_alternatives(g, false);
    if (p->status == WEFT_OK && g->r.at < g->r.text.len && !next_is(g, '\n') && !next_is(g, '\r'))
        fails(g, "something behind a rule");
}

/* The number of "root". */
static uint32_t read_rules(gbnf *g)
{
    program *p = g->r.p;
    static const char ROOT[] = "root";
    uint32_t root = program_rule(p, "rule 'root'");
    if (map_put(&g->names, str_of(ROOT), root, NULL, p->err) != WEFT_OK) p->status = WEFT_NOMEM;
    for (skip_space(g, true); p->status == WEFT_OK && g->r.at < g->r.text.len; skip_space(g, true))
        read_rule(g);
    for (uint32_t i = root; i < p->n_rules && p->status == WEFT_OK; i++) {
        if (g->bodies[i] == NULL)
            program_fail(p, WEFT_FORMAT, "%s at byte %zu of the grammar is not there",
                         p->rules[i].name, g->first[i]);
        uint32_t start = node_regex(p, g->bodies[i], SPELLING_TEXT, NODE_RETURN);
        if (p->status == WEFT_OK) p->rules[i].start = start;
    }
    return root;
}

uint32_t node_gbnf(program *p, const grammar_vocab *v, str text, uint32_t next)
{
    if (!utf8_valid(text.ptr, text.len)) {
        program_fail(p, WEFT_FORMAT, "a grammar that is not valid UTF-8");
        return NODE_FAIL;
    }
    gbnf g = {.r = {.p = p, .text = text}, .vocab = v};
    g.bodies = program_alloc(p, PROGRAM_RULES, sizeof(regex *));
    g.first = program_alloc(p, PROGRAM_RULES, sizeof *g.first);
    if (p->status != WEFT_OK) return NODE_FAIL;
    weft_status status = map_init(&g.names, p->memory->allocator, 64, p->err);
    if (status != WEFT_OK) {
        p->status = status;
        return NODE_FAIL;
    }
    uint32_t root = read_rules(&g);
    map_deinit(&g.names);
    return node_call(p, root, next);
}

void source_gbnf(program *p, const grammar_vocab *v, str text)
{
    (void)node_gbnf(p, v, text, NODE_RETURN); /* its first rule is rule 0 */
}
