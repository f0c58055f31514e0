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

static uint32_t state_list(const kv_geometry *g, kv_plane planes[KV_PLANES_MOST])
{
    static const char *const NAMES[KV_BUFFERS] = {"tail", "matrix"};
    uint32_t n = 0;
    for (uint32_t i = 0; i < KV_BUFFERS; i++) {
        if (g->buffer_bytes[i] == 0) continue;
        planes[n++] = (kv_plane){.name = NAMES[i],
                                 .id = (uint8_t)i,
                                 .codec = KV_BASE_F32,
                                 .at = g->buffers_at[i],
                                 .bytes = g->buffer_bytes[i]};
    }
    return n;
}

const kv_layout KV_LAYOUT_ROW_RECURRENT = {"recurrent", KV_LAYOUT_RECURRENT, keep, slots,
                                           state_list};
