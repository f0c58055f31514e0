/* regex.h - regular expressions in ECMA-262's dialect, as JSON Schema has them, as trees. */
#ifndef GRAMMAR_REGEX_H
#define GRAMMAR_REGEX_H

#include "grammar/chars.h"

enum {
    REGEX_DEPTH = 200,       /* groups within each other */
    REGEX_REPEATS = 1 << 30, /* largest count */
};

typedef enum regex_kind {
    REGEX_EMPTY,
    REGEX_BEGIN,  /* ^ */
    REGEX_FINISH, /* $ */
    REGEX_SET,
    REGEX_SEQUENCE,
    REGEX_EITHER,
    REGEX_REPEAT,
    REGEX_RULE, /* of a grammar of rules: min is its number */
    REGEX_TOKEN /* likewise: token */
} regex_kind;

typedef struct regex regex;

struct regex {
    regex_kind kind;
    bool has_begin, has_finish; /* anchors in it */
    chars set;
    uint32_t min, max; /* PROGRAM_ENDLESS: none */
    named_token token;
    regex *last, *previous; /* the last part of it; the part before it in its own whole */
};

/* Whether an expression must match all of a text, or some part of it. */
typedef enum regex_extent { REGEX_WHOLE, REGEX_PART } regex_extent;

/* NULL, and p's failure, which names the byte, when it is malformed or unsupported. The tree has no
 * anchors any more. */
regex *regex_parse(program *p, str text, regex_extent extent);

/* One that a whole answer, or a part of it, must match: ARGUMENT when it is empty. */
regex *regex_parse_answer(program *p, str text);

/* Nodes that match it. */
uint32_t node_regex(program *p, const regex *x, spelling how, uint32_t next);

/* Whether all of it is one set repeated: then a count of characters can do it. */
bool regex_is_run(const regex *x, const chars **set, uint32_t *min, uint32_t *max);

#endif
