/* http.c - the bytes of a request, and what is refused of them. */
#include "server/http.h"

#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/bytes.h"

enum {
    BLANK_LINES_BYTES = 8,
    /* Of a body that are there before there is room for all that was promised: who promises much
     * sends some of it first. */
    BELIEVED_BYTES = 1 << 20,
    LARGE_PAGES_BYTES = 4 << 20 /* of room for a body from which on pages are large */
};

/* ---- refusals -------------------------------------------------------------------------------- */

static int refuse(http_parser *p, uint32_t status, const char *reason)
{
    p->state = HTTP_STATE_BAD;
    p->status = status;
    p->reason = reason;
    return HPE_USER;
}

/* What llhttp found wrong. */
static void refuse_parse(http_parser *p, llhttp_errno_t error)
{
    if (p->state == HTTP_STATE_BAD) return;
    switch (error) {
    case HPE_INVALID_METHOD:
        refuse(p, 501, "unknown method");
        break;
    case HPE_INVALID_VERSION:
        refuse(p, 505, "the HTTP version is not 1.0 or 1.1");
        break;
    case HPE_INVALID_TRANSFER_ENCODING:
        refuse(p, 501, "the transfer encoding is not chunked");
        break;
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        refuse(p, 400, "Content-Length is there twice, or beside Transfer-Encoding");
        break;
    case HPE_INVALID_CONTENT_LENGTH:
        refuse(p, 400, "Content-Length is no number");
        break;
    case HPE_INVALID_CHUNK_SIZE:
        refuse(p, 400, "a chunk's size is no number");
        break;
    case HPE_INVALID_URL:
        refuse(p, 400, "the request's target is malformed");
        break;
    default:
        refuse(p, 400, "the request is no valid HTTP");
        break;
    }
}

/* ---- what llhttp calls ----------------------------------------------------------------------- */

static int on_url(llhttp_t *l, const char *at, size_t n)
{
    http_parser *p = l->data;
    const char *query = memchr(at, '?', n);
    p->request.path = (str){at, query == NULL ? n : (size_t)(query - at)};
    if (query != NULL) p->request.query = (str){query + 1, n - (size_t)(query - at) - 1};
    return 0;
}

static int on_method(llhttp_t *l, const char *at, size_t n)
{
    http_parser *p = l->data;
    p->request.method = (str){at, n};
    return 0;
}

static int on_field(llhttp_t *l, const char *at, size_t n)
{
    http_parser *p = l->data;
    http_request *r = &p->request;
    if (p->state != HTTP_STATE_HEAD) return 0;
    if (n == 0) return refuse(p, 400, "a header has no name");
    if (r->n_headers == HTTP_HEADERS) return refuse(p, 431, "there are more than 64 headers");
    r->headers[r->n_headers++].name = (str){at, n};
    return 0;
}

static int on_value(llhttp_t *l, const char *at, size_t n)
{
    http_parser *p = l->data;
    if (p->state != HTTP_STATE_HEAD) return 0;
    if (p->request.n_headers == 0) return refuse(p, 400, "a header has no name");
    while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t')) n--;
    p->request.headers[p->request.n_headers - 1].value = (str){at, n};
    return 0;
}

static uint32_t count_of(const http_request *r, const char *name)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_headers; i++) {
        str have = r->headers[i].name;
        n += have.len == strlen(name) && strncasecmp(have.ptr, name, have.len) == 0;
    }
    return n;
}

static int check_host(http_parser *p)
{
    uint32_t n = count_of(&p->request, "host");
    if (n > 1) return refuse(p, 400, "Host is there twice");
    if (n == 0 && p->request.minor == 1) return refuse(p, 400, "there is no Host");
    return 0;
}

/* Whether the request must say how long its body is. */
static bool needs_length(const http_request *r)
{
    static const char *const NAMES[] = {"POST", "PUT", "PATCH"};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        if (str_equal_text(r->method, NAMES[i])) return true;
    }
    return false;
}

static int check_length(http_parser *p, const llhttp_t *l)
{
    bool chunked = count_of(&p->request, "transfer-encoding") > 0;
    bool measured = count_of(&p->request, "content-length") > 0;
    if (chunked && p->request.minor == 0)
        return refuse(p, 400, "Transfer-Encoding is not of HTTP/1.0");
    if (chunked && (l->flags & F_CHUNKED) == 0)
        return refuse(p, 501, "the transfer encoding is not chunked");
    if (!chunked && !measured && needs_length(&p->request))
        return refuse(p, 411, "there is no Content-Length");
    if (measured && l->content_length > p->request.body.limit)
        return refuse(p, 413, "the body is larger than this server takes");
    p->has_body = chunked || (measured && l->content_length > 0);
    p->n_promised = measured ? (size_t)l->content_length : 0;
    return 0;
}

static int check_expectation(http_parser *p)
{
    str expect = http_header_of(&p->request, "expect");
    if (expect.ptr == NULL) return 0;
    bool known = expect.len == 12 && strncasecmp(expect.ptr, "100-continue", 12) == 0;
    if (!known) return refuse(p, 417, "Expect is not 100-continue");
    p->request.expects_continue = p->request.minor == 1 && p->has_body;
    return 0;
}

static int on_head(llhttp_t *l)
{
    http_parser *p = l->data;
    http_request *r = &p->request;
    if (l->http_major != 1 || l->http_minor > 1)
        return refuse(p, 505, "the HTTP version is not 1.0 or 1.1");
    r->minor = l->http_minor;
    r->keep_alive = llhttp_should_keep_alive(l) != 0;
    if (l->method == HTTP_CONNECT) return refuse(p, 501, "CONNECT is not for this server");
    /* An upgrade that is not answered with 101 did not happen. */
    l->upgrade = 0;
    int wrong = check_host(p);
    if (wrong == 0) wrong = check_length(p, l);
    if (wrong == 0) wrong = check_expectation(p);
    if (wrong == 0) p->state = HTTP_STATE_BODY;
    return wrong;
}

/* Growing by doubling copies a large body as often as it grows, in the loop's thread. */
static void make_room(http_parser *p, size_t n)
{
    strbuf *body = &p->request.body;
    if (body->len + n < body->capacity || body->len + n < BELIEVED_BYTES) return;
    size_t extra = p->n_promised > body->len + n ? p->n_promised - body->len : n;
    if (strbuf_reserve(body, extra) == WEFT_OK && body->capacity >= LARGE_PAGES_BYTES)
        mem_use_large_pages(body->ptr, body->capacity);
}

static int on_body(llhttp_t *l, const char *at, size_t n)
{
    http_parser *p = l->data;
    make_room(p, n);
    weft_status status = strbuf_add(&p->request.body, at, n);
    if (status == WEFT_NOMEM) return refuse(p, 503, "out of memory for the body");
    if (status != WEFT_OK) return refuse(p, 413, "the body is larger than this server takes");
    return 0;
}

static int on_chunk(llhttp_t *l)
{
    http_parser *p = l->data;
    const strbuf *body = &p->request.body;
    p->n_chunks++;
    if (l->content_length > body->limit - body->len)
        return refuse(p, 413, "the body is larger than this server takes");
    return 0;
}

static int on_done(llhttp_t *l)
{
    http_parser *p = l->data;
    p->state = HTTP_STATE_DONE;
    return HPE_PAUSED;
}

/* ---- feeding --------------------------------------------------------------------------------- */

static void begin(http_parser *p)
{
    llhttp_init(&p->llhttp, HTTP_REQUEST, &p->settings);
    p->llhttp.data = p;
    p->state = HTTP_STATE_HEAD;
    p->n_blank = p->n_frame = p->n_chunks = p->n_promised = 0;
    p->has_body = p->line_begins = false;
    http_request *r = &p->request;
    strbuf head = r->head;
    strbuf body = r->body;
    *r = (http_request){.head = head, .body = body};
}

void http_init(http_parser *p, const weft_allocator *allocator, size_t body_bytes)
{
    *p = (http_parser){.state = HTTP_STATE_HEAD};
    llhttp_settings_init(&p->settings);
    p->settings.on_url = on_url;
    p->settings.on_method = on_method;
    p->settings.on_header_field = on_field;
    p->settings.on_header_value = on_value;
    p->settings.on_headers_complete = on_head;
    p->settings.on_body = on_body;
    p->settings.on_chunk_header = on_chunk;
    p->settings.on_message_complete = on_done;
    strbuf_init(&p->request.head, allocator, HTTP_HEAD_BYTES);
    strbuf_init(&p->request.body, allocator, body_bytes);
    begin(p);
}

void http_deinit(http_parser *p)
{
    http_request_deinit(&p->request);
}

/* llhttp sees the head when it is whole. */
static void parse_head(http_parser *p)
{
    const strbuf *head = &p->request.head;
    llhttp_errno_t error = llhttp_execute(&p->llhttp, head->ptr, head->len);
    if (error != HPE_OK && error != HPE_PAUSED) refuse_parse(p, error);
    if (p->state == HTTP_STATE_HEAD) refuse(p, 400, "the request is no valid HTTP");
}

/* Bytes up to the empty line behind the headers. */
static size_t feed_head(http_parser *p, const char *bytes, size_t n_bytes)
{
    strbuf *head = &p->request.head;
    size_t n = 0;
    while (n < n_bytes && head->len == 0 && (bytes[n] == '\r' || bytes[n] == '\n')) {
        n++;
        if (++p->n_blank > BLANK_LINES_BYTES) {
            refuse(p, 400, "the request begins with empty lines");
            return n;
        }
    }
    size_t first = n;
    bool whole = false;
    while (n < n_bytes && !whole) {
        char c = bytes[n++];
        if (p->line_begins && (c == ' ' || c == '\t')) {
            refuse(p, 400, "a header is folded");
            return n;
        }
        whole = p->line_begins && c == '\n';
        p->line_begins = c == '\n' || (p->line_begins && c == '\r');
    }
    weft_status status = strbuf_add(head, bytes + first, n - first);
    if (status == WEFT_NOMEM) {
        refuse(p, 503, "out of memory for the request's head");
    } else if (status != WEFT_OK) {
        refuse(p, 431, "the request's head is larger than 32 KiB");
    } else if (whole) {
        parse_head(p);
    }
    return n;
}

static size_t feed_body(http_parser *p, const char *bytes, size_t n_bytes)
{
    size_t before = p->request.body.len;
    llhttp_errno_t error = llhttp_execute(&p->llhttp, bytes, n_bytes);
    size_t n = n_bytes;
    if (error == HPE_PAUSED && p->state == HTTP_STATE_DONE) {
        n = (size_t)(llhttp_get_error_pos(&p->llhttp) - bytes);
    } else if (error != HPE_OK) {
        refuse_parse(p, error);
        return n;
    }
    size_t content = p->request.body.len - before;
    p->n_frame += n - content;
    size_t paid = p->request.body.len / HTTP_CHUNK_BYTES;
    if (paid > p->n_chunks) paid = p->n_chunks;
    if (p->n_frame > HTTP_FRAME_BYTES + paid * HTTP_FRAME_BYTES_A_CHUNK)
        refuse(p, 400, "chunks of the body are more frame than content");
    return n;
}

size_t http_feed(http_parser *p, const char *bytes, size_t n_bytes)
{
    if (p->state == HTTP_STATE_HEAD) return feed_head(p, bytes, n_bytes);
    if (p->state == HTTP_STATE_BODY) return feed_body(p, bytes, n_bytes);
    return 0;
}

void http_take(http_parser *p, http_request *request)
{
    const weft_allocator *allocator = p->request.body.allocator;
    size_t limit = p->request.body.limit;
    *request = p->request;
    strbuf_init(&p->request.head, allocator, HTTP_HEAD_BYTES);
    strbuf_init(&p->request.body, allocator, limit);
    begin(p);
}

void http_request_deinit(http_request *r)
{
    strbuf_deinit(&r->head);
    strbuf_deinit(&r->body);
}

str http_header_of(const http_request *r, const char *name)
{
    for (uint32_t i = 0; i < r->n_headers; i++) {
        str have = r->headers[i].name;
        if (have.len == strlen(name) && strncasecmp(have.ptr, name, have.len) == 0)
            return r->headers[i].value;
    }
    return (str){NULL, 0};
}

const char *http_reason(uint32_t status)
{
    static const struct {
        uint32_t status;
        const char *reason;
    } REASONS[] = {
        {200, "OK"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < COUNT_OF(REASONS); i++) {
        if (REASONS[i].status == status) return REASONS[i].reason;
    }
    return "";
}
