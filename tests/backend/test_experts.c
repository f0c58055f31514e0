/* test_experts.c - the store of experts: where they lie in their files, what is kept and what gives
 * way, and that what it has are the bytes of the file. */
#include "backend/experts.h"

#include <stdio.h>
#include <string.h>

#include "models/model.h"
#include "support/test.h"
#include "tensor/encoding.h"

typedef struct source {
    env env;
    llm *m;
    backend_experts files;
    graph_id layers[8];
    uint32_t n_layers;
} source;

static void source_open(source *s, const char *path)
{
    weft_error err = {WEFT_OK, ""};
    *s = (source){.env = {mem_system(), io_system(), NULL}};
    assert_ok(llm_open(&s->env, path, &s->m, &err), &err);
    const weights *w = s->m->weights;
    s->files = (backend_experts){.maps = w->maps, .paths = w->paths, .n_files = w->n_maps};
    for (graph_id id = 1; id < s->m->graph.n_values; id++) {
        if (s->m->graph.values[id].op == GRAPH_EXPERTS) s->layers[s->n_layers++] = id;
    }
}

static expert_store *store_open(source *s, uint64_t n)
{
    weft_error err = {WEFT_OK, ""};
    expert_store *x;
    s->files.n_bytes = n * experts_measure(&s->m->graph, &s->files).each_bytes;
    assert_ok(experts_create(&s->env, &s->m->graph, &s->files, &x, &err), &err);
    assert_int_equal(experts_capacity(x), n);
    return x;
}

/* Every number of an expert, decoded from the store and from the map. */
static void check_slot(expert_store *x, const source *s, graph_id layer, uint32_t expert,
                       uint32_t slot)
{
    const graph *g = &s->m->graph;
    weft_error err = {WEFT_OK, ""};
    assert_ok(experts_wait(x, slot, &err), &err);
    for (uint32_t i = 0; i < EXPERT_MATRICES; i++) {
        const tensor *mapped = expert_matrix(g, &g->values[layer], expert, i);
        const tensor *t = experts_matrix(x, slot, i);
        assert_ptr_not_equal(t->planes[0], mapped->planes[0]);
        assert_int_equal((uintptr_t)t->planes[0] % IO_BLOCK,
                         (uintptr_t)mapped->planes[0] % IO_BLOCK);
        float a[256];
        float b[256];
        assert_true(t->n_cols <= 256 && t->n_rows == mapped->n_rows);
        for (uint64_t row = 0; row < t->n_rows; row++) {
            t->encoding->decode_row(t, row, a);
            mapped->encoding->decode_row(mapped, row, b);
            assert_memory_equal(a, b, (size_t)t->n_cols * sizeof *a);
        }
    }
}

static void use(expert_store *x, const source *s, uint32_t layer, const uint32_t *list, uint32_t n)
{
    uint32_t own[8];
    uint32_t slots[8];
    memcpy(own, list, n * sizeof *own);
    experts_begin(x, s->layers[layer], own, n);
    experts_use(x, s->layers[layer], own, n, slots);
    for (uint32_t i = 0; i < n; i++) check_slot(x, s, s->layers[layer], own[i], slots[i]);
}

static backend_expert_stats stats_of(expert_store *x)
{
    backend_expert_stats stats;
    experts_get_stats(x, &stats);
    return stats;
}

#define USE(layer, ...)                                                                            \
    use(x, &s, layer, (const uint32_t[]){__VA_ARGS__},                                             \
        sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* What was used longest ago gives way. */
static void test_order_of_use(void **state)
{
    (void)state;
    source s;
    source_open(&s, GOLDEN_PATH("mixtral"));
    expert_store *x = store_open(&s, 4);
    USE(0, 1, 2);
    USE(1, 3, 1);
    assert_int_equal(stats_of(x).n_hits, 0);
    USE(0, 2);    /* there; older than it are: 0.1, 1.3, 1.1 */
    USE(2, 0);    /* in the place of 0.1 */
    USE(1, 3, 1); /* there */
    USE(0, 2);    /* there */
    assert_int_equal(stats_of(x).n_used, 9);
    assert_int_equal(stats_of(x).n_hits, 4);
    USE(0, 1); /* 2.0 gives way */
    USE(2, 0); /* 1.3 or 1.1, as they were used */
    assert_int_equal(stats_of(x).n_hits, 4);
    USE(3, 0, 1, 2, 3); /* all that there is room for */
    USE(3, 3, 2, 1, 0);
    assert_int_equal(stats_of(x).n_used, 19);
    assert_int_equal(stats_of(x).n_hits, 8);
    assert_int_equal(stats_of(x).n_ahead, 0);
    experts_rest(x);
    experts_destroy(x);
    llm_close(s.m);
}

/* Those that are there come first, each kind in its order. */
static void test_begin(void **state)
{
    (void)state;
    source s;
    source_open(&s, GOLDEN_PATH("qwen3_moe"));
    expert_store *x = store_open(&s, 6);
    USE(1, 5, 2, 7);
    uint32_t list[] = {0, 2, 3, 5, 6, 7};
    static const uint32_t ORDER[] = {2, 5, 7, 0, 3, 6};
    experts_begin(x, s.layers[1], list, 6);
    assert_memory_equal(list, ORDER, sizeof list);
    assert_int_equal(stats_of(x).n_hits, 3);
    experts_destroy(x);
    llm_close(s.m);
}

/* What is read ahead takes the place of nothing in use, nor of what it wants itself; only guesses
 * are counted. */
static void test_ahead(void **state)
{
    (void)state;
    source s;
    source_open(&s, GOLDEN_PATH("qwen3_moe"));
    expert_store *x = store_open(&s, 4);
    static const uint32_t ALL[] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t list[] = {0, 1};
    uint32_t slots[2];
    experts_begin(x, s.layers[0], list, 2);
    experts_use(x, s.layers[0], list, 2, slots);
    experts_ahead(x, s.layers[1], ALL + 3, 5, true); /* there is room for 3 and 4 */
    assert_int_equal(stats_of(x).n_ahead, 2);
    experts_ahead(x, s.layers[1], ALL + 3, 2, true); /* both are there, or on their way */
    assert_int_equal(stats_of(x).n_ahead, 2);
    for (uint32_t i = 0; i < 2; i++) check_slot(x, &s, s.layers[0], list[i], slots[i]);
    USE(1, 4, 6);
    assert_int_equal(stats_of(x).n_ahead_used, 1);
    USE(1, 4);
    assert_int_equal(stats_of(x).n_ahead_used, 1); /* once */
    uint64_t n_hits = stats_of(x).n_hits;
    experts_ahead(x, s.layers[2], ALL, 2, false);
    assert_int_equal(stats_of(x).n_ahead, 2);
    USE(2, 0, 1);
    USE(2, 1, 0);
    assert_int_equal(stats_of(x).n_ahead_used, 1);
    assert_true(stats_of(x).n_hits >= n_hits + 2);
    /* Wrong guesses without end, while all slots are in use in between. */
    for (uint32_t i = 0; i < 200; i++) {
        USE(i % 4, i % 8, (i + 3) % 8, (i + 5) % 8, (i + 6) % 8);
        USE((i + 1) % 4, i % 8);
        experts_ahead(x, s.layers[(i + 2) % 4], ALL + i % 5, 3, true);
    }
    experts_destroy(x);
    llm_close(s.m);
}

/* Memory is what was allowed, to whole experts, and never more than there are. */
static void test_memory(void **state)
{
    (void)state;
    source s;
    source_open(&s, GOLDEN_PATH("deepseek_v3"));
    experts_size size = experts_measure(&s.m->graph, &s.files);
    assert_int_equal(size.n_all, 24);
    assert_int_equal(size.n_layers, s.n_layers);
    assert_true(size.slot_bytes % IO_BLOCK == 0 && size.each_bytes > size.slot_bytes);
    assert_true(size.n_bytes <= size.n_all * size.slot_bytes);
    for (uint64_t extra = 0; extra < size.each_bytes; extra += size.each_bytes - 1) {
        weft_error err = {WEFT_OK, ""};
        expert_store *x;
        s.files.n_bytes = 3 * size.each_bytes + extra;
        assert_ok(experts_create(&s.env, &s.m->graph, &s.files, &x, &err), &err);
        assert_int_equal(stats_of(x).n_bytes, 3 * size.each_bytes);
        experts_destroy(x);
        s.files.n_bytes = 24 * size.each_bytes + extra + (extra << 20);
        assert_ok(experts_create(&s.env, &s.m->graph, &s.files, &x, &err), &err);
        assert_int_equal(stats_of(x).n_bytes, 24 * size.each_bytes);
        experts_destroy(x);
    }
    llm_close(s.m);
}

/* ---- where an expert lies -------------------------------------------------------------------- */

/* Stacks of two experts each in maps that are never looked at. */
typedef struct layout {
    io_map maps[2];
    backend_experts files;
    tensor tensors[6]; /* gate, up, down */
    graph_value values[5];
    graph g;
} layout;

static void layout_init(layout *l)
{
    memset(l, 0, sizeof *l);
    for (uint32_t i = 0; i < 2; i++) {
        l->maps[i].data = (const unsigned char *)((uintptr_t)(i + 1) << 30);
        l->maps[i].size = 100 * IO_BLOCK + 10;
    }
    l->files = (backend_experts){.maps = l->maps, .n_files = 2};
    for (uint32_t i = 0; i < 3; i++) {
        l->values[i + 1] = (graph_value){.op = GRAPH_STACK, .i = {2 * i, 2}};
        l->values[4].in[2 + i] = i + 1;
    }
    l->values[4].op = GRAPH_EXPERTS;
    l->g = (graph){.values = l->values, .n_values = 5, .tensors = l->tensors, .n_tensors = 6};
}

static void set_plane(layout *l, uint32_t tensor_i, uint32_t plane, uint32_t file, uint64_t offset,
                      uint64_t n_bytes)
{
    tensor *t = &l->tensors[tensor_i];
    t->n_rows = t->n_cols = 1;
    t->planes[plane] = l->maps[file].data + offset;
    t->plane_bytes[plane] = n_bytes;
}

static void test_places(void **state)
{
    (void)state;
    layout l;
    layout_init(&l);
    /* Expert 1: gate and up share a block, down ends with the other file; scales lie alone. */
    set_plane(&l, 1, 0, 0, 5 * IO_BLOCK + 100, 2 * IO_BLOCK);
    set_plane(&l, 1, 1, 1, 0, 10);
    set_plane(&l, 3, 0, 0, 7 * IO_BLOCK + 100, 3 * IO_BLOCK - 100);
    set_plane(&l, 5, 0, 1, 99 * IO_BLOCK + 1, IO_BLOCK + 9);
    expert_place p;
    expert_place_find(&l.g, &l.values[4], 1, &l.files, &p);
    assert_int_equal(p.n_ranges, 3);
    assert_int_equal(p.ranges[0].file_i, 0);
    assert_int_equal(p.ranges[0].first, 5 * IO_BLOCK);
    assert_int_equal(p.ranges[0].end, 10 * IO_BLOCK);
    assert_int_equal(p.ranges[0].needed, 10 * IO_BLOCK);
    assert_int_equal(p.ranges[1].file_i, 1);
    assert_int_equal(p.ranges[1].first, 0);
    assert_int_equal(p.ranges[1].needed, 10);
    assert_int_equal(p.ranges[2].first, 99 * IO_BLOCK);
    assert_int_equal(p.ranges[2].end, 101 * IO_BLOCK);
    assert_int_equal(p.ranges[2].needed, 100 * IO_BLOCK + 10); /* the end of the file */
    assert_int_equal(p.n_bytes, 8 * IO_BLOCK);
    assert_int_equal(p.planes[0][0], 100);
    assert_int_equal(p.planes[1][0], 2 * IO_BLOCK + 100);
    assert_int_equal(p.planes[0][1], 5 * IO_BLOCK);
    assert_int_equal(p.planes[2][0], 6 * IO_BLOCK + 1);
}

/* Rows of gate and up in turn: both reach over the same bytes, which are read once. */
static void test_rows_in_turn(void **state)
{
    (void)state;
    layout l;
    layout_init(&l);
    tensor all = {.n_dims = 2, .n_rows = 8, .n_cols = 1024, .encoding = &ENCODING_F32};
    all.planes[0] = l.maps[0].data + 3 * IO_BLOCK;
    all.plane_bytes[0] = 8 * IO_BLOCK;
    all.row_bytes[0] = IO_BLOCK;
    weft_error err = {WEFT_OK, ""};
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(tensor_every(&all, i, 2, 4, &l.tensors[2 * i], &err), &err);
    assert_int_equal(tensor_plane_reach(&l.tensors[0], 0), 7 * IO_BLOCK);
    l.tensors[4] = tensor_rows(&all, 7, 1);
    expert_place p;
    expert_place_find(&l.g, &l.values[4], 0, &l.files, &p);
    assert_int_equal(p.n_ranges, 1);
    assert_int_equal(p.n_bytes, 8 * IO_BLOCK);
    assert_int_equal(p.planes[1][0], IO_BLOCK);
    assert_int_equal(p.planes[2][0], 7 * IO_BLOCK);
    /* By columns: the first number of the first row to the last of the last. */
    tensor_grid grid = {.first = 1, .n_rows = 512, .row_step = 2, .n_cols = 8, .col_step = 1024};
    tensor turned = tensor_pick(&all, grid);
    assert_int_equal(tensor_plane_reach(&turned, 0), (511 * 2 + 7 * 1024 + 1) * sizeof(float));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_use), cmocka_unit_test(test_begin),
        cmocka_unit_test(test_ahead),        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_places),       cmocka_unit_test(test_rows_in_turn),
    };
    return TEST_RUN("backend/experts", tests);
}
