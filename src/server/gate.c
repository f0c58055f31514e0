/* gate.c - keys, hosts, origins. */
#include "server/gate.h"

#include <string.h>
#include <strings.h>

/* Takes the same time wherever they differ. */
static bool same_key(str given, const char *key)
{
    size_t n = strlen(key);
    unsigned different = given.len != n;
    for (size_t i = 0; i < n; i++) {
        unsigned char theirs = i < given.len ? (unsigned char)given.ptr[i] : 0;
        different |= (unsigned)(theirs ^ (unsigned char)key[i]);
    }
    return different == 0;
}

static bool any_key(str given, const char *const *keys, uint32_t n)
{
    bool found = false;
    for (uint32_t i = 0; i < n; i++) found |= same_key(given, keys[i]);
    return found;
}

static str key_of(const http_request *r)
{
    str key = http_header_of(r, "authorization");
    if (key.len > 7 && strncasecmp(key.ptr, "bearer ", 7) == 0) {
        key.ptr += 7;
        key.len -= 7;
        while (key.len > 0 && key.ptr[0] == ' ') {
            key.ptr++;
            key.len--;
        }
        return key;
    }
    return http_header_of(r, "x-api-key");
}

exchange_rank gate_rank(const gate *g, const http_request *r)
{
    const server_options *o = g->options;
    str key = key_of(r);
    if (any_key(key, o->admin_keys, o->n_admin_keys)) return RANK_ADMIN;
    exchange_rank user = o->n_admin_keys == 0 ? RANK_ADMIN : RANK_USER;
    if (o->n_keys == 0) return user;
    return any_key(key, o->keys, o->n_keys) ? user : RANK_NONE;
}

/* Without the port. */
static str host_name(str host)
{
    if (host.len > 0 && host.ptr[0] == '[') {
        const char *end = memchr(host.ptr, ']', host.len);
        return end == NULL ? host : (str){host.ptr, (size_t)(end - host.ptr) + 1};
    }
    const char *colon = memchr(host.ptr, ':', host.len);
    return colon == NULL ? host : (str){host.ptr, (size_t)(colon - host.ptr)};
}

static bool same_name(str name, const char *text)
{
    return name.len == strlen(text) && strncasecmp(name.ptr, text, name.len) == 0;
}

static bool is_number(str name)
{
    size_t n_dots = 0;
    for (size_t i = 0; i < name.len; i++) {
        n_dots += name.ptr[i] == '.';
        if (name.ptr[i] != '.' && (name.ptr[i] < '0' || name.ptr[i] > '9')) return false;
    }
    return n_dots == 3;
}

bool gate_knows_host(const gate *g, const http_request *r)
{
    const server_options *o = g->options;
    str host = http_header_of(r, "host");
    if (host.ptr == NULL) return true; /* HTTP/1.0; no browser */
    str name = host_name(host);
    for (uint32_t i = 0; i < o->n_hosts; i++) {
        if (strcmp(o->hosts[i], "*") == 0 || same_name(name, o->hosts[i])) return true;
    }
    /* A number is no name that could be made to point elsewhere. */
    if (is_number(name) || (name.len > 0 && name.ptr[0] == '[')) return true;
    if (same_name(name, "localhost") || same_name(name, o->host)) return true;
    return !g->loopback && o->n_hosts == 0;
}

bool gate_knows_origin(const gate *g, const http_request *r, str *allow)
{
    static const char ANY[] = "*";
    const server_options *o = g->options;
    str origin = http_header_of(r, "origin");
    *allow = (str){"", 0};
    if (origin.ptr == NULL) return true;
    for (uint32_t i = 0; i < o->n_origins; i++) {
        if (strcmp(o->origins[i], "*") == 0) {
            *allow = (str){ANY, 1};
            return true;
        }
        if (same_name(origin, o->origins[i])) {
            *allow = origin;
            return true;
        }
    }
    /* The server's own page. */
    str host = http_header_of(r, "host");
    const char *at = origin.len > 0 ? memchr(origin.ptr, '/', origin.len) : NULL;
    size_t n_scheme = at == NULL ? 0 : (size_t)(at - origin.ptr) + 2;
    if (at == NULL || n_scheme > origin.len) return false;
    str own = {origin.ptr + n_scheme, origin.len - n_scheme};
    return host.len > 0 && own.len == host.len && strncasecmp(own.ptr, host.ptr, own.len) == 0;
}
