/* sources.h - the kinds of descriptions: each fills a program whose rule 0 is the text. */
#ifndef GRAMMAR_SOURCES_H
#define GRAMMAR_SOURCES_H

#include "grammar/program.h"

/* p is empty; its status says how it went. */
void source_regex(program *p, str text);
void source_choice(program *p, str text);
void source_gbnf(program *p, str text);
void source_schema(program *p, str text);

#endif
