/* template_methods.c - methods of strings, lists, dicts and loops: the rows, and those of lists and
 * dicts.
 *
 * What would change a list or dict is refused, as in the sandbox that templates are made for: it is
 * found but undefined, and calling it fails. */
#include "chat/template_methods.h"

#include "base/assert.h"
#include "chat/template_eval.h"
#include "chat/template_print.h"
#include "chat/template_strings.h"

struct tpl_bound {
    const tpl_row *row;
    tpl_value object;
};

static bool dict_view(tpl_render *r, tpl_value self, tpl_flavour flavour, tpl_value *out)
{
    const tpl_dict *d = self.as.dict;
    tpl_seq *s = tpl_seq_new(r, flavour, d->n);
    if (s == NULL || !tpl_charge(r, d->n * sizeof *d->entries)) return false;
    for (size_t i = 0; i < d->n; i++) {
        const tpl_entry *e = &d->entries[i];
        s->items[i] = flavour == TPL_KEYS     ? e->key
                      : flavour == TPL_VALUES ? e->value
                                              : tpl_pair(r, e->key, e->value);
    }
    *out = tpl_seq_value(s);
    return r->status == WEFT_OK;
}

static bool dict_keys(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return dict_view(r, self, TPL_KEYS, out);
}

static bool dict_values(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return dict_view(r, self, TPL_VALUES, out);
}

static bool dict_items(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    return dict_view(r, self, TPL_ITEMS, out);
}

static bool dict_get(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    if (!tpl_hashable(call->slot[0])) return tpl_fail_type(r, "unhashable type", call->slot[0]);
    if (tpl_dict_get(r, self.as.dict, call->slot[0], out)) return true;
    *out = call->given[1] ? call->slot[1] : tpl_none();
    return r->status == WEFT_OK;
}

static bool dict_copy(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    tpl_dict *copy = tpl_dict_new(r);
    if (copy == NULL) return false;
    for (size_t i = 0; i < self.as.dict->n; i++) {
        const tpl_entry *e = &self.as.dict->entries[i];
        if (!tpl_dict_put(r, copy, e->key, e->value)) return false;
    }
    *out = tpl_dict_value(copy);
    return true;
}

static bool list_copy(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)call;
    tpl_seq *copy = tpl_collect(r, self);
    if (copy == NULL) return false;
    *out = tpl_seq_value(copy);
    return true;
}

static bool list_count(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    int64_t n = 0;
    for (size_t i = 0; i < self.as.seq->n; i++) {
        bool equal;
        if (!tpl_step(r, 1) || !tpl_equal(r, tpl_seq_at(self.as.seq, i), call->slot[0], &equal)) {
            return false;
        }
        n += equal ? 1 : 0;
    }
    *out = tpl_int(n);
    return true;
}

static bool list_index(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    for (size_t i = 0; i < self.as.seq->n; i++) {
        bool equal;
        if (!tpl_step(r, 1) || !tpl_equal(r, tpl_seq_at(self.as.seq, i), call->slot[0], &equal)) {
            return false;
        }
        if (!equal) continue;
        *out = tpl_int((int64_t)i);
        return true;
    }
    return tpl_fail(r, WEFT_FORMAT, "index(): the value is not in the list");
}

static bool cycler_next(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)r;
    (void)call;
    tpl_cycler *c = self.as.cycler;
    *out = c->items[c->at];
    c->at = (c->at + 1) % c->n;
    return true;
}

static bool cycler_reset(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)r;
    (void)call;
    self.as.cycler->at = 0;
    *out = tpl_none();
    return true;
}

static const tpl_row DICT_METHODS[] = {
    {"clear", "", NULL},         {"copy", "", dict_copy},  {"get", "key default?", dict_get},
    {"items", "", dict_items},   {"keys", "", dict_keys},  {"pop", "", NULL},
    {"popitem", "", NULL},       {"setdefault", "", NULL}, {"update", "", NULL},
    {"values", "", dict_values},
};

static const tpl_row LIST_METHODS[] = {
    {"append", "", NULL},           {"clear", "", NULL},  {"copy", "", list_copy},
    {"count", "value", list_count}, {"extend", "", NULL}, {"index", "value", list_index},
    {"insert", "", NULL},           {"pop", "", NULL},    {"remove", "", NULL},
    {"reverse", "", NULL},          {"sort", "", NULL},
};

/* Tuples and ranges. */
static const tpl_row TUPLE_METHODS[] = {
    {"count", "value", list_count},
    {"index", "value", list_index},
};

static const tpl_row LOOP_METHODS[] = {
    {"changed", "*", tpl_loop_changed},
    {"cycle", "*", tpl_loop_cycle},
};

static const tpl_row CYCLER_METHODS[] = {
    {"next", "", cycler_next},
    {"reset", "", cycler_reset},
};

static const tpl_row *find_row(tpl_value object, str name)
{
    switch ((tpl_kind)object.kind) {
    case TPL_TEXT:
        return tpl_string_method(name);
    case TPL_DICT:
        return tpl_row_find(DICT_METHODS, COUNT_OF(DICT_METHODS), name);
    case TPL_LOOP:
        return tpl_row_find(LOOP_METHODS, COUNT_OF(LOOP_METHODS), name);
    case TPL_CYCLER:
        return tpl_row_find(CYCLER_METHODS, COUNT_OF(CYCLER_METHODS), name);
    case TPL_SEQ:
        if (object.as.seq->flavour == TPL_LIST) {
            return tpl_row_find(LIST_METHODS, COUNT_OF(LIST_METHODS), name);
        }
        if (object.as.seq->flavour > TPL_RANGE) return NULL;
        return tpl_row_find(TUPLE_METHODS, COUNT_OF(TUPLE_METHODS), name);
    default:
        return NULL;
    }
}

bool tpl_method_find(tpl_render *r, tpl_value object, str name, tpl_value *out, bool *found)
{
    const tpl_row *row = find_row(object, name);
    *found = row != NULL;
    if (row == NULL) return true;
    if (row->fn == NULL) {
        char *reason = tpl_printf(r, "the method '%s' of '%s' is not allowed in a template",
                                  row->name, tpl_type_name(object));
        *out = tpl_undefined(reason);
        return reason != NULL;
    }
    tpl_bound *bound = tpl_alloc(r, 1, sizeof *bound);
    if (bound == NULL) return false;
    *bound = (tpl_bound){row, object};
    *out = (tpl_value){.kind = TPL_METHOD, .as.bound = bound};
    return true;
}

bool tpl_bound_call(tpl_render *r, tpl_bound *bound, const tpl_args *args, tpl_value *out)
{
    return tpl_row_call(r, bound->row, bound->object, args, out);
}
