/* template_exec.c - running statements. */
#include <string.h>

#include "base/assert.h"
#include "chat/template_eval.h"
#include "chat/template_print.h"

tpl_scope *tpl_scope_new(tpl_render *r, tpl_scope *outer)
{
    tpl_scope *s = tpl_alloc(r, 1, sizeof *s);
    if (s != NULL) s->outer = outer;
    return s;
}

bool tpl_scope_set(tpl_render *r, uint32_t name, tpl_value value)
{
    tpl_scope *s = r->scope;
    if (s == NULL) {
        r->globals[name] = value;
        return true;
    }
    if (!tpl_charge(r, s->n)) return false;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->bindings[i].name != name) continue;
        s->bindings[i].value = value;
        return true;
    }
    if (s->n == s->capacity) {
        uint32_t capacity = s->capacity == 0 ? 4 : s->capacity * 2;
        tpl_binding *bindings = tpl_alloc(r, capacity, sizeof *bindings);
        if (bindings == NULL) return false;
        if (s->n != 0) memcpy(bindings, s->bindings, s->n * sizeof *bindings);
        s->bindings = bindings;
        s->capacity = capacity;
    }
    s->bindings[s->n++] = (tpl_binding){name, value};
    return true;
}

static bool unpack(tpl_render *r, const tpl_nodes *targets, tpl_value value)
{
    tpl_iter it;
    if (!tpl_iter_init(r, &it, value)) return false;
    tpl_value item;
    for (uint32_t i = 0; i < targets->n; i++) {
        if (!tpl_iter_next(r, &it, &item)) {
            return tpl_fail(r, WEFT_FORMAT, "not enough values to unpack: expected %u, got %u",
                            targets->n, i);
        }
        if (!tpl_assign(r, targets->items[i], item)) return false;
    }
    if (tpl_iter_next(r, &it, &item)) {
        return tpl_fail(r, WEFT_FORMAT, "too many values to unpack: expected %u", targets->n);
    }
    return r->status == WEFT_OK;
}

bool tpl_assign(tpl_render *r, const tpl_node *target, tpl_value value)
{
    if (target->kind == TPL_NAME) return tpl_scope_set(r, target->as.name, value);
    if (target->kind == TPL_TUPLE_NODE) {
        if (!tpl_enter(r)) return false;
        bool ok = unpack(r, &target->as.list, value);
        tpl_leave(r);
        return ok;
    }
    ASSERT(target->kind == TPL_ATTR);
    tpl_value object;
    if (!tpl_eval(r, target->as.attr.object, &object)) return false;
    if (object.kind != TPL_NAMESPACE) {
        return tpl_fail_type(r, "cannot set an attribute of what is no namespace but of type",
                             object);
    }
    return tpl_dict_put(r, object.as.dict, target->as.attr.name, value);
}

bool tpl_capture_begin(tpl_render *r, tpl_sink *saved)
{
    *saved = r->sink;
    tpl_buffer *b = tpl_buffer_new(r, 0);
    if (b == NULL) return false;
    r->sink.buffer = b;
    return true;
}

tpl_text *tpl_capture_end(tpl_render *r, tpl_sink saved)
{
    tpl_buffer *b = r->sink.buffer;
    r->sink = saved;
    return r->status == WEFT_OK ? tpl_buffer_text(r, b) : NULL;
}

static bool exec_output(tpl_render *r, const tpl_node *n)
{
    tpl_value v;
    if (!tpl_eval(r, n->as.three.part[0], &v)) return false;
    if (v.kind == TPL_UNDEFINED) return true;
    if (v.kind != TPL_TEXT && r->sink.buffer != NULL) return tpl_print(r, r->sink.buffer, v);
    tpl_text *t;
    return tpl_to_text(r, v, &t) && tpl_emit(r, t);
}

bool tpl_emit_result(tpl_render *r, tpl_value v)
{
    if (v.kind == TPL_TEXT) return tpl_emit(r, v.as.text);
    return tpl_fail_type(r, "a block's result has to be a string, got", v);
}

static bool exec_if(tpl_render *r, const tpl_node *n, tpl_flow *flow)
{
    for (uint32_t i = 0; i < n->as.branches.n; i++) {
        const tpl_branch *branch = &n->as.branches.items[i];
        tpl_value test;
        if (!tpl_eval(r, branch->test, &test)) return false;
        if (tpl_truth(test)) return tpl_exec(r, &branch->body, flow);
    }
    return tpl_exec(r, &n->as.branches.otherwise, flow);
}

static bool exec_set(tpl_render *r, const tpl_node *n)
{
    tpl_value v;
    return tpl_eval(r, n->as.three.part[1], &v) && tpl_assign(r, n->as.three.part[0], v);
}

/* Runs a body in a scope inside the current one. */
static bool exec_inner(tpl_render *r, const tpl_nodes *body, tpl_flow *flow)
{
    tpl_scope *outer = r->scope;
    r->scope = tpl_scope_new(r, outer);
    bool ok = r->scope != NULL && tpl_exec(r, body, flow);
    r->scope = outer;
    return ok;
}

/* The body as a text, through the node's filter. */
static bool exec_captured(tpl_render *r, const tpl_node *n, tpl_value *out, tpl_flow *flow)
{
    tpl_sink saved;
    if (!tpl_capture_begin(r, &saved)) return false;
    exec_inner(r, &n->as.block.body, flow);
    tpl_text *t = tpl_capture_end(r, saved);
    if (t == NULL || *flow != TPL_FLOW_ON) return t != NULL;
    tpl_value before = r->filter_input;
    r->filter_input = tpl_text_value(t);
    bool ok = tpl_eval(r, n->as.block.filter, out);
    r->filter_input = before;
    return ok;
}

static bool exec_set_block(tpl_render *r, const tpl_node *n, tpl_flow *flow)
{
    tpl_value v;
    if (!exec_captured(r, n, &v, flow)) return false;
    return *flow != TPL_FLOW_ON || tpl_assign(r, n->as.block.target, v);
}

static bool exec_filter_block(tpl_render *r, const tpl_node *n, tpl_flow *flow)
{
    tpl_value v;
    if (!exec_captured(r, n, &v, flow)) return false;
    return *flow != TPL_FLOW_ON || tpl_emit_result(r, v);
}

/* Values are seen from outside the block, all of them. */
static bool exec_with(tpl_render *r, const tpl_node *n, tpl_flow *flow)
{
    tpl_scope *outer = r->scope;
    tpl_scope *inner = tpl_scope_new(r, outer);
    if (inner == NULL) return false;
    bool ok = true;
    for (uint32_t i = 0; ok && i < n->as.with.pairs.n; i++) {
        const tpl_node *pair = n->as.with.pairs.items[i];
        tpl_value v;
        ok = tpl_eval(r, pair->as.three.part[1], &v);
        r->scope = inner;
        ok = ok && tpl_assign(r, pair->as.three.part[0], v);
        r->scope = outer;
    }
    r->scope = inner;
    ok = ok && tpl_exec(r, &n->as.with.body, flow);
    r->scope = outer;
    return ok;
}

static bool exec_macro(tpl_render *r, const tpl_node *n)
{
    tpl_value v;
    return tpl_macro_make(r, n->as.macro, &v) && tpl_scope_set(r, n->as.macro->id, v);
}

static bool exec_node(tpl_render *r, const tpl_node *n, tpl_flow *flow)
{
    switch (n->kind) {
    case TPL_DATA:
        return tpl_emit(r, n->as.constant.as.text);
    case TPL_OUTPUT:
        return exec_output(r, n);
    case TPL_IF:
        return exec_if(r, n, flow);
    case TPL_FOR:
        return tpl_exec_for(r, n, flow);
    case TPL_SET:
        return exec_set(r, n);
    case TPL_SET_BLOCK:
        return exec_set_block(r, n, flow);
    case TPL_FILTER_BLOCK:
        return exec_filter_block(r, n, flow);
    case TPL_MACRO_NODE:
        return exec_macro(r, n);
    case TPL_CALL_BLOCK:
        return tpl_exec_call_block(r, n);
    case TPL_WITH:
        return exec_with(r, n, flow);
    case TPL_SCOPE:
        return exec_inner(r, &n->as.block.body, flow);
    case TPL_BREAK:
        *flow = TPL_FLOW_BREAK;
        return true;
    case TPL_CONTINUE:
        *flow = TPL_FLOW_CONTINUE;
        return true;
    default:
        ASSERT(false);
    }
    return false;
}

bool tpl_exec(tpl_render *r, const tpl_nodes *body, tpl_flow *flow)
{
    *flow = TPL_FLOW_ON;
    for (uint32_t i = 0; i < body->n && *flow == TPL_FLOW_ON; i++) {
        if (!tpl_step(r, 1) || !tpl_enter(r)) return false;
        r->line = body->items[i]->line;
        bool ok = exec_node(r, body->items[i], flow);
        tpl_leave(r);
        if (!ok) return false;
    }
    return true;
}
