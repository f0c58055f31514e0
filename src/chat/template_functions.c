/* template_functions.c - functions every template may call. */
#include "chat/template_functions.h"

#include <string.h>

#include "base/assert.h"
#include "chat/template_eval.h"
#include "chat/template_print.h"

/* Jinja's sandbox has the same bound. */
enum { RANGE_LONGEST = 100000 };

static bool function_range(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)self;
    int64_t bounds[3] = {0, 0, 1};
    for (size_t i = 0; i < 3; i++) {
        if (!tpl_slot_int(r, call, i, bounds[i], &bounds[i])) return false;
    }
    if (!call->given[1]) {
        bounds[1] = bounds[0];
        bounds[0] = 0;
    }
    int64_t start = bounds[0], stop = bounds[1], step = bounds[2];
    if (step == 0) return tpl_fail(r, WEFT_FORMAT, "range() has step zero");
    if (step == INT64_MIN) step = -INT64_MAX;
    uint64_t width = step > 0 ? (stop > start ? (uint64_t)stop - (uint64_t)start : 0)
                              : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t stride = step > 0 ? (uint64_t)step : (uint64_t)-step;
    uint64_t n = width == 0 ? 0 : (width - 1) / stride + 1;
    if (n > RANGE_LONGEST) {
        return tpl_fail(r, WEFT_LIMIT, "range() of %llu numbers exceeds %d", (unsigned long long)n,
                        RANGE_LONGEST);
    }
    tpl_seq *s = tpl_seq_new(r, TPL_RANGE, 0);
    if (s == NULL) return false;
    s->n = (size_t)n;
    s->start = start;
    s->stop = stop;
    s->step = step;
    *out = tpl_seq_value(s);
    return true;
}

/* A dict of pairs or of another dict. */
static bool fill_dict(tpl_render *r, tpl_dict *d, tpl_value from)
{
    if (from.kind == TPL_DICT) {
        for (size_t i = 0; i < from.as.dict->n; i++) {
            const tpl_entry *e = &from.as.dict->entries[i];
            if (!tpl_dict_put(r, d, e->key, e->value)) return false;
        }
        return true;
    }
    tpl_iter it;
    tpl_value item;
    if (!tpl_iter_init(r, &it, from)) return false;
    while (tpl_iter_next(r, &it, &item)) {
        tpl_seq *pair = tpl_collect(r, item);
        if (pair == NULL) return false;
        if (pair->n != 2) return tpl_fail(r, WEFT_FORMAT, "a dict is made of pairs");
        if (!tpl_dict_put(r, d, pair->items[0], pair->items[1])) return false;
    }
    return r->status == WEFT_OK;
}

static bool function_dict(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)self;
    tpl_dict *d = tpl_dict_new(r);
    if (d == NULL || (call->args->n != 0 && !fill_dict(r, d, call->args->items[0]))) return false;
    if (call->args->n > 1) return tpl_fail(r, WEFT_FORMAT, "dict() takes at most one argument");
    for (size_t i = 0; i < call->args->n_keywords; i++) {
        const tpl_keyword_value *k = &call->args->keywords[i];
        tpl_text *name = tpl_text_borrow(r, k->name, false);
        if (name == NULL || !tpl_dict_put(r, d, tpl_text_value(name), k->value)) return false;
    }
    *out = tpl_dict_value(d);
    return true;
}

static bool function_namespace(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    if (!function_dict(r, self, call, out)) return false;
    out->kind = TPL_NAMESPACE;
    return true;
}

static bool function_raise(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)self;
    (void)out;
    tpl_text *t;
    if (!tpl_to_text(r, call->slot[0], &t)) return false;
    str s = tpl_text_str(t);
    r->line = 0;
    return tpl_fail(r, WEFT_ARGUMENT, "%.*s", (int)(s.len < 1000 ? s.len : 1000), s.ptr);
}

static bool function_strftime(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)self;
    tpl_text *format;
    return tpl_slot_text(r, call, 0, "", &format) && tpl_strftime(r, r->input->now, format, out);
}

static bool function_cycler(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)self;
    size_t n = call->args->n;
    if (n == 0) return tpl_fail(r, WEFT_FORMAT, "cycler() has no items");
    tpl_cycler *c = tpl_alloc(r, 1, sizeof *c);
    if (c == NULL) return false;
    c->items = tpl_alloc(r, n, sizeof *c->items);
    if (c->items == NULL) return false;
    memcpy(c->items, call->args->items, n * sizeof *c->items);
    c->n = n;
    *out = (tpl_value){.kind = TPL_CYCLER, .as.cycler = c};
    return true;
}

/* What stands between items: nothing at the first call, the separator at every other. */
typedef struct joiner {
    bool used;
    tpl_value separator;
} joiner;

static bool function_joiner(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    (void)self;
    tpl_text *separator;
    joiner *j = tpl_alloc(r, 1, sizeof *j);
    if (j == NULL || !tpl_slot_text(r, call, 0, ", ", &separator)) return false;
    j->separator = tpl_text_value(separator);
    *out = (tpl_value){.kind = TPL_JOINER, .as.joiner = j};
    return true;
}

bool tpl_joiner_call(tpl_render *r, tpl_value callee, const tpl_args *args, tpl_value *out)
{
    joiner *j = callee.as.joiner;
    if (args->n != 0 || args->n_keywords != 0) {
        return tpl_fail(r, WEFT_FORMAT, "a joiner takes no arguments");
    }
    *out = j->separator;
    if (!j->used) {
        tpl_text *nothing = tpl_text_borrow(r, (str){"", 0}, false);
        if (nothing == NULL) return false;
        *out = tpl_text_value(nothing);
    }
    j->used = true;
    return true;
}

static const tpl_row FUNCTIONS[] = {
    {"cycler", "*", function_cycler},
    {"dict", "* **", function_dict},
    {"joiner", "sep?", function_joiner},
    {"namespace", "* **", function_namespace},
    {"raise_exception", "message", function_raise},
    {"range", "start stop? step?", function_range},
    {"strftime_now", "format", function_strftime},
};

const tpl_row *tpl_function_find(str name)
{
    return tpl_row_find(FUNCTIONS, COUNT_OF(FUNCTIONS), name);
}
