/* test_page.c - the page pool: an exact budget, promises that hold, pages that move between
 * classes. */
#include "kv/page.h"
#include "support/kv_oracle.h"

#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

/* Three classes of 64, 192 and 1024 bytes. */
enum { N_CLASSES = 3 };

static const size_t BYTES[N_CLASSES] = {64, 192, 1024};

typedef struct world {
    fault_allocator memory;
    struct backend pages;
    kv_config config;
    size_t class_bytes[N_CLASSES];
    kv_pool *pool;
} world;

static void world_open(world *w, uint64_t budget)
{
    weft_error err = {0};
    memset(w, 0, sizeof *w);
    fault_allocator_init(&w->memory, 0);
    w->pages.memory = &w->memory;
    memcpy(w->class_bytes, BYTES, sizeof BYTES);
    w->config = (kv_config){.class_bytes = w->class_bytes, .n_classes = N_CLASSES};
    assert_ok(kv_pool_create(&w->memory.allocator, &ORACLE_BACKEND, &w->pages, &w->config, budget,
                             &w->pool, &err),
              &err);
}

static void world_close(world *w)
{
    kv_pool_destroy(w->pool);
    assert_int_equal(w->pages.n_pages, 0);
    fault_allocator_check(&w->memory);
}

static void test_budget_is_exact(void **state)
{
    (void)state;
    world w;
    world_open(&w, 64 + 192 + 1024);
    const uint32_t one_each[N_CLASSES] = {1, 1, 1};
    const uint32_t small[N_CLASSES] = {1, 0, 0};
    weft_error err = {0};
    assert_int_equal(kv_pool_budget(w.pool), 1280);
    assert_ok(kv_pool_reserve(w.pool, one_each, &err), &err);
    assert_int_equal(kv_pool_bytes_reserved(w.pool), 1280);
    assert_int_equal(w.pages.held, 1280);
    assert_status(WEFT_LIMIT, kv_pool_reserve(w.pool, small, &err), &err);
    assert_message(&err, "the request needs 1 pages of 64 bytes in all, 0 bytes are left");
    kv_pool_unreserve(w.pool, one_each);
    /* They stay for the next. */
    assert_int_equal(w.pages.held, 1280);
    w.memory.armed = true;
    err = (weft_error){0};
    assert_ok(kv_pool_reserve(w.pool, one_each, &err), &err);
    w.memory.armed = false;
    kv_pool_unreserve(w.pool, one_each);
    world_close(&w);
    /* One byte less is not enough. */
    world_open(&w, 1279);
    assert_status(WEFT_LIMIT, kv_pool_reserve(w.pool, one_each, NULL), NULL);
    assert_int_equal(w.pages.n_pages, 0);
    world_close(&w);
    world_open(&w, 0);
    assert_status(WEFT_LIMIT, kv_pool_reserve(w.pool, small, NULL), NULL);
    assert_ok(kv_pool_reserve(w.pool, (const uint32_t[]){0, 0, 0}, NULL), NULL);
    world_close(&w);
}

static void test_pages_are_reclaimed_between_classes(void **state)
{
    (void)state;
    world w;
    world_open(&w, 2048);
    const uint32_t smalls[N_CLASSES] = {32, 0, 0};
    const uint32_t larges[N_CLASSES] = {0, 0, 2};
    const uint32_t mixed[N_CLASSES] = {10, 1, 1};
    for (int round = 0; round < 4; round++) {
        assert_ok(kv_pool_reserve(w.pool, smalls, NULL), NULL);
        assert_int_equal(w.pages.held, 2048);
        kv_pool_unreserve(w.pool, smalls);
        assert_ok(kv_pool_reserve(w.pool, larges, NULL), NULL);
        assert_int_equal(w.pages.held, 2048);
        assert_int_equal(w.pages.n_pages, 2);
        kv_pool_unreserve(w.pool, larges);
        assert_ok(kv_pool_reserve(w.pool, mixed, NULL), NULL);
        assert_true(w.pages.held <= 2048);
        kv_pool_unreserve(w.pool, mixed);
    }
    world_close(&w);
}

/* A request that needs a page of one class more while other classes fall short of their own
 * promise: making room must take spare pages, never those just promised. */
static void test_room_is_made_of_spare_pages_only(void **state)
{
    (void)state;
    world w;
    world_open(&w, 10 * 192 + 1024);
    assert_ok(kv_pool_reserve(w.pool, (const uint32_t[]){0, 0, 2}, NULL), NULL);
    kv_pool_unreserve(w.pool, (const uint32_t[]){0, 0, 2});
    const uint32_t all[N_CLASSES] = {0, 10, 1};
    assert_ok(kv_pool_reserve(w.pool, all, NULL), NULL);
    kv_page *pages[10];
    for (int i = 0; i < 10; i++) {
        pages[i] = kv_pool_take(w.pool, 1);
        assert_non_null(pages[i]);
    }
    assert_int_equal(w.pages.n_pages, 11);
    for (int i = 0; i < 10; i++) kv_pool_give(w.pool, 1, pages[i]);
    kv_pool_unreserve(w.pool, all);
    world_close(&w);
}

/* Random promises of many holders, against sums. */
static void test_never_a_failure_after_reserve(void **state)
{
    (void)state;
    enum { HOLDERS = 9, MOST = 12 };
    static kv_page *taken[HOLDERS][N_CLASSES][MOST];
    uint32_t need[HOLDERS][N_CLASSES] = {{0}};
    uint32_t n_taken[HOLDERS][N_CLASSES] = {{0}};
    bool holds[HOLDERS] = {false};
    uint64_t reserved = 0;
    uint64_t bytes_taken = 0;
    uint64_t counter = 0;
    uint32_t n_refused = 0;
    world w;
    world_open(&w, 30000);
    for (uint32_t step = 0; step < 100000; step++) {
        uint32_t h = (uint32_t)(rng_u64(9, counter++) % HOLDERS);
        uint32_t c = (uint32_t)(rng_u64(9, counter++) % N_CLASSES);
        if (!holds[h]) {
            uint64_t bytes = 0;
            for (uint32_t i = 0; i < N_CLASSES; i++) {
                need[h][i] = (uint32_t)(rng_u64(9, counter++) % (MOST + 1));
                bytes += need[h][i] * BYTES[i];
            }
            weft_status status = kv_pool_reserve(w.pool, need[h], NULL);
            holds[h] = status == WEFT_OK;
            assert_status(reserved + bytes <= 30000 ? WEFT_OK : WEFT_LIMIT, status, NULL);
            if (holds[h]) reserved += bytes;
            n_refused += !holds[h];
        } else if (rng_u64(9, counter++) % 10 == 0) {
            for (uint32_t i = 0; i < N_CLASSES; i++) {
                while (n_taken[h][i] > 0) {
                    kv_pool_give(w.pool, i, taken[h][i][--n_taken[h][i]]);
                    bytes_taken -= BYTES[i];
                }
                reserved -= need[h][i] * BYTES[i];
            }
            kv_pool_unreserve(w.pool, need[h]);
            holds[h] = false;
        } else if (n_taken[h][c] < need[h][c]) {
            w.memory.armed = true;
            kv_page *page = kv_pool_take(w.pool, c);
            w.memory.armed = false;
            assert_non_null(page);
            memset(page->at, (int)step, BYTES[c]);
            taken[h][c][n_taken[h][c]++] = page;
            bytes_taken += BYTES[c];
        } else if (n_taken[h][c] > 0) {
            kv_pool_give(w.pool, c, taken[h][c][--n_taken[h][c]]);
            bytes_taken -= BYTES[c];
        }
        assert_int_equal(kv_pool_bytes_reserved(w.pool), reserved);
        assert_int_equal(kv_pool_bytes_taken(w.pool), bytes_taken);
        assert_true(w.pages.held <= 30000 && w.pages.held >= reserved);
    }
    assert_true(n_refused > 1000);
    for (uint32_t h = 0; h < HOLDERS; h++) {
        for (uint32_t i = 0; i < N_CLASSES && holds[h]; i++) {
            while (n_taken[h][i] > 0) kv_pool_give(w.pool, i, taken[h][i][--n_taken[h][i]]);
        }
        if (holds[h]) kv_pool_unreserve(w.pool, need[h]);
    }
    world_close(&w);
}

/* A refused allocation in the middle of a reserve leaves the promises as they were. */
static void test_refused_memory_changes_nothing(void **state)
{
    (void)state;
    const uint32_t first[N_CLASSES] = {1, 2, 0};
    const uint32_t second[N_CLASSES] = {3, 1, 2};
    size_t n_failed = 0;
    for (size_t at = 1;; at++) {
        world w;
        world_open(&w, 1 << 20);
        assert_ok(kv_pool_reserve(w.pool, first, NULL), NULL);
        w.memory.fail_at = w.memory.n_allocations + at;
        weft_error err = {0};
        weft_status status = kv_pool_reserve(w.pool, second, &err);
        bool hit = w.memory.hit;
        w.memory.fail_at = 0;
        assert_status(hit ? WEFT_NOMEM : WEFT_OK, status, &err);
        if (hit) {
            assert_message(&err, "out of memory for 2432 bytes of pages");
            assert_int_equal(kv_pool_bytes_reserved(w.pool), 64 + 2 * 192);
            assert_ok(kv_pool_reserve(w.pool, second, NULL), NULL);
        }
        kv_pool_unreserve(w.pool, first);
        kv_pool_unreserve(w.pool, second);
        assert_int_equal(kv_pool_bytes_reserved(w.pool), 0);
        world_close(&w);
        if (!hit) break;
        n_failed++;
    }
    /* Three lists grow, six pages are missing. */
    assert_true(n_failed >= 8);
}

static void test_large_requests_do_not_wrap(void **state)
{
    (void)state;
    world w;
    world_open(&w, UINT64_MAX);
    const uint32_t huge[N_CLASSES] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    weft_error err = {0};
    assert_status(WEFT_LIMIT, kv_pool_reserve(w.pool, huge, &err), &err);
    assert_int_equal(kv_pool_bytes_reserved(w.pool), 0);
    assert_int_equal(w.pages.n_pages, 0);
    world_close(&w);
}

/* ---- misuse traps ---- */

static void take_unreserved(void *user)
{
    kv_pool_take(user, 0);
}

static void give_twice(void *user)
{
    kv_page *page = kv_pool_take(user, 1);
    kv_pool_give(user, 1, page);
    kv_pool_give(user, 1, page);
}

static void unreserve_what_is_taken(void *user)
{
    kv_pool_take(user, 1);
    kv_pool_unreserve(user, (const uint32_t[]){0, 1, 0});
}

static void destroy_with_pages_out(void *user)
{
    kv_pool_take(user, 1);
    kv_pool_destroy(user);
}

static void test_misuse_traps(void **state)
{
    (void)state;
    world w;
    world_open(&w, 1 << 20);
    assert_ok(kv_pool_reserve(w.pool, (const uint32_t[]){0, 1, 0}, NULL), NULL);
    assert_true(test_traps(take_unreserved, w.pool));
    assert_true(test_traps(give_twice, w.pool));
    assert_true(test_traps(unreserve_what_is_taken, w.pool));
    assert_true(test_traps(destroy_with_pages_out, w.pool));
    kv_pool_unreserve(w.pool, (const uint32_t[]){0, 1, 0});
    kv_pool_destroy(NULL);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget_is_exact),
        cmocka_unit_test(test_pages_are_reclaimed_between_classes),
        cmocka_unit_test(test_room_is_made_of_spare_pages_only),
        cmocka_unit_test(test_never_a_failure_after_reserve),
        cmocka_unit_test(test_refused_memory_changes_nothing),
        cmocka_unit_test(test_large_requests_do_not_wrap),
        cmocka_unit_test(test_misuse_traps),
    };
    return TEST_RUN("kv/page", tests);
}
