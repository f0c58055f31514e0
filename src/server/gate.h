/* gate.h - who may ask: keys, names of this server, pages of other origins. */
#ifndef SERVER_GATE_H
#define SERVER_GATE_H

#include "server/exchange.h"
#include "server/server.h"

typedef struct gate {
    const server_options *options; /* borrowed */
    bool loopback;                 /* it listens there: only names of this machine are asked for */
} gate;

/* Of the key that came as "Authorization: Bearer" or "x-api-key". RANK_NONE: there is none that is
 * known. */
exchange_rank gate_rank(const gate *g, const http_request *r);

/* Whether Host is a name of this server: a page of another site, whose name was made to point
 * here, asks under its own (DNS rebinding). */
bool gate_knows_host(const gate *g, const http_request *r);

/* Whether the request may come from where Origin says. *allow is what the answer says of it, or
 * empty. */
bool gate_knows_origin(const gate *g, const http_request *r, str *allow);

#endif
