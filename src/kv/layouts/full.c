/* full.c - every position is kept: a query at p sees [0, p]. */
#include "kv/layouts/spans.h"

static uint32_t keep(const kv_geometry *g, uint32_t len)
{
    (void)g;
    (void)len;
    return 0;
}

static uint32_t slots(const kv_geometry *g, uint32_t context, uint32_t most_append)
{
    (void)most_append;
    return kv_slots_all(g, context);
}

const kv_layout KV_LAYOUT_ROW_FULL = {"full", KV_LAYOUT_FULL, keep, slots, kv_list_pair};
