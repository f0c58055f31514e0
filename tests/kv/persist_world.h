/* persist_world.h - a pool with a prefix cache and a place for its files: what tests of persistence
 * share. Sequences are fed tags, whose bytes the oracle knows. */
#ifndef KV_PERSIST_WORLD_H
#define KV_PERSIST_WORLD_H

#include "kv/persist.h"
#include "kv/prefix_node.h"
#include "kv/txn_world.h"

#include <stdio.h>

#include "base/rng.h"
#include "support/files.h"

enum { LONG_CONTEXT = 640, LONG_APPEND = 64 };

/* Heads that every codec takes. */
static const kv_layer FULLS[] __attribute__((unused)) = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 64, .v_dim = 32},
    {.layout = KV_LAYOUT_FULL, .n_heads = 1, .k_dim = 32, .v_dim = 96},
};

static const kv_layer LATENTS[] __attribute__((unused)) = {
    {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 80, .v_dim = 64},
    {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 40, .v_dim = 32},
};

static const kv_layer INDEXED[] __attribute__((unused)) = {
    {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 80, .v_dim = 64},
    {.layout = KV_LAYOUT_INDEX, .n_heads = 1, .k_dim = 32},
};

static const kv_layer WINDOWED[] __attribute__((unused)) = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 64, .v_dim = 32},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 32, .v_dim = 64, .window = 40},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 2, .k_dim = 32, .v_dim = 32, .window = 24},
};

static const kv_layer CHUNKED[] __attribute__((unused)) = {
    {.layout = KV_LAYOUT_CHUNKED, .n_heads = 1, .k_dim = 32, .v_dim = 64, .window = 50},
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 64, .v_dim = 32},
};

static const kv_layer HYBRIDS[] __attribute__((unused)) = {
    TOY_LAYER,
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 64, .v_dim = 32},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 32, .v_dim = 64, .window = 20},
    TOY_LAYER,
};

static const kv_layer TOYS[] __attribute__((unused)) = {TOY_LAYER, TOY_LAYER};

typedef struct shop {
    world w;
    kv_prefix *prefix;
    kv_space *space;
    kv_files store;
} shop;

static inline void shop_open_with(shop *s, const char *spec, const kv_layer *layers,
                                  uint32_t n_layers, uint32_t page_tokens, uint64_t budget,
                                  uint64_t most_bytes)
{
    kv_bounds bounds = {
        .context = LONG_CONTEXT, .most_append = LONG_APPEND, .page_tokens = page_tokens};
    weft_error err = {0};
    memset(s, 0, sizeof *s);
    world_open_with(&s->w, spec, layers, n_layers, bounds, budget);
    assert_ok(kv_prefix_create(&s->w.memory.allocator, s->w.pool, most_bytes, &s->prefix, &err),
              &err);
    s->space = kv_prefix_space(s->prefix, &s->w.config, 7);
    assert_non_null(s->space);
    s->store = (kv_files){.prefix = s->prefix, .files = io_system()};
    memset(s->store.origin.model, 1, STATE_DIGEST);
    memset(s->store.origin.tokenizer, 2, STATE_DIGEST);
    memset(s->store.origin.numerics, 3, STATE_DIGEST);
}

static inline void shop_open(shop *s, const char *spec, const kv_layer *layers, uint32_t n_layers,
                             uint32_t page_tokens)
{
    shop_open_with(s, spec, layers, n_layers, page_tokens, 1 << 26, 0);
}

static inline void shop_close(shop *s)
{
    kv_prefix_destroy(s->prefix);
    world_close(&s->w);
}

static inline kv_history tags_history(const uint32_t *tags, uint32_t n)
{
    return (kv_history){.ids = (const int32_t *)tags, .n = n};
}

static inline kv_seq *shop_seq(shop *s)
{
    kv_seq *seq;
    weft_error err = {0};
    assert_ok(
        kv_seq_create(&s->w.memory.allocator, s->w.pool, &s->w.config, LONG_CONTEXT, &seq, &err),
        &err);
    return seq;
}

/* Steps of at most `most` positions, until seq has n of tags. beside: another sequence that takes
 * part in every step with tags of its own, or NULL. */
static inline void shop_feed(shop *s, kv_seq *seq, const uint32_t *tags, uint32_t n, uint32_t most,
                             kv_seq *beside)
{
    while (seq->len < n) {
        uint32_t some = n - seq->len < most ? n - seq->len : most;
        if (some > kv_seq_most_append(seq)) some = kv_seq_most_append(seq);
        kv_txn_row rows[2] = {{.seq = seq, .n = some}, {.seq = beside, .n = 1}};
        uint32_t n_rows = beside == NULL || beside->len == beside->limit ? 1 : 2;
        kv_view views[MOST_LAYERS];
        kv_txn txn;
        weft_error err = {0};
        kv_txn_init(&txn);
        assert_ok(kv_txn_begin(&txn, rows, n_rows, &err), &err);
        for (uint32_t i = 0; i < n_rows; i++) {
            kv_seq *one = rows[i].seq;
            const uint32_t other = 90000 + one->len;
            kv_seq_views(one, views, 1);
            const uint32_t *fed = i == 0 ? tags + one->len : &other;
            oracle_write(views, s->w.config.n_layers, one->len, fed, rows[i].n);
        }
        kv_txn_commit(&txn, (const uint32_t[]){some, 1});
    }
}

/* A conversation of n tags that leaves a boundary at each of `at`, as far as the cache takes them,
 * and at its end. */
static inline void shop_converse(shop *s, const uint32_t *tags, const uint32_t *at, uint32_t n_at,
                                 uint32_t n, uint32_t most, bool in_company)
{
    kv_seq *seq = shop_seq(s);
    kv_seq *beside = in_company ? shop_seq(s) : NULL;
    for (uint32_t i = 0; i < n_at; i++) {
        shop_feed(s, seq, tags, at[i], most, beside);
        kv_history part = tags_history(tags, at[i]);
        kv_prefix_insert(s->prefix, s->space, seq, &part);
    }
    shop_feed(s, seq, tags, n, most, beside);
    kv_history all = tags_history(tags, n);
    assert_true(kv_prefix_retire(s->prefix, s->space, seq, &all));
    kv_seq_destroy(&s->w.memory.allocator, beside);
}

static inline uint32_t shop_save(shop *s, const uint32_t *tags, uint32_t n, const char *path)
{
    kv_history h = tags_history(tags, n);
    uint32_t n_saved = 0;
    weft_error err = {0};
    assert_ok(kv_save(&s->store, s->space, &h, path, &n_saved, &err), &err);
    return n_saved;
}

static inline kv_loaded shop_load(shop *s, const char *path)
{
    kv_loaded loaded;
    weft_error err = {0};
    assert_ok(kv_load(&s->store, s->space, path, &loaded, &err), &err);
    return loaded;
}

/* The file's bytes, the caller's. */
static inline file_bytes shop_read(const char *path)
{
    file_bytes bytes = {0};
    char *data;
    size_t n;
    weft_error err = {0};
    assert_ok(io_read_file(io_system(), mem_system(), path, SIZE_MAX, &data, &n, &err), &err);
    file_bytes_add(&bytes, data, n);
    mem_free(mem_system(), data, n + 1);
    return bytes;
}

/* A sequence on what there is of tags; *n: positions. */
static inline kv_seq *shop_begin(shop *s, const uint32_t *tags, uint32_t n, uint32_t *n_usable)
{
    kv_history h = tags_history(tags, n);
    kv_seq *seq;
    kv_match match;
    weft_error err = {0};
    assert_ok(kv_prefix_begin(s->prefix, s->space, &h, LONG_CONTEXT, &seq, &match, &err), &err);
    *n_usable = match.n_usable;
    return seq;
}

/* What a sequence that was fed its first tags must hold, by the oracle: rows below its firsts are
 * not asked for. */
static inline oracle_seq *shop_oracle(const shop *s, const kv_seq *seq, const uint32_t *tags)
{
    oracle_seq *o = oracle_create(s->w.layers, s->w.config.n_layers, LONG_CONTEXT);
    oracle_commit(o, tags, seq->len);
    for (uint32_t l = 0; l < s->w.config.n_layers; l++) {
        for (uint32_t at = 0; at < seq->firsts[l]; at++)
            o->live[(size_t)l * LONG_CONTEXT + at] = false;
    }
    return o;
}

static inline void shop_check(const shop *s, const kv_seq *seq, const uint32_t *tags)
{
    kv_view views[MOST_LAYERS];
    oracle_seq *o = shop_oracle(s, seq, tags);
    kv_seq_views(seq, views, 1);
    oracle_check(o, views, NULL, 0);
    oracle_destroy(o);
}

#endif
