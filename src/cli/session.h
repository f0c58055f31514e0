/* session.h - a model and an engine on it, opened as the options say. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/options.h"
#include "cli/terminal.h"

/* What commands that open a model are told; 0 and NULL leave it to the library. */
typedef struct session_values {
    uint32_t threads;
    uint32_t context;
    uint64_t memory;
    uint64_t experts; /* to stream them through; 0: they are not */
    const char *backend, *isa, *act, *kv;
    bool no_cache;
} session_values;

#define SESSION_DEFAULTS                                                                           \
    {                                                                                              \
        .act = "bf16"                                                                              \
    }

enum {
    SESSION_ENGINE = 1, /* threads, backend, isa, act, kv, memory, experts */
    SESSION_CONTEXT = 2,
    SESSION_OPEN = 4, /* no-cache: every command that opens a model */
    SESSION_LAST = SESSION_OPEN
};

/* The options of one of the tables; offsets count from a session_values. */
option_set session_options(uint32_t set);

/* A growing array of token ids. */
typedef struct id_list {
    int32_t *ids; /* [capacity] */
    size_t n, capacity;
} id_list;

typedef struct session {
    weft_model *model;
    weft_model *drafting; /* NULL: none */
    weft_model_info info;
    weft_engine *engine;
    double load_ms; /* both */
    id_list said;   /* ids of the last prompt and its answer */
} session;

/* What a command asks of the engine beyond the options; 0 leaves it to the library. */
typedef struct session_plan {
    uint32_t context; /* unless --context is there */
    uint32_t max_sequences, chunk_tokens, max_outputs;
    uint64_t memory;       /* unless --memory is there */
    bool no_cache;         /* requests are to be computed from their first token on */
    const char *draft;     /* --draft; NULL: no request will draft */
    bool forced;           /* requests have grammars, which know some tokens in advance */
    const char *state_dir; /* made if it is not there; NULL: none */
    uint64_t state_dir_bytes;
} session_plan;

/* What --draft says (a name, a path of a model, "none"), as weft_request wants it; NULL: none. */
const char *session_drafter(const char *draft);

/* What --act, and options like it, may be. */
#define SESSION_ACTS "bf16|f32|int8"

/* --kv, or what --act says. */
const char *session_kv(const session_values *values);

/* What the options say, as the library takes it. */
weft_engine_options session_engine_options(const session_values *values);

/* Shows progress on a terminal. A failure to open the engine for what the options say is
 * ARGUMENT. */
weft_status session_open_model(session *s, const session_values *values, const char *path,
                               weft_error *err);
weft_status session_open_engine(session *s, const session_values *values, const session_plan *plan,
                                weft_error *err);
void session_close(session *s);

/* One line of how experts were streamed, if they were. */
void session_print_experts(const session *s, FILE *to);

/* The same as a member behind others: ,"experts":{...}. */
void session_add_experts(const session *s, strbuf *out);

/* --experts, for tables of options; offset: of session_values.experts. */
#define SESSION_EXPERTS_ROW(offset)                                                                \
    {                                                                                              \
        "experts", OPTION_BYTES, (offset), "stream=BYTES",                                         \
            "reads experts when tokens go to them, and keeps those used last in so much memory, "  \
            "such as stream=2G; answers are the same (default: all are mapped)",                   \
            1, 0, "stream="                                                                        \
    }

void id_list_deinit(id_list *list);
weft_status id_list_add(id_list *list, int32_t id, weft_error *err);

/* Replaces the list by the ids of a text. flags: WEFT_TOKENIZE_*. */
weft_status session_tokenize(const session *s, str text, uint32_t flags, id_list *list,
                             weft_error *err);

/* Why the model cannot be used with text, if so. */
weft_status session_check_tokenizer(const session *s, weft_error *err);

/* Replaces the list by the ids of a rendered conversation. flags: WEFT_CHAT_*; tools may be
 * NULL. */
weft_status session_chat(const session *s, const char *messages, const char *tools, uint32_t flags,
                         id_list *list, weft_error *err);

#endif
