/* grammar_world.h - small vocabularies, and texts given to grammars token by token. */
#ifndef SUPPORT_GRAMMAR_WORLD_H
#define SUPPORT_GRAMMAR_WORLD_H

#include "grammar/grammar.h"

enum {
    WORLD_END = 256,     /* the token that ends an answer */
    WORLD_CONTROL = 257, /* a control token */
    WORLD_PADDING = 24,  /* rows of the head without a token */
};

/* Token i < 256 is byte i; merged: and behind the control token pieces of several bytes, cut
 * within characters, too. */
grammar_vocab *world_vocab(bool merged);

/* The status of compiling; the grammar is tried and dropped. */
weft_status world_compiles(const grammar_vocab *v, grammar_kind kind, str text, weft_error *err);

/* NULL, and the test fails, when it does not compile. */
grammar *world_compile(const grammar_vocab *v, grammar_kind kind, const char *text);

/* Whether the text is taken byte by byte and may end there. Where it is not: *refused is the byte
 * (its length: only the end was refused); may be NULL. */
bool world_takes(grammar *g, str text, size_t *refused);

/* Every token is in the mask exactly if a copy of the state accepts it. */
void world_check_mask(grammar_state *s, const grammar_vocab *v);

/* Tokens drawn from the masks until the text ends, or most were drawn; false: it had no end yet.
 * Favours the end more and more from a third of most on. */
bool world_sample(grammar *g, const grammar_vocab *v, uint64_t seed, uint32_t most, strbuf *text);

/* The bytes of a token of a vocabulary of this file. */
str world_bytes(uint32_t token, char room[1]);

uint32_t world_tokens(bool merged);

#endif
