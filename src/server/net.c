/* net.c - connections on libuv.
 *
 * A connection reads one request at a time; what comes behind it waits in `rest`, which is bounded.
 * Reading goes on while an answer is made, since the end of the stream is how a client that leaves
 * is seen: who sends more than fits is taken for one who has left. Where only answers wait to be
 * read, reading stops. */
#include "server/net.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/apis/api.h"

enum {
    READ_BYTES = 64 * 1024,
    REST_BYTES = 64 * 1024,
    BEHIND_BYTES = 256 * 1024, /* most of it while an answer is made */
    FULL_BYTES = 256 * 1024,   /* that wait for the client: no more is made */
    EVENTS_BYTES = 16 * 1024,  /* most of a stream that goes with one write, or somewhat more */
    FRAME_BYTES = 16,          /* before them, for their length */
    BACKLOG = 512,
    TICK_MS = 100,
    /* A refused body is read on for so much and so long: closing a socket with unread bytes makes
     * the system drop the answer that the client has not seen yet. */
    LINGER_BYTES = 1 << 20,
    LINGER_MS = 2000,
    HEAD_LINES_BYTES = 1024,
    /* A body so small is taken even when others have used up what there is for bodies. */
    BODY_FREE_BYTES = 64 * 1024,
    /* A body from this size on is read at most so much at a time, and of all such bodies two pieces
     * a millisecond: others are answered meanwhile, and models go on. */
    LARGE_BYTES = 256 * 1024,
    PIECES = 2,
    PACE_MS = 1
};

struct conn {
    net *net;
    conn *prev, *next;
    uv_tcp_t tcp;
    uv_shutdown_t shutdown;
    http_parser http;
    strbuf rest;            /* behind the request that is being answered */
    exchange *x;            /* NULL: none */
    uint64_t deadline;      /* of uv_now(): when it is closed for doing nothing; 0: never */
    uint64_t body_deadline; /* of the whole body; 0: none is read */
    size_t n_unwritten;
    size_t n_queued; /* of n_unwritten, that the system has not taken, when it was looked at last */
    size_t n_lingered;
    size_t n_body;  /* bytes of memory that its body has, as counted in net */
    bool begun;     /* bytes of a request are there */
    bool lingering; /* it has said its last */
    bool full;      /* `rest` is: reading stopped */
    bool unread;    /* requests wait until answers before them were read */
    bool rests;     /* its body is large: others are read first */
    bool closing;
    conn *next_resting;
};

struct net {
    uv_loop_t *loop;
    const net_options *options;
    net_calls calls;
    server *server;
    uv_tcp_t listener;
    uv_timer_t timer;
    uv_timer_t pace; /* of large bodies */
    conn *first;
    conn *first_resting, *last_resting;
    net_info info;
    uint16_t port;
    size_t n_bodies; /* bytes of memory that bodies have, of requests under way too */
    bool loopback, draining, listening;
    bool stalled; /* there was no memory for a connection, which waits to be accepted */
    char buffer[READ_BYTES];
};

typedef struct write_job {
    uv_write_t request;
    conn *conn;
    size_t n_bytes; /* of the job */
    size_t n;       /* of bytes */
    char bytes[];
} write_job;

static void next_request(conn *c);
static void start_reading(conn *c);

static uint64_t now_ms(const conn *c)
{
    return uv_now(c->net->loop);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* Whoever answers learns it here, not in the middle of a write. */
static void on_closed(uv_handle_t *handle)
{
    conn *c = handle->data;
    net *n = c->net;
    exchange *x = c->x;
    if (x != NULL) x->left = NULL;
    if (x != NULL && !x->running && x->gone != NULL) x->gone(x);
    if (c->prev != NULL) c->prev->next = c->next;
    if (c->next != NULL) c->next->prev = c->prev;
    if (n->first == c) n->first = c->next;
    n->info.n_connections--;
    n->n_bodies -= c->n_body;
    http_deinit(&c->http);
    strbuf_deinit(&c->rest);
    mem_free(mem_system(), c, sizeof *c);
}

/* It is read again by whoever calls. */
static void stop_resting(conn *c)
{
    if (!c->rests) return;
    net *n = c->net;
    conn *before = NULL;
    conn **at = &n->first_resting;
    while (*at != c) {
        before = *at;
        at = &before->next_resting;
    }
    *at = c->next_resting;
    if (n->last_resting == c) n->last_resting = before;
    c->next_resting = NULL;
    c->rests = false;
}

static void conn_close(conn *c)
{
    if (c->closing) return;
    c->closing = true;
    stop_resting(c);
    uv_close((uv_handle_t *)&c->tcp, on_closed);
    if (c->x == NULL) return;
    c->x->conn = NULL;
    c->x->left = c;
    c->net->info.n_gone++;
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
    conn *c = request->handle->data;
    if (status != 0) conn_close(c);
}

/* Room that nothing has been written to is none yet. */
static void count_body(conn *c)
{
    const strbuf *body = &c->http.request.body;
    size_t n_bytes = body->capacity / 2 < body->len ? body->capacity : 2 * body->len;
    c->net->n_bodies += n_bytes - c->n_body;
    c->n_body = n_bytes;
}

/* Its last answer is written; what the client still sends is read and dropped until it ends. */
static void conn_linger(conn *c)
{
    if (c->lingering || c->closing) return;
    c->lingering = true;
    c->body_deadline = 0;
    strbuf_deinit(&c->rest);
    strbuf_deinit(&c->http.request.body);
    count_body(c);
    if (c->rests) {
        stop_resting(c);
        start_reading(c);
    }
    c->deadline = now_ms(c) + LINGER_MS + (c->n_unwritten > 0 ? c->net->options->unread_ms : 0);
    if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shutdown) != 0) conn_close(c);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void on_written(uv_write_t *request, int status)
{
    write_job *job = request->data;
    conn *c = job->conn;
    c->n_unwritten -= job->n;
    bool is_space = c->n_unwritten < FULL_BYTES / 2 && c->n_unwritten + job->n >= FULL_BYTES / 2;
    mem_free(mem_system(), job, job->n_bytes);
    if (status != 0) {
        conn_close(c);
        return;
    }
    exchange *x = c->x;
    bool waits = x != NULL || c->unread;
    if (waits) c->deadline = c->n_unwritten > 0 ? now_ms(c) + c->net->options->unread_ms : 0;
    if (x != NULL && is_space && x->drained != NULL) x->drained(x);
    if (x == NULL && is_space && c->unread) next_request(c);
}

/* What the socket takes at once is not copied. */
static void conn_write(conn *c, const char *bytes, size_t n)
{
    if (c->closing || n == 0) return;
    if (c->n_unwritten == 0) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): -Wcast-qual leaves no other way
        uv_buf_t buf = {.base = (char *)(uintptr_t)bytes, .len = n};
        int taken = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);
        if (taken < 0 && taken != UV_EAGAIN) {
            conn_close(c);
            return;
        }
        if (taken > 0) {
            bytes += taken;
            n -= (size_t)taken;
        }
        if (n == 0) return;
    }
    size_t n_bytes = sizeof(write_job) + n;
    write_job *job = mem_alloc(mem_system(), n_bytes);
    if (job == NULL) {
        conn_close(c);
        return;
    }
    *job = (write_job){.conn = c, .n_bytes = n_bytes, .n = n};
    job->request.data = job;
    memcpy(job->bytes, bytes, n);
    if (c->n_unwritten == 0) c->deadline = now_ms(c) + c->net->options->unread_ms;
    c->n_unwritten += n;
    uv_buf_t rest = {.base = job->bytes, .len = n};
    if (uv_write(&job->request, (uv_stream_t *)&c->tcp, &rest, 1, on_written) == 0) return;
    c->n_unwritten -= n;
    mem_free(mem_system(), job, n_bytes);
    conn_close(c);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void write_head(strbuf *out, uint32_t minor, uint32_t status, const char *type)
{
    strbuf_printf(out, "HTTP/1.%u %u %s\r\n", minor == 0 ? 0U : 1U, status, http_reason(status));
    if (type != NULL) strbuf_printf(out, "Content-Type: %s\r\n", type);
    strbuf_add_text(out, "X-Content-Type-Options: nosniff\r\n");
    if (status == 401) strbuf_add_text(out, "WWW-Authenticate: Bearer\r\n");
    if (status == 503) strbuf_add_text(out, "Retry-After: 2\r\n");
}

/* The request is refused before it is an exchange. */
static void conn_refuse(conn *c, uint32_t status, str body)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    write_head(&out, c->http.request.minor, status, "application/json");
    strbuf_printf(&out, "Content-Length: %zu\r\nConnection: close\r\n\r\n", body.len);
    strbuf_add(&out, body.ptr, body.len);
    if (out.status == WEFT_OK) conn_write(c, out.ptr, out.len);
    strbuf_deinit(&out);
    conn_linger(c);
}

static void refuse_bad(conn *c)
{
    char body[256];
    c->net->info.n_bad++;
    int n = snprintf(body, sizeof body,
                     "{\"error\":{\"message\":\"%s\",\"type\":\"invalid_request_error\","
                     "\"param\":null,\"code\":null}}",
                     c->http.reason);
    conn_refuse(c, c->http.status, (str){body, (size_t)n});
}

/* ---- reading --------------------------------------------------------------------------------- */

/* What a connection may take for what it does now. */
static void set_deadline(conn *c)
{
    const net_options *o = c->net->options;
    if (c->x != NULL) {
        if (c->n_unwritten == 0) c->deadline = 0;
        c->body_deadline = 0;
    } else if (c->unread) {
        c->deadline = now_ms(c) + o->unread_ms;
    } else if (c->http.state == HTTP_STATE_BODY) {
        c->deadline = now_ms(c) + o->body_ms;
        if (c->body_deadline == 0) c->body_deadline = now_ms(c) + o->body_all_ms;
    } else if (!c->begun) {
        c->deadline = now_ms(c) + o->idle_ms;
        c->body_deadline = 0;
    }
}

static void begin_exchange(conn *c)
{
    exchange *x = mem_alloc_zero(mem_system(), sizeof *x);
    if (x == NULL) {
        conn_close(c);
        return;
    }
    net *n = c->net;
    x->server = n->server;
    x->net = n;
    x->conn = c;
    http_take(&c->http, &x->in);
    x->n_body = c->n_body;
    c->n_body = 0;
    x->keep_alive = x->in.keep_alive && !n->draining;
    x->begun_ns = clock_now_ns();
    c->x = x;
    c->begun = false;
    set_deadline(c);
    n->calls.handle(n->server, x);
}

/* After the head: whether the body may come. */
static bool admit(conn *c)
{
    strbuf answer;
    uint32_t status = 0;
    strbuf_init(&answer, mem_system(), 0);
    net *n = c->net;
    bool fine = n->calls.admit(n->server, &c->http.request, &status, &answer);
    if (!fine) conn_refuse(c, status, (str){strbuf_text(&answer), answer.len});
    strbuf_deinit(&answer);
    if (!fine) return false;
    static const char GO_ON[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (c->http.request.expects_continue && c->http.state == HTTP_STATE_BODY)
        conn_write(c, GO_ON, sizeof GO_ON - 1);
    return !c->closing;
}

/* Whether what all bodies have is still little enough. */
static bool fits(conn *c)
{
    static const char BODY[] =
        "{\"error\":{\"message\":\"too much is being read; try again later\","
        "\"type\":\"server_error\",\"param\":null,\"code\":null}}";
    count_body(c);
    if (c->n_body <= BODY_FREE_BYTES || c->net->n_bodies <= c->net->options->bodies_bytes)
        return true;
    conn_refuse(c, 503, (str){BODY, sizeof BODY - 1});
    return false;
}

/* A head that is whole is admitted before more is read. */
static size_t feed_once(conn *c, const char *bytes, size_t n)
{
    bool in_head = c->http.state == HTTP_STATE_HEAD;
    size_t taken = http_feed(&c->http, bytes, n);
    if (!c->begun && (c->http.request.head.len > 0 || c->http.state != HTTP_STATE_HEAD)) {
        c->begun = true;
        c->deadline = now_ms(c) + c->net->options->head_ms;
    }
    bool whole = c->http.state == HTTP_STATE_BODY || c->http.state == HTTP_STATE_DONE;
    if (c->http.state == HTTP_STATE_BAD) {
        refuse_bad(c);
    } else if (whole && ((in_head && !admit(c)) || !fits(c))) {
        return taken;
    } else if (c->http.state == HTTP_STATE_DONE) {
        begin_exchange(c);
    } else if (whole) {
        set_deadline(c);
    }
    return taken;
}

static void keep_rest(conn *c, const char *bytes, size_t n)
{
    if (strbuf_add(&c->rest, bytes, n) != WEFT_OK || (c->x != NULL && c->rest.len > BEHIND_BYTES)) {
        conn_close(c);
        return;
    }
    if (c->x != NULL || c->rest.len < REST_BYTES || c->full) return;
    c->full = true;
    uv_read_stop((uv_stream_t *)&c->tcp);
}

static void take_bytes(conn *c, const char *bytes, size_t n)
{
    while (n > 0 && !c->closing) {
        if (c->lingering) {
            c->n_lingered += n;
            if (c->n_lingered > LINGER_BYTES) conn_close(c);
            return;
        }
        /* A client that asks and does not read what it is answered is not answered on. */
        if (c->x == NULL && c->n_unwritten >= FULL_BYTES) c->unread = true;
        if (c->x != NULL || c->unread) {
            keep_rest(c, bytes, n);
            set_deadline(c);
            return;
        }
        size_t taken = feed_once(c, bytes, n);
        bytes += taken;
        n -= taken;
    }
}

static void on_buffer(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    (void)wanted;
    conn *c = handle->data;
    *buf = (uv_buf_t){.base = c->net->buffer, .len = READ_BYTES};
}

static void on_pace(uv_timer_t *timer)
{
    net *n = timer->data;
    for (int i = 0; i < PIECES && n->first_resting != NULL; i++) {
        conn *c = n->first_resting;
        stop_resting(c);
        start_reading(c);
    }
    if (n->first_resting == NULL) uv_timer_stop(&n->pace);
}

/* Behind the others whose bodies are large. */
static void rest(conn *c)
{
    net *n = c->net;
    bool large =
        c->x == NULL && c->http.state == HTTP_STATE_BODY && c->http.request.body.len >= LARGE_BYTES;
    if (!large || c->closing || c->lingering || c->full || c->rests) return;
    uv_read_stop((uv_stream_t *)&c->tcp);
    c->rests = true;
    if (n->last_resting != NULL) n->last_resting->next_resting = c;
    n->last_resting = c;
    if (n->first_resting == NULL) n->first_resting = c;
    if (!uv_is_active((uv_handle_t *)&n->pace)) uv_timer_start(&n->pace, on_pace, PACE_MS, PACE_MS);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    conn *c = stream->data;
    if (n < 0) {
        conn_close(c);
    } else if (n > 0) {
        take_bytes(c, buf->base, (size_t)n);
        rest(c);
    }
}

static void start_reading(conn *c)
{
    if (uv_read_start((uv_stream_t *)&c->tcp, on_buffer, on_read) != 0) conn_close(c);
}

/* The answer is whole: the next request, which may be there already, or the end. */
static void next_request(conn *c)
{
    if (c->closing) return;
    c->unread = c->n_unwritten >= FULL_BYTES;
    set_deadline(c);
    if (c->rest.len == 0 || c->unread) return;
    strbuf rest = c->rest;
    strbuf_init(&c->rest, mem_system(), 0);
    take_bytes(c, rest.ptr, rest.len);
    strbuf_deinit(&rest);
    if (!c->full || c->closing || c->lingering) return;
    if (c->x == NULL && c->rest.len >= REST_BYTES) return;
    c->full = false;
    start_reading(c);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void on_connection(uv_stream_t *listener, int status)
{
    net *n = listener->data;
    conn *c = status == 0 ? mem_alloc_zero(mem_system(), sizeof *c) : NULL;
    /* libuv listens no more until this one is accepted: it is tried again. */
    n->stalled = status == 0 && c == NULL;
    if (c == NULL) return;
    c->net = n;
    http_init(&c->http, mem_system(), n->options->body_bytes);
    strbuf_init(&c->rest, mem_system(), 0);
    if (uv_tcp_init(n->loop, &c->tcp) != 0) {
        mem_free(mem_system(), c, sizeof *c);
        return;
    }
    c->tcp.data = c;
    c->next = n->first;
    if (n->first != NULL) n->first->prev = c;
    n->first = c;
    n->info.n_connections++;
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0) {
        conn_close(c);
        return;
    }
    n->info.n_accepted++;
    if (n->info.n_connections > n->options->max_connections || n->draining) {
        n->info.n_refused++;
        conn_close(c);
        return;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    c->deadline = now_ms(c) + n->options->head_ms;
    start_reading(c);
}

static void beat(conn *c, uint64_t now)
{
    static const char COMMENT[] = ": still here\n\n";
    exchange *x = c->x;
    if (x == NULL || !x->streams || c->n_unwritten > 0) return;
    if (now - x->written_ms < c->net->options->beat_ms) return;
    exchange_write(x, (str){COMMENT, sizeof COMMENT - 1});
    exchange_flush(x);
}

static void expire(conn *c)
{
    static const char BODY[] = "{\"error\":{\"message\":\"the request did not arrive in time\","
                               "\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}";
    c->net->info.n_timeouts++;
    if (c->begun && !c->lingering && c->x == NULL) {
        conn_refuse(c, 408, (str){BODY, sizeof BODY - 1});
    } else {
        conn_close(c);
    }
}

/* A client that reads, however slowly, may go on. */
static void note_reading(conn *c, uint64_t now)
{
    size_t n = c->n_unwritten > 0 ? uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp) : 0;
    bool reads = n < c->n_queued && c->deadline != 0;
    c->n_queued = n;
    if (reads) c->deadline = now + c->net->options->unread_ms;
}

static void on_tick(uv_timer_t *timer)
{
    net *n = timer->data;
    uint64_t now = uv_now(n->loop);
    if (n->stalled && n->listening) on_connection((uv_stream_t *)&n->listener, 0);
    for (conn *c = n->first, *next; c != NULL; c = next) {
        next = c->next;
        if (c->closing) continue;
        note_reading(c, now);
        bool late = (c->deadline != 0 && now >= c->deadline) ||
                    (c->body_deadline != 0 && now >= c->body_deadline);
        if (late) {
            expire(c);
        } else {
            beat(c, now);
        }
    }
}

/* ---- the listener ---------------------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr_storage *a)
{
    char name[64];
    if (a->ss_family == AF_INET) {
        if (uv_ip4_name((const struct sockaddr_in *)a, name, sizeof name) != 0) return false;
        return strncmp(name, "127.", 4) == 0;
    }
    if (uv_ip6_name((const struct sockaddr_in6 *)a, name, sizeof name) != 0) return false;
    return strcmp(name, "::1") == 0;
}

static weft_status listen_at(net *n, const struct sockaddr *address, weft_error *err)
{
    struct sockaddr_storage bound;
    int n_bound = sizeof bound;
    int failed = uv_tcp_bind(&n->listener, address, 0);
    if (failed == 0) failed = uv_listen((uv_stream_t *)&n->listener, BACKLOG, on_connection);
    if (failed == 0) failed = uv_tcp_getsockname(&n->listener, (struct sockaddr *)&bound, &n_bound);
    if (failed != 0) {
        return err_set(err, WEFT_IO, "cannot listen at %s, port %u: %s", n->options->host,
                       n->options->port, uv_strerror(failed));
    }
    n->loopback = is_loopback(&bound);
    n->port = bound.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&bound)->sin6_port
                                          : ((const struct sockaddr_in *)&bound)->sin_port;
    n->port = (uint16_t)(n->port >> 8 | n->port << 8);
    return WEFT_OK;
}

static weft_status resolve_and_listen(net *n, weft_error *err)
{
    char port[8];
    uv_getaddrinfo_t request;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    snprintf(port, sizeof port, "%u", n->options->port);
    int failed = uv_getaddrinfo(n->loop, &request, NULL, n->options->host, port, &hints);
    if (failed != 0) {
        return err_set(err, WEFT_IO, "there is no address for '%s': %s", n->options->host,
                       uv_strerror(failed));
    }
    weft_status status = listen_at(n, request.addrinfo->ai_addr, err);
    uv_freeaddrinfo(request.addrinfo);
    return status;
}

weft_status net_open(uv_loop_t *loop, const net_options *options, const net_calls *calls, server *s,
                     net **out, weft_error *err)
{
    *out = NULL;
    net *n = mem_alloc_zero(mem_system(), sizeof *n);
    if (n == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the listener");
    n->loop = loop;
    n->options = options;
    n->calls = *calls;
    n->server = s;
    if (uv_tcp_init(loop, &n->listener) != 0) {
        mem_free(mem_system(), n, sizeof *n);
        return err_set(err, WEFT_IO, "the event loop takes no listener");
    }
    uv_timer_init(loop, &n->timer);
    uv_timer_init(loop, &n->pace);
    n->listener.data = n->timer.data = n->pace.data = n;
    weft_status status = resolve_and_listen(n, err);
    n->listening = status == WEFT_OK;
    if (status == WEFT_OK) uv_timer_start(&n->timer, on_tick, TICK_MS, TICK_MS);
    if (status == WEFT_OK) *out = n;
    if (status == WEFT_OK) return WEFT_OK;
    uv_close((uv_handle_t *)&n->listener, NULL);
    uv_close((uv_handle_t *)&n->timer, NULL);
    uv_close((uv_handle_t *)&n->pace, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
    mem_free(mem_system(), n, sizeof *n);
    return status;
}

uint16_t net_port(const net *n)
{
    return n->port;
}

bool net_is_loopback(const net *n)
{
    return n->loopback;
}

void net_get_info(const net *n, net_info *info)
{
    *info = n->info;
}

static void stop_listening(net *n)
{
    if (n->listening) uv_close((uv_handle_t *)&n->listener, NULL);
    n->listening = false;
}

void net_drain(net *n)
{
    n->draining = true;
    stop_listening(n);
    for (conn *c = n->first; c != NULL; c = c->next) {
        if (c->x != NULL) {
            c->x->keep_alive = false;
        } else if (c->n_unwritten > 0) {
            conn_linger(c);
        } else if (!c->begun && !c->lingering) {
            conn_close(c);
        }
    }
}

bool net_is_idle(const net *n)
{
    return n->first == NULL;
}

void net_close(net *n)
{
    n->draining = true;
    stop_listening(n);
    if (!uv_is_closing((uv_handle_t *)&n->timer)) {
        uv_close((uv_handle_t *)&n->timer, NULL);
        uv_close((uv_handle_t *)&n->pace, NULL);
    }
    for (conn *c = n->first; c != NULL; c = c->next) conn_close(c);
}

void net_free(net *n)
{
    ASSERT(n->first == NULL);
    mem_free(mem_system(), n, sizeof *n);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

/* Everything but the head's last line. */
static void begin_head(exchange *x, uint32_t status, const char *type, strbuf *out)
{
    x->status = status;
    write_head(out, x->in.minor, status, type);
    strbuf_printf(out, "X-Request-Id: req_%llu\r\n", (unsigned long long)x->number);
    if (x->api != NULL && x->api->id_header != NULL)
        strbuf_printf(out, "%s: req_%llu\r\n", x->api->id_header, (unsigned long long)x->number);
    if (x->allow_origin.len > 0) {
        strbuf_printf(out, "Access-Control-Allow-Origin: %.*s\r\nVary: Origin\r\n",
                      (int)x->allow_origin.len, x->allow_origin.ptr);
    }
    if (x->conn != NULL && x->conn->net->draining) x->keep_alive = false;
}

void exchange_respond_with(exchange *x, uint32_t status, const char *headers, const char *type,
                           str body)
{
    strbuf out;
    bool has_body = status != 204;
    strbuf_init(&out, mem_system(), 0);
    begin_head(x, status, has_body ? type : NULL, &out);
    strbuf_add_text(&out, headers);
    if (has_body) strbuf_printf(&out, "Content-Length: %zu\r\n", body.len);
    strbuf_printf(&out, "Connection: %s\r\n\r\n", x->keep_alive ? "keep-alive" : "close");
    bool shows = has_body && !str_equal_text(x->in.method, "HEAD");
    if (shows) strbuf_add(&out, body.ptr, body.len);
    if (out.status != WEFT_OK) {
        if (x->conn != NULL) conn_close(x->conn);
    } else if (x->conn != NULL) {
        conn_write(x->conn, out.ptr, out.len);
    }
    strbuf_deinit(&out);
    exchange_end(x);
}

void exchange_respond(exchange *x, uint32_t status, const char *type, str body)
{
    exchange_respond_with(x, status, "", type, body);
}

void exchange_stream(exchange *x)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    begin_head(x, 200, "text/event-stream; charset=utf-8", &out);
    strbuf_add_text(&out, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    if (x->in.minor == 1) strbuf_add_text(&out, "Transfer-Encoding: chunked\r\n");
    if (x->in.minor == 0) x->keep_alive = false;
    strbuf_printf(&out, "Connection: %s\r\n\r\n", x->keep_alive ? "keep-alive" : "close");
    x->streams = true;
    strbuf_init(&x->events, mem_system(), 0);
    x->written_ms = uv_now(x->net->loop);
    if (out.status != WEFT_OK) {
        if (x->conn != NULL) conn_close(x->conn);
    } else if (x->conn != NULL) {
        conn_write(x->conn, out.ptr, out.len);
    }
    strbuf_deinit(&out);
}

void exchange_write(exchange *x, str bytes)
{
    ASSERT(x->streams);
    if (x->conn == NULL || bytes.len == 0) return;
    strbuf *out = &x->events;
    if (out->len == 0 && strbuf_reserve(out, FRAME_BYTES) == WEFT_OK) out->len = FRAME_BYTES;
    if (strbuf_add(out, bytes.ptr, bytes.len) != WEFT_OK) {
        conn_close(x->conn);
    } else if (out->len >= EVENTS_BYTES) {
        exchange_flush(x);
    }
}

/* The frame of a chunk stands before and behind what is there, so that all of it is one write.
 * last: nothing follows. */
static void write_events(exchange *x, bool last)
{
    static const char END[] = "\r\n0\r\n\r\n";
    char size[FRAME_BYTES];
    strbuf *out = &x->events;
    bool chunked = x->in.minor != 0;
    if (x->conn == NULL) return;
    if (out->len == 0) {
        if (last && chunked) conn_write(x->conn, END + 2, sizeof END - 3);
        return;
    }
    x->written_ms = uv_now(x->net->loop);
    size_t first = FRAME_BYTES;
    if (chunked) {
        size_t n = (size_t)snprintf(size, sizeof size, "%zx\r\n", out->len - FRAME_BYTES);
        first -= n;
        memcpy(out->ptr + first, size, n);
        strbuf_add(out, END, last ? sizeof END - 1 : 2);
    }
    if (out->status != WEFT_OK) {
        conn_close(x->conn);
    } else {
        conn_write(x->conn, out->ptr + first, out->len - first);
    }
    strbuf_clear(out);
}

void exchange_flush(exchange *x)
{
    write_events(x, false);
}

bool exchange_is_full(const exchange *x)
{
    return x->conn != NULL && x->conn->n_unwritten >= FULL_BYTES;
}

void exchange_cut(exchange *x)
{
    if (x->conn == NULL) return;
    x->net->info.n_timeouts++;
    conn_close(x->conn);
}

void exchange_drop_body(exchange *x)
{
    strbuf_deinit(&x->in.body);
    x->net->n_bodies -= x->n_body;
    x->n_body = 0;
}

void exchange_end(exchange *x)
{
    ASSERT(!x->running);
    if (x->streams) {
        write_events(x, true);
        strbuf_deinit(&x->events);
    }
    net *n = x->net;
    conn *c = x->conn;
    bool keep = x->keep_alive && !n->draining;
    if (c != NULL) c->x = NULL;
    if (x->left != NULL) x->left->x = NULL;
    n->calls.ended(n->server, x);
    exchange_drop_body(x);
    http_request_deinit(&x->in);
    mem_free(mem_system(), x, sizeof *x);
    if (c == NULL) return;
    if (keep) {
        next_request(c);
    } else {
        conn_linger(c);
    }
}
