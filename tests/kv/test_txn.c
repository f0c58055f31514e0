/* test_txn.c - sequences and transactions: named cases, and random operations against the plain
 * model of support/kv_oracle.h. Names cite the invariants of docs/kv.md. */
#include "kv/txn_world.h"

#include <stdio.h>

#include "base/rng.h"

static void test_kv3_chunks_of_any_size(void **state)
{
    (void)state;
    static const uint32_t SIZES[] = {1, 2, 7, 15, 16, 17, 64};
    static unsigned char whole[DUMP_BYTES];
    static unsigned char parts[DUMP_BYTES];
    kv_bounds bounds = {.context = 256, .most_append = 200, .page_tokens = 16};
    world w;
    uint32_t tags[200];
    fill_tags(tags, 200, 1000);
    world_open(&w, TWO_LAYERS, 2, bounds, 1 << 20);
    pair one = pair_create(&w, 256);
    advance(&w, &one, tags, 200, 200);
    size_t n = dump(&one, 2, whole);
    assert_true(n > 0 && n < DUMP_BYTES);
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        pair p = pair_create(&w, 256);
        for (uint32_t at = 0; at < 200; at += SIZES[i]) {
            uint32_t left = 200 - at;
            uint32_t some = left < SIZES[i] ? left : SIZES[i];
            advance(&w, &p, tags + at, some, some);
        }
        assert_int_equal(dump(&p, 2, parts), n);
        assert_memory_equal(parts, whole, n);
        pair_destroy(&w, &p);
    }
    pair_destroy(&w, &one);
    world_close(&w);
}

static void test_kv4_trim_then_append_is_never_having_appended(void **state)
{
    (void)state;
    static unsigned char a[DUMP_BYTES];
    static unsigned char b[DUMP_BYTES];
    kv_bounds bounds = {.context = 128, .most_append = 64, .page_tokens = 16};
    world w;
    uint32_t tags[128];
    fill_tags(tags, 128, 7);
    world_open(&w, TWO_LAYERS, 1, bounds, 1 << 20);
    for (uint32_t m = 0; m <= 60; m++) {
        pair p = pair_create(&w, 128);
        pair q = pair_create(&w, 128);
        weft_error err = {0};
        uint32_t wrong[60];
        fill_tags(wrong, 60, 5000);
        memcpy(wrong, tags, m * sizeof *tags);
        advance(&w, &p, wrong, 60, 60);
        assert_ok(kv_seq_trim(p.seq, m, &err), &err);
        oracle_trim(p.oracle, m);
        pair_check(&w, &p);
        advance(&w, &p, tags + m, 64, 64);
        if (m > 0) advance(&w, &q, tags, m, m);
        advance(&w, &q, tags + m, 64, 64);
        size_t n = dump(&p, 1, a);
        assert_int_equal(dump(&q, 1, b), n);
        assert_memory_equal(a, b, n);
        pair_destroy(&w, &p);
        pair_destroy(&w, &q);
    }
    world_close(&w);
}

/* A second trim must go by what the first left, not by what the length alone would keep: at 104 the
 * window of 8 holds 96.., so 103 can be resumed and 102 cannot, although 102 less than 8 behind 103
 * looks like it. */
static void test_trim_of_windows_goes_by_what_is_left(void **state)
{
    (void)state;
    kv_bounds bounds = {.context = 128, .most_append = 104, .page_tokens = 16};
    world w;
    uint32_t tags[104];
    fill_tags(tags, 104, 1);
    world_open(&w, TWO_LAYERS, 2, bounds, 1 << 20);
    pair p = pair_create(&w, 128);
    advance(&w, &p, tags, 104, 104);
    weft_error err = {0};
    assert_status(WEFT_LIMIT, kv_seq_trim(p.seq, 102, &err), &err);
    assert_message(&err, "cannot trim to 102: layer 1 keeps positions from 96");
    pair_check(&w, &p);
    err = (weft_error){0};
    assert_ok(kv_seq_trim(p.seq, 103, &err), &err);
    oracle_trim(p.oracle, 103);
    pair_check(&w, &p);
    assert_status(WEFT_LIMIT, kv_seq_trim(p.seq, 102, NULL), NULL);
    assert_ok(kv_seq_trim(p.seq, 103, &err), &err);
    advance(&w, &p, tags, 1, 1);
    assert_ok(kv_seq_trim(p.seq, 0, &err), &err);
    oracle_trim(p.oracle, 0);
    pair_check(&w, &p);
    assert_int_equal(kv_pool_bytes_taken(w.pool), 0);
    advance(&w, &p, tags, 20, 20);
    err = (weft_error){0};
    assert_status(WEFT_ARGUMENT, kv_seq_trim(p.seq, 21, &err), &err);
    assert_message(&err, "cannot trim to 21: the sequence has 20 positions");
    pair_destroy(&w, &p);
    world_close(&w);
}

/* KV-15, KV-17: windows of 8, rows that verify 4 and keep 1 to 4, from unequal lengths. */
static void test_kv15_window_shows_the_newest(void **state)
{
    (void)state;
    static const uint32_t LENGTHS[4][3] = {{0, 0, 0}, {0, 5, 7}, {2, 5, 7}, {9, 15, 21}};
    kv_bounds bounds = {.context = 256, .most_append = 32, .page_tokens = 16};
    for (size_t k = 0; k < 4; k++) {
        world w;
        pair p[3];
        uint32_t tag = 1;
        uint32_t tags[32];
        world_open(&w, TWO_LAYERS, 2, bounds, 1 << 20);
        for (int i = 0; i < 3; i++) {
            p[i] = pair_create(&w, 256);
            fill_tags(tags, LENGTHS[k][i], tag);
            tag += 32;
            if (LENGTHS[k][i] > 0) advance(&w, &p[i], tags, LENGTHS[k][i], LENGTHS[k][i]);
        }
        for (uint32_t round = 0; round < 36; round++) {
            for (uint32_t i = 0; i < 3; i++) {
                fill_tags(tags, 4, tag);
                tag += 4;
                advance(&w, &p[i], tags, 4, 1 + (round + i) % 4);
                if (round % 5 == i) advance(&w, &p[i], &tag, 1, 1);
                assert_true(oracle_first(p[i].oracle, 1) + 8 >= p[i].oracle->len);
            }
        }
        for (int i = 0; i < 3; i++) pair_destroy(&w, &p[i]);
        world_close(&w);
    }
}

/* KV-20: chunks of 16 from lengths on either side of an edge; each later step still finds the
 * whole of its chunk, and what is rejected across an edge leaves the old one as it was. */
static void test_kv20_chunks_across_their_edges(void **state)
{
    (void)state;
    static const kv_layer CHUNKED[] = {
        {.layout = KV_LAYOUT_CHUNKED, .n_heads = 2, .k_dim = 3, .v_dim = 2, .window = 16},
        {.layout = KV_LAYOUT_CHUNKED, .n_heads = 1, .k_dim = 1, .v_dim = 1, .window = 24},
    };
    static const uint32_t LENGTHS[] = {15, 16, 17, 31, 32, 33};
    for (uint32_t p_size = 16; p_size <= 64; p_size *= 4) {
        kv_bounds bounds = {.context = 256, .most_append = 40, .page_tokens = p_size};
        for (size_t i = 0; i < sizeof LENGTHS / sizeof LENGTHS[0]; i++) {
            world w;
            uint32_t tags[40];
            uint32_t tag = 100;
            world_open(&w, CHUNKED, 2, bounds, 1 << 20);
            pair p = pair_create(&w, 256);
            fill_tags(tags, LENGTHS[i], 1);
            advance(&w, &p, tags, LENGTHS[i], LENGTHS[i]);
            for (uint32_t round = 0; round < 40; round++, tag += 8) {
                fill_tags(tags, 8, tag);
                advance(&w, &p, tags, 1 + round % 8, round % 3 == 0 ? 0 : 1 + round % 8);
                uint32_t len = p.seq->len;
                assert_int_equal(oracle_first(p.oracle, 0), len - len % 16);
                assert_int_equal(oracle_first(p.oracle, 1), len - len % 24);
            }
            /* Within a chunk positions can be taken back, beyond it they are gone. */
            uint32_t least =
                p.seq->firsts[0] > p.seq->firsts[1] ? p.seq->firsts[0] : p.seq->firsts[1];
            weft_error err = {0};
            assert_status(WEFT_LIMIT, kv_seq_trim(p.seq, least - 1, &err), &err);
            err = (weft_error){0};
            assert_ok(kv_seq_trim(p.seq, least, &err), &err);
            oracle_trim(p.oracle, least);
            pair_check(&w, &p);
            advance(&w, &p, tags, 8, 8);
            pair_destroy(&w, &p);
            world_close(&w);
        }
    }
}

static void test_kv16_rejected_tokens_are_gone(void **state)
{
    (void)state;
    kv_bounds bounds = {.context = 64, .most_append = 4, .page_tokens = 16};
    world w;
    world_open(&w, TWO_LAYERS, 2, bounds, 1 << 20);
    pair p = pair_create(&w, 64);
    advance(&w, &p, (const uint32_t[]){1, 2}, 2, 2);
    advance(&w, &p, (const uint32_t[]){3, 99, 98, 97}, 4, 1);
    assert_int_equal(p.seq->len, 3);
    advance(&w, &p, (const uint32_t[]){4}, 1, 1);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(p.oracle->tags[i], i + 1);
    pair_destroy(&w, &p);
    world_close(&w);
}

static void test_kv19_a_chunk_longer_than_the_window(void **state)
{
    (void)state;
    static unsigned char a[DUMP_BYTES];
    static unsigned char b[DUMP_BYTES];
    kv_bounds bounds = {.context = 256, .most_append = 150, .page_tokens = 16};
    world w;
    uint32_t tags[150];
    fill_tags(tags, 150, 40);
    world_open(&w, TWO_LAYERS, 2, bounds, 1 << 20);
    pair p = pair_create(&w, 150);
    pair q = pair_create(&w, 150);
    advance(&w, &p, tags, 150, 150);
    for (uint32_t i = 0; i < 150; i++) advance(&w, &q, tags + i, 1, 1);
    size_t n = dump(&p, 2, a);
    assert_int_equal(dump(&q, 2, b), n);
    assert_memory_equal(a, b, n);
    pair_destroy(&w, &p);
    pair_destroy(&w, &q);
    world_close(&w);
}

/* KV-40: keep = n is a plain row; keep = 0 is a rollback. */
static void test_rollback_is_as_if_nothing_had_begun(void **state)
{
    (void)state;
    kv_bounds bounds = {.context = 256, .most_append = 64, .page_tokens = 16};
    world w;
    uint32_t tags[64];
    fill_tags(tags, 64, 3);
    world_open(&w, TWO_LAYERS, 2, bounds, 1 << 20);
    pair p = pair_create(&w, 256);
    for (uint32_t round = 0; round < 20; round++) {
        uint64_t before = kv_pool_bytes_taken(w.pool);
        kv_txn txn;
        weft_error err = {0};
        kv_txn_init(&txn);
        kv_txn_row row = {p.seq, 30 + round, false, 0};
        assert_ok(kv_txn_begin(&txn, &row, 1, &err), &err);
        kv_view views[MOST_LAYERS];
        kv_seq_views(p.seq, views, 1);
        oracle_write(views, 2, p.seq->len, tags, row.n);
        if (round % 2 == 0) {
            kv_txn_rollback(&txn);
            kv_txn_rollback(&txn);
        } else {
            kv_txn_commit(&txn, (const uint32_t[]){0});
        }
        assert_int_equal(kv_pool_bytes_taken(w.pool), before);
        pair_check(&w, &p);
        advance(&w, &p, tags + round, 5, 5);
    }
    pair_destroy(&w, &p);
    world_close(&w);
}

static void test_what_begin_refuses(void **state)
{
    (void)state;
    kv_bounds bounds = {.context = 64, .most_append = 16, .page_tokens = 16};
    world w;
    world_open(&w, TWO_LAYERS, 2, bounds, 1 << 20);
    pair p = pair_create(&w, 20);
    pair q = pair_create(&w, 64);
    kv_txn txn;
    kv_txn other;
    weft_error err = {0};
    kv_txn_init(&txn);
    kv_txn_init(&other);
    kv_txn_row none = {q.seq, 0, false, 0};
    assert_status(WEFT_LIMIT, kv_txn_begin(&txn, &none, 1, &err), &err);
    assert_message(&err, "row 0 appends 0 positions, a step takes 1 to 16");
    kv_txn_row many[] = {{q.seq, 1, false, 0}, {p.seq, 17, false, 0}};
    err = (weft_error){0};
    assert_status(WEFT_LIMIT, kv_txn_begin(&txn, many, 2, &err), &err);
    assert_message(&err, "row 1 appends 17 positions");
    kv_txn_row twice[] = {{q.seq, 1, false, 0}, {p.seq, 1, false, 0}, {q.seq, 2, false, 0}};
    err = (weft_error){0};
    assert_status(WEFT_ARGUMENT, kv_txn_begin(&txn, twice, 3, &err), &err);
    assert_message(&err, "rows 0 and 2 of a step are the same sequence");
    uint32_t tags[16] = {0};
    advance(&w, &p, tags, 16, 16);
    kv_txn_row full[] = {{q.seq, 3, false, 0}, {p.seq, 5, false, 0}};
    err = (weft_error){0};
    assert_status(WEFT_LIMIT, kv_txn_begin(&txn, full, 2, &err), &err);
    assert_message(&err, "row 1 would have 21 positions, reserved for 20");
    assert_int_equal(txn.state, KV_TXN_IDLE);
    pair_check(&w, &q);
    full[1].n = 4;
    err = (weft_error){0};
    assert_ok(kv_txn_begin(&txn, full, 2, &err), &err);
    assert_status(WEFT_ARGUMENT, kv_txn_begin(&txn, full, 2, &err), &err);
    assert_message(&err, "a step has already begun");
    err = (weft_error){0};
    assert_status(WEFT_ARGUMENT, kv_txn_begin(&other, full, 1, &err), &err);
    assert_message(&err, "row 0: the sequence is in another step");
    err = (weft_error){0};
    assert_status(WEFT_ARGUMENT, kv_seq_trim(p.seq, 3, &err), &err);
    assert_message(&err, "cannot trim a sequence inside a step");
    kv_txn_rollback(&txn);
    pair_check(&w, &p);
    pair_check(&w, &q);
    /* No rows at all are a step, too. */
    assert_ok(kv_txn_begin(&txn, NULL, 0, NULL), NULL);
    kv_txn_commit(&txn, NULL);
    pair_destroy(&w, &p);
    pair_destroy(&w, &q);
    kv_seq_destroy(&w.memory.allocator, NULL);
    world_close(&w);
}

/* 5.1: start 5, prompts of 2 and 6. */
static void test_kv_start_divides_rows(void **state)
{
    (void)state;
    world w;
    kv_bounds bounds = {.context = 64, .most_append = 16, .page_tokens = 16};
    world_open_with(&w, "f32,start=5", TWO_LAYERS, 2, bounds, 1 << 16);
    pair p = pair_create(&w, 64);
    uint32_t tags[6];
    fill_tags(tags, 6, 1);
    advance(&w, &p, tags, 2, 2);
    assert_false(p.seq->converted);
    assert_int_equal(kv_seq_most_append(p.seq), 3);
    weft_error err = {0};
    kv_txn txn;
    kv_txn_init(&txn);
    kv_txn_row row = {p.seq, 4, false, 0};
    assert_status(WEFT_LIMIT, kv_txn_begin(&txn, &row, 1, &err), &err);
    assert_message(&err, "row 0 spans position 5, where it is converted");
    uint64_t before = kv_pool_bytes_reserved(w.pool);
    pair q = {NULL, oracle_clone(p.oracle), false, 0, 0};
    err = (weft_error){0};
    assert_ok(kv_seq_clone(&w.memory.allocator, p.seq, 64, &q.seq, &err), &err);
    advance(&w, &p, tags + 2, 3, 2);
    assert_false(p.seq->converted);
    advance(&w, &p, tags + 4, 1, 1);
    assert_true(p.seq->converted && !q.seq->converted);
    assert_true(kv_pool_bytes_reserved(w.pool) < 2 * before);
    assert_status(WEFT_LIMIT, kv_seq_trim(p.seq, 4, &err), &err);
    assert_message(&err, "cannot trim to 4: the sequence was converted at 5");
    pair_check(&w, &q);
    advance(&w, &p, tags + 5, 1, 1);
    pair_destroy(&w, &q);
    pair_destroy(&w, &p);
    world_close(&w);
}

static void test_create_is_bounded(void **state)
{
    (void)state;
    kv_bounds bounds = {.context = 64, .most_append = 16, .page_tokens = 16};
    world w;
    world_open(&w, TWO_LAYERS, 2, bounds, 1 << 20);
    kv_seq *seq = (kv_seq *)&w;
    weft_error err = {0};
    assert_status(WEFT_LIMIT, kv_seq_create(&w.memory.allocator, w.pool, &w.config, 65, &seq, &err),
                  &err);
    assert_message(&err, "a sequence of 65 positions, at most 64");
    assert_null(seq);
    assert_status(WEFT_LIMIT, kv_seq_create(&w.memory.allocator, w.pool, &w.config, 0, &seq, NULL),
                  NULL);
    world_close(&w);
}

/* ---- misuse traps ---- */

static void destroy_open(void *user)
{
    world *w = user;
    pair p = pair_create(w, 64);
    kv_txn txn;
    kv_txn_init(&txn);
    kv_txn_row row = {p.seq, 1, false, 0};
    if (kv_txn_begin(&txn, &row, 1, NULL) != WEFT_OK) return;
    kv_seq_destroy(&w->memory.allocator, p.seq);
}

static void keep_too_many(void *user)
{
    world *w = user;
    pair p = pair_create(w, 64);
    kv_txn txn;
    kv_txn_init(&txn);
    kv_txn_row row = {p.seq, 3, false, 0};
    if (kv_txn_begin(&txn, &row, 1, NULL) != WEFT_OK) return;
    kv_txn_commit(&txn, (const uint32_t[]){4});
}

static void commit_idle(void *user)
{
    (void)user;
    kv_txn txn;
    kv_txn_init(&txn);
    kv_txn_commit(&txn, NULL);
}

static void test_misuse_traps(void **state)
{
    (void)state;
    kv_bounds bounds = {.context = 64, .most_append = 16, .page_tokens = 16};
    world w;
    world_open(&w, TWO_LAYERS, 2, bounds, 1 << 20);
    assert_true(test_traps(destroy_open, &w));
    assert_true(test_traps(keep_too_many, &w));
    assert_true(test_traps(commit_idle, NULL));
    world_close(&w);
}

/* ---- faults ---- */

/* KV-9: whatever fails, nothing has changed and nothing leaks. */
static weft_status fault_scenario_seq(const env *world_env, void *user, weft_error *err)
{
    bool hybrid = user != NULL;
    const kv_layer *layers = hybrid ? HYBRID : TWO_LAYERS;
    struct backend pages = {.memory = (fault_allocator *)world_env->allocator->user};
    kv_bounds bounds = {.context = 64,
                        .most_append = 16,
                        .page_tokens = 16,
                        .most_verify = hybrid ? 4 : 0,
                        .marks = hybrid};
    kv_spec spec = spec_of("f16");
    arena a;
    kv_config config;
    kv_pool *pool = NULL;
    kv_seq *seq[3] = {NULL, NULL, NULL};
    arena_init(&a, world_env->allocator, 0);
    weft_status status =
        kv_config_init(&config, &a, layers, hybrid ? COUNT_OF(HYBRID) : 2, &spec, &bounds, err);
    if (status == WEFT_OK) {
        status = kv_pool_create(world_env->allocator, &ORACLE_BACKEND, &pages, &config, 1 << 16,
                                &pool, err);
    }
    for (uint32_t i = 0; i < 3 && status == WEFT_OK; i++) {
        uint64_t reserved = kv_pool_bytes_reserved(pool);
        status = kv_seq_create(world_env->allocator, pool, &config, 20 + 20 * i, &seq[i], err);
        if (status != WEFT_OK) {
            assert_null(seq[i]);
            assert_int_equal(kv_pool_bytes_reserved(pool), reserved);
        }
    }
    kv_seq *clone = NULL;
    if (status == WEFT_OK) {
        uint64_t reserved = kv_pool_bytes_reserved(pool);
        status = kv_seq_clone(world_env->allocator, seq[1], 30, &clone, err);
        if (status != WEFT_OK) assert_int_equal(kv_pool_bytes_reserved(pool), reserved);
    }
    for (uint32_t n = 10; n <= 60 && status == WEFT_OK; n += 50) {
        uint64_t reserved = kv_pool_bytes_reserved(pool);
        status = kv_seq_resize(world_env->allocator, seq[1], n, err);
        if (status != WEFT_OK) assert_int_equal(kv_pool_bytes_reserved(pool), reserved);
        assert_int_equal(seq[1]->limit, status == WEFT_OK ? n : n == 10 ? 40 : 10);
    }
    kv_seq_destroy(world_env->allocator, clone);
    for (uint32_t i = 0; i < 3; i++) kv_seq_destroy(world_env->allocator, seq[i]);
    if (pool != NULL) assert_int_equal(kv_pool_bytes_reserved(pool), 0);
    kv_pool_destroy(pool);
    assert_int_equal(pages.n_pages, 0);
    arena_deinit(&a);
    return status;
}

static void test_kv9_faults(void **state)
{
    (void)state;
    /* A pool, its classes, two lists, 5 blocks for each sequence, and pages. */
    size_t n = fault_sweep(fault_scenario_seq, NULL);
    assert_true(n >= 30);
    int hybrid = 1;
    assert_true(fault_sweep(fault_scenario_seq, &hybrid) > n);
}

/* ---- the model check ---- */

static const kv_layer MANY_LAYERS[] = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 1, .k_dim = 3, .v_dim = 1},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 2, .k_dim = 1, .v_dim = 2, .window = 3},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 2, .v_dim = 2, .window = 4},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 3, .v_dim = 1, .window = 8},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 5, .v_dim = 3, .window = 32},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 1, .v_dim = 1, .window = 100},
    {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 7, .v_dim = 5},
    {.layout = KV_LAYOUT_CHUNKED, .n_heads = 1, .k_dim = 2, .v_dim = 3, .window = 5},
    {.layout = KV_LAYOUT_CHUNKED, .n_heads = 2, .k_dim = 1, .v_dim = 1, .window = 16},
    {.layout = KV_LAYOUT_CHUNKED, .n_heads = 1, .k_dim = 3, .v_dim = 2, .window = 90},
    {.layout = KV_LAYOUT_INDEX, .n_heads = 1, .k_dim = 4},
};

/* Two recurrent layers among others: only the ends can be trimmed to; and two that read an encoder,
 * one of them with pages as large as another's. */
static const kv_layer MIXED_LAYERS[] = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 1, .k_dim = 3, .v_dim = 1},
    TOY_LAYER,
    {.layout = KV_LAYOUT_CROSS, .n_heads = 1, .k_dim = 3, .v_dim = 1},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 5, .v_dim = 3, .window = 32},
    TOY_LAYER,
    {.layout = KV_LAYOUT_CROSS, .n_heads = 2, .k_dim = 2, .v_dim = 3},
};

/* Heads that every codec can store; the first four those of turbo, too. */
static const kv_layer PACKED_LAYERS[] = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 1, .k_dim = 32, .v_dim = 64},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 2, .k_dim = 64, .v_dim = 32, .window = 8},
    {.layout = KV_LAYOUT_CHUNKED, .n_heads = 1, .k_dim = 32, .v_dim = 32, .window = 24},
    TOY_LAYER,
    {.layout = KV_LAYOUT_CROSS, .n_heads = 1, .k_dim = 32, .v_dim = 32},
    {.layout = KV_LAYOUT_LATENT, .n_heads = 1, .k_dim = 40, .v_dim = 32},
    {.layout = KV_LAYOUT_INDEX, .n_heads = 1, .k_dim = 32},
};

typedef struct layer_set {
    const kv_layer *layers;
    uint32_t n_layers;
    bool mixed; /* with states and encoders */
    uint32_t n_operations;
} layer_set;

static const layer_set MANY = {MANY_LAYERS, COUNT_OF(MANY_LAYERS), false, 30000};
static const layer_set MIXED = {MIXED_LAYERS, COUNT_OF(MIXED_LAYERS), true, 30000};
static const layer_set PACKED = {PACKED_LAYERS, 7, true, 1600};
static const layer_set ROTATED = {PACKED_LAYERS, 5, true, 1600};

enum { N_SEQS = 6, CONTEXT = 330, MOST_APPEND = 64, CROSS_CONTEXT = 150 };

typedef struct walk {
    world w;
    pair pairs[N_SEQS];
    kv_txn txn;
    kv_txn_row rows[N_SEQS];
    uint32_t row_pairs[N_SEQS];
    uint32_t n_rows;
    uint32_t tags[N_SEQS][MOST_APPEND];
    uint64_t seed, counter;
    uint32_t next_tag;
    uint32_t n_steps, n_trims, n_clones, n_marks; /* so that coverage shows */
    uint32_t n_encoded, n_not_encoded;
    uint32_t n_refused_trims, n_refused_creates, n_resizes, n_refused_resizes;
} walk;

static uint32_t pick(walk *k, uint32_t n)
{
    return (uint32_t)(rng_u64(k->seed, k->counter++) % n);
}

/* Bytes of n positions in every layer, all of one geometry. */
static uint64_t page_bytes(const kv_config *c, const kv_geometry *g, uint32_t n_positions)
{
    uint64_t bytes = 0;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        uint64_t pages =
            ((uint64_t)n_positions + c->bounds.page_tokens - 1) / c->bounds.page_tokens;
        if (pages > c->n_slots[l]) pages = c->n_slots[l];
        if (!kv_is_recurrent(c, l) && !kv_is_cross(c, l)) bytes += pages * g[l].page_bytes;
    }
    return bytes;
}

/* Likewise of n positions of an encoder. */
static uint64_t cross_bytes(const kv_config *c, uint32_t n)
{
    uint64_t bytes = 0;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        uint64_t pages = (n + c->bounds.page_tokens - 1) / c->bounds.page_tokens;
        if (kv_is_cross(c, l)) bytes += pages * c->geometries[l].page_bytes;
    }
    return bytes;
}

/* What a sequence of n positions is promised. */
static uint64_t need_bytes(const walk *k, uint32_t n, uint32_t n_cross, bool converted)
{
    const kv_config *c = &k->w.config;
    uint64_t bytes = n >= c->start ? page_bytes(c, c->geometries, n) : 0;
    bytes += cross_bytes(c, n_cross);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        uint64_t record = c->bounds.most_verify * sizeof(uint32_t);
        if (kv_is_recurrent(c, l))
            bytes +=
                (c->bounds.marks ? 3 : 2) * c->geometries[l].page_bytes + (record + 63) / 64 * 64;
    }
    if (converted || c->start == 0) return bytes;
    return bytes + page_bytes(c, c->bases, n < c->start ? n : c->start);
}

static void walk_create(walk *k, uint32_t i)
{
    uint32_t n = pick(k, 3) == 0 ? CONTEXT : 1 + pick(k, CONTEXT);
    kv_pool *pool = k->w.pool;
    uint64_t left = kv_pool_budget(pool) - kv_pool_bytes_reserved(pool);
    weft_error err = {0};
    uint32_t most = k->w.config.bounds.cross_context;
    uint32_t n_cross = pick(k, 2) == 0 ? most : pick(k, most + 1);
    k->w.memory.armed = false;
    weft_status status = kv_seq_create_cross(&k->w.memory.allocator, pool, &k->w.config, n, n_cross,
                                             &k->pairs[i].seq, &err);
    k->w.memory.armed = true;
    assert_int_equal(kv_config_bytes(&k->w.config, n), need_bytes(k, n, most, false));
    if (need_bytes(k, n, n_cross, false) > left) {
        assert_status(WEFT_LIMIT, status, &err);
        k->n_refused_creates++;
        return;
    }
    assert_ok(status, &err);
    k->pairs[i].oracle = oracle_create(k->w.layers, k->w.config.n_layers, CONTEXT);
    k->pairs[i].cross_limit = n_cross;
}

/* KV-2: what either does from then on is its own. */
static void walk_clone(walk *k, uint32_t i)
{
    const pair *from = &k->pairs[i];
    uint32_t to = 0;
    while (to < N_SEQS && k->pairs[to].seq != NULL) to++;
    if (to == N_SEQS || from->seq->len == 0) return;
    uint32_t n = from->seq->len + pick(k, CONTEXT + 1 - from->seq->len);
    kv_pool *pool = k->w.pool;
    uint64_t left = kv_pool_budget(pool) - kv_pool_bytes_reserved(pool);
    uint64_t taken = kv_pool_bytes_taken(pool);
    weft_error err = {0};
    k->w.memory.armed = false;
    weft_status status =
        kv_seq_clone(&k->w.memory.allocator, from->seq, n, &k->pairs[to].seq, &err);
    k->w.memory.armed = true;
    assert_int_equal(kv_pool_bytes_taken(pool), taken);
    if (need_bytes(k, n, from->cross_limit, from->converted) > left) {
        assert_status(WEFT_LIMIT, status, &err);
        assert_null(k->pairs[to].seq);
        return;
    }
    assert_ok(status, &err);
    k->pairs[to].oracle = oracle_clone(from->oracle);
    k->pairs[to].converted = from->converted;
    k->pairs[to].cross_limit = from->cross_limit;
    pair_check(&k->w, &k->pairs[to]);
    k->n_clones++;
}

/* Another promise; what the sequence holds stays. */
static void walk_resize(walk *k, uint32_t i)
{
    const pair *p = &k->pairs[i];
    uint32_t least = p->seq->len > 0 ? p->seq->len : 1;
    uint32_t n = least + pick(k, CONTEXT + 1 - least);
    kv_pool *pool = k->w.pool;
    uint64_t left = kv_pool_budget(pool) - kv_pool_bytes_reserved(pool);
    uint64_t before = need_bytes(k, p->seq->limit, p->cross_limit, p->converted);
    uint64_t after = need_bytes(k, n, p->cross_limit, p->converted);
    weft_error err = {0};
    k->w.memory.armed = false;
    weft_status status = kv_seq_resize(&k->w.memory.allocator, p->seq, n, &err);
    k->w.memory.armed = true;
    if (after > before + left) {
        assert_status(WEFT_LIMIT, status, &err);
        k->n_refused_resizes++;
    } else {
        assert_ok(status, &err);
        assert_int_equal(p->seq->limit, n);
        k->n_resizes++;
    }
    assert_int_equal(kv_pool_bytes_reserved(pool),
                     kv_pool_budget(pool) - left + (status == WEFT_OK ? after - before : 0));
    pair_check(&k->w, p);
}

static void walk_trim(walk *k, uint32_t i)
{
    pair *p = &k->pairs[i];
    uint32_t len = p->seq->len;
    uint32_t m = pick(k, 2) == 0 ? pick(k, len + 1) : len - pick(k, len < 3 ? len + 1 : 4);
    weft_error err = {0};
    weft_status status = kv_seq_trim(p->seq, m, &err);
    if (oracle_can_trim(p->oracle, m) && !(p->converted && m < k->w.config.start)) {
        assert_ok(status, &err);
        oracle_trim(p->oracle, m);
        if (m < p->mark) p->mark = 0;
        k->n_trims++;
    } else {
        assert_status(WEFT_LIMIT, status, &err);
        k->n_refused_trims++;
    }
    pair_check(&k->w, p);
}

static void walk_begin(walk *k)
{
    k->n_rows = 0;
    for (uint32_t i = 0; i < N_SEQS; i++) {
        pair *p = &k->pairs[i];
        if (p->seq == NULL || p->seq->len == p->seq->limit || pick(k, 2) == 0) continue;
        uint32_t left = p->seq->limit - p->seq->len;
        uint32_t n = pick(k, 3) == 0 ? 1 + pick(k, MOST_APPEND) : 1 + pick(k, 5);
        if (n > left) n = left;
        uint32_t start = k->w.config.start;
        if (start != 0 && !p->converted && n > start - p->seq->len) n = start - p->seq->len;
        bool partial = n <= k->w.config.bounds.most_verify && pick(k, 4) != 0;
        uint32_t mark = k->w.config.bounds.marks && pick(k, 2) == 0 ? 1 + pick(k, n) : 0;
        k->rows[k->n_rows] = (kv_txn_row){p->seq, n, partial, mark};
        p->mark = 0;
        k->row_pairs[k->n_rows] = i;
        fill_tags(k->tags[k->n_rows], n, k->next_tag);
        k->next_tag += n;
        k->n_rows++;
    }
    weft_error err = {0};
    assert_ok(kv_txn_begin(&k->txn, k->rows, k->n_rows, &err), &err);
    for (uint32_t r = 0; r < k->n_rows; r++) {
        kv_view views[MOST_LAYERS];
        const pair *p = &k->pairs[k->row_pairs[r]];
        kv_seq_views(p->seq, views, 1);
        oracle_write(views, k->w.config.n_layers, p->seq->len, k->tags[r], k->rows[r].n);
        if (pick(k, 8) == 0) oracle_check(p->oracle, views, k->tags[r], k->rows[r].n);
    }
    k->n_steps++;
}

static void walk_end(walk *k)
{
    uint32_t keep[N_SEQS];
    bool back = pick(k, 8) == 0;
    for (uint32_t r = 0; r < k->n_rows; r++) {
        keep[r] = pick(k, 2) == 0 ? k->rows[r].n : pick(k, k->rows[r].n + 1);
        bool whole = k->w.config.n_recurrent > 0 && !k->rows[r].partial;
        if (whole && keep[r] < k->rows[r].n) keep[r] = 0;
    }
    if (back) {
        kv_txn_rollback(&k->txn);
    } else {
        kv_txn_commit(&k->txn, keep);
    }
    for (uint32_t r = 0; r < k->n_rows; r++) {
        pair *p = &k->pairs[k->row_pairs[r]];
        if (!back && k->rows[r].mark > 0 && keep[r] >= k->rows[r].mark) {
            p->mark = p->oracle->len + k->rows[r].mark;
            k->n_marks++;
        }
        oracle_commit(p->oracle, k->tags[r], back ? 0 : keep[r]);
        if (p->seq->len == k->w.config.start) p->converted = true;
        if (p->converted) assert_true(p->seq->converted);
        if (pick(k, 16) == 0) pair_check(&k->w, p);
    }
}

/* Bytes of the pages that the sequences before this one do not hold; held: of all its pages. */
static uint64_t new_bytes(const walk *k, uint32_t i, uint64_t *held)
{
    const kv_config *c = &k->w.config;
    uint64_t bytes = 0;
    *held = 0;
    kv_view views[MOST_LAYERS];
    kv_seq_views(k->pairs[i].seq, views, 1);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const kv_page *state = k->pairs[i].seq->states[l].committed;
        if (state != NULL) {
            *held += views[l].geometry->page_bytes;
            bool seen = false;
            for (uint32_t j = 0; j < i && !seen; j++) {
                const kv_seq *other = k->pairs[j].seq;
                seen = other != NULL && other->states[l].committed == state;
            }
            if (!seen) bytes += views[l].geometry->page_bytes;
        }
        if (kv_seq_marked(k->pairs[i].seq, l) != NULL) bytes += views[l].geometry->page_bytes;
        for (uint32_t s = 0; s < views[l].n_slots; s++) {
            if (views[l].pages[s] == NULL) continue;
            *held += views[l].geometry->page_bytes;
            bool seen = false;
            for (uint32_t j = 0; j < i && !seen; j++) {
                const kv_seq *other = k->pairs[j].seq;
                if (other == NULL) continue;
                for (uint32_t i_slot = 0; i_slot < other->n_slots[l] && !seen; i_slot++) {
                    seen = other->pages[other->first_slots[l] + i_slot] == views[l].pages[s];
                }
            }
            if (!seen) bytes += views[l].geometry->page_bytes;
        }
    }
    return bytes;
}

/* KV-60 and the budget. */
static void walk_check_pool(const walk *k)
{
    uint64_t bytes = 0;
    uint64_t reserved = 0;
    for (uint32_t i = 0; i < N_SEQS; i++) {
        if (k->pairs[i].seq == NULL) continue;
        uint64_t held;
        bytes += new_bytes(k, i, &held);
        assert_int_equal(held, oracle_bytes(k->pairs[i].oracle, &k->w.config,
                                            k->pairs[i].converted || k->w.config.start == 0));
        const pair *p = &k->pairs[i];
        reserved += need_bytes(k, p->seq->limit, p->cross_limit, p->converted);
    }
    assert_int_equal(kv_pool_bytes_taken(k->w.pool), bytes);
    assert_int_equal(kv_pool_bytes_reserved(k->w.pool), reserved);
    assert_true(k->w.pages.held >= reserved);
    assert_true(k->w.pages.most <= kv_pool_budget(k->w.pool));
}

/* An encoder's step over some of the sequences that have not had one. */
static void walk_encode(walk *k)
{
    kv_cross_row rows[N_SEQS];
    uint32_t of[N_SEQS];
    uint32_t n_rows = 0;
    kv_cross cross;
    weft_error err = {0};
    kv_cross_init(&cross);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        const pair *p = &k->pairs[i];
        if (p->seq == NULL || p->oracle->len + p->oracle->cross_len > 0) continue;
        if (p->cross_limit == 0 || pick(k, 3) == 0) continue;
        of[n_rows] = i;
        rows[n_rows++] = (kv_cross_row){p->seq, 1 + pick(k, p->cross_limit)};
    }
    assert_ok(kv_cross_begin(&cross, rows, n_rows, &err), &err);
    for (uint32_t r = 0; r < n_rows; r++) {
        kv_view views[MOST_LAYERS];
        kv_seq_views(rows[r].seq, views, 1);
        oracle_write_cross(views, k->w.config.n_layers, k->next_tag + r * CROSS_CONTEXT, rows[r].n);
    }
    if (pick(k, 3) == 0) {
        kv_cross_rollback(&cross);
        k->n_not_encoded += n_rows;
        return;
    }
    kv_cross_commit(&cross);
    for (uint32_t r = 0; r < n_rows; r++) {
        pair *p = &k->pairs[of[r]];
        p->oracle->cross_len = p->cross_limit = rows[r].n;
        p->oracle->cross_tag = k->next_tag + r * CROSS_CONTEXT;
        pair_check(&k->w, p);
    }
    k->n_encoded += n_rows;
    k->next_tag += N_SEQS * CROSS_CONTEXT;
}

/* What a walk may have done not once, but many together have. */
typedef struct walk_rare {
    uint32_t n_clones, n_not_encoded, n_refused_creates, n_refused_resizes;
} walk_rare;

static void rare_add(walk_rare *r, const walk *k)
{
    r->n_clones += k->n_clones;
    r->n_not_encoded += k->n_not_encoded;
    r->n_refused_creates += k->n_refused_creates;
    r->n_refused_resizes += k->n_refused_resizes;
}

static void rare_check(const walk_rare *r)
{
    assert_true(r->n_clones > 100 && r->n_not_encoded > 100);
    assert_true(r->n_refused_creates > 1000 && r->n_refused_resizes > 100);
}

static void walk_run(uint64_t seed, const char *spec, uint32_t page_tokens, layer_set set,
                     walk_rare *rare)
{
    const uint32_t n_operations = set.n_operations;
    const kv_layer *layers = set.layers;
    uint32_t n_layers = set.n_layers;
    bool mixed = set.mixed;
    static walk k;
    memset(&k, 0, sizeof k);
    k.seed = seed;
    kv_bounds bounds = {.context = CONTEXT,
                        .most_append = MOST_APPEND,
                        .page_tokens = page_tokens,
                        .most_verify = mixed ? 17 : 0,
                        .marks = mixed,
                        .cross_context = mixed ? CROSS_CONTEXT : 0};
    world_open_with(&k.w, spec, layers, n_layers, bounds, 1);
    uint64_t budget = kv_config_bytes(&k.w.config, CONTEXT) * 3 + 12345;
    world_close(&k.w);
    world_open_with(&k.w, spec, layers, n_layers, bounds, budget);
    kv_txn_init(&k.txn);
    k.w.memory.armed = true;
    for (uint32_t i = 0; i < n_operations; i++) {
        uint32_t which = pick(&k, N_SEQS);
        pair *p = &k.pairs[which];
        uint32_t what = pick(&k, 18);
        if (p->seq == NULL) {
            walk_create(&k, which);
            if (mixed && pick(&k, 4) != 0) walk_encode(&k);
        } else if (what == 0) {
            pair_destroy(&k.w, p);
        } else if (what == 1) {
            walk_clone(&k, which);
        } else if (what < 4) {
            walk_trim(&k, which);
        } else if (what == 4) {
            kv_seq_drop_mark(p->seq);
            p->mark = 0;
        } else if (what >= 16) {
            walk_resize(&k, which);
        } else if (mixed && p->seq->len == 0 && what % 2 == 0) {
            walk_encode(&k);
        } else {
            walk_begin(&k);
            walk_end(&k);
        }
        if (i % 4 == 0) walk_check_pool(&k);
    }
    for (uint32_t i = 0; i < N_SEQS; i++) {
        if (k.pairs[i].seq != NULL) pair_check(&k.w, &k.pairs[i]);
        pair_destroy(&k.w, &k.pairs[i]);
    }
    k.w.memory.armed = false;
    print_message(
        "seed %llu, %s, pages of %u: %u steps, %u clones, %u trims, %u replays, %u "
        "marks, %u encoded and %u not, %u resized; %u trims, %u sequences, %u resizes refused\n",
        (unsigned long long)seed, spec, page_tokens, k.n_steps, k.n_clones, k.n_trims,
        k.w.pages.n_replays, k.n_marks, k.n_encoded, k.n_not_encoded, k.n_resizes,
        k.n_refused_trims, k.n_refused_creates, k.n_refused_resizes);
    assert_true(k.n_resizes > n_operations / 100);
    assert_true(k.n_steps > n_operations / 8 && k.n_trims > n_operations / 200);
    assert_true(!mixed || k.w.pages.n_replays > n_operations / 60);
    assert_true(!mixed || k.n_marks > n_operations / 40);
    assert_true(!mixed || k.n_encoded > n_operations / 500);
    assert_true(k.n_refused_trims > n_operations / 200);
    rare_add(rare, &k);
    world_close(&k.w);
}

/* What is stored is what the codecs make of each position's own keys and values, at whatever
 * position it was converted: for every codec on either side, and turbo in all pairs. */
static void walk_codecs(uint64_t seed, walk_rare *rare)
{
    static const char *const SPECS[] = {
        "f16",        "affine8g32", "affine8g64",  "affine8g128",
        "affine4g32", "affine4g64", "affine4g128", "q8_0",
    };
    static const char *const STARTS[] = {"", ",start=24", ",start=100"};
    static const char KEYS[] = "2458";
    static const char VALUES[] = "23458";
    char spec[64];
    uint32_t n = 0;
    for (size_t i = 0; i < COUNT_OF(SPECS); i++, n++) {
        snprintf(spec, sizeof spec, "%s%s", SPECS[i], STARTS[n % 3]);
        walk_run(seed + n, spec, n % 2 == 0 ? 16 : 64, PACKED, rare);
    }
    for (size_t k = 0; KEYS[k] != 0; k++) {
        for (size_t v = 0; VALUES[v] != 0; v++, n++) {
            snprintf(spec, sizeof spec, "turbo-k%cv%c%s", KEYS[k], VALUES[v], STARTS[n % 3]);
            walk_run(seed + n, spec, n % 2 == 0 ? 16 : 64, ROTATED, rare);
        }
    }
    walk_run(seed + n, "k=affine8g32,v=tv4,start=24", 16, ROTATED, rare);
}

/* KV-1, 2, 3, 4, 6, 15, 17, 18, 23, 41, 58, 59, 60. Replay a failure with WEFT_TEST_SEED=number;
 * WEFT_TEST_ROUNDS=45 is 10 million operations. */
static void test_random_operations(void **state)
{
    (void)state;
    const char *text = getenv("WEFT_TEST_SEED");
    const char *rounds = getenv("WEFT_TEST_ROUNDS");
    uint64_t seed = text == NULL ? 20261129 : strtoull(text, NULL, 10);
    uint64_t n_rounds = rounds == NULL ? 1 : strtoull(rounds, NULL, 10);
    for (uint64_t i = 0; i < n_rounds; i++, seed += 1000) {
        walk_rare rare = {0};
        print_message("WEFT_TEST_SEED=%llu\n", (unsigned long long)seed);
        walk_run(seed, "bf16", 16, MANY, &rare);
        walk_run(seed + 1, "bf16", 64, MANY, &rare);
        walk_run(seed + 2, "f32,start=100", 16, MANY, &rare);
        walk_run(seed + 3, "bf16,start=33", 64, MANY, &rare);
        walk_run(seed + 4, "bf16", 16, MIXED, &rare);
        walk_run(seed + 5, "f16,start=33", 64, MIXED, &rare);
        walk_codecs(seed + 6, &rare);
        rare_check(&rare);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv3_chunks_of_any_size),
        cmocka_unit_test(test_kv4_trim_then_append_is_never_having_appended),
        cmocka_unit_test(test_trim_of_windows_goes_by_what_is_left),
        cmocka_unit_test(test_kv15_window_shows_the_newest),
        cmocka_unit_test(test_kv20_chunks_across_their_edges),
        cmocka_unit_test(test_kv16_rejected_tokens_are_gone),
        cmocka_unit_test(test_kv19_a_chunk_longer_than_the_window),
        cmocka_unit_test(test_rollback_is_as_if_nothing_had_begun),
        cmocka_unit_test(test_what_begin_refuses),
        cmocka_unit_test(test_kv_start_divides_rows),
        cmocka_unit_test(test_create_is_bounded),
        cmocka_unit_test(test_misuse_traps),
        cmocka_unit_test(test_kv9_faults),
        cmocka_unit_test(test_random_operations),
    };
    return TEST_RUN("kv/txn", tests);
}
