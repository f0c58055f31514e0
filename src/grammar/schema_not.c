/* schema_not.c - what does not have a form, as forms: it breaks one of its constraints. */
#include <stdio.h>

#include "grammar/schema.h"

typedef struct opposite {
    schema *s;
    uint32_t node; /* for messages */
    forms *all;    /* what was found */
} opposite;

static form *add(opposite *o, uint32_t types)
{
    form *f = form_new(o->s);
    if (f == NULL) return NULL;
    f->types = types;
    return types != 0 && forms_add(o->s, o->all, f) ? f : NULL;
}

static void refuse(opposite *o, const char *what)
{
    char why[120];
    snprintf(why, sizeof why, "cannot be negated (by not, if or oneOf): %s", what);
    schema_fail(o->s, o->node, "", WEFT_UNSUPPORTED, why);
}

static void negate_numbers(opposite *o, const form *f)
{
    uint32_t types = f->types & (TYPE_WHOLE | TYPE_OTHERS);
    const bounds *b = &f->numbers;
    if (types == 0) return;
    if (b->step.unit != 0) refuse(o, "multipleOf");
    if (b->has_low) {
        form *below = add(o, types);
        if (below == NULL) return;
        below->numbers.has_high = true;
        below->numbers.high = b->low;
        below->numbers.below_high = !b->above_low;
    }
    if (b->has_high) {
        form *above = add(o, types);
        if (above == NULL) return;
        above->numbers.has_low = true;
        above->numbers.low = b->high;
        above->numbers.above_low = !b->below_high;
    }
}

static void negate_texts(opposite *o, const form *f)
{
    schema *s = o->s;
    if ((f->types & TYPE_STRING) == 0) return;
    if (f->min_length > 0) {
        form *shorter = add(o, TYPE_STRING);
        if (shorter != NULL) shorter->max_length = f->min_length - 1;
    }
    if (f->max_length != LEXEME_ENDLESS) {
        form *longer = add(o, TYPE_STRING);
        if (longer != NULL) longer->min_length = f->max_length + 1;
    }
    if (f->text == NULL && f->loose == NULL) return;
    const dfa *rest = dfa_without(s->p, s->any_text, form_text(s, f));
    if (rest == NULL || dfa_is_empty(rest)) return;
    form *others = add(o, TYPE_STRING);
    if (others != NULL) others->text = rest;
}

/* The demand of what does not satisfy one. */
static uint32_t negate_demand(opposite *o, uint32_t demand_i)
{
    if (demand_i == DEMAND_NOTHING) return DEMAND_NEVER;
    if (demand_i == DEMAND_NEVER) return DEMAND_NOTHING;
    const demand *d = o->s->demands[demand_i];
    if (d->n != 1) {
        refuse(o, "several schemas for one part");
        return DEMAND_NEVER;
    }
    return demand_of_node(o->s, d->ids[0] / 2, d->ids[0] % 2 == 0);
}

static void negate_arrays(opposite *o, const form *f)
{
    if ((f->types & TYPE_ARRAY) == 0) return;
    if (f->contains != DEMAND_NEVER) refuse(o, "contains");
    /* No items beyond the prefix: a bound on their number. */
    uint32_t most = f->max_items;
    if (f->items == DEMAND_NEVER && f->n_prefix < most) most = f->n_prefix;
    if (f->items != DEMAND_NEVER && f->items != DEMAND_NOTHING) refuse(o, "items");
    if (f->min_items > 0) {
        form *fewer = add(o, TYPE_ARRAY);
        if (fewer != NULL) fewer->max_items = f->min_items - 1;
    }
    if (most != PROGRAM_ENDLESS) {
        form *more = add(o, TYPE_ARRAY);
        if (more != NULL) more->min_items = most + 1;
    }
    for (uint32_t i = 0; i < f->n_prefix && o->s->p->status == WEFT_OK; i++) {
        if (f->prefix[i] == DEMAND_NOTHING) continue;
        form *other = add(o, TYPE_ARRAY);
        if (other == NULL) return;
        other->prefix = program_alloc(o->s->p, (size_t)i + 1, sizeof *other->prefix);
        if (other->prefix == NULL) return;
        other->prefix[i] = negate_demand(o, f->prefix[i]);
        other->n_prefix = other->min_items = i + 1;
        other->prefix_open = true;
    }
}

static form *with_property(opposite *o, str name, uint32_t what, bool required)
{
    form *f = add(o, TYPE_OBJECT);
    property *x = program_alloc(o->s->p, 1, sizeof *x);
    if (f == NULL || x == NULL) return NULL;
    *x = (property){name, what, required, false};
    f->properties = x;
    f->n_properties = 1;
    return f;
}

static void negate_objects(opposite *o, const form *f)
{
    if ((f->types & TYPE_OBJECT) == 0) return;
    if (f->n_regions != 0) refuse(o, "patternProperties or propertyNames");
    if (f->rest != DEMAND_NOTHING) refuse(o, "additionalProperties");
    if (f->min_properties > 0) {
        form *fewer = add(o, TYPE_OBJECT);
        if (fewer != NULL) fewer->max_properties = f->min_properties - 1;
    }
    if (f->max_properties != PROGRAM_ENDLESS) {
        form *more = add(o, TYPE_OBJECT);
        if (more != NULL) more->min_properties = f->max_properties + 1;
    }
    for (uint32_t i = 0; i < f->n_properties && o->s->p->status == WEFT_OK; i++) {
        const property *x = &f->properties[i];
        if (x->required) (void)with_property(o, x->name, DEMAND_NEVER, false);
        if (x->demand != DEMAND_NOTHING)
            (void)with_property(o, x->name, negate_demand(o, x->demand), true);
    }
}

/* Other values than these. */
static void negate_values(opposite *o, const form *f)
{
    schema *s = o->s;
    form *rest = add(o, TYPE_ALL & ~(uint32_t)(f->types & (TYPE_NULL | TYPE_FALSE | TYPE_TRUE)));
    str *words = program_alloc(s->p, (size_t)f->n_values + 1, sizeof *words);
    uint32_t n = 0;
    if (rest == NULL || words == NULL) return;
    forms all = {NULL, 0, 0};
    if (!forms_add(s, &all, rest)) return;
    for (uint32_t i = 0; i < f->n_values && s->p->status == WEFT_OK; i++) {
        uint32_t type = value_type(f->values[i]);
        if (type == TYPE_STRING) words[n++] = json_text(f->values[i]);
        if ((type & (TYPE_ARRAY | TYPE_OBJECT)) != 0) refuse(o, "an array or object as a value");
        if ((type & (TYPE_WHOLE | TYPE_OTHERS)) == 0) continue;
        form not_number = form_any(), below = form_any(), above = form_any();
        not_number.types = TYPE_ALL & ~(uint32_t)(TYPE_WHOLE | TYPE_OTHERS);
        below.types = above.types = TYPE_WHOLE | TYPE_OTHERS;
        if (!decimal_of(f->values[i], &below.numbers.high))
            refuse(o, "a number of too many digits");
        above.numbers.low = below.numbers.high;
        below.numbers.has_high = below.numbers.below_high = true;
        above.numbers.has_low = above.numbers.above_low = true;
        form *list[3] = {&not_number, &below, &above};
        const forms others = {list, 3, 3};
        if (!forms_meet(s, &all, &others)) return;
    }
    if (n > 0) {
        form other = form_any();
        other.text = dfa_without(s->p, s->any_text, dfa_of_words(s->p, words, n, SPELLING_JSON));
        form *list[1] = {&other};
        const forms others = {list, 1, 1};
        if (other.text == NULL || !forms_meet(s, &all, &others)) return;
    }
    *o->all = all;
}

forms *forms_opposite(schema *s, uint32_t node, const forms *all)
{
    forms *result = program_alloc(s->p, 1, sizeof *result);
    if (result == NULL || !forms_add(s, result, form_new(s))) return NULL;
    for (uint32_t i = 0; i < all->n && s->p->status == WEFT_OK; i++) {
        const form *f = all->list[i];
        forms broken = {NULL, 0, 0};
        opposite o = {s, node, &broken};
        if (f->inexact) refuse(&o, "format or unevaluated parts");
        if (f->has_values) {
            negate_values(&o, f);
        } else {
            (void)add(&o, TYPE_ALL & ~f->types);
            negate_numbers(&o, f);
            negate_texts(&o, f);
            negate_arrays(&o, f);
            negate_objects(&o, f);
        }
        if (s->p->status != WEFT_OK || !forms_meet(s, result, &broken)) return NULL;
    }
    return s->p->status == WEFT_OK ? result : NULL;
}

const forms *schema_opposite(schema *s, uint32_t node)
{
    schema_node *n = s->nodes[node];
    if (n->opposite != NULL) return n->opposite;
    const forms *all = schema_forms(s, node);
    if (all != NULL) n->opposite = forms_opposite(s, node, all);
    return s->p->status == WEFT_OK ? n->opposite : NULL;
}
