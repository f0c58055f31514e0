/* sources.h - the kinds of descriptions: each fills a program whose rule 0 is the text. */
#ifndef GRAMMAR_SOURCES_H
#define GRAMMAR_SOURCES_H

#include "base/json.h"
#include "grammar/program.h"
#include "grammar/vocab.h"

/* p is empty; its status says how it went. v: what the names of tokens mean. */
void source_regex(program *p, str text);
void source_choice(program *p, str text);
void source_gbnf(program *p, const grammar_vocab *v, str text);
void source_schema(program *p, str text);
void source_parts(program *p, const grammar_vocab *v, str text);

/* The same as a part of p, which has its rule 0 already. JSON is borrowed until they return. */
uint32_t node_choice(program *p, const json *list, uint32_t next);
uint32_t node_gbnf(program *p, const grammar_vocab *v, str text, uint32_t next);
uint32_t node_schema(program *p, const json *root, uint32_t next);

#endif
