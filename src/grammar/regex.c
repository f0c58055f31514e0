/* regex.c - reading regular expressions, settling their anchors, and the nodes that match them. */
#include "grammar/regex.h"

#include <string.h>

#include "base/utf8.h"
#include "grammar/dfa.h"
#include "grammar/regex_class.h"

regex *regex_make(program *p, regex_kind kind)
{
    regex *x = program_alloc(p, 1, sizeof *x);
    if (x != NULL) x->kind = kind;
    return x;
}

void regex_append(regex *whole, regex *part)
{
    if (whole == NULL || part == NULL) return;
    part->previous = whole->last;
    whole->last = part;
    whole->has_begin |= part->has_begin;
    whole->has_finish |= part->has_finish;
}

/* ---- reading ---- */

static regex *read_either(regex_reader *r);

static bool take_number(regex_reader *r, size_t *at, uint32_t *value)
{
    uint64_t v = 0;
    size_t first = *at;
    for (; *at < r->text.len && r->text.ptr[*at] >= '0' && r->text.ptr[*at] <= '9'; ++*at) {
        v = v * 10 + (uint64_t)(r->text.ptr[*at] - '0');
        if (v > REGEX_REPEATS) v = (uint64_t)REGEX_REPEATS + 1;
    }
    *value = (uint32_t)v;
    return *at > first;
}

/* {m}, {m,} or {m,n}; false when it is none: the brace then stands for itself. */
static bool take_braces(regex_reader *r, uint32_t *min, uint32_t *max)
{
    size_t at = r->at + 1;
    if (!take_number(r, &at, min)) return false;
    *max = *min;
    if (at < r->text.len && r->text.ptr[at] == ',') {
        at++;
        if (!take_number(r, &at, max)) *max = PROGRAM_ENDLESS;
    }
    if (at >= r->text.len || r->text.ptr[at] != '}') return false;
    if (*min > REGEX_REPEATS || (*max > REGEX_REPEATS && *max != PROGRAM_ENDLESS))
        regex_fail(r, WEFT_LIMIT, "a count beyond 2^30");
    if (*min > *max) regex_fail(r, WEFT_FORMAT, "a count whose least is above its most");
    r->at = at;
    return true;
}

bool regex_quantifier(regex_reader *r, uint32_t *min, uint32_t *max)
{
    *min = 0;
    *max = PROGRAM_ENDLESS;
    if (regex_next_is(r, '+')) {
        *min = 1;
    } else if (regex_next_is(r, '?')) {
        *max = 1;
    } else if (regex_next_is(r, '{')) {
        if (!take_braces(r, min, max)) return false;
    } else if (!regex_next_is(r, '*')) {
        return false;
    }
    r->at++;
    return true;
}

/* Behind "(?". */
static void read_group_kind(regex_reader *r)
{
    if (regex_next_is(r, ':')) {
        r->at++;
        return;
    }
    bool behind = regex_next_is(r, '<');
    if (behind) r->at++;
    if (regex_next_is(r, '=') || regex_next_is(r, '!')) {
        regex_fail(r, WEFT_UNSUPPORTED, behind ? "a lookbehind" : "a lookahead");
    } else if (!behind) {
        regex_fail(r, WEFT_UNSUPPORTED, "flags of a group");
    } else {
        while (r->at < r->text.len && !regex_next_is(r, '>')) r->at++;
        if (regex_next_is(r, '>')) r->at++;
    }
}

static regex *read_group(regex_reader *r)
{
    if (++r->depth > REGEX_DEPTH) {
        regex_fail(r, WEFT_LIMIT, "more than 200 groups within each other");
        return NULL;
    }
    if (regex_next_is(r, '?')) {
        r->at++;
        read_group_kind(r);
    }
    regex *x = r->p->status == WEFT_OK ? read_either(r) : NULL;
    if (!regex_next_is(r, ')')) regex_fail(r, WEFT_FORMAT, "a group that does not end");
    r->at++;
    r->depth--;
    return x;
}

static regex *read_set(regex_reader *r, uint32_t c)
{
    regex *x = regex_make(r->p, REGEX_SET);
    if (x == NULL) return NULL;
    if (c == '.') {
        regex_any_but_newline(r, &x->set);
    } else if (c == '[') {
        regex_class(r, &x->set);
    } else {
        if (c == '\\') regex_escape(r, false, &x->set, &c);
        if (c != CHARS_NONE) chars_add(r->p, &x->set, c, c);
        chars_tidy(&x->set);
    }
    return x;
}

static regex *read_atom(regex_reader *r)
{
    uint32_t c = regex_take(r);
    if (c == '^' || c == '$') {
        regex *x = regex_make(r->p, c == '^' ? REGEX_BEGIN : REGEX_FINISH);
        if (x == NULL) return NULL;
        x->has_begin = c == '^';
        x->has_finish = c == '$';
        return x;
    }
    if (c == '(') return read_group(r);
    if (c == '*' || c == '+' || c == '?') {
        r->at--;
        regex_fail(r, WEFT_FORMAT, "nothing to repeat");
        return NULL;
    }
    return read_set(r, c);
}

static regex *read_term(regex_reader *r)
{
    regex *x = read_atom(r);
    uint32_t min, max;
    if (x == NULL || r->p->status != WEFT_OK || !regex_quantifier(r, &min, &max)) return x;
    if (x->has_begin || x->has_finish)
        regex_fail(r, WEFT_UNSUPPORTED, "an anchor that is repeated");
    regex *repeat = regex_make(r->p, REGEX_REPEAT);
    if (repeat == NULL) return NULL;
    if (regex_next_is(r, '?')) r->at++; /* lazy: the same texts match */
    repeat->min = min;
    repeat->max = max;
    regex_append(repeat, x);
    return repeat;
}

static regex *read_sequence(regex_reader *r)
{
    regex *x = regex_make(r->p, REGEX_SEQUENCE);
    while (r->p->status == WEFT_OK && r->at < r->text.len && !regex_next_is(r, '|') &&
           !regex_next_is(r, ')'))
        regex_append(x, read_term(r));
    return x;
}

static regex *read_either(regex_reader *r)
{
    regex *x = read_sequence(r);
    if (!regex_next_is(r, '|')) return x;
    regex *either = regex_make(r->p, REGEX_EITHER);
    regex_append(either, x);
    while (r->p->status == WEFT_OK && regex_next_is(r, '|')) {
        r->at++;
        regex_append(either, read_sequence(r));
    }
    return either;
}

/* ---- anchors ---- */

static regex *any_text(program *p)
{
    regex *set = regex_make(p, REGEX_SET), *x = regex_make(p, REGEX_REPEAT);
    if (set == NULL || x == NULL) return NULL;
    chars_add(p, &set->set, 0, CHARS_LAST);
    x->max = PROGRAM_ENDLESS;
    regex_append(x, set);
    return x;
}

static void refuse_anchor(program *p)
{
    program_fail(p, WEFT_UNSUPPORTED, "an anchor (^ or $) within a pattern");
}

/* The parts of whole in order, [n]; NULL when there is no memory. */
static regex **parts_of(program *p, const regex *whole, uint32_t *n)
{
    *n = 0;
    for (const regex *x = whole->last; x != NULL; x = x->previous) ++*n;
    regex **parts = program_alloc(p, (size_t)*n + 1, sizeof(regex *));
    if (parts == NULL) return NULL;
    uint32_t i = *n;
    for (regex *x = whole->last; x != NULL; x = x->previous) parts[--i] = x;
    return parts;
}

/* x with whatever may stand before it (or behind it): fill, unless an anchor says that nothing may.
 * Anchors of that side are gone afterwards. */
static regex *settle_side(program *p, regex *x, bool left, regex_extent extent);

static regex *fill(program *p, regex *x, bool left, regex_extent extent)
{
    if (extent == REGEX_WHOLE) return x;
    regex *whole = regex_make(p, REGEX_SEQUENCE);
    regex *rest = any_text(p);
    if (whole == NULL || rest == NULL) return NULL;
    x->previous = NULL;
    regex_append(whole, left ? rest : x);
    regex_append(whole, left ? x : rest);
    return whole;
}

static bool anchored(const regex *x, bool left)
{
    return left ? x->has_begin : x->has_finish;
}

static regex *settle_sequence(program *p, regex *x, bool left, regex_extent extent)
{
    uint32_t n, first = 0;
    regex **parts = parts_of(p, x, &n);
    regex *whole = regex_make(p, REGEX_SEQUENCE);
    if (parts == NULL || whole == NULL) return NULL;
    uint32_t last = n;
    /* The part at the edge stands for its anchor; more of the same anchor say the same. */
    regex *edge = parts[left ? 0 : n - 1];
    bool bare = edge->kind == (left ? REGEX_BEGIN : REGEX_FINISH);
    while (bare && first < last && parts[left ? first : last - 1]->kind == edge->kind) {
        if (left) {
            first++;
        } else {
            last--;
        }
    }
    for (uint32_t i = first; i < last; i++) {
        bool at_edge = !bare && (left ? i == 0 : i == n - 1);
        regex *part = at_edge ? settle_side(p, parts[i], left, extent) : parts[i];
        if (!at_edge && anchored(part, left)) refuse_anchor(p);
        if (part == NULL || p->status != WEFT_OK) return NULL;
        part->previous = NULL;
        regex_append(whole, part);
    }
    return whole;
}

static regex *settle_side(program *p, regex *x, bool left, regex_extent extent)
{
    if (x == NULL || p->status != WEFT_OK) return NULL;
    if (!anchored(x, left)) return fill(p, x, left, extent);
    if (x->kind == REGEX_BEGIN || x->kind == REGEX_FINISH) return regex_make(p, REGEX_EMPTY);
    if (x->kind == REGEX_SEQUENCE) return settle_sequence(p, x, left, extent);
    if (x->kind != REGEX_EITHER) {
        refuse_anchor(p);
        return NULL;
    }
    uint32_t n;
    regex **parts = parts_of(p, x, &n);
    regex *whole = regex_make(p, REGEX_EITHER);
    for (uint32_t i = 0; parts != NULL && whole != NULL && i < n; i++) {
        regex *part = settle_side(p, parts[i], left, extent);
        if (part == NULL) return NULL;
        part->previous = NULL;
        regex_append(whole, part);
    }
    return whole;
}

regex *regex_parse(program *p, str text, regex_extent extent)
{
    regex_reader r = {.p = p, .text = text};
    if (p->status != WEFT_OK) return NULL;
    if (!utf8_valid(text.ptr, text.len)) {
        program_fail(p, WEFT_FORMAT, "a pattern that is not valid UTF-8");
        return NULL;
    }
    regex *x = read_either(&r);
    if (r.at < text.len) regex_fail(&r, WEFT_FORMAT, "a parenthesis that was not opened");
    x = settle_side(p, x, true, extent);
    x = settle_side(p, x, false, extent);
    return p->status == WEFT_OK ? x : NULL;
}

/* ---- nodes ---- */

static uint32_t node_repeat(program *p, const regex *x, spelling how, uint32_t next)
{
    if (x->max == 0) return next;
    if (p->has_runs && x->max > 1 && x->last->kind == REGEX_SET)
        return node_lexeme(p, lexeme_of_run(p, x, how), next);
    if (x->max == 1) {
        uint32_t once = node_regex(p, x->last, how, next);
        return x->min == 1 ? once : node_split(p, once, next);
    }
    if (x->max == PROGRAM_ENDLESS && x->min <= 1) {
        uint32_t star = node_star(p, next);
        uint32_t body = node_regex(p, x->last, how, star);
        star_set_body(p, star, body);
        return x->min == 1 ? body : star;
    }
    uint32_t loop_node = node_loop(p, x->min, x->max, next);
    loop_set_body(p, loop_node, node_regex(p, x->last, how, NODE_AGAIN));
    return loop_node;
}

uint32_t node_regex(program *p, const regex *x, spelling how, uint32_t next)
{
    if (x == NULL || p->status != WEFT_OK) return NODE_FAIL;
    uint32_t any = NODE_FAIL;
    switch (x->kind) {
    case REGEX_EMPTY:
    case REGEX_BEGIN:
    case REGEX_FINISH:
        return next;
    case REGEX_SET:
        return node_chars(p, &x->set, how, next);
    case REGEX_REPEAT:
        return node_repeat(p, x, how, next);
    case REGEX_RULE:
        return node_call(p, x->min, next);
    case REGEX_TOKEN:
        return node_token(p, x->token, next);
    case REGEX_SEQUENCE:
        for (const regex *part = x->last; part != NULL; part = part->previous)
            next = node_regex(p, part, how, next);
        return next;
    case REGEX_EITHER:
        for (const regex *part = x->last; part != NULL; part = part->previous)
            any = node_split(p, node_regex(p, part, how, next), any);
        return any;
    }
    return NODE_FAIL;
}

bool regex_is_run(const regex *x, const chars **set, uint32_t *min, uint32_t *max)
{
    while (x != NULL && x->kind == REGEX_SEQUENCE && x->last != NULL && x->last->previous == NULL)
        x = x->last;
    if (x == NULL || x->kind != REGEX_REPEAT || x->last->kind != REGEX_SET) return false;
    *set = &x->last->set;
    *min = x->min;
    *max = x->max;
    return true;
}

regex *regex_parse_answer(program *p, str text)
{
    if (text.len == 0) program_fail(p, WEFT_ARGUMENT, "an empty pattern allows no text");
    return regex_parse(p, text, REGEX_WHOLE);
}
