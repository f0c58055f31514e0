/* schema_object.c - keywords of objects: which names there are, and what is said of each. */
#include <string.h>

#include "grammar/schema.h"

static bool is_object(schema *s, uint32_t node, const char *keyword, const json **value)
{
    *value = json_get(s->nodes[node]->value, keyword);
    if (*value == NULL) return false;
    if (json_kind_of(*value) == JSON_KIND_OBJECT) return true;
    schema_fail(s, node, keyword, WEFT_FORMAT, "is no object");
    return false;
}

static bool add_property(schema *s, form *f, uint32_t *room, property x)
{
    if (f->n_properties == SCHEMA_PROPERTIES) {
        program_fail(s->p, WEFT_LIMIT, "an object of more than %d properties", SCHEMA_PROPERTIES);
        return false;
    }
    property *list = schema_grow(s, f->properties, f->n_properties, room, sizeof *list);
    if (list == NULL) return false;
    f->properties = list;
    list[f->n_properties++] = x;
    return true;
}

static bool read_properties(schema *s, uint32_t node, form *f, uint32_t *room)
{
    const json *list, *value;
    json_iter it = {NULL};
    str key;
    if (!is_object(s, node, "properties", &list)) return s->p->status == WEFT_OK;
    while (json_next(list, &it, &key, &value)) {
        char *item = arena_copy_text(s->p->memory, key.ptr, key.len);
        if (item == NULL) {
            program_fail(s->p, WEFT_NOMEM, "out of memory for the name of a property");
            return false;
        }
        uint32_t child = schema_child(s, node, value, str_of("properties"), item);
        uint32_t what = schema_demand(s, child);
        property x = {key, what, false, true};
        if (s->p->status != WEFT_OK || !add_property(s, f, room, x)) return false;
    }
    return true;
}

/* Adds a region whose demand holds beside those of the regions that it overlaps. */
static bool add_pattern(schema *s, form *f, const dfa *names, uint32_t what)
{
    form one = form_any(), before = *f;
    region r = {names, what, true};
    one.regions = &r;
    one.n_regions = 1;
    one.rest = DEMAND_NOTHING;
    before.n_properties = 0;
    before.rest = DEMAND_NOTHING;
    before.types = one.types = TYPE_OBJECT;
    form *both = form_meet(s, &before, &one);
    if (both == NULL) return false;
    f->regions = both->regions;
    f->n_regions = both->n_regions;
    return true;
}

static bool read_patterns(schema *s, uint32_t node, form *f)
{
    const json *list, *value;
    json_iter it = {NULL};
    str key;
    if (!is_object(s, node, "patternProperties", &list)) return s->p->status == WEFT_OK;
    while (json_next(list, &it, &key, &value)) {
        char *item = arena_copy_text(s->p->memory, key.ptr, key.len);
        if (item == NULL) {
            program_fail(s->p, WEFT_NOMEM, "out of memory for a pattern");
            return false;
        }
        const dfa *names = schema_names_like(s, node, "patternProperties", key);
        uint32_t child = schema_child(s, node, value, str_of("patternProperties"), item);
        uint32_t what = schema_demand(s, child);
        if (s->p->status != WEFT_OK) return false;
        if (!dfa_is_empty(names) && !add_pattern(s, f, names, what)) return false;
    }
    return true;
}

/* Known names that patterns match are held to those, too. */
static void join_patterns(schema *s, form *f)
{
    form patterns = *f;
    patterns.n_properties = 0;
    patterns.rest = DEMAND_NOTHING;
    for (uint32_t i = 0; i < f->n_properties; i++) {
        bool evaluated;
        uint32_t what = form_demand_of(s, &patterns, f->properties[i].name, &evaluated);
        f->properties[i].demand = demand_meet(s, f->properties[i].demand, what);
    }
}

static bool read_required(schema *s, uint32_t node, form *f, uint32_t *room)
{
    const json *list = json_get(s->nodes[node]->value, "required");
    if (list == NULL) return true;
    if (json_kind_of(list) != JSON_KIND_ARRAY) {
        schema_fail(s, node, "required", WEFT_FORMAT, "is no array of names");
        return false;
    }
    for (size_t i = 0; i < json_length(list); i++) {
        if (json_kind_of(json_at(list, i)) != JSON_KIND_TEXT) {
            schema_fail(s, node, "required", WEFT_FORMAT, "is no array of names");
            return false;
        }
        if (!form_require(s, f, room, json_text(json_at(list, i)))) return false;
    }
    return true;
}

bool form_require(schema *s, form *f, uint32_t *room, str name)
{
    const property *known = form_property(f, name);
    if (known != NULL) {
        f->properties[known - f->properties].required = true;
        return true;
    }
    bool evaluated;
    uint32_t what = form_demand_of(s, f, name, &evaluated);
    return add_property(s, f, room, (property){name, what, true, evaluated});
}

/* Names that the schema of names refuses: a region of its own, where nothing may be. */
static bool read_names(schema *s, uint32_t node, form *f)
{
    const json *value = json_get(s->nodes[node]->value, "propertyNames");
    if (value == NULL) return true;
    uint32_t child = schema_child(s, node, value, str_of("propertyNames"), NULL);
    (void)schema_demand(s, child);
    const forms *all = schema_forms(s, child);
    if (all == NULL) return false;
    const dfa *refused = s->any_name;
    for (uint32_t i = 0; i < all->n; i++) {
        const form *one = all->list[i];
        if ((one->types & TYPE_STRING) == 0) continue;
        const dfa *good = schema_names_of(s, one);
        if (good == NULL) return false;
        f->inexact |= one->inexact;
        refused = dfa_without(s->p, refused, good);
    }
    if (refused == NULL) return false;
    if (dfa_is_empty(refused)) return true;
    form gate = form_any(), before = *f;
    region r = {refused, DEMAND_NEVER, false};
    gate.regions = &r;
    gate.n_regions = 1;
    before.types = gate.types = TYPE_OBJECT;
    form *both = form_meet(s, &before, &gate);
    if (s->p->status != WEFT_OK) return false;
    /* NULL: a property that must be there has a name that may not. */
    if (both == NULL) {
        f->types &= ~(uint32_t)TYPE_OBJECT;
        return true;
    }
    both->types = f->types;
    *f = *both;
    return true;
}

bool schema_read_object(schema *s, uint32_t node, form *f)
{
    uint32_t room = 0;
    if (!read_properties(s, node, f, &room) || !read_patterns(s, node, f)) return false;
    join_patterns(s, f);
    const json *others = json_get(s->nodes[node]->value, "additionalProperties");
    if (others != NULL) {
        uint32_t child = schema_child(s, node, others, str_of("additionalProperties"), NULL);
        f->rest = schema_demand(s, child);
        f->rest_evaluated = true;
    }
    return s->p->status == WEFT_OK && read_required(s, node, f, &room) &&
           schema_count(s, node, "minProperties", &f->min_properties) &&
           schema_count(s, node, "maxProperties", &f->max_properties) && read_names(s, node, f);
}
