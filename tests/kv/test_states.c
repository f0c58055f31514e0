/* test_states.c - recurrent layers in transactions: parts of steps, clones, what is refused. Random
 * histories with such layers are in test_txn.c, with all others. */
#include "kv/txn_world.h"

enum { MOST_VERIFY = 9 };

/* KV-41: rows of 1 to 9 of which every part is kept, three in a step, one of them a clone that
 * shares the state it starts from. Each is what its tokens one by one make of it. */
static void test_kv41_every_part_of_a_row(void **state)
{
    (void)state;
    kv_bounds bounds = {
        .context = 256, .most_append = 16, .page_tokens = 16, .most_verify = MOST_VERIFY};
    world w;
    uint32_t tag = 1;
    world_open(&w, HYBRID, COUNT_OF(HYBRID), bounds, 1 << 20);
    for (uint32_t n = 1; n <= MOST_VERIFY; n++) {
        for (uint32_t part = 0; part <= n; part++) {
            pair p[3] = {pair_create(&w, 256), pair_create(&w, 256)};
            kv_txn txn;
            kv_txn_row rows[3];
            uint32_t tags[3][MOST_VERIFY];
            uint32_t keep[3] = {part, n - part, (part + 1) % (n + 1)};
            weft_error err = {0};
            fill_tags(tags[0], 5, tag);
            advance(&w, &p[0], tags[0], 5, 5);
            assert_ok(kv_seq_clone(&w.memory.allocator, p[0].seq, 256, &p[2].seq, &err), &err);
            p[2].oracle = oracle_clone(p[0].oracle);
            for (uint32_t i = 0; i < 3; i++) {
                rows[i] = (kv_txn_row){p[i].seq, n, true};
                fill_tags(tags[i], n, tag += n);
            }
            kv_txn_init(&txn);
            assert_ok(kv_txn_begin(&txn, rows, 3, &err), &err);
            for (uint32_t i = 0; i < 3; i++) {
                kv_view views[MOST_LAYERS];
                kv_seq_views(p[i].seq, views, 1);
                oracle_write(views, COUNT_OF(HYBRID), p[i].seq->len, tags[i], n);
            }
            kv_txn_commit(&txn, keep);
            for (uint32_t i = 0; i < 3; i++) {
                oracle_commit(p[i].oracle, tags[i], keep[i]);
                pair_check(&w, &p[i]);
                advance(&w, &p[i], tags[i], n, n);
            }
            for (uint32_t i = 0; i < 3; i++) pair_destroy(&w, &p[i]);
        }
    }
    assert_true(w.pages.n_replays > 2 * 2 * MOST_VERIFY);
    world_close(&w);
}

/* A step of which all is kept, or nothing, replays nothing; what is committed moves no byte. */
static void test_whole_rows_are_not_replayed(void **state)
{
    (void)state;
    kv_bounds bounds = {.context = 64, .most_append = 16, .page_tokens = 16, .most_verify = 4};
    world w;
    uint32_t tags[16];
    fill_tags(tags, 16, 77);
    world_open(&w, HYBRID, COUNT_OF(HYBRID), bounds, 1 << 20);
    pair p = pair_create(&w, 64);
    advance(&w, &p, tags, 16, 0);
    advance(&w, &p, tags, 16, 16);
    kv_view before[MOST_LAYERS];
    kv_view after[MOST_LAYERS];
    kv_seq_views(p.seq, before, 1);
    advance(&w, &p, tags, 3, 0);
    kv_seq_views(p.seq, after, 1);
    assert_ptr_equal(before[0].committed, after[0].committed);
    assert_int_equal(w.pages.n_replays, 0);
    advance(&w, &p, tags, 3, 2);
    assert_int_equal(w.pages.n_replays, 2);
    /* A clone shares what is committed until its own step is. */
    pair q = {NULL, oracle_clone(p.oracle), false};
    uint64_t taken = kv_pool_bytes_taken(w.pool);
    assert_ok(kv_seq_clone(&w.memory.allocator, p.seq, 64, &q.seq, NULL), NULL);
    assert_int_equal(kv_pool_bytes_taken(w.pool), taken);
    advance(&w, &p, tags, 1, 1);
    pair_check(&w, &q);
    pair_destroy(&w, &p);
    advance(&w, &q, tags, 2, 1);
    pair_destroy(&w, &q);
    world_close(&w);
}

static void test_what_recurrent_layers_refuse(void **state)
{
    (void)state;
    kv_bounds bounds = {.context = 64, .most_append = 16, .page_tokens = 16, .most_verify = 4};
    world w;
    uint32_t tags[16];
    fill_tags(tags, 16, 5);
    world_open(&w, HYBRID, COUNT_OF(HYBRID), bounds, 1 << 20);
    pair p = pair_create(&w, 64);
    advance(&w, &p, tags, 7, 7);
    weft_error err = {0};
    assert_status(WEFT_LIMIT, kv_seq_trim(p.seq, 6, &err), &err);
    assert_message(&err, "cannot trim to 6: layer 0 is recurrent and stands at 7");
    pair_check(&w, &p);
    assert_ok(kv_seq_trim(p.seq, 7, NULL), NULL);
    pair_check(&w, &p);
    kv_txn txn;
    kv_txn_init(&txn);
    kv_txn_row row = {p.seq, 5, true};
    err = (weft_error){0};
    assert_status(WEFT_LIMIT, kv_txn_begin(&txn, &row, 1, &err), &err);
    assert_message(&err, "row 0 verifies 5 positions, a record holds 4");
    assert_ok(kv_seq_trim(p.seq, 0, NULL), NULL);
    oracle_trim(p.oracle, 0);
    pair_check(&w, &p);
    assert_int_equal(kv_pool_bytes_taken(w.pool), 0);
    advance(&w, &p, tags, 16, 16);
    pair_destroy(&w, &p);
    world_close(&w);
}

/* Nothing but recurrent layers: no tables at all. */
static void test_recurrent_layers_alone(void **state)
{
    (void)state;
    static const kv_layer TOYS[] = {TOY_LAYER, TOY_LAYER};
    kv_bounds bounds = {.context = 64, .most_append = 16, .page_tokens = 16};
    world w;
    uint32_t tags[16];
    fill_tags(tags, 16, 5);
    world_open_with(&w, "f32", TOYS, 2, bounds, 1 << 20);
    pair p = pair_create(&w, 64);
    advance(&w, &p, tags, 16, 16);
    advance(&w, &p, tags, 1, 1);
    size_t size = w.config.geometries[0].page_bytes;
    assert_int_equal(size, 64 + 128);
    assert_int_equal(kv_pool_bytes_taken(w.pool), 2 * size);
    assert_int_equal(kv_pool_bytes_reserved(w.pool), 4 * size);
    pair_destroy(&w, &p);
    world_close(&w);
}

/* Nobody kept a record of it. */
static void keep_part_unmarked(void *user)
{
    world *w = user;
    pair p = pair_create(w, 64);
    kv_txn txn;
    kv_txn_init(&txn);
    kv_txn_row row = {p.seq, 3, false};
    if (kv_txn_begin(&txn, &row, 1, NULL) != WEFT_OK) return;
    kv_txn_commit(&txn, (const uint32_t[]){2});
}

static void test_parts_need_a_record(void **state)
{
    (void)state;
    kv_bounds bounds = {.context = 64, .most_append = 16, .page_tokens = 16, .most_verify = 4};
    world w;
    world_open(&w, HYBRID, COUNT_OF(HYBRID), bounds, 1 << 20);
    assert_true(test_traps(keep_part_unmarked, &w));
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv41_every_part_of_a_row),
        cmocka_unit_test(test_whole_rows_are_not_replayed),
        cmocka_unit_test(test_what_recurrent_layers_refuse),
        cmocka_unit_test(test_recurrent_layers_alone),
        cmocka_unit_test(test_parts_need_a_record),
    };
    return TEST_RUN("kv/states", tests);
}
