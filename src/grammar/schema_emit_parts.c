/* schema_emit_parts.c - arrays and objects as nodes, from their closing bracket to the opening one.
 *
 * Between brackets there are two kinds of places: before a first part, and behind one, where a
 * comma comes before the next. */
#include <string.h>

#include "grammar/schema.h"

/* ---- arrays ---- */

static uint32_t comma(schema *s, uint32_t next)
{
    return node_range(s->p, ',', ',', write_space(s, next));
}

/* A counted number of further parts, each behind a comma. */
static uint32_t further_items(schema *s, uint32_t what, uint32_t min, uint32_t max, uint32_t close)
{
    program *p = s->p;
    if (max == 0 || what == DEMAND_NEVER) return min == 0 ? close : NODE_FAIL;
    if (min == 0 && max == PROGRAM_ENDLESS) {
        uint32_t star = node_star(p, close);
        star_set_body(p, star, comma(s, demand_call(s, what, star)));
        return star;
    }
    uint32_t turns = node_loop(p, min, max, close);
    loop_set_body(p, turns, comma(s, demand_call(s, what, NODE_AGAIN)));
    return turns;
}

static uint32_t fewer(uint32_t count, uint32_t by)
{
    if (count == PROGRAM_ENDLESS) return count;
    return count > by ? count - by : 0;
}

/* At least min_contains items are of one kind; behind[k]: where k of them were met. */
static uint32_t write_contains(schema *s, const form *f, uint32_t empty, uint32_t close)
{
    program *p = s->p;
    bool counted = f->max_contains != PROGRAM_ENDLESS;
    uint32_t most = counted ? f->max_contains : f->min_contains;
    if (f->n_prefix != 0 || f->max_items != PROGRAM_ENDLESS || f->min_items > f->min_contains ||
        most > SCHEMA_CONTAINS) {
        program_fail(p, WEFT_UNSUPPORTED,
                     "'contains' beside prefixItems, maxItems or a larger "
                     "minItems, or of more than %d items",
                     SCHEMA_CONTAINS);
        return NODE_FAIL;
    }
    uint32_t hit = demand_meet(s, f->items, f->contains), miss = f->items;
    if (counted) {
        const demand *d = s->demands[f->contains];
        if (f->contains != DEMAND_NOTHING && d->n != 1) {
            program_fail(p, WEFT_UNSUPPORTED, "'maxContains' of several schemas");
            return NODE_FAIL;
        }
        uint32_t other = f->contains == DEMAND_NOTHING
                             ? (uint32_t)DEMAND_NEVER
                             : demand_of_node(s, d->ids[0] / 2, d->ids[0] % 2 == 0);
        miss = demand_meet(s, f->items, other);
    }
    uint32_t behind = NODE_FAIL, first = NODE_FAIL;
    for (uint32_t k = most + 1; k > 0; k--) {
        uint32_t after_hit = behind; /* where k of them were met */
        uint32_t on = k - 1 >= f->min_contains ? close : NODE_FAIL;
        if (k <= most) on = node_split(p, comma(s, demand_call(s, hit, after_hit)), on);
        behind = further_items(s, miss, 0, PROGRAM_ENDLESS, on);
        if (k == 1) {
            first = node_split(p, demand_call(s, miss, behind),
                               most > 0 ? demand_call(s, hit, after_hit) : NODE_FAIL);
            if (f->min_contains == 0) first = node_split(p, first, empty);
        }
    }
    return first;
}

uint32_t write_array(schema *s, const form *f, uint32_t next)
{
    program *p = s->p;
    uint32_t empty = node_range(p, ']', ']', next);
    uint32_t close = write_space(s, empty);
    uint32_t at = NODE_FAIL;
    if (f->contains != DEMAND_NEVER) {
        at = write_contains(s, f, empty, close);
        return node_range(p, '[', '[', write_space(s, at));
    }
    if (f->max_items == 0) return node_range(p, '[', '[', write_space(s, empty));
    if (f->n_prefix == 0) {
        at = further_items(s, f->items, fewer(f->min_items, 1), fewer(f->max_items, 1), close);
        at = demand_call(s, f->items, at);
    } else {
        uint32_t n = f->n_prefix < f->max_items ? f->n_prefix : f->max_items;
        at = further_items(s, f->items, fewer(f->min_items, n), fewer(f->max_items, n), close);
        for (uint32_t i = n - 1; i > 0; i--) {
            at = comma(s, demand_call(s, f->prefix[i], at));
            if (i >= f->min_items) at = node_split(p, at, close);
        }
        at = demand_call(s, f->prefix[0], at);
    }
    if (f->min_items == 0) at = node_split(p, at, empty);
    return node_range(p, '[', '[', write_space(s, at));
}

/* ---- objects ---- */

typedef struct object_writer {
    schema *s;
    const form *f;
    const lexeme **names; /* [n_regions + 1] of names that are not listed, the rest's last */
} object_writer;

static uint32_t colon(schema *s, uint32_t next)
{
    return node_range(s->p, '"', '"', node_range(s->p, ':', ':', write_space(s, next)));
}

static uint32_t write_listed(object_writer *w, const property *x, uint32_t next)
{
    schema *s = w->s;
    uint32_t at = colon(s, demand_call(s, x->demand, next));
    return node_range(s->p, '"', '"', node_spelled(s->p, x->name, SPELLING_JSON, at));
}

/* A property of a name that is not listed. */
static uint32_t write_other(object_writer *w, uint32_t next)
{
    schema *s = w->s;
    uint32_t any = NODE_FAIL;
    for (uint32_t i = 0; i <= w->f->n_regions; i++) {
        uint32_t what = i < w->f->n_regions ? w->f->regions[i].demand : w->f->rest;
        if (w->names[i] == NULL || what == DEMAND_NEVER) continue;
        uint32_t at = colon(s, demand_call(s, what, next));
        any = node_split(s->p, any, node_lexeme(s->p, w->names[i], at));
    }
    return node_range(s->p, '"', '"', any);
}

static bool find_names(object_writer *w)
{
    schema *s = w->s;
    const form *f = w->f;
    str *listed = program_alloc(s->p, (size_t)f->n_properties + 1, sizeof *listed);
    w->names = program_alloc(s->p, (size_t)f->n_regions + 1, sizeof(lexeme *));
    if (listed == NULL || w->names == NULL) return false;
    for (uint32_t i = 0; i < f->n_properties; i++) listed[i] = f->properties[i].name;
    bool any = f->rest != DEMAND_NEVER;
    for (uint32_t i = 0; i < f->n_regions; i++) any |= f->regions[i].demand != DEMAND_NEVER;
    if (!any) return true;
    const dfa *known = dfa_of_words(s->p, listed, f->n_properties, SPELLING_JSON);
    const dfa *rest = s->any_name;
    for (uint32_t i = 0; i < f->n_regions; i++) {
        const dfa *names = dfa_without(s->p, f->regions[i].names, known);
        rest = dfa_without(s->p, rest, f->regions[i].names);
        if (f->regions[i].demand != DEMAND_NEVER)
            w->names[i] = lexeme_make(s->p, names, 0, LEXEME_ENDLESS);
    }
    rest = dfa_without(s->p, rest, known);
    if (f->rest != DEMAND_NEVER)
        w->names[f->n_regions] = lexeme_make(s->p, rest, 0, LEXEME_ENDLESS);
    return s->p->status == WEFT_OK;
}

static bool has_others(const object_writer *w)
{
    for (uint32_t i = 0; i <= w->f->n_regions; i++)
        if (w->names[i] != NULL) return true;
    return false;
}

/* Behind the listed properties, of which count are there: min..max more. Names that are not listed
 * may repeat, so that only one of them counts for certain. */
static uint32_t write_others(object_writer *w, uint32_t count, uint32_t close)
{
    schema *s = w->s;
    program *p = s->p;
    uint32_t max = fewer(w->f->max_properties, count), min = fewer(w->f->min_properties, count);
    if (w->f->max_properties < count || min > 1) return NODE_FAIL;
    if (!has_others(w) || max == 0) return min == 0 ? close : NODE_FAIL;
    if (count == 0) {
        /* The first part of all has no comma before it. */
        uint32_t star = node_star(p, close);
        if (max == PROGRAM_ENDLESS) {
            star_set_body(p, star, comma(s, write_other(w, star)));
        } else {
            star = node_loop(p, 0, max - 1, close);
            loop_set_body(p, star, comma(s, write_other(w, NODE_AGAIN)));
        }
        return write_other(w, star);
    }
    if (min == 0 && max == PROGRAM_ENDLESS) {
        uint32_t star = node_star(p, close);
        star_set_body(p, star, comma(s, write_other(w, star)));
        return star;
    }
    uint32_t turns = node_loop(p, min, max, close);
    loop_set_body(p, turns, comma(s, write_other(w, NODE_AGAIN)));
    return turns;
}

/* at[c]: behind some listed properties, of which c are there. Bounds on their number are followed
 * up to most; without bounds, 1 stands for any number. */
static uint32_t write_parts(object_writer *w, uint32_t most, bool counted, uint32_t empty,
                            uint32_t close)
{
    schema *s = w->s;
    const form *f = w->f;
    uint32_t *at = program_alloc(s->p, (size_t)most + 2, sizeof *at);
    if (at == NULL) return NODE_FAIL;
    for (uint32_t c = 0; c <= most; c++) at[c] = write_others(w, c, close);
    if (f->min_properties == 0) at[0] = node_split(s->p, at[0], empty);
    for (uint32_t i = f->n_properties; i > 0 && s->p->status == WEFT_OK; i--) {
        const property *x = &f->properties[i - 1];
        for (uint32_t c = 0; c <= most; c++) {
            uint32_t behind = counted ? c + 1 : 1;
            uint32_t part = behind <= most && x->demand != DEMAND_NEVER
                                ? write_listed(w, x, at[behind])
                                : (uint32_t)NODE_FAIL;
            if (c > 0) part = comma(s, part);
            at[c] = x->required ? part : node_split(s->p, part, at[c]);
        }
    }
    return at[0];
}

uint32_t write_object(schema *s, const form *f, uint32_t next)
{
    program *p = s->p;
    object_writer w = {.s = s, .f = f};
    uint32_t n_required = 0;
    if (!find_names(&w)) return NODE_FAIL;
    for (uint32_t i = 0; i < f->n_properties; i++) n_required += f->properties[i].required;
    bool counted = f->max_properties != PROGRAM_ENDLESS || f->min_properties > n_required;
    if (counted && f->n_properties > SCHEMA_COUNTED) {
        program_fail(p, WEFT_LIMIT, "minProperties or maxProperties of more than %d properties",
                     SCHEMA_COUNTED);
        return NODE_FAIL;
    }
    if (has_others(&w) && f->min_properties > f->n_properties + 1) {
        program_fail(p, WEFT_UNSUPPORTED,
                     "minProperties %u, of which %u have no name: they might repeat",
                     f->min_properties, f->min_properties - f->n_properties);
        return NODE_FAIL;
    }
    uint32_t empty = node_range(p, '}', '}', next);
    uint32_t close = write_space(s, empty);
    uint32_t most = counted ? f->n_properties : 1;
    uint32_t at = write_parts(&w, most, counted, empty, close);
    return node_range(p, '{', '{', write_space(s, at));
}
