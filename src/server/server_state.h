/* server_state.h - the server's own parts, for the files of this folder. */
#ifndef SERVER_SERVER_STATE_H
#define SERVER_SERVER_STATE_H

#include "server/crew.h"
#include "server/fleet.h"
#include "server/gate.h"
#include "server/net.h"
#include "server/replay.h"

struct server {
    const server_options *options;
    uv_loop_t loop;
    net_options net_options;
    net *net;
    fleet *fleet;
    crew *crew; /* for large bodies */
    replay *replay;
    gate gate;
    uv_async_t stop;
    uv_timer_t drain; /* the end of patience */
    uv_timer_t trim;  /* when memory is given back that large bodies left */
    uv_work_t trimming;
    uint32_t n_late;  /* turns since there is no patience left */
    uint32_t n_stops; /* atomic: how often server_stop was called */
    bool draining, closing, is_trimming;
    bool stuck;        /* it ended before all of its threads did */
    uint64_t drain_ns; /* when draining began */
    exchange *first;   /* under way */
    uint32_t n_exchanges;
    uint64_t n_requests;
    size_t n_kept; /* bytes of log-probabilities, of all generations */
    uint64_t begun_ns;
    int64_t begun_time; /* Unix */
};

#endif
