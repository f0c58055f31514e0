/* chunked.c - positions are cut into chunks of C: a query at p sees its own, [p - p mod C, p], and
 * the chunk that the next position falls into is kept: nothing, when that begins a new one. */
#include "kv/layouts/spans.h"

static uint32_t keep(const kv_geometry *g, uint32_t len)
{
    return len - len % g->window;
}

const kv_layout KV_LAYOUT_ROW_CHUNKED = {"chunked", KV_LAYOUT_CHUNKED, keep, kv_slots_ring,
                                         kv_list_pair};
