/* parser.h - an answer's text as parts: content, reasoning, calls of tools.
 *
 * Bytes are taken one by one, so the parts do not depend on how a text was divided, and time is
 * linear in it. What leaves is what can be nothing else any more: a marker that might begin is held
 * back, and so is white space before one, which belongs to it. A call that turns out to be none is
 * text again, byte for byte. */
#ifndef CHAT_PARSER_H
#define CHAT_PARSER_H

#include "chat/channels.h"
#include "chat/dialects/dialect.h"

/* How answers of one conversation are read; borrowed by its parsers. */
typedef struct chat_reading {
    const dialect *dialect;
    const char *think_open, *think_close; /* NULL: there is no reasoning */
    const tool_list *tools;
    bool calls;        /* calls are looked for */
    bool one_call;     /* what comes behind the first is not given */
    bool in_reasoning; /* the answer begins within reasoning */
} chat_reading;

typedef enum parser_mode { PARSER_CONTENT, PARSER_REASONING, PARSER_CALL } parser_mode;

typedef struct chat_parser {
    const chat_reading *how;
    part_list parts;
    call_reader call;
    parser_mode mode, back; /* back: what a call stands in */
    strbuf held;            /* text that is not given yet */
    size_t n_run;           /* of it: white space, and markers that stand before calls */
    strbuf raw;             /* the call so far, with what was held before it */
    bool fresh;             /* no text since the beginning, a call, or a change of mode */
    bool skip;              /* white space is dropped, until there is text */
    bool behind_call;       /* so are closing tags */
    bool ended;
    channel_reader channels;
} chat_parser;

void chat_parser_init(chat_parser *p, const weft_allocator *allocator, const chat_reading *how);
void chat_parser_deinit(chat_parser *p);

/* NOMEM ends it: nothing is handed out any more. */
weft_status chat_parser_push(chat_parser *p, str text, weft_error *err);
weft_status chat_parser_end(chat_parser *p, weft_finish finish, weft_error *err);

weft_part chat_parser_next(chat_parser *p);

#endif
