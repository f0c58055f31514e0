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
                rows[i] = (kv_txn_row){p[i].seq, n, true, 0};
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
    pair q = {NULL, oracle_clone(p.oracle), false, 0, 0};
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
    kv_txn_row row = {p.seq, 5, true, 0};
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
    kv_txn_row row = {p.seq, 3, false, 0};
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

/* ---- marks ---- */

static const kv_bounds MARKED = {.context = 256,
                                 .most_append = 64,
                                 .page_tokens = 16,
                                 .most_verify = MOST_VERIFY,
                                 .marks = true};

/* Every mark of every row of 1 to 9 and every part kept: what is marked is the state after so many
 * tags, if they were kept, in pages of its own. */
static void test_every_mark_of_every_part(void **state)
{
    (void)state;
    world w;
    uint32_t tag = 1;
    world_open(&w, HYBRID, COUNT_OF(HYBRID), MARKED, 1 << 20);
    uint64_t page = w.config.geometries[0].page_bytes;
    for (uint32_t n = 1; n <= MOST_VERIFY; n++) {
        for (uint32_t mark = 1; mark <= n; mark++) {
            for (uint32_t keep = 0; keep <= n; keep++) {
                pair p = pair_create(&w, 256);
                uint32_t tags[2 * MOST_VERIFY];
                fill_tags(tags, 2 * MOST_VERIFY, tag += 2 * MOST_VERIFY);
                uint32_t before = (n + mark + keep) % 3 * 4;
                if (before > 0) advance(&w, &p, tags, before, before);
                advance_marked(&w, &p, tags + before, n, keep, mark);
                assert_int_equal(p.mark, keep >= mark ? before + mark : 0);
                uint64_t taken = kv_pool_bytes_taken(w.pool);
                kv_seq_drop_mark(p.seq);
                assert_int_equal(taken - kv_pool_bytes_taken(w.pool), p.mark > 0 ? 2 * page : 0);
                p.mark = 0;
                pair_check(&w, &p);
                /* The next step has a mark again. */
                advance_marked(&w, &p, tags, 2, 2, 1);
                pair_destroy(&w, &p);
            }
        }
    }
    world_close(&w);
}

/* How long a mark lasts, and that a clone has none. */
static void test_marks_end(void **state)
{
    (void)state;
    world w;
    uint32_t tags[64];
    fill_tags(tags, 64, 900);
    world_open(&w, HYBRID, COUNT_OF(HYBRID), MARKED, 1 << 20);
    pair p = pair_create(&w, 128);
    advance_marked(&w, &p, tags, 40, 40, 39);
    assert_int_equal(p.seq->mark_at, 39);
    pair q = {NULL, oracle_clone(p.oracle), false, 0, 0};
    assert_ok(kv_seq_clone(&w.memory.allocator, p.seq, 64, &q.seq, NULL), NULL);
    pair_check(&w, &q);
    pair_destroy(&w, &q);
    /* What is refused leaves it. */
    kv_txn txn;
    weft_error err = {0};
    kv_txn_init(&txn);
    kv_txn_row beyond = {p.seq, 3, false, 4};
    assert_status(WEFT_ARGUMENT, kv_txn_begin(&txn, &beyond, 1, &err), &err);
    assert_message(&err, "row 0 marks 4 of its 3 positions");
    assert_ok(kv_seq_trim(p.seq, 40, NULL), NULL);
    pair_check(&w, &p);
    /* A step ends it, whatever becomes of the step; inside of one there is none to be had. */
    kv_txn_row row = {p.seq, 3, false, 3};
    assert_ok(kv_txn_begin(&txn, &row, 1, NULL), NULL);
    assert_null(kv_seq_marked(p.seq, 0));
    kv_view views[MOST_LAYERS];
    kv_seq_views(p.seq, views, 1);
    assert_non_null(views[0].marked);
    assert_int_equal(views[0].mark, 3);
    kv_txn_rollback(&txn);
    p.mark = 0;
    pair_check(&w, &p);
    advance_marked(&w, &p, tags, 5, 5, 5);
    advance(&w, &p, tags, 1, 1);
    advance_marked(&w, &p, tags, 5, 5, 2);
    assert_ok(kv_seq_trim(p.seq, 0, NULL), NULL);
    oracle_trim(p.oracle, 0);
    p.mark = 0;
    pair_check(&w, &p);
    assert_int_equal(kv_pool_bytes_taken(w.pool), 0);
    advance_marked(&w, &p, tags, 1, 1, 1);
    pair_destroy(&w, &p);
    world_close(&w);
}

/* Another holder keeps a marked page, under a promise of its own, whatever the sequence does. */
static void test_marked_pages_are_shared(void **state)
{
    (void)state;
    world w;
    uint32_t tags[64];
    uint32_t need[8] = {0};
    fill_tags(tags, 64, 30);
    world_open(&w, HYBRID, COUNT_OF(HYBRID), MARKED, 1 << 20);
    pair p = pair_create(&w, 128);
    advance_marked(&w, &p, tags, 20, 20, 11);
    uint32_t class_i = w.config.class_of[0];
    need[class_i] = 1;
    assert_ok(kv_pool_reserve(w.pool, need, NULL), NULL);
    kv_page *page = kv_seq_marked(p.seq, 0);
    page->refs++;
    advance_marked(&w, &p, tags, 30, 30, 29);
    assert_ptr_not_equal(kv_seq_marked(p.seq, 0), page);
    oracle_check_state(p.oracle, &w.config.geometries[0], 0, page->at, 11);
    advance(&w, &p, tags, 9, 4);
    oracle_check_state(p.oracle, &w.config.geometries[0], 0, page->at, 11);
    pair_destroy(&w, &p);
    assert_int_equal(page->refs, 1);
    assert_int_equal(kv_pool_bytes_taken(w.pool), w.config.geometries[0].page_bytes);
    kv_pool_give(w.pool, class_i, page);
    kv_pool_unreserve(w.pool, need);
    world_close(&w);
}

/* Nothing is promised that was not asked for; sequences without recurrent layers need no page. */
static void test_marks_need_a_promise(void **state)
{
    (void)state;
    world w;
    uint32_t tags[16];
    kv_bounds bounds = MARKED;
    bounds.marks = false;
    fill_tags(tags, 16, 1);
    world_open(&w, HYBRID, COUNT_OF(HYBRID), bounds, 1 << 20);
    uint64_t without = kv_config_bytes(&w.config, 100);
    pair p = pair_create(&w, 128);
    kv_txn txn;
    weft_error err = {0};
    kv_txn_init(&txn);
    kv_txn_row row = {p.seq, 3, false, 2};
    assert_status(WEFT_LIMIT, kv_txn_begin(&txn, &row, 1, &err), &err);
    assert_message(&err, "row 0 marks a state, for which no page was promised");
    advance(&w, &p, tags, 3, 3);
    pair_destroy(&w, &p);
    world_close(&w);
    world_open(&w, HYBRID, COUNT_OF(HYBRID), MARKED, 1 << 20);
    assert_int_equal(kv_config_bytes(&w.config, 100),
                     without + 2 * w.config.geometries[0].page_bytes);
    world_close(&w);
    world_open(&w, TWO_LAYERS, 2, bounds, 1 << 20);
    p = pair_create(&w, 128);
    advance_marked(&w, &p, tags, 16, 16, 15);
    assert_int_equal(p.seq->mark_at, 15);
    pair_destroy(&w, &p);
    world_close(&w);
}

static void drop_inside_a_step(void *user)
{
    world *w = user;
    pair p = pair_create(w, 64);
    kv_txn txn;
    kv_txn_init(&txn);
    kv_txn_row row = {p.seq, 3, false, 2};
    if (kv_txn_begin(&txn, &row, 1, NULL) == WEFT_OK) kv_seq_drop_mark(p.seq);
}

static void test_a_mark_stays_inside_its_step(void **state)
{
    (void)state;
    world w;
    world_open(&w, HYBRID, COUNT_OF(HYBRID), MARKED, 1 << 20);
    assert_true(test_traps(drop_inside_a_step, &w));
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
        cmocka_unit_test(test_every_mark_of_every_part),
        cmocka_unit_test(test_marks_end),
        cmocka_unit_test(test_marked_pages_are_shared),
        cmocka_unit_test(test_marks_need_a_promise),
        cmocka_unit_test(test_a_mark_stays_inside_its_step),
    };
    return TEST_RUN("kv/states", tests);
}
