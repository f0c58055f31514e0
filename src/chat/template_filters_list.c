/* template_filters_list.c - filters of lists and dicts.
 *
 * What is a generator in Jinja is one here: it can be walked once, has no length, and is true even
 * when nothing passed; what is wrong with an item is found when the item is asked for. */
#include <string.h>

#include "base/assert.h"
#include "chat/template_attr.h"
#include "chat/template_filters.h"
#include "chat/template_ops.h"
#include "chat/template_print.h"
#include "chat/template_render.h"
#include "chat/template_strings.h"
#include "chat/template_tests.h"

#define FILTER(name)                                                                               \
    static bool name(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)

static bool absent(const tpl_call *call, size_t slot)
{
    return !call->given[slot] || call->slot[slot].kind == TPL_NONE;
}

FILTER(filter_length)
{
    (void)call;
    size_t n;
    if (!tpl_length(r, self, &n)) return false;
    *out = tpl_int((int64_t)n);
    return true;
}

FILTER(filter_list)
{
    (void)call;
    tpl_seq *s = tpl_collect(r, self);
    if (s == NULL) return false;
    *out = tpl_seq_value(s);
    return true;
}

FILTER(filter_first)
{
    (void)call;
    tpl_iter it;
    if (!tpl_iter_init(r, &it, self)) return false;
    if (!tpl_iter_next(r, &it, out)) *out = tpl_undefined("no first item, the sequence was empty");
    return r->status == WEFT_OK;
}

FILTER(filter_last)
{
    (void)call;
    if (tpl_is_seq(self, TPL_ITER)) return tpl_fail(r, WEFT_FORMAT, "a generator has no last item");
    if (self.kind == TPL_SEQ || self.kind == TPL_TEXT) {
        size_t n;
        if (!tpl_length(r, self, &n)) return false;
        if (n != 0 && self.kind == TPL_TEXT) return tpl_getitem(r, self, tpl_int(-1), out);
        if (n != 0) {
            *out = tpl_seq_at(self.as.seq, n - 1);
            return true;
        }
    }
    tpl_seq *all = tpl_collect(r, self);
    if (all == NULL) return false;
    *out = all->n != 0 ? all->items[all->n - 1]
                       : tpl_undefined("no last item, the sequence was empty");
    return true;
}

FILTER(filter_reverse)
{
    (void)call;
    if (self.kind == TPL_TEXT) {
        const tpl_value bounds[3] = {tpl_none(), tpl_none(), tpl_int(-1)};
        return tpl_slice(r, self, bounds, out);
    }
    bool was_iter = tpl_is_seq(self, TPL_ITER);
    tpl_seq *s = tpl_collect(r, self);
    if (s == NULL) return false;
    for (size_t i = 0; i < s->n / 2; i++) {
        tpl_value other = s->items[i];
        s->items[i] = s->items[s->n - 1 - i];
        s->items[s->n - 1 - i] = other;
    }
    if (!was_iter) s->flavour = TPL_ITER;
    *out = tpl_seq_value(s);
    return true;
}

FILTER(filter_attr)
{
    tpl_text *name;
    if (!tpl_slot_text(r, call, 0, "", &name)) return false;
    if (self.kind == TPL_DICT) {
        /* Attributes alone: a dict's items do not count here. */
        tpl_value none = tpl_dict_value(tpl_dict_new(r));
        return none.as.dict != NULL && tpl_getattr(r, none, tpl_text_value(name), out);
    }
    return tpl_getattr(r, self, tpl_text_value(name), out);
}

/* The key that sort, unique, min and max go by: an attribute or the item, strings without regard to
 * case. */
static bool key_of(tpl_render *r, tpl_value item, tpl_value path, bool case_sensitive,
                   tpl_value *key)
{
    *key = item;
    if (path.kind != TPL_NONE && !tpl_getpath(r, item, path, key)) return false;
    if (case_sensitive || key->kind != TPL_TEXT) return true;
    return tpl_string_case(r, key->as.text, TPL_CASE_LOWER, key);
}

/* A list of keys, those of "a,b" or of one path: a list orders equal keys of any type, also ones
 * that have no order by themselves. */
static bool keys_of(tpl_render *r, tpl_value item, tpl_value paths, bool case_sensitive,
                    tpl_value *key)
{
    str s = paths.kind == TPL_TEXT ? tpl_text_str(paths.as.text) : (str){"", 0};
    bool single = s.len == 0 || memchr(s.ptr, ',', s.len) == NULL;
    tpl_seq *keys = tpl_seq_new(r, TPL_LIST, single ? 1 : 0);
    size_t capacity = 0;
    if (keys == NULL) return false;
    *key = tpl_seq_value(keys);
    if (single) return key_of(r, item, paths, case_sensitive, &keys->items[0]);
    for (size_t at = 0; at <= s.len;) {
        size_t end = at;
        while (end < s.len && s.ptr[end] != ',') end++;
        tpl_text *path = tpl_text_view(r, paths.as.text, at, end - at);
        tpl_value one;
        if (path == NULL || !key_of(r, item, tpl_text_value(path), case_sensitive, &one) ||
            !tpl_seq_push(r, keys, &capacity, one)) {
            return false;
        }
        at = end + 1;
    }
    return true;
}

static tpl_value path_slot(const tpl_call *call, size_t slot)
{
    return absent(call, slot) ? tpl_none() : call->slot[slot];
}

FILTER(filter_sort)
{
    tpl_seq *s = tpl_collect(r, self);
    tpl_value *keys = s == NULL ? NULL : tpl_alloc(r, s->n == 0 ? 1 : s->n, sizeof *keys);
    if (keys == NULL) return false;
    for (size_t i = 0; i < s->n; i++) {
        if (!keys_of(r, s->items[i], path_slot(call, 2), tpl_slot_flag(call, 1, false), &keys[i]))
            return false;
    }
    *out = tpl_seq_value(s);
    return tpl_sort(r, keys, s->items, s->n, tpl_slot_flag(call, 0, false));
}

FILTER(filter_dictsort)
{
    tpl_text *by;
    if (self.kind == TPL_UNDEFINED) return tpl_fail_undefined(r, self);
    if (self.kind != TPL_DICT) return tpl_fail_type(r, "dictsort needs a dict, got", self);
    if (!tpl_slot_text(r, call, 1, "key", &by)) return false;
    bool by_value = str_equal_text(tpl_text_str(by), "value");
    if (!by_value && !str_equal_text(tpl_text_str(by), "key")) {
        return tpl_fail(r, WEFT_FORMAT, "dictsort goes by key or value");
    }
    const tpl_dict *d = self.as.dict;
    tpl_seq *pairs = tpl_seq_new(r, TPL_LIST, d->n);
    tpl_value *keys = tpl_alloc(r, d->n == 0 ? 1 : d->n, sizeof *keys);
    if (pairs == NULL || keys == NULL || !tpl_step(r, d->n)) return false;
    for (size_t i = 0; i < d->n; i++) {
        pairs->items[i] = tpl_pair(r, d->entries[i].key, d->entries[i].value);
        if (!key_of(r, pairs->items[i], tpl_int(by_value ? 1 : 0), tpl_slot_flag(call, 0, false),
                    &keys[i])) {
            return false;
        }
    }
    *out = tpl_seq_value(pairs);
    return r->status == WEFT_OK &&
           tpl_sort(r, keys, pairs->items, pairs->n, tpl_slot_flag(call, 2, false));
}

/* The first item that no other is before (or, wanted 1, behind). */
static bool extreme(tpl_render *r, tpl_value self, const tpl_call *call, int wanted, tpl_value *out)
{
    tpl_iter it;
    tpl_value item, key, best = tpl_none();
    bool any = false;
    *out = tpl_undefined("no aggregated item, the sequence was empty");
    if (!tpl_iter_init(r, &it, self)) return false;
    while (tpl_iter_next(r, &it, &item)) {
        int order = wanted;
        if (!key_of(r, item, path_slot(call, 1), tpl_slot_flag(call, 0, false), &key)) return false;
        if (any && !tpl_compare(r, key, best, &order)) return false;
        if (order != wanted) continue;
        any = true;
        best = key;
        *out = item;
    }
    return r->status == WEFT_OK;
}

FILTER(filter_min)
{
    return extreme(r, self, call, -1, out);
}

FILTER(filter_max)
{
    return extreme(r, self, call, 1, out);
}

FILTER(filter_sum)
{
    tpl_iter it;
    tpl_value item, total = call->given[1] ? call->slot[1] : tpl_int(0);
    if (total.kind == TPL_TEXT) return tpl_fail(r, WEFT_FORMAT, "sum cannot add strings");
    if (!tpl_iter_init(r, &it, self)) return false;
    while (tpl_iter_next(r, &it, &item)) {
        if (!absent(call, 0) && !tpl_getpath(r, item, call->slot[0], &item)) return false;
        if (!tpl_arithmetic(r, TPL_OP_ADD, total, item, &total)) return false;
    }
    *out = total;
    return r->status == WEFT_OK;
}

FILTER(filter_join)
{
    tpl_text *separator;
    tpl_value items = self;
    if (!call->given[0]) {
        separator = tpl_text_borrow(r, (str){"", 0}, false);
        if (separator == NULL) return false;
    } else if (!tpl_to_text(r, call->slot[0], &separator)) {
        return false;
    }
    if (!absent(call, 1)) {
        tpl_seq *s = tpl_collect(r, self);
        if (s == NULL) return false;
        for (size_t i = 0; i < s->n; i++) {
            if (!tpl_getpath(r, s->items[i], call->slot[1], &s->items[i])) return false;
        }
        items = tpl_seq_value(s);
    }
    return tpl_string_join(r, separator, items, false, out);
}

/* What batch and slice give: lists of the input's items, made when somebody asks for them. */
typedef struct grouping {
    tpl_lazy lazy; /* first */
    tpl_value input;
    int64_t size; /* of a batch; how many slices */
    bool started, fills;
    tpl_value fill;
    tpl_iter it; /* batches */
    bool has_ahead;
    tpl_value ahead; /* the item that did not fit into the last batch */
    tpl_seq *all;    /* slices */
    int64_t slice_i;
    size_t first; /* of the next slice's items */
} grouping;

static bool make_groups(tpl_render *r, tpl_value input, const tpl_call *call,
                        bool (*next)(tpl_render *, tpl_lazy *, tpl_value *), tpl_value *out)
{
    tpl_seq *s = tpl_seq_new(r, TPL_ITER, 0);
    grouping *g = tpl_alloc(r, 1, sizeof *g);
    if (s == NULL || g == NULL || !tpl_slot_int(r, call, 0, 0, &g->size)) return false;
    g->lazy.next = next;
    g->input = input;
    g->fills = !absent(call, 1);
    g->fill = call->slot[1];
    s->lazy = &g->lazy;
    *out = tpl_seq_value(s);
    return true;
}

/* Up to size items; the last list is filled up when a fill is given. As in Jinja the first item of
 * the next batch is taken before a full one is given, whatever the size. */
static bool next_batch(tpl_render *r, tpl_lazy *lazy, tpl_value *out)
{
    grouping *g = (grouping *)(void *)lazy;
    tpl_seq *batch = tpl_seq_new(r, TPL_LIST, 0);
    size_t capacity = 0;
    if (batch == NULL || (!g->started && !tpl_iter_init(r, &g->it, g->input))) return false;
    g->started = true;
    *out = tpl_seq_value(batch);
    if (g->has_ahead && !tpl_seq_push(r, batch, &capacity, g->ahead)) return false;
    g->has_ahead = false;
    tpl_value item;
    while (tpl_iter_next(r, &g->it, &item)) {
        if ((int64_t)batch->n == g->size) {
            g->has_ahead = true;
            g->ahead = item;
            return true;
        }
        if (!tpl_seq_push(r, batch, &capacity, item)) return false;
    }
    if (r->status != WEFT_OK || batch->n == 0) return false;
    while (g->fills && (int64_t)batch->n < g->size) {
        if (!tpl_step(r, 1) || !tpl_seq_push(r, batch, &capacity, g->fill)) return false;
    }
    return true;
}

FILTER(filter_batch)
{
    return make_groups(r, self, call, next_batch, out);
}

/* Lists of nearly the same length, the longer ones first. */
static bool next_slice(tpl_render *r, tpl_lazy *lazy, tpl_value *out)
{
    grouping *g = (grouping *)(void *)lazy;
    if (!g->started) {
        g->all = tpl_collect(r, g->input);
        if (g->all == NULL) return false;
        if (g->size == 0) return tpl_fail(r, WEFT_FORMAT, "division by zero");
        g->started = true;
    }
    if (g->slice_i >= g->size) return false;
    bool longer = g->slice_i < (int64_t)(g->all->n % (size_t)g->size);
    size_t n = g->all->n / (size_t)g->size + (longer ? 1u : 0u);
    bool fills = !longer && g->fills;
    tpl_seq *one = tpl_seq_new(r, TPL_LIST, n + (fills ? 1u : 0u));
    if (one == NULL || !tpl_step(r, 1 + n)) return false;
    if (n != 0) memcpy(one->items, g->all->items + g->first, n * sizeof *one->items);
    if (fills) one->items[n] = g->fill;
    g->first += n;
    g->slice_i++;
    *out = tpl_seq_value(one);
    return true;
}

FILTER(filter_slice)
{
    return make_groups(r, self, call, next_slice, out);
}

static bool group_key(tpl_render *r, tpl_value item, const tpl_call *call, bool folded,
                      tpl_value *key)
{
    if (!tpl_getpath(r, item, call->slot[0], key)) return false;
    if (key->kind == TPL_UNDEFINED && !absent(call, 1)) *key = call->slot[1];
    if (!folded || key->kind != TPL_TEXT) return true;
    return tpl_string_case(r, key->as.text, TPL_CASE_LOWER, key);
}

FILTER(filter_groupby)
{
    bool folded = !tpl_slot_flag(call, 2, false);
    tpl_seq *all = tpl_collect(r, self), *groups = tpl_seq_new(r, TPL_LIST, 0), *group = NULL;
    if (all == NULL || groups == NULL) return false;
    tpl_value *keys = tpl_alloc(r, all->n + 1, sizeof *keys), key, last = tpl_none();
    size_t n_groups = 0, capacity = 0;
    if (keys == NULL) return false;
    for (size_t i = 0; i < all->n; i++) {
        if (!group_key(r, all->items[i], call, folded, &keys[i])) return false;
    }
    if (!tpl_sort(r, keys, all->items, all->n, false)) return false;
    for (size_t i = 0; i < all->n; i++) {
        bool same = false;
        if (!group_key(r, all->items[i], call, folded, &key)) return false;
        if (group != NULL && !tpl_equal(r, key, last, &same)) return false;
        if (!same) {
            tpl_value shown;
            group = tpl_seq_new(r, TPL_LIST, 0);
            capacity = 0;
            if (group == NULL || !group_key(r, all->items[i], call, false, &shown)) return false;
            tpl_value pair = tpl_pair(r, shown, tpl_seq_value(group));
            if (r->status != WEFT_OK) return false;
            pair.as.seq->is_group = true;
            if (!tpl_seq_push(r, groups, &n_groups, pair)) return false;
        }
        last = key;
        if (!tpl_seq_push(r, group, &capacity, all->items[i])) return false;
    }
    *out = tpl_seq_value(groups);
    return true;
}

/* What map(), select() and the like do to each item of their input: take an attribute, apply a
 * filter or test, and keep the result or, where it decides, the item. */
typedef enum yields { YIELD_RESULT, YIELD_IF_TRUE, YIELD_IF_FALSE, YIELD_NEW, YIELD_PAIR } yields;

typedef struct generator {
    tpl_lazy lazy; /* first: the rest is found from it */
    yields yields;
    tpl_value input;
    bool started;
    tpl_iter it;
    const tpl_row *row; /* NULL: none */
    tpl_args args;
    bool has_path, case_sensitive;
    tpl_value path, fallback; /* fallback undefined: none */
    tpl_dict *seen;           /* YIELD_NEW */
} generator;

static bool apply(tpl_render *r, const generator *g, tpl_value item, tpl_value *out)
{
    *out = item;
    if (g->has_path) {
        if (!tpl_getpath(r, item, g->path, out)) return false;
        if (out->kind == TPL_UNDEFINED && g->fallback.kind != TPL_UNDEFINED) *out = g->fallback;
    }
    return g->row == NULL || tpl_row_call(r, g->row, *out, &g->args, out);
}

/* Whether an item has not been seen before. */
static bool is_new(tpl_render *r, generator *g, tpl_value item, bool *yes)
{
    tpl_value key, ignored;
    tpl_value path = g->has_path ? g->path : tpl_none();
    if (!key_of(r, item, path, g->case_sensitive, &key)) return false;
    *yes = !tpl_dict_get(r, g->seen, key, &ignored);
    return r->status == WEFT_OK && (!*yes || tpl_dict_put(r, g->seen, key, tpl_none()));
}

/* What becomes of one item; *yes false when it is passed over. */
static bool judge(tpl_render *r, generator *g, tpl_value item, tpl_value *out, bool *yes)
{
    *out = item;
    *yes = true;
    if (g->yields == YIELD_NEW) return is_new(r, g, item, yes);
    if (g->yields == YIELD_PAIR) {
        tpl_value value = tpl_none();
        if (!tpl_dict_get(r, g->input.as.dict, item, &value)) return false;
        *out = tpl_pair(r, item, value);
        return r->status == WEFT_OK;
    }
    tpl_value result;
    if (!apply(r, g, item, &result)) return false;
    if (g->yields == YIELD_RESULT) {
        *out = result;
    } else {
        *yes = tpl_truth(result) == (g->yields == YIELD_IF_TRUE);
    }
    return true;
}

static bool generate(tpl_render *r, tpl_lazy *lazy, tpl_value *out)
{
    generator *g = (generator *)(void *)lazy;
    if (!g->started) {
        bool is_dict = g->input.kind == TPL_DICT || g->input.kind == TPL_UNDEFINED;
        if (g->yields == YIELD_PAIR && !is_dict) {
            return tpl_fail_type(r, "items needs a dict, got", g->input);
        }
        g->started = true;
        if (!tpl_iter_init(r, &g->it, g->input)) return false;
    }
    tpl_value item;
    while (tpl_iter_next(r, &g->it, &item)) {
        bool yes;
        if (!judge(r, g, item, out, &yes)) return false;
        if (yes) return true;
    }
    return false;
}

/* The sequence a generator is; the caller fills in the rest of *g. */
static bool make_generator(tpl_render *r, yields kind, tpl_value input, generator **g,
                           tpl_value *out)
{
    tpl_seq *s = tpl_seq_new(r, TPL_ITER, 0);
    *g = tpl_alloc(r, 1, sizeof **g);
    if (s == NULL || *g == NULL) return false;
    (*g)->lazy.next = generate;
    (*g)->yields = kind;
    (*g)->input = input;
    (*g)->fallback = tpl_undefined(NULL);
    s->lazy = &(*g)->lazy;
    *out = tpl_seq_value(s);
    return true;
}

/* A filter's or test's name and arguments: args from first on. */
static bool take_row(tpl_render *r, const tpl_args *args, size_t first, bool is_test, generator *g)
{
    if (args->items[first].kind != TPL_TEXT) {
        return tpl_fail_type(r, "expected a filter's or test's name, got", args->items[first]);
    }
    str name = tpl_text_str(args->items[first].as.text);
    g->row = is_test ? tpl_test_find(name) : tpl_filter_find(name);
    if (g->row == NULL) {
        return tpl_fail(r, WEFT_UNSUPPORTED, "%s '%.*s' is not supported",
                        is_test ? "test" : "filter", (int)(name.len < 80 ? name.len : 80),
                        name.ptr);
    }
    g->args = *args;
    g->args.items += first + 1;
    g->args.n -= first + 1;
    return true;
}

static bool map_arguments(tpl_render *r, const tpl_args *args, generator *g)
{
    if (args->n != 0) return take_row(r, args, 0, false, g);
    for (size_t i = 0; i < args->n_keywords; i++) {
        const tpl_keyword_value *k = &args->keywords[i];
        if (str_equal_text(k->name, "attribute")) {
            g->has_path = true;
            g->path = k->value;
        } else if (str_equal_text(k->name, "default")) {
            if (k->value.kind != TPL_NONE) g->fallback = k->value;
        } else {
            return tpl_fail(r, WEFT_FORMAT, "map got a keyword argument it does not take");
        }
    }
    return g->has_path || tpl_fail(r, WEFT_FORMAT, "map needs a filter or an attribute");
}

/* An input that is false, none among them, gives nothing whatever the arguments. */
static bool nothing(tpl_render *r, tpl_value *out)
{
    tpl_seq *s = tpl_seq_new(r, TPL_ITER, 0);
    if (s != NULL) *out = tpl_seq_value(s);
    return s != NULL;
}

FILTER(filter_map)
{
    generator *g;
    if (!tpl_truth(self)) return nothing(r, out);
    return make_generator(r, YIELD_RESULT, self, &g, out) && map_arguments(r, call->args, g);
}

static bool select_by(tpl_render *r, tpl_value self, const tpl_call *call, bool by_path, bool keep,
                      tpl_value *out)
{
    const tpl_args *args = call->args;
    size_t first = by_path ? 1 : 0;
    generator *g;
    if (!tpl_truth(self)) return nothing(r, out);
    if (!make_generator(r, keep ? YIELD_IF_TRUE : YIELD_IF_FALSE, self, &g, out)) return false;
    if (args->n < first) return tpl_fail(r, WEFT_FORMAT, "an attribute's name is missing");
    g->has_path = by_path;
    if (by_path) g->path = args->items[0];
    return args->n == first || take_row(r, args, first, true, g);
}

FILTER(filter_select)
{
    return select_by(r, self, call, false, true, out);
}

FILTER(filter_reject)
{
    return select_by(r, self, call, false, false, out);
}

FILTER(filter_selectattr)
{
    return select_by(r, self, call, true, true, out);
}

FILTER(filter_rejectattr)
{
    return select_by(r, self, call, true, false, out);
}

FILTER(filter_unique)
{
    generator *g;
    if (!make_generator(r, YIELD_NEW, self, &g, out)) return false;
    g->case_sensitive = tpl_slot_flag(call, 0, false);
    g->has_path = !absent(call, 1);
    g->path = call->slot[1];
    g->seen = tpl_dict_new(r);
    return g->seen != NULL;
}

FILTER(filter_items)
{
    (void)call;
    generator *g;
    return make_generator(r, YIELD_PAIR, self, &g, out);
}

static const tpl_row FILTERS[] = {
    {"attr", "name", filter_attr},
    {"batch", "linecount fill_with?", filter_batch},
    {"count", "", filter_length},
    {"dictsort", "case_sensitive? by? reverse?", filter_dictsort},
    {"first", "", filter_first},
    {"groupby", "attribute default? case_sensitive?", filter_groupby},
    {"items", "", filter_items},
    {"join", "d? attribute?", filter_join},
    {"last", "", filter_last},
    {"length", "", filter_length},
    {"list", "", filter_list},
    {"map", "* **", filter_map},
    {"max", "case_sensitive? attribute?", filter_max},
    {"min", "case_sensitive? attribute?", filter_min},
    {"reject", "* **", filter_reject},
    {"rejectattr", "* **", filter_rejectattr},
    {"reverse", "", filter_reverse},
    {"select", "* **", filter_select},
    {"selectattr", "* **", filter_selectattr},
    {"slice", "slices fill_with?", filter_slice},
    {"sort", "reverse? case_sensitive? attribute?", filter_sort},
    {"sum", "attribute? start?", filter_sum},
    {"unique", "case_sensitive? attribute?", filter_unique},
};

const tpl_row *tpl_list_filter_find(str name)
{
    return tpl_row_find(FILTERS, COUNT_OF(FILTERS), name);
}
