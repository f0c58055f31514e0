/* template_functions.h - functions every template may call: range, namespace, raise_exception, ...
 * */
#ifndef CHAT_TEMPLATE_FUNCTIONS_H
#define CHAT_TEMPLATE_FUNCTIONS_H

#include "chat/template_call.h"

/* NULL when there is none of that name. */
const tpl_row *tpl_function_find(str name);

/* seconds since 1970 as strftime() writes them in the C locale, without a zone. */
bool tpl_strftime(tpl_render *r, int64_t seconds, const tpl_text *format, tpl_value *out);

#endif
