/* test_net.c - connections and their clocks: what comes too slowly, is not read, waits, or leaves;
 * with times that a test can wait for. */
#include "server/net.h"
#include "support/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    HEAD_MS = 400,
    BODY_MS = 400,
    BODY_ALL_MS = 1200,
    IDLE_MS = TEST_SLOWED ? 1600 : 800,
    UNREAD_MS = TEST_SLOWED ? 2400 : 1200,
    BEAT_MS = 150,
    BODY_BYTES = 1 << 20,
    BODIES_BYTES = 1 << 18,
    BIG_BYTES = 8 << 20,
    PATIENCE_MS = 20000
};

/* One server and what it did. */
typedef struct world {
    uv_loop_t loop;
    net_options options;
    net *net;
    exchange *streaming; /* of /stream, NULL: none */
    uint32_t n_handled, n_gone, n_ended;
    size_t n_body; /* bytes of all bodies */
    char *big;     /* [BIG_BYTES] */
} world;

/* ---- the server ------------------------------------------------------------------------------ */

/* Stands for struct server: the calls get it back. */
static world *world_of(server *s)
{
    return (world *)(void *)s;
}

static bool admit(server *s, const http_request *head, uint32_t *status, strbuf *answer)
{
    (void)s;
    if (!str_equal_text(head->path, "/no")) return true;
    *status = 401;
    strbuf_add_text(answer, "no");
    return false;
}

static void on_gone(exchange *x)
{
    world *w = world_of(x->server);
    w->n_gone++;
    w->streaming = NULL;
    exchange_end(x);
}

static void handle(server *s, exchange *x)
{
    world *w = world_of(s);
    w->n_handled++;
    w->n_body += x->in.body.len;
    if (str_equal_text(x->in.path, "/stream")) {
        x->gone = on_gone;
        w->streaming = x;
        exchange_stream(x);
    } else if (str_equal_text(x->in.path, "/big")) {
        exchange_respond(x, 200, "text/plain", (str){w->big, BIG_BYTES});
    } else {
        exchange_respond(x, 200, "text/plain", (str){"x", 1});
    }
}

static void ended(server *s, exchange *x)
{
    (void)x;
    world_of(s)->n_ended++;
}

static void open_world(world *w)
{
    static const net_calls CALLS = {admit, handle, ended};
    weft_error err = {WEFT_OK, ""};
    *w = (world){.options = {.host = "127.0.0.1",
                             .max_connections = 20,
                             .body_bytes = BODY_BYTES,
                             .bodies_bytes = BODIES_BYTES,
                             .head_ms = HEAD_MS,
                             .body_ms = BODY_MS,
                             .body_all_ms = BODY_ALL_MS,
                             .idle_ms = IDLE_MS,
                             .unread_ms = UNREAD_MS,
                             .beat_ms = BEAT_MS}};
    w->big = malloc(BIG_BYTES);
    assert_non_null(w->big);
    memset(w->big, 'b', BIG_BYTES);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_ok(net_open(&w->loop, &w->options, &CALLS, (server *)(void *)w, &w->net, &err), &err);
    assert_true(net_is_loopback(w->net));
}

static void close_world(world *w)
{
    net_close(w->net);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_true(net_is_idle(w->net));
    assert_int_equal(w->n_ended, w->n_handled);
    net_free(w->net);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    free(w->big);
}

static void turn(world *w)
{
    uv_run(&w->loop, UV_RUN_NOWAIT);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void run_for(world *w, uint64_t ms)
{
    uint64_t end = clock_now_ns() + ms * 1000000U;
    while (clock_now_ns() < end) turn(w);
}

static uint32_t n_connections(const world *w)
{
    net_info info;
    net_get_info(w->net, &info);
    return info.n_connections;
}

/* ---- a client -------------------------------------------------------------------------------- */

static int dial(world *w, int receive_bytes)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(net_port(w->net))};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(s >= 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (receive_bytes > 0)
        assert_int_equal(setsockopt(s, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes),
                         0);
    assert_int_equal(connect(s, (struct sockaddr *)&to, sizeof to), 0);
    return s;
}

static void say(world *w, int s, const char *text, size_t n)
{
    uint64_t end = clock_now_ns() + (uint64_t)PATIENCE_MS * 1000000U;
    while (n > 0) {
        ssize_t sent = send(s, text, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            text += sent;
            n -= (size_t)sent;
        }
        turn(w);
        assert_true(clock_now_ns() < end);
    }
}

static void say_text(world *w, int s, const char *text)
{
    say(w, s, text, strlen(text));
}

/* Reads until the end, or until n_wanted bytes are there; into out [n_out], which gets a NUL, as
 * much as fits. How many there were. */
static size_t hear(world *w, int s, size_t n_wanted, char *out, size_t n_out)
{
    static char piece[1 << 16];
    size_t n = 0;
    uint64_t end = clock_now_ns() + (uint64_t)PATIENCE_MS * 1000000U;
    while (n < n_wanted && clock_now_ns() < end) {
        ssize_t got = recv(s, piece, sizeof piece, MSG_DONTWAIT);
        if (got == 0) break;
        if (got < 0) {
            turn(w);
            continue;
        }
        for (ssize_t i = 0; i < got && n + (size_t)i + 1 < n_out; i++)
            out[n + (size_t)i] = piece[i];
        n += (size_t)got;
        uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    assert_true(clock_now_ns() < end);
    out[n < n_out ? n : n_out - 1] = '\0';
    return n;
}

static void check_alone(world *w)
{
    char out[512];
    int s = dial(w, 0);
    say_text(w, s, "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    hear(w, s, SIZE_MAX, out, sizeof out);
    assert_non_null(strstr(out, "200 OK"));
    close(s);
    run_for(w, 10);
    assert_int_equal(n_connections(w), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* What is sent, and a byte of it again and again, is answered with 408 and the end. */
static void check_late(const char *text, const char *drip, uint64_t least_ms)
{
    world w;
    char out[1024];
    open_world(&w);
    int s = dial(&w, 0);
    uint64_t begun = clock_now_ns();
    say_text(&w, s, text);
    while (n_connections(&w) > 0 && recv(s, out, 1, MSG_DONTWAIT | MSG_PEEK) < 0) {
        run_for(&w, 50);
        send(s, drip, strlen(drip), MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(clock_now_ns() - begun < (uint64_t)PATIENCE_MS * 1000000U);
    }
    assert_true(clock_now_ns() - begun > (least_ms - 20) * 1000000U);
    hear(&w, s, SIZE_MAX, out, sizeof out);
    assert_non_null(strstr(out, " 408 "));
    close(s);
    run_for(&w, 50);
    check_alone(&w);
    close_world(&w);
}

static void test_late(void **state)
{
    (void)state;
    check_late("GET / HT", "T", HEAD_MS);
    check_late("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n", "", BODY_MS);
    check_late("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n", "b", BODY_ALL_MS);
}

static void test_silent(void **state)
{
    (void)state;
    world w;
    char out[1024];
    open_world(&w);
    int never = dial(&w, 0);
    int once = dial(&w, 0);
    say_text(&w, once, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(hear(&w, never, SIZE_MAX, out, sizeof out), 0);
    hear(&w, once, SIZE_MAX, out, sizeof out);
    assert_non_null(strstr(out, "200 OK"));
    assert_null(strstr(out, "408"));
    close(never);
    close(once);
    check_alone(&w);
    close_world(&w);
}

static void test_comments(void **state)
{
    (void)state;
    world w;
    char out[4096];
    open_world(&w);
    int s = dial(&w, 0);
    say_text(&w, s, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    size_t n_head = hear(&w, s, 1, out, sizeof out);
    assert_true(n_head > 0);
    hear(&w, s, 40, out, sizeof out);
    assert_non_null(strstr(out, "\r\n: still here\n\n\r\n"));
    /* What is said counts as a sign of life; and it has no time of its own. */
    run_for(&w, 2 * IDLE_MS);
    assert_int_equal(n_connections(&w), 1);
    close(s);
    run_for(&w, 50);
    assert_int_equal(w.n_gone, 1);
    check_alone(&w);
    close_world(&w);
}

static void test_unread(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    int s = dial(&w, 4096);
    say_text(&w, s, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    run_for(&w, UNREAD_MS / 2);
    assert_int_equal(n_connections(&w), 1);
    run_for(&w, 2 * UNREAD_MS);
    assert_int_equal(n_connections(&w), 0);
    close(s);
    check_alone(&w);
    close_world(&w);
}

/* Who does not read is not answered on; who reads again is. */
static void test_unread_before_others(void **state)
{
    (void)state;
    enum { N = 6 };
    world w;
    char out[512];
    open_world(&w);
    int s = dial(&w, 4096);
    for (int i = 0; i < N; i++) say_text(&w, s, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    run_for(&w, UNREAD_MS / 3);
    assert_true(w.n_handled <= 2);
    assert_true(hear(&w, s, (size_t)N * BIG_BYTES, out, sizeof out) >= (size_t)N * BIG_BYTES);
    assert_int_equal(w.n_handled, N);
    close(s);
    run_for(&w, 50);
    check_alone(&w);
    close_world(&w);
}

/* More behind a stream than is read: it waits, all of it, and is answered in its order. */
static void test_much_behind(void **state)
{
    (void)state;
    enum { N = 4000 };
    world w;
    static char out[1 << 20];
    open_world(&w);
    int s = dial(&w, 0);
    say_text(&w, s, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    for (int i = 0; i < N; i++)
        say_text(&w, s, i % 100 == 99 ? "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n" : "");
    static const char MORE[] =
        "GET / HTTP/1.1\r\nHost: a\r\nX: 0123456789012345678901234567\r\n\r\n";
    size_t n_sent = 0;
    for (int i = 0; i < N; i++) {
        ssize_t sent = send(s, MORE, sizeof MORE - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent != (ssize_t)sizeof MORE - 1) break;
        n_sent++;
        if (i % 50 == 0) turn(&w);
    }
    assert_true(n_sent > 2000);
    run_for(&w, 20);
    assert_int_equal(w.n_handled, 1);
    assert_non_null(w.streaming);
    exchange_end(w.streaming);
    uint64_t end = clock_now_ns() + (uint64_t)PATIENCE_MS * 1000000U;
    while (w.n_handled < 1 + 40 + n_sent && clock_now_ns() < end) {
        turn(&w);
        while (recv(s, out, sizeof out, MSG_DONTWAIT) > 0) turn(&w);
    }
    assert_int_equal(w.n_handled, 1 + 40 + n_sent);
    close(s);
    run_for(&w, 50);
    check_alone(&w);
    close_world(&w);
}

/* The end of the stream would not be seen behind what is not read: who sends so much has left. */
static void test_too_much_behind(void **state)
{
    (void)state;
    world w;
    static char part[1 << 16];
    open_world(&w);
    int s = dial(&w, 0);
    memset(part, 'p', sizeof part);
    say_text(&w, s, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    for (int i = 0; i < 100 && w.n_gone == 0; i++) {
        send(s, part, sizeof part, MSG_DONTWAIT | MSG_NOSIGNAL);
        run_for(&w, 5);
    }
    assert_int_equal(w.n_gone, 1);
    close(s);
    run_for(&w, 50);
    check_alone(&w);
    close_world(&w);
}

/* Bodies are bounded together; small ones are taken all the same. */
static void test_bodies(void **state)
{
    (void)state;
    enum { PART = 200000 };
    world w;
    char out[1024];
    char *part = malloc(PART);
    assert_non_null(part);
    memset(part, 'p', PART);
    open_world(&w);
    int first = dial(&w, 0);
    int second = dial(&w, 0);
    int small = dial(&w, 0);
    static const char HEAD[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n";
    say_text(&w, first, HEAD);
    say(&w, first, part, PART);
    say_text(&w, second, HEAD);
    send(second, part, PART, MSG_DONTWAIT | MSG_NOSIGNAL);
    hear(&w, second, SIZE_MAX, out, sizeof out);
    assert_non_null(strstr(out, " 503 "));
    say_text(&w, small, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    hear(&w, small, 1, out, sizeof out);
    assert_non_null(strstr(out, " 200 "));
    close(first);
    close(second);
    close(small);
    run_for(&w, 50);
    /* What they had is there for others. */
    first = dial(&w, 0);
    say_text(&w, first, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    say(&w, first, part, PART);
    hear(&w, first, 1, out, sizeof out);
    assert_non_null(strstr(out, " 200 "));
    close(first);
    run_for(&w, 50);
    check_alone(&w);
    close_world(&w);
    free(part);
}

/* What the socket takes of a body of BIG_BYTES; how much was sent so far. */
static void send_on(const world *w, int s, size_t *n_sent)
{
    if (*n_sent == BIG_BYTES) return;
    ssize_t n = send(s, w->big, BIG_BYTES - *n_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) *n_sent += (size_t)n;
}

/* Large bodies are read piece by piece, in turn, and a small request does not wait for them. Each
 * of them is whole. */
static void test_large_bodies(void **state)
{
    (void)state;
    enum { N = 3, LEAST_MS = 100 };
    world w;
    char out[512];
    char head[128];
    int bodies[N];
    size_t n_sent[N] = {0};
    open_world(&w);
    w.options.body_bytes = BIG_BYTES;
    w.options.bodies_bytes = (size_t)8 * BIG_BYTES;
    w.options.body_ms = w.options.body_all_ms = PATIENCE_MS;
    snprintf(head, sizeof head, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n",
             BIG_BYTES);
    uint64_t begun = clock_now_ns();
    for (int i = 0; i < N; i++) {
        bodies[i] = dial(&w, 0);
        say_text(&w, bodies[i], head);
    }
    uint32_t n_small = 0;
    while (w.n_handled - n_small < N) {
        assert_true(clock_now_ns() - begun < (uint64_t)PATIENCE_MS * 1000000U);
        for (int i = 0; i < N; i++) send_on(&w, bodies[i], &n_sent[i]);
        int s = dial(&w, 0);
        static const char SMALL[] = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
        ssize_t n_small_bytes = (ssize_t)sizeof SMALL - 1;
        assert_true(send(s, SMALL, sizeof SMALL - 1, MSG_NOSIGNAL) == n_small_bytes);
        for (int turns = 0; recv(s, out, sizeof out, MSG_DONTWAIT) <= 0; turns++) {
            assert_true(turns < 20);
            uv_run(&w.loop, UV_RUN_NOWAIT);
        }
        n_small++;
        close(s);
    }
    assert_int_equal(w.n_body, (size_t)N * BIG_BYTES);
    assert_true(clock_now_ns() - begun > (uint64_t)LEAST_MS * 1000000U);
    /* One leaves in the middle, and the end comes while another rests. */
    for (int i = 0; i < N; i++) {
        close(bodies[i]);
        bodies[i] = dial(&w, 0);
        say_text(&w, bodies[i], head);
        n_sent[i] = 0;
    }
    for (int turns = 0; turns < 5; turns++) {
        for (int i = 0; i < N; i++) send_on(&w, bodies[i], &n_sent[i]);
        uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    close(bodies[0]);
    for (int turns = 0; turns < 5; turns++) uv_run(&w.loop, UV_RUN_NOWAIT);
    close_world(&w);
    for (int i = 1; i < N; i++) close(bodies[i]);
}

/* Answers that are on their way arrive; what says nothing is closed. */
static void test_drain(void **state)
{
    (void)state;
    world w;
    char out[1024];
    open_world(&w);
    int idle = dial(&w, 0);
    int reads = dial(&w, 4096);
    int streams = dial(&w, 0);
    say_text(&w, reads, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    say_text(&w, streams, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    run_for(&w, 20);
    net_drain(w.net);
    assert_int_equal(hear(&w, idle, SIZE_MAX, out, sizeof out), 0);
    assert_true(hear(&w, reads, SIZE_MAX, out, sizeof out) >= BIG_BYTES);
    exchange_write(w.streaming, str_of("data: x\n\n"));
    exchange_end(w.streaming);
    hear(&w, streams, SIZE_MAX, out, sizeof out);
    assert_non_null(strstr(out, "data: x\n\n\r\n0\r\n\r\n"));
    close(idle);
    close(reads);
    close(streams);
    run_for(&w, 50);
    assert_true(net_is_idle(w.net));
    close_world(&w);
}

/* Refused with the head alone; what follows is read and dropped, so that the answer arrives. */
static void test_refused(void **state)
{
    (void)state;
    world w;
    char out[1024];
    char part[10000];
    memset(part, 'p', sizeof part);
    open_world(&w);
    int s = dial(&w, 0);
    say_text(&w, s, "POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n");
    for (int i = 0; i < 20; i++) send(s, part, sizeof part, MSG_DONTWAIT | MSG_NOSIGNAL);
    hear(&w, s, SIZE_MAX, out, sizeof out);
    assert_non_null(strstr(out, " 401 "));
    assert_int_equal(w.n_handled, 0);
    close(s);
    run_for(&w, 50);
    check_alone(&w);
    close_world(&w);
}

static void test_crowd(void **state)
{
    (void)state;
    world w;
    char out[16];
    int many[30];
    open_world(&w);
    for (int i = 0; i < 30; i++) {
        many[i] = dial(&w, 0);
        turn(&w);
    }
    run_for(&w, 20);
    assert_int_equal(n_connections(&w), w.options.max_connections);
    for (int i = 20; i < 30; i++) assert_int_equal(hear(&w, many[i], SIZE_MAX, out, 16), 0);
    for (int i = 0; i < 30; i++) close(many[i]);
    run_for(&w, 50);
    check_alone(&w);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_comments),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_unread_before_others),
        cmocka_unit_test(test_much_behind),
        cmocka_unit_test(test_too_much_behind),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_large_bodies),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_crowd),
    };
    return TEST_RUN("server/net", tests);
}
