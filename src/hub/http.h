/* http.h - GET from a hub, with redirects, repeated attempts and bounds; libcurl behind our names.
 *
 * Addresses are https, or http where the hub itself is one of this machine. The token goes to the
 * hub's own scheme, host and port and nowhere else, and what a hub says of a file in headers is
 * believed of these only. Without libcurl (WEFT_CURL) nothing can be opened, and a sentence says
 * so. libcurl's own memory comes from malloc and is gone when a client is closed. */
#ifndef HUB_HTTP_H
#define HUB_HTTP_H

#include "base/mem.h"
#include "hub/id.h"

#define HUB_SIZE_UNKNOWN UINT64_MAX

enum {
    HUB_URL_BYTES = 8192,
    HUB_TOKEN_BYTES_MOST = 1024,
    HUB_REDIRECTS_MOST = 5,
    HUB_ATTEMPTS_MOST = 6,       /* in a row that brought nothing */
    HUB_BACKOFF_MS = 500,        /* before the second attempt, then twice as long each time */
    HUB_RETRY_AFTER_S_MOST = 60, /* a hub that asks for more is not waited for */
    HUB_CONNECT_S = 20,
    HUB_STALL_S = 30 /* without a byte: another attempt */
};

/* What an answer says before its body. */
typedef struct hub_reply {
    long status;
    uint64_t first;                /* where the body begins in the file */
    uint64_t size;                 /* of the whole file; HUB_SIZE_UNKNOWN */
    char commit[HUB_COMMIT_BYTES]; /* X-Repo-Commit; "" */
    char hash[80];                 /* X-Linked-Etag, or ETag, of the hub itself; "" */
    uint64_t linked_size;          /* X-Linked-Size; HUB_SIZE_UNKNOWN */
    char error_code[40];           /* X-Error-Code; "" */
} hub_reply;

/* One file or answer to fetch. */
typedef struct hub_transfer {
    const char *url;
    const char *name; /* for messages: a file, or "" for the model itself */
    uint64_t offset;  /* bytes that are there; attempts go on behind them, body counts them up */
    uint64_t size;    /* HUB_SIZE_UNKNOWN: until the answer ends */
    void *user;
    /* Before the first byte of each answer that brings some; reply->first is 0 or offset. */
    weft_status (*begin)(void *user, const hub_reply *reply, weft_error *err);
    weft_status (*body)(void *user, const char *bytes, size_t n_bytes, weft_error *err);
    /* Asked often; false gives up with CANCELLED. */
    bool (*go_on)(void *user);
    /* Before another attempt. */
    void (*again)(void *user, const char *why, uint64_t wait_ms);
} hub_transfer;

typedef struct hub_server {
    const char *endpoint; /* "https://huggingface.co" */
    const char *token;    /* NULL: none */
    const char *agent;    /* "weft/0.1.0" */
} hub_server;

typedef struct hub_http hub_http;

/* ARGUMENT for an endpoint or token that is none; UNSUPPORTED without libcurl. server and id are
 * borrowed. */
weft_status hub_http_open(hub_http **client, const weft_allocator *allocator,
                          const hub_server *server, const hub_id *id, weft_error *err);
void hub_http_close(hub_http *h);

/* Until the whole file is there. IO with a sentence of what the hub answered, FORMAT for an answer
 * that contradicts itself, CANCELLED, or what begin and body returned. */
weft_status hub_http_get(hub_http *h, hub_transfer *t, weft_error *err);

/* text as a part of an address, appended; slash: '/' stays. */
weft_status hub_url_add(strbuf *url, const char *text, bool slash);

#endif
