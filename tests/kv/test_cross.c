/* test_cross.c - what an encoder leaves for a decoder: written once, read by all, given back with
 * the last. Random histories with such layers are in test_txn.c, with all others. */
#include "kv/txn_world.h"

enum { ENCODER = 300 };

static const kv_layer DECODER[] = {
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 3, .v_dim = 2},
    {.layout = KV_LAYOUT_CROSS, .n_heads = 2, .k_dim = 3, .v_dim = 2},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 2, .v_dim = 5, .window = 8},
    {.layout = KV_LAYOUT_CROSS, .n_heads = 1, .k_dim = 4, .v_dim = 7},
};

static const kv_bounds BOUNDS = {
    .context = 128, .most_append = 64, .page_tokens = 16, .cross_context = ENCODER};

/* One row of n positions, written and kept. */
static void encode(world *w, pair *p, uint32_t n, uint32_t tag)
{
    kv_cross cross;
    kv_cross_row row = {p->seq, n};
    kv_view views[MOST_LAYERS];
    weft_error err = {0};
    kv_cross_init(&cross);
    assert_ok(kv_cross_begin(&cross, &row, 1, &err), &err);
    kv_seq_views(p->seq, views, 1);
    oracle_write_cross(views, w->config.n_layers, tag, n);
    kv_cross_commit(&cross);
    p->oracle->cross_len = n;
    p->oracle->cross_tag = tag;
    pair_check(w, p);
}

static uint64_t bytes_of(const world *w, uint32_t n)
{
    uint64_t pages = (n + w->config.bounds.page_tokens - 1) / w->config.bounds.page_tokens;
    return pages * (w->config.geometries[1].page_bytes + w->config.geometries[3].page_bytes);
}

/* Lengths on either side of a page and of a split; steps, trims and rollbacks of the decoder leave
 * what was encoded, and what was promised beyond it is free. */
static void test_written_once_and_read_ever_after(void **state)
{
    (void)state;
    static const uint32_t LENGTHS[] = {1, 15, 16, 17, 63, 64, 65, 255, 256, 257, ENCODER};
    for (uint32_t size = 16; size <= 256; size *= 4) {
        kv_bounds bounds = BOUNDS;
        bounds.page_tokens = size;
        world w;
        uint32_t tags[64];
        fill_tags(tags, 64, 5);
        world_open(&w, DECODER, COUNT_OF(DECODER), bounds, 1 << 20);
        for (size_t i = 0; i < COUNT_OF(LENGTHS); i++) {
            pair p = pair_create(&w, 128);
            uint64_t reserved = kv_pool_bytes_reserved(w.pool);
            uint64_t taken = kv_pool_bytes_taken(w.pool);
            encode(&w, &p, LENGTHS[i], 1000);
            assert_int_equal(kv_pool_bytes_taken(w.pool) - taken, bytes_of(&w, LENGTHS[i]));
            assert_int_equal(reserved - kv_pool_bytes_reserved(w.pool),
                             bytes_of(&w, ENCODER) - bytes_of(&w, LENGTHS[i]));
            advance(&w, &p, tags, 40, 40);
            advance(&w, &p, tags, 40, 0);
            advance(&w, &p, tags, 9, 3);
            assert_ok(kv_seq_trim(p.seq, 42, NULL), NULL);
            oracle_trim(p.oracle, 42);
            pair_check(&w, &p);
            assert_ok(kv_seq_trim(p.seq, 0, NULL), NULL);
            oracle_trim(p.oracle, 0);
            pair_check(&w, &p);
            assert_int_equal(kv_pool_bytes_taken(w.pool), bytes_of(&w, LENGTHS[i]));
            advance(&w, &p, tags, 20, 20);
            pair_destroy(&w, &p);
        }
        world_close(&w);
    }
}

/* A run that failed leaves nothing and may be tried again; a second one is refused. */
static void test_a_failed_run_leaves_nothing(void **state)
{
    (void)state;
    world w;
    uint32_t tags[64];
    fill_tags(tags, 64, 5);
    world_open(&w, DECODER, COUNT_OF(DECODER), BOUNDS, 1 << 20);
    pair p = pair_create(&w, 128);
    pair q = pair_create(&w, 128);
    uint64_t reserved = kv_pool_bytes_reserved(w.pool);
    kv_cross cross;
    kv_cross_row rows[2] = {{p.seq, 33}, {q.seq, ENCODER}};
    weft_error err = {0};
    kv_cross_init(&cross);
    for (uint32_t i = 0; i < 3; i++) {
        kv_view views[MOST_LAYERS];
        assert_ok(kv_cross_begin(&cross, rows, 2, &err), &err);
        assert_int_equal(kv_pool_bytes_taken(w.pool), bytes_of(&w, 33) + bytes_of(&w, ENCODER));
        kv_seq_views(q.seq, views, 1);
        oracle_write_cross(views, w.config.n_layers, 7, ENCODER);
        kv_cross_rollback(&cross);
        kv_cross_rollback(&cross);
        assert_int_equal(kv_pool_bytes_taken(w.pool), 0);
        assert_int_equal(kv_pool_bytes_reserved(w.pool), reserved);
        pair_check(&w, &p);
        pair_check(&w, &q);
    }
    /* A decoder may run without one, but then all of it does. */
    advance(&w, &p, tags, 5, 5);
    assert_status(WEFT_ARGUMENT, kv_cross_begin(&cross, rows, 2, &err), &err);
    assert_message(&err, "row 0: 5 positions of the sequence have not seen its encoder");
    assert_ok(kv_seq_trim(p.seq, 0, NULL), NULL);
    oracle_trim(p.oracle, 0);
    encode(&w, &p, 33, 50);
    encode(&w, &q, ENCODER, 90);
    err = (weft_error){0};
    assert_status(WEFT_ARGUMENT, kv_cross_begin(&cross, rows, 2, &err), &err);
    assert_message(&err, "row 0: the 33 positions of its encoder are written already");
    pair_check(&w, &p);
    pair_destroy(&w, &p);
    pair_destroy(&w, &q);
    world_close(&w);
}

static void test_no_layer_reads_an_encoder(void **state)
{
    (void)state;
    world w;
    weft_error err = {0};
    world_open(&w, TWO_LAYERS, 2, BOUNDS, 1 << 20);
    pair p = pair_create(&w, 128);
    kv_cross cross;
    kv_cross_row row = {p.seq, 5};
    kv_cross_init(&cross);
    assert_status(WEFT_ARGUMENT, kv_cross_begin(&cross, &row, 1, &err), &err);
    assert_message(&err, "row 0: no layer of the sequence reads an encoder");
    pair_destroy(&w, &p);
    world_close(&w);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    world w;
    world_open(&w, DECODER, COUNT_OF(DECODER), BOUNDS, 1 << 20);
    pair p = pair_create(&w, 128);
    pair q = {NULL, oracle_create(DECODER, COUNT_OF(DECODER), 128), false, 0, 20};
    weft_error err = {0};
    assert_status(
        WEFT_LIMIT,
        kv_seq_create_cross(&w.memory.allocator, w.pool, &w.config, 128, ENCODER + 1, &q.seq, &err),
        &err);
    assert_message(&err, "an encoder of 301 positions, at most 300");
    assert_null(q.seq);
    uint64_t reserved = kv_pool_bytes_reserved(w.pool);
    assert_ok(kv_seq_create_cross(&w.memory.allocator, w.pool, &w.config, 128, 20, &q.seq, NULL),
              NULL);
    assert_int_equal(2 * reserved - kv_pool_bytes_reserved(w.pool),
                     bytes_of(&w, ENCODER) - bytes_of(&w, 20));
    kv_cross cross;
    kv_cross_init(&cross);
    kv_cross_row rows[3] = {{p.seq, ENCODER}, {q.seq, 21}, {p.seq, 1}};
    err = (weft_error){0};
    assert_status(WEFT_LIMIT, kv_cross_begin(&cross, rows, 2, &err), &err);
    assert_message(&err, "row 1 encodes 21 positions, reserved for 20");
    rows[1].n = 0;
    err = (weft_error){0};
    assert_status(WEFT_LIMIT, kv_cross_begin(&cross, rows, 2, &err), &err);
    assert_message(&err, "row 1 encodes 0 positions");
    rows[1].n = 20;
    err = (weft_error){0};
    assert_status(WEFT_ARGUMENT, kv_cross_begin(&cross, rows, 3, &err), &err);
    assert_message(&err, "rows 0 and 2 of a step are the same sequence");
    assert_int_equal(kv_pool_bytes_taken(w.pool), 0);
    assert_ok(kv_cross_begin(&cross, rows, 2, NULL), NULL);
    /* Meanwhile the sequence is in a step. */
    kv_cross second;
    kv_cross_init(&second);
    err = (weft_error){0};
    assert_status(WEFT_ARGUMENT, kv_cross_begin(&cross, rows, 2, &err), &err);
    assert_message(&err, "a step has already begun");
    err = (weft_error){0};
    assert_status(WEFT_ARGUMENT, kv_cross_begin(&second, rows, 1, &err), &err);
    assert_message(&err, "row 0: the sequence is in another step");
    kv_txn txn;
    kv_txn_init(&txn);
    kv_txn_row row = {p.seq, 1, false, 0};
    err = (weft_error){0};
    assert_status(WEFT_ARGUMENT, kv_txn_begin(&txn, &row, 1, &err), &err);
    assert_message(&err, "row 0: the sequence is in another step");
    kv_seq *clone;
    assert_status(WEFT_ARGUMENT, kv_seq_clone(&w.memory.allocator, p.seq, 128, &clone, NULL), NULL);
    assert_status(WEFT_ARGUMENT, kv_seq_trim(p.seq, 0, NULL), NULL);
    kv_cross_rollback(&cross);
    assert_ok(kv_txn_begin(&txn, &row, 1, NULL), NULL);
    err = (weft_error){0};
    assert_status(WEFT_ARGUMENT, kv_cross_begin(&cross, rows, 1, &err), &err);
    assert_message(&err, "row 0: the sequence is in another step");
    kv_txn_rollback(&txn);
    pair_destroy(&w, &p);
    pair_destroy(&w, &q);
    world_close(&w);
}

/* A clone shares what was encoded, whoever goes first, and is promised just that; one of a sequence
 * that was not written yet writes its own. */
static void test_clones_share(void **state)
{
    (void)state;
    world w;
    uint32_t tags[64];
    fill_tags(tags, 64, 5);
    world_open_with(&w, "f32,start=30", DECODER, COUNT_OF(DECODER), BOUNDS, 1 << 20);
    pair p = pair_create(&w, 128);
    pair early = {NULL, oracle_clone(p.oracle), false, 0, 0};
    assert_ok(kv_seq_clone(&w.memory.allocator, p.seq, 128, &early.seq, NULL), NULL);
    encode(&w, &p, 70, 400);
    pair_check(&w, &early);
    encode(&w, &early, ENCODER, 800);
    advance(&w, &p, tags, 20, 20);
    uint64_t taken = kv_pool_bytes_taken(w.pool);
    uint64_t reserved = kv_pool_bytes_reserved(w.pool);
    pair q = {NULL, oracle_clone(p.oracle), false, 0, 0};
    assert_ok(kv_seq_clone(&w.memory.allocator, p.seq, 128, &q.seq, NULL), NULL);
    assert_int_equal(kv_pool_bytes_taken(w.pool), taken);
    assert_int_equal(kv_pool_bytes_reserved(w.pool) - reserved,
                     kv_config_bytes(&w.config, 128) - bytes_of(&w, ENCODER) + bytes_of(&w, 70));
    kv_cross cross;
    kv_cross_init(&cross);
    assert_status(WEFT_ARGUMENT, kv_cross_begin(&cross, &(kv_cross_row){q.seq, 1}, 1, NULL), NULL);
    /* Conversion of one leaves what both read. */
    advance(&w, &q, tags + 20, 10, 10);
    assert_true(q.seq->converted && !p.seq->converted);
    pair_check(&w, &p);
    pair_destroy(&w, &p);
    pair_check(&w, &q);
    advance(&w, &q, tags + 30, 20, 20);
    pair_destroy(&w, &q);
    pair_destroy(&w, &early);
    world_close(&w);
}

/* ---- faults ---- */

static weft_status fault_scenario_cross(const env *world_env, void *user, weft_error *err)
{
    (void)user;
    struct backend pages = {.memory = (fault_allocator *)world_env->allocator->user};
    kv_spec spec = spec_of("f16");
    arena a;
    kv_config config;
    kv_pool *pool = NULL;
    kv_seq *seq = NULL;
    kv_seq *clone = NULL;
    arena_init(&a, world_env->allocator, 0);
    weft_status status =
        kv_config_init(&config, &a, DECODER, COUNT_OF(DECODER), &spec, &BOUNDS, err);
    if (status == WEFT_OK) {
        status = kv_pool_create(world_env->allocator, &ORACLE_BACKEND, &pages, &config, 1 << 20,
                                &pool, err);
    }
    if (status == WEFT_OK) {
        status = kv_seq_create_cross(world_env->allocator, pool, &config, 40, 33, &seq, err);
        if (status != WEFT_OK) assert_int_equal(kv_pool_bytes_reserved(pool), 0);
    }
    if (status == WEFT_OK) {
        /* What was promised needs no memory. */
        kv_cross cross;
        kv_cross_row row = {seq, 17};
        pages.memory->armed = true;
        kv_cross_init(&cross);
        assert_ok(kv_cross_begin(&cross, &row, 1, err), err);
        kv_cross_commit(&cross);
        pages.memory->armed = false;
        uint64_t reserved = kv_pool_bytes_reserved(pool);
        status = kv_seq_clone(world_env->allocator, seq, 60, &clone, err);
        if (status != WEFT_OK) assert_int_equal(kv_pool_bytes_reserved(pool), reserved);
    }
    kv_seq_destroy(world_env->allocator, clone);
    kv_seq_destroy(world_env->allocator, seq);
    if (pool != NULL) assert_int_equal(kv_pool_bytes_reserved(pool), 0);
    kv_pool_destroy(pool);
    assert_int_equal(pages.n_pages, 0);
    arena_deinit(&a);
    return status;
}

static void test_kv9_faults(void **state)
{
    (void)state;
    assert_true(fault_sweep(fault_scenario_cross, NULL) >= 30);
}

static void commit_idle(void *user)
{
    (void)user;
    kv_cross cross;
    kv_cross_init(&cross);
    kv_cross_commit(&cross);
}

static void destroy_while_written(void *user)
{
    world *w = user;
    pair p = pair_create(w, 64);
    kv_cross cross;
    kv_cross_init(&cross);
    kv_cross_row row = {p.seq, 5};
    if (kv_cross_begin(&cross, &row, 1, NULL) != WEFT_OK) return;
    kv_seq_destroy(&w->memory.allocator, p.seq);
}

static void test_misuse_traps(void **state)
{
    (void)state;
    world w;
    world_open(&w, DECODER, COUNT_OF(DECODER), BOUNDS, 1 << 20);
    assert_true(test_traps(commit_idle, NULL));
    assert_true(test_traps(destroy_while_written, &w));
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_once_and_read_ever_after),
        cmocka_unit_test(test_a_failed_run_leaves_nothing),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_no_layer_reads_an_encoder),
        cmocka_unit_test(test_clones_share),
        cmocka_unit_test(test_kv9_faults),
        cmocka_unit_test(test_misuse_traps),
    };
    return TEST_RUN("kv/cross", tests);
}
