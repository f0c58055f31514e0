/* recurrent.c - no positions, but a state that stands at len: the buffers of a recurrence, replaced
 * by every step (kv/txn.c). It takes no codec and needs no table. */
#include "kv/layouts/layout.h"

static uint32_t keep(const kv_geometry *g, uint32_t len)
{
    (void)g;
    return len;
}

static uint32_t slots(const kv_geometry *g, uint32_t context, uint32_t most_append)
{
    (void)g;
    (void)context;
    (void)most_append;
    return 0;
}

const kv_layout KV_LAYOUT_ROW_RECURRENT = {"recurrent", KV_LAYOUT_RECURRENT, keep, slots};
