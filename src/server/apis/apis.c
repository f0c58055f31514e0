/* apis.c - the rows as a table, the router over their routes, and failures as their clients know
 * them. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/apis/api.h"

#define SERVER_API(name) extern const server_api SERVER_API_##name;
#include "server/apis/apis.def"
#undef SERVER_API

const server_api *const SERVER_APIS[] = {
#define SERVER_API(name) &SERVER_API_##name,
#include "server/apis/apis.def"
#undef SERVER_API
};

const uint32_t N_SERVER_APIS = COUNT_OF(SERVER_APIS);

static bool path_fits(str path, const char *pattern)
{
    size_t n = strlen(pattern);
    if (n == 0 || pattern[n - 1] != '*') return str_equal_text(path, pattern);
    return path.len > n - 1 && memcmp(path.ptr, pattern, n - 1) == 0;
}

const server_route *server_api_find(str method, str path, const server_api **api,
                                    const char **other_method)
{
    *other_method = NULL;
    *api = NULL;
    bool head = str_equal_text(method, "HEAD");
    for (uint32_t i = 0; i < N_SERVER_APIS; i++) {
        for (uint32_t j = 0; j < SERVER_APIS[i]->n_routes; j++) {
            const server_route *route = &SERVER_APIS[i]->routes[j];
            if (!path_fits(path, route->path)) continue;
            *api = SERVER_APIS[i];
            bool fits = str_equal_text(method, route->method) ||
                        (head && strcmp(route->method, "GET") == 0);
            if (fits) return route;
            *other_method = route->method;
        }
    }
    return NULL;
}

void openai_write_error(strbuf *out, const api_error *e)
{
    uint32_t status = e->status;
    const char *type = status == 401   ? "authentication_error"
                       : status == 403 ? "permission_error"
                       : status == 404 ? "not_found_error"
                       : status == 429 ? "rate_limit_error"
                       : status >= 500 ? "server_error"
                                       : "invalid_request_error";
    strbuf_add_text(out, "{\"error\":{\"message\":");
    json_write_text(str_of(e->message), out);
    strbuf_printf(out, ",\"type\":\"%s\",\"param\":", type);
    if (e->param != NULL) {
        json_write_text(str_of(e->param), out);
    } else {
        strbuf_add_text(out, "null");
    }
    strbuf_printf(out, ",\"code\":%u}}", status);
}

void server_api_write_error(const server_api *api, strbuf *out, const api_error *e)
{
    if (api != NULL) {
        api->write_error(out, e);
    } else {
        openai_write_error(out, e);
    }
}

void exchange_fail(exchange *x, uint32_t status, const char *param, const char *message)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    api_error e = {status, param, message, x->number};
    server_api_write_error(x->api, &out, &e);
    exchange_respond_with(x, status, "", "application/json", (str){strbuf_text(&out), out.len});
    strbuf_deinit(&out);
}

uint32_t http_status_of(weft_status status)
{
    switch (status) {
    case WEFT_FORMAT:
    case WEFT_UNSUPPORTED:
    case WEFT_ARGUMENT:
    case WEFT_LIMIT:
        return 400;
    case WEFT_NOMEM:
        return 503;
    default:
        return 500;
    }
}

void exchange_respond_buf(exchange *x, uint32_t status, const char *type, strbuf *out)
{
    if (out->status == WEFT_OK) {
        exchange_respond(x, status, type, (str){strbuf_text(out), out->len});
    } else {
        exchange_fail(x, 503, NULL, "out of memory for the answer");
    }
    strbuf_deinit(out);
}
