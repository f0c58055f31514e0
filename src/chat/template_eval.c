/* template_eval.c - evaluating expressions. */
#include "chat/template_eval.h"

#include <string.h>

#include "base/assert.h"
#include "chat/template_attr.h"
#include "chat/template_ops.h"
#include "chat/template_print.h"

static bool eval_name(tpl_render *r, uint32_t name, tpl_value *out)
{
    for (const tpl_scope *s = r->scope; s != NULL; s = s->outer) {
        if (!tpl_charge(r, s->n)) return false;
        for (uint32_t i = 0; i < s->n; i++) {
            if (s->bindings[i].name != name) continue;
            *out = s->bindings[i].value;
            return true;
        }
    }
    tpl_value *global = &r->globals[name];
    if (global->kind == TPL_UNDEFINED && global->as.reason == NULL) {
        str text = r->of->names[name];
        global->as.reason =
            tpl_printf(r, "'%.*s' is undefined", (int)(text.len < 100 ? text.len : 100), text.ptr);
        if (global->as.reason == NULL) return false;
    }
    *out = *global;
    return true;
}

static bool eval_list(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_flavour flavour = n->kind == TPL_LIST_NODE ? TPL_LIST : TPL_TUPLE;
    tpl_seq *s = tpl_seq_new(r, flavour, n->as.list.n);
    if (s == NULL) return false;
    for (uint32_t i = 0; i < n->as.list.n; i++) {
        if (!tpl_eval(r, n->as.list.items[i], &s->items[i])) return false;
    }
    *out = tpl_seq_value(s);
    return true;
}

static bool eval_dict(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_dict *d = tpl_dict_new(r);
    if (d == NULL) return false;
    for (uint32_t i = 0; i + 1 < n->as.list.n; i += 2) {
        tpl_value key, value;
        if (!tpl_eval(r, n->as.list.items[i], &key) ||
            !tpl_eval(r, n->as.list.items[i + 1], &value) || !tpl_dict_put(r, d, key, value)) {
            return false;
        }
    }
    *out = tpl_dict_value(d);
    return true;
}

static bool eval_chain(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_value left;
    if (!tpl_eval(r, n->as.chain.first, &left)) return false;
    for (uint32_t i = 0; i < n->as.chain.n; i++) {
        const tpl_operand *operand = &n->as.chain.rest[i];
        tpl_value right;
        if (!tpl_eval(r, operand->node, &right) ||
            !tpl_arithmetic(r, (tpl_op)operand->op, left, right, &left)) {
            return false;
        }
    }
    *out = left;
    return true;
}

static bool eval_compare(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_value left;
    bool holds = true;
    if (!tpl_eval(r, n->as.chain.first, &left)) return false;
    for (uint32_t i = 0; i < n->as.chain.n && holds; i++) {
        const tpl_operand *operand = &n->as.chain.rest[i];
        tpl_value right;
        if (!tpl_eval(r, operand->node, &right) ||
            !tpl_relation(r, (tpl_op)operand->op, left, right, &holds)) {
            return false;
        }
        left = right;
    }
    *out = tpl_bool(holds);
    return true;
}

/* The first operand that decides, itself and not its truth. */
static bool eval_logic(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    bool decides = n->kind == TPL_OR;
    for (uint32_t i = 0; i < n->as.list.n; i++) {
        if (!tpl_eval(r, n->as.list.items[i], out)) return false;
        if (tpl_truth(*out) == decides) break;
    }
    return true;
}

static bool eval_concat(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_buffer *b = tpl_buffer_new(r, 64);
    if (b == NULL) return false;
    for (uint32_t i = 0; i < n->as.list.n; i++) {
        tpl_value item;
        if (!tpl_eval(r, n->as.list.items[i], &item) || !tpl_print(r, b, item)) return false;
    }
    tpl_text *t = tpl_buffer_text(r, b);
    if (t == NULL) return false;
    *out = tpl_text_value(t);
    return true;
}

static bool eval_condition(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_node *const *part = n->as.three.part;
    tpl_value test;
    if (!tpl_eval(r, part[0], &test)) return false;
    if (tpl_truth(test)) return tpl_eval(r, part[1], out);
    if (part[2] != NULL) return tpl_eval(r, part[2], out);
    *out = tpl_undefined("an inline if was false and has no else");
    return true;
}

static bool eval_unary(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_value operand;
    if (!tpl_eval(r, n->as.three.part[0], &operand)) return false;
    if (n->kind == TPL_NEG) return tpl_negate(r, operand, out);
    if (n->kind == TPL_POS) return tpl_positive(r, operand, out);
    *out = tpl_bool(!tpl_truth(operand));
    return true;
}

static bool eval_slice(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_value object, bounds[3];
    if (!tpl_eval(r, n->as.slice.object, &object)) return false;
    for (int i = 0; i < 3; i++) {
        const tpl_node *bound = n->as.slice.bounds.items[i];
        bounds[i] = tpl_none();
        if (bound != NULL && !tpl_eval(r, bound, &bounds[i])) return false;
    }
    return tpl_slice(r, object, bounds, out);
}

static bool add_keyword(tpl_render *r, tpl_args *args, str name, tpl_value value)
{
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (str_equal(args->keywords[i].name, name)) {
            return tpl_fail(r, WEFT_FORMAT, "a call got two values for '%.*s'",
                            (int)(name.len < 80 ? name.len : 80), name.ptr);
        }
    }
    tpl_keyword_value *keywords = tpl_alloc(r, args->n_keywords + 1, sizeof *keywords);
    if (keywords == NULL || !tpl_charge(r, args->n_keywords * sizeof *keywords)) return false;
    if (args->n_keywords != 0) {
        memcpy(keywords, args->keywords, args->n_keywords * sizeof *keywords);
    }
    keywords[args->n_keywords] = (tpl_keyword_value){name, value};
    args->keywords = keywords;
    args->n_keywords++;
    return true;
}

static bool add_stars(tpl_render *r, const tpl_call_node *from, tpl_args *args)
{
    if (from->stars == NULL) return true;
    tpl_value all;
    if (!tpl_eval(r, from->stars, &all)) return false;
    if (all.kind != TPL_DICT) return tpl_fail_type(r, "'**' needs a dict, got", all);
    for (size_t i = 0; i < all.as.dict->n; i++) {
        const tpl_entry *e = &all.as.dict->entries[i];
        if (e->key.kind != TPL_TEXT) return tpl_fail_type(r, "a keyword cannot be of type", e->key);
        if (!add_keyword(r, args, tpl_text_str(e->key.as.text), e->value)) return false;
    }
    return true;
}

static bool add_star(tpl_render *r, const tpl_call_node *from, tpl_args *args)
{
    if (from->star == NULL) return true;
    tpl_value all;
    if (!tpl_eval(r, from->star, &all)) return false;
    tpl_seq *more = tpl_collect(r, all);
    if (more == NULL) return false;
    tpl_value *items = tpl_alloc(r, args->n + more->n, sizeof *items);
    if (items == NULL) return false;
    if (args->n != 0) memcpy(items, args->items, args->n * sizeof *items);
    if (more->n != 0) memcpy(items + args->n, more->items, more->n * sizeof *items);
    args->items = items;
    args->n += more->n;
    return true;
}

bool tpl_eval_args(tpl_render *r, const tpl_call_node *from, const tpl_value *caller,
                   tpl_args *args)
{
    memset(args, 0, sizeof *args);
    args->n = from->positional.n;
    if (args->n != 0) {
        args->items = tpl_alloc(r, args->n, sizeof *args->items);
        if (args->items == NULL) return false;
    }
    for (size_t i = 0; i < args->n; i++) {
        if (!tpl_eval(r, from->positional.items[i], &args->items[i])) return false;
    }
    if (!add_star(r, from, args)) return false;
    if (from->n_keywords != 0) {
        args->keywords = tpl_alloc(r, from->n_keywords, sizeof *args->keywords);
        if (args->keywords == NULL) return false;
    }
    for (uint32_t i = 0; i < from->n_keywords; i++) {
        args->keywords[i].name = from->keywords[i].name;
        if (!tpl_eval(r, from->keywords[i].value, &args->keywords[i].value)) return false;
    }
    args->n_keywords = from->n_keywords;
    if (caller != NULL && !add_keyword(r, args, str_of("caller"), *caller)) return false;
    return add_stars(r, from, args);
}

static bool eval_call(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_value callee;
    tpl_args args;
    if (!tpl_eval(r, n->as.call.callee, &callee) ||
        !tpl_eval_args(r, n->as.call.args, NULL, &args)) {
        return false;
    }
    r->line = n->line;
    return tpl_call_value(r, callee, &args, out);
}

static bool eval_apply(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_value input;
    tpl_args args;
    if (!tpl_eval(r, n->as.apply.input, &input) ||
        !tpl_eval_args(r, n->as.apply.args, NULL, &args)) {
        return false;
    }
    r->line = n->line;
    return tpl_row_call(r, n->as.apply.row, input, &args, out);
}

static bool eval_attr(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_value object;
    return tpl_eval(r, n->as.attr.object, &object) && tpl_getattr(r, object, n->as.attr.name, out);
}

static bool eval_item(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    tpl_value object, index;
    return tpl_eval(r, n->as.three.part[0], &object) && tpl_eval(r, n->as.three.part[1], &index) &&
           tpl_getitem(r, object, index, out);
}

static bool eval_node(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    switch (n->kind) {
    case TPL_CONST:
        *out = n->as.constant;
        return true;
    case TPL_INPUT:
        *out = r->filter_input;
        return true;
    case TPL_NAME:
        return eval_name(r, n->as.name, out);
    case TPL_LIST_NODE:
    case TPL_TUPLE_NODE:
        return eval_list(r, n, out);
    case TPL_DICT_NODE:
        return eval_dict(r, n, out);
    case TPL_CHAIN:
        return eval_chain(r, n, out);
    case TPL_COMPARE:
        return eval_compare(r, n, out);
    case TPL_AND:
    case TPL_OR:
        return eval_logic(r, n, out);
    case TPL_CONCAT:
        return eval_concat(r, n, out);
    case TPL_NOT:
    case TPL_NEG:
    case TPL_POS:
        return eval_unary(r, n, out);
    case TPL_COND:
        return eval_condition(r, n, out);
    case TPL_ATTR:
        return eval_attr(r, n, out);
    case TPL_ITEM:
        return eval_item(r, n, out);
    case TPL_SLICE:
        return eval_slice(r, n, out);
    case TPL_CALL:
        return eval_call(r, n, out);
    case TPL_FILTER:
    case TPL_TEST:
        return eval_apply(r, n, out);
    default:
        ASSERT(false);
    }
    return false;
}

bool tpl_eval(tpl_render *r, const tpl_node *n, tpl_value *out)
{
    *out = tpl_none();
    if (!tpl_step(r, 1) || !tpl_enter(r)) return false;
    r->line = n->line;
    bool ok = eval_node(r, n, out);
    tpl_leave(r);
    return ok;
}
