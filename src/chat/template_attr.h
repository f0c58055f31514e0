/* template_attr.h - object.name, object[key] and object[a:b:c]. */
#ifndef CHAT_TEMPLATE_ATTR_H
#define CHAT_TEMPLATE_ATTR_H

#include "chat/template_value.h"

/* An attribute, else an item of that name; undefined when there is neither. */
bool tpl_getattr(tpl_render *r, tpl_value object, tpl_value name, tpl_value *out);

/* An item, else, for a string key, the attribute of that name; undefined when there is neither. */
bool tpl_getitem(tpl_render *r, tpl_value object, tpl_value key, tpl_value *out);

/* A path such as "a.b.0" as filters take it: parts that are digits are indices. */
bool tpl_getpath(tpl_render *r, tpl_value object, tpl_value path, tpl_value *out);

/* bounds: start, stop, step; none where left out. */
bool tpl_slice(tpl_render *r, tpl_value object, const tpl_value bounds[3], tpl_value *out);

#endif
