/* chars.h - sets of characters, and the bytes that spell them. */
#ifndef GRAMMAR_CHARS_H
#define GRAMMAR_CHARS_H

#include "grammar/program.h"

enum { CHARS_LAST = 0x10ffff };

typedef struct chars_range {
    uint32_t first, last;
} chars_range;

typedef struct chars {
    chars_range *ranges;
    uint32_t n, room;
} chars;

/* How characters are spelled. In a JSON string each has exactly one spelling here: itself, an
 * escape of two characters where there is one, \u00XX (small letters) for other controls; so that
 * sets of strings can be subtracted from each other. */
typedef enum spelling { SPELLING_TEXT, SPELLING_JSON } spelling;

void chars_add(program *p, chars *set, uint32_t first, uint32_t last);
void chars_add_all(program *p, chars *set, const chars *other);
void chars_tidy(chars *set);               /* ascending, disjoint, without surrogates */
void chars_invert(program *p, chars *set); /* among all characters */

/* A character of the set, which is tidy. */
uint32_t node_chars(program *p, const chars *set, spelling how, uint32_t next);

/* The characters of a text, which is valid UTF-8. */
uint32_t node_spelled(program *p, str text, spelling how, uint32_t next);

#endif
