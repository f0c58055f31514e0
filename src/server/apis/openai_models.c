/* openai_models.c - GET /v1/models and /v1/models/NAME. */
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/apis/api.h"
#include "server/server_state.h"

static const char *state_name(const fleet_model *m)
{
    static const char *const NAMES[] = {[FLEET_STATE_AWAY] = "unloaded",
                                        [FLEET_STATE_WAITING] = "loading",
                                        [FLEET_STATE_LOADING] = "loading",
                                        [FLEET_STATE_READY] = "loaded",
                                        [FLEET_STATE_FAILED] = "failed"};
    return NAMES[m->state];
}

static void write_model(const server *s, const fleet_model *m, strbuf *out)
{
    strbuf_add_text(out, "{\"id\":");
    json_write_text(str_of(m->name), out);
    strbuf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"weft\"",
                  (long long)s->begun_time);
    strbuf_printf(out, ",\"status\":{\"value\":\"%s\"}", state_name(m));
    if (m->state == FLEET_STATE_FAILED) {
        strbuf_add_text(out, ",\"error\":");
        json_write_text(str_of(m->error.message), out);
    }
    if (m->state == FLEET_STATE_READY) {
        strbuf_printf(out, ",\"max_model_len\":%u,\"modalities\":[\"text\"%s]", m->context,
                      m->info.has_vision ? ",\"image\"" : "");
        strbuf_printf(out, ",\"meta\":{\"family\":\"%s\",\"n_params\":%llu,\"n_bytes\":%llu}",
                      m->info.family, (unsigned long long)m->info.n_params,
                      (unsigned long long)m->info.n_bytes);
    }
    strbuf_add_char(out, '}');
}

static void list(exchange *x)
{
    strbuf out;
    const server *s = x->server;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add_text(&out, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < fleet_size(s->fleet); i++) {
        if (i > 0) strbuf_add_char(&out, ',');
        write_model(s, fleet_at(s->fleet, i), &out);
    }
    strbuf_add_text(&out, "]}");
    exchange_respond_buf(x, 200, "application/json", &out);
}

static void show(exchange *x)
{
    strbuf out;
    static const char PREFIX[] = "/v1/models/";
    str name = x->in.path;
    name.ptr += sizeof PREFIX - 1;
    name.len -= sizeof PREFIX - 1;
    const fleet_model *m = fleet_find(x->server->fleet, name);
    if (m == NULL) {
        exchange_fail(x, 404, "model", "there is no model of that name here");
        return;
    }
    strbuf_init(&out, mem_system(), 0);
    write_model(x->server, m, &out);
    exchange_respond_buf(x, 200, "application/json", &out);
}

static const server_route ROUTES[] = {
    {"GET", "/v1/models", ROUTE_ALWAYS, list},
    {"GET", "/v1/models/*", ROUTE_ALWAYS, show},
};

const server_api SERVER_API_openai_models = {.name = "openai_models",
                                             .routes = ROUTES,
                                             .n_routes = COUNT_OF(ROUTES),
                                             .write_error = openai_write_error};
