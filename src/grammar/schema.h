/* schema.h - JSON Schemas on their way to a program.
 *
 * A schema is read into forms, of which a value must have one: a form is a conjunction of
 * constraints, a set of types and what each type must be like. What applies to the same value
 * ($ref, allOf, anyOf, if, not ...) is worked out into forms at once; what applies to a part of it
 * (a property, an item) stays a demand, a set of schemas and opposites of schemas that the part
 * must satisfy together, and becomes a rule of the program when it is first needed: recursion ends
 * there.
 *
 * Forms are exact: a value satisfies the schema if and only if it has one of them; where they are
 * only part of it, inexact says so and their opposite is refused. What is written is a part of the
 * forms (no needless escapes or white space, properties in order), never more. */
#ifndef GRAMMAR_SCHEMA_H
#define GRAMMAR_SCHEMA_H

#include "base/json.h"
#include "base/map.h"
#include "grammar/number.h"

enum {
    SCHEMA_FORMS = 2048,    /* of one value */
    SCHEMA_WORK = 200000,   /* forms met with each other, in all */
    SCHEMA_DEMANDS = 8192,  /* sets of schemas for parts */
    SCHEMA_NODES = 1 << 16, /* schemas that were met */
    SCHEMA_PROPERTIES = 4096,
    SCHEMA_REGIONS = 32,  /* disjoint sets of names by pattern */
    SCHEMA_COUNTED = 256, /* properties where their number is bounded */
    SCHEMA_CONTAINS = 64,
    SCHEMA_NESTING = 600, /* of references and applicators on one value */
    SCHEMA_INDENT = 64,   /* blanks behind a line's end */
};

enum {
    TYPE_NULL = 1,
    TYPE_FALSE = 2,
    TYPE_TRUE = 4,
    TYPE_WHOLE = 8,   /* whole numbers */
    TYPE_OTHERS = 16, /* other numbers */
    TYPE_STRING = 32,
    TYPE_ARRAY = 64,
    TYPE_OBJECT = 128,
    TYPE_ALL = 255
};

/* A demand's number; these two are always there. */
enum { DEMAND_NOTHING, DEMAND_NEVER };

typedef struct property {
    str name;
    uint32_t demand;
    bool required;
    bool evaluated; /* for unevaluatedProperties */
} property;

/* Names by pattern; regions of a form are disjoint. */
typedef struct region {
    const dfa *names; /* spelled as in JSON */
    uint32_t demand;
    bool evaluated;
} region;

typedef struct form {
    uint32_t types;
    bool inexact;
    bool has_values; /* one of these and nothing else matters */
    const json **values;
    uint32_t n_values;
    bounds numbers;
    const dfa *text;    /* NULL: any */
    const regex *loose; /* a pattern too large for an automaton; text is NULL then */
    uint32_t min_length, max_length;
    uint32_t *prefix; /* [n_prefix] demands */
    uint32_t n_prefix, items, min_items, max_items;
    uint32_t contains, min_contains, max_contains; /* DEMAND_NEVER: none */
    bool items_evaluated, prefix_open;             /* open: not counted as evaluated */
    property *properties;
    uint32_t n_properties;
    region *regions;
    uint32_t n_regions;
    uint32_t rest; /* demand on properties of other names */
    bool rest_evaluated;
    uint32_t min_properties, max_properties;
} form;

typedef struct forms {
    form **list;
    uint32_t n, room;
} forms;

/* A schema of the document. */
typedef struct schema_node {
    const json *value;
    const char *pointer;     /* for messages */
    uint32_t resource;       /* that its references start from */
    bool open;               /* being read */
    forms *forms, *opposite; /* NULL: not read yet */
} schema_node;

typedef struct resource {
    str uri;
    const json *value;
} resource;

typedef struct anchor {
    uint32_t resource;
    str name;
    const json *value;
} anchor;

typedef struct demand {
    uint32_t n;
    uint32_t *ids; /* node * 2 + 1 for its opposite, ascending */
    uint32_t rule; /* UINT32_MAX: none yet */
} demand;

typedef struct schema {
    program *p;
    map node_of;   /* by the address of its value */
    map demand_of; /* by its ids */
    schema_node **nodes;
    resource *resources;
    anchor *anchors;
    demand **demands;
    uint32_t n_nodes, n_resources, n_anchors, n_demands;
    uint32_t node_room, resource_room, anchor_room, demand_room;
    uint32_t *waiting; /* demands whose rules are not written yet */
    uint32_t n_waiting;
    uint32_t depth, work;
    uint32_t probing; /* looking ahead: what is not known yet is no failure */
    const dfa *any_text, *free_text, *any_name;
    const lexeme *space;
} schema;

/* ---- schema_node.c: places in the document ---- */
bool schema_index(schema *s, const json *root);
uint32_t schema_node_of(schema *s, const json *value, uint32_t resource, const char *pointer);
/* The schema at parent's value[key] (and [item] of it, if it is not SIZE_MAX). */
uint32_t schema_child(schema *s, uint32_t parent, const json *value, str key, const char *item);
/* What a reference of the node names; fails when that is not in the document. */
uint32_t schema_resolve(schema *s, uint32_t from, str reference);
void schema_fail(schema *s, uint32_t at, const char *keyword, weft_status status, const char *why);
/* Puts the place before a failure that names none. */
void schema_place(schema *s, uint32_t at);
void *schema_grow(schema *s, void *array, uint32_t n, uint32_t *room, size_t size);
char *schema_item_name(schema *s, size_t i);

/* ---- schema_read.c: keywords into forms ---- */
const forms *schema_forms(schema *s, uint32_t node);
/* That a value is a schema, as a demand. */
uint32_t schema_demand(schema *s, uint32_t node);
/* A keyword that is a count, where it is there. */
bool schema_count(schema *s, uint32_t node, const char *keyword, uint32_t *count);
/* The forms of a demand; NULL after a failure. */
const forms *demand_forms(schema *s, uint32_t demand);

/* ---- schema_apply.c: keywords that apply to the same value ---- */
/* Meets all with what they say; false after a failure. */
bool schema_apply(schema *s, uint32_t node, forms *all);

/* ---- schema_object.c: keywords of objects ---- */
bool schema_read_object(schema *s, uint32_t node, form *f);
bool form_require(schema *s, form *f, uint32_t *room, str name);

/* ---- schema_text.c: strings ---- */
bool schema_text_init(schema *s);
bool schema_read_text(schema *s, uint32_t node, form *f);
/* What strings of a form are spelled like, lengths apart; and names, lengths included. */
const dfa *form_text(schema *s, const form *f);
const dfa *schema_names_of(schema *s, const form *f);
const dfa *schema_names_like(schema *s, uint32_t node, const char *keyword, str pattern);

/* ---- schema_meet.c: both of two ---- */
form form_any(void); /* that any value has */
form *form_new(schema *s);
uint32_t demand_of_node(schema *s, uint32_t node, bool opposite);
uint32_t demand_meet(schema *s, uint32_t a, uint32_t b);
bool demand_is_empty(schema *s, uint32_t demand, uint32_t depth); /* proven */
/* NULL when nothing has both forms, or after a failure. */
form *form_meet(schema *s, const form *a, const form *b);
bool forms_add(schema *s, forms *all, form *f); /* f may be NULL */
bool forms_meet(schema *s, forms *all, const forms *with);
bool forms_are_apart(schema *s, const forms *a, const forms *b);
/* What a form says of a name. */
const property *form_property(const form *f, str name);
uint32_t form_demand_of(schema *s, const form *f, str name, bool *evaluated);

/* ---- schema_not.c: the opposite ---- */
const forms *schema_opposite(schema *s, uint32_t node);
forms *forms_opposite(schema *s, uint32_t node, const forms *all);

/* ---- schema_admit.c: whether a given value has a form ---- */
uint32_t value_type(const json *value);
bool form_admits(schema *s, const form *f, const json *value);
bool json_equal_values(const json *a, const json *b);

/* ---- schema_emit.c, schema_emit_parts.c: what is written ---- */
uint32_t demand_call(schema *s, uint32_t demand, uint32_t next);
uint32_t form_write(schema *s, const form *f, uint32_t next);
uint32_t write_space(schema *s, uint32_t next);
uint32_t write_object(schema *s, const form *f, uint32_t next);
uint32_t write_array(schema *s, const form *f, uint32_t next);
uint32_t write_values(schema *s, const form *f, uint32_t next);

#endif
