/* window.c - a query at p sees [p - W + 1, p]; the newest W positions are kept.
 *
 * W, not W - 1: the next query needs W - 1 old ones, but views and extracts see the newest W. Page
 * j lies in slot j mod R with R = ceil((W + Q) / P) + 1, Q the most a step appends: since pages are
 * given back at commit only, a step never writes onto a page that one of its queries still sees. */
#include "kv/layouts/layout.h"

static uint32_t keep(const kv_geometry *g, uint32_t len)
{
    return len > g->window ? len - g->window : 0;
}

static uint32_t slots(const kv_geometry *g, uint32_t context, uint32_t most_append)
{
    uint64_t span = (uint64_t)g->window + most_append;
    uint64_t ring = (span + g->page_tokens - 1) / g->page_tokens + 1;
    uint64_t all = ((uint64_t)context + g->page_tokens - 1) / g->page_tokens;
    return (uint32_t)(ring < all ? ring : all);
}

const kv_layout KV_LAYOUT_ROW_WINDOW = {"window", KV_LAYOUT_WINDOW, keep, slots};
