/* api.h - the contract of an interface that clients speak.
 *
 * A new one is a file NAME.c that defines `const server_api SERVER_API_NAME`, and a row
 * SERVER_API(NAME) in apis.def; the router knows its routes from there, and docs/server.md must.
 *
 * A handler that asks a model for answers or vectors is a table of generation.h; one that needs a
 * model and no answer of it, a table of task.h; any other answers by itself (exchange.h). Bodies
 * are read by rows of fields (fields.h): openai_embeddings.c, text.c and operations.c are short
 * ones of the three kinds. Its tests are in tests/server/test_apis.py; what reads a body in a way
 * of its own is called by tests/fuzz/fuzz_bodies.c, too. */
#ifndef SERVER_APIS_API_H
#define SERVER_APIS_API_H

#include "server/exchange.h"

enum {
    ROUTE_OPEN = 1,  /* needs no key */
    ROUTE_ADMIN = 2, /* of administrators */
    ROUTE_ALWAYS = 4 /* answered at once, however many requests are under way */
};

struct server_route {
    const char *method;
    const char *path; /* with '*' at its end: whatever begins so */
    uint32_t flags;
    void (*handle)(exchange *x); /* in the loop's thread; the exchange is its to end */
};

typedef struct api_error {
    uint32_t status;
    const char *param; /* the field at fault, or NULL */
    const char *message;
    uint64_t number; /* of the request; 0: it was refused before it had one */
} api_error;

struct server_api {
    const char *name;
    const server_route *routes;
    uint32_t n_routes;
    /* A failure as its clients know it: JSON, appended. */
    void (*write_error)(strbuf *out, const api_error *e);
    const char *id_header; /* where its clients look for the request's id, too; NULL: nowhere */
};

extern const server_api *const SERVER_APIS[];
extern const uint32_t N_SERVER_APIS;

/* The route, or NULL; *other_method: then the method that the path is there for, NULL: it is not.
 * *api: whose it is (or whose errors a client that asks for that path expects). */
const server_route *server_api_find(str method, str path, const server_api **api,
                                    const char **other_method);

/* OpenAI's form of an error, which most clients expect. */
void openai_write_error(strbuf *out, const api_error *e);

/* In the form of an interface; api NULL: in OpenAI's. */
void server_api_write_error(const server_api *api, strbuf *out, const api_error *e);

/* Answers with a failure in the form of its interface. */
void exchange_fail(exchange *x, uint32_t status, const char *param, const char *message);

/* Answers with out, or with its failure, and frees it. */
void exchange_respond_buf(exchange *x, uint32_t status, const char *type, strbuf *out);

/* The status of HTTP for one of ours. */
uint32_t http_status_of(weft_status status);

#endif
