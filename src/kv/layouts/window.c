/* window.c - a query at p sees [p - W + 1, p]; the newest W positions are kept.
 *
 * W, not W - 1: the next query needs W - 1 old ones, but views and extracts see the newest W. */
#include "kv/layouts/spans.h"

static uint32_t keep(const kv_geometry *g, uint32_t len)
{
    return len > g->window ? len - g->window : 0;
}

const kv_layout KV_LAYOUT_ROW_WINDOW = {"window", KV_LAYOUT_WINDOW, keep, kv_slots_ring,
                                        kv_list_pair};
