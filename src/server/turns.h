/* turns.h - conversations of typed blocks or items, made the messages that templates take: what
 * belongs to one turn, however many blocks it comes in, becomes one message. */
#ifndef SERVER_TURNS_H
#define SERVER_TURNS_H

#include "server/messages.h"

typedef struct turns {
    generation *g;
    const char *role; /* of the turn that is open; NULL: none */
    str result_id;    /* of a tool's result */
    strbuf text;      /* since the last image */
    strbuf parts;     /* of a turn with images: JSON, with commas between */
    strbuf reasoning;
    strbuf calls; /* JSON, with commas between */
    uint32_t n_messages;
    messages_results results; /* since the last answer */
    char *param;
    weft_error *err;
} turns;

/* Appends to g->messages. param and err are where failures are said. */
void turns_init(turns *t, generation *g, char *param, weft_error *err);
void turns_deinit(turns *t);

/* What is added next is of this role ("system", "user", "assistant"). joins: where a turn of the
 * same role is open, it goes on. Systems always join, with an empty line between. */
weft_status turns_open(turns *t, const char *role, bool joins);

/* A tool's result. ARGUMENT when this call has one already since the last answer. name: of the
 * field, for that. */
weft_status turns_open_result(turns *t, str id, const char *name);

weft_status turns_add_text(turns *t, str text);

/* image: as generation.images has them. */
weft_status turns_add_image(turns *t, str image, const char *name);

weft_status turns_add_reasoning(turns *t, str text);

/* arguments: an object, or its text. */
weft_status turns_add_call(turns *t, str id, str name, const json *arguments);

/* All is said. LIMIT when it is too much. */
weft_status turns_end(turns *t);

#endif
