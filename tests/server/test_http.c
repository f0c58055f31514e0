/* test_http.c - requests cut at every place are the same requests; what is no honest request is
 * refused, whatever follows it; limits; memory that runs out. */
#include "server/http.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fault.h"

enum { BODY_BYTES = 1000 };

/* Of exact size, so that a byte too far is seen. */
static size_t feed(http_parser *p, const char *bytes, size_t n_bytes)
{
    char *copy = malloc(n_bytes + (n_bytes == 0));
    assert_non_null(copy);
    memcpy(copy, bytes, n_bytes);
    size_t n = http_feed(p, copy, n_bytes);
    assert_true(n <= n_bytes);
    free(copy);
    return n;
}

static bool ends(const http_parser *p)
{
    return p->state == HTTP_STATE_DONE || p->state == HTTP_STATE_BAD;
}

/* All of the bytes, in pieces that end at every n-th; how many were taken. */
static size_t feed_all(http_parser *p, const char *bytes, size_t n_bytes, size_t first, size_t each)
{
    size_t at = 0;
    size_t piece = first;
    while (at < n_bytes && !ends(p)) {
        size_t n = n_bytes - at < piece ? n_bytes - at : piece;
        size_t taken = feed(p, bytes + at, n);
        assert_true(taken > 0 || ends(p));
        at += taken;
        piece = each;
    }
    return at;
}

static void check_same(const http_parser *a, const http_parser *b)
{
    assert_int_equal(a->state, b->state);
    if (a->state == HTTP_STATE_BAD) {
        assert_int_equal(a->status, b->status);
        assert_string_equal(a->reason, b->reason);
        return;
    }
    const http_request *x = &a->request;
    const http_request *y = &b->request;
    assert_true(str_equal(x->method, y->method) && str_equal(x->path, y->path));
    assert_true(str_equal(x->query, y->query));
    assert_int_equal(x->n_headers, y->n_headers);
    for (uint32_t i = 0; i < x->n_headers; i++) {
        assert_true(str_equal(x->headers[i].name, y->headers[i].name));
        assert_true(str_equal(x->headers[i].value, y->headers[i].value));
    }
    assert_true(str_equal((str){strbuf_text(&x->body), x->body.len},
                          (str){strbuf_text(&y->body), y->body.len}));
    assert_int_equal(x->keep_alive, y->keep_alive);
    assert_int_equal(x->expects_continue, y->expects_continue);
    assert_int_equal(x->minor, y->minor);
}

/* Cut in two at every place, and into pieces of every small size: the same comes out, and as many
 * bytes go in. */
static void check_cuts(const char *bytes, size_t n_bytes)
{
    http_parser whole;
    http_init(&whole, mem_system(), BODY_BYTES);
    size_t n = feed_all(&whole, bytes, n_bytes, n_bytes, n_bytes);
    for (size_t i = 1; i < n_bytes + 4; i++) {
        http_parser cut;
        http_init(&cut, mem_system(), BODY_BYTES);
        size_t each = i <= n_bytes ? n_bytes : i - n_bytes;
        size_t n_cut = feed_all(&cut, bytes, n_bytes, i <= n_bytes ? i : each, each);
        if (whole.state != HTTP_STATE_BAD) assert_int_equal(n_cut, n);
        check_same(&cut, &whole);
        http_deinit(&cut);
    }
    http_deinit(&whole);
}

#define GET_HOST "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST_HOST "POST /v1/x HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED POST_HOST "Transfer-Encoding: chunked\r\n\r\n"

typedef struct good_case {
    const char *text, *method, *path, *query, *body;
    size_t n_left; /* bytes behind the request */
    bool keep_alive;
} good_case;

static const good_case GOOD[] = {
    {GET_HOST "\r\n", "GET", "/", "", "", 0, true},
    {"\r\n\n\r\n" GET_HOST "\r\nGET", "GET", "/", "", "", 3, true},
    {"GET /a?b=c?d HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "/a", "b=c?d", "", 0, true},
    {GET_HOST "Connection: close\r\n\r\n", "GET", "/", "", "", 0, false},
    {GET_HOST "Connection: x, close\r\n\r\n", "GET", "/", "", "", 0, false},
    {"GET / HTTP/1.0\r\n\r\n", "GET", "/", "", "", 0, false},
    {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET", "/", "", "", 0, true},
    {GET_HOST "Upgrade: h2c\r\nConnection: upgrade\r\n\r\nPRI", "GET", "/", "", "", 3, true},
    {GET_HOST "Upgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nhix", "GET",
     "/", "", "hi", 1, true},
    {GET_HOST "X:\r\nY:  \t v \t \r\n\r\n", "GET", "/", "", "", 0, true},
    {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS", "*", "", "", 0, true},
    {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD", "/", "", "", 0, true},
    {POST_HOST "Content-Length: 5\r\n\r\nhelloGET", "POST", "/v1/x", "", "hello", 3, true},
    {POST_HOST "Content-Length: 0\r\n\r\n", "POST", "/v1/x", "", "", 0, true},
    {"POST /v1/x HTTP/1.0\r\nContent-Length: 1\r\n\r\na", "POST", "/v1/x", "", "a", 0, false},
    {POST_HOST "content-LENGTH:  5 \r\n\r\nhello", "POST", "/v1/x", "", "hello", 0, true},
    {CHUNKED "5\r\nhello\r\n0\r\n\r\nG", "POST", "/v1/x", "", "hello", 1, true},
    {CHUNKED "1\r\nh\r\n4;a=b\r\nello\r\n000\r\nT: x\r\n\r\n", "POST", "/v1/x", "", "hello", 0,
     true},
    {CHUNKED "0\r\n\r\n", "POST", "/v1/x", "", "", 0, true},
    {CHUNKED "A\r\n0123456789\r\n0\r\n\r\n", "POST", "/v1/x", "", "0123456789", 0, true},
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        const good_case *c = &GOOD[i];
        http_parser p;
        size_t n = strlen(c->text);
        http_init(&p, mem_system(), BODY_BYTES);
        size_t taken = feed_all(&p, c->text, n, n, n);
        if (p.state != HTTP_STATE_DONE) fail_msg("%s: %s", c->text, p.reason);
        assert_int_equal(n - taken, c->n_left);
        assert_true(str_equal_text(p.request.method, c->method));
        assert_true(str_equal_text(p.request.path, c->path));
        assert_true(str_equal_text(p.request.query, c->query));
        assert_string_equal(strbuf_text(&p.request.body), c->body);
        assert_int_equal(p.request.keep_alive, c->keep_alive);
        http_deinit(&p);
        check_cuts(c->text, n);
    }
}

typedef struct bad_case {
    const char *text;
    size_t n; /* 0: strlen */
    uint32_t status;
} bad_case;

#define BYTES(text) (text), sizeof(text) - 1

static const bad_case BAD[] = {
    /* How long is the body? */
    {BYTES(POST_HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), 400},
    {BYTES(POST_HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"), 400},
    {BYTES(POST_HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"), 400},
    {BYTES(POST_HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"), 400},
    {BYTES(POST_HOST "Content-Length: 5, 5\r\n\r\n"), 400},
    {BYTES(POST_HOST "Content-Length: +5\r\n\r\n"), 400},
    {BYTES(POST_HOST "Content-Length: -5\r\n\r\n"), 400},
    {BYTES(POST_HOST "Content-Length: 0x5\r\n\r\n"), 400},
    {BYTES(POST_HOST "Content-Length: 5 5\r\n\r\n"), 400},
    {BYTES(POST_HOST "Content-Length: 18446744073709551616\r\n\r\n"), 400},
    {BYTES(POST_HOST "Content-Length: 18446744073709551615\r\n\r\n"), 413},
    {BYTES(POST_HOST "Content-Length: 1001\r\n\r\n"), 413},
    {BYTES(POST_HOST "Content-Length : 5\r\n\r\nhello"), 400},
    {BYTES(POST_HOST "Content-Length\t: 5\r\n\r\nhello"), 400},
    {BYTES(POST_HOST "\r\n"), 411},
    {BYTES("POST / HTTP/1.0\r\n\r\n"), 411},
    {BYTES("PUT / HTTP/1.1\r\nHost: a\r\n\r\n"), 411},
    {BYTES(POST_HOST "Transfer-Encoding: xchunked\r\n\r\n"), 501},
    {BYTES(POST_HOST "Transfer-Encoding: chunkedx\r\n\r\n"), 501},
    {BYTES(POST_HOST "Transfer-Encoding: identity\r\n\r\n"), 501},
    {BYTES(POST_HOST "Transfer-Encoding: gzip\r\n\r\n"), 501},
    {BYTES(POST_HOST "Transfer-Encoding: chunked, identity\r\n\r\n"), 501},
    {BYTES(POST_HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n"), 501},
    {BYTES(POST_HOST "Transfer-Encoding:\r\n\r\n"), 501},
    {BYTES("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400},
    /* Lines. */
    {BYTES(GET_HOST "X: a\r\n b\r\n\r\n"), 400},
    {BYTES(GET_HOST "X: a\r\n\tContent-Length: 5\r\n\r\n"), 400},
    {BYTES("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), 400},
    {BYTES(GET_HOST "X: a\rY: b\r\n\r\n"), 400},
    {BYTES(GET_HOST "X: a\0b\r\n\r\n"), 400},
    {BYTES(GET_HOST "X\0: a\r\n\r\n"), 400},
    {BYTES(GET_HOST "X: \x7f\r\n\r\n"), 400},
    {BYTES(GET_HOST "NoColon\r\n\r\n"), 400},
    {BYTES(GET_HOST ": a\r\n\r\n"), 400},
    {BYTES("GET / HTTP/1.1\r\n: a\r\nHost: a\r\n\r\n"), 400},
    {BYTES(GET_HOST "A B: c\r\n\r\n"), 400},
    {BYTES(GET_HOST "\r\r\n"), 400},
    {BYTES("\r\n\r\n\r\n\r\n\r\n"), 400},
    /* Hosts. */
    {BYTES("GET / HTTP/1.1\r\n\r\n"), 400},
    {BYTES(GET_HOST "host: a\r\n\r\n"), 400},
    {BYTES("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), 400},
    /* Methods, targets, versions. */
    {BYTES("BREW / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {BYTES("get / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {BYTES("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {BYTES("GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), 505},
    {BYTES("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505},
    {BYTES("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), 505},
    {BYTES("GET / http/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("\x16\x03\x01\0\xc8\x01\0\0\xc4\x03\x03\n\n"), 501},
    {BYTES("\0\0\0\0\n\n"), 501},
    /* What is expected. */
    {BYTES(GET_HOST "Expect: miracles\r\n\r\n"), 417},
    /* Chunks. */
    {BYTES(CHUNKED "g\r\n"), 400},
    {BYTES(CHUNKED "-1\r\n"), 400},
    {BYTES(CHUNKED "0x5\r\n"), 400},
    {BYTES(CHUNKED " 5\r\nhello\r\n"), 400},
    {BYTES(CHUNKED "5 \r\nhello\r\n"), 400},
    {BYTES(CHUNKED "\r\n"), 400},
    {BYTES(CHUNKED "10000000000000000\r\n"), 400},
    {BYTES(CHUNKED "ffffffffffffffff\r\n"), 413},
    {BYTES(CHUNKED "3e9\r\n"), 413},
    {BYTES(CHUNKED "5\nhello\r\n0\r\n\r\n"), 400},
    {BYTES(CHUNKED "5\r\nhelloX\r\n"), 400},
    {BYTES(CHUNKED "5\r\nhello\r\n0\r\n T: folded\r\n\r\n"), 400},
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        const bad_case *c = &BAD[i];
        http_parser p;
        http_init(&p, mem_system(), BODY_BYTES);
        feed_all(&p, c->text, c->n, c->n, c->n);
        if (p.state != HTTP_STATE_BAD) fail_msg("taken (%d): %s", (int)p.state, c->text);
        if (p.status != c->status)
            fail_msg("%u, expected %u: %s (%s)", p.status, c->status, c->text, p.reason);
        assert_string_not_equal(http_reason(p.status), "");
        assert_int_equal(feed(&p, "GET", 3), 0);
        http_deinit(&p);
        check_cuts(c->text, c->n);
    }
}

/* A line that repeats, in a head that ends or does not; the state it comes to. */
static http_state repeat(const char *begin, const char *line, size_t n, const char *end,
                         size_t body_bytes, uint32_t *status)
{
    http_parser p;
    http_init(&p, mem_system(), body_bytes);
    feed_all(&p, begin, strlen(begin), strlen(begin), strlen(begin));
    for (size_t i = 0; i < n && !ends(&p); i++)
        feed_all(&p, line, strlen(line), strlen(line), strlen(line));
    if (!ends(&p)) feed_all(&p, end, strlen(end), strlen(end), strlen(end));
    http_state state = p.state;
    *status = p.status;
    assert_true(p.request.head.len <= HTTP_HEAD_BYTES && p.request.body.len <= body_bytes);
    http_deinit(&p);
    return state;
}

static void test_limits(void **state)
{
    (void)state;
    uint32_t status;
    assert_int_equal(repeat(GET_HOST, "X: y\r\n", 63, "\r\n", 10, &status), HTTP_STATE_DONE);
    assert_int_equal(repeat(GET_HOST, "X: y\r\n", 64, "\r\n", 10, &status), HTTP_STATE_BAD);
    assert_int_equal(status, 431);
    assert_int_equal(repeat(GET_HOST "X: ", "yyyyyyyyyyyyyyyy", 2040, "\r\n\r\n", 10, &status),
                     HTTP_STATE_DONE);
    assert_int_equal(repeat(GET_HOST "X: ", "yyyyyyyyyyyyyyyy", 2048, "\r\n\r\n", 10, &status),
                     HTTP_STATE_BAD);
    assert_int_equal(status, 431);
    assert_int_equal(repeat("GET /", "aaaaaaaaaaaaaaaa", 1 << 20, "", 10, &status), HTTP_STATE_BAD);
    assert_int_equal(status, 431);
    /* A body to its last byte, and one more. */
    assert_int_equal(repeat(CHUNKED, "A\r\n0123456789\r\n", 100, "0\r\n\r\n", 1000, &status),
                     HTTP_STATE_DONE);
    assert_int_equal(repeat(CHUNKED, "A\r\n0123456789\r\n", 101, "0\r\n\r\n", 1009, &status),
                     HTTP_STATE_BAD);
    assert_int_equal(status, 413);
    /* Chunks that are frame; small ones that a client may well send. */
    assert_int_equal(repeat(CHUNKED, "1\r\nx\r\n", 2000, "0\r\n\r\n", 1 << 20, &status),
                     HTTP_STATE_DONE);
    assert_int_equal(repeat(CHUNKED, "1\r\nx\r\n", 100000, "0\r\n\r\n", 1 << 20, &status),
                     HTTP_STATE_BAD);
    assert_int_equal(
        repeat(CHUNKED, "10;a=b\r\n0123456789abcdef\r\n", 60000, "0\r\n\r\n", 1 << 20, &status),
        HTTP_STATE_DONE);
    assert_int_equal(repeat(CHUNKED "1;", "a=b;", 100000, "\r\n", 1000, &status), HTTP_STATE_BAD);
    assert_int_equal(repeat(CHUNKED "0\r\n", "T: x\r\n", 100000, "\r\n", 1000, &status),
                     HTTP_STATE_BAD);
    assert_int_equal(status, 400);
}

/* Behind one request comes another; what the first had does not show in it. */
static void test_one_behind_another(void **state)
{
    (void)state;
    static const char TEXT[] =
        POST_HOST "X: y\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi"
                  "GET /b HTTP/1.0\r\n\r\n" CHUNKED "1\r\nz\r\n0\r\n\r\n";
    http_parser p;
    http_request r[3];
    http_init(&p, mem_system(), BODY_BYTES);
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        at += feed_all(&p, TEXT + at, sizeof TEXT - 1 - at, 7, 7);
        assert_int_equal(p.state, HTTP_STATE_DONE);
        http_take(&p, &r[i]);
        assert_int_equal(p.state, HTTP_STATE_HEAD);
    }
    assert_int_equal(at, sizeof TEXT - 1);
    assert_true(r[0].expects_continue && !r[1].expects_continue);
    assert_string_equal(strbuf_text(&r[0].body), "hi");
    assert_int_equal(r[1].body.len, 0);
    assert_int_equal(r[1].n_headers, 0);
    assert_null(http_header_of(&r[1], "x").ptr);
    assert_true(str_equal_text(http_header_of(&r[0], "x"), "y"));
    assert_true(str_equal_text(r[1].path, "/b"));
    assert_string_equal(strbuf_text(&r[2].body), "z");
    for (int i = 0; i < 3; i++) http_request_deinit(&r[i]);
    http_deinit(&p);
}

/* Behind the head it stops, so that nothing of a body is read for who may not ask. */
static void test_the_head_first(void **state)
{
    (void)state;
    static const char HEAD[] = POST_HOST "Content-Length: 2\r\n\r\n";
    http_parser p;
    http_init(&p, mem_system(), BODY_BYTES);
    assert_int_equal(feed(&p, POST_HOST "Content-Length: 2\r\n\r\nhi", sizeof HEAD + 1),
                     sizeof HEAD - 1);
    assert_int_equal(p.state, HTTP_STATE_BODY);
    assert_int_equal(p.request.body.len, 0);
    http_deinit(&p);
}

static weft_status scenario(const env *world, void *user, weft_error *err)
{
    (void)user;
    static const char TEXT[] =
        CHUNKED "A\r\n0123456789\r\n64;x\r\n"
                "0123456789012345678901234567890123456789012345678901234567890123456789"
                "012345678901234567890123456789\r\n0\r\n\r\n";
    http_parser p;
    http_init(&p, world->allocator, BODY_BYTES);
    feed_all(&p, TEXT, sizeof TEXT - 1, 9, 9);
    weft_status status = WEFT_OK;
    if (p.state == HTTP_STATE_BAD) {
        assert_int_equal(p.status, 503);
        status = err_set(err, WEFT_NOMEM, "%s", p.reason);
    } else {
        assert_int_equal(p.state, HTTP_STATE_DONE);
        assert_int_equal(p.request.body.len, 110);
    }
    http_deinit(&p);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    assert_true(fault_sweep(scenario, NULL) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),           cmocka_unit_test(test_bad),
        cmocka_unit_test(test_limits),         cmocka_unit_test(test_one_behind_another),
        cmocka_unit_test(test_the_head_first), cmocka_unit_test(test_memory),
    };
    return TEST_RUN("server/http", tests);
}
