/* lexeme.h - what a lexeme node runs: a deterministic automaton over bytes, and how many characters
 * it may take.
 *
 * Strings with patterns and lengths, names of properties and numbers are lexemes: automata can be
 * met, subtracted and compared, which a schema's keywords need; and a length of up to 2^31
 * characters is a count beside the automaton's state instead of states. */
#ifndef GRAMMAR_LEXEME_H
#define GRAMMAR_LEXEME_H

#include <stdbool.h>
#include <stdint.h>

#define DFA_DEAD 0u

/* State 0 is dead, 1 the start; every other state leads to an accepting one. */
typedef struct dfa {
    uint32_t n_states, n_classes;
    unsigned char class_of[256];
    uint32_t *next;      /* [n_states, n_classes] */
    unsigned char *flag; /* [n_states] of DFA_ACCEPT, DFA_WHOLE and what lexeme_make adds */
    /* [n_states] bit b is set if all characters that begin with byte DFA_LEAD + b lead back here;
     * lexeme_make fills it, then the dead state's is not 0. */
    uint64_t *wide;
} dfa;

enum {
    DFA_ACCEPT = 1,
    DFA_WHOLE = 2, /* characters are whole here; a step into such a state counts one */
    DFA_PLAIN = 4, /* any character that stands for itself in a JSON string leads back here */
    DFA_LAST = 8   /* no byte leads on */
};

/* First bytes of characters of more than one. */
enum { DFA_LEAD = 0xc2, DFA_LEADS = 0xf4 - DFA_LEAD + 1 };

#define LEXEME_ENDLESS UINT32_MAX

/* lengths[k][q]: the least number of characters >= k that leads from q to an accepting state, for k
 * up to start + period; from start on it repeats. UINT32_MAX: none. NULL where lengths do not
 * matter. */
typedef struct lexeme {
    const dfa *automaton;
    uint32_t min, max; /* characters */
    uint32_t start, period;
    const uint16_t *lengths; /* [start + period, n_states] */
} lexeme;

static inline uint32_t dfa_step(const dfa *d, uint32_t state, unsigned char byte)
{
    return d->next[(uint64_t)state * d->n_classes + d->class_of[byte]];
}

/* Whether a text that got to state with count characters can still end within the bounds. */
bool lexeme_alive(const lexeme *lex, uint32_t state, uint32_t count);

#endif
