/* schema_format.h - the formats that strings are held to. */
#ifndef GRAMMAR_SCHEMA_FORMAT_H
#define GRAMMAR_SCHEMA_FORMAT_H

#include "base/str.h"

/* An expression (regex.h) that the whole string must match; NULL for a format that is not known,
 * which only describes. */
const char *schema_format(str name);

#endif
