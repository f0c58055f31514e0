/* template_loop.c - for loops and the variable "loop" in them.
 *
 * A loop's condition is evaluated when the next item is asked for and not before, since a body may
 * change what it depends on; loop.last and loop.nextitem ask one item ahead and loop.length for
 * all, as in Jinja. */
#include <stdio.h>
#include <string.h>

#include "chat/template_eval.h"

struct tpl_loop {
    const tpl_for_node *node;
    tpl_scope *outer;
    tpl_iter source;
    bool filtered; /* source holds only items that pass */
    bool length_known;
    size_t length;
    size_t index; /* of the current item, from 1; 0 before the first */
    uint32_t depth0;
    bool has_after, has_changed;
    tpl_value before, current, after;
    tpl_value changed; /* the arguments of the last changed() */
};

/* The item becomes what its targets hold: with several of them a tuple, as Jinja's own filter makes
 * it. */
static bool passes(tpl_render *r, tpl_loop *l, tpl_value *item, bool *pass)
{
    const tpl_node *target = l->node->target;
    tpl_scope *scope = r->scope;
    r->scope = tpl_scope_new(r, l->outer);
    tpl_value test = tpl_none();
    bool ok =
        r->scope != NULL && tpl_assign(r, target, *item) && tpl_eval(r, l->node->filter, &test);
    if (ok && target->kind == TPL_TUPLE_NODE) ok = tpl_eval(r, target, item);
    r->scope = scope;
    *pass = tpl_truth(test);
    return ok;
}

/* false at the end or on failure, which r->status tells apart. */
static bool fetch(tpl_render *r, tpl_loop *l, tpl_value *item)
{
    while (tpl_iter_next(r, &l->source, item)) {
        bool pass = true;
        if (l->node->filter != NULL && !l->filtered && !passes(r, l, item, &pass)) return false;
        if (pass) return true;
    }
    return false;
}

static bool advance(tpl_render *r, tpl_loop *l)
{
    tpl_value item = l->after;
    if (l->has_after) {
        l->has_after = false;
    } else if (!fetch(r, l, &item)) {
        return false;
    }
    l->index++;
    l->before = l->current;
    l->current = item;
    return true;
}

/* Whether there is a next item, in l->after; false on failure. */
static bool look_ahead(tpl_render *r, tpl_loop *l, bool *is_last)
{
    if (!l->has_after) l->has_after = fetch(r, l, &l->after);
    *is_last = !l->has_after;
    return r->status == WEFT_OK;
}

static bool measure(tpl_render *r, tpl_loop *l)
{
    if (l->length_known) return true;
    bool sized = (l->node->filter == NULL || l->filtered) && !tpl_is_seq(l->source.of, TPL_ITER);
    if (sized) {
        if (!tpl_length(r, l->source.of, &l->length)) return false;
    } else {
        tpl_seq *rest = tpl_seq_new(r, TPL_LIST, 0);
        size_t capacity = 0;
        tpl_value item;
        if (rest == NULL) return false;
        while (fetch(r, l, &item)) {
            if (!tpl_seq_push(r, rest, &capacity, item)) return false;
        }
        if (r->status != WEFT_OK) return false;
        l->source = (tpl_iter){tpl_seq_value(rest), 0};
        l->filtered = true;
        l->length = rest->n + l->index + (l->has_after ? 1u : 0u);
    }
    l->length_known = true;
    return true;
}

static tpl_value int_of(size_t n)
{
    return tpl_int((int64_t)n);
}

static bool position(tpl_render *r, tpl_loop *l, str name, tpl_value *out, bool *found)
{
    *found = true;
    if (str_equal_text(name, "index")) {
        *out = int_of(l->index);
    } else if (str_equal_text(name, "index0")) {
        *out = tpl_int((int64_t)l->index - 1);
    } else if (str_equal_text(name, "first")) {
        *out = tpl_bool(l->index == 1);
    } else if (str_equal_text(name, "depth")) {
        *out = int_of((size_t)l->depth0 + 1);
    } else if (str_equal_text(name, "depth0")) {
        *out = int_of(l->depth0);
    } else if (str_starts(name, "revindex") || str_equal_text(name, "length")) {
        if (!measure(r, l)) return false;
        int64_t left = (int64_t)l->length - (int64_t)l->index;
        *out = tpl_int(left);
        if (str_equal_text(name, "revindex")) {
            *out = tpl_int(left + 1);
        } else if (str_equal_text(name, "length")) {
            *out = int_of(l->length);
        } else {
            *found = str_equal_text(name, "revindex0");
        }
    } else {
        *found = false;
    }
    return true;
}

bool tpl_loop_attr(tpl_render *r, tpl_loop *l, str name, tpl_value *out, bool *found)
{
    if (!position(r, l, name, out, found)) return false;
    if (*found) return true;
    *found = true;
    bool is_last;
    if (str_equal_text(name, "last")) {
        if (!look_ahead(r, l, &is_last)) return false;
        *out = tpl_bool(is_last);
    } else if (str_equal_text(name, "nextitem")) {
        if (!look_ahead(r, l, &is_last)) return false;
        *out = is_last ? tpl_undefined("there is no next item") : l->after;
    } else if (str_equal_text(name, "previtem")) {
        *out = l->index <= 1 ? tpl_undefined("there is no previous item") : l->before;
    } else {
        *found = false;
    }
    return true;
}

bool tpl_loop_cycle(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    if (call->args->n == 0) return tpl_fail(r, WEFT_FORMAT, "loop.cycle() has no items");
    size_t index0 = self.as.loop->index == 0 ? 0 : self.as.loop->index - 1;
    *out = call->args->items[index0 % call->args->n];
    return true;
}

bool tpl_loop_changed(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out)
{
    tpl_loop *l = self.as.loop;
    tpl_seq *now = tpl_seq_new(r, TPL_TUPLE, call->args->n);
    if (now == NULL) return false;
    for (size_t i = 0; i < now->n; i++) now->items[i] = call->args->items[i];
    bool same = false;
    if (l->has_changed && !tpl_equal(r, l->changed, tpl_seq_value(now), &same)) return false;
    l->has_changed = true;
    l->changed = tpl_seq_value(now);
    *out = tpl_bool(!same);
    return true;
}

bool tpl_loop_repr(tpl_render *r, tpl_buffer *b, tpl_loop *l)
{
    if (!measure(r, l)) return false;
    char text[80];
    snprintf(text, sizeof text, "<LoopContext %zu/%zu>", l->index, l->length);
    return tpl_buffer_add(r, b, str_of(text), false);
}

static bool run_otherwise(tpl_render *r, tpl_loop *l, tpl_flow *flow)
{
    r->scope = tpl_scope_new(r, l->outer);
    return r->scope != NULL && tpl_exec(r, &l->node->otherwise, flow);
}

static bool run_body(tpl_render *r, tpl_loop *l, tpl_flow *flow)
{
    const tpl_for_node *node = l->node;
    tpl_value self = {.kind = TPL_LOOP, .as.loop = l};
    tpl_scope *scope = NULL;
    bool completed = false;
    while (*flow != TPL_FLOW_BREAK && advance(r, l)) {
        /* Each turn has variables of its own; the scope is used again unless a macro has kept it.
         * */
        if (scope == NULL || scope->kept) scope = tpl_scope_new(r, l->outer);
        if (scope == NULL) return false;
        scope->n = 0;
        r->scope = scope;
        if (r->of->loop_id != MAP_NONE && !tpl_scope_set(r, r->of->loop_id, self)) return false;
        if (!tpl_assign(r, node->target, l->current)) return false;
        if (!tpl_exec(r, &node->body, flow)) return false;
        completed |= *flow == TPL_FLOW_ON;
    }
    *flow = TPL_FLOW_ON;
    if (r->status != WEFT_OK) return false;
    /* As in Jinja: a turn that ended in break or continue does not keep the else from running. */
    return completed || run_otherwise(r, l, flow);
}

static bool run(tpl_render *r, const tpl_for_node *node, tpl_value source, uint32_t depth0,
                tpl_flow *flow)
{
    tpl_loop *l = tpl_alloc(r, 1, sizeof *l);
    if (l == NULL || !tpl_iter_init(r, &l->source, source)) return false;
    tpl_scope *scope = r->scope;
    l->node = node;
    l->outer = scope;
    l->depth0 = depth0;
    bool ok = run_body(r, l, flow);
    r->scope = scope;
    return ok;
}

bool tpl_exec_for(tpl_render *r, const tpl_node *n, tpl_flow *flow)
{
    tpl_value source;
    return tpl_eval(r, n->as.loop->source, &source) && run(r, n->as.loop, source, 0, flow);
}

bool tpl_loop_call(tpl_render *r, tpl_loop *l, const tpl_args *args, tpl_value *out)
{
    if (!l->node->recursive) {
        return tpl_fail(r, WEFT_FORMAT, "only a loop marked recursive can be called");
    }
    if (args->n != 1 || args->n_keywords != 0) {
        return tpl_fail(r, WEFT_FORMAT, "loop() takes one argument");
    }
    if (!tpl_call_enter(r)) return false;
    tpl_sink saved;
    tpl_scope *scope = r->scope;
    tpl_text *t = NULL;
    if (tpl_capture_begin(r, &saved)) {
        tpl_flow flow = TPL_FLOW_ON;
        r->scope = l->outer;
        run(r, l->node, args->items[0], l->depth0 + 1, &flow);
        r->scope = scope;
        t = tpl_capture_end(r, saved);
    }
    tpl_call_leave(r);
    if (t == NULL) return false;
    *out = tpl_text_value(t);
    return true;
}
