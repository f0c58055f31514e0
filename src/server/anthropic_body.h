/* anthropic_body.h - what a body for Anthropic's Messages API asks for. */
#ifndef SERVER_ANTHROPIC_BODY_H
#define SERVER_ANTHROPIC_BODY_H

#include "server/generation.h"

/* Into g. counts: for /v1/messages/count_tokens. *omits: reasoning is thought, but not shown. */
weft_status anthropic_read_body(generation *g, const json *body, bool counts, bool *omits,
                                char *param, weft_error *err);

#endif
