/* chat.h - the conversation of `weft run`. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "cli/generate.h"

typedef struct chat_options {
    bool raw;           /* no template: the text so far is continued */
    const char *system; /* NULL: none */
    generate_options how;
} chat_options;

/* Messages as the template wants them: a JSON array that grows. */
typedef struct chat_history {
    strbuf json;  /* an array without its closing bracket */
    size_t start; /* bytes that /clear keeps: the system message */
} chat_history;

weft_status chat_history_init(chat_history *h, const char *system, weft_error *err);
void chat_history_deinit(chat_history *h);
weft_status chat_history_add(chat_history *h, const char *role, str content, weft_error *err);
/* The same of a person who shows so many images before the text. */
weft_status chat_history_show(chat_history *h, uint32_t n_images, str content, weft_error *err);
void chat_history_cut(chat_history *h, size_t n_bytes); /* back to an earlier json.len */

/* The ids of the conversation so far, ready for an answer. */
weft_status chat_history_ids(chat_history *h, const session *s, id_list *ids, weft_error *err);

/* Reads and answers until the person leaves. Returns an exit status. */
int chat_run(session *s, const chat_options *options);

#endif
