/* http.h - one HTTP/1.x request out of bytes as they come (RFC 9110, RFC 9112), by strict llhttp.
 *
 * What llhttp lets pass and no honest client sends is refused here: folded header lines, more than
 * one Host or none in 1.1, Transfer-Encoding in 1.0, bodies without a length, chunks that are more
 * frame than content. The head is collected first, so that everything of it is one run of bytes. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include <llhttp.h>

#include "base/str.h"

enum {
    HTTP_HEADERS = 64,             /* most of one request */
    HTTP_HEAD_BYTES = 32 * 1024,   /* most of request line and headers */
    HTTP_FRAME_BYTES = 16 * 1024,  /* most of chunk sizes, their extensions and trailers... */
    HTTP_FRAME_BYTES_A_CHUNK = 64, /* and of each chunk that has content, beside these */
    HTTP_CHUNK_BYTES = 16          /* of content that pay for a chunk */
};

typedef struct http_header {
    str name, value;
} http_header;

typedef struct http_request {
    strbuf head, body;
    /* In head. */
    str method, path, query; /* path without '?', query behind it */
    http_header headers[HTTP_HEADERS];
    uint32_t n_headers;
    uint32_t minor; /* of HTTP/1.minor */
    bool keep_alive, expects_continue;
} http_request;

typedef enum http_state {
    HTTP_STATE_HEAD, /* the head is not whole */
    HTTP_STATE_BODY, /* the head is; more of the body is to come */
    HTTP_STATE_DONE,
    HTTP_STATE_BAD /* status and reason say why; nothing more can be read */
} http_state;

typedef struct http_parser {
    llhttp_t llhttp;
    llhttp_settings_t settings;
    http_request request;
    http_state state;
    uint32_t status; /* of the refusal */
    const char *reason;
    size_t n_blank;   /* line ends before the request line */
    bool line_begins; /* of the head: the byte before was a line feed */
    size_t n_frame;   /* bytes of the body's frame */
    size_t n_chunks;
    size_t n_promised; /* bytes of the body, by Content-Length; 0: nobody said */
    bool has_body;
} http_parser;

void http_init(http_parser *p, const weft_allocator *allocator, size_t body_bytes);
void http_deinit(http_parser *p);

/* Takes bytes until the head is whole, or the request, or it is bad, and returns how many. Behind
 * the head it stops once (state BODY), so that a request can be refused before its body is read. */
size_t http_feed(http_parser *p, const char *bytes, size_t n_bytes);

/* Hands the request out, which the caller must deinit, and is ready for the next one. */
void http_take(http_parser *p, http_request *request);
void http_request_deinit(http_request *r);

/* {NULL, 0} when there is none. Names in any case. */
str http_header_of(const http_request *r, const char *name);

/* The reason phrase of a status; "" for others than the server uses. */
const char *http_reason(uint32_t status);

#endif
