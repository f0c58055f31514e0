/* template_print.h - values as text: str(), repr() and json.dumps() of Python. */
#ifndef CHAT_TEMPLATE_PRINT_H
#define CHAT_TEMPLATE_PRINT_H

#include "chat/template_value.h"

/* str(): a text is itself. */
bool tpl_to_text(tpl_render *r, tpl_value v, tpl_text **t);
bool tpl_print(tpl_render *r, tpl_buffer *b, tpl_value v);
bool tpl_repr(tpl_render *r, tpl_buffer *b, tpl_value v);

typedef struct tpl_json_options {
    bool ascii, sort;
    const tpl_text *indent; /* NULL: one line */
    const tpl_text *item_separator, *key_separator;
} tpl_json_options;

bool tpl_print_json(tpl_render *r, tpl_buffer *b, tpl_value v, const tpl_json_options *options);

#endif
