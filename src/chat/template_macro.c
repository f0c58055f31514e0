/* template_macro.c - macros, and the blocks that calls hand to them. */
#include <string.h>

#include "chat/template_eval.h"
#include "chat/template_print.h"

struct tpl_macro {
    const tpl_macro_node *node;
    tpl_scope *closure;
};

bool tpl_macro_make(tpl_render *r, const tpl_macro_node *node, tpl_value *out)
{
    tpl_macro *m = tpl_alloc(r, 1, sizeof *m);
    if (m == NULL) return false;
    m->node = node;
    m->closure = r->scope;
    for (tpl_scope *s = r->scope; s != NULL && !s->kept; s = s->outer) s->kept = true;
    *out = (tpl_value){.kind = TPL_MACRO, .as.macro = m};
    return true;
}

bool tpl_macro_repr(tpl_render *r, tpl_buffer *b, const tpl_macro *m)
{
    if (m->node->call != NULL) return tpl_buffer_add(r, b, str_of("<Macro anonymous>"), false);
    return tpl_buffer_add(r, b, str_of("<Macro '"), false) &&
           tpl_buffer_add(r, b, m->node->name, false) && tpl_buffer_add(r, b, str_of("'>"), false);
}

bool tpl_macro_attr(tpl_render *r, const tpl_macro *m, str name, tpl_value *out)
{
    if (str_equal_text(name, "name")) {
        tpl_text *t = tpl_text_copy(r, m->node->name);
        if (t != NULL) *out = tpl_text_value(t);
        return t != NULL;
    }
    if (str_equal_text(name, "caller")) {
        *out = tpl_bool(m->node->uses_caller);
    } else if (str_equal_text(name, "catch_kwargs")) {
        *out = tpl_bool(m->node->uses_kwargs);
    } else if (str_equal_text(name, "catch_varargs")) {
        *out = tpl_bool(m->node->uses_varargs);
    } else {
        return false;
    }
    return true;
}

/* A keyword's place among the arguments, or n_keywords. */
static size_t find_keyword(const tpl_args *args, str name)
{
    size_t i = 0;
    while (i < args->n_keywords && !str_equal(args->keywords[i].name, name)) i++;
    return i;
}

/* Sets parameters in r->scope; *n_used counts the keywords taken. */
static bool bind_params(tpl_render *r, const tpl_macro_node *node, const tpl_args *args,
                        size_t *n_used)
{
    for (uint32_t i = 0; i < node->n_params; i++) {
        tpl_value v;
        size_t keyword = i < args->n ? args->n_keywords : find_keyword(args, node->params[i]);
        if (i < args->n) {
            v = args->items[i];
        } else if (keyword < args->n_keywords) {
            v = args->keywords[keyword].value;
            (*n_used)++;
        } else if (node->defaults[i] != NULL) {
            if (!tpl_eval(r, node->defaults[i], &v)) return false;
        } else {
            str name = node->params[i];
            char *reason = tpl_printf(r, "parameter '%.*s' was not provided",
                                      (int)(name.len < 100 ? name.len : 100), name.ptr);
            if (reason == NULL) return false;
            v = tpl_undefined(reason);
        }
        if (!tpl_scope_set(r, node->ids[i], v)) return false;
    }
    return true;
}

/* Among the parameters from first on. */
static bool has_param(const tpl_macro_node *node, size_t first, str name)
{
    for (size_t i = first; i < node->n_params; i++) {
        if (str_equal(node->params[i], name)) return true;
    }
    return false;
}

static bool bind_caller(tpl_render *r, const tpl_macro_node *node, const tpl_args *args,
                        size_t *n_used)
{
    if (!node->uses_caller || has_param(node, 0, str_of("caller"))) return true;
    size_t keyword = find_keyword(args, str_of("caller"));
    tpl_value v = tpl_undefined("no caller defined");
    if (keyword < args->n_keywords) {
        if (args->keywords[keyword].value.kind != TPL_NONE) v = args->keywords[keyword].value;
        (*n_used)++;
    }
    return tpl_scope_set(r, node->caller_id, v);
}

/* kwargs: keywords that neither a parameter nor the caller took. One that names a parameter already
 * filled by position is among them. */
static bool bind_kwargs(tpl_render *r, const tpl_macro_node *node, const tpl_args *args)
{
    tpl_dict *d = tpl_dict_new(r);
    if (d == NULL) return false;
    for (size_t i = 0; i < args->n_keywords; i++) {
        str name = args->keywords[i].name;
        bool taken =
            has_param(node, args->n, name) || (node->uses_caller && str_equal_text(name, "caller"));
        if (taken) continue;
        tpl_text *key = tpl_text_borrow(r, name, false);
        if (key == NULL || !tpl_dict_put(r, d, tpl_text_value(key), args->keywords[i].value)) {
            return false;
        }
    }
    return tpl_scope_set(r, node->kwargs_id, tpl_dict_value(d));
}

static bool bind_varargs(tpl_render *r, const tpl_macro_node *node, const tpl_args *args)
{
    size_t n = args->n > node->n_params ? args->n - node->n_params : 0;
    tpl_seq *rest = tpl_seq_new(r, TPL_TUPLE, n);
    if (rest == NULL) return false;
    if (n != 0) memcpy(rest->items, args->items + node->n_params, n * sizeof *rest->items);
    return tpl_scope_set(r, node->varargs_id, tpl_seq_value(rest));
}

static bool bind(tpl_render *r, const tpl_macro_node *node, const tpl_args *args)
{
    size_t n_used = 0;
    int name_len = (int)(node->name.len < 80 ? node->name.len : 80);
    if (!bind_caller(r, node, args, &n_used) || !bind_params(r, node, args, &n_used)) return false;
    if (node->uses_kwargs) {
        if (!bind_kwargs(r, node, args)) return false;
    } else if (n_used < args->n_keywords) {
        return tpl_fail(r, WEFT_FORMAT, "macro '%.*s' got a keyword argument it does not take",
                        name_len, node->name.ptr);
    }
    if (node->uses_varargs) return bind_varargs(r, node, args);
    if (args->n <= node->n_params) return true;
    return tpl_fail(r, WEFT_FORMAT, "macro '%.*s' takes at most %u arguments, got %zu", name_len,
                    node->name.ptr, node->n_params, args->n);
}

bool tpl_macro_call(tpl_render *r, tpl_macro *m, const tpl_args *args, tpl_value *out)
{
    if (!tpl_call_enter(r)) return false;
    tpl_scope *scope = r->scope;
    tpl_sink saved;
    tpl_text *t = NULL;
    r->scope = tpl_scope_new(r, m->closure);
    if (r->scope != NULL && tpl_capture_begin(r, &saved)) {
        tpl_flow flow;
        if (bind(r, m->node, args)) tpl_exec(r, &m->node->body, &flow);
        t = tpl_capture_end(r, saved);
    }
    r->scope = scope;
    tpl_call_leave(r);
    if (t == NULL) return false;
    *out = tpl_text_value(t);
    return true;
}

bool tpl_exec_call_block(tpl_render *r, const tpl_node *n)
{
    const tpl_node *call = n->as.macro->call;
    tpl_value callee, caller, result;
    tpl_args args;
    if (!tpl_macro_make(r, n->as.macro, &caller) || !tpl_eval(r, call->as.call.callee, &callee) ||
        !tpl_eval_args(r, call->as.call.args, &caller, &args) ||
        !tpl_call_value(r, callee, &args, &result)) {
        return false;
    }
    return tpl_emit_result(r, result);
}
