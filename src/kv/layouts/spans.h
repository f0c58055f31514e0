/* spans.h - what layouts that store positions share: tables of slots, for those that keep
 * everything and for those that let go, and the buffers of a page. */
#ifndef KV_LAYOUTS_SPANS_H
#define KV_LAYOUTS_SPANS_H

#include "kv/layouts/layout.h"

static inline uint64_t kv_span_pages(const kv_geometry *g, uint64_t n_positions)
{
    return (n_positions + g->page_tokens - 1) / g->page_tokens;
}

/* Nothing is let go. */
static inline uint32_t kv_keep_all(const kv_geometry *g, uint32_t len)
{
    (void)g;
    (void)len;
    return 0;
}

/* Page j lies in slot j. */
static inline uint32_t kv_slots_all(const kv_geometry *g, uint32_t context, uint32_t most_append)
{
    (void)most_append;
    return (uint32_t)kv_span_pages(g, context);
}

static inline uint32_t kv_list_keys(const kv_geometry *g, kv_plane planes[KV_PLANES_MOST])
{
    planes[0] = (kv_plane){.name = "keys",
                           .id = KV_PLANE_KEYS,
                           .codec = g->k_codec,
                           .by_position = true,
                           .n_heads = g->n_heads,
                           .at = 0,
                           .bytes = g->k_row_bytes};
    return 1;
}

static inline uint32_t kv_list_pair(const kv_geometry *g, kv_plane planes[KV_PLANES_MOST])
{
    kv_list_keys(g, planes);
    planes[1] = (kv_plane){.name = "values",
                           .id = KV_PLANE_VALUES,
                           .codec = g->v_codec,
                           .by_position = true,
                           .n_heads = g->n_heads,
                           .at = g->v_offset,
                           .bytes = g->v_row_bytes};
    return 2;
}

/* Page j lies in slot j mod R with R = ceil((W + Q) / P) + 1, Q the most a step appends: since
 * pages are given back at commit only, and at most W positions are kept, a step never writes onto
 * a page that one of its queries still sees. */
static inline uint32_t kv_slots_ring(const kv_geometry *g, uint32_t context, uint32_t most_append)
{
    uint64_t ring = kv_span_pages(g, (uint64_t)g->window + most_append) + 1;
    uint64_t all = kv_span_pages(g, context);
    return (uint32_t)(ring < all ? ring : all);
}

#endif
