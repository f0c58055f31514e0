/* dfa.h - finite automata over bytes: made of expressions, of lists of words or of a function, met
 * with each other and subtracted. All memory is the program's. */
#ifndef GRAMMAR_DFA_H
#define GRAMMAR_DFA_H

#include "grammar/regex.h"

enum {
    DFA_STATES = 8192,
    DFA_WORK = 1 << 21, /* states of all automata on the way to one program, some for each */
    DFA_WORK_EACH = 256,
    DFA_LENGTHS = 4096, /* lengths that are told apart where they follow no simple rule */
    DFA_LENGTH_CELLS = 1 << 22,
};

/* Everything below gives NULL, and p's failure, when it could not be made. */
const dfa *dfa_of_regex(program *p, const regex *x, spelling how);
const dfa *dfa_of_words(program *p, const str *words, uint32_t n, spelling how);

/* Counts states that were made; false, and p's failure, beyond DFA_WORK. */
bool dfa_worked(program *p, uint32_t n_states);

/* An automaton whose states are found by asking: a state is size bytes (cleared padding). */
typedef struct dfa_source {
    const void *user;
    uint32_t size; /* at most DFA_SOURCE_BYTES */
    const void *start;
    /* The state behind byte, written to next; false: none. */
    bool (*step)(const void *user, const void *state, unsigned char byte, void *next);
    unsigned char (*flag)(const void *user, const void *state); /* DFA_ACCEPT, DFA_WHOLE */
    const char *bytes; /* those that lead anywhere, NUL-terminated */
} dfa_source;

enum { DFA_SOURCE_BYTES = 64 };

const dfa *dfa_of_source(program *p, const dfa_source *source);

/* What both accept, or a and not b. Where characters are whole is told by a. */
const dfa *dfa_meet(program *p, const dfa *a, const dfa *b);
const dfa *dfa_without(program *p, const dfa *a, const dfa *b);

bool dfa_is_empty(const dfa *d);
bool dfa_accepts(const dfa *d, str bytes);

/* Trims, merges equal states and copies to the program's memory. */
const dfa *dfa_finish(program *p, const dfa *draft);

/* min..max characters of what d accepts; NULL without a failure when that is nothing. */
const lexeme *lexeme_make(program *p, const dfa *d, uint32_t min, uint32_t max);

/* A set of characters that repeats; NULL, without a failure, when it is empty and may not be. */
const lexeme *lexeme_of_run(program *p, const regex *x, spelling how);

/* Whether a text of n characters, to which d came in state q, is within bounds. */
static inline bool lexeme_admits(uint32_t min, uint32_t max, uint32_t n)
{
    return n >= min && n <= max;
}

#endif
