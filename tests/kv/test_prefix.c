/* test_prefix.c - what is found again by its tokens: named cases, and random conversations against
 * the plain model of support/kv_oracle.h and a search that tries everything. */
#include "kv/prefix_node.h"
#include "kv/txn_world.h"

#include <stdio.h>

#include "base/rng.h"

enum { CONTEXT = 300, MOST_APPEND = 64 };

static const kv_layer FULL[] = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 3, .v_dim = 2},
    {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 7, .v_dim = 5},
    {.layout = KV_LAYOUT_INDEX, .n_heads = 1, .k_dim = 6},
};

static const kv_layer WINDOWS[] = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 3, .v_dim = 2},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 2, .v_dim = 5, .window = 8},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 1, .v_dim = 1, .window = 40},
};

static const kv_layer CHUNKS[] = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 3, .v_dim = 2},
    {.layout = KV_LAYOUT_CHUNKED, .n_heads = 1, .k_dim = 2, .v_dim = 5, .window = 24},
};

static const kv_layer MIXED[] = {
    TOY_LAYER,
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 3, .v_dim = 2},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 2, .v_dim = 5, .window = 20},
    TOY_LAYER,
};

static const kv_layer RECURRENT[] = {TOY_LAYER, TOY_LAYER};

/* A world with a cache, and conversations of it. */
typedef struct cached {
    world w;
    kv_prefix *prefix;
    kv_space *space;
} cached;

static void cached_open(cached *c, const char *spec, const kv_layer *layers, uint32_t n_layers,
                        uint32_t page_tokens, uint64_t budget)
{
    kv_bounds bounds = {.context = CONTEXT, .most_append = MOST_APPEND, .page_tokens = page_tokens};
    weft_error err = {0};
    world_open_with(&c->w, spec, layers, n_layers, bounds, budget);
    assert_ok(kv_prefix_create(&c->w.memory.allocator, c->w.pool, 0, &c->prefix, &err), &err);
    c->space = kv_prefix_space(c->prefix, &c->w.config, 1);
    assert_non_null(c->space);
    assert_ptr_equal(kv_prefix_space(c->prefix, &c->w.config, 1), c->space);
}

static void cached_close(cached *c)
{
    kv_prefix_destroy(c->prefix);
    world_close(&c->w);
}

static kv_history history_of(const uint32_t *tags, uint32_t n)
{
    return (kv_history){.ids = (const int32_t *)tags, .n = n};
}

/* Begins with what is found, and holds it against the oracle; false where there is no room. */
static bool try_begin(cached *c, pair *p, const uint32_t *tags, uint32_t n, uint32_t n_positions,
                      kv_match *match)
{
    *p = (pair){.seq = NULL};
    kv_history h = history_of(tags, n);
    kv_match before;
    weft_error err = {0};
    kv_prefix_match(c->space, &h, &before);
    weft_status status =
        kv_prefix_begin(c->prefix, c->space, &h, n_positions, &p->seq, match, &err);
    if (status == WEFT_LIMIT) return false;
    assert_ok(status, &err);
    assert_int_equal(before.n_equal, match->n_equal);
    if (match->limit == KV_LIMIT_ROOM) {
        assert_true(match->n_usable < before.n_usable);
    } else {
        assert_true(match->n_usable == before.n_usable && match->limit == before.limit);
    }
    assert_int_equal(p->seq->len, match->n_usable);
    p->converted = p->seq->converted;
    p->oracle = oracle_create(c->w.layers, c->w.config.n_layers, CONTEXT);
    if (match->n_usable == 0) return true;
    oracle_commit(p->oracle, tags, match->n_usable);
    for (uint32_t l = 0; l < c->w.config.n_layers; l++) {
        for (uint32_t at = 0; at < p->seq->firsts[l]; at++) {
            p->oracle->live[(size_t)l * CONTEXT + at] = false;
        }
    }
    pair_check(&c->w, p);
    return true;
}

static kv_match begin(cached *c, pair *p, const uint32_t *tags, uint32_t n, uint32_t n_positions)
{
    kv_match match;
    assert_true(try_begin(c, p, tags, n, n_positions, &match));
    return match;
}

/* Feeds the rest of tags, in steps that a sequence may take. */
static void feed(cached *c, pair *p, const uint32_t *tags, uint32_t n)
{
    while (p->seq->len < n) {
        uint32_t some = n - p->seq->len;
        uint32_t most = kv_seq_most_append(p->seq);
        if (some > most) some = most;
        advance(&c->w, p, tags + p->seq->len, some, some);
        p->converted = p->seq->converted;
    }
}

static bool insert(cached *c, const pair *p, const uint32_t *tags, uint32_t n)
{
    kv_history h = history_of(tags, n);
    return kv_prefix_insert(c->prefix, c->space, p->seq, &h);
}

static bool retire(cached *c, pair *p, const uint32_t *tags, uint32_t n)
{
    kv_history h = history_of(tags, n);
    bool ok = kv_prefix_retire(c->prefix, c->space, p->seq, &h);
    oracle_destroy(p->oracle);
    *p = (pair){0};
    return ok;
}

/* ---- named cases ----------------------------------------------------------------------------- */

/* KV-51: layers that keep all are found to the token, in whole pages and in parts of one. */
static void test_kv51_found_to_the_token(void **state)
{
    (void)state;
    for (uint32_t p_size = 16; p_size <= 64; p_size *= 4) {
        cached c;
        uint32_t tags[200];
        uint32_t other[200];
        fill_tags(tags, 200, 1);
        cached_open(&c, "bf16", FULL, 2, p_size, 1 << 20);
        pair p;
        assert_int_equal(begin(&c, &p, tags, 200, 250).n_equal, 0);
        feed(&c, &p, tags, 150);
        assert_true(retire(&c, &p, tags, 150));
        for (uint32_t m = 0; m < 200; m++) {
            memcpy(other, tags, sizeof other);
            for (uint32_t i = m; i < 200; i++) other[i] = 1000 + i;
            kv_match match = begin(&c, &p, other, 200, 250);
            assert_int_equal(match.n_usable, m < 150 ? m : 150);
            assert_int_equal(match.limit, KV_LIMIT_NONE);
            feed(&c, &p, other, 200);
            pair_destroy(&c.w, &p);
        }
        /* The last token is forwarded in any case. */
        assert_int_equal(begin(&c, &p, tags, 150, 150).n_usable, 149);
        pair_destroy(&c.w, &p);
        assert_int_equal(begin(&c, &p, tags, 1, 150).n_usable, 0);
        pair_destroy(&c.w, &p);
        cached_close(&c);
    }
}

/* A state is found where a boundary is, and only there: at the end, and where one was put. */
static void test_states_are_found_at_boundaries(void **state)
{
    (void)state;
    cached c;
    uint32_t tags[120];
    fill_tags(tags, 120, 1);
    cached_open(&c, "bf16", MIXED, 4, 16, 1 << 20);
    pair p;
    begin(&c, &p, tags, 120, 200);
    feed(&c, &p, tags, 37);
    assert_true(insert(&c, &p, tags, 37));
    /* There is no state at 30 any more. */
    assert_false(insert(&c, &p, tags, 30));
    feed(&c, &p, tags, 100);
    assert_true(retire(&c, &p, tags, 100));
    static const uint32_t USABLE[][2] = {{120, 100}, {101, 100}, {100, 37}, {38, 37}, {37, 0}};
    for (size_t i = 0; i < COUNT_OF(USABLE); i++) {
        kv_match match = begin(&c, &p, tags, USABLE[i][0], 200);
        assert_int_equal(match.n_usable, USABLE[i][1]);
        assert_int_equal(match.n_equal, USABLE[i][0] == 120 ? 100 : USABLE[i][0] - 1);
        bool all = match.n_usable == match.n_equal;
        assert_int_equal(match.limit, all ? KV_LIMIT_NONE : KV_LIMIT_RECURRENT);
        feed(&c, &p, tags, 120);
        pair_destroy(&c.w, &p);
    }
    cached_close(&c);
}

/* B18: a short conversation that has nothing to do with it does not cost a long one its place, as
 * long as both fit. KV-53: nor does it get anything from another space, or from another picture. */
static void test_kv53_spaces_and_media_are_apart(void **state)
{
    (void)state;
    cached c;
    uint32_t tags[100];
    uint64_t media[100] = {0};
    fill_tags(tags, 100, 1);
    cached_open(&c, "bf16", FULL, 2, 16, 1 << 20);
    pair p;
    begin(&c, &p, tags, 100, 200);
    feed(&c, &p, tags, 100);
    assert_true(retire(&c, &p, tags, 100));
    kv_match match;
    kv_history h = history_of(tags, 100);
    kv_space *other = kv_prefix_space(c.prefix, &c.w.config, 2);
    assert_ptr_not_equal(other, c.space);
    kv_prefix_match(other, &h, &match);
    assert_int_equal(match.n_equal, 0);
    media[40] = 77;
    h.media = media;
    kv_prefix_match(c.space, &h, &match);
    assert_int_equal(match.n_usable, 40);
    h.media = NULL;
    kv_prefix_match(c.space, &h, &match);
    assert_int_equal(match.n_usable, 99);
    cached_close(&c);
}

/* KV-36: what was converted at 30 serves nothing shorter, what was kept before serves only that. */
static void test_kv36_converted_pages_serve_no_less_than_start(void **state)
{
    (void)state;
    cached c;
    uint32_t tags[100];
    fill_tags(tags, 100, 1);
    cached_open(&c, "f32,start=30", WINDOWS, 3, 16, 1 << 20);
    pair p;
    begin(&c, &p, tags, 100, 200);
    feed(&c, &p, tags, 80);
    assert_true(retire(&c, &p, tags, 80));
    kv_match match = begin(&c, &p, tags, 30, 200);
    assert_int_equal(match.n_equal, 29);
    assert_int_equal(match.n_usable, 0);
    assert_int_equal(match.limit, KV_LIMIT_CONVERTED);
    feed(&c, &p, tags, 20);
    assert_true(insert(&c, &p, tags, 20));
    pair_destroy(&c.w, &p);
    match = begin(&c, &p, tags, 30, 200);
    assert_int_equal(match.n_usable, 20);
    assert_false(p.seq->converted);
    feed(&c, &p, tags, 100);
    pair_destroy(&c.w, &p);
    match = begin(&c, &p, tags, 81, 200);
    assert_int_equal(match.n_usable, 80);
    assert_true(p.seq->converted);
    feed(&c, &p, tags, 100);
    pair_destroy(&c.w, &p);
    cached_close(&c);
}

/* What is lent is not promised twice, is not evicted, and is paid for when it is taken back. */
static void test_lent_pages_are_paid_once(void **state)
{
    (void)state;
    cached c;
    uint32_t tags[200];
    fill_tags(tags, 200, 1);
    cached_open(&c, "bf16", FULL, 2, 16, 1 << 20);
    uint64_t whole = kv_config_bytes(&c.w.config, 160);
    uint64_t head = kv_config_bytes(&c.w.config, 96);
    pair p;
    pair q;
    begin(&c, &p, tags, 100, 160);
    feed(&c, &p, tags, 96);
    assert_int_equal(kv_pool_bytes_reserved(c.w.pool), whole);
    assert_true(retire(&c, &p, tags, 96));
    assert_int_equal(kv_pool_bytes_reserved(c.w.pool), 0);
    assert_int_equal(kv_pool_bytes_cached(c.w.pool), head);
    begin(&c, &p, tags, 100, 160);
    begin(&c, &q, tags, 100, 160);
    assert_int_equal(p.seq->len, 96);
    assert_int_equal(kv_pool_bytes_reserved(c.w.pool), 2 * (whole - head));
    kv_prefix_clear(c.prefix);
    assert_int_equal(kv_pool_bytes_cached(c.w.pool), head);
    feed(&c, &p, tags, 160);
    weft_error err = {0};
    assert_ok(kv_seq_trim(p.seq, 50, &err), &err);
    oracle_trim(p.oracle, 50);
    pair_check(&c.w, &p);
    uint64_t more = head - kv_config_bytes(&c.w.config, 48);
    assert_int_equal(kv_pool_bytes_reserved(c.w.pool), 2 * (whole - head) + more);
    feed(&c, &p, tags, 160);
    pair_check(&c.w, &q);
    pair_destroy(&c.w, &p);
    pair_destroy(&c.w, &q);
    kv_prefix_clear(c.prefix);
    assert_int_equal(kv_pool_bytes_cached(c.w.pool), 0);
    assert_int_equal(kv_pool_bytes_taken(c.w.pool), 0);
    cached_close(&c);
}

/* A budget of one sequence: it ends, is kept, and gives way to the next. B34: what is larger than
 * the room there is costs nobody else his place. */
static void test_the_cache_gives_way_to_promises(void **state)
{
    (void)state;
    cached c;
    uint32_t tags[200];
    cached_open(&c, "bf16", FULL, 2, 16, 1);
    uint64_t whole = kv_config_bytes(&c.w.config, 128);
    cached_close(&c);
    cached_open(&c, "bf16", FULL, 2, 16, whole);
    pair p;
    for (uint32_t round = 0; round < 5; round++) {
        fill_tags(tags, 200, round * 1000);
        assert_int_equal(begin(&c, &p, tags, 128, 128).n_usable, 0);
        feed(&c, &p, tags, 128);
        /* No room while it is there. */
        assert_false(insert(&c, &p, tags, 128));
        assert_true(retire(&c, &p, tags, 128));
        assert_int_equal(kv_pool_bytes_cached(c.w.pool), whole);
        /* Seven of eight pages are lent; for a copy of the last there is no room. */
        kv_match match = begin(&c, &p, tags, 128, 128);
        assert_int_equal(match.n_equal, 127);
        assert_int_equal(match.n_usable, 112);
        assert_int_equal(match.limit, KV_LIMIT_ROOM);
        feed(&c, &p, tags, 128);
        pair_destroy(&c.w, &p);
    }
    kv_prefix_stats stats;
    kv_prefix_get_stats(c.prefix, &stats);
    assert_true(stats.n_evicted > 0 && stats.n_skipped == 5);
    cached_close(&c);
}

/* KV-9: a refused allocation at any point, in any call, changes nothing that can be seen. */
static void test_kv9_refused_memory(void **state)
{
    (void)state;
    uint32_t tags[120];
    fill_tags(tags, 120, 1);
    size_t n_failed = 0;
    for (size_t at = 1;; at++) {
        cached c;
        cached_open(&c, "bf16", MIXED, 4, 16, 1 << 20);
        pair p;
        begin(&c, &p, tags, 120, 200);
        feed(&c, &p, tags, 70);
        c.w.memory.fail_at = c.w.memory.n_allocations + at;
        bool inserted = insert(&c, &p, tags, 70);
        bool hit = c.w.memory.hit;
        assert_int_equal(inserted, !hit);
        if (!hit) {
            kv_history h = history_of(tags, 120);
            kv_seq *seq = NULL;
            kv_match match;
            weft_error err = {0};
            weft_status status = kv_prefix_begin(c.prefix, c.space, &h, 200, &seq, &match, &err);
            hit = c.w.memory.hit;
            assert_status(hit ? WEFT_NOMEM : WEFT_OK, status, &err);
            kv_seq_destroy(&c.w.memory.allocator, seq);
        }
        c.w.memory.fail_at = 0;
        pair_check(&c.w, &p);
        feed(&c, &p, tags, 100);
        assert_true(retire(&c, &p, tags, 100));
        assert_int_equal(begin(&c, &p, tags, 120, 200).n_usable, 100);
        pair_destroy(&c.w, &p);
        cached_close(&c);
        if (!hit) break;
        n_failed++;
    }
    assert_true(n_failed > 15);
}

/* ---- random conversations -------------------------------------------------------------------- */

enum { N_SEQS = 5 };

typedef struct walk {
    cached c;
    pair pairs[N_SEQS];
    uint32_t plans[N_SEQS][CONTEXT]; /* what each will be fed */
    uint64_t seed, counter;
    uint32_t n_hits, n_partly, n_inserts, n_retires, n_refused, n_trims;
} walk;

static uint32_t pick(walk *k, uint32_t n)
{
    return (uint32_t)(rng_u64(k->seed, k->counter++) % n);
}

/* Conversations that often begin alike: at places a few tokens apart one of two ways is taken. */
static void make_plan(walk *k, uint32_t *plan)
{
    uint32_t way = 0;
    for (uint32_t i = 0; i < CONTEXT; i++) {
        if (i % 13 == 5 && pick(k, 4) == 0) way = way * 2 + 1;
        plan[i] = 1 + (way * 37 + i) % 100000;
    }
}

/* Whether position q of layer l is there on the way down to node. */
static bool has_position(const kv_node *node, uint32_t l, uint32_t q)
{
    uint32_t p = node->space->config->bounds.page_tokens;
    while (node->page_i != q / p) node = node->parent;
    const kv_rows *rows = &node->rows[l];
    return rows->page != NULL && q % p >= rows->first && q % p < rows->end;
}

/* KV-52: position by position, in every node. */
static bool can_begin(const kv_node *node, uint32_t m)
{
    const kv_config *c = node->space->config;
    if (node->converted && m < c->start) return false;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        if (kv_is_recurrent(c, l)) {
            bool found = false;
            for (const kv_boundary *b = node->boundaries; b != NULL; b = b->next) {
                found = found || (b->at == m && b->states[l] != NULL);
            }
            if (!found) return false;
            continue;
        }
        for (uint32_t q = kv_lowest(&c->geometries[l], m); q < m; q++) {
            if (!has_position(node, l, q)) return false;
        }
    }
    return true;
}

static uint32_t best_below(const kv_node *parent, const uint32_t *tags, uint32_t n)
{
    uint32_t best = 0;
    for (const kv_node *child = parent->child; child != NULL; child = child->next) {
        uint32_t at = child->page_i * child->space->config->bounds.page_tokens;
        uint32_t equal = 0;
        while (equal < child->n && at + equal < n && child->keys[equal] == tags[at + equal]) {
            equal++;
            if (at + equal > best && can_begin(child, at + equal)) best = at + equal;
        }
        uint32_t deeper = equal == child->n ? best_below(child, tags, n) : 0;
        if (deeper > best) best = deeper;
    }
    return best;
}

static void walk_create(walk *k, uint32_t i)
{
    uint32_t n = 2 + pick(k, CONTEXT - 2);
    uint32_t n_positions = n + pick(k, CONTEXT - n + 1);
    make_plan(k, k->plans[i]);
    kv_history h = history_of(k->plans[i], n);
    kv_match match;
    kv_prefix_match(k->c.space, &h, &match);
    uint32_t best = best_below(k->c.space->roots[0], k->plans[i], n - 1);
    uint32_t converted = best_below(k->c.space->roots[1], k->plans[i], n - 1);
    assert_int_equal(match.n_usable, best > converted ? best : converted);
    if (!try_begin(&k->c, &k->pairs[i], k->plans[i], n, n_positions, &match)) {
        k->n_refused++;
        return;
    }
    k->n_hits += match.n_usable > 0;
    k->n_partly += match.n_usable > 0 && match.n_usable < match.n_equal;
}

static void walk_feed(walk *k, uint32_t i)
{
    pair *p = &k->pairs[i];
    uint32_t left = p->seq->limit - p->seq->len;
    if (left == 0) return;
    uint32_t n = 1 + pick(k, MOST_APPEND);
    if (n > left) n = left;
    if (n > kv_seq_most_append(p->seq)) n = kv_seq_most_append(p->seq);
    uint32_t keep = pick(k, 6) == 0 ? 0 : n;
    k->c.w.memory.armed = true;
    advance(&k->c.w, p, k->plans[i] + p->seq->len, n, keep);
    k->c.w.memory.armed = false;
    p->converted = p->seq->converted;
}

static void walk_trim(walk *k, uint32_t i)
{
    pair *p = &k->pairs[i];
    uint32_t m = pick(k, p->seq->len + 1);
    weft_status status = kv_seq_trim(p->seq, m, NULL);
    if (status == WEFT_OK) {
        oracle_trim(p->oracle, m);
        k->n_trims++;
    }
    pair_check(&k->c.w, p);
}

static void walk_leave(walk *k, uint32_t i)
{
    pair *p = &k->pairs[i];
    uint32_t len = p->seq->len;
    uint32_t at = pick(k, 3) == 0 ? pick(k, len + 1) : len;
    if (pick(k, 2) == 0) {
        insert(&k->c, p, k->plans[i], at);
        pair_check(&k->c.w, p);
        k->n_inserts++;
    } else {
        retire(&k->c, p, k->plans[i], at);
        k->n_retires++;
    }
}

/* Distinct pages of sequences and nodes, in bytes. */
typedef struct census {
    const kv_page *seen[20000];
    uint32_t n;
    uint64_t bytes, cached;
} census;

static void count(census *s, const kv_page *page, size_t bytes, bool is_cached)
{
    if (page == NULL) return;
    if (is_cached) s->cached += bytes;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->seen[i] == page) return;
    }
    assert_true(s->n < COUNT_OF(s->seen));
    s->seen[s->n++] = page;
    s->bytes += bytes;
}

static void count_node(census *s, const kv_node *node)
{
    const kv_config *c = node->space->config;
    const kv_geometry *g = node->converted ? c->geometries : c->bases;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        count(s, node->rows[l].page, g[l].page_bytes, true);
        for (const kv_boundary *b = node->boundaries; b != NULL; b = b->next) {
            count(s, b->states[l], g[l].page_bytes, true);
        }
    }
    for (const kv_node *child = node->child; child != NULL; child = child->next) {
        assert_true(child->parent == node && child->n > 0);
        count_node(s, child);
    }
}

/* KV-60: every page there is belongs to someone, and is counted once. */
static void walk_check_pool(walk *k)
{
    static census s;
    s.n = 0;
    s.bytes = s.cached = 0;
    const kv_config *c = &k->c.w.config;
    for (uint32_t i = 0; i < N_SEQS; i++) {
        const kv_seq *seq = k->pairs[i].seq;
        if (seq == NULL) continue;
        const kv_geometry *g = seq->converted ? c->geometries : c->bases;
        for (uint32_t l = 0; l < c->n_layers; l++) {
            count(&s, seq->states[l].committed, g[l].page_bytes, false);
            for (uint32_t j = 0; j < seq->n_slots[l]; j++) {
                count(&s, seq->held[seq->first_slots[l] + j], g[l].page_bytes, false);
            }
        }
    }
    for (int i = 0; i < 2; i++) count_node(&s, k->c.space->roots[i]);
    kv_prefix_stats stats;
    kv_prefix_get_stats(k->c.prefix, &stats);
    assert_int_equal(kv_pool_bytes_taken(k->c.w.pool), s.bytes);
    assert_int_equal(kv_pool_bytes_cached(k->c.w.pool), s.cached);
    assert_int_equal(stats.bytes, s.cached);
    assert_true(k->c.w.pages.most <= kv_pool_budget(k->c.w.pool));
}

static void walk_run(uint64_t seed, const char *spec, const kv_layer *layers, uint32_t n_layers,
                     uint32_t page_tokens)
{
    const uint32_t n_operations = 6000;
    static walk k;
    memset(&k, 0, sizeof k);
    k.seed = seed;
    cached_open(&k.c, spec, layers, n_layers, page_tokens, 1);
    uint64_t one = kv_config_bytes(&k.c.w.config, CONTEXT);
    cached_close(&k.c);
    cached_open(&k.c, spec, layers, n_layers, page_tokens, one * (3 + seed % 3) + 777);
    for (uint32_t i = 0; i < n_operations; i++) {
        uint32_t which = pick(&k, N_SEQS);
        pair *p = &k.pairs[which];
        uint32_t what = pick(&k, 16);
        if (p->seq == NULL) {
            walk_create(&k, which);
        } else if (what == 0) {
            pair_destroy(&k.c.w, p);
        } else if (what == 1) {
            walk_trim(&k, which);
        } else if (what < 7) {
            walk_leave(&k, which);
        } else {
            walk_feed(&k, which);
        }
        if (i % 8 == 0) walk_check_pool(&k);
        if (i % 1500 == 1499) kv_prefix_clear(k.c.prefix);
    }
    for (uint32_t i = 0; i < N_SEQS; i++) pair_destroy(&k.c.w, &k.pairs[i]);
    kv_prefix_stats stats;
    kv_prefix_get_stats(k.c.prefix, &stats);
    print_message("seed %llu, %s, %u layers, pages of %u: %u hits, %u of a part, %u inserts, %u "
                  "retires, %u trims, %u refused, %llu evicted, %llu skipped\n",
                  (unsigned long long)seed, spec, n_layers, page_tokens, k.n_hits, k.n_partly,
                  k.n_inserts, k.n_retires, k.n_trims, k.n_refused,
                  (unsigned long long)stats.n_evicted, (unsigned long long)stats.n_skipped);
    assert_true(k.n_hits > 10 && k.n_retires > 200 && stats.n_evicted > 100);
    cached_close(&k.c);
}

/* KV-51, 52, 58, 59, 60 and 6. Replay a failure with WEFT_TEST_SEED=number; WEFT_TEST_ROUNDS=120 is
 * 10 million operations. */
static void test_random_conversations(void **state)
{
    (void)state;
    const char *text = getenv("WEFT_TEST_SEED");
    const char *rounds = getenv("WEFT_TEST_ROUNDS");
    uint64_t seed = text == NULL ? 20261130 : strtoull(text, NULL, 10);
    uint64_t n = 14 * (rounds == NULL ? 1 : strtoull(rounds, NULL, 10));
    print_message("WEFT_TEST_SEED=%llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < n; seed += 7, i += 7) {
        uint32_t p = i % 14 == 0 ? 16 : 64;
        walk_run(seed, "bf16", FULL, COUNT_OF(FULL), p);
        walk_run(seed + 1, "bf16", WINDOWS, COUNT_OF(WINDOWS), p);
        walk_run(seed + 2, "bf16", CHUNKS, COUNT_OF(CHUNKS), p);
        walk_run(seed + 3, "bf16", MIXED, COUNT_OF(MIXED), p);
        walk_run(seed + 4, "f32", RECURRENT, COUNT_OF(RECURRENT), p);
        walk_run(seed + 5, "f16,start=70", WINDOWS, COUNT_OF(WINDOWS), p);
        walk_run(seed + 6, "bf16,start=33", MIXED, COUNT_OF(MIXED), p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv51_found_to_the_token),
        cmocka_unit_test(test_states_are_found_at_boundaries),
        cmocka_unit_test(test_kv53_spaces_and_media_are_apart),
        cmocka_unit_test(test_kv36_converted_pages_serve_no_less_than_start),
        cmocka_unit_test(test_lent_pages_are_paid_once),
        cmocka_unit_test(test_the_cache_gives_way_to_promises),
        cmocka_unit_test(test_kv9_refused_memory),
        cmocka_unit_test(test_random_conversations),
    };
    return TEST_RUN("kv/prefix", tests);
}
