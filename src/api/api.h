/* api.h - what the files of api/ share: weft_model, and the rules for structs the caller fills. */
#ifndef API_API_H
#define API_API_H

#include "base/thread.h"
#include "chat/dialects/dialect.h"
#include "chat/template.h"
#include "engine/engine.h"
#include "grammar/grammar.h"
#include "models/model.h"
#include "tokenizer/detok.h"

/* The vocabulary as grammars have it, made when the first is opened, in any thread. */
typedef struct model_words {
    thread_lock *lock;
    grammar_vocab *vocab; /* NULL: not yet */
} model_words;

struct weft_model {
    env env;
    weft_allocator allocator; /* copies of the caller's */
    weft_log log;
    llm *model;
    /* NULL with the reason beside it: a model can be run by ids without them. */
    tokenizer *tokenizer;
    weft_error tokenizer_error;
    chat_template *chat;
    weft_error chat_error;
    dialect_choice dialect; /* of chat, when that is there */
    model_words *words;
};

/* Copies a caller's struct over defaults already in ours: sizes from least (the first release's) to
 * size (ours) are taken as they are, a longer one when its tail is zero. from may be NULL. ARGUMENT
 * names what. */
weft_status api_take_struct(void *ours, size_t size, const void *from, size_t least,
                            const char *what, weft_error *err);

/* The other way: as much of ours as the caller's struct_size holds; struct_size stays. */
weft_status api_give_struct(const void *ours, size_t size, void *to, size_t least, const char *what,
                            weft_error *err);

/* Bytes of a struct up to and with its member last, the last of the first release. */
#define API_UP_TO(ours, last) ((size_t)((const char *)(&(ours).last + 1) - (const char *)&(ours)))
#define API_TAKE(ours, from, last, what, err)                                                      \
    api_take_struct(&(ours), sizeof(ours), (from), API_UP_TO(ours, last), what, err)
#define API_GIVE(ours, to, last, what, err)                                                        \
    api_give_struct(&(ours), sizeof(ours), (to), API_UP_TO(ours, last), what, err)

/* weft_model_open over any files; tests make them fail. */
weft_status api_model_open(const char *path, const weft_model_options *options, const io *files,
                           weft_model **model, weft_error *err);

/* weft_convert over any files. */
weft_status api_convert(const char *source, const char *target, const weft_convert_options *options,
                        const io *files, weft_conversion *result, weft_error *err);

/* Copies a list to the caller: LIMIT with *n_ids when it does not fit. */
weft_status api_give_ids(const token_list *list, int32_t *ids, size_t capacity, size_t *n_ids,
                         weft_error *err);

/* What a template is rendered with. */
typedef struct chat_input {
    str messages, tools, variables; /* JSON; tools and variables may be empty: none */
    bool generate;                  /* the beginning of an answer follows */
    int64_t now;
} chat_input;

weft_status api_render(const weft_model *m, const chat_input *from, template_output *out,
                       weft_error *err);

/* Spans of out that can stand in a control token without harm are taken out of it. */
void api_trust_words(const weft_model *m, template_output *out);

/* Needs a template and a tokenizer. */
weft_status api_need_chat(const weft_model *m, weft_error *err);

/* Reads the chat template of an opened model into chat; OK and NULL when it has none. */
weft_status api_open_chat(weft_model *m, weft_error *err);

#endif
