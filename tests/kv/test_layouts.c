/* test_layouts.c - a walk over kv/layouts/layouts.def, with each formula against its meaning,
 * position by position. */
#include "kv/layouts/layout.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static void test_rows_are_found_and_distinct(void **state)
{
    (void)state;
    uint32_t n;
    const kv_layout *const *table = kv_layout_table(&n);
    assert_int_equal(n, 7);
    for (uint32_t i = 0; i < n; i++) {
        assert_ptr_equal(kv_layout_by_id(table[i]->id), table[i]);
        for (uint32_t j = 0; j < i; j++) {
            assert_int_not_equal(table[j]->id, table[i]->id);
            assert_string_not_equal(table[j]->name, table[i]->name);
        }
    }
    assert_null(kv_layout_by_id(0));
    assert_string_equal(kv_layout_by_id(1)->name, "full");
    assert_string_equal(kv_layout_by_id(2)->name, "window");
    assert_string_equal(kv_layout_by_id(3)->name, "chunked");
    assert_string_equal(kv_layout_by_id(4)->name, "latent");
    assert_string_equal(kv_layout_by_id(5)->name, "recurrent");
    assert_null(kv_layout_by_id(6));
    assert_string_equal(kv_layout_by_id(7)->name, "cross");
    assert_string_equal(kv_layout_by_id(8)->name, "index");
}

static bool sees(const kv_geometry *g, uint32_t query, uint32_t position)
{
    if (position > query) return false;
    if (g->layout == KV_LAYOUT_CHUNKED) return query / g->window == position / g->window;
    return g->layout != KV_LAYOUT_WINDOW || query - position < g->window;
}

/* KV-15: a query sees the newest min(p + 1, W) positions, and whatever comes next is kept. */
static void test_kv15_visible_and_kept(void **state)
{
    (void)state;
    static const uint32_t WINDOWS[] = {0, 1, 2, 3, 4, 8, 32, 100};
    for (size_t k = 0; k < sizeof WINDOWS / sizeof WINDOWS[0]; k++) {
        uint32_t window = WINDOWS[k];
        kv_geometry g = {.layout = window == 0 ? KV_LAYOUT_FULL : KV_LAYOUT_WINDOW,
                         .window = window,
                         .page_tokens = 16};
        const kv_layout *layout = kv_layout_by_id(g.layout);
        for (uint32_t p = 0; p < 300; p++) {
            uint32_t low = kv_lowest(&g, p);
            for (uint32_t j = 0; j <= p; j++) assert_int_equal(sees(&g, p, j), j >= low);
            uint32_t n_seen = p + 1 - low;
            assert_int_equal(n_seen, window == 0 || p + 1 < window ? p + 1 : window);
            /* What the query at len sees is kept when len are committed. */
            uint32_t kept = layout->keep(&g, p);
            assert_true(kept <= low && kept <= p);
            if (window != 0 && p >= window) assert_int_equal(p - kept, window);
        }
        assert_int_equal(kv_lowest(&g, UINT32_MAX), window == 0 ? 0 : UINT32_MAX - window + 1);
        assert_int_equal(layout->keep(&g, UINT32_MAX), window == 0 ? 0 : UINT32_MAX - window);
    }
}

/* KV-20: a query sees the positions of its own chunk up to itself; the chunk that the next position
 * falls into is kept, and no more (B11). */
static void test_kv20_chunks(void **state)
{
    (void)state;
    static const uint32_t SIZES[] = {1, 2, 3, 8, 16, 33, 100};
    for (size_t k = 0; k < sizeof SIZES / sizeof SIZES[0]; k++) {
        uint32_t size = SIZES[k];
        kv_geometry g = {.layout = KV_LAYOUT_CHUNKED, .window = size, .page_tokens = 16};
        const kv_layout *layout = kv_layout_by_id(g.layout);
        for (uint32_t p = 0; p < 300; p++) {
            uint32_t low = kv_lowest(&g, p);
            assert_int_equal(low, size * (p / size));
            for (uint32_t j = 0; j <= p; j++) assert_int_equal(sees(&g, p, j), j >= low);
            assert_int_equal(layout->keep(&g, p), low);
        }
        assert_int_equal(kv_lowest(&g, UINT32_MAX), UINT32_MAX / size * size);
        assert_int_equal(layout->keep(&g, UINT32_MAX), UINT32_MAX / size * size);
    }
}

/* All layouts that bound nothing: every position is seen, and kept. */
static void test_latent_keeps_all(void **state)
{
    (void)state;
    kv_geometry g = {.layout = KV_LAYOUT_LATENT, .page_tokens = 16};
    const kv_layout *layout = kv_layout_by_id(g.layout);
    for (uint32_t p = 0; p < 300; p++) {
        assert_int_equal(kv_lowest(&g, p), 0);
        assert_int_equal(layout->keep(&g, p), 0);
    }
    assert_int_equal(layout->slots(&g, 33, 5), 3);
    assert_int_equal(layout->slots(&g, UINT32_MAX, 1), 1u << 28);
    assert_false(kv_has_values(&g));
    g.layout = KV_LAYOUT_FULL;
    assert_true(kv_has_values(&g));
}

/* Keys alone, of all positions. */
static void test_index_keeps_all(void **state)
{
    (void)state;
    kv_geometry g = {.layout = KV_LAYOUT_INDEX, .page_tokens = 16};
    const kv_layout *layout = kv_layout_by_id(g.layout);
    assert_int_equal(kv_lowest(&g, UINT32_MAX), 0);
    assert_int_equal(layout->keep(&g, UINT32_MAX), 0);
    assert_int_equal(layout->slots(&g, 33, 5), 3);
    assert_false(kv_has_values(&g));
    kv_plane planes[KV_PLANES_MOST];
    assert_int_equal(layout->state_list(&g, planes), 1);
}

/* A state stands at len: nothing of what was before can be gone back to, and no page is kept. */
static void test_recurrent_keeps_no_positions(void **state)
{
    (void)state;
    kv_geometry g = {.layout = KV_LAYOUT_RECURRENT, .page_tokens = 16};
    const kv_layout *layout = kv_layout_by_id(g.layout);
    assert_int_equal(layout->keep(&g, 0), 0);
    assert_int_equal(layout->keep(&g, UINT32_MAX), UINT32_MAX);
    assert_int_equal(layout->slots(&g, UINT32_MAX, UINT32_MAX), 0);
}

/* A convolution leaves a tail and no matrix. */
static void test_recurrent_has_what_it_has(void **state)
{
    (void)state;
    kv_plane planes[KV_PLANES_MOST];
    kv_geometry g = {.layout = KV_LAYOUT_RECURRENT,
                     .page_tokens = 16,
                     .buffers_at = {0, 64},
                     .buffer_bytes = {64, 128}};
    const kv_layout *layout = kv_layout_by_id(g.layout);
    assert_int_equal(layout->state_list(&g, planes), 2);
    assert_string_equal(planes[1].name, "matrix");
    assert_int_equal(planes[1].at, 64);
    g.buffer_bytes[KV_BUFFER_MATRIX] = 0;
    assert_int_equal(layout->state_list(&g, planes), 1);
    assert_string_equal(planes[0].name, "tail");
    assert_int_equal(planes[0].bytes, 64);
    g.buffer_bytes[KV_BUFFER_TAIL] = 0;
    g.buffer_bytes[KV_BUFFER_MATRIX] = 128;
    assert_int_equal(layout->state_list(&g, planes), 1);
    assert_string_equal(planes[0].name, "matrix");
}

/* All of an encoder is kept, however long the decoder's sequence gets. */
static void test_cross_keeps_all(void **state)
{
    (void)state;
    kv_geometry g = {.layout = KV_LAYOUT_CROSS, .page_tokens = 16};
    const kv_layout *layout = kv_layout_by_id(g.layout);
    assert_int_equal(kv_lowest(&g, UINT32_MAX), 0);
    assert_int_equal(layout->keep(&g, UINT32_MAX), 0);
    assert_int_equal(layout->slots(&g, 33, 5), 3);
    assert_int_equal(layout->slots(&g, UINT32_MAX, 1), 1u << 28);
    assert_true(kv_has_values(&g));
}

/* KV-18: random histories of appends and partial keeps; each page has its slot to itself, and is
 * there as long as somebody sees one of its positions. */
static void test_kv18_slots_never_collide(void **state)
{
    (void)state;
    uint64_t counter = 0;
    for (uint32_t round = 0; round < 600; round++) {
        uint32_t most = 1 + (uint32_t)(rng_u64(1, counter++) % 64);
        static const uint8_t LAYOUTS[] = {KV_LAYOUT_FULL, KV_LAYOUT_WINDOW, KV_LAYOUT_CHUNKED,
                                          KV_LAYOUT_WINDOW, KV_LAYOUT_CHUNKED};
        kv_geometry g = {.layout = LAYOUTS[round % 5],
                         .page_tokens = 1u << (rng_u64(1, counter++) % 5)};
        g.window = g.layout == KV_LAYOUT_FULL ? 0 : 1 + (uint32_t)(rng_u64(1, counter++) % 32);
        enum { CONTEXT = 400 };
        const kv_layout *layout = kv_layout_by_id(g.layout);
        uint32_t n_slots = layout->slots(&g, CONTEXT, most);
        uint32_t *slots = calloc(n_slots, sizeof *slots); /* page + 1, or 0 */
        uint32_t len = 0;
        uint32_t first = 0; /* lowest page held */
        assert_true(n_slots <= (CONTEXT + g.page_tokens - 1) / g.page_tokens);
        while (len < CONTEXT) {
            uint32_t n = 1 + (uint32_t)(rng_u64(1, counter++) % most);
            if (n > CONTEXT - len) n = CONTEXT - len;
            uint32_t end = (len + n + g.page_tokens - 1) / g.page_tokens;
            for (uint32_t j = (len + g.page_tokens - 1) / g.page_tokens; j < end; j++) {
                assert_int_equal(slots[j % n_slots], 0);
                slots[j % n_slots] = j + 1;
            }
            for (uint32_t p = kv_lowest(&g, len); p < len + n; p++) {
                uint32_t page = p / g.page_tokens;
                assert_int_equal(slots[page % n_slots], page + 1);
            }
            uint32_t keep = (uint32_t)(rng_u64(1, counter++) % (n + 1));
            len += keep == 0 && n == 1 ? 1 : keep;
            uint32_t new_end = (len + g.page_tokens - 1) / g.page_tokens;
            for (uint32_t j = new_end; j < end; j++) slots[j % n_slots] = 0;
            for (; (first + 1) * g.page_tokens <= layout->keep(&g, len); first++) {
                slots[first % n_slots] = 0;
            }
        }
        free(slots);
    }
}

/* 64-bit: neither sum of the formula wraps. */
static void test_kv61_slots_of_large_numbers(void **state)
{
    (void)state;
    kv_geometry g = {.layout = KV_LAYOUT_WINDOW, .window = UINT32_MAX, .page_tokens = 16};
    const kv_layout *window = kv_layout_by_id(KV_LAYOUT_WINDOW);
    const kv_layout *full = kv_layout_by_id(KV_LAYOUT_FULL);
    assert_int_equal(window->slots(&g, UINT32_MAX, UINT32_MAX), 1u << 28);
    g.window = 1;
    assert_int_equal(window->slots(&g, UINT32_MAX, UINT32_MAX), 1u << 28);
    assert_int_equal(window->slots(&g, UINT32_MAX, 15), 2);
    g = (kv_geometry){.layout = KV_LAYOUT_CHUNKED, .window = UINT32_MAX, .page_tokens = 16};
    assert_int_equal(kv_layout_by_id(KV_LAYOUT_CHUNKED)->slots(&g, UINT32_MAX, UINT32_MAX),
                     1u << 28);
    g.layout = KV_LAYOUT_FULL;
    assert_int_equal(full->slots(&g, UINT32_MAX, 1), 1u << 28);
    assert_int_equal(full->slots(&g, 1, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_found_and_distinct),
        cmocka_unit_test(test_kv15_visible_and_kept),
        cmocka_unit_test(test_kv20_chunks),
        cmocka_unit_test(test_latent_keeps_all),
        cmocka_unit_test(test_index_keeps_all),
        cmocka_unit_test(test_recurrent_keeps_no_positions),
        cmocka_unit_test(test_recurrent_has_what_it_has),
        cmocka_unit_test(test_cross_keeps_all),
        cmocka_unit_test(test_kv18_slots_never_collide),
        cmocka_unit_test(test_kv61_slots_of_large_numbers),
    };
    return TEST_RUN("kv/layouts", tests);
}
