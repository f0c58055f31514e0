/* server.c - who may come in, where a request goes, and the end. */
#include "server/server.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/apis/api.h"
#include "server/server_state.h"

enum {
    REPLAY_BYTES = 64 << 20,
    BODIES = 4, /* of the largest kind that may be under way together */
    CREW = 2    /* threads for large ones */
};

/* ---- requests -------------------------------------------------------------------------------- */

static void refuse(const server_api *api, strbuf *answer, uint32_t *status, uint32_t with,
                   const char *message)
{
    *status = with;
    server_api_write_error(api, answer, &(api_error){with, NULL, message, 0});
}

/* With the head alone: nothing of a body is read for who may not ask. */
static bool admit(server *s, const http_request *head, uint32_t *status, strbuf *answer)
{
    const server_api *api;
    const char *other_method;
    str allow;
    const server_route *route = server_api_find(head->method, head->path, &api, &other_method);
    if (!gate_knows_host(&s->gate, head)) {
        refuse(api, answer, status, 421, "Host is no name of this server (--allow-host)");
        return false;
    }
    if (!gate_knows_origin(&s->gate, head, &allow)) {
        refuse(api, answer, status, 403, "pages of this origin may not ask (--allow-origin)");
        return false;
    }
    bool open = route != NULL && (route->flags & ROUTE_OPEN) != 0;
    if (open || str_equal_text(head->method, "OPTIONS")) return true;
    exchange_rank rank = gate_rank(&s->gate, head);
    if (rank == RANK_NONE) {
        refuse(api, answer, status, 401, "an API key is needed, and this is none");
        return false;
    }
    if (route != NULL && (route->flags & ROUTE_ADMIN) != 0 && rank != RANK_ADMIN) {
        refuse(api, answer, status, 403, "this needs the key of an administrator");
        return false;
    }
    return true;
}

/* What a browser asks before a page of another origin may. */
static void answer_options(exchange *x)
{
    if (x->allow_origin.len == 0) {
        exchange_respond_with(x, 204, "Allow: GET, POST, OPTIONS\r\n", NULL, (str){"", 0});
        return;
    }
    exchange_respond_with(x, 204,
                          "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n"
                          "Access-Control-Allow-Headers: Authorization, Content-Type, X-Api-Key, "
                          "Anthropic-Version, Anthropic-Beta, "
                          "Anthropic-Dangerous-Direct-Browser-Access, X-Stainless-Arch, "
                          "X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version, "
                          "X-Stainless-Retry-Count, X-Stainless-Runtime, "
                          "X-Stainless-Runtime-Version, X-Stainless-Timeout\r\n"
                          "Access-Control-Max-Age: 600\r\n",
                          NULL, (str){"", 0});
}

/* The path is there for one method, and not for this one. */
static void refuse_method(exchange *x, const char *method)
{
    char text[160], header[32];
    strbuf out;
    snprintf(text, sizeof text, "%.*s takes %s, not %.*s",
             (int)(x->in.path.len < 80 ? x->in.path.len : 80), x->in.path.ptr, method,
             (int)(x->in.method.len < 16 ? x->in.method.len : 16), x->in.method.ptr);
    snprintf(header, sizeof header, "Allow: %s\r\n", method);
    strbuf_init(&out, mem_system(), 0);
    server_api_write_error(x->api, &out, &(api_error){405, NULL, text, x->number});
    exchange_respond_with(x, 405, header, "application/json", (str){strbuf_text(&out), out.len});
    strbuf_deinit(&out);
}

static void route_exchange(exchange *x, const char *other_method)
{
    server *s = x->server;
    char text[160];
    str path = x->in.path;
    int n = (int)(path.len < 80 ? path.len : 80);
    if (x->route == NULL && other_method != NULL) {
        refuse_method(x, other_method);
    } else if (x->route == NULL) {
        snprintf(text, sizeof text, "there is nothing at %.*s", n, path.ptr);
        exchange_fail(x, 404, NULL, text);
    } else if (s->draining && (x->route->flags & ROUTE_OPEN) == 0) {
        exchange_fail(x, 503, NULL, "the server is about to end");
    } else if (s->n_exchanges > s->options->max_requests && (x->route->flags & ROUTE_ALWAYS) == 0) {
        snprintf(text, sizeof text, "%u requests are under way, at most %u may be", s->n_exchanges,
                 s->options->max_requests);
        exchange_fail(x, 503, NULL, text);
    } else {
        x->route->handle(x);
    }
}

static void handle(server *s, exchange *x)
{
    const char *other_method;
    x->number = ++s->n_requests;
    x->next = s->first;
    if (s->first != NULL) s->first->prev = x;
    s->first = x;
    s->n_exchanges++;
    gate_knows_origin(&s->gate, &x->in, &x->allow_origin);
    x->rank = gate_rank(&s->gate, &x->in);
    x->route = server_api_find(x->in.method, x->in.path, &x->api, &other_method);
    if (str_equal_text(x->in.method, "OPTIONS")) {
        answer_options(x);
    } else {
        route_exchange(x, other_method);
    }
}

static void log_exchange(const server *s, const exchange *x)
{
    char line[256];
    if (s->options->log == NULL || s->options->quiet) return;
    int n = (int)(x->in.path.len < 80 ? x->in.path.len : 80);
    snprintf(line, sizeof line, "%.*s %.*s %u %.1f ms%s", (int)x->in.method.len, x->in.method.ptr,
             n, x->in.path.ptr, x->status, (double)(clock_now_ns() - x->begun_ns) / 1e6,
             x->conn == NULL ? ", the client left" : "");
    s->options->log(s->options->user, line);
}

static void end_loop(server *s)
{
    if (s->closing) return;
    s->closing = true;
    net_close(s->net);
    fleet_close(s->fleet);
    crew_close(s->crew);
    uv_close((uv_handle_t *)&s->stop, NULL);
    uv_close((uv_handle_t *)&s->drain, NULL);
    uv_close((uv_handle_t *)&s->trim, NULL);
}

static void ended(server *s, exchange *x)
{
    log_exchange(s, x);
    if (x->prev != NULL) x->prev->next = x->next;
    if (x->next != NULL) x->next->prev = x->prev;
    if (s->first == x) s->first = x->next;
    s->n_exchanges--;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_drain(uv_timer_t *timer)
{
    server *s = timer->data;
    bool late = clock_now_ns() - s->drain_ns > (uint64_t)s->options->drain_ms * 1000000U;
    if (!late && (s->n_exchanges > 0 || !net_is_idle(s->net))) return;
    net_close(s->net);
    /* Exchanges whose client is gone end when their threads are done. What the turn before could
     * not end is at work in one. */
    bool at_once = __atomic_load_n(&s->n_stops, __ATOMIC_RELAXED) > 1 && s->n_late++ > 0;
    if (s->n_exchanges == 0) end_loop(s);
    s->stuck = s->n_exchanges > 0 ? at_once : fleet_is_loading(s->fleet);
    if (s->stuck) uv_stop(&s->loop);
}

static void on_stop(uv_async_t *async)
{
    server *s = async->data;
    uint32_t n = __atomic_load_n(&s->n_stops, __ATOMIC_RELAXED);
    if (n == 0) return;
    if (!s->draining) {
        s->draining = true;
        s->drain_ns = clock_now_ns();
        net_drain(s->net);
        uv_timer_start(&s->drain, on_drain, 0, 20);
    }
    if (n > 1) s->drain_ns = 0;
}

void server_stop(server *s)
{
    __atomic_add_fetch(&s->n_stops, 1, __ATOMIC_RELAXED);
    uv_async_send(&s->stop);
}

static weft_status check_options(const server_options *o, weft_error *err)
{
    if (o->n_models == 0) return err_set(err, WEFT_ARGUMENT, "there is no model to serve");
    for (uint32_t i = 0; i < o->n_keys + o->n_admin_keys; i++) {
        const char *key = i < o->n_keys ? o->keys[i] : o->admin_keys[i - o->n_keys];
        /* What a request without a key comes with. */
        if (key[0] == '\0') return err_set(err, WEFT_ARGUMENT, "a key is empty");
    }
    for (uint32_t i = 0; i < o->n_models; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(o->models[i].name, o->models[j].name) != 0) continue;
            return err_set(err, WEFT_ARGUMENT, "two models are called '%s'; NAME=PATH names them",
                           o->models[i].name);
        }
    }
    return WEFT_OK;
}

static weft_status open_parts(server *s, weft_error *err)
{
    const server_options *o = s->options;
    static const net_calls CALLS = {.admit = admit, .handle = handle, .ended = ended};
    s->net_options = (net_options){
        .host = o->host,
        .port = o->port,
        .max_connections = o->max_connections,
        .body_bytes = o->body_bytes,
        .bodies_bytes = o->body_bytes > SIZE_MAX / BODIES ? SIZE_MAX : BODIES * o->body_bytes,
        .head_ms = 10000,
        .body_ms = 20000,
        .body_all_ms = 300000,
        .idle_ms = 75000,
        .unread_ms = 120000,
        .beat_ms = 15000};
    weft_status status = replay_create(REPLAY_BYTES, &s->replay, err);
    if (status == WEFT_OK) status = net_open(&s->loop, &s->net_options, &CALLS, s, &s->net, err);
    if (status != WEFT_OK) return status;
    s->gate = (gate){.options = o, .loopback = net_is_loopback(s->net)};
    status = crew_create(&s->loop, CREW, &s->crew, err);
    if (status == WEFT_OK) status = fleet_create(&s->loop, o, &s->fleet, err);
    if (status == WEFT_OK) return WEFT_OK;
    if (s->crew != NULL) crew_close(s->crew);
    net_close(s->net);
    return status;
}

weft_status server_create(const server_options *options, server **out, weft_error *err)
{
    *out = NULL;
    weft_status status = check_options(options, err);
    if (status != WEFT_OK) return status;
    server *s = mem_alloc_zero(mem_system(), sizeof *s);
    if (s == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the server");
    s->options = options;
    s->begun_ns = clock_now_ns();
    s->begun_time = (int64_t)time(NULL);
    if (uv_loop_init(&s->loop) != 0) {
        mem_free(mem_system(), s, sizeof *s);
        return err_set(err, WEFT_DEVICE, "the system gives no event loop");
    }
    uv_async_init(&s->loop, &s->stop, on_stop);
    uv_timer_init(&s->loop, &s->drain);
    uv_timer_init(&s->loop, &s->trim);
    s->stop.data = s->drain.data = s->trim.data = s;
    status = open_parts(s, err);
    if (status == WEFT_OK) {
        *out = s;
        return WEFT_OK;
    }
    uv_close((uv_handle_t *)&s->stop, NULL);
    uv_close((uv_handle_t *)&s->drain, NULL);
    uv_close((uv_handle_t *)&s->trim, NULL);
    s->closing = true;
    server_destroy(s);
    return status;
}

uint16_t server_port(const server *s)
{
    return net_port(s->net);
}

weft_status server_run(server *s, bool *stuck, weft_error *err)
{
    (void)err;
    uv_run(&s->loop, UV_RUN_DEFAULT);
    *stuck = s->stuck;
    return WEFT_OK;
}

void server_destroy(server *s)
{
    if (s == NULL) return;
    if (!s->closing) end_loop(s);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    if (s->net != NULL) net_free(s->net);
    fleet_destroy(s->fleet);
    crew_destroy(s->crew);
    replay_destroy(s->replay);
    uv_loop_close(&s->loop);
    mem_free(mem_system(), s, sizeof *s);
}
