/* template_filters.h - what stands behind '|': the table, and filters of text and numbers in
 * template_filters.c, of lists and dicts in template_filters_list.c. */
#ifndef CHAT_TEMPLATE_FILTERS_H
#define CHAT_TEMPLATE_FILTERS_H

#include "chat/template_call.h"

/* NULL when there is none of that name. */
const tpl_row *tpl_filter_find(str name);

/* The rows of template_filters_list.c. */
const tpl_row *tpl_list_filter_find(str name);

#endif
