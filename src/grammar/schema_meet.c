/* schema_meet.c - what satisfies both of two forms, or both of two demands. */
#include <stdlib.h>
#include <string.h>

#include "grammar/schema.h"

form form_any(void)
{
    return (form){.types = TYPE_ALL,
                  .max_length = LEXEME_ENDLESS,
                  .max_items = PROGRAM_ENDLESS,
                  .max_properties = PROGRAM_ENDLESS,
                  .contains = DEMAND_NEVER,
                  .max_contains = PROGRAM_ENDLESS};
}

form *form_new(schema *s)
{
    form *f = program_alloc(s->p, 1, sizeof *f);
    if (f != NULL) *f = form_any();
    return f;
}

/* ---- demands ---- */

/* The demand of these ids, which are ascending. */
static uint32_t demand_of_ids(schema *s, const uint32_t *ids, uint32_t n)
{
    if (s->p->status != WEFT_OK) return DEMAND_NEVER;
    if (n == 0) return DEMAND_NOTHING;
    str key = {(const char *)ids, n * sizeof *ids};
    uint32_t found = map_get(&s->demand_of, key);
    if (found != MAP_NONE) return found;
    if (s->n_demands == SCHEMA_DEMANDS) {
        program_fail(s->p, WEFT_LIMIT, "a schema whose parts meet in more than %d ways",
                     SCHEMA_DEMANDS);
        return DEMAND_NEVER;
    }
    demand **list = schema_grow(s, s->demands, s->n_demands, &s->demand_room, sizeof(demand *));
    demand *d = program_alloc(s->p, 1, sizeof *d);
    uint32_t *copy = program_alloc(s->p, n, sizeof *copy);
    if (list == NULL || d == NULL || copy == NULL) return DEMAND_NEVER;
    memcpy(copy, ids, n * sizeof *ids);
    s->demands = list;
    *d = (demand){n, copy, UINT32_MAX};
    key.ptr = (const char *)copy;
    weft_status status = map_put(&s->demand_of, key, s->n_demands, NULL, s->p->err);
    if (status != WEFT_OK) {
        s->p->status = status;
        return DEMAND_NEVER;
    }
    list[s->n_demands] = d;
    return s->n_demands++;
}

uint32_t demand_of_node(schema *s, uint32_t node, bool opposite)
{
    const json *value = s->nodes[node]->value;
    if (json_kind_of(value) == JSON_KIND_BOOL)
        return json_bool(value, false) != opposite ? DEMAND_NOTHING : DEMAND_NEVER;
    uint32_t id = node * 2 + opposite;
    return demand_of_ids(s, &id, 1);
}

uint32_t demand_meet(schema *s, uint32_t a, uint32_t b)
{
    if (a == b || b == DEMAND_NOTHING) return a;
    if (a == DEMAND_NOTHING) return b;
    if (a == DEMAND_NEVER || b == DEMAND_NEVER || s->p->status != WEFT_OK) return DEMAND_NEVER;
    const demand *x = s->demands[a], *y = s->demands[b];
    uint32_t *ids = program_alloc(s->p, (size_t)x->n + y->n, sizeof *ids);
    uint32_t n = 0, i = 0, k = 0;
    if (ids == NULL) return DEMAND_NEVER;
    while (i < x->n || k < y->n) {
        uint32_t id;
        if (k == y->n || (i < x->n && x->ids[i] <= y->ids[k])) {
            id = x->ids[i++];
        } else {
            id = y->ids[k++];
        }
        if (n > 0 && ids[n - 1] == id) continue;
        /* A schema and its opposite. */
        if (n > 0 && ids[n - 1] == (id ^ 1)) return DEMAND_NEVER;
        ids[n++] = id;
    }
    return demand_of_ids(s, ids, n);
}

/* ---- emptiness ---- */

/* The forms of a demand; NULL without a failure when they need what is being read. */
static const forms *probe(schema *s, uint32_t demand_i)
{
    s->probing++;
    const forms *all = demand_forms(s, demand_i);
    s->probing--;
    return all;
}

static bool object_is_empty(schema *s, const form *f, uint32_t depth)
{
    for (uint32_t i = 0; i < f->n_properties; i++)
        if (f->properties[i].required && demand_is_empty(s, f->properties[i].demand, depth))
            return true;
    return f->min_properties > f->max_properties;
}

static bool array_is_empty(schema *s, const form *f, uint32_t depth)
{
    for (uint32_t i = 0; i < f->n_prefix && i < f->min_items; i++)
        if (demand_is_empty(s, f->prefix[i], depth)) return true;
    if (f->min_items > f->n_prefix && demand_is_empty(s, f->items, depth)) return true;
    return f->min_items > f->max_items;
}

/* Takes the types out of which no value can be; true when there are none left. */
static bool trim(schema *s, form *f, uint32_t depth)
{
    if (f->has_values) return f->n_values == 0;
    if (bounds_are_empty(&f->numbers)) f->types &= ~(uint32_t)(TYPE_WHOLE | TYPE_OTHERS);
    if (f->min_length > f->max_length || (f->text != NULL && dfa_is_empty(f->text)))
        f->types &= ~(uint32_t)TYPE_STRING;
    if ((f->types & TYPE_ARRAY) != 0 && array_is_empty(s, f, depth))
        f->types &= ~(uint32_t)TYPE_ARRAY;
    if ((f->types & TYPE_OBJECT) != 0 && object_is_empty(s, f, depth))
        f->types &= ~(uint32_t)TYPE_OBJECT;
    return f->types == 0;
}

bool demand_is_empty(schema *s, uint32_t demand_i, uint32_t depth)
{
    if (demand_i == DEMAND_NEVER) return true;
    if (demand_i == DEMAND_NOTHING || depth == 0) return false;
    const forms *all = probe(s, demand_i);
    if (all == NULL) return false;
    for (uint32_t i = 0; i < all->n; i++) {
        form copy = *all->list[i];
        if (!trim(s, &copy, depth - 1)) return false;
    }
    return true;
}

/* Whether no value is in both lists. */
static bool values_are_apart(const form *a, const form *b)
{
    if (!a->has_values || !b->has_values) return false;
    for (uint32_t i = 0; i < a->n_values; i++)
        for (uint32_t k = 0; k < b->n_values; k++)
            if (json_equal_values(a->values[i], b->values[k])) return false;
    return true;
}

static bool demands_have_other_values(schema *s, uint32_t a, uint32_t b)
{
    const forms *x = probe(s, a), *y = probe(s, b);
    if (x == NULL || y == NULL) return false;
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t k = 0; k < y->n; k++)
            if (!values_are_apart(x->list[i], y->list[k])) return false;
    return true;
}

/* A property that both must have, with constants that differ: what tells the members of most unions
 * apart, found without making forms of both. */
static bool have_tags_apart(schema *s, const form *a, const form *b)
{
    if (a->types != TYPE_OBJECT && b->types != TYPE_OBJECT) return false;
    for (uint32_t i = 0; i < a->n_properties && s->p->status == WEFT_OK; i++) {
        const property *x = &a->properties[i];
        const property *y = form_property(b, x->name);
        if (y == NULL || (!x->required && !y->required)) continue;
        if (demands_have_other_values(s, x->demand, y->demand)) return true;
    }
    return false;
}

bool forms_are_apart(schema *s, const forms *a, const forms *b)
{
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t k = 0; k < b->n; k++) {
            if (have_tags_apart(s, a->list[i], b->list[k])) continue;
            form *both = form_meet(s, a->list[i], b->list[k]);
            if (s->p->status != WEFT_OK) return false;
            if (both != NULL && !trim(s, both, 4)) return false;
        }
    return true;
}

/* ---- objects ---- */

const property *form_property(const form *f, str name)
{
    for (uint32_t i = 0; i < f->n_properties; i++)
        if (str_equal(f->properties[i].name, name)) return &f->properties[i];
    return NULL;
}

/* Whether a name that is not spelled yet is in a region. */
static bool region_has(schema *s, const region *r, str name)
{
    strbuf text;
    strbuf_init(&text, s->p->memory->allocator, 0);
    static const char HEX[] = "0123456789abcdef";
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        static const char SHORT[] = "\"\\\b\f\n\r\t", LETTERS[] = "\"\\bfnrt";
        const char *letter = c == 0 ? NULL : strchr(SHORT, c);
        if (letter != NULL) {
            (void)strbuf_printf(&text, "\\%c", LETTERS[letter - SHORT]);
        } else if (c < 0x20) {
            (void)strbuf_printf(&text, "\\u00%d%c", c >> 4, HEX[c & 15]);
        } else {
            (void)strbuf_add_char(&text, (char)c);
        }
    }
    if (text.status != WEFT_OK) program_fail(s->p, WEFT_NOMEM, "out of memory for a name");
    bool has = dfa_accepts(r->names, (str){strbuf_text(&text), text.len});
    strbuf_deinit(&text);
    return has;
}

uint32_t form_demand_of(schema *s, const form *f, str name, bool *evaluated)
{
    const property *known = form_property(f, name);
    *evaluated = known != NULL ? known->evaluated : f->rest_evaluated;
    if (known != NULL) return known->demand;
    for (uint32_t i = 0; i < f->n_regions; i++) {
        if (!region_has(s, &f->regions[i], name)) continue;
        *evaluated = f->regions[i].evaluated;
        return f->regions[i].demand;
    }
    return f->rest;
}

/* Properties of a, with what b says of them; and, with all, of b's that a does not know. */
static bool add_properties(schema *s, form *both, const form *a, const form *b, bool all)
{
    for (uint32_t i = 0; i < a->n_properties; i++) {
        const property *x = &a->properties[i];
        const property *y = form_property(b, x->name);
        if (y != NULL && !all) continue;
        bool x_evaluated = x->evaluated, y_evaluated;
        uint32_t other = form_demand_of(s, b, x->name, &y_evaluated);
        both->properties[both->n_properties++] =
            (property){x->name, demand_meet(s, x->demand, other),
                       x->required || (y != NULL && y->required), x_evaluated || y_evaluated};
    }
    return s->p->status == WEFT_OK;
}

static bool add_region(schema *s, form *f, uint32_t *room, const dfa *names, region r)
{
    if (s->p->status != WEFT_OK) return false;
    if (names == NULL || dfa_is_empty(names)) return true;
    if (f->n_regions == SCHEMA_REGIONS) {
        program_fail(s->p, WEFT_LIMIT, "patterns of names that overlap in more than %d ways",
                     SCHEMA_REGIONS);
        return false;
    }
    region *list = schema_grow(s, f->regions, f->n_regions, room, sizeof *list);
    if (list == NULL) return false;
    f->regions = list;
    r.names = names;
    f->regions[f->n_regions++] = r;
    return true;
}

/* Regions of either, cut where they overlap. */
static bool meet_regions(schema *s, form *both, const form *a, const form *b)
{
    uint32_t room = 0;
    both->n_regions = 0;
    both->regions = NULL;
    const dfa **left = program_alloc(s->p, (size_t)b->n_regions + 1, sizeof(dfa *));
    if (left == NULL) return false;
    for (uint32_t k = 0; k < b->n_regions; k++) left[k] = b->regions[k].names;
    for (uint32_t i = 0; i < a->n_regions; i++) {
        const region *x = &a->regions[i];
        const dfa *alone = x->names;
        for (uint32_t k = 0; k < b->n_regions; k++) {
            const region *y = &b->regions[k];
            region r = {NULL, demand_meet(s, x->demand, y->demand), x->evaluated || y->evaluated};
            if (!add_region(s, both, &room, dfa_meet(s->p, x->names, y->names), r)) return false;
            alone = dfa_without(s->p, alone, y->names);
            left[k] = dfa_without(s->p, left[k], x->names);
        }
        region r = {NULL, demand_meet(s, x->demand, b->rest), x->evaluated || b->rest_evaluated};
        if (!add_region(s, both, &room, alone, r)) return false;
    }
    for (uint32_t k = 0; k < b->n_regions; k++) {
        const region *y = &b->regions[k];
        region r = {NULL, demand_meet(s, y->demand, a->rest), y->evaluated || a->rest_evaluated};
        if (!add_region(s, both, &room, left[k], r)) return false;
    }
    return s->p->status == WEFT_OK;
}

static bool meet_objects(schema *s, form *both, const form *a, const form *b)
{
    uint32_t n = a->n_properties + b->n_properties;
    if (n > SCHEMA_PROPERTIES) {
        program_fail(s->p, WEFT_LIMIT, "an object of more than %d properties", SCHEMA_PROPERTIES);
        return false;
    }
    both->properties = program_alloc(s->p, (size_t)n + 1, sizeof *both->properties);
    both->n_properties = 0;
    if (both->properties == NULL || !add_properties(s, both, a, b, true) ||
        !add_properties(s, both, b, a, false) || !meet_regions(s, both, a, b))
        return false;
    both->rest = demand_meet(s, a->rest, b->rest);
    both->rest_evaluated = a->rest_evaluated || b->rest_evaluated;
    if (b->min_properties > both->min_properties) both->min_properties = b->min_properties;
    if (b->max_properties < both->max_properties) both->max_properties = b->max_properties;
    return true;
}

/* ---- the rest ---- */

static bool meet_texts(schema *s, form *both, const form *a, const form *b)
{
    if (b->min_length > both->min_length) both->min_length = b->min_length;
    if (b->max_length < both->max_length) both->max_length = b->max_length;
    if (b->text == NULL && b->loose == NULL) return true;
    if (a->text == NULL && a->loose == NULL) {
        both->text = b->text;
        both->loose = b->loose;
        return true;
    }
    const dfa *x = a->loose == NULL ? a->text : dfa_of_regex(s->p, a->loose, SPELLING_JSON);
    const dfa *y = b->loose == NULL ? b->text : dfa_of_regex(s->p, b->loose, SPELLING_JSON);
    /* The side that knows where characters end comes first. */
    if (a->loose != NULL) x = dfa_meet(s->p, s->any_text, x);
    both->loose = NULL;
    both->text = dfa_meet(s->p, x, y);
    return both->text != NULL;
}

static uint32_t item_demand(const form *f, uint32_t i)
{
    return i < f->n_prefix ? f->prefix[i] : f->items;
}

static bool meet_arrays(schema *s, form *both, const form *a, const form *b)
{
    uint32_t n = a->n_prefix > b->n_prefix ? a->n_prefix : b->n_prefix;
    both->prefix = program_alloc(s->p, (size_t)n + 1, sizeof *both->prefix);
    if (both->prefix == NULL) return false;
    for (uint32_t i = 0; i < n; i++)
        both->prefix[i] = demand_meet(s, item_demand(a, i), item_demand(b, i));
    both->n_prefix = n;
    both->items = demand_meet(s, a->items, b->items);
    both->items_evaluated |= b->items_evaluated;
    both->prefix_open |= b->prefix_open;
    if (b->min_items > both->min_items) both->min_items = b->min_items;
    if (b->max_items < both->max_items) both->max_items = b->max_items;
    if (b->contains == DEMAND_NEVER) return true;
    if (a->contains != DEMAND_NEVER &&
        (a->contains != b->contains || a->min_contains != b->min_contains ||
         a->max_contains != b->max_contains)) {
        program_fail(s->p, WEFT_UNSUPPORTED, "two different 'contains' of one array");
        return false;
    }
    both->contains = b->contains;
    both->min_contains = b->min_contains;
    both->max_contains = b->max_contains;
    return true;
}

/* The values of a that have form b, too. */
static form *meet_values(schema *s, const form *a, const form *b)
{
    form *both = form_new(s);
    if (both == NULL) return NULL;
    *both = *a;
    both->inexact |= b->inexact;
    both->values = program_alloc(s->p, (size_t)a->n_values + 1, sizeof(json *));
    if (both->values == NULL) return NULL;
    both->n_values = 0;
    both->types = 0;
    for (uint32_t i = 0; i < a->n_values && s->p->status == WEFT_OK; i++) {
        if (!form_admits(s, b, a->values[i])) continue;
        both->values[both->n_values++] = a->values[i];
        both->types |= value_type(a->values[i]);
    }
    return both->n_values == 0 || s->p->status != WEFT_OK ? NULL : both;
}

form *form_meet(schema *s, const form *a, const form *b)
{
    if (s->p->status != WEFT_OK) return NULL;
    if (++s->work > SCHEMA_WORK) {
        program_fail(s->p, WEFT_LIMIT, "a schema with more than %d combinations of alternatives",
                     SCHEMA_WORK);
        return NULL;
    }
    if (a->has_values) return meet_values(s, a, b);
    if (b->has_values) return meet_values(s, b, a);
    uint32_t types = a->types & b->types;
    if (types == 0) return NULL;
    form *both = form_new(s);
    if (both == NULL) return NULL;
    *both = *a;
    both->types = types;
    both->inexact |= b->inexact;
    if (!bounds_meet(&a->numbers, &b->numbers, &both->numbers)) {
        program_fail(s->p, WEFT_LIMIT, "several 'multipleOf' whose common one is beyond %d",
                     NUMBER_MULTIPLE);
        return NULL;
    }
    if ((types & TYPE_STRING) != 0 && !meet_texts(s, both, a, b)) return NULL;
    if ((types & TYPE_ARRAY) != 0 && !meet_arrays(s, both, a, b)) return NULL;
    if ((types & TYPE_OBJECT) != 0 && !meet_objects(s, both, a, b)) return NULL;
    return trim(s, both, 0) ? NULL : both;
}

/* ---- lists ---- */

bool forms_add(schema *s, forms *all, form *f)
{
    if (f == NULL) return s->p->status == WEFT_OK;
    if (all->n == SCHEMA_FORMS) {
        program_fail(s->p, WEFT_LIMIT, "a schema with more than %d alternatives for one value",
                     SCHEMA_FORMS);
        return false;
    }
    form **list = schema_grow(s, all->list, all->n, &all->room, sizeof(form *));
    if (list == NULL) return false;
    all->list = list;
    all->list[all->n++] = f;
    return true;
}

bool forms_meet(schema *s, forms *all, const forms *with)
{
    if (with == NULL || s->p->status != WEFT_OK) return false;
    forms both = {NULL, 0, 0};
    for (uint32_t i = 0; i < all->n; i++)
        for (uint32_t k = 0; k < with->n; k++)
            if (!forms_add(s, &both, form_meet(s, all->list[i], with->list[k]))) return false;
    *all = both;
    return true;
}
