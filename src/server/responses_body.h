/* responses_body.h - what a body for OpenAI's Responses API asks for. */
#ifndef SERVER_RESPONSES_BODY_H
#define SERVER_RESPONSES_BODY_H

#include "server/generation.h"

/* Into g. echo: members of the answer that repeat what was asked, as "name":value with commas. */
weft_status responses_read_body(generation *g, const json *body, strbuf *echo, char *param,
                                weft_error *err);

#endif
