/* template_strings.h - what Python's str can do, for methods and filters alike. */
#ifndef CHAT_TEMPLATE_STRINGS_H
#define CHAT_TEMPLATE_STRINGS_H

#include "chat/template_call.h"
#include "chat/template_unicode.h"

/* The row of a method of strings; NULL when there is none of that name. */
const tpl_row *tpl_string_method(str name);

/* Results are values of kind TPL_TEXT unless said otherwise; marks follow the characters. */
bool tpl_string_case(tpl_render *r, const tpl_text *t, tpl_case to, tpl_value *out);
bool tpl_string_capitalize(tpl_render *r, const tpl_text *t, tpl_value *out);
/* chars NULL: white space. */
bool tpl_string_strip(tpl_render *r, const tpl_text *t, const tpl_text *chars, bool left,
                      bool right, tpl_value *out);
/* At most n replacements; n < 0: all. */
bool tpl_string_replace(tpl_render *r, tpl_text *t, const tpl_text *from, const tpl_text *to,
                        int64_t n, tpl_value *out);
/* Whether a sigma of n bytes at an offset ends a word, and so has another form in lower case. */
bool tpl_string_final_sigma(str s, size_t at, size_t n);
enum { TPL_SIGMA = 0x3a3, TPL_FINAL_SIGMA = 0x3c2 };
/* With spaces on both sides up to width characters, the odd one on the right as Python puts it. */
bool tpl_string_center(tpl_render *r, tpl_text *t, int64_t width, char fill, tpl_value *out);
/* strict: items have to be strings, else they are made so. */
bool tpl_string_join(tpl_render *r, const tpl_text *separator, tpl_value items, bool strict,
                     tpl_value *out);
/* keep_ends: lines keep what ends them. A list. */
bool tpl_string_lines(tpl_render *r, const tpl_text *t, bool keep_ends, tpl_value *out);
/* Whether some character is cased and all that are have the class: islower(), isupper(). */
bool tpl_string_all_cased(const tpl_text *t, unsigned bits);

/* Rows of template_split.c, used by the table in template_strings.c. */
bool tpl_method_count(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);
bool tpl_method_find_left(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);
bool tpl_method_find_right(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);
bool tpl_method_index(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);
bool tpl_method_rindex(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);
bool tpl_method_startswith(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);
bool tpl_method_endswith(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);
bool tpl_method_split(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);
bool tpl_method_rsplit(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);
bool tpl_method_partition(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);
bool tpl_method_rpartition(tpl_render *r, tpl_value self, const tpl_call *call, tpl_value *out);

#endif
