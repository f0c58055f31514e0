/* exchange.h - one request and what is answered to it, apart from sockets.
 *
 * All of it happens in the thread of the event loop, but for what exchange_run hands to another
 * one. A handler may answer at once or later; an exchange lives until exchange_end (or a call that
 * includes it), also when its client has gone: then nothing that is written goes anywhere. */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include "base/err.h"
#include "base/json.h"
#include "server/http.h"

typedef struct server server;
typedef struct net net;
typedef struct conn conn;
typedef struct exchange exchange;
typedef struct server_route server_route;
typedef struct server_api server_api;

/* Who asks, by the key that came along. */
typedef enum exchange_rank { RANK_NONE, RANK_USER, RANK_ADMIN } exchange_rank;

struct exchange {
    exchange *prev, *next; /* of the server's */
    server *server;
    net *net;
    conn *conn; /* NULL: the client has gone */
    conn *left; /* then: what it had, until that is closed */
    http_request in;
    const server_route *route;
    const server_api *api; /* whose errors the client expects; NULL: OpenAI's */
    exchange_rank rank;
    str allow_origin;    /* what the answer says of other origins; borrowed from in, or static */
    uint64_t number;     /* X-Request-Id */
    uint64_t begun_ns;   /* when the request was whole */
    uint64_t written_ms; /* when the stream had bytes last */
    strbuf events;   /* of the stream, that go with the next write; room for their frame first */
    size_t n_body;   /* bytes of memory that the body has */
    uint32_t status; /* of the answer; 0: none yet */
    bool streams;    /* events follow the head */
    bool keep_alive;
    bool running; /* exchange_run is under way */
    /* The handler's. gone: the client has left (once; not while exchange_run is under way: then
     * `after` must look at conn). drained: what was written is on its way, exchange_is_full is
     * false again. May be NULL. */
    void *state;
    void (*gone)(exchange *x);
    void (*drained)(exchange *x);
};

/* A whole answer, and the end of the exchange. body is copied. */
void exchange_respond(exchange *x, uint32_t status, const char *type, str body);

/* The same with another header line or several, each ending in CR LF. */
void exchange_respond_with(exchange *x, uint32_t status, const char *headers, const char *type,
                           str body);

/* Begins a stream of events. */
void exchange_stream(exchange *x);

/* Bytes of the stream, which go to the socket with the next flush, or when there are enough. */
void exchange_write(exchange *x, str bytes);
void exchange_flush(exchange *x);

/* Whether so much waits for the client that it should not become more. */
bool exchange_is_full(const exchange *x);

/* Gives the client up: it is taken for one that has left. */
void exchange_cut(exchange *x);

/* The body was read, and what was made of it is small or gone: there is room for others. Its memory
 * may be gone already. */
void exchange_drop_body(exchange *x);

/* Ends a stream (or an exchange whose client has gone). x is no more. */
void exchange_end(exchange *x);

/* Runs work in another thread, then after in the loop's, whether the client is there or not. false:
 * no thread takes it; after is not called. */
bool exchange_run(exchange *x, void (*work)(exchange *x), void (*after)(exchange *x));

/* What was made of x's body is freed: in another thread when it may be large. */
void exchange_free_document(exchange *x, json_doc *doc);

#endif
