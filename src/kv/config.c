/* config.c - from layers and a codec spec to geometries. */
#include "kv/config.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

static weft_status unknown_codec(const char *name, size_t n, weft_error *err)
{
    char known[128] = "";
    size_t used = 0;
    size_t count;
    const kv_codec *table = kv_codec_table(&count);
    for (size_t i = 0; i < count && used < sizeof known; i++) {
        int m =
            snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ", table[i].name);
        used += m < 0 ? 0 : (size_t)m;
    }
    return err_set(err, WEFT_ARGUMENT, "unknown kv codec '%.*s', expected one of %s",
                   (int)(n < 64 ? n : 64), name, known);
}

/* One piece of a spec: [side=]name. */
static weft_status parse_piece(const char *piece, size_t n, kv_spec *spec, weft_error *err)
{
    bool k = true;
    bool v = true;
    const char *equals = memchr(piece, '=', n);
    const char *name = piece;
    size_t name_n = n;
    if (equals != NULL) {
        k = equals - piece == 1 && piece[0] == 'k';
        v = equals - piece == 1 && piece[0] == 'v';
        if (!k && !v) {
            return err_set(err, WEFT_UNSUPPORTED,
                           "kv spec: '%.*s' is not supported, expected k=NAME or v=NAME",
                           (int)(n < 64 ? n : 64), piece);
        }
        name = equals + 1;
        name_n = n - (size_t)(name - piece);
    }
    const kv_codec *codec = kv_codec_by_name(name, name_n);
    if (codec == NULL) return unknown_codec(name, name_n, err);
    if ((k && spec->k != NULL) || (v && spec->v != NULL)) {
        return err_set(err, WEFT_ARGUMENT, "kv spec names a side twice");
    }
    if (k) spec->k = codec;
    if (v) spec->v = codec;
    return WEFT_OK;
}

weft_status kv_spec_parse(const char *text, const char *fallback, kv_spec *spec, weft_error *err)
{
    *spec = (kv_spec){0};
    kv_spec parsed = {0};
    const char *piece = text == NULL ? fallback : text;
    for (;;) {
        size_t n = strcspn(piece, ",");
        weft_status status = parse_piece(piece, n, &parsed, err);
        if (status != WEFT_OK) return status;
        if (piece[n] == '\0') break;
        piece += n + 1;
    }
    const kv_codec *base = kv_codec_by_name(fallback, strlen(fallback));
    spec->k = parsed.k != NULL ? parsed.k : base;
    spec->v = parsed.v != NULL ? parsed.v : base;
    return WEFT_OK;
}

void kv_spec_print(const kv_spec *spec, char *text, size_t capacity)
{
    if (spec->k == spec->v) {
        snprintf(text, capacity, "%s", spec->k->name);
    } else {
        snprintf(text, capacity, "k=%s,v=%s", spec->k->name, spec->v->name);
    }
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
    g->v_offset = size_align(k_bytes, 64);
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

weft_status kv_config_init(kv_config *c, arena *a, const kv_layer *layers, uint32_t n_layers,
                           const kv_spec *spec, const kv_bounds *bounds, weft_error *err)
{
    uint32_t p = bounds->page_tokens;
    ASSERT(p >= 16 && p <= KV_SPLIT && (p & (p - 1)) == 0);
    *c = (kv_config){.n_layers = n_layers, .bounds = *bounds};
    c->geometries = arena_array(a, n_layers, sizeof *c->geometries);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    c->layouts = arena_array(a, n_layers, sizeof *c->layouts);
    c->n_slots = arena_array(a, n_layers, sizeof *c->n_slots);
    c->class_of = arena_array(a, n_layers, sizeof *c->class_of);
    c->class_bytes = arena_array(a, n_layers, sizeof *c->class_bytes);
    if (!c->geometries || !c->layouts || !c->n_slots || !c->class_of || !c->class_bytes) {
        return err_set(err, WEFT_NOMEM, "out of memory for the state of %u layers", n_layers);
    }
    for (uint32_t i = 0; i < n_layers; i++) {
        const kv_layer *l = &layers[i];
        kv_geometry *g = &c->geometries[i];
        ASSERT(l->n_heads > 0 && l->k_dim > 0 && l->v_dim > 0);
        ASSERT((l->layout == KV_LAYOUT_WINDOW) == (l->window > 0));
        *g = (kv_geometry){.layout = l->layout,
                           .k_codec = spec->k->id,
                           .v_codec = spec->v->id,
                           .n_heads = l->n_heads,
                           .k_dim = l->k_dim,
                           .v_dim = l->v_dim,
                           .window = l->window,
                           .page_tokens = p};
        g->k_row_bytes = kv_codec_row_bytes(spec->k, l->k_dim);
        g->v_row_bytes = kv_codec_row_bytes(spec->v, l->v_dim);
        if (!page_size(g)) {
            return err_set(err, WEFT_LIMIT,
                           "layer %u: a page of %u heads of %u and %u is too large", i, l->n_heads,
                           l->k_dim, l->v_dim);
        }
        c->layouts[i] = kv_layout_by_id(l->layout);
        ASSERT(c->layouts[i] != NULL);
        c->n_slots[i] = c->layouts[i]->slots(g, bounds->context, bounds->most_append);
        c->class_of[i] = class_for(c, g->page_bytes);
        if (c->n_slots[i] > SLOTS_MOST - c->slots_total) {
            return err_set(err, WEFT_LIMIT, "%u layers of %u positions need more than %d pages",
                           n_layers, bounds->context, SLOTS_MOST);
        }
        c->slots_total += c->n_slots[i];
    }
    return WEFT_OK;
}

void kv_config_need(const kv_config *c, uint32_t n_positions, uint32_t *need)
{
    memset(need, 0, c->n_classes * sizeof *need);
    uint32_t pages =
        (uint32_t)(((uint64_t)n_positions + c->bounds.page_tokens - 1) / c->bounds.page_tokens);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        need[c->class_of[i]] += pages < c->n_slots[i] ? pages : c->n_slots[i];
    }
}

uint64_t kv_config_bytes(const kv_config *c, uint32_t n_positions)
{
    uint64_t pages = ((uint64_t)n_positions + c->bounds.page_tokens - 1) / c->bounds.page_tokens;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        uint64_t n = pages < c->n_slots[i] ? pages : c->n_slots[i];
        bytes += n * c->geometries[i].page_bytes;
    }
    return bytes;
}
