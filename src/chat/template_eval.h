/* template_eval.h - walking the tree: expressions in template_eval.c, statements in
 * template_exec.c, loops and macros in template_loop.c and template_macro.c. */
#ifndef CHAT_TEMPLATE_EVAL_H
#define CHAT_TEMPLATE_EVAL_H

#include "chat/template_node.h"
#include "chat/template_render.h"

bool tpl_eval(tpl_render *r, const tpl_node *n, tpl_value *out);
/* caller: what a call block hands over, a keyword before those of "**"; NULL elsewhere. */
bool tpl_eval_args(tpl_render *r, const tpl_call_node *from, const tpl_value *caller,
                   tpl_args *args);

/* How a statement ended. */
typedef enum tpl_flow { TPL_FLOW_ON, TPL_FLOW_BREAK, TPL_FLOW_CONTINUE } tpl_flow;

bool tpl_exec(tpl_render *r, const tpl_nodes *body, tpl_flow *flow);
bool tpl_exec_for(tpl_render *r, const tpl_node *n, tpl_flow *flow);
bool tpl_exec_call_block(tpl_render *r, const tpl_node *n);
/* target = value, a tuple of targets unpacking it. */
bool tpl_assign(tpl_render *r, const tpl_node *target, tpl_value value);

tpl_scope *tpl_scope_new(tpl_render *r, tpl_scope *outer);
bool tpl_scope_set(tpl_render *r, uint32_t name, tpl_value value); /* in r->scope */

/* What a filter or call block gave: only a string can be put out, as in Jinja. */
bool tpl_emit_result(tpl_render *r, tpl_value v);

/* Output from here to tpl_capture_end is kept as a text; saved is what tpl_capture_end takes back.
 * */
bool tpl_capture_begin(tpl_render *r, tpl_sink *saved);
tpl_text *tpl_capture_end(tpl_render *r,
                          tpl_sink saved); /* NULL also when the rendering has failed */

bool tpl_macro_make(tpl_render *r, const tpl_macro_node *node, tpl_value *out);
bool tpl_macro_call(tpl_render *r, tpl_macro *m, const tpl_args *args, tpl_value *out);
bool tpl_macro_repr(tpl_render *r, tpl_buffer *b, const tpl_macro *m);
/* false when it has no such attribute. */
bool tpl_macro_attr(tpl_render *r, const tpl_macro *m, str name, tpl_value *out);

bool tpl_loop_call(tpl_render *r, tpl_loop *l, const tpl_args *args, tpl_value *out);
bool tpl_loop_repr(tpl_render *r, tpl_buffer *b, tpl_loop *l);
/* *found false when it has no such attribute; fails when a filter of the loop fails. */
bool tpl_loop_attr(tpl_render *r, tpl_loop *l, str name, tpl_value *out, bool *found);
bool tpl_loop_cycle(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);
bool tpl_loop_changed(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);

bool tpl_joiner_call(tpl_render *r, tpl_value joiner, const tpl_args *args, tpl_value *out);

#endif
