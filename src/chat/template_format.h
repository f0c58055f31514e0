/* template_format.h - "..." % values and "...".format(values). */
#ifndef CHAT_TEMPLATE_FORMAT_H
#define CHAT_TEMPLATE_FORMAT_H

#include "chat/template_call.h"

bool tpl_format_percent(tpl_render *r, tpl_text *format, tpl_value values, tpl_value *out);
bool tpl_format_braces(tpl_render *r, tpl_text *format, const tpl_args *args, tpl_value *out);

#endif
