/* http.c - attempts, redirects and refusals around libcurl's transfers.
 *
 * Redirects are followed here and not by libcurl, so that each address is checked before anything
 * is sent there, and the headers of the hub are told from those of the host that has the bytes. */
#include "hub/http.h"

#include <stdio.h>
#include <string.h>

weft_status hub_url_add(strbuf *url, const char *text, bool slash)
{
    static const char DIGITS[] = "0123456789ABCDEF";
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     strchr("-._~", c) != NULL || (slash && c == '/');
        if (plain) {
            strbuf_add_char(url, (char)c);
        } else {
            char code[3] = {'%', DIGITS[c >> 4], DIGITS[c & 15]};
            strbuf_add(url, code, sizeof code);
        }
    }
    return url->status;
}

#ifndef WEFT_CURL

weft_status hub_http_open(hub_http **client, const weft_allocator *allocator,
                          const hub_server *server, const hub_id *id, weft_error *err)
{
    (void)allocator;
    (void)server;
    (void)id;
    *client = NULL;
    return err_set(err, WEFT_UNSUPPORTED,
                   "this weft was built without libcurl and fetches nothing");
}

void hub_http_close(hub_http *h)
{
    (void)h;
}

weft_status hub_http_get(hub_http *h, hub_transfer *t, weft_error *err)
{
    (void)h;
    (void)t;
    return err_set(err, WEFT_UNSUPPORTED,
                   "this weft was built without libcurl and fetches nothing");
}

#else

#include <curl/curl.h>
#include <stdlib.h>
#include <strings.h>

#include "base/utf8.h"
#include "hub/disk.h"

enum { IGNORED_BYTES_MOST = 1 << 20 };

/* Where a request goes; a token is for one of them. */
typedef struct origin {
    char scheme[8], host[256], port[8];
} origin;

struct hub_http {
    const weft_allocator *allocator;
    const hub_server *server;
    const hub_id *id;
    CURL *curl;
    struct curl_slist *token_header; /* NULL: there is no token */
    origin home;
    bool local; /* http on this machine */
    char reason[CURL_ERROR_SIZE];
};

typedef enum attempt_end {
    ATTEMPT_DONE,
    ATTEMPT_REDIRECTED, /* to url */
    ATTEMPT_AGAIN,      /* what failed may pass; err says why */
    ATTEMPT_FAILED
} attempt_end;

/* One answer on its way. */
typedef struct attempt {
    hub_http *h;
    hub_transfer *t;
    hub_reply reply;
    char url[HUB_URL_BYTES];
    char location[HUB_URL_BYTES];
    bool at_home;
    bool begun;
    uint64_t length;  /* of the body; HUB_SIZE_UNKNOWN */
    bool has_range;   /* Content-Range was there and could be read */
    weft_status sink; /* of begin and body */
    uint64_t retry_after_s;
    size_t n_ignored; /* bytes of bodies that nobody asked for */
    weft_error *err;
} attempt;

/* ---- addresses ------------------------------------------------------------------------------- */

static bool take_part(CURLU *url, CURLUPart part, char *to, size_t capacity)
{
    char *text = NULL;
    bool ok =
        curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) == CURLUE_OK && strlen(text) < capacity;
    if (ok) memcpy(to, text, strlen(text) + 1);
    curl_free(text);
    return ok;
}

static bool take_origin(CURLU *url, origin *o)
{
    return take_part(url, CURLUPART_SCHEME, o->scheme, sizeof o->scheme) &&
           take_part(url, CURLUPART_HOST, o->host, sizeof o->host) &&
           take_part(url, CURLUPART_PORT, o->port, sizeof o->port);
}

static bool is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host));
}

/* https, or http among programs of one machine. */
static bool is_allowed(const origin *o, bool local)
{
    if (strcmp(o->scheme, "https") == 0) return true;
    return local && strcmp(o->scheme, "http") == 0 && is_loopback(o->host);
}

static bool same_origin(const origin *a, const origin *b)
{
    return strcmp(a->scheme, b->scheme) == 0 && strcasecmp(a->host, b->host) == 0 &&
           strcmp(a->port, b->port) == 0;
}

/* Where a redirect leads: a->location from a->url, into a->url. */
static weft_status follow(attempt *a, weft_error *err)
{
    origin o;
    CURLU *url = curl_url();
    bool ok = url != NULL && curl_url_set(url, CURLUPART_URL, a->url, 0) == CURLUE_OK &&
              curl_url_set(url, CURLUPART_URL, a->location, 0) == CURLUE_OK && take_origin(url, &o);
    bool allowed = ok && is_allowed(&o, a->h->local);
    if (allowed) ok = take_part(url, CURLUPART_URL, a->url, sizeof a->url);
    curl_url_cleanup(url);
    if (!ok) return err_set(err, WEFT_FORMAT, "the hub redirects to what is no address");
    if (!allowed)
        return err_set(err, WEFT_FORMAT, "the hub redirects to %s://%s, which is not https",
                       o.scheme, o.host);
    a->at_home = same_origin(&o, &a->h->home);
    return WEFT_OK;
}

static weft_status check_endpoint(hub_http *h, weft_error *err)
{
    const char *endpoint = h->server->endpoint;
    CURLU *url = curl_url();
    char *user = NULL;
    bool ok = url != NULL && curl_url_set(url, CURLUPART_URL, endpoint, 0) == CURLUE_OK &&
              take_origin(url, &h->home) && strlen(endpoint) < HUB_URL_BYTES / 4;
    bool has_user = ok && curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_OK;
    curl_free(user);
    curl_url_cleanup(url);
    if (!ok || has_user)
        return err_set(err, WEFT_ARGUMENT, "the hub's address '%.100s' is not https://HOST",
                       endpoint);
    h->local = strcmp(h->home.scheme, "http") == 0 && is_loopback(h->home.host);
    if (is_allowed(&h->home, h->local)) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT,
                   "the hub's address '%.100s' is not https, nor http on this machine", endpoint);
}

/* ---- callbacks of libcurl -------------------------------------------------------------------- */

static void copy_value(str value, char *to, size_t capacity)
{
    size_t n = value.len < capacity ? value.len : 0; /* none rather than a part */
    memcpy(to, value.ptr, n);
    to[n] = '\0';
}

/* ETags are in quotes, and may say that they are weak. */
static void copy_etag(str value, char *to, size_t capacity)
{
    if (str_starts(value, "W/")) value = (str){value.ptr + 2, value.len - 2};
    if (value.len >= 2 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"')
        value = (str){value.ptr + 1, value.len - 2};
    copy_value(value, to, capacity);
}

static bool take_number(str *text, uint64_t *n)
{
    size_t i = 0;
    *n = 0;
    for (; i < text->len && text->ptr[i] >= '0' && text->ptr[i] <= '9'; i++) {
        if (*n > (UINT64_MAX - 9) / 10) return false;
        *n = *n * 10 + (uint64_t)(text->ptr[i] - '0');
    }
    *text = (str){text->ptr + i, text->len - i};
    return i > 0;
}

static bool take_char(str *text, char c)
{
    if (text->len == 0 || text->ptr[0] != c) return false;
    *text = (str){text->ptr + 1, text->len - 1};
    return true;
}

/* "bytes 100-199/200" */
static bool take_range(str value, hub_reply *reply)
{
    uint64_t last;
    if (!str_starts(value, "bytes ")) return false;
    value = (str){value.ptr + 6, value.len - 6};
    return take_number(&value, &reply->first) && take_char(&value, '-') &&
           take_number(&value, &last) && take_char(&value, '/') &&
           take_number(&value, &reply->size) && value.len == 0;
}

static void take_home_header(attempt *a, const char *name, size_t n, str value)
{
    hub_reply *r = &a->reply;
    if (n == 13 && strncasecmp(name, "X-Repo-Commit", n) == 0) {
        copy_value(value, r->commit, sizeof r->commit);
    } else if (n == 13 && strncasecmp(name, "X-Linked-Etag", n) == 0) {
        copy_etag(value, r->hash, sizeof r->hash);
    } else if (n == 4 && strncasecmp(name, "ETag", n) == 0) {
        /* That of a large file itself is the linked one, whichever comes first. */
        if (r->hash[0] == '\0') copy_etag(value, r->hash, sizeof r->hash);
    } else if (n == 13 && strncasecmp(name, "X-Linked-Size", n) == 0) {
        if (!take_number(&value, &r->linked_size)) r->linked_size = HUB_SIZE_UNKNOWN;
    } else if (n == 12 && strncasecmp(name, "X-Error-Code", n) == 0) {
        copy_value(value, r->error_code, sizeof r->error_code);
    }
}

static size_t on_header(char *bytes, size_t size, size_t count, void *user)
{
    attempt *a = user;
    size_t n_bytes = size * count;
    char *colon = memchr(bytes, ':', n_bytes);
    if (colon == NULL) return n_bytes;
    size_t n = (size_t)(colon - bytes);
    str value = {colon + 1, n_bytes - n - 1};
    while (value.len > 0 && (value.ptr[0] == ' ' || value.ptr[0] == '\t'))
        value = (str){value.ptr + 1, value.len - 1};
    while (value.len > 0 && (unsigned char)value.ptr[value.len - 1] <= ' ') value.len--;
    if (n == 8 && strncasecmp(bytes, "Location", n) == 0) {
        copy_value(value, a->location, sizeof a->location);
    } else if (n == 13 && strncasecmp(bytes, "Content-Range", n) == 0) {
        a->has_range = take_range(value, &a->reply);
    } else if (n == 14 && strncasecmp(bytes, "Content-Length", n) == 0) {
        if (!take_number(&value, &a->length)) a->length = HUB_SIZE_UNKNOWN;
    } else if (a->at_home) {
        take_home_header(a, bytes, n, value);
    }
    return n_bytes;
}

/* Before the first byte of an answer that brings some. */
static weft_status begin(attempt *a)
{
    hub_transfer *t = a->t;
    hub_reply *r = &a->reply;
    a->begun = true;
    if (r->status == 206 && (!a->has_range || r->first != t->offset))
        return err_set(a->err, WEFT_FORMAT, "asked from byte %llu on, the hub sends from %llu",
                       (unsigned long long)t->offset, (unsigned long long)r->first);
    if (r->status != 206) {
        r->first = 0;
        r->size = a->length;
    }
    t->offset = r->first;
    return t->begin(t->user, r, a->err);
}

static bool is_fine(long status)
{
    return status == 200 || status == 206;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    attempt *a = user;
    size_t n_bytes = size * count;
    if (!a->begun) curl_easy_getinfo(a->h->curl, CURLINFO_RESPONSE_CODE, &a->reply.status);
    if (!is_fine(a->reply.status)) {
        a->n_ignored += n_bytes;
        return a->n_ignored <= IGNORED_BYTES_MOST ? n_bytes : 0;
    }
    if (!a->begun) a->sink = begin(a);
    if (a->sink == WEFT_OK) a->sink = a->t->body(a->t->user, bytes, n_bytes, a->err);
    if (a->sink != WEFT_OK) return 0;
    a->t->offset += n_bytes;
    return n_bytes;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    hub_transfer *t = user;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return t->go_on(t->user) ? 0 : 1;
}

/* ---- answers --------------------------------------------------------------------------------- */

static weft_status refuse_access(const attempt *a, const char *repo)
{
    const hub_http *h = a->h;
    const hub_reply *r = &a->reply;
    bool gated = strcmp(r->error_code, "GatedRepo") == 0;
    if (r->status == 403 || gated)
        return err_set(a->err, WEFT_IO,
                       "%s is gated: ask for access at %.60s/%s, then set HF_TOKEN to a token of "
                       "that account (%ld)",
                       repo, h->server->endpoint, repo, r->status);
    if (h->server->token != NULL)
        return err_set(a->err, WEFT_IO, "the hub does not accept the token, or has no %s (401)",
                       repo);
    return err_set(a->err, WEFT_IO,
                   "the hub has no %s for everybody: check the name, or set HF_TOKEN (401)", repo);
}

/* A status that another attempt will not change. */
static weft_status refuse(const attempt *a)
{
    char repo[HUB_REPO_BYTES];
    const hub_reply *r = &a->reply;
    const hub_id *id = a->h->id;
    hub_id_repo(id, repo);
    if (!a->at_home)
        return err_set(a->err, WEFT_IO, "the host that has '%.80s' answers %ld", a->t->name,
                       r->status);
    if (r->status == 401 || r->status == 403) return refuse_access(a, repo);
    if (r->status != 404)
        return err_set(a->err, WEFT_IO, "the hub answers %ld for %s%s%.80s", r->status, repo,
                       a->t->name[0] != '\0' ? "/" : "", a->t->name);
    if (strcmp(r->error_code, "RevisionNotFound") == 0)
        return err_set(a->err, WEFT_IO, "%s has no revision '%.80s' (404)", repo,
                       hub_id_revision(id));
    if (a->t->name[0] != '\0')
        return err_set(a->err, WEFT_IO, "%s has no file '%.100s' (404)", repo, a->t->name);
    return err_set(a->err, WEFT_IO, "the hub has no model %s (404)", repo);
}

static bool may_pass(long status)
{
    return status == 408 || status == 429 || status >= 500;
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* What a finished exchange means. */
static attempt_end judge(attempt *a)
{
    hub_transfer *t = a->t;
    long status = a->reply.status;
    if (is_redirect(status) && a->location[0] != '\0') return ATTEMPT_REDIRECTED;
    if (status == 416 && t->offset > 0) {
        /* What is there has more than the file: from the beginning. */
        err_set(a->err, WEFT_IO, "the hub has no byte %llu of '%.80s'",
                (unsigned long long)t->offset, t->name);
        t->offset = 0;
        return ATTEMPT_AGAIN;
    }
    if (may_pass(status)) {
        err_set(a->err, WEFT_IO, "the hub answers %ld%s", status,
                status == 429 ? ", too many requests" : "");
        return ATTEMPT_AGAIN;
    }
    if (!is_fine(status)) {
        refuse(a);
        return ATTEMPT_FAILED;
    }
    if (!a->begun) a->sink = begin(a);
    if (a->sink != WEFT_OK) return ATTEMPT_FAILED;
    if (t->size == HUB_SIZE_UNKNOWN || t->offset >= t->size) return ATTEMPT_DONE;
    err_set(a->err, WEFT_IO, "'%.80s' ended at byte %llu of %llu", t->name,
            (unsigned long long)t->offset, (unsigned long long)t->size);
    return ATTEMPT_AGAIN;
}

/* A transfer that broke off. */
static attempt_end judge_failure(attempt *a, CURLcode code)
{
    if (a->sink != WEFT_OK) return ATTEMPT_FAILED;
    if (code == CURLE_ABORTED_BY_CALLBACK) {
        err_set(a->err, WEFT_CANCELLED, "stopped; what is there stays, and a later pull goes on");
        return ATTEMPT_FAILED;
    }
    const char *reason = a->h->reason[0] != '\0' ? a->h->reason : curl_easy_strerror(code);
    err_set(a->err, code == CURLE_OUT_OF_MEMORY ? WEFT_NOMEM : WEFT_IO, "%s: %.150s",
            a->at_home ? a->h->home.host : "the host of the file", reason);
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return ATTEMPT_FAILED;
    default:
        return ATTEMPT_AGAIN;
    }
}

static void set_options(attempt *a, const char *range)
{
    CURL *c = a->h->curl;
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, a->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, a->h->local ? "http,https" : "https");
    curl_easy_setopt(c, CURLOPT_USERAGENT, a->h->server->agent);
    if (a->at_home) curl_easy_setopt(c, CURLOPT_HTTPHEADER, a->h->token_header);
    if (a->h->local) curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    if (range[0] != '\0') curl_easy_setopt(c, CURLOPT_RANGE, range);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, a);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, a->t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, a->h->reason);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)HUB_CONNECT_S);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)HUB_STALL_S);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
}

/* One exchange with one host. */
static attempt_end exchange(attempt *a)
{
    char range[32] = "";
    curl_off_t wait = 0;
    if (a->t->offset > 0) snprintf(range, sizeof range, "%llu-", (unsigned long long)a->t->offset);
    a->reply.status = 0;
    a->reply.first = 0;
    a->reply.size = HUB_SIZE_UNKNOWN;
    a->begun = a->has_range = false;
    a->n_ignored = 0;
    a->length = HUB_SIZE_UNKNOWN;
    a->location[0] = '\0';
    a->h->reason[0] = '\0';
    set_options(a, range);
    CURLcode code = curl_easy_perform(a->h->curl);
    if (curl_easy_getinfo(a->h->curl, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK && wait > 0)
        a->retry_after_s = (uint64_t)wait;
    utf8_tidy(a->h->reason, sizeof a->h->reason);
    bool ignored = code == CURLE_WRITE_ERROR && a->n_ignored > IGNORED_BYTES_MOST;
    if (code != CURLE_OK && !ignored) return judge_failure(a, code);
    curl_easy_getinfo(a->h->curl, CURLINFO_RESPONSE_CODE, &a->reply.status);
    return judge(a);
}

/* From the hub's address to the bytes. */
static attempt_end run_attempt(attempt *a)
{
    if (snprintf(a->url, sizeof a->url, "%s", a->t->url) >= (int)sizeof a->url) {
        err_set(a->err, WEFT_LIMIT, "an address of more than %d bytes", HUB_URL_BYTES);
        return ATTEMPT_FAILED;
    }
    /* What has no known size is read whole. */
    if (a->t->size == HUB_SIZE_UNKNOWN) a->t->offset = 0;
    a->reply = (hub_reply){.linked_size = HUB_SIZE_UNKNOWN};
    a->at_home = true;
    a->sink = WEFT_OK;
    a->retry_after_s = 0;
    for (uint32_t hop = 0; hop <= HUB_REDIRECTS_MOST; hop++) {
        attempt_end end = exchange(a);
        if (end != ATTEMPT_REDIRECTED) return end;
        if (follow(a, a->err) != WEFT_OK) return ATTEMPT_FAILED;
    }
    err_set(a->err, WEFT_FORMAT, "the hub redirects more than %d times", HUB_REDIRECTS_MOST);
    return ATTEMPT_FAILED;
}

/* How long until the next attempt; false: there is none, and err says why. */
static bool wait_again(const attempt *a, uint32_t n_vain)
{
    uint64_t wait_ms = (uint64_t)HUB_BACKOFF_MS << (n_vain > 0 ? n_vain - 1 : 0);
    if (n_vain == HUB_ATTEMPTS_MOST) {
        err_context(a->err, "%u attempts in vain; the last: ", n_vain);
        return false;
    }
    if (a->retry_after_s > HUB_RETRY_AFTER_S_MOST) {
        err_context(a->err, "the hub asks to wait %llu s, at most %d are waited: ",
                    (unsigned long long)a->retry_after_s, HUB_RETRY_AFTER_S_MOST);
        return false;
    }
    if (a->retry_after_s * 1000 > wait_ms) wait_ms = a->retry_after_s * 1000;
    a->t->again(a->t->user, a->err->message, wait_ms);
    err_clear(a->err);
    if (disk_sleep(wait_ms, a->t->go_on, a->t->user)) return true;
    err_set(a->err, WEFT_CANCELLED, "stopped; what is there stays, and a later pull goes on");
    return false;
}

weft_status hub_http_get(hub_http *h, hub_transfer *t, weft_error *err)
{
    weft_error why = {WEFT_OK, ""};
    attempt *a = mem_alloc_zero(h->allocator, sizeof *a);
    if (a == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a request");
    *a = (attempt){.h = h, .t = t, .err = &why};
    attempt_end end = ATTEMPT_AGAIN;
    for (uint32_t n_vain = 0; end == ATTEMPT_AGAIN;) {
        uint64_t had = t->offset;
        end = run_attempt(a);
        if (end != ATTEMPT_AGAIN) break;
        n_vain = t->offset > had ? 1 : n_vain + 1;
        if (!wait_again(a, n_vain)) end = ATTEMPT_FAILED;
    }
    mem_free(h->allocator, a, sizeof *a);
    if (end == ATTEMPT_DONE) return WEFT_OK;
    return err_set(err, why.status, "%s", why.message);
}

/* ---- a client -------------------------------------------------------------------------------- */

static weft_status take_token(hub_http *h, weft_error *err)
{
    static const char NAME[] = "Authorization: Bearer ";
    char header[sizeof NAME + HUB_TOKEN_BYTES_MOST];
    const char *token = h->server->token;
    if (token == NULL) return WEFT_OK;
    size_t n = strlen(token);
    bool plain = n > 0 && n <= HUB_TOKEN_BYTES_MOST;
    for (size_t i = 0; i < n && plain; i++) plain = token[i] > ' ' && token[i] <= '~';
    if (!plain)
        return err_set(err, WEFT_ARGUMENT, "the token is not 1 to %d plain characters",
                       HUB_TOKEN_BYTES_MOST);
    snprintf(header, sizeof header, "%s%s", NAME, token);
    h->token_header = curl_slist_append(NULL, header);
    return h->token_header != NULL ? WEFT_OK : err_set(err, WEFT_NOMEM, "out of memory");
}

weft_status hub_http_open(hub_http **client, const weft_allocator *allocator,
                          const hub_server *server, const hub_id *id, weft_error *err)
{
    *client = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(err, WEFT_IO, "libcurl does not begin");
    hub_http *h = mem_alloc_zero(allocator, sizeof *h);
    if (h == NULL) {
        curl_global_cleanup();
        return err_set(err, WEFT_NOMEM, "out of memory for a client");
    }
    h->allocator = allocator;
    h->server = server;
    h->id = id;
    h->curl = curl_easy_init();
    weft_status status = h->curl != NULL ? WEFT_OK : err_set(err, WEFT_NOMEM, "out of memory");
    if (status == WEFT_OK) status = check_endpoint(h, err);
    if (status == WEFT_OK) status = take_token(h, err);
    if (status == WEFT_OK) {
        *client = h;
    } else {
        hub_http_close(h);
    }
    return status;
}

void hub_http_close(hub_http *h)
{
    if (h == NULL) return;
    curl_slist_free_all(h->token_header);
    curl_easy_cleanup(h->curl);
    mem_free(h->allocator, h, sizeof *h);
    curl_global_cleanup();
}

#endif
