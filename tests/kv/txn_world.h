/* txn_world.h - a pool with sequences beside their oracles: what tests of transactions share. */
#ifndef KV_TXN_WORLD_H
#define KV_TXN_WORLD_H

#include "kv/cross.h"
#include "support/kv_oracle.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { MOST_LAYERS = 12, MOST_ROWS = 6 };

/* A pool with what it needs. */
typedef struct world {
    fault_allocator memory;
    struct backend pages;
    arena arena;
    kv_config config;
    kv_pool *pool;
    const kv_layer *layers;
} world;

static inline kv_spec spec_of(const char *text)
{
    kv_spec spec;
    weft_error err = {0};
    assert_ok(kv_spec_parse(text, "f32", &spec, &err), &err);
    return spec;
}

static inline void world_open_with(world *w, const char *spec_text, const kv_layer *layers,
                                   uint32_t n_layers, kv_bounds bounds, uint64_t budget)
{
    weft_error err = {0};
    fault_allocator_init(&w->memory, 0);
    w->pages = (struct backend){.memory = &w->memory};
    arena_init(&w->arena, &w->memory.allocator, 0);
    kv_spec spec = spec_of(spec_text);
    assert_ok(kv_config_init(&w->config, &w->arena, layers, n_layers, &spec, &bounds, &err), &err);
    w->layers = layers;
    assert_ok(kv_pool_create(&w->memory.allocator, &ORACLE_BACKEND, &w->pages, &w->config, budget,
                             &w->pool, &err),
              &err);
}

static inline void world_open(world *w, const kv_layer *layers, uint32_t n_layers, kv_bounds bounds,
                              uint64_t budget)
{
    world_open_with(w, "bf16", layers, n_layers, bounds, budget);
}

/* KV-6: references and pool return to 0. */
static inline void world_close(world *w)
{
    assert_int_equal(kv_pool_bytes_taken(w->pool), 0);
    assert_int_equal(kv_pool_bytes_reserved(w->pool), 0);
    kv_pool_destroy(w->pool);
    assert_int_equal(w->pages.n_pages, 0);
    assert_int_equal(w->pages.held, 0);
    arena_deinit(&w->arena);
    fault_allocator_check(&w->memory);
}

/* A sequence beside its oracle. */
typedef struct pair {
    kv_seq *seq;
    oracle_seq *oracle;
    bool converted; /* whether it has reached start */
    uint32_t mark;  /* positions at which its marked states must stand; 0: there must be none */
    uint32_t cross_limit; /* promised positions of its encoder */
} pair;

static inline pair pair_create(world *w, uint32_t n_positions)
{
    weft_error err = {0};
    pair p = {NULL, NULL, false, 0, w->config.bounds.cross_context};
    assert_ok(kv_seq_create(&w->memory.allocator, w->pool, &w->config, n_positions, &p.seq, &err),
              &err);
    p.oracle = oracle_create(w->layers, w->config.n_layers, w->config.bounds.context);
    return p;
}

static inline void pair_destroy(world *w, pair *p)
{
    kv_seq_destroy(&w->memory.allocator, p->seq);
    oracle_destroy(p->oracle);
    *p = (pair){NULL, NULL, false, 0, 0};
}

/* T-1, KV-18: exactly the pages of live positions are held. */
static inline void check_pages(const kv_config *c, const pair *p)
{
    kv_view views[MOST_LAYERS];
    kv_seq_views(p->seq, views, 1);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        uint32_t first = oracle_first(p->oracle, l);
        assert_int_equal(p->seq->firsts[l], p->seq->len == 0 ? 0 : first);
        uint32_t len = kv_is_cross(c, l) ? p->oracle->cross_len : p->seq->len;
        uint32_t end = (len + c->bounds.page_tokens - 1) / c->bounds.page_tokens;
        uint32_t n_held = 0;
        for (uint32_t i = 0; i < views[l].n_slots; i++) n_held += views[l].pages[i] != NULL;
        if (kv_is_recurrent(c, l)) {
            assert_true(n_held == 0 && views[l].fresh == NULL && views[l].record == NULL);
            assert_null(views[l].marked);
            continue;
        }
        assert_int_equal(n_held, end - first / c->bounds.page_tokens);
    }
}

static inline void check_marks(const kv_config *c, const pair *p)
{
    assert_int_equal(p->seq->mark_at, p->mark);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const kv_page *page = kv_seq_marked(p->seq, l);
        assert_int_equal(page != NULL, p->mark > 0 && kv_is_recurrent(c, l));
        if (page != NULL) oracle_check_state(p->oracle, &c->geometries[l], l, page->at, p->mark);
    }
}

static inline void pair_check(world *w, const pair *p)
{
    kv_view views[MOST_LAYERS];
    assert_int_equal(p->seq->len, p->oracle->len);
    kv_seq_views(p->seq, views, 1);
    oracle_check(p->oracle, views, NULL, 0);
    check_pages(&w->config, p);
    check_marks(&w->config, p);
}

/* One row of n tags, keep of them kept, with a mark or none, and the oracle following. */
static inline void advance_marked(world *w, pair *p, const uint32_t *tags, uint32_t n,
                                  uint32_t keep, uint32_t mark)
{
    kv_txn txn;
    kv_view views[MOST_LAYERS];
    weft_error err = {0};
    kv_txn_init(&txn);
    kv_txn_row row = {p->seq, n, keep > 0 && keep < n, mark};
    assert_ok(kv_txn_begin(&txn, &row, 1, &err), &err);
    kv_seq_views(p->seq, views, 1);
    oracle_write(views, w->config.n_layers, p->seq->len, tags, n);
    oracle_check(p->oracle, views, tags, n);
    kv_txn_commit(&txn, &keep);
    p->mark = mark > 0 && keep >= mark ? p->oracle->len + mark : 0;
    oracle_commit(p->oracle, tags, keep);
    pair_check(w, p);
}

static inline void advance(world *w, pair *p, const uint32_t *tags, uint32_t n, uint32_t keep)
{
    advance_marked(w, p, tags, n, keep, 0);
}

static const kv_layer TWO_LAYERS[] __attribute__((unused)) = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 3, .v_dim = 2},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 2, .v_dim = 5, .window = 8},
};

static const kv_layer HYBRID[] __attribute__((unused)) = {
    TOY_LAYER,
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 3, .v_dim = 2},
    TOY_LAYER,
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 2, .v_dim = 5, .window = 8},
};

static inline void fill_tags(uint32_t *tags, uint32_t n, uint32_t first)
{
    for (uint32_t i = 0; i < n; i++) tags[i] = first + i;
}

/* Every byte of a sequence's live positions, layer by layer; returns how many. */
static inline size_t dump(const pair *p, uint32_t n_layers, unsigned char *bytes)
{
    kv_view views[MOST_LAYERS];
    size_t n = 0;
    kv_seq_views(p->seq, views, 1);
    for (uint32_t l = 0; l < n_layers; l++) {
        const kv_geometry *g = views[l].geometry;
        if (views[l].committed != NULL) {
            memcpy(bytes + n, kv_committed(&views[l], KV_BUFFER_TAIL), TOY_TAGS * 4);
            n += TOY_TAGS * 4;
            memcpy(bytes + n, kv_committed(&views[l], KV_BUFFER_MATRIX), TOY_NUMBERS * 4);
            n += TOY_NUMBERS * 4;
        }
        uint32_t len = g->layout == KV_LAYOUT_CROSS ? p->seq->cross_len : p->seq->len;
        for (uint32_t at = p->seq->firsts[l]; at < len; at++) {
            for (uint32_t h = 0; h < g->n_heads; h++) {
                memcpy(bytes + n, kv_key(&views[l], h, at), g->k_row_bytes);
                n += g->k_row_bytes;
                if (!kv_has_values(g)) continue;
                memcpy(bytes + n, kv_value(&views[l], h, at), g->v_row_bytes);
                n += g->v_row_bytes;
            }
        }
    }
    return n;
}

enum { DUMP_BYTES = 1 << 16 };

#endif
