/* wide.h - the part of a mask that needs no walk.
 *
 * Free text, names and patterns are lexemes whose automaton is in one state, home, behind most
 * characters. Which plain tokens have nothing but such characters is known from sets that the
 * vocabulary has for each character; those that have others are dead, or few enough to be tried one
 * by one. A token is allowed where one place of a state allows it, so each place counts alone. */
#ifndef GRAMMAR_WIDE_H
#define GRAMMAR_WIDE_H

#include "grammar/machine.h"
#include "grammar/vocab.h"

enum { WIDE_MOST = 8 };

typedef struct wide {
    uint64_t *bits;    /* [n_words] plain tokens that are allowed are set, others left */
    uint64_t *open;    /* [n_words] those that must be tried, where n_open is not 0 */
    uint64_t *scratch; /* [n_words] */
    uint32_t places[WIDE_MOST], n; /* of the state, ascending, that are done with that */
    byte_set tops;                 /* likewise with those that begin with such a byte walked */
    uint32_t n_open;
    uint32_t work; /* in nodes of a walk, about */
} wide;

/* Fills w, whose arrays are given. */
void wide_allow(wide *w, machine *m, uint32_t state, const grammar_vocab *v);

#endif
