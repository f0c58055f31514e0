/* regex_class.h - the part of reading expressions that deals with single characters. */
#ifndef GRAMMAR_REGEX_CLASS_H
#define GRAMMAR_REGEX_CLASS_H

#include "grammar/regex.h"

typedef struct regex_reader {
    program *p;
    str text;
    size_t at;
    uint32_t depth;
} regex_reader;

/* Fails at the byte that is read next. */
void regex_fail(regex_reader *r, weft_status status, const char *what);

static inline bool regex_next_is(const regex_reader *r, char c)
{
    return r->at < r->text.len && r->text.ptr[r->at] == c;
}

/* The next character; the text is valid UTF-8 and not at its end. */
uint32_t regex_take(regex_reader *r);

/* Behind a backslash: one character, or a class, which is added to set (*c is then CHARS_NONE). */
#define CHARS_NONE UINT32_MAX
void regex_escape(regex_reader *r, bool in_class, chars *set, uint32_t *c);

/* Behind a '['. */
void regex_class(regex_reader *r, chars *set);

/* '.' */
void regex_any_but_newline(regex_reader *r, chars *set);

/* '*', '+', '?' or counts in braces; false when there is none. */
bool regex_quantifier(regex_reader *r, uint32_t *min, uint32_t *max);

regex *regex_make(program *p, regex_kind kind);

/* Puts part behind the others of whole; does nothing when one is NULL. */
void regex_append(regex *whole, regex *part);

#endif
