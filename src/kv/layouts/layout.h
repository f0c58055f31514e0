/* layout.h - which positions a layer keeps, as formulas over positions, and of what its state is
 * made.
 *
 * To add a layout: NAME.c with `const kv_layout KV_LAYOUT_ROW_NAME`, a row in layouts.def, an id in
 * backend/kv_view.h, and its visible set in kv_lowest(). */
#ifndef KV_LAYOUTS_LAYOUT_H
#define KV_LAYOUTS_LAYOUT_H

#include "backend/kv_view.h"
#include "kv/codecs/codec.h"

/* A buffer of a layer's state, as it lies in a page. */
typedef struct kv_plane {
    const char *name;
    uint8_t id;       /* stable within a layout: it stands in files */
    uint8_t codec;    /* id of what its rows are stored as; of numbers: KV_BASE_F32 */
    bool by_position; /* it has n_heads times a row for each position; else it is one block */
    uint32_t n_heads;
    size_t at;    /* where it begins in a page */
    size_t bytes; /* of a head's row, or of the block */
} kv_plane;

enum { KV_PLANES_MOST = 2, KV_PLANE_KEYS = 0, KV_PLANE_VALUES = 1 };

typedef struct kv_layout {
    const char *name;
    uint8_t id;
    /* Lowest position retained when len positions are committed. */
    uint32_t (*keep)(const kv_geometry *g, uint32_t len);
    /* Slots of a table for sequences of at most context positions that grow by at most most_append
     * a step; of a cross layer context is the encoder's. */
    uint32_t (*slots)(const kv_geometry *g, uint32_t context, uint32_t most_append);
    /* Every buffer that a sequence's state in such a layer consists of, in the order of their ids;
     * returns how many. Files are made of what this says, and of nothing else. */
    uint32_t (*state_list)(const kv_geometry *g, kv_plane planes[KV_PLANES_MOST]);
} kv_layout;

/* [*count] rows. */
const kv_layout *const *kv_layout_table(uint32_t *count);

/* NULL when there is none. */
const kv_layout *kv_layout_by_id(uint8_t id);

#endif
