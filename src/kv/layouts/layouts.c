/* layouts.c - the rows of layouts.def. */
#include "kv/layouts/layout.h"

#define KV_LAYOUT(name, NAME) extern const kv_layout KV_LAYOUT_ROW_##NAME;
#include "kv/layouts/layouts.def"
#undef KV_LAYOUT

static const kv_layout *const LAYOUTS[] = {
#define KV_LAYOUT(name, NAME) &KV_LAYOUT_ROW_##NAME,
#include "kv/layouts/layouts.def"
#undef KV_LAYOUT
};

const kv_layout *const *kv_layout_table(uint32_t *count)
{
    *count = sizeof LAYOUTS / sizeof LAYOUTS[0];
    return LAYOUTS;
}

const kv_layout *kv_layout_by_id(uint8_t id)
{
    for (uint32_t i = 0; i < sizeof LAYOUTS / sizeof LAYOUTS[0]; i++) {
        if (LAYOUTS[i]->id == id) return LAYOUTS[i];
    }
    return NULL;
}
