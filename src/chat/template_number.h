/* template_number.h - numbers to and from text as Python writes and reads them, whatever the host's
 * locale. */
#ifndef CHAT_TEMPLATE_NUMBER_H
#define CHAT_TEMPLATE_NUMBER_H

#include "base/str.h"

typedef enum tpl_number_result {
    TPL_NUMBER_OK,
    TPL_NUMBER_BAD,
    TPL_NUMBER_RANGE
} tpl_number_result;

/* Digits with a sign; base 0 goes by the prefix 0x, 0o or 0b, others accept theirs. Underscores
 * between digits are allowed. No white space. */
tpl_number_result tpl_number_int(str text, unsigned base, int64_t *value);

/* A decimal number, "inf", "infinity" or "nan"; no white space. */
bool tpl_number_real(str text, double *value);

enum { TPL_NUMBER_BYTES = 32 };

/* The shortest text that reads back as the same number: repr(). */
void tpl_number_print(double value, char text[TPL_NUMBER_BYTES]);

/* Like printf's %.*e, %.*f, %.*g, with '.' whatever the locale; precision at most 100. Returns the
 * length, 0 when it does not fit. */
size_t tpl_number_format(double value, char type, int precision, char *text, size_t capacity);

#endif
