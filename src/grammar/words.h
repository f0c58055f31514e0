/* words.h - one of several texts, as a tree of their common beginnings. */
#ifndef GRAMMAR_WORDS_H
#define GRAMMAR_WORDS_H

#include "grammar/chars.h"

/* words: valid UTF-8, in any order, repeats allowed. */
uint32_t node_words(program *p, const str *words, uint32_t n, spelling how, uint32_t next);

#endif
