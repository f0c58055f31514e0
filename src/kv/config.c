/* config.c - from layers and a codec spec to geometries. */
#include "kv/config.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

static weft_status unknown_codec(const char *name, size_t n, weft_error *err)
{
    char known[200] = "";
    size_t used = 0;
    size_t count;
    const kv_codec *table = kv_codec_table(&count);
    for (size_t i = 0; i < count && used < sizeof known; i++) {
        int m =
            snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ", table[i].name);
        used += m < 0 ? 0 : (size_t)m;
    }
    return err_set(err, WEFT_ARGUMENT, "unknown kv codec '%.*s', expected one of %s or turbo-kAvB",
                   (int)(n < 40 ? n : 40), name, known);
}

static const char TURBO[] = "turbo-k";
static const char START[] = "start=";

/* "turbo-kAvB": the codec of one side, whose name is its prefix and the digit. */
static weft_status turbo_side(const char *name, const char *prefix, char digit,
                              const kv_codec **codec, weft_error *err)
{
    char row[4] = {prefix[0], prefix[1], digit, '\0'};
    *codec = kv_codec_by_name(row, 3);
    if (*codec != NULL) return WEFT_OK;
    bool key = prefix[1] == 'k';
    return err_set(err, WEFT_ARGUMENT, "kv codec '%.10s': %s bits %c, expected %s", name,
                   key ? "key" : "value", digit, key ? "2, 4, 5 or 8" : "2, 3, 4, 5 or 8");
}

static bool is_turbo(const char *name, size_t n)
{
    size_t digit = sizeof TURBO - 1;
    return n == digit + 3 && memcmp(name, TURBO, digit) == 0 && name[digit] >= '0' &&
           name[digit] <= '9' && name[digit + 1] == 'v' && name[digit + 2] >= '0' &&
           name[digit + 2] <= '9';
}

/* A name by itself: a codec for both sides, or the pair of two. */
static weft_status parse_pair(const char *name, size_t n, kv_spec *pair, weft_error *err)
{
    if (is_turbo(name, n)) {
        size_t digit = sizeof TURBO - 1;
        weft_status status = turbo_side(name, "tk", name[digit], &pair->k, err);
        if (status == WEFT_OK) status = turbo_side(name, "tv", name[digit + 2], &pair->v, err);
        return status;
    }
    const kv_codec *codec = kv_codec_by_name(name, n);
    if (codec == NULL) return unknown_codec(name, n, err);
    if (codec->sides != (KV_FOR_K | KV_FOR_V)) {
        char side = codec->sides == KV_FOR_K ? 'k' : 'v';
        return err_set(err, WEFT_ARGUMENT, "kv codec '%s' is for %s only, expected %c=%s",
                       codec->name, side == 'k' ? "keys" : "values", side, codec->name);
    }
    pair->k = pair->v = codec;
    return WEFT_OK;
}

/* The name of one side. */
static weft_status parse_side(const char *name, size_t n, uint8_t side, const kv_codec **codec,
                              weft_error *err)
{
    if (is_turbo(name, n)) {
        return err_set(err, WEFT_ARGUMENT,
                       "kv codec '%.*s' names both sides, expected t%c with a "
                       "number of bits",
                       (int)n, name, side == KV_FOR_K ? 'k' : 'v');
    }
    *codec = kv_codec_by_name(name, n);
    if (*codec == NULL) return unknown_codec(name, n, err);
    if (((*codec)->sides & side) == 0) {
        return err_set(err, WEFT_ARGUMENT, "kv codec '%s' is not for %s", (*codec)->name,
                       side == KV_FOR_K ? "keys" : "values");
    }
    return WEFT_OK;
}

/* "start=N". */
static weft_status parse_start(const char *piece, size_t n, kv_spec *spec, weft_error *err)
{
    uint64_t value = 0;
    bool digits = n > sizeof START - 1;
    for (size_t i = sizeof START - 1; i < n && digits; i++) {
        digits = piece[i] >= '0' && piece[i] <= '9';
        value = value * 10 + (uint64_t)(piece[i] - '0');
        if (value > UINT32_MAX) digits = false;
    }
    if (!digits) {
        return err_set(err, WEFT_ARGUMENT, "kv spec: '%.*s', expected start= and a number up to %u",
                       (int)(n < 64 ? n : 64), piece, UINT32_MAX);
    }
    if (spec->start != 0) return err_set(err, WEFT_ARGUMENT, "kv spec names start twice");
    spec->start = (uint32_t)value;
    return WEFT_OK;
}

/* One piece of a spec: [side=]name or start=number. */
static weft_status parse_piece(const char *piece, size_t n, kv_spec *spec, weft_error *err)
{
    if (n >= sizeof START - 1 && memcmp(piece, START, sizeof START - 1) == 0) {
        return parse_start(piece, n, spec, err);
    }
    kv_spec named = {0};
    weft_status status;
    const char *equals = memchr(piece, '=', n);
    if (equals == NULL) {
        status = parse_pair(piece, n, &named, err);
    } else if (equals - piece == 1 && (piece[0] == 'k' || piece[0] == 'v')) {
        bool key = piece[0] == 'k';
        status = parse_side(equals + 1, n - 2, key ? KV_FOR_K : KV_FOR_V, key ? &named.k : &named.v,
                            err);
    } else {
        return err_set(err, WEFT_UNSUPPORTED,
                       "kv spec: '%.*s' is not supported, expected k=NAME, v=NAME or start=N",
                       (int)(n < 64 ? n : 64), piece);
    }
    if (status != WEFT_OK) return status;
    if ((named.k != NULL && spec->k != NULL) || (named.v != NULL && spec->v != NULL)) {
        return err_set(err, WEFT_ARGUMENT, "kv spec names a side twice");
    }
    if (named.k != NULL) spec->k = named.k;
    if (named.v != NULL) spec->v = named.v;
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
    spec->base = base->id;
    spec->start = parsed.start;
    return WEFT_OK;
}

void kv_spec_print(const kv_spec *spec, char *text, size_t capacity)
{
    char start[24] = "";
    if (spec->start != 0) snprintf(start, sizeof start, ",%s%u", START, spec->start);
    if (spec->k == spec->v) {
        snprintf(text, capacity, "%s%s", spec->k->name, start);
    } else if (spec->k->kind == KV_TK && spec->v->kind == KV_TV) {
        snprintf(text, capacity, "%s%uv%u%s", TURBO, spec->k->bits, spec->v->bits, start);
    } else {
        snprintf(text, capacity, "k=%s,v=%s%s", spec->k->name, spec->v->name, start);
    }
}

static weft_status check_dim(const kv_codec *codec, uint32_t layer_i, uint32_t dim, weft_error *err)
{
    if (kv_codec_takes(codec, dim)) return WEFT_OK;
    if (dim % codec->unit != 0) {
        return err_set(err, WEFT_UNSUPPORTED,
                       "kv codec '%s': layer %u has heads of %u, not a multiple of %u", codec->name,
                       layer_i, dim, codec->unit);
    }
    return err_set(err, WEFT_UNSUPPORTED, "kv codec '%s': layer %u has heads of %u, at most %d",
                   codec->name, layer_i, dim, KV_PACKED_MOST);
}

/* Of a latent what is key and value at once is packed, once; the rest of a key, which has the
 * positions in it, stays in base. */
static uint32_t coded_columns(const kv_spec *spec, const kv_layer *l)
{
    bool part = l->layout == KV_LAYOUT_LATENT && spec->k->kind != KV_DENSE;
    return part ? l->v_dim : l->k_dim;
}

/* Turbo has a codec for either side, neither of which is good for both. */
static weft_status check_latent(const kv_spec *spec, uint32_t layer_i, weft_error *err)
{
    char name[64];
    bool turbo = spec->k->kind == KV_TK || spec->v->kind == KV_TV;
    if (!turbo && spec->k == spec->v) return WEFT_OK;
    kv_spec_print(spec, name, sizeof name);
    return err_set(err, WEFT_UNSUPPORTED,
                   "kv codec '%s': layer %u stores one latent for keys and values; use %s", name,
                   layer_i, turbo ? "affine8g64 or bf16" : "one codec for both");
}

weft_status kv_spec_check(const kv_spec *spec, const kv_layer *layers, uint32_t n_layers,
                          weft_error *err)
{
    uint32_t n_taking = 0;
    for (uint32_t i = 0; i < n_layers; i++) {
        weft_status status = WEFT_OK;
        if (layers[i].layout == KV_LAYOUT_RECURRENT) continue;
        if (layers[i].layout == KV_LAYOUT_LATENT) status = check_latent(spec, i, err);
        if (status == WEFT_OK) status = check_dim(spec->k, i, coded_columns(spec, &layers[i]), err);
        if (status == WEFT_OK) status = check_dim(spec->v, i, layers[i].v_dim, err);
        if (status != WEFT_OK) return status;
        n_taking++;
    }
    bool is_base = spec->k->id == spec->base && spec->v->id == spec->base;
    if (n_taking > 0 || is_base) return WEFT_OK;
    char text[64];
    kv_spec_print(spec, text, sizeof text);
    return err_set(err, WEFT_UNSUPPORTED, "kv codec '%s': none of %u layers stores keys and values",
                   text, n_layers);
}

/* Rows of a layer: what of a key is coded, where the rest of it begins, and sizes. */
static void measure_rows(kv_geometry *g, const kv_spec *spec, const kv_layer *l)
{
    const kv_codec *base = kv_codec_by_id(spec->base);
    g->k_coded = coded_columns(spec, l);
    g->k_tail = kv_codec_row_bytes(spec->k, spec->base, g->k_coded);
    g->k_row_bytes = g->k_tail + kv_codec_row_bytes(base, spec->base, l->k_dim - g->k_coded);
    g->v_row_bytes =
        kv_has_values(g) ? kv_codec_row_bytes(spec->v, spec->base, l->v_dim) : g->k_row_bytes;
}

uint64_t kv_spec_bytes(const kv_spec *spec, const kv_layer *layer)
{
    kv_geometry g = {.layout = layer->layout};
    measure_rows(&g, spec, layer);
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
    ASSERT(l->n_heads > 0 && l->k_dim > 0 && l->v_dim > 0);
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
    const kv_spec dense = {base, base, spec->base, 0};
    /* What an encoder writes is in its codecs at once. */
    bool cross = l->layout == KV_LAYOUT_CROSS;
    const kv_spec *before = cross ? spec : &dense;
    weft_status status = geometry_of(g, l, i, spec, c->bounds.page_tokens, err);
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

static uint32_t layer_pages(const kv_config *c, uint32_t layer, uint32_t n_positions)
{
    uint64_t p = c->bounds.page_tokens;
    uint64_t pages = (n_positions + p - 1) / p;
    return pages < c->n_slots[layer] ? (uint32_t)pages : c->n_slots[layer];
}

uint32_t kv_config_slots(const kv_config *c, uint32_t layer, uint32_t n_positions)
{
    return layer_pages(c, layer, n_positions);
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
        need[c->class_of[i]] += layer_pages(c, i, in_codecs(c, n_positions));
        base[c->base_class_of[i]] += layer_pages(c, i, in_base(c, n_positions));
    }
}

void kv_config_need_cross(const kv_config *c, uint32_t n_positions, uint32_t *need)
{
    memset(need, 0, c->n_classes * sizeof *need);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (kv_is_cross(c, i)) need[c->class_of[i]] += layer_pages(c, i, n_positions);
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
        uint64_t n = layer_pages(c, i, in_codecs(c, n_positions));
        uint64_t n_base = layer_pages(c, i, in_base(c, n_positions));
        if (kv_is_cross(c, i)) {
            n = c->n_slots[i];
            n_base = 0;
        }
        bytes += n * c->geometries[i].page_bytes + n_base * c->bases[i].page_bytes;
    }
    return bytes;
}
