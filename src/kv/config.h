/* config.h - what every layer of an engine's sequences stores: layers of the model and a codec
 * spec, turned into geometries, page classes and table sizes. */
#ifndef KV_CONFIG_H
#define KV_CONFIG_H

#include "base/arena.h"
#include "base/err.h"
#include "kv/layouts/layout.h"
#include "kv/spec.h"

enum { KV_PAGE_TOKENS = 64 };

/* Bytes of one position of a layer that the codecs can store; own: its spec, without rules. */
uint64_t kv_spec_bytes(const kv_spec *own, const kv_layer *layer);

/* Bounds a config is made for. */
typedef struct kv_bounds {
    uint32_t context;     /* most positions of a sequence */
    uint32_t most_append; /* most positions a sequence gains in one step */
    uint32_t page_tokens; /* a power of two in 16..256 */
    uint32_t most_verify; /* most positions of a step of which a part may be kept; 0: all or none */
    bool marks;           /* steps may be asked for a state they pass by (kv/txn.h) */
    uint32_t
        cross_context; /* most positions of a sequence's encoder; not 0 where a layer is cross */
} kv_bounds;

typedef struct kv_config {
    kv_geometry *geometries;   /* [n_layers] */
    kv_geometry *bases;        /* [n_layers], of sequences that have not reached start */
    const kv_layout **layouts; /* [n_layers] */
    uint32_t *n_slots;         /* [n_layers], of a sequence as long as the context */
    uint32_t *class_of;        /* [n_layers], index of its page size */
    uint32_t *base_class_of;   /* [n_layers] */
    uint32_t *record_class_of; /* [n_layers], of recurrent ones where bounds have most_verify */
    size_t *class_bytes;       /* [n_classes], ascending by first use; NULL once renumbered */
    float *row;                /* [the longest row], for conversion; NULL without start */
    uint32_t n_layers, n_classes;
    uint32_t n_recurrent, n_cross; /* layers */
    uint32_t slots_total;          /* sum of n_slots */
    uint32_t start;                /* as in kv_spec */
    kv_bounds bounds;
} kv_config;

/* Everything lives in a, NOMEM otherwise; UNSUPPORTED and ARGUMENT as kv_spec_check, LIMIT when a
 * page or the pages of a sequence cannot be counted. */
weft_status kv_config_init(kv_config *c, arena *a, const kv_layer *layers, uint32_t n_layers,
                           const kv_spec *spec, const kv_bounds *bounds, weft_error *err);

/* Pages of each class that a sequence of at most n_positions ever holds: need [n_classes] in its
 * codecs, base [n_classes] before it reaches start, beside them until it has. Those of cross layers
 * are not among them. */
void kv_config_need(const kv_config *c, uint32_t n_positions, uint32_t *need, uint32_t *base);

/* Classes get other numbers, in all there are n of them: map [n_classes]. */
void kv_config_renumber(kv_config *c, const uint32_t *map, uint32_t n);

/* Slots of a layer's table in a sequence of at most n_positions. */
uint32_t kv_config_slots(const kv_config *c, uint32_t layer, uint32_t n_positions);

/* Whether a layer keeps every position that it was given. */
static inline bool kv_keeps_all(const kv_config *c, uint32_t layer)
{
    uint8_t layout = c->geometries[layer].layout;
    return layout == KV_LAYOUT_FULL || layout == KV_LAYOUT_LATENT || layout == KV_LAYOUT_INDEX;
}

/* Pages of each class that cross layers hold of n_positions of an encoder. */
void kv_config_need_cross(const kv_config *c, uint32_t n_positions, uint32_t *need);

static inline bool kv_is_recurrent(const kv_config *c, uint32_t layer)
{
    return c->geometries[layer].layout == KV_LAYOUT_RECURRENT;
}

/* Whether a config has layers of which a sequence can begin at boundaries only. */
bool kv_needs_boundary(const kv_config *c);

/* Of a layer's pages, in codecs or still in base. */
static inline uint32_t kv_config_class(const kv_config *c, bool converted, uint32_t layer)
{
    return converted ? c->class_of[layer] : c->base_class_of[layer];
}

static inline bool kv_is_cross(const kv_config *c, uint32_t layer)
{
    return c->geometries[layer].layout == KV_LAYOUT_CROSS;
}

/* Bytes of all those pages, with an encoder of cross_context. */
uint64_t kv_config_bytes(const kv_config *c, uint32_t n_positions);

#endif
