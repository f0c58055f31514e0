/* template_unicode.h - characters as Python's str sees them: white space, classes, case. */
#ifndef CHAT_TEMPLATE_UNICODE_H
#define CHAT_TEMPLATE_UNICODE_H

#include "base/str.h"

/* Bits of tpl_char_class. */
enum {
    TPL_CHAR_ALPHA = 1 << 0,
    TPL_CHAR_DECIMAL = 1 << 1,
    TPL_CHAR_DIGIT = 1 << 2,
    TPL_CHAR_NUMERIC = 1 << 3,
    TPL_CHAR_PRINTABLE = 1 << 4,
    TPL_CHAR_UPPER = 1 << 5,
    TPL_CHAR_LOWER = 1 << 6,
    TPL_CHAR_TITLE = 1 << 7
};

unsigned tpl_char_class(uint32_t code_point);

/* What str.isspace and the regular expression \s accept. */
bool tpl_char_is_space(uint32_t code_point);

/* Bytes of white space at the start and at the end of valid UTF-8. */
size_t tpl_space_prefix(str s);
size_t tpl_space_suffix(str s);

/* Length of the character at the start of s when a name may hold it, else 0. */
size_t tpl_name_char(str s);

/* The code point at the start of valid UTF-8, which is not empty, and its length. */
uint32_t tpl_char_at(str s, size_t *n_bytes);

typedef enum tpl_case { TPL_CASE_UPPER, TPL_CASE_LOWER, TPL_CASE_TITLE, TPL_CASE_FOLD } tpl_case;

/* Maps one code point to 1..3; final sigma is the caller's business. */
size_t tpl_char_map(uint32_t code_point, tpl_case to, uint32_t mapped[3]);

#endif
