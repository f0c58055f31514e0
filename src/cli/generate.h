/* generate.h - one answer: submit, step, and text as it comes. */
#ifndef CLI_GENERATE_H
#define CLI_GENERATE_H

#include "cli/session.h"

/* How to answer: each as in weft_request. */
typedef struct generate_options {
    uint32_t max_new, min_new, n_top;
    weft_sampling sampling;
    const char *draft;
    const char *const *stop_texts; /* [n_stop_texts] */
    uint32_t n_stop_texts;
    const weft_grammar *grammar;
} generate_options;

typedef struct generate_request {
    const id_list *prompt;
    generate_options how;
    bool continues;           /* the answer goes on from the text of the prompt */
    const weft_image *images; /* [n_images], one for each placeholder of the prompt */
    uint32_t n_images;
    /* Whole characters, as they come; NULL: nobody looks. */
    void *user;
    void (*text)(void *user, const char *bytes, size_t n_bytes);
    void (*token)(void *user, const weft_event *event); /* each TOKEN; NULL: the same */
} generate_request;

typedef struct generate_answer {
    id_list ids; /* the caller frees it; a stop id at the end is in it */
    weft_finish finish;
    int32_t stop_text;                        /* of how.stop_texts, which ended it; -1: none */
    size_t n_prompt;                          /* tokens, those of images counted */
    uint32_t n_cached, n_drafted, n_accepted; /* as in weft_event */
    double first_s;                           /* from the submission to the first token */
    double total_s;                           /* to the last */
} generate_answer;

/* Tokens of the prompt that one step of run reads. */
enum { GENERATE_CHUNK = 512 };

/* Ctrl-C ends it with CANCELLED while interrupt_arm is in force; so does a stdout that cannot be
 * written, which is nobody's error here. */
weft_status generate(session *s, const generate_request *request, generate_answer *answer,
                     weft_error *err);

/* One line: tokens, tokens per second, what ended it. */
void generate_print_speed(const session *s, const generate_request *request,
                          const generate_answer *answer);

/* "stop", "length", ... */
const char *generate_finish_name(weft_finish finish);

#endif
