/* kv_oracle.c - the plain model of sequence state. */
#include "support/kv_oracle.h"

#include "backend/host.h"

#include <stdlib.h>
#include <string.h>

static void *counted_alloc(backend *b, size_t n_bytes)
{
    void *page = mem_alloc(&b->memory->allocator, n_bytes);
    if (page == NULL) return NULL;
    b->held += n_bytes;
    b->n_pages++;
    if (b->held > b->most) b->most = b->held;
    return page;
}

static void counted_release(backend *b, void *block, size_t n_bytes)
{
    assert_true(b->n_pages > 0 && b->held >= n_bytes);
    b->held -= n_bytes;
    b->n_pages--;
    mem_free(&b->memory->allocator, block, n_bytes);
}

/* ---- the toy ---- */

typedef struct toy {
    uint32_t tags[TOY_TAGS], numbers[TOY_NUMBERS];
} toy;

static void toy_feed(toy *t, uint32_t layer, uint32_t tag)
{
    for (uint32_t i = 0; i + 1 < TOY_TAGS; i++) t->tags[i] = t->tags[i + 1];
    t->tags[TOY_TAGS - 1] = tag;
    for (uint32_t i = 0; i < TOY_NUMBERS; i++) {
        t->numbers[i] = t->numbers[i] * (2 * i + 3) + (tag ^ i) + layer;
    }
}

static toy toy_read(const kv_geometry *g, const unsigned char *page)
{
    toy t = {{0}, {0}};
    if (page == NULL) return t;
    memcpy(t.tags, page + g->buffers_at[KV_BUFFER_TAIL], sizeof t.tags);
    memcpy(t.numbers, page + g->buffers_at[KV_BUFFER_MATRIX], sizeof t.numbers);
    return t;
}

static void toy_write(const kv_view *view, const toy *t)
{
    memcpy(kv_fresh(view, KV_BUFFER_TAIL), t->tags, sizeof t->tags);
    memcpy(kv_fresh(view, KV_BUFFER_MATRIX), t->numbers, sizeof t->numbers);
}

static void toy_step(const kv_view *view, uint32_t layer, const uint32_t *tags, uint32_t n)
{
    toy t = toy_read(view->geometry, view->committed);
    for (uint32_t i = 0; i < n; i++) {
        toy_feed(&t, layer, tags[i]);
        if (view->record != NULL) memcpy(kv_record(view, i), &tags[i], sizeof tags[i]);
        if (view->marked == NULL || i + 1 != view->mark) continue;
        memcpy(kv_marked(view, KV_BUFFER_TAIL), t.tags, sizeof t.tags);
        memcpy(kv_marked(view, KV_BUFFER_MATRIX), t.numbers, sizeof t.numbers);
    }
    toy_write(view, &t);
}

static void toy_replay(backend *b, backend_plan *plan, uint32_t state_i, const kv_view *view,
                       uint32_t n)
{
    (void)plan;
    b->n_replays++;
    toy t = toy_read(view->geometry, view->committed);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t tag;
        memcpy(&tag, kv_record(view, i), sizeof tag);
        toy_feed(&t, state_i, tag);
    }
    toy_write(view, &t);
}

/* As if the tags of o, and n more, had been fed one by one. */
static void toy_check(const oracle_seq *o, const kv_view *view, uint32_t layer,
                      const unsigned char *page, const uint32_t *tags, uint32_t n)
{
    toy expected = {{0}, {0}};
    for (uint32_t i = 0; i < o->len; i++) toy_feed(&expected, layer, o->tags[i]);
    for (uint32_t i = 0; i < n; i++) toy_feed(&expected, layer, tags[i]);
    toy t = toy_read(view->geometry, page);
    if (memcmp(&t, &expected, sizeof t) != 0)
        fail_msg("layer %u: not the state after %u and %u tags", layer, o->len, n);
}

void oracle_check_state(const oracle_seq *o, const kv_geometry *g, uint32_t layer,
                        const unsigned char *page, uint32_t len)
{
    toy expected = {{0}, {0}};
    assert_true(len <= o->len);
    for (uint32_t i = 0; i < len; i++) toy_feed(&expected, layer, o->tags[i]);
    toy t = toy_read(g, page);
    if (memcmp(&t, &expected, sizeof t) != 0)
        fail_msg("layer %u: not the state after the first %u tags", layer, len);
}

const backend_api ORACLE_BACKEND = {.name = "oracle",
                                    .alloc = counted_alloc,
                                    .release = counted_release,
                                    .copy = host_copy,
                                    .convert = host_convert,
                                    .replay = toy_replay};

static void *zeros(size_t count, size_t size)
{
    void *block = calloc(count == 0 ? 1 : count, size);
    if (block == NULL) fail_msg("out of memory");
    return block;
}

oracle_seq *oracle_create(const kv_layer *layers, uint32_t n_layers, uint32_t context)
{
    oracle_seq *o = zeros(1, sizeof *o);
    *o = (oracle_seq){.layers = layers, .n_layers = n_layers, .context = context};
    o->tags = zeros(context, sizeof *o->tags);
    o->live = zeros((size_t)n_layers * context, sizeof *o->live);
    return o;
}

oracle_seq *oracle_clone(const oracle_seq *o)
{
    oracle_seq *copy = oracle_create(o->layers, o->n_layers, o->context);
    copy->len = o->len;
    copy->cross_len = o->cross_len;
    copy->cross_tag = o->cross_tag;
    memcpy(copy->tags, o->tags, o->context * sizeof *o->tags);
    memcpy(copy->live, o->live, (size_t)o->n_layers * o->context * sizeof *o->live);
    return copy;
}

void oracle_destroy(oracle_seq *o)
{
    if (o == NULL) return;
    free(o->tags);
    free(o->live);
    free(o);
}

static bool is_toy(const oracle_seq *o, uint32_t layer)
{
    return o->layers[layer].layout == KV_LAYOUT_RECURRENT;
}

static bool is_cross(const oracle_seq *o, uint32_t layer)
{
    return o->layers[layer].layout == KV_LAYOUT_CROSS;
}

static bool *live_at(const oracle_seq *o, uint32_t layer, uint32_t position)
{
    return &o->live[(size_t)layer * o->context + position];
}

static bool sees(const kv_layer *l, uint32_t query, uint32_t position)
{
    if (position > query) return false;
    if (l->layout == KV_LAYOUT_CHUNKED) return query / l->window == position / l->window;
    return l->layout != KV_LAYOUT_WINDOW || query - position < l->window;
}

void oracle_commit(oracle_seq *o, const uint32_t *tags, uint32_t keep)
{
    assert_true(keep <= o->context - o->len);
    for (uint32_t i = 0; i < keep; i++) {
        o->tags[o->len + i] = tags[i];
        for (uint32_t l = 0; l < o->n_layers; l++) *live_at(o, l, o->len + i) = !is_cross(o, l);
    }
    o->len += keep;
    for (uint32_t l = 0; l < o->n_layers; l++) {
        const kv_layer *layer = &o->layers[l];
        if (is_toy(o, l) || is_cross(o, l)) continue;
        for (uint32_t p = 0; p < o->len; p++) {
            /* A window keeps one position more than the next query sees. */
            bool kept = sees(layer, o->len, p);
            if (layer->layout == KV_LAYOUT_WINDOW) kept = o->len - p <= layer->window;
            if (!kept) *live_at(o, l, p) = false;
        }
    }
}

bool oracle_can_trim(const oracle_seq *o, uint32_t m)
{
    if (m == 0 || m == o->len) return true;
    for (uint32_t l = 0; l < o->n_layers; l++) {
        if (is_toy(o, l)) return false;
        if (is_cross(o, l)) continue;
        for (uint32_t p = 0; p <= m; p++) {
            if (sees(&o->layers[l], m, p) && !*live_at(o, l, p)) return false;
        }
    }
    return true;
}

void oracle_trim(oracle_seq *o, uint32_t m)
{
    for (uint32_t l = 0; l < o->n_layers; l++) {
        for (uint32_t p = m; p < o->len; p++) *live_at(o, l, p) = false;
    }
    o->len = m;
}

uint32_t oracle_first(const oracle_seq *o, uint32_t layer)
{
    if (is_toy(o, layer)) return o->len;
    if (is_cross(o, layer)) return 0;
    uint32_t p = 0;
    while (p < o->len && !*live_at(o, layer, p)) p++;
    return p;
}

uint64_t oracle_bytes(const oracle_seq *o, const kv_config *config, bool converted)
{
    const kv_geometry *g = converted ? config->geometries : config->bases;
    uint64_t bytes = 0;
    uint32_t size = config->bounds.page_tokens;
    for (uint32_t l = 0; l < o->n_layers; l++) {
        if (is_toy(o, l)) {
            if (o->len > 0) bytes += g[l].page_bytes;
            continue;
        }
        if (is_cross(o, l)) {
            uint32_t pages = (o->cross_len + size - 1) / size;
            bytes += pages * g[l].page_bytes;
            continue;
        }
        for (uint32_t page = 0; page * size < o->len; page++) {
            /* A partly filled one stays, although nothing that it holds may live. */
            bool held = (page + 1) * size > o->len;
            for (uint32_t p = page * size; p < o->len && p < (page + 1) * size; p++) {
                held = held || *live_at(o, l, p);
            }
            if (held) bytes += g[l].page_bytes;
        }
    }
    return bytes;
}

/* Number i of a row: differs by tag, layer, head, side and place; exact in every dense type. */
static float number(uint32_t tag, uint32_t layer, uint32_t row, uint32_t side, uint32_t i)
{
    uint32_t x = tag * 2654435761u + layer * 40503u + row * 9176u + side * 77u + i * 31u;
    x ^= x >> 15;
    return (float)((int)((x * 2246822519u >> 20) % 511) - 255) / 16.0F;
}

enum { ROW_MOST = 256, PAGE_MOST = 1 << 18 };

static void fill_rows(float *x, uint32_t n_heads, uint32_t dim, uint32_t tag, uint32_t layer,
                      uint32_t side)
{
    assert_true(n_heads * dim <= ROW_MOST);
    for (uint32_t h = 0; h < n_heads; h++) {
        for (uint32_t i = 0; i < dim; i++) x[h * dim + i] = number(tag, layer, h, side, i);
    }
}

/* As a run stores it. */
static void write_position(const kv_view *view, uint32_t layer, uint32_t position, uint32_t tag)
{
    const kv_geometry *g = view->geometry;
    float k[ROW_MOST];
    float v[ROW_MOST];
    fill_rows(k, g->n_heads, g->k_dim, tag, layer, 0);
    fill_rows(v, g->n_heads, g->v_dim, tag, layer, 1);
    host_append(view, position, k, v);
}

void oracle_write(const kv_view *views, uint32_t n_layers, uint32_t len, const uint32_t *tags,
                  uint32_t n)
{
    for (uint32_t l = 0; l < n_layers; l++) {
        if (views[l].geometry->layout == KV_LAYOUT_CROSS) continue;
        assert_int_equal(views[l].len, len);
        if (views[l].geometry->layout == KV_LAYOUT_RECURRENT) {
            toy_step(&views[l], l, tags, n);
            continue;
        }
        for (uint32_t i = 0; i < n; i++) write_position(&views[l], l, len + i, tags[i]);
    }
}

void oracle_write_cross(const kv_view *views, uint32_t n_layers, uint32_t tag, uint32_t n)
{
    for (uint32_t l = 0; l < n_layers; l++) {
        if (views[l].geometry->layout != KV_LAYOUT_CROSS) continue;
        assert_int_equal(views[l].len, 0);
        for (uint32_t i = 0; i < n; i++) write_position(&views[l], l, i, tag + i);
    }
}

static void check_row(const unsigned char *row, const unsigned char *expected, size_t n_bytes,
                      uint32_t layer, uint32_t position, const char *side)
{
    if (memcmp(row, expected, n_bytes) == 0) return;
    fail_msg("layer %u, position %u: not the %s written there", layer, position, side);
}

/* The bytes of what was written for tag, in the codecs that the layer has now. */
static void check_position(const kv_view *view, uint32_t layer, uint32_t position, uint32_t tag)
{
    static unsigned char page[PAGE_MOST];
    unsigned char *pages[1] = {page};
    const kv_geometry *g = view->geometry;
    if (view->pages[(position / g->page_tokens) % view->n_slots] == NULL) {
        fail_msg("layer %u, position %u: no page", layer, position);
    }
    kv_view expected = {.geometry = g, .pages = pages, .n_slots = 1};
    assert_true(g->page_bytes <= sizeof page);
    write_position(&expected, layer, position, tag);
    for (uint32_t h = 0; h < g->n_heads; h++) {
        check_row(kv_key(view, h, position), kv_key(&expected, h, position), g->k_row_bytes, layer,
                  position, "key");
        if (!kv_has_values(g)) continue;
        check_row(kv_value(view, h, position), kv_value(&expected, h, position), g->v_row_bytes,
                  layer, position, "value");
    }
}

void oracle_check(const oracle_seq *o, const kv_view *views, const uint32_t *tags, uint32_t n)
{
    for (uint32_t l = 0; l < o->n_layers; l++) {
        if (is_cross(o, l)) {
            assert_int_equal(views[l].len, o->cross_len);
            for (uint32_t p = 0; p < o->cross_len; p++)
                check_position(&views[l], l, p, o->cross_tag + p);
            continue;
        }
        assert_int_equal(views[l].len, o->len);
        if (is_toy(o, l)) {
            toy_check(o, &views[l], l, views[l].committed, NULL, 0);
            assert_int_equal(views[l].committed == NULL, o->len == 0);
            assert_int_equal(views[l].fresh == NULL, n == 0);
            if (n > 0) toy_check(o, &views[l], l, views[l].fresh, tags, n);
            continue;
        }
        for (uint32_t p = 0; p < o->len; p++) {
            bool wanted = *live_at(o, l, p);
            /* The first query of a step sees furthest back. */
            if (n > 0 && sees(&o->layers[l], o->len, p) && !wanted) {
                fail_msg("layer %u: a query at %u sees %u, which does not live", l, o->len, p);
            }
            if (wanted) check_position(&views[l], l, p, o->tags[p]);
        }
        for (uint32_t i = 0; i < n; i++) check_position(&views[l], l, o->len + i, tags[i]);
    }
}
