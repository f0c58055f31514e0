/* template_ops.h - operators on values. */
#ifndef CHAT_TEMPLATE_OPS_H
#define CHAT_TEMPLATE_OPS_H

#include "chat/template_node.h"
#include "chat/template_value.h"

bool tpl_arithmetic(tpl_render *r, tpl_op op, tpl_value a, tpl_value b, tpl_value *out);
bool tpl_negate(tpl_render *r, tpl_value a, tpl_value *out);
bool tpl_positive(tpl_render *r, tpl_value a, tpl_value *out);
bool tpl_relation(tpl_render *r, tpl_op op, tpl_value a, tpl_value b, bool *holds);

#endif
