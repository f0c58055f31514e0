/* test_invariants.c - invariants of docs/kv.md that are one small story each. */
#include "kv/prefix.h"
#include "kv/txn_world.h"

/* Heads that packed codecs can store. */
static const kv_layer PACKED[] = {
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 32, .v_dim = 32, .window = 8},
    {.layout = KV_LAYOUT_FULL, .n_heads = 1, .k_dim = 32, .v_dim = 32},
};

static const kv_bounds BOUNDS = {.context = 128, .most_append = 64, .page_tokens = 16};

static void converse(world *w, pair *p, uint32_t first_tag, uint32_t n)
{
    uint32_t tags[64];
    fill_tags(tags, n, first_tag);
    advance(w, p, tags, n, n);
    p->converted = p->seq->converted;
}

/* KV-10: a batch that is emptied and filled again, a sequence without tokens, a row of one. */
static void test_kv10_nothing_and_little(void **state)
{
    (void)state;
    world w;
    world_open(&w, HYBRID, 4, BOUNDS, 1 << 20);
    for (uint32_t round = 0; round < 3; round++) {
        pair none = pair_create(&w, 64);
        pair one = pair_create(&w, 64);
        pair_check(&w, &none);
        converse(&w, &one, 5, 1);
        pair_destroy(&w, &none);
        pair_check(&w, &one);
        pair_destroy(&w, &one);
        assert_int_equal(kv_pool_bytes_taken(w.pool), 0);
        assert_int_equal(kv_pool_bytes_reserved(w.pool), 0);
    }
    world_close(&w);
}

/* KV-11: three at 11 with 2, 10 and 4 tokens left and at most 5 a step; the second leaves after the
 * first step. */
static void test_kv11_a_row_leaves(void **state)
{
    (void)state;
    static const uint32_t LEFT[] = {2, 10, 4};
    world w;
    world_open(&w, HYBRID, 4, BOUNDS, 1 << 20);
    pair p[3];
    kv_txn_row rows[3];
    uint32_t tags[3][5];
    uint32_t keep[3];
    kv_page *before[3];
    for (uint32_t i = 0; i < 3; i++) {
        p[i] = pair_create(&w, 64);
        converse(&w, &p[i], 100 * i, 11);
        keep[i] = LEFT[i] < 5 ? LEFT[i] : 5;
        rows[i] = (kv_txn_row){p[i].seq, keep[i], false, 0};
        fill_tags(tags[i], 5, 100 * i + 11);
        before[i] = p[i].seq->held[p[i].seq->first_slots[1]];
    }
    kv_txn txn;
    weft_error err = {0};
    kv_txn_init(&txn);
    assert_ok(kv_txn_begin(&txn, rows, 3, &err), &err);
    for (uint32_t i = 0; i < 3; i++) {
        kv_view views[MOST_LAYERS];
        kv_seq_views(p[i].seq, views, 1);
        oracle_write(views, 4, 11, tags[i], keep[i]);
    }
    kv_txn_commit(&txn, keep);
    for (uint32_t i = 0; i < 3; i++) oracle_commit(p[i].oracle, tags[i], keep[i]);
    uint64_t taken = kv_pool_bytes_taken(w.pool);
    pair_destroy(&w, &p[1]);
    assert_int_equal(kv_pool_bytes_taken(w.pool), taken / 3 * 2);
    assert_int_equal(p[0].seq->len, 13);
    assert_int_equal(p[2].seq->len, 15);
    for (uint32_t i = 0; i < 3; i += 2) {
        pair_check(&w, &p[i]);
        assert_ptr_equal(p[i].seq->held[p[i].seq->first_slots[1]], before[i]);
        pair_destroy(&w, &p[i]);
    }
    world_close(&w);
}

/* KV-12: two prompts, of 8 and 10, kept when both stand at 3: both are known to 3, and no page
 * becomes another. */
static void test_kv12_kept_where_they_stand(void **state)
{
    (void)state;
    world w;
    weft_error err = {0};
    kv_prefix *prefix;
    world_open(&w, HYBRID, 4, BOUNDS, 1 << 20);
    assert_ok(kv_prefix_create(&w.memory.allocator, w.pool, 0, &prefix, &err), &err);
    kv_space *space = kv_prefix_space(prefix, &w.config, 0);
    pair p[2];
    uint32_t tags[2][10];
    for (uint32_t i = 0; i < 2; i++) {
        p[i] = pair_create(&w, 64);
        fill_tags(tags[i], 10, 500 * (i + 1));
        advance(&w, &p[i], tags[i], 3, 3);
    }
    for (uint32_t i = 0; i < 2; i++) {
        kv_history h = {.ids = (const int32_t *)tags[i], .n = 3};
        kv_page *page = p[i].seq->held[p[i].seq->first_slots[1]];
        assert_true(kv_prefix_insert(prefix, space, p[i].seq, &h));
        assert_ptr_equal(p[i].seq->held[p[i].seq->first_slots[1]], page);
        assert_int_equal(page->refs, 2);
    }
    for (uint32_t i = 0; i < 2; i++) {
        kv_history h = {.ids = (const int32_t *)tags[i], .n = 8 + 2 * i};
        advance(&w, &p[i], tags[i] + 3, h.n - 3, h.n - 3);
        kv_match match;
        kv_prefix_match(space, &h, &match);
        assert_int_equal(match.n_usable, 3);
        pair_destroy(&w, &p[i]);
    }
    kv_prefix_destroy(prefix);
    world_close(&w);
}

/* KV-33: who comes to start again, as after a trim to it, is not converted again. KV-35: and who
 * leaves before it neither converts another nor keeps it from that. KV-32. */
static void test_kv33_kv35_each_at_its_own_time(void **state)
{
    (void)state;
    static unsigned char a[DUMP_BYTES];
    static unsigned char b[DUMP_BYTES];
    world w;
    world_open_with(&w, "affine4g32,start=10", PACKED, 2, BOUNDS, 1 << 20);
    pair p = pair_create(&w, 64);
    pair q = pair_create(&w, 64);
    converse(&w, &p, 1, 9);
    converse(&w, &q, 50, 7);
    pair_destroy(&w, &q);
    assert_false(p.seq->converted);
    q = pair_create(&w, 64);
    converse(&w, &q, 70, 4);
    converse(&w, &p, 10, 1);
    assert_true(p.seq->converted && !q.seq->converted);
    pair_check(&w, &q);
    size_t n = dump(&p, 2, a);
    uint64_t reserved = kv_pool_bytes_reserved(w.pool);
    converse(&w, &p, 11, 1);
    weft_error err = {0};
    assert_ok(kv_seq_trim(p.seq, 10, &err), &err);
    oracle_trim(p.oracle, 10);
    pair_check(&w, &p);
    assert_int_equal(kv_pool_bytes_reserved(w.pool), reserved);
    /* The window has lost a position to the step that was taken back. */
    assert_true(dump(&p, 2, b) < n);
    converse(&w, &p, 11, 1);
    pair_check(&w, &p);
    pair_destroy(&w, &p);
    pair_destroy(&w, &q);
    world_close(&w);
}

/* KV-34: start 10 and a window of 8, through rounds of which a part is kept. */
static void check_rounds(const char *spec)
{
    world w;
    world_open_with(&w, spec, PACKED, 2, BOUNDS, 1 << 20);
    pair p[3];
    uint32_t tag = 1;
    for (uint32_t i = 0; i < 3; i++) {
        p[i] = pair_create(&w, 128);
        converse(&w, &p[i], 1000 * i + 500, 1 + 3 * i);
    }
    for (uint32_t round = 0; round < 16; round++) {
        for (uint32_t i = 0; i < 3; i++, tag += 4) {
            uint32_t tags[4];
            uint32_t n = kv_seq_most_append(p[i].seq) < 4 ? kv_seq_most_append(p[i].seq) : 4;
            fill_tags(tags, n, tag);
            advance(&w, &p[i], tags, n, 1 + (round + i) % n);
            p[i].converted = p[i].seq->converted;
            assert_int_equal(p[i].converted, p[i].seq->len >= 10);
        }
    }
    for (uint32_t i = 0; i < 3; i++) pair_destroy(&w, &p[i]);
    world_close(&w);
}

static void test_kv34_converted_amid_rounds(void **state)
{
    (void)state;
    check_rounds("affine8g32,start=10");
    check_rounds("affine4g32,start=10");
}

/* KV-42: what was rejected is known nowhere. */
static void test_kv42_rejected_is_not_kept(void **state)
{
    (void)state;
    world w;
    weft_error err = {0};
    kv_prefix *prefix;
    world_open(&w, TWO_LAYERS, 2, BOUNDS, 1 << 20);
    assert_ok(kv_prefix_create(&w.memory.allocator, w.pool, 0, &prefix, &err), &err);
    kv_space *space = kv_prefix_space(prefix, &w.config, 0);
    pair p = pair_create(&w, 64);
    uint32_t tags[24];
    fill_tags(tags, 24, 1);
    advance(&w, &p, tags, 20, 20);
    advance(&w, &p, tags + 20, 4, 1);
    kv_history h = {.ids = (const int32_t *)tags, .n = p.seq->len};
    assert_true(kv_prefix_retire(prefix, space, p.seq, &h));
    oracle_destroy(p.oracle);
    h.n = 24;
    kv_match match;
    kv_prefix_match(space, &h, &match);
    assert_int_equal(match.n_equal, 21);
    assert_int_equal(match.n_usable, 21);
    kv_prefix_destroy(prefix);
    world_close(&w);
}

/* KV-47: a clone that takes no steps is a view: it stays as it is, whatever the other does; and in
 * a step a view shows what was committed before it (KV-48). */
static void test_kv47_a_view_stays(void **state)
{
    (void)state;
    static unsigned char a[DUMP_BYTES];
    static unsigned char b[DUMP_BYTES];
    world w;
    world_open_with(&w, "affine8g32,start=30", PACKED, 2, BOUNDS, 1 << 20);
    pair p = pair_create(&w, 128);
    converse(&w, &p, 1, 22);
    pair view = {.oracle = oracle_clone(p.oracle)};
    weft_error err = {0};
    assert_ok(kv_seq_clone(&w.memory.allocator, p.seq, p.seq->len, &view.seq, &err), &err);
    size_t n = dump(&view, 2, a);
    converse(&w, &p, 23, 8);
    assert_true(p.seq->converted && !view.seq->converted);
    converse(&w, &p, 40, 40);
    assert_int_equal(dump(&view, 2, b), n);
    assert_memory_equal(a, b, n);
    kv_txn txn;
    kv_view views[2];
    kv_txn_init(&txn);
    kv_txn_row row = {p.seq, 5, false, 0};
    assert_ok(kv_txn_begin(&txn, &row, 1, &err), &err);
    kv_seq_views(p.seq, views, 1);
    assert_int_equal(views[0].len, 70);
    assert_int_equal(views[1].len, 70);
    kv_txn_rollback(&txn);
    assert_ok(kv_seq_trim(p.seq, 69, &err), &err);
    oracle_trim(p.oracle, 69);
    pair_destroy(&w, &p);
    assert_int_equal(dump(&view, 2, b), n);
    assert_memory_equal(a, b, n);
    pair_check(&w, &view);
    pair_destroy(&w, &view);
    world_close(&w);
}

/* KV-48, the vector: rows of 3 and 2 committed tokens whose prompts go on in one step show exactly
 * [0, 3) and [0, 2) of every layer, while it runs and to those who took a view before it. */
static void test_kv48_a_prompt_that_goes_on(void **state)
{
    (void)state;
    static unsigned char before[DUMP_BYTES];
    static unsigned char after[DUMP_BYTES];
    enum { N = 2, LAYERS = 2 };
    world w;
    world_open_with(&w, "affine8g32", PACKED, LAYERS, BOUNDS, 1 << 20);
    pair rows[N];
    pair taken[N];
    weft_error err = {0};
    for (uint32_t i = 0; i < N; i++) {
        rows[i] = pair_create(&w, 128);
        converse(&w, &rows[i], 1 + 20 * i, 3 - i);
        taken[i] = (pair){.oracle = oracle_clone(rows[i].oracle)};
        assert_ok(kv_seq_clone(&w.memory.allocator, rows[i].seq, 3 - i, &taken[i].seq, &err), &err);
    }
    kv_txn txn;
    kv_view views[LAYERS * N];
    kv_txn_row going[N] = {{rows[0].seq, 6, false, 0}, {rows[1].seq, 8, false, 0}};
    kv_txn_init(&txn);
    assert_ok(kv_txn_begin(&txn, going, N, &err), &err);
    for (uint32_t i = 0; i < N; i++) {
        kv_seq_views(rows[i].seq, views + i, N);
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            const kv_view *view = &views[layer * N + i];
            assert_int_equal(view->len, 3 - i);
            /* What a step writes first is not of a page that the taken view shares. */
            unsigned char *key = kv_key(view, 0, view->len);
            memset(key, 0xff, view->geometry->k_row_bytes);
        }
    }
    kv_txn_rollback(&txn);
    for (uint32_t i = 0; i < N; i++) {
        size_t n = dump(&taken[i], LAYERS, before);
        converse(&w, &rows[i], 50 + 20 * i, 6 + 2 * i);
        assert_int_equal(rows[i].seq->len, 9 + i);
        assert_int_equal(taken[i].seq->len, 3 - i);
        assert_int_equal(dump(&taken[i], LAYERS, after), n);
        assert_memory_equal(after, before, n);
        pair_check(&w, &rows[i]);
        pair_check(&w, &taken[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        pair_destroy(&w, &rows[i]);
        pair_destroy(&w, &taken[i]);
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv10_nothing_and_little),
        cmocka_unit_test(test_kv11_a_row_leaves),
        cmocka_unit_test(test_kv12_kept_where_they_stand),
        cmocka_unit_test(test_kv33_kv35_each_at_its_own_time),
        cmocka_unit_test(test_kv34_converted_amid_rounds),
        cmocka_unit_test(test_kv42_rejected_is_not_kept),
        cmocka_unit_test(test_kv47_a_view_stays),
        cmocka_unit_test(test_kv48_a_prompt_that_goes_on),
    };
    return TEST_RUN("kv/invariants", tests);
}
