/* config.c - from layers and a codec spec to geometries. */
#include "kv/config.h"

#include <string.h>

#include "base/assert.h"

/* Rows of a layer: what of a key is coded, where the rest of it begins, and sizes. */
static void measure_rows(kv_geometry *g, const kv_spec *spec, const kv_layer *l)
{
    const kv_codec *base = kv_codec_by_id(spec->base);
    g->k_coded = kv_coded_columns(spec, l);
    g->k_tail = kv_codec_row_bytes(spec->k, spec->base, g->k_coded);
    g->k_row_bytes = g->k_tail + kv_codec_row_bytes(base, spec->base, l->k_dim - g->k_coded);
    g->v_row_bytes =
        kv_has_values(g) ? kv_codec_row_bytes(spec->v, spec->base, l->v_dim) : g->k_row_bytes;
}

uint64_t kv_spec_bytes(const kv_spec *own, const kv_layer *layer)
{
    kv_geometry g = {.layout = layer->layout};
    measure_rows(&g, own, layer);
    return (uint64_t)layer->n_heads * (g.k_row_bytes + (kv_has_values(&g) ? g.v_row_bytes : 0));
}

/* So that a number of pages times their bytes fits 64 bits. */
enum { PAGE_BYTES_MOST = 1 << 30, SLOTS_MOST = 1 << 30 };

static bool page_size(kv_geometry *g)
{
    size_t rows;
    size_t k_bytes;
    size_t v_bytes;
    if (!size_mul(g->n_heads, g->page_tokens, &rows)) return false;
    if (!size_mul(rows, g->k_row_bytes, &k_bytes) || !size_mul(rows, g->v_row_bytes, &v_bytes))
        return false;
    if (k_bytes > PAGE_BYTES_MOST || v_bytes > PAGE_BYTES_MOST) return false;
    g->v_offset = kv_has_values(g) ? size_align(k_bytes, 64) : 0;
    g->page_bytes = g->v_offset + size_align(v_bytes, 64);
    return g->page_bytes <= PAGE_BYTES_MOST;
}

static uint32_t class_for(kv_config *c, size_t page_bytes)
{
    for (uint32_t i = 0; i < c->n_classes; i++) {
        if (c->class_bytes[i] == page_bytes) return i;
    }
    c->class_bytes[c->n_classes] = page_bytes;
    return c->n_classes++;
}

/* The geometry of a layer in the codecs of spec. */
static weft_status geometry_of(kv_geometry *g, const kv_layer *l, uint32_t layer_i,
                               const kv_spec *spec, uint32_t page_tokens, weft_error *err)
{
    ASSERT(l->n_heads > 0 && l->k_dim > 0 && (l->v_dim > 0) == (l->layout != KV_LAYOUT_INDEX));
    bool bounded = l->layout == KV_LAYOUT_WINDOW || l->layout == KV_LAYOUT_CHUNKED;
    ASSERT(bounded == (l->window > 0));
    ASSERT(l->layout != KV_LAYOUT_LATENT || l->v_dim <= l->k_dim);
    *g = (kv_geometry){.layout = l->layout,
                       .k_codec = spec->k->id,
                       .v_codec = spec->v->id,
                       .base = spec->base,
                       .n_heads = l->n_heads,
                       .k_dim = l->k_dim,
                       .v_dim = l->v_dim,
                       .window = l->window,
                       .page_tokens = page_tokens};
    measure_rows(g, spec, l);
    if (page_size(g)) return WEFT_OK;
    return err_set(err, WEFT_LIMIT, "layer %u: a page of %u heads of %u and %u is too large",
                   layer_i, l->n_heads, l->k_dim, l->v_dim);
}

/* Buffers behind one another, at multiples of 64 bytes. */
static weft_status recurrent_geometry(kv_geometry *g, const kv_layer *l, uint32_t layer_i,
                                      const kv_bounds *bounds, weft_error *err)
{
    *g = (kv_geometry){.layout = l->layout, .page_tokens = bounds->page_tokens};
    for (uint32_t i = 0; i < KV_BUFFERS; i++) {
        g->buffers_at[i] = g->page_bytes;
        uint64_t bytes = (uint64_t)l->buffers[i] * sizeof(float);
        if (bytes > PAGE_BYTES_MOST - g->page_bytes) {
            return err_set(err, WEFT_LIMIT, "layer %u: a state of %u and %u numbers is too large",
                           layer_i, l->buffers[0], l->buffers[1]);
        }
        g->buffer_bytes[i] = (size_t)bytes;
        g->page_bytes += size_align((size_t)bytes, 64);
    }
    ASSERT(g->page_bytes > 0 && l->record > 0);
    uint64_t record = (uint64_t)l->record * sizeof(float);
    uint32_t most = bounds->most_verify == 0 ? 1 : bounds->most_verify;
    if (record > PAGE_BYTES_MOST / most) {
        return err_set(err, WEFT_LIMIT,
                       "layer %u: a record of %u positions of %u numbers is too "
                       "large",
                       layer_i, most, l->record);
    }
    g->record_bytes = (size_t)record;
    return WEFT_OK;
}

static bool take_arrays(kv_config *c, arena *a, uint32_t n_layers)
{
    c->geometries = arena_array(a, n_layers, sizeof *c->geometries);
    c->bases = arena_array(a, n_layers, sizeof *c->bases);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    c->layouts = arena_array(a, n_layers, sizeof *c->layouts);
    c->n_slots = arena_array(a, n_layers, sizeof *c->n_slots);
    c->class_of = arena_array(a, n_layers, sizeof *c->class_of);
    c->base_class_of = arena_array(a, n_layers, sizeof *c->base_class_of);
    c->record_class_of = arena_array(a, n_layers, sizeof *c->record_class_of);
    c->class_bytes = arena_array(a, (size_t)2 * n_layers, sizeof *c->class_bytes);
    return c->geometries && c->bases && c->layouts && c->n_slots && c->class_of &&
           c->base_class_of && c->record_class_of && c->class_bytes;
}

static size_t record_page_bytes(const kv_config *c, uint32_t layer)
{
    return size_align(c->geometries[layer].record_bytes * c->bounds.most_verify, 64);
}

/* A recurrent layer stores the same in base as in the codecs. */
static weft_status add_recurrent(kv_config *c, const kv_layer *l, uint32_t i, weft_error *err)
{
    kv_geometry *g = &c->geometries[i];
    weft_status status = recurrent_geometry(g, l, i, &c->bounds, err);
    if (status != WEFT_OK) return status;
    c->n_recurrent++;
    c->bases[i] = *g;
    c->layouts[i] = kv_layout_by_id(l->layout);
    c->n_slots[i] = 0;
    c->class_of[i] = c->base_class_of[i] = class_for(c, g->page_bytes);
    if (c->bounds.most_verify > 0) {
        c->record_class_of[i] = class_for(c, record_page_bytes(c, i));
    }
    return WEFT_OK;
}

static weft_status add_layer(kv_config *c, const kv_layer *l, uint32_t i, const kv_spec *spec,
                             weft_error *err)
{
    kv_geometry *g = &c->geometries[i];
    const kv_codec *base = kv_codec_by_id(spec->base);
    const kv_spec dense = {.k = base, .v = base, .base = spec->base};
    kv_spec own;
    kv_spec_at(spec, l, i, c->n_layers, &own);
    /* What an encoder writes is in its codecs at once. */
    bool cross = l->layout == KV_LAYOUT_CROSS;
    const kv_spec *before = cross ? &own : &dense;
    weft_status status = geometry_of(g, l, i, &own, c->bounds.page_tokens, err);
    if (status == WEFT_OK)
        status = geometry_of(&c->bases[i], l, i, before, c->bounds.page_tokens, err);
    if (status != WEFT_OK) return status;
    ASSERT(!cross || c->bounds.cross_context > 0);
    if (cross) c->n_cross++;
    c->layouts[i] = kv_layout_by_id(l->layout);
    ASSERT(c->layouts[i] != NULL);
    uint32_t context = cross ? c->bounds.cross_context : c->bounds.context;
    c->n_slots[i] = c->layouts[i]->slots(g, context, c->bounds.most_append);
    c->class_of[i] = class_for(c, g->page_bytes);
    c->base_class_of[i] = c->class_of[i];
    if (c->start != 0) c->base_class_of[i] = class_for(c, c->bases[i].page_bytes);
    if (c->n_slots[i] > SLOTS_MOST - c->slots_total) {
        return err_set(err, WEFT_LIMIT, "%u layers of %u positions need more than %d pages",
                       c->n_layers, context, SLOTS_MOST);
    }
    c->slots_total += c->n_slots[i];
    return WEFT_OK;
}

/* What conversion needs, once the layers are known to be of sane size. */
static weft_status take_row(kv_config *c, arena *a, weft_error *err)
{
    uint32_t longest = 1;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (c->geometries[i].k_dim > longest) longest = c->geometries[i].k_dim;
        if (c->geometries[i].v_dim > longest) longest = c->geometries[i].v_dim;
    }
    c->row = arena_array(a, longest, sizeof *c->row);
    if (c->row != NULL) return WEFT_OK;
    return err_set(err, WEFT_NOMEM, "out of memory for a row of %u", longest);
}

weft_status kv_config_init(kv_config *c, arena *a, const kv_layer *layers, uint32_t n_layers,
                           const kv_spec *spec, const kv_bounds *bounds, weft_error *err)
{
    uint32_t p = bounds->page_tokens;
    ASSERT(p >= 16 && p <= KV_SPLIT && (p & (p - 1)) == 0);
    weft_status status = kv_spec_check(spec, layers, n_layers, err);
    if (status != WEFT_OK) return status;
    *c = (kv_config){.n_layers = n_layers, .bounds = *bounds, .start = spec->start};
    if (!take_arrays(c, a, n_layers)) {
        return err_set(err, WEFT_NOMEM, "out of memory for the state of %u layers", n_layers);
    }
    for (uint32_t i = 0; i < n_layers && status == WEFT_OK; i++) {
        status = layers[i].layout == KV_LAYOUT_RECURRENT ? add_recurrent(c, &layers[i], i, err)
                                                         : add_layer(c, &layers[i], i, spec, err);
    }
    if (status == WEFT_OK && c->start != 0) status = take_row(c, a, err);
    return status;
}

void kv_config_renumber(kv_config *c, const uint32_t *map, uint32_t n)
{
    for (uint32_t i = 0; i < c->n_layers; i++) {
        c->class_of[i] = map[c->class_of[i]];
        c->base_class_of[i] = map[c->base_class_of[i]];
        bool records = kv_is_recurrent(c, i) && c->bounds.most_verify > 0;
        if (records) c->record_class_of[i] = map[c->record_class_of[i]];
    }
    c->class_bytes = NULL;
    c->n_classes = n;
}

uint32_t kv_config_slots(const kv_config *c, uint32_t layer, uint32_t n_positions)
{
    uint64_t p = c->bounds.page_tokens;
    uint64_t pages = (n_positions + p - 1) / p;
    return pages < c->n_slots[layer] ? (uint32_t)pages : c->n_slots[layer];
}

bool kv_needs_boundary(const kv_config *c)
{
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (!kv_keeps_all(c, i)) return true;
    }
    return false;
}

/* Positions that a sequence of n ever holds in base, and in its codecs. */
static uint32_t in_base(const kv_config *c, uint32_t n)
{
    return n < c->start ? n : c->start;
}

static uint32_t in_codecs(const kv_config *c, uint32_t n)
{
    return n < c->start ? 0 : n;
}

/* Of a recurrent layer: what is committed, what a step makes of it, and what it marks. */
static uint32_t states_per_sequence(const kv_config *c)
{
    return c->bounds.marks ? 3 : 2;
}

void kv_config_need(const kv_config *c, uint32_t n_positions, uint32_t *need, uint32_t *base)
{
    memset(need, 0, c->n_classes * sizeof *need);
    memset(base, 0, c->n_classes * sizeof *base);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (kv_is_recurrent(c, i)) {
            need[c->class_of[i]] += states_per_sequence(c);
            if (c->bounds.most_verify > 0) need[c->record_class_of[i]]++;
            continue;
        }
        if (kv_is_cross(c, i)) continue;
        need[c->class_of[i]] += kv_config_slots(c, i, in_codecs(c, n_positions));
        base[c->base_class_of[i]] += kv_config_slots(c, i, in_base(c, n_positions));
    }
}

void kv_config_need_cross(const kv_config *c, uint32_t n_positions, uint32_t *need)
{
    memset(need, 0, c->n_classes * sizeof *need);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (kv_is_cross(c, i)) need[c->class_of[i]] += kv_config_slots(c, i, n_positions);
    }
}

uint64_t kv_config_bytes(const kv_config *c, uint32_t n_positions)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (kv_is_recurrent(c, i)) {
            bytes += states_per_sequence(c) * (uint64_t)c->geometries[i].page_bytes;
            if (c->bounds.most_verify > 0) bytes += record_page_bytes(c, i);
            continue;
        }
        uint64_t n = kv_config_slots(c, i, in_codecs(c, n_positions));
        uint64_t n_base = kv_config_slots(c, i, in_base(c, n_positions));
        if (kv_is_cross(c, i)) {
            n = c->n_slots[i];
            n_base = 0;
        }
        bytes += n * c->geometries[i].page_bytes + n_base * c->bases[i].page_bytes;
    }
    return bytes;
}
