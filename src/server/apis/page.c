/* page.c - the page to chat at /, and its files. */
#include "server/page.h"

#include <string.h>

#include "base/assert.h"
#include "server/apis/api.h"
#include "server/server_state.h"

/* The page asks with the key that its user gives it; the files themselves are no secret. */
static void handle(exchange *x)
{
    static const char HEADERS[] = "Content-Security-Policy: " PAGE_POLICY "\r\n"
                                  "Cache-Control: no-cache\r\n"
                                  "Referrer-Policy: no-referrer\r\n";
    for (uint32_t i = 0; x->server->options->page && i < n_page_files; i++) {
        const page_file *f = &page_files[i];
        if (!str_equal_text(x->in.path, f->path)) continue;
        exchange_respond_with(x, 200, HEADERS, f->type, (str){(const char *)f->bytes, f->n_bytes});
        return;
    }
    exchange_fail(x, 404, NULL, "there is nothing here");
}

static const server_route ROUTES[] = {
    {"GET", "/", ROUTE_OPEN | ROUTE_ALWAYS, handle},
    {"GET", "/page/*", ROUTE_OPEN | ROUTE_ALWAYS, handle},
};

const server_api SERVER_API_page = {.name = "page",
                                    .routes = ROUTES,
                                    .n_routes = COUNT_OF(ROUTES),
                                    .write_error = openai_write_error};
