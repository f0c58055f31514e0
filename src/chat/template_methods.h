/* template_methods.h - methods of strings, lists, dicts and loops. */
#ifndef CHAT_TEMPLATE_METHODS_H
#define CHAT_TEMPLATE_METHODS_H

#include "chat/template_call.h"

/* A method bound to its object; undefined, and found, for one that the sandbox forbids. */
bool tpl_method_find(tpl_render *r, tpl_value object, str name, tpl_value *out, bool *found);

bool tpl_bound_call(tpl_render *r, tpl_bound *bound, const tpl_args *args, tpl_value *out);

#endif
