/* schema_admit.c - whether a value that is known, of enum or const, has a form. */
#include <string.h>

#include "base/utf8.h"
#include "grammar/schema.h"

uint32_t value_type(const json *value)
{
    decimal d;
    switch (json_kind_of(value)) {
    case JSON_KIND_NULL:
        return TYPE_NULL;
    case JSON_KIND_BOOL:
        return json_bool(value, false) ? TYPE_TRUE : TYPE_FALSE;
    case JSON_KIND_INT:
        return TYPE_WHOLE;
    case JSON_KIND_REAL:
        return decimal_of(value, &d) && decimal_is_whole(&d) ? TYPE_WHOLE : TYPE_OTHERS;
    case JSON_KIND_TEXT:
        return TYPE_STRING;
    case JSON_KIND_ARRAY:
        return TYPE_ARRAY;
    case JSON_KIND_OBJECT:
        return TYPE_OBJECT;
    }
    return 0;
}

static uint32_t count_chars(str text)
{
    uint32_t n = 0;
    for (size_t i = 0; i < text.len; i++) n += ((unsigned char)text.ptr[i] & 0xc0) != 0x80;
    return n;
}

static bool demand_admits(schema *s, uint32_t demand_i, const json *value)
{
    if (demand_i == DEMAND_NOTHING) return true;
    if (demand_i == DEMAND_NEVER) return false;
    const forms *all = demand_forms(s, demand_i);
    for (uint32_t i = 0; all != NULL && i < all->n; i++)
        if (form_admits(s, all->list[i], value)) return true;
    return false;
}

static bool text_admits(schema *s, const form *f, str text)
{
    if (!lexeme_admits(f->min_length, f->max_length, count_chars(text))) return false;
    if (f->text == NULL && f->loose == NULL) return true;
    const dfa *d = dfa_meet(s->p, form_text(s, f), dfa_of_words(s->p, &text, 1, SPELLING_JSON));
    return d != NULL && !dfa_is_empty(d);
}

static bool array_admits(schema *s, const form *f, const json *value)
{
    size_t n = json_length(value);
    uint32_t contained = 0;
    if (n < f->min_items || n > f->max_items) return false;
    for (size_t i = 0; i < n; i++) {
        uint32_t what = i < f->n_prefix ? f->prefix[i] : f->items;
        if (!demand_admits(s, what, json_at(value, i))) return false;
        contained +=
            f->contains != DEMAND_NEVER && demand_admits(s, f->contains, json_at(value, i));
    }
    return f->contains == DEMAND_NEVER ||
           (contained >= f->min_contains && contained <= f->max_contains);
}

static bool object_admits(schema *s, const form *f, const json *value)
{
    json_iter it = {NULL};
    str key;
    const json *member;
    size_t n = json_length(value);
    uint32_t found = 0, wanted = 0;
    if (n < f->min_properties || n > f->max_properties) return false;
    for (uint32_t i = 0; i < f->n_properties; i++) wanted += f->properties[i].required;
    while (json_next(value, &it, &key, &member)) {
        bool evaluated;
        const property *known = form_property(f, key);
        found += known != NULL && known->required;
        if (!demand_admits(s, form_demand_of(s, f, key, &evaluated), member)) return false;
    }
    return found == wanted;
}

static bool one_of_values(const form *f, const json *value)
{
    for (uint32_t i = 0; i < f->n_values; i++)
        if (json_equal_values(f->values[i], value)) return true;
    return false;
}

bool form_admits(schema *s, const form *f, const json *value)
{
    uint32_t type = value_type(value);
    decimal d;
    if (s->p->status != WEFT_OK || (f->types & type) == 0) return false;
    if (f->has_values) return one_of_values(f, value);
    switch (type) {
    case TYPE_WHOLE:
    case TYPE_OTHERS:
        if (!decimal_of(value, &d)) {
            program_fail(s->p, WEFT_LIMIT, "a number of more than %d digits", DECIMAL_DIGITS);
            return false;
        }
        return bounds_admit(&f->numbers, &d);
    case TYPE_STRING:
        return text_admits(s, f, json_text(value));
    case TYPE_ARRAY:
        return array_admits(s, f, value);
    case TYPE_OBJECT:
        return object_admits(s, f, value);
    default:
        return true;
    }
}

static bool objects_equal(const json *a, const json *b)
{
    json_iter outer = {NULL};
    str key, name;
    const json *x, *y;
    if (json_length(a) != json_length(b)) return false;
    while (json_next(a, &outer, &key, &x)) {
        json_iter inner = {NULL};
        bool found = false;
        while (!found && json_next(b, &inner, &name, &y))
            found = str_equal(key, name) && json_equal_values(x, y);
        if (!found) return false;
    }
    return true;
}

bool json_equal_values(const json *a, const json *b)
{
    decimal x, y;
    if (value_type(a) != value_type(b)) return false;
    switch (json_kind_of(a)) {
    case JSON_KIND_INT:
    case JSON_KIND_REAL:
        return decimal_of(a, &x) && decimal_of(b, &y) && decimal_compare(&x, &y) == 0;
    case JSON_KIND_TEXT:
        return str_equal(json_text(a), json_text(b));
    case JSON_KIND_OBJECT:
        return objects_equal(a, b);
    case JSON_KIND_ARRAY:
        if (json_length(a) != json_length(b)) return false;
        for (size_t i = 0; i < json_length(a); i++)
            if (!json_equal_values(json_at(a, i), json_at(b, i))) return false;
        return true;
    default:
        return true;
    }
}
