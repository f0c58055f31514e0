/* layout.h - which positions a layer keeps, as formulas over positions.
 *
 * To add a layout: NAME.c with `const kv_layout KV_LAYOUT_ROW_NAME`, a row in layouts.def, an id in
 * backend/kv_view.h, and its visible set in kv_lowest(). */
#ifndef KV_LAYOUTS_LAYOUT_H
#define KV_LAYOUTS_LAYOUT_H

#include "backend/kv_view.h"

typedef struct kv_layout {
    const char *name;
    uint8_t id;
    /* Lowest position retained when len positions are committed. */
    uint32_t (*keep)(const kv_geometry *g, uint32_t len);
    /* Slots of a table for sequences of at most context positions that grow by at most most_append
     * a step; of a cross layer context is the encoder's. */
    uint32_t (*slots)(const kv_geometry *g, uint32_t context, uint32_t most_append);
} kv_layout;

/* [*count] rows. */
const kv_layout *const *kv_layout_table(uint32_t *count);

/* NULL when there is none. */
const kv_layout *kv_layout_by_id(uint8_t id);

#endif
