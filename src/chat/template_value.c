/* template_value.c - what expressions evaluate to, with Python's rules for truth, equality and
 * order. */
#include "chat/template_value.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "chat/template_render.h"

tpl_value tpl_none(void)
{
    return (tpl_value){.kind = TPL_NONE};
}

tpl_value tpl_undefined(const char *reason)
{
    return (tpl_value){.kind = TPL_UNDEFINED, .as.reason = reason};
}

tpl_value tpl_bool(bool b)
{
    return (tpl_value){.kind = TPL_BOOL, .as.b = b};
}

tpl_value tpl_int(int64_t i)
{
    return (tpl_value){.kind = TPL_INT, .as.i = i};
}

tpl_value tpl_real(double d)
{
    return (tpl_value){.kind = TPL_REAL, .as.d = d};
}

tpl_value tpl_text_value(tpl_text *t)
{
    return (tpl_value){.kind = TPL_TEXT, .as.text = t};
}

tpl_value tpl_seq_value(tpl_seq *s)
{
    return (tpl_value){.kind = TPL_SEQ, .as.seq = s};
}

tpl_value tpl_dict_value(tpl_dict *d)
{
    return (tpl_value){.kind = TPL_DICT, .as.dict = d};
}

const char *tpl_type_name(tpl_value v)
{
    static const char *const kinds[] = {
        [TPL_UNDEFINED] = "Undefined",
        [TPL_NONE] = "NoneType",
        [TPL_BOOL] = "bool",
        [TPL_INT] = "int",
        [TPL_REAL] = "float",
        [TPL_TEXT] = "str",
        [TPL_SEQ] = "list",
        [TPL_DICT] = "dict",
        [TPL_NAMESPACE] = "Namespace",
        [TPL_LOOP] = "LoopContext",
        [TPL_MACRO] = "Macro",
        [TPL_METHOD] = "builtin_function_or_method",
        [TPL_FUNCTION] = "function",
        [TPL_CYCLER] = "Cycler",
        [TPL_JOINER] = "Joiner",
    };
    static const char *const flavours[] = {
        [TPL_LIST] = "list",      [TPL_TUPLE] = "tuple",        [TPL_RANGE] = "range",
        [TPL_KEYS] = "dict_keys", [TPL_VALUES] = "dict_values", [TPL_ITEMS] = "dict_items",
        [TPL_ITER] = "generator",
    };
    ASSERT(v.kind < COUNT_OF(kinds));
    return v.kind == TPL_SEQ ? flavours[v.as.seq->flavour] : kinds[v.kind];
}

bool tpl_is_seq(tpl_value v, tpl_flavour flavour)
{
    return v.kind == TPL_SEQ && v.as.seq->flavour == flavour;
}

bool tpl_is_int(tpl_value v)
{
    return v.kind == TPL_INT || v.kind == TPL_BOOL;
}

bool tpl_is_number(tpl_value v)
{
    return tpl_is_int(v) || v.kind == TPL_REAL;
}

int64_t tpl_as_int(tpl_value v)
{
    ASSERT(tpl_is_int(v));
    return v.kind == TPL_BOOL ? (int64_t)v.as.b : v.as.i;
}

double tpl_as_real(tpl_value v)
{
    return v.kind == TPL_REAL ? v.as.d : (double)tpl_as_int(v);
}

bool tpl_text_is(tpl_value v, const char *text)
{
    return v.kind == TPL_TEXT && str_equal_text(tpl_text_str(v.as.text), text);
}

bool tpl_truth(tpl_value v)
{
    switch ((tpl_kind)v.kind) {
    case TPL_UNDEFINED:
    case TPL_NONE:
        return false;
    case TPL_BOOL:
        return v.as.b;
    case TPL_INT:
        return v.as.i != 0;
    case TPL_REAL:
        return v.as.d != 0.0;
    case TPL_TEXT:
        return v.as.text->len != 0;
    case TPL_SEQ:
        return v.as.seq->flavour == TPL_ITER || v.as.seq->n != 0;
    case TPL_DICT:
        return v.as.dict->n != 0;
    default:
        return true;
    }
}

/* Exact, although neither type holds all of the other's values. */
static int compare_int_real(int64_t i, double d)
{
    if (isnan(d)) return 2;
    if (d >= 0x1p63) return -1;
    if (d < -0x1p63) return 1;
    int64_t whole = (int64_t)d;
    if (i != whole) return i < whole ? -1 : 1;
    double fraction = d - (double)whole;
    return fraction > 0 ? -1 : fraction < 0 ? 1 : 0;
}

static int compare_numbers(tpl_value a, tpl_value b)
{
    if (tpl_is_int(a) && tpl_is_int(b)) {
        int64_t x = tpl_as_int(a), y = tpl_as_int(b);
        return x < y ? -1 : x > y ? 1 : 0;
    }
    if (tpl_is_int(a)) return compare_int_real(tpl_as_int(a), b.as.d);
    if (tpl_is_int(b)) {
        int order = compare_int_real(tpl_as_int(b), a.as.d);
        return order == 2 ? 2 : -order;
    }
    if (isnan(a.as.d) || isnan(b.as.d)) return 2;
    return a.as.d < b.as.d ? -1 : a.as.d > b.as.d ? 1 : 0;
}

static int compare_bytes(str a, str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n == 0 ? 0 : memcmp(a.ptr, b.ptr, n);
    if (order == 0) return a.len < b.len ? -1 : a.len > b.len ? 1 : 0;
    return order < 0 ? -1 : 1;
}

static bool equal_seqs(tpl_render *r, const tpl_seq *a, const tpl_seq *b, bool *equal)
{
    *equal = a == b;
    if (*equal || a->flavour != b->flavour || a->n != b->n || a->flavour > TPL_RANGE) return true;
    for (size_t i = 0; i < a->n; i++) {
        if (!tpl_step(r, 1) || !tpl_equal(r, tpl_seq_at(a, i), tpl_seq_at(b, i), equal)) {
            return false;
        }
        if (!*equal) return true;
    }
    *equal = true;
    return true;
}

static bool equal_dicts(tpl_render *r, const tpl_dict *a, const tpl_dict *b, bool *equal)
{
    *equal = a == b;
    if (*equal || a->n != b->n) return true;
    for (size_t i = 0; i < a->n; i++) {
        tpl_value other;
        if (!tpl_dict_get(r, b, a->entries[i].key, &other)) return r->status == WEFT_OK;
        if (!tpl_equal(r, a->entries[i].value, other, equal)) return false;
        if (!*equal) return true;
    }
    *equal = true;
    return true;
}

static bool equal_nested(tpl_render *r, tpl_value a, tpl_value b, bool *equal)
{
    if (!tpl_enter(r)) return false;
    bool ok = a.kind == TPL_SEQ ? equal_seqs(r, a.as.seq, b.as.seq, equal)
                                : equal_dicts(r, a.as.dict, b.as.dict, equal);
    tpl_leave(r);
    return ok;
}

bool tpl_equal(tpl_render *r, tpl_value a, tpl_value b, bool *equal)
{
    *equal = false;
    if (tpl_is_number(a) && tpl_is_number(b)) {
        *equal = compare_numbers(a, b) == 0;
        return true;
    }
    if (a.kind != b.kind) return true;
    switch ((tpl_kind)a.kind) {
    case TPL_UNDEFINED:
    case TPL_NONE:
        *equal = true;
        return true;
    case TPL_TEXT: {
        str x = tpl_text_str(a.as.text), y = tpl_text_str(b.as.text);
        if (x.len != y.len) return true;
        *equal = str_equal(x, y);
        return tpl_charge(r, x.len);
    }
    case TPL_SEQ:
    case TPL_DICT:
        return equal_nested(r, a, b, equal);
    default:
        *equal = a.as.dict == b.as.dict;
        return true;
    }
}

static bool compare_seqs(tpl_render *r, const tpl_seq *a, const tpl_seq *b, int *order)
{
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++) {
        bool equal;
        if (!tpl_step(r, 1) || !tpl_equal(r, a->items[i], b->items[i], &equal)) return false;
        if (!equal) return tpl_compare(r, a->items[i], b->items[i], order);
    }
    *order = a->n < b->n ? -1 : a->n > b->n ? 1 : 0;
    return true;
}

bool tpl_compare(tpl_render *r, tpl_value a, tpl_value b, int *order)
{
    if (a.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, a);
    if (b.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, b);
    if (tpl_is_number(a) && tpl_is_number(b)) {
        *order = compare_numbers(a, b);
        return true;
    }
    if (a.kind == TPL_TEXT && b.kind == TPL_TEXT) {
        *order = compare_bytes(tpl_text_str(a.as.text), tpl_text_str(b.as.text));
        return tpl_charge(r, a.as.text->len < b.as.text->len ? a.as.text->len : b.as.text->len);
    }
    bool ordered = (tpl_is_seq(a, TPL_LIST) && tpl_is_seq(b, TPL_LIST)) ||
                   (tpl_is_seq(a, TPL_TUPLE) && tpl_is_seq(b, TPL_TUPLE));
    if (!ordered) {
        return tpl_fail(r, WEFT_FORMAT, "'%s' and '%s' have no order", tpl_type_name(a),
                        tpl_type_name(b));
    }
    if (!tpl_enter(r)) return false;
    bool ok = compare_seqs(r, a.as.seq, b.as.seq, order);
    tpl_leave(r);
    return ok;
}

/* Merges order[low, middle) and order[middle, high) through spare. */
static bool merge(tpl_render *r, const tpl_value *keys, uint32_t *order, uint32_t *spare,
                  const size_t bounds[3], bool reverse)
{
    size_t left = bounds[0], right = bounds[1], at = bounds[0];
    while (left < bounds[1] && right < bounds[2]) {
        int cmp = 0;
        if (!tpl_step(r, 1) || !tpl_compare(r, keys[order[right]], keys[order[left]], &cmp)) {
            return false;
        }
        spare[at++] = cmp == (reverse ? 1 : -1) ? order[right++] : order[left++];
    }
    while (left < bounds[1]) spare[at++] = order[left++];
    while (right < bounds[2]) spare[at++] = order[right++];
    memcpy(order + bounds[0], spare + bounds[0], (bounds[2] - bounds[0]) * sizeof *order);
    return true;
}

bool tpl_sort(tpl_render *r, tpl_value *keys, tpl_value *items, size_t n, bool reverse)
{
    if (n < 2) return true;
    if (n > UINT32_MAX) return tpl_fail(r, WEFT_LIMIT, "cannot sort %zu items", n);
    uint32_t *order = tpl_alloc(r, n, sizeof *order);
    uint32_t *spare = tpl_alloc(r, n, sizeof *spare);
    tpl_value *sorted = tpl_alloc(r, n, sizeof *sorted);
    if (order == NULL || spare == NULL || sorted == NULL) return false;
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low + width < n; low += 2 * width) {
            size_t high = low + 2 * width < n ? low + 2 * width : n;
            size_t bounds[3] = {low, low + width, high};
            if (!merge(r, keys, order, spare, bounds, reverse)) return false;
        }
    }
    for (size_t i = 0; i < n; i++) sorted[i] = items[order[i]];
    memcpy(items, sorted, n * sizeof *items);
    return true;
}

bool tpl_contains(tpl_render *r, tpl_value container, tpl_value item, bool *found)
{
    *found = false;
    if (container.kind == TPL_TEXT) {
        if (item.kind != TPL_TEXT) {
            return tpl_fail(r, WEFT_FORMAT, "a string cannot contain a value of type '%s'",
                            tpl_type_name(item));
        }
        size_t at;
        return tpl_text_find(r, tpl_text_str(container.as.text), tpl_text_str(item.as.text), 0, &at,
                             found);
    }
    if (container.kind == TPL_DICT) {
        if (!tpl_hashable(item)) return tpl_fail_type(r, "unhashable type", item);
        tpl_value ignored;
        *found = tpl_dict_get(r, container.as.dict, item, &ignored);
        return r->status == WEFT_OK;
    }
    tpl_iter it;
    tpl_value other;
    if (!tpl_iter_init(r, &it, container)) return false;
    while (!*found && tpl_iter_next(r, &it, &other)) {
        if (!tpl_equal(r, item, other, found)) return false;
    }
    return r->status == WEFT_OK;
}

tpl_seq *tpl_seq_new(tpl_render *r, tpl_flavour flavour, size_t n)
{
    tpl_seq *s = tpl_alloc(r, 1, sizeof *s);
    if (s == NULL) return NULL;
    s->flavour = flavour;
    if (n != 0) {
        s->items = tpl_alloc(r, n, sizeof *s->items);
        if (s->items == NULL) return NULL;
    }
    s->n = n;
    return s;
}

tpl_value tpl_seq_at(const tpl_seq *s, size_t index)
{
    ASSERT(index < s->n);
    if (s->flavour == TPL_RANGE) return tpl_int(s->start + (int64_t)index * s->step);
    return s->items[index];
}

bool tpl_seq_push(tpl_render *r, tpl_seq *s, size_t *capacity, tpl_value item)
{
    if (s->n == *capacity) {
        size_t larger = *capacity < 8 ? 8 : *capacity * 2;
        tpl_value *items = tpl_alloc(r, larger, sizeof *items);
        if (items == NULL) return false;
        if (s->n != 0) memcpy(items, s->items, s->n * sizeof *items);
        s->items = items;
        *capacity = larger;
    }
    s->items[s->n++] = item;
    return true;
}

tpl_value tpl_pair(tpl_render *r, tpl_value a, tpl_value b)
{
    tpl_seq *pair = tpl_seq_new(r, TPL_TUPLE, 2);
    if (pair == NULL) return tpl_undefined(NULL);
    pair->items[0] = a;
    pair->items[1] = b;
    return tpl_seq_value(pair);
}

bool tpl_iter_init(tpl_render *r, tpl_iter *it, tpl_value v)
{
    *it = (tpl_iter){v, 0};
    if (v.kind == TPL_UNDEFINED || v.kind == TPL_TEXT || v.kind == TPL_SEQ || v.kind == TPL_DICT) {
        return true;
    }
    return tpl_fail(r, WEFT_FORMAT, "'%s' object is not iterable", tpl_type_name(v));
}

static bool next_char(tpl_render *r, tpl_iter *it, tpl_value *item)
{
    str s = tpl_text_str(it->of.as.text);
    if (it->at >= s.len) return false;
    size_t n = 1;
    while (it->at + n < s.len && ((unsigned char)s.ptr[it->at + n] & 0xc0) == 0x80) n++;
    tpl_text *t = tpl_text_view(r, it->of.as.text, it->at, n);
    if (t == NULL) return false;
    *item = tpl_text_value(t);
    it->at += n;
    return true;
}

bool tpl_iter_next(tpl_render *r, tpl_iter *it, tpl_value *item)
{
    if (!tpl_step(r, 1)) return false;
    if (it->of.kind == TPL_TEXT) return next_char(r, it, item);
    if (it->of.kind == TPL_DICT) {
        if (it->at >= it->of.as.dict->n) return false;
        *item = it->of.as.dict->entries[it->at++].key;
        return true;
    }
    if (it->of.kind != TPL_SEQ) return false;
    tpl_seq *s = it->of.as.seq;
    if (s->lazy != NULL) {
        if (!tpl_enter(r)) return false;
        bool more = s->lazy->next(r, s->lazy, item);
        tpl_leave(r);
        return more;
    }
    size_t *at = s->flavour == TPL_ITER ? &s->next : &it->at;
    if (*at >= s->n) return false;
    *item = tpl_seq_at(s, (*at)++);
    return true;
}

tpl_seq *tpl_collect(tpl_render *r, tpl_value v)
{
    tpl_iter it;
    if (!tpl_iter_init(r, &it, v)) return NULL;
    tpl_seq *all = tpl_seq_new(r, TPL_LIST, 0);
    if (all == NULL) return NULL;
    size_t capacity = 0;
    tpl_value item;
    while (tpl_iter_next(r, &it, &item)) {
        if (!tpl_seq_push(r, all, &capacity, item)) return NULL;
    }
    return r->status == WEFT_OK ? all : NULL;
}

bool tpl_length(tpl_render *r, tpl_value v, size_t *n)
{
    *n = 0;
    switch ((tpl_kind)v.kind) {
    case TPL_UNDEFINED:
        return true;
    case TPL_TEXT:
        if (!tpl_charge(r, v.as.text->n_chars == TPL_UNCOUNTED ? v.as.text->len : 0)) return false;
        *n = tpl_text_chars(v.as.text);
        return true;
    case TPL_DICT:
        *n = v.as.dict->n;
        return true;
    case TPL_SEQ:
        *n = v.as.seq->n;
        if (v.as.seq->flavour != TPL_ITER) return true;
        break;
    default:
        break;
    }
    return tpl_fail(r, WEFT_FORMAT, "object of type '%s' has no length", tpl_type_name(v));
}

static bool array_from_json(tpl_render *r, const json *from, bool trusted, tpl_value *to)
{
    size_t n = json_length(from);
    tpl_seq *s = tpl_seq_new(r, TPL_LIST, n);
    if (s == NULL) return false;
    for (size_t i = 0; i < n; i++) {
        if (!tpl_from_json(r, json_at(from, i), trusted, &s->items[i])) return false;
    }
    *to = tpl_seq_value(s);
    return true;
}

static bool object_from_json(tpl_render *r, const json *from, bool trusted, tpl_value *to)
{
    tpl_dict *d = tpl_dict_new(r);
    if (d == NULL) return false;
    json_iter it = {NULL};
    str key;
    const json *member;
    while (json_next(from, &it, &key, &member)) {
        tpl_text *name = tpl_text_borrow(r, key, !trusted);
        tpl_value item;
        if (name == NULL || !tpl_from_json(r, member, trusted, &item) ||
            !tpl_dict_put(r, d, tpl_text_value(name), item)) {
            return false;
        }
    }
    *to = tpl_dict_value(d);
    return true;
}

static bool scalar_from_json(tpl_render *r, const json *from, bool trusted, tpl_value *to)
{
    switch (json_kind_of(from)) {
    case JSON_KIND_BOOL:
        *to = tpl_bool(json_bool(from, false));
        break;
    case JSON_KIND_INT:
        *to = tpl_int(json_int(from, 0));
        break;
    case JSON_KIND_REAL:
        *to = tpl_real(json_number(from, 0.0));
        break;
    case JSON_KIND_TEXT: {
        tpl_text *t = tpl_text_borrow(r, json_text(from), !trusted);
        if (t == NULL) return false;
        *to = tpl_text_value(t);
        break;
    }
    default:
        *to = tpl_none();
        break;
    }
    to->untrusted = !trusted;
    return true;
}

bool tpl_from_json(tpl_render *r, const json *from, bool trusted, tpl_value *to)
{
    json_kind kind = json_kind_of(from);
    if (kind != JSON_KIND_ARRAY && kind != JSON_KIND_OBJECT) {
        return scalar_from_json(r, from, trusted, to);
    }
    if (!tpl_enter(r)) return false;
    bool ok = kind == JSON_KIND_ARRAY ? array_from_json(r, from, trusted, to)
                                      : object_from_json(r, from, trusted, to);
    tpl_leave(r);
    return ok;
}
