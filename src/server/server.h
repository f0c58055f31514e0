/* server.h - the HTTP server: models by name, behind the clients' usual interfaces.
 *
 * A client of weft.h like any other program. One event loop has the sockets and the events of all
 * answers; what takes long (reading JSON, templates, tokenizing, grammars, images) runs in libuv's
 * threads, and each model that is loaded has one thread that steps its engine. docs/server.md. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "base/err.h"
#include "weft.h"

typedef struct server server;

typedef struct server_model {
    const char *name; /* as requests name it */
    const char *path;
} server_model;

/* Borrowed until the server is destroyed. */
typedef struct server_options {
    const char *host;
    uint16_t port;           /* 0: one that is free */
    const char *const *keys; /* of users; none: whoever asks is one */
    uint32_t n_keys;
    const char *const *admin_keys; /* none: users are administrators */
    uint32_t n_admin_keys;
    const char *const *hosts; /* further names of this server, as Host has them; "*": any */
    uint32_t n_hosts;
    const char *const *origins; /* of pages that may ask; "*": any */
    uint32_t n_origins;
    const server_model *models; /* the first is loaded at the start */
    uint32_t n_models;          /* at least 1 */
    weft_model_options model;
    weft_engine_options engine; /* of each model */
    const char *draft;          /* of requests that do not say; NULL: none */
    uint64_t memory_bytes;      /* for all models that are loaded; 0: no bound */
    const char *state_folder;   /* where /kv/save writes; NULL: it is refused */
    uint32_t max_connections, max_requests;
    size_t body_bytes;
    uint32_t load_wait_ms; /* how long a request waits for its model to be loaded */
    uint32_t drain_ms;     /* how long answers may take to end when the server does */
    uint32_t max_new;      /* tokens of an answer to a request that does not say; 0: all that fit */
    bool page;             /* a page to chat at / */
    bool quiet;            /* no line for each request */
    void *user;
    void (*log)(void *user, const char *line); /* NULL: none; from the loop's thread alone */
} server_options;

/* Listens. */
weft_status server_create(const server_options *options, server **out, weft_error *err);

uint16_t server_port(const server *s);

/* Serves until server_stop. *stuck: a thread still loads a model, or reads a body, which nothing
 * can interrupt: server_destroy would wait for it, and a program that is about to end need not call
 * it. */
weft_status server_run(server *s, bool *stuck, weft_error *err);

/* From any thread or a signal's handler. The first time: no new requests, and what is under way
 * ends, drain_ms at most; the second time: at once. */
void server_stop(server *s);

/* Accepts NULL. */
void server_destroy(server *s);

#endif
