/* conversation.h - weft_chat, and how its prompt is made. */
#ifndef API_CONVERSATION_H
#define API_CONVERSATION_H

#include "api/api.h"
#include "chat/forms.h"
#include "chat/parser.h"

enum {
    CHAT_STOPS = DIALECT_TAGS,
    CHAT_REPLAYED_IDS = 4 << 20, /* answer_ids of all messages together */
    CHAT_REPLAYED = 4096         /* messages that have some */
};

struct weft_chat {
    const weft_model *model;
    weft_allocator allocator;
    tool_list tools;
    chat_reading reading;
    token_list prompt;
    int32_t shown[WEFT_SHOWN_IDS], stops[CHAT_STOPS];
    uint32_t n_shown, n_stops, n_replayed;
    bool thoughts_closed; /* the prompt ends behind reasoning */
    weft_grammar *grammar;
};

/* Renders, and puts what was sampled in its place: prompt, n_replayed, and what the prompt's end
 * says of reasoning. */
weft_status chat_make_prompt(weft_chat *chat, const weft_chat_options *options, str tools,
                             weft_error *err);

/* Messages as a template gets them: arguments of calls that are text as objects, unless as_given,
 * without answer_ids. marks NULL, or [n]: what message i has instead of its content and calls. */
typedef struct chat_mark {
    bool used, thinks;
    char content[48], thought[48];
} chat_mark;

weft_status chat_write_messages(const json *messages, bool as_given, const chat_mark *marks,
                                strbuf *out, weft_error *err);

/* The rest of the prompt's making, when messages have answer_ids (replay.c). plain: rendered from
 * them as they are. *n_replayed 0: nothing was put in place, and chat->prompt is empty. */
weft_status chat_replay(weft_chat *chat, const json *messages, const chat_input *input,
                        bool as_given, const template_output *plain, weft_error *err);

#endif
