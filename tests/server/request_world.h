/* request_world.h - what reading a conversation needs of a server: its models by name, none of
 * which can be loaded, and the answers that it remembers. */
#ifndef SERVER_REQUEST_WORLD_H
#define SERVER_REQUEST_WORLD_H

#include "base/assert.h"
#include "server/messages.h"
#include "server/server_state.h"

typedef struct request_world {
    server server;
    server_model model;
    server_options options;
    exchange exchange;
} request_world;

static inline void request_world_open(request_world *w)
{
    *w = (request_world){.model = {"m", "/nowhere"}};
    w->options = (server_options){.models = &w->model, .n_models = 1};
    w->exchange.server = &w->server;
    w->server.options = &w->options;
    int failed = uv_loop_init(&w->server.loop);
    weft_status status = replay_create(1 << 16, &w->server.replay, NULL);
    if (status == WEFT_OK)
        status = fleet_create(&w->server.loop, &w->options, &w->server.fleet, NULL);
    ASSERT(failed == 0 && status == WEFT_OK);
}

static inline void request_world_close(request_world *w)
{
    fleet_close(w->server.fleet);
    uv_run(&w->server.loop, UV_RUN_DEFAULT);
    fleet_destroy(w->server.fleet);
    replay_destroy(w->server.replay);
    int failed = uv_loop_close(&w->server.loop);
    ASSERT(failed == 0);
}

/* What generation_start makes of it, as far as reading needs it. */
static inline void request_world_begin(request_world *w, generation *g)
{
    *g = (generation){.x = &w->exchange, .options = &w->options};
    asked_init(&g->asked);
    asked_lists_init(&g->lists);
    strbuf_init(&g->messages, mem_system(), WEFT_CHAT_MESSAGES_BYTES);
    strbuf_init(&g->tools, mem_system(), WEFT_CHAT_TOOLS_BYTES);
    strbuf_init(&g->form, mem_system(), WEFT_CHAT_TOOLS_BYTES);
    strbuf_init(&g->tool_name, mem_system(), 0);
}

static inline void request_world_end(generation *g)
{
    asked_lists_deinit(&g->lists);
    strbuf_deinit(&g->messages);
    strbuf_deinit(&g->tools);
    strbuf_deinit(&g->form);
    strbuf_deinit(&g->tool_name);
}

#endif
