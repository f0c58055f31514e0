/* parts.h - reading descriptions by parts (docs/grammar.md): shared by parts.c and parts_text.c. */
#ifndef GRAMMAR_PARTS_H
#define GRAMMAR_PARTS_H

#include "base/json.h"
#include "grammar/named.h"
#include "grammar/regex.h"

enum {
    PARTS_DEPTH = 64,      /* parts within each other */
    PARTS_MOST = 1 << 14,  /* in all */
    PARTS_MARKER = 256,    /* bytes of a marker, and of a text that does not occur */
    PARTS_WITHOUT = 32,    /* texts that do not occur, of one part */
    PARTS_COUNT = 1 << 30, /* of repeats and characters */
    PARTS_PLACE = 2048,    /* bytes of a place: enough for PARTS_DEPTH members and numbers */
};

typedef struct parts {
    program *p;
    const grammar_vocab *vocab;
    uint32_t n, depth;
    char place[PARTS_PLACE]; /* a JSON pointer */
    const dfa *any_text;     /* made when first needed */
} parts;

/* Where a part stands: what comes behind it, and whether that may be nothing up to the end. */
typedef struct spot {
    uint32_t next;
    bool last;
} spot;

/* All return the node to start from; NODE_FAIL after a failure. */
uint32_t part_text(parts *all, const json *part, const json *value, spot at);
uint32_t part_token(parts *all, const json *part, const json *value, spot at);
uint32_t part_until(parts *all, const json *part, const json *value, spot at);
uint32_t part_free(parts *all, const json *part, const json *value, spot at);

/* Whether the value of a member is a text; a failure otherwise. */
bool part_is_text(parts *all, const char *member, const json *value);

/* A count of a part, fallback where it is not there; UINT32_MAX after a failure. */
uint32_t part_count(parts *all, const json *part, const char *member, uint32_t fallback);

#endif
