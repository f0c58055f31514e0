/* channels.h - an answer that is messages, each with a header: <|channel|>analysis<|message|>...
 *
 * Analysis is reasoning, a message to a function is a call, all others are content. */
#ifndef CHAT_CHANNELS_H
#define CHAT_CHANNELS_H

#include "chat/call.h"

enum { CHANNEL_HEADER_BYTES = 512 };

typedef enum channel_phase {
    CHANNEL_HEADER,
    CHANNEL_BODY,
    CHANNEL_CALL,
    CHANNEL_BETWEEN /* behind the end of a message */
} channel_phase;

typedef struct channel_reader {
    channel_phase phase;
    weft_part_kind kind; /* of the body */
    bool started;        /* the header is behind <|start|>, not the prompt's end */
    bool calls;
    strbuf header;
    strbuf held; /* of a body: what may begin a marker */
    strbuf raw;  /* of a call: all from its header on */
    json_scan scan;
} channel_reader;

void channel_reader_init(channel_reader *c, const weft_allocator *allocator, bool calls);
void channel_reader_deinit(channel_reader *c);

/* r is for names and arguments. */
void channel_reader_push(channel_reader *c, call_reader *r, char byte);
void channel_reader_end(channel_reader *c, call_reader *r, weft_finish finish);

#endif
