/* fuzz_http.c - any bytes, whole and in pieces: the same requests come out, within their limits. */
#include "server/http.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

/* libFuzzer gives the name. */
// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { BODY_BYTES = 4096 };

static uint64_t mix(uint64_t h, str text)
{
    return hash_xx64(text.ptr == NULL ? "" : text.ptr, text.len, h + 1);
}

static uint64_t hash_request(const http_request *r, uint64_t h)
{
    h = mix(h, r->method);
    h = mix(h, r->path);
    h = mix(h, r->query);
    ASSERT(r->n_headers <= HTTP_HEADERS && r->head.len <= HTTP_HEAD_BYTES);
    for (uint32_t i = 0; i < r->n_headers; i++) {
        ASSERT(r->headers[i].name.len > 0);
        h = mix(mix(h, r->headers[i].name), r->headers[i].value);
    }
    ASSERT(r->body.len <= BODY_BYTES);
    return mix(h, (str){strbuf_text(&r->body), r->body.len}) + r->keep_alive + r->minor;
}

/* All requests of the bytes, and how they end. */
static uint64_t read_all(const char *bytes, size_t n_bytes, size_t piece)
{
    http_parser p;
    uint64_t h = 0;
    http_init(&p, mem_system(), BODY_BYTES);
    for (size_t at = 0; at < n_bytes && p.state != HTTP_STATE_BAD;) {
        size_t n = n_bytes - at < piece ? n_bytes - at : piece;
        char *copy = malloc(n);
        if (copy == NULL) break;
        memcpy(copy, bytes + at, n);
        size_t taken = http_feed(&p, copy, n);
        ASSERT(taken <= n && (taken > 0 || p.state == HTTP_STATE_BAD));
        free(copy);
        at += taken;
        if (p.state != HTTP_STATE_DONE) continue;
        http_request r;
        http_take(&p, &r);
        h = hash_request(&r, h);
        http_request_deinit(&r);
    }
    if (p.state == HTTP_STATE_BAD) {
        ASSERT(p.status >= 400 && http_reason(p.status)[0] != '\0');
        h = mix(h + p.status, str_of(p.reason));
    } else {
        h += p.state;
    }
    http_deinit(&p);
    return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const char *bytes = (const char *)data;
    uint64_t whole = read_all(bytes, n_bytes, n_bytes + 1);
    ASSERT(read_all(bytes, n_bytes, 1) == whole);
    ASSERT(read_all(bytes, n_bytes, 7) == whole);
    return 0;
}
