/* net.h - sockets: accepting, reading into bounded buffers, writing as fast as the other side
 * reads, and the times after which a connection that does nothing is closed. */
#ifndef SERVER_NET_H
#define SERVER_NET_H

#include <uv.h>

#include "server/exchange.h"

typedef struct net_options {
    const char *host; /* a name or an address */
    uint16_t port;    /* 0: any that is free */
    uint32_t max_connections;
    size_t body_bytes;   /* most of a request's body */
    size_t bodies_bytes; /* most of all of them together, but for small ones */
    /* Milliseconds: for a request's head, between two reads of a body and for all of it, of a
     * connection between requests, and that a client may leave what was written unread. */
    uint32_t head_ms, body_ms, body_all_ms, idle_ms, unread_ms;
    uint32_t beat_ms; /* a stream that says nothing for so long gets a comment */
} net_options;

/* What the server is told. */
typedef struct net_calls {
    /* The head is there: false when the request is refused, which has been answered. */
    bool (*admit)(server *s, const http_request *head, uint32_t *status, strbuf *answer);
    /* A whole request; x is the receiver's to end. */
    void (*handle)(server *s, exchange *x);
    /* x is about to be no more. */
    void (*ended)(server *s, exchange *x);
} net_calls;

typedef struct net_info {
    uint32_t n_connections;
    uint64_t n_accepted, n_refused; /* as more than max_connections */
    uint64_t n_bad;                 /* requests that were no valid HTTP, or too large */
    uint64_t n_timeouts;
    uint64_t n_gone; /* clients that left before their answer was whole */
} net_info;

/* Binds and listens. IO when the address cannot be had. loop and options are borrowed. */
weft_status net_open(uv_loop_t *loop, const net_options *options, const net_calls *calls, server *s,
                     net **out, weft_error *err);

uint16_t net_port(const net *n);
bool net_is_loopback(const net *n);
void net_get_info(const net *n, net_info *info);

/* No new connection, and none is kept behind its answer. */
void net_drain(net *n);

/* Whether no connection is left. */
bool net_is_idle(const net *n);

/* Closes all; the memory is free when the loop has run to its end and net_free was called. */
void net_close(net *n);
void net_free(net *n);

#endif
