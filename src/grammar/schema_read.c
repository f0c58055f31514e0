/* schema_read.c - a schema's keywords into forms. Source: JSON Schema validation 2020-12. */
#include <stdio.h>
#include <string.h>

#include "grammar/schema.h"
#include "grammar/sources.h"

enum { REFERENCE_HOPS = 64 };

/* ---- keywords ---- */

typedef enum keyword_use {
    APPLIES,
    SAYS_NOTHING, /* annotations, and what others point into */
    REFUSED       /* would have to be honoured, and is not */
} keyword_use;

/* What is not in the table is an annotation, as the standard has it. */
static const struct {
    const char *name;
    keyword_use use;
    const char *why; /* for REFUSED */
} KEYWORDS[] = {
    {"type", APPLIES, NULL},
    {"enum", APPLIES, NULL},
    {"const", APPLIES, NULL},
    {"minimum", APPLIES, NULL},
    {"maximum", APPLIES, NULL},
    {"exclusiveMinimum", APPLIES, NULL},
    {"exclusiveMaximum", APPLIES, NULL},
    {"multipleOf", APPLIES, NULL},
    {"minLength", APPLIES, NULL},
    {"maxLength", APPLIES, NULL},
    {"pattern", APPLIES, NULL},
    {"format", APPLIES, NULL},
    {"prefixItems", APPLIES, NULL},
    {"items", APPLIES, NULL},
    {"minItems", APPLIES, NULL},
    {"maxItems", APPLIES, NULL},
    {"uniqueItems", APPLIES, NULL},
    {"contains", APPLIES, NULL},
    {"minContains", APPLIES, NULL},
    {"maxContains", APPLIES, NULL},
    {"properties", APPLIES, NULL},
    {"patternProperties", APPLIES, NULL},
    {"additionalProperties", APPLIES, NULL},
    {"propertyNames", APPLIES, NULL},
    {"required", APPLIES, NULL},
    {"minProperties", APPLIES, NULL},
    {"maxProperties", APPLIES, NULL},
    {"dependentRequired", APPLIES, NULL},
    {"dependentSchemas", APPLIES, NULL},
    {"$ref", APPLIES, NULL},
    {"allOf", APPLIES, NULL},
    {"anyOf", APPLIES, NULL},
    {"oneOf", APPLIES, NULL},
    {"not", APPLIES, NULL},
    {"if", APPLIES, NULL},
    {"then", APPLIES, NULL},
    {"else", APPLIES, NULL},
    {"unevaluatedItems", APPLIES, NULL},
    {"unevaluatedProperties", APPLIES, NULL},
    {"$defs", SAYS_NOTHING, NULL},
    {"definitions", SAYS_NOTHING, NULL},
    {"$id", SAYS_NOTHING, NULL},
    {"$anchor", SAYS_NOTHING, NULL},
    {"$dynamicAnchor", SAYS_NOTHING, NULL},
    {"$schema", SAYS_NOTHING, NULL},
    {"$comment", SAYS_NOTHING, NULL},
    {"$dynamicRef", REFUSED, "is not supported: what it names depends on who asks"},
    {"$recursiveRef", REFUSED, "is not supported: it is of another draft; use $ref"},
    {"$vocabulary", REFUSED, "is not supported: only the standard's vocabularies are known"},
    {"dependencies", REFUSED,
     "is not supported: it is of another draft; use dependentRequired or dependentSchemas"},
    {"additionalItems", REFUSED, "is not supported: it is of another draft; use items"},
};

static bool check_keywords(schema *s, uint32_t node)
{
    for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
        if (KEYWORDS[i].use != REFUSED) continue;
        if (json_get(s->nodes[node]->value, KEYWORDS[i].name) == NULL) continue;
        schema_fail(s, node, KEYWORDS[i].name, WEFT_UNSUPPORTED, KEYWORDS[i].why);
        return false;
    }
    return true;
}

bool schema_count(schema *s, uint32_t node, const char *keyword, uint32_t *count)
{
    const json *value = json_get(s->nodes[node]->value, keyword);
    decimal d;
    if (value == NULL) return true;
    if (!decimal_of(value, &d) || !decimal_is_whole(&d) || d.negative) {
        schema_fail(s, node, keyword, WEFT_FORMAT, "is no whole number of at least 0");
        return false;
    }
    double number = json_number(value, 0);
    if (number > REGEX_REPEATS) {
        schema_fail(s, node, keyword, WEFT_LIMIT, "is larger than 2^30");
        return false;
    }
    *count = (uint32_t)number;
    return true;
}

/* ---- types ---- */

static uint32_t type_named(str name)
{
    static const struct {
        const char *name;
        uint32_t types;
    } TYPES[] = {
        {"null", TYPE_NULL},     {"boolean", TYPE_FALSE | TYPE_TRUE},
        {"integer", TYPE_WHOLE}, {"number", TYPE_WHOLE | TYPE_OTHERS},
        {"string", TYPE_STRING}, {"array", TYPE_ARRAY},
        {"object", TYPE_OBJECT},
    };
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (str_equal_text(name, TYPES[i].name)) return TYPES[i].types;
    return 0;
}

static bool read_types(schema *s, uint32_t node, form *f)
{
    const json *value = json_get(s->nodes[node]->value, "type");
    if (value == NULL) return true;
    bool list = json_kind_of(value) == JSON_KIND_ARRAY;
    size_t n = list ? json_length(value) : 1;
    uint32_t types = 0;
    for (size_t i = 0; i < n; i++) {
        const json *item = list ? json_at(value, i) : value;
        uint32_t one = json_kind_of(item) == JSON_KIND_TEXT ? type_named(json_text(item)) : 0;
        if (one == 0) {
            schema_fail(s, node, "type", WEFT_FORMAT, "is not the name of a type");
            return false;
        }
        types |= one;
    }
    f->types &= types;
    return true;
}

/* ---- numbers ---- */

static bool read_bound(schema *s, uint32_t node, const char *keyword, bounds *b)
{
    const json *value = json_get(s->nodes[node]->value, keyword);
    if (value == NULL) return true;
    decimal d;
    if (!decimal_of(value, &d)) {
        schema_fail(s, node, keyword, WEFT_FORMAT, "is no number");
        return false;
    }
    bounds one = {0};
    if (strstr(keyword, "inimum") != NULL) {
        one.has_low = true;
        one.low = d;
        one.above_low = *keyword == 'e';
    } else if (strstr(keyword, "aximum") != NULL) {
        one.has_high = true;
        one.high = d;
        one.below_high = *keyword == 'e';
    } else if (d.n == 0 || d.negative) {
        schema_fail(s, node, keyword, WEFT_FORMAT, "is not above 0");
        return false;
    } else if (!multiple_of(&d, &one.step)) {
        schema_fail(s, node, keyword, WEFT_LIMIT, "has too many digits: 4000 is the largest");
        return false;
    }
    const bounds before = *b;
    return bounds_meet(&before, &one, b);
}

static bool read_numbers(schema *s, uint32_t node, form *f)
{
    static const char *const BOUNDS[] = {"minimum", "maximum", "exclusiveMinimum",
                                         "exclusiveMaximum", "multipleOf"};
    for (size_t i = 0; i < sizeof BOUNDS / sizeof *BOUNDS; i++)
        if (!read_bound(s, node, BOUNDS[i], &f->numbers)) return false;
    return true;
}

/* ---- values ---- */

static bool read_values(schema *s, uint32_t node, form *f, const char *keyword)
{
    const json *value = json_get(s->nodes[node]->value, keyword);
    bool list = *keyword == 'e';
    if (value == NULL) return true;
    if (list && json_kind_of(value) != JSON_KIND_ARRAY) {
        schema_fail(s, node, keyword, WEFT_FORMAT, "is no array");
        return false;
    }
    size_t n = list ? json_length(value) : 1;
    f->values = program_alloc(s->p, n + 1, sizeof(json *));
    if (f->values == NULL) return false;
    f->has_values = true;
    f->n_values = 0;
    f->types = 0;
    for (size_t i = 0; i < n; i++) {
        const json *item = list ? json_at(value, i) : value;
        f->values[f->n_values++] = item;
        f->types |= value_type(item);
    }
    return true;
}

/* ---- arrays ---- */

static bool read_prefix(schema *s, uint32_t node, form *f)
{
    const json *list = json_get(s->nodes[node]->value, "prefixItems");
    if (list == NULL) return true;
    size_t n = json_length(list);
    if (json_kind_of(list) != JSON_KIND_ARRAY || n > SCHEMA_PROPERTIES) {
        schema_fail(s, node, "prefixItems", WEFT_FORMAT, "is no array of up to 4096 schemas");
        return false;
    }
    f->prefix = program_alloc(s->p, n + 1, sizeof *f->prefix);
    for (size_t i = 0; i < n && s->p->status == WEFT_OK; i++) {
        const char *item = schema_item_name(s, i);
        if (item == NULL) return false;
        uint32_t child = schema_child(s, node, json_at(list, i), str_of("prefixItems"), item);
        if (s->p->status == WEFT_OK) f->prefix[i] = schema_demand(s, child);
    }
    f->n_prefix = (uint32_t)n;
    return s->p->status == WEFT_OK;
}

static bool read_contains(schema *s, uint32_t node, form *f)
{
    const json *value = json_get(s->nodes[node]->value, "contains");
    if (value == NULL) return true;
    f->min_contains = 1;
    if (!schema_count(s, node, "minContains", &f->min_contains) ||
        !schema_count(s, node, "maxContains", &f->max_contains))
        return false;
    uint32_t child = schema_child(s, node, value, str_of("contains"), NULL);
    if (s->p->status != WEFT_OK) return false;
    f->contains = schema_demand(s, child);
    if (f->contains == DEMAND_NEVER) {
        /* Nothing is contained: arrays are refused, or it says nothing. */
        if (f->min_contains > 0) f->types &= ~(uint32_t)TYPE_ARRAY;
        return s->p->status == WEFT_OK;
    }
    if (f->min_contains == 0 && f->max_contains == PROGRAM_ENDLESS) f->contains = DEMAND_NEVER;
    return true;
}

static bool read_arrays(schema *s, uint32_t node, form *f)
{
    const json *object = s->nodes[node]->value;
    if (!read_prefix(s, node, f) || !read_contains(s, node, f) ||
        !schema_count(s, node, "minItems", &f->min_items) ||
        !schema_count(s, node, "maxItems", &f->max_items))
        return false;
    const json *items = json_get(object, "items");
    if (json_kind_of(items) == JSON_KIND_ARRAY) {
        schema_fail(s, node, "items", WEFT_UNSUPPORTED,
                    "is an array, as in another draft; use prefixItems");
        return false;
    }
    if (items != NULL) {
        uint32_t child = schema_child(s, node, items, str_of("items"), NULL);
        if (s->p->status != WEFT_OK) return false;
        f->items = schema_demand(s, child);
        f->items_evaluated = true;
    }
    uint32_t most = f->max_items;
    if (f->items == DEMAND_NEVER && f->n_prefix < most) most = f->n_prefix;
    const json *unique = json_get(object, "uniqueItems");
    if (unique != NULL && json_kind_of(unique) != JSON_KIND_BOOL) {
        schema_fail(s, node, "uniqueItems", WEFT_FORMAT, "is neither true nor false");
        return false;
    }
    if (json_bool(unique, false) && most > 1) {
        schema_fail(s, node, "uniqueItems", WEFT_UNSUPPORTED,
                    "is not supported for arrays of more than one item");
        return false;
    }
    return true;
}

/* ---- unevaluated parts ---- */

static bool apply_unevaluated(schema *s, uint32_t node, forms *all)
{
    const json *object = s->nodes[node]->value;
    const json *items = json_get(object, "unevaluatedItems");
    const json *others = json_get(object, "unevaluatedProperties");
    if (items == NULL && others == NULL) return true;
    uint32_t item_node =
        items == NULL ? 0 : schema_child(s, node, items, str_of("unevaluatedItems"), NULL);
    uint32_t other_node =
        others == NULL ? 0 : schema_child(s, node, others, str_of("unevaluatedProperties"), NULL);
    if (s->p->status != WEFT_OK) return false;
    uint32_t item = items == NULL ? DEMAND_NOTHING : schema_demand(s, item_node);
    uint32_t other = others == NULL ? DEMAND_NOTHING : schema_demand(s, other_node);
    for (uint32_t i = 0; i < all->n && s->p->status == WEFT_OK; i++) {
        form *f = all->list[i];
        if (f->has_values) {
            schema_fail(s, node, "", WEFT_UNSUPPORTED,
                        "has 'unevaluated...' beside 'enum' or 'const'");
            return false;
        }
        if (items != NULL && f->prefix_open) {
            schema_fail(s, node, "unevaluatedItems", WEFT_UNSUPPORTED, "stands beside a 'not'");
            return false;
        }
        f->inexact = true;
        if (items != NULL && !f->items_evaluated) f->items = demand_meet(s, f->items, item);
        if (items != NULL) f->items_evaluated = true;
        if (others == NULL) continue;
        for (uint32_t k = 0; k < f->n_properties; k++) {
            property *x = &f->properties[k];
            if (!x->evaluated) x->demand = demand_meet(s, x->demand, other);
            x->evaluated = true;
        }
        for (uint32_t k = 0; k < f->n_regions; k++) {
            region *x = &f->regions[k];
            if (!x->evaluated) x->demand = demand_meet(s, x->demand, other);
            x->evaluated = true;
        }
        if (!f->rest_evaluated) f->rest = demand_meet(s, f->rest, other);
        f->rest_evaluated = true;
    }
    return s->p->status == WEFT_OK;
}

/* ---- forms ---- */

/* Whether a schema is a reference and nothing else. */
static bool is_reference(const json *value)
{
    if (json_kind_of(json_get(value, "$ref")) != JSON_KIND_TEXT) return false;
    for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++) {
        bool matters = KEYWORDS[i].use != SAYS_NOTHING && strcmp(KEYWORDS[i].name, "$ref") != 0;
        if (matters && json_get(value, KEYWORDS[i].name) != NULL) return false;
    }
    return true;
}

/* What a node is demanded for: that which its references lead to, so that all that lead there share
 * a rule. One that leads in a circle is itself, and refused when it is read. */
static uint32_t target_of(schema *s, uint32_t node)
{
    uint32_t at = node;
    for (uint32_t hop = 0; hop < REFERENCE_HOPS; hop++) {
        const json *value = s->nodes[at]->value;
        if (s->p->status != WEFT_OK || !is_reference(value)) return at;
        at = schema_resolve(s, at, json_text(json_get(value, "$ref")));
    }
    return node;
}

uint32_t schema_demand(schema *s, uint32_t node)
{
    if (s->p->status != WEFT_OK) return DEMAND_NEVER;
    json_kind kind = json_kind_of(s->nodes[node]->value);
    if (kind != JSON_KIND_BOOL && kind != JSON_KIND_OBJECT) {
        char why[80];
        snprintf(why, sizeof why, "is %s where a schema belongs", json_kind_name(kind));
        schema_fail(s, node, "", WEFT_FORMAT, why);
        return DEMAND_NEVER;
    }
    uint32_t target = target_of(s, node);
    json_kind of_target = json_kind_of(s->nodes[target]->value);
    /* What is no schema is said where it is read. */
    if (of_target != JSON_KIND_BOOL && of_target != JSON_KIND_OBJECT) target = node;
    return s->p->status == WEFT_OK ? demand_of_node(s, target, false) : DEMAND_NEVER;
}

/* The keywords that speak of a value by themselves: a form of each of enum, const and the rest. */
static bool read_plain(schema *s, uint32_t node, forms *all)
{
    form *f = form_new(s);
    if (f == NULL || !read_types(s, node, f) || !read_numbers(s, node, f) ||
        !schema_read_text(s, node, f) || !read_arrays(s, node, f) ||
        !schema_read_object(s, node, f))
        return false;
    if (f->types != 0 && !forms_add(s, all, f)) return false;
    static const char *const VALUES[] = {"enum", "const"};
    for (size_t i = 0; i < 2; i++) {
        form *values = form_new(s);
        if (values == NULL || !read_values(s, node, values, VALUES[i])) return false;
        forms one = {&values, 1, 1};
        if (values->has_values && !forms_meet(s, all, &one)) return false;
    }
    return true;
}

static forms *read_forms(schema *s, uint32_t node)
{
    forms *all = program_alloc(s->p, 1, sizeof *all);
    const json *value = s->nodes[node]->value;
    if (all == NULL) return NULL;
    if (json_kind_of(value) == JSON_KIND_BOOL) {
        if (json_bool(value, false) && !forms_add(s, all, form_new(s))) return NULL;
        return all;
    }
    (void)schema_demand(s, node); /* that it is a schema */
    if (s->p->status != WEFT_OK || !check_keywords(s, node) || !read_plain(s, node, all) ||
        !schema_apply(s, node, all) || !apply_unevaluated(s, node, all))
        return NULL;
    return all;
}

const forms *schema_forms(schema *s, uint32_t node)
{
    if (s->p->status != WEFT_OK) return NULL;
    schema_node *n = s->nodes[node];
    if (n->forms != NULL) return n->forms;
    if (n->open && s->probing > 0) return NULL;
    if (n->open) {
        schema_fail(s, node, "", WEFT_UNSUPPORTED, "refers to itself for one and the same value");
        return NULL;
    }
    if (s->depth == SCHEMA_NESTING) {
        schema_fail(s, node, "", WEFT_LIMIT, "is nested too deep");
        return NULL;
    }
    n->open = true;
    s->depth++;
    forms *all = read_forms(s, node);
    s->depth--;
    n->open = false;
    schema_place(s, node);
    if (s->p->status != WEFT_OK) return NULL;
    n->forms = all;
    return all;
}

const forms *demand_forms(schema *s, uint32_t demand_i)
{
    forms *all = program_alloc(s->p, 1, sizeof *all);
    if (all == NULL || demand_i == DEMAND_NEVER) return all;
    if (!forms_add(s, all, form_new(s))) return NULL;
    if (demand_i == DEMAND_NOTHING) return all;
    const demand *d = s->demands[demand_i];
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t node = d->ids[i] / 2;
        const forms *one = d->ids[i] % 2 == 0 ? schema_forms(s, node) : schema_opposite(s, node);
        if (d->n == 1) return one;
        if (!forms_meet(s, all, one)) return NULL;
    }
    return all;
}

/* ---- the whole ---- */

static bool begin(schema *s)
{
    weft_status status = map_init(&s->node_of, s->p->memory->allocator, 64, s->p->err);
    if (status == WEFT_OK) status = map_init(&s->demand_of, s->p->memory->allocator, 64, s->p->err);
    if (status != WEFT_OK) s->p->status = status;
    s->demands = program_alloc(s->p, 16, sizeof(demand *));
    s->waiting = program_alloc(s->p, SCHEMA_DEMANDS, sizeof *s->waiting);
    demand *fixed = program_alloc(s->p, 2, sizeof *fixed);
    if (s->p->status != WEFT_OK) return false;
    s->demand_room = 16;
    for (uint32_t i = 0; i < 2; i++) {
        fixed[i].rule = UINT32_MAX;
        s->demands[s->n_demands++] = &fixed[i];
    }
    return schema_text_init(s);
}

static void write_rules(schema *s)
{
    program *p = s->p;
    while (s->n_waiting > 0 && p->status == WEFT_OK) {
        uint32_t at = s->waiting[--s->n_waiting];
        const forms *all = demand_forms(s, at);
        uint32_t any = NODE_FAIL;
        for (uint32_t i = 0; all != NULL && i < all->n && p->status == WEFT_OK; i++)
            any = node_split(p, form_write(s, all->list[i], NODE_RETURN), any);
        if (p->status == WEFT_OK) p->rules[s->demands[at]->rule].start = any;
        if (s->demands[at]->n > 0) schema_place(s, s->demands[at]->ids[0] / 2);
    }
}

static uint32_t compile(schema *s, const json *root, uint32_t next)
{
    if (!begin(s) || !schema_index(s, root)) return NODE_FAIL;
    uint32_t node = schema_node_of(s, root, 0, "");
    uint32_t first = s->p->status == WEFT_OK ? schema_demand(s, node) : DEMAND_NEVER;
    if (s->p->status != WEFT_OK) return NODE_FAIL;
    if (first == DEMAND_NEVER) {
        schema_fail(s, node, "", WEFT_ARGUMENT, "is false: no text satisfies it");
        return NODE_FAIL;
    }
    uint32_t call = demand_call(s, first, next);
    write_rules(s);
    return call;
}

uint32_t node_schema(program *p, const json *root, uint32_t next)
{
    schema s = {.p = p};
    uint32_t call = compile(&s, root, next);
    map_deinit(&s.node_of);
    map_deinit(&s.demand_of);
    return call;
}

void source_schema(program *p, str text)
{
    json_doc doc = {NULL};
    weft_status status = json_parse(&doc, text.ptr, text.len, p->err);
    if (status != WEFT_OK) {
        err_context(p->err, "the schema is no JSON: ");
        p->status = status;
        return;
    }
    (void)node_schema(p, doc.root, NODE_RETURN); /* its first rule is rule 0 */
    json_doc_free(&doc);
}
