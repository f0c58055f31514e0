/* replace.h - putting one text in the place of another, found literally or by a pattern. */
#ifndef TOKENIZER_REPLACE_H
#define TOKENIZER_REPLACE_H

#include "base/arena.h"
#include "tokenizer/regex.h"

enum { REPLACE_BYTES = 1024 }; /* longest literal: a text costs its length times this at worst */

typedef struct replace {
    regex regex; /* code NULL: literal */
    str from;
    str to;
} replace;

/* Texts are copied to the arena; memory must not move. */
weft_status replace_init(replace *r, arena *texts, regex_memory *memory, str from, bool literal,
                         str to, weft_error *err);
void replace_deinit(replace *r);

/* Appends the new text to out, or nothing when *found is false. search may be NULL for literals. */
weft_status replace_run(const replace *r, regex_search *search, str text, strbuf *out, bool *found,
                        weft_error *err);

#endif
