/* schema_apply.c - keywords whose schemas apply to the same value: each meets the forms so far. */
#include <string.h>

#include "grammar/schema.h"

static const json *keyword_of(schema *s, uint32_t node, const char *keyword)
{
    return json_get(s->nodes[node]->value, keyword);
}

/* The forms of the schema at a keyword, and item of it. */
static uint32_t child_of(schema *s, uint32_t node, const char *keyword, const json *value,
                         const char *item)
{
    uint32_t child = schema_child(s, node, value, str_of(keyword), item);
    (void)schema_demand(s, child);
    return child;
}

/* All of other's forms, too. */
static bool join(schema *s, forms *all, const forms *other)
{
    for (uint32_t i = 0; other != NULL && i < other->n; i++)
        if (!forms_add(s, all, other->list[i])) return false;
    return other != NULL;
}

static bool apply_reference(schema *s, uint32_t node, forms *all)
{
    const json *value = keyword_of(s, node, "$ref");
    if (value == NULL) return true;
    if (json_kind_of(value) != JSON_KIND_TEXT) {
        schema_fail(s, node, "$ref", WEFT_FORMAT, "is no text");
        return false;
    }
    uint32_t target = schema_resolve(s, node, json_text(value));
    if (s->p->status != WEFT_OK) return false;
    (void)schema_demand(s, target);
    return s->p->status == WEFT_OK && forms_meet(s, all, schema_forms(s, target));
}

/* An array of at least one schema; NULL when the keyword is not there, or after a failure. */
static const json *list_of(schema *s, uint32_t node, const char *keyword)
{
    const json *list = keyword_of(s, node, keyword);
    if (list == NULL) return NULL;
    if (json_kind_of(list) == JSON_KIND_ARRAY && json_length(list) > 0) return list;
    schema_fail(s, node, keyword, WEFT_FORMAT, "is no array of schemas");
    return NULL;
}

/* The nodes of such a list. */
static uint32_t *children_of(schema *s, uint32_t node, const char *keyword, const json *list)
{
    size_t n = json_length(list);
    uint32_t *children = program_alloc(s->p, n, sizeof *children);
    for (size_t i = 0; i < n && s->p->status == WEFT_OK; i++) {
        const char *item = schema_item_name(s, i);
        if (item != NULL) children[i] = child_of(s, node, keyword, json_at(list, i), item);
    }
    return s->p->status == WEFT_OK ? children : NULL;
}

static bool apply_all(schema *s, uint32_t node, forms *all)
{
    const json *list = list_of(s, node, "allOf");
    if (list == NULL) return s->p->status == WEFT_OK;
    const uint32_t *children = children_of(s, node, "allOf", list);
    for (size_t i = 0; children != NULL && i < json_length(list); i++)
        if (!forms_meet(s, all, schema_forms(s, children[i]))) return false;
    return children != NULL;
}

static bool apply_any(schema *s, uint32_t node, forms *all)
{
    const json *list = list_of(s, node, "anyOf");
    if (list == NULL) return s->p->status == WEFT_OK;
    const uint32_t *children = children_of(s, node, "anyOf", list);
    forms any = {NULL, 0, 0};
    for (size_t i = 0; children != NULL && i < json_length(list); i++)
        if (!join(s, &any, schema_forms(s, children[i]))) return false;
    return children != NULL && forms_meet(s, all, &any);
}

/* Whether no value has two of the schemas: proven from their forms. */
static bool are_apart(schema *s, const uint32_t *children, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            const forms *a = schema_forms(s, children[i]), *b = schema_forms(s, children[k]);
            if (a == NULL || b == NULL || !forms_are_apart(s, a, b)) return false;
        }
    return true;
}

/* Each one without the others, where they may overlap. */
static bool apply_one(schema *s, uint32_t node, forms *all)
{
    const json *list = list_of(s, node, "oneOf");
    if (list == NULL) return s->p->status == WEFT_OK;
    const uint32_t *children = children_of(s, node, "oneOf", list);
    size_t n = json_length(list);
    if (children == NULL) return false;
    bool apart = are_apart(s, children, n);
    forms any = {NULL, 0, 0};
    for (size_t i = 0; i < n && s->p->status == WEFT_OK; i++) {
        const forms *one = schema_forms(s, children[i]);
        if (one == NULL) return false;
        forms alone = {NULL, 0, 0};
        if (!join(s, &alone, one)) return false;
        for (size_t k = 0; k < n && !apart; k++) {
            if (k == i || forms_are_apart(s, &alone, schema_forms(s, children[k]))) continue;
            const forms *without = schema_opposite(s, children[k]);
            if (without == NULL && s->p->status == WEFT_UNSUPPORTED)
                err_context(s->p->err, "oneOf of schemas that overlap: ");
            if (!forms_meet(s, &alone, without)) return false;
        }
        if (!join(s, &any, &alone)) return false;
    }
    return forms_meet(s, all, &any);
}

static bool apply_not(schema *s, uint32_t node, forms *all)
{
    const json *value = keyword_of(s, node, "not");
    if (value == NULL) return true;
    uint32_t child = child_of(s, node, "not", value, NULL);
    return s->p->status == WEFT_OK && forms_meet(s, all, schema_opposite(s, child));
}

/* (if and then) or (not if, and else). */
static bool apply_if(schema *s, uint32_t node, forms *all)
{
    const json *condition = keyword_of(s, node, "if");
    const json *then = keyword_of(s, node, "then"), *otherwise = keyword_of(s, node, "else");
    if (condition == NULL || (then == NULL && otherwise == NULL)) return true;
    uint32_t child = child_of(s, node, "if", condition, NULL);
    forms yes = {NULL, 0, 0}, no = {NULL, 0, 0};
    if (s->p->status != WEFT_OK || !join(s, &yes, schema_forms(s, child)) ||
        !join(s, &no, schema_opposite(s, child)))
        return false;
    if (then != NULL &&
        !forms_meet(s, &yes, schema_forms(s, child_of(s, node, "then", then, NULL))))
        return false;
    if (otherwise != NULL &&
        !forms_meet(s, &no, schema_forms(s, child_of(s, node, "else", otherwise, NULL))))
        return false;
    return join(s, &yes, &no) && forms_meet(s, all, &yes);
}

/* ---- what follows from a property's being there ---- */

/* A form of values that lack the property. */
static form *form_lacking(schema *s, str name)
{
    form *f = form_new(s);
    property *x = program_alloc(s->p, 1, sizeof *x);
    if (f == NULL || x == NULL) return NULL;
    *x = (property){name, DEMAND_NEVER, false, false};
    f->properties = x;
    f->n_properties = 1;
    return f;
}

static bool meet_if_there(schema *s, forms *all, str name, form *then, const forms *more)
{
    forms either = {NULL, 0, 0}, there = {NULL, 0, 0};
    uint32_t room = then == NULL ? 0 : then->n_properties;
    if (then == NULL) return false;
    then->types = TYPE_OBJECT;
    if (!form_require(s, then, &room, name) || !forms_add(s, &there, then)) return false;
    if (more != NULL && !forms_meet(s, &there, more)) return false;
    return forms_add(s, &either, form_lacking(s, name)) && join(s, &either, &there) &&
           forms_meet(s, all, &either);
}

static bool apply_dependent_names(schema *s, uint32_t node, forms *all)
{
    const json *object = keyword_of(s, node, "dependentRequired"), *names;
    json_iter it = {NULL};
    str key;
    if (object != NULL && json_kind_of(object) != JSON_KIND_OBJECT)
        schema_fail(s, node, "dependentRequired", WEFT_FORMAT, "is no object");
    while (s->p->status == WEFT_OK && json_next(object, &it, &key, &names)) {
        form *then = form_new(s);
        uint32_t room = 0;
        if (then == NULL) return false;
        if (json_kind_of(names) != JSON_KIND_ARRAY)
            schema_fail(s, node, "dependentRequired", WEFT_FORMAT, "is no object of arrays");
        for (size_t i = 0; i < json_length(names); i++) {
            if (json_kind_of(json_at(names, i)) != JSON_KIND_TEXT)
                schema_fail(s, node, "dependentRequired", WEFT_FORMAT, "has what is no name");
            if (!form_require(s, then, &room, json_text(json_at(names, i)))) return false;
        }
        if (s->p->status != WEFT_OK || !meet_if_there(s, all, key, then, NULL)) return false;
    }
    return s->p->status == WEFT_OK;
}

static bool apply_dependent_schemas(schema *s, uint32_t node, forms *all)
{
    const json *object = keyword_of(s, node, "dependentSchemas"), *value;
    json_iter it = {NULL};
    str key;
    if (object != NULL && json_kind_of(object) != JSON_KIND_OBJECT)
        schema_fail(s, node, "dependentSchemas", WEFT_FORMAT, "is no object");
    while (s->p->status == WEFT_OK && json_next(object, &it, &key, &value)) {
        char *item = arena_copy_text(s->p->memory, key.ptr, key.len);
        if (item == NULL) {
            program_fail(s->p, WEFT_NOMEM, "out of memory for the name of a property");
            return false;
        }
        uint32_t child = child_of(s, node, "dependentSchemas", value, item);
        if (s->p->status != WEFT_OK) return false;
        const forms *more = schema_forms(s, child);
        if (more == NULL || !meet_if_there(s, all, key, form_new(s), more)) return false;
    }
    return s->p->status == WEFT_OK;
}

bool schema_apply(schema *s, uint32_t node, forms *all)
{
    return apply_reference(s, node, all) && apply_all(s, node, all) && apply_any(s, node, all) &&
           apply_one(s, node, all) && apply_not(s, node, all) && apply_if(s, node, all) &&
           apply_dependent_names(s, node, all) && apply_dependent_schemas(s, node, all);
}
