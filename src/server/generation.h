/* generation.h - one request for answers, whatever interface it came by: read, made ready,
 * submitted, polled, cancelled. An interface reads its body and writes its answer; what lies
 * between is here. */
#ifndef SERVER_GENERATION_H
#define SERVER_GENERATION_H

#include "server/asked.h"
#include "server/exchange.h"
#include "server/fleet.h"

enum {
    GENERATION_PROMPTS = 256, /* of one request */
    GENERATION_ANSWERS = 512, /* prompts times answers of each */
    GENERATION_IMAGES = 32,
    GENERATION_IMAGE_BYTES = 20 << 20, /* of one image's file */
    /* Log-probabilities that are kept until the end: of one request, and of all together. */
    GENERATION_KEPT_BYTES = 64 << 20,
    GENERATION_ALL_KEPT_BYTES = 256 << 20
};

/* A call of a tool in an answer. */
typedef struct answer_call {
    char id[32];
    strbuf name, arguments;
    bool whole;
    bool undone; /* it turned out to be content */
} answer_call;

typedef struct answer {
    generation *g;
    uint32_t index, prompt_i;
    weft_handle handle;
    weft_parser *parser; /* NULL: all is content */
    strbuf content, reasoning;
    answer_call *calls; /* [n_calls] */
    uint32_t n_calls, calls_capacity;
    strbuf logprobs; /* entries of tokens, with commas between; the interface may empty it */
    int32_t *ids;    /* [n_ids]: as they were sampled */
    uint32_t n_ids, ids_capacity;
    weft_finish finish;
    int32_t stop_text;
    uint32_t n_known, n_cached, n_drafted, n_accepted, n_paused;
    uint64_t ns_first, ns_last; /* from the submit to its first token, and its last; 0: none */
    bool done;
    bool ends_early; /* it was cancelled since all that may be said is */
    void *own;       /* the interface's */
} answer;

typedef struct generation_prompt {
    str text;     /* unless ids; borrowed from doc */
    int32_t *ids; /* [n_ids] */
    size_t n_ids;
} generation_prompt;

/* What an interface does. */
typedef struct generation_api {
    /* In another thread: body -> what is asked. param [FIELD_NAME_BYTES]: the field at fault. */
    weft_status (*read)(generation *g, const json *body, char *param, weft_error *err);
    bool parts_of_all; /* part and finish are called without a stream, too */
    /* Everything below in the loop's. Streams only: the head was written. */
    void (*begin)(generation *g);
    /* Streams only. A part of an answer; or, where there are log-probabilities, a token of which
     * nothing was said yet (part of no text). */
    void (*part)(answer *a, const weft_part *part);
    /* What is kept of a token, where log-probabilities are asked for, instead of entries in
     * answer.logprobs; false: out of memory. NULL: those. */
    bool (*token)(answer *a, const weft_event *event);
    /* Streams only: an answer is whole. */
    void (*finish)(answer *a);
    /* All are: the end of the stream, or the whole body, appended. */
    void (*end)(generation *g, strbuf *out);
    /* Streams only: something failed after the head. */
    void (*broken)(generation *g, uint32_t status, const char *message);
    size_t own_bytes;            /* of generation.own, zeroed */
    void (*drop)(generation *g); /* frees what own has; may be NULL */
} generation_api;

struct generation {
    generation *prev, *next; /* of the model's */
    exchange *x;
    const server_options *options;
    const generation_api *api;
    void *own;    /* [own_bytes] */
    json_doc doc; /* until it is submitted */
    char param[FIELD_NAME_BYTES];
    weft_error err;
    uint32_t status; /* of HTTP, with err */
    fleet_wait wait;
    fleet_model *waits_for;
    fleet_model *model; /* held */
    bool listed;        /* with the model */
    /* What is asked. */
    asked asked;
    asked_lists lists;
    str model_name;
    bool include_usage;
    bool is_chat;
    bool counts; /* nothing is submitted: end says what is known of the prompt; no stream */
    strbuf messages, tools, variables, form, tool_name; /* of a chat; JSON but for the last */
    const char *tool_choice;
    bool has_tools, one_call, has_form;
    weft_grammar_kind form_kind;
    generation_prompt *prompts; /* [n_prompts], of others */
    uint32_t n_prompts;
    str images[GENERATION_IMAGES]; /* data URLs, borrowed from doc */
    uint32_t n_images;
    bool bare_images; /* they are base64 alone */
    /* Embeddings. */
    bool embeds;
    uint32_t n_dims;
    float *vectors; /* [n_prompts, n_dims] */
    /* Made ready. */
    weft_chat *chat;
    bool has_grammar;      /* the chat has */
    weft_grammar *grammar; /* of what is no chat */
    int32_t *stop_ids;     /* [n_stop_ids]; NULL: the request has none of its own */
    uint32_t n_stop_ids;
    weft_image *pictures; /* [n_images] */
    answer *answers;      /* [n_answers] */
    uint32_t n_answers, n_done;
    uint32_t n_prompt_tokens; /* of all prompts */
    uint64_t submitted_ns;
    uint64_t full_ns; /* since when its client has not read; 0: it does */
    size_t n_kept;    /* bytes of log-probabilities */
    int64_t created;  /* Unix time */
    strbuf stem;      /* what every event of a stream begins with; the interface's */
    strbuf event;     /* the one that is being written */
    char id[40];      /* without the interface's prefix */
};

/* Begins: the exchange is the generation's from here on. */
void generation_start(exchange *x, const generation_api *api);

/* Whatever its model has to say. */
void generation_poll_all(fleet_model *m);

/* A token's bytes as a JSON string, and how many characters they are. */
uint32_t generation_write_token(const generation *g, int32_t id, strbuf *out);

/* JSON has no infinity; what has no probability at all is -9999, as elsewhere. */
void generation_write_logprob(float logprob, strbuf *out);

/* So many bytes of log-probabilities more stay until the end. false: they are too many; err says
 * of what. */
bool generation_keep(generation *g, size_t n_bytes);

/* Sum over answers. */
uint32_t generation_new_tokens(const generation *g);

/* Of the first answer of each prompt. */
uint32_t generation_cached_tokens(const generation *g);

/* "stop", "length", "tool_calls", ... as OpenAI names it. */
const char *generation_finish_name(const answer *a);

/* Whether calls of tools are what the answer is. */
bool answer_has_calls(const answer *a);

/* An empty buffer for an event; it keeps its memory from one to the next. */
strbuf *generation_begin_event(generation *g);

/* Writes an event: "event: NAME\ndata: JSON\n\n"; name may be NULL. data: that buffer or another
 * one. */
void generation_event(generation *g, const char *name, const strbuf *data);

#endif
