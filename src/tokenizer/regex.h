/* regex.h - patterns of pre-tokenizers, as PCRE2 runs them.
 *
 * tokenizer.json is written for Oniguruma. regex_rewrite turns such a pattern into one that
 * PCRE2 takes the same way, or refuses it by naming what it cannot vouch for. */
#ifndef TOKENIZER_REGEX_H
#define TOKENIZER_REGEX_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/str.h"

enum { REGEX_BYTES = 1 << 16 }; /* longest pattern */

/* Lends an allocator to PCRE2, which does not tell sizes when it frees. Must not move once
 * opened. */
typedef struct regex_memory {
    const weft_allocator *allocator; /* borrowed */
    pcre2_general_context *general;
    bool refused; /* the allocator said no */
} regex_memory;

weft_status regex_memory_init(regex_memory *m, const weft_allocator *allocator, weft_error *err);
void regex_memory_deinit(regex_memory *m);

typedef struct regex {
    pcre2_code *code;
    bool jit; /* else interpreted: the machine forbids code made at run time */
} regex;

/* Appends the PCRE2 form. UNSUPPORTED names what has no certain counterpart. */
weft_status regex_rewrite(str pattern, strbuf *out, weft_error *err);

/* literal: the pattern is the text to find. */
weft_status regex_init(regex *r, regex_memory *m, str pattern, bool literal, weft_error *err);
void regex_deinit(regex *r);

/* What a thread needs while it searches. */
typedef struct regex_search {
    regex_memory memory;
    pcre2_match_context *context;
    pcre2_match_data *data;
} regex_search;

/* text_bytes: of all that will be searched; bounds the steps of one match. */
weft_status regex_search_init(regex_search *s, const weft_allocator *allocator, size_t text_bytes,
                              weft_error *err);
void regex_search_deinit(regex_search *s);

/* The first match at or after from: *start and *end. *found false when there is none. text is
 * valid UTF-8. */
weft_status regex_find(const regex *r, regex_search *s, str text, size_t from, bool *found,
                       size_t *start, size_t *end, weft_error *err);

/* A walk over all matches of a text, started zeroed. */
typedef struct regex_walk {
    size_t from;
    size_t done; /* where the last match ended */
    bool matched;
} regex_walk;

/* The next match; an empty one right behind the last does not count. */
weft_status regex_next(const regex *r, regex_search *s, str text, regex_walk *walk, bool *found,
                       size_t *start, size_t *end, weft_error *err);

#endif
