/* named.h - tokens that a description names. */
#ifndef GRAMMAR_NAMED_H
#define GRAMMAR_NAMED_H

#include "grammar/program.h"
#include "grammar/vocab.h"

/* False, and p's failure, when there is no such token, or more than one of that text. */
bool named_of_text(program *p, const grammar_vocab *v, str text, named_token *token);
bool named_of_id(program *p, const grammar_vocab *v, int64_t id, named_token *token);

#endif
