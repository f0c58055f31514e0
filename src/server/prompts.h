/* prompts.h - prompts without a template, as OpenAI's interfaces have them. */
#ifndef SERVER_PROMPTS_H
#define SERVER_PROMPTS_H

#include "server/generation.h"

/* A string, an array of tokens, or an array of these, into g->prompts. name: of the field. */
weft_status prompts_read(generation *g, const json *value, const char *name, char *param,
                         weft_error *err);

#endif
