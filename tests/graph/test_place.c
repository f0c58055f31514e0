/* test_place.c - storage of random graphs against brute force: whoever is alive at one moment has
 * storage of its own, sharing extends a life, and the block is no larger than it needs to be said
 * to be. */
#include "graph/graph.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

enum { CAPACITY = 70, N_WEIGHTS = 4, N_TOKENS = 5, N_OUTPUTS = 3, N_HIDDEN = 4 };

static const graph_rows MOST = {N_TOKENS, N_OUTPUTS, N_HIDDEN};

static const uint32_t COLS[N_WEIGHTS] = {7, 16, 33, 64};

typedef struct random_graph {
    graph g;
    graph_value values[CAPACITY];
    tensor tensors[N_WEIGHTS * N_WEIGHTS];
    graph_slot slots[CAPACITY];
    uint64_t seed, counter;
} random_graph;

static uint32_t pick(random_graph *r, uint32_t n)
{
    return (uint32_t)(rng_u64(r->seed, r->counter++) % n);
}

/* A value that numbers can be taken from. */
static graph_id some_value(random_graph *r)
{
    for (;;) {
        graph_id id = 1 + pick(r, r->g.n_values - 1);
        graph_op op = r->values[id].op;
        if (op != GRAPH_WEIGHT && op != GRAPH_INPUT) return id;
    }
}

static graph_id weight_for(random_graph *r, uint32_t cols)
{
    uint32_t in = 0;
    while (COLS[in] != cols) in++;
    return graph_weight(&r->g, pick(r, N_WEIGHTS) * N_WEIGHTS + in);
}

/* Linear layers, adds, scales, takes over what is there. */
static void build(random_graph *r, uint64_t seed)
{
    memset(r, 0, sizeof *r);
    r->seed = seed;
    for (uint32_t o = 0; o < N_WEIGHTS; o++) {
        for (uint32_t i = 0; i < N_WEIGHTS; i++) {
            r->tensors[o * N_WEIGHTS + i] =
                (tensor){.name = "w", .n_rows = COLS[o], .n_cols = COLS[i]};
        }
    }
    graph *g = &r->g;
    graph_init(g, r->values, CAPACITY, r->tensors, N_WEIGHTS * N_WEIGHTS);
    graph_id tokens = graph_tokens(g);
    graph_embed(g, tokens, graph_weight(g, pick(r, N_WEIGHTS * N_WEIGHTS)));
    uint32_t n = 10 + pick(r, CAPACITY - 20);
    while (g->n_values < n) {
        graph_id x = some_value(r);
        graph_id y = some_value(r);
        const graph_value *a = &r->values[x];
        const graph_value *b = &r->values[y];
        switch (pick(r, 5)) {
        case 0:
            graph_scale(g, x, 2.0F);
            break;
        case 1:
            if (a->rows != GRAPH_TOKENS) break;
            pick(r, 2) == 0 ? graph_take(g, x) : graph_take_hidden(g, x);
            break;
        case 2:
            if (a->rows == b->rows && a->cols == b->cols) graph_add(g, x, y);
            break;
        default:
            graph_linear(g, x, weight_for(r, a->cols), 0);
            break;
        }
    }
    graph_id out = some_value(r);
    while (r->values[out].rows == GRAPH_HIDDEN) out = some_value(r);
    if (r->values[out].rows == GRAPH_TOKENS) out = graph_take(g, out);
    /* Unused values are no matter here: only the results' own storage is. */
    for (graph_id id = 1; id < g->n_values; id++) {
        if (r->values[id].rows == GRAPH_HIDDEN && graph_last_use(g, id) == id) g->hidden = id;
    }
    g->output = graph_linear(g, out, weight_for(r, r->values[out].cols), 0);
    assert_int_equal(g->error.status, WEFT_OK);
}

static bool stored(const random_graph *r, graph_id id)
{
    graph_op op = r->values[id].op;
    return op != GRAPH_WEIGHT && op != GRAPH_INPUT && id != r->g.output && id != r->g.hidden;
}

static size_t floats(const random_graph *r, graph_id id)
{
    const graph_value *v = &r->values[id];
    return (size_t)v->cols * graph_count(MOST, v->rows);
}

/* A reader finds every input that an earlier moment wrote whole. */
static void check_inputs(const random_graph *r, const uint32_t *moment, const graph_id *owner,
                         graph_id id)
{
    for (uint32_t i = 0; i < GRAPH_INPUTS; i++) {
        graph_id in = r->values[id].in[i];
        if (in == 0 || !stored(r, in) || moment[in] == moment[id]) continue;
        const graph_slot *s = &r->slots[in];
        for (size_t k = 0; k < floats(r, in); k++) {
            if (owner[s->offset + k] == in) continue;
            fail_msg("seed %llu: value %u reads %u, overwritten by %u", (unsigned long long)r->seed,
                     id, in, owner[s->offset + k]);
        }
    }
}

/* Runs the graph on a block of owners: each value writes its id, each reader must find its inputs
 * whole. A value that shares writes over the one it shares with. moment: when each value is
 * written. */
static void replay(const random_graph *r, const uint32_t *moment, size_t total)
{
    graph_id *owner = calloc(total + 1, sizeof *owner);
    uint32_t last = 0;
    for (graph_id id = 1; id < r->g.n_values; id++) last = moment[id] > last ? moment[id] : last;
    for (uint32_t m = 0; m <= last; m++) {
        for (graph_id id = 1; id < r->g.n_values; id++) {
            if (moment[id] == m) check_inputs(r, moment, owner, id);
        }
        for (graph_id id = 1; id < r->g.n_values; id++) {
            const graph_slot *s = &r->slots[id];
            if (moment[id] != m || !stored(r, id)) continue;
            assert_true(s->offset + floats(r, id) <= total);
            for (size_t k = 0; k < floats(r, id); k++) owner[s->offset + k] = id;
        }
        /* Those of one moment do not tread on each other, unless one shares. */
        for (graph_id id = 1; id < r->g.n_values; id++) {
            const graph_slot *s = &r->slots[id];
            if (moment[id] != m || !stored(r, id)) continue;
            for (size_t k = 0; k < floats(r, id); k++) {
                graph_id by = owner[s->offset + k];
                if (by != id && r->slots[by].shares != id) {
                    fail_msg("seed %llu: values %u and %u of one moment overlap",
                             (unsigned long long)r->seed, id, by);
                }
            }
        }
    }
    free(owner);
}

static void check_slots(const random_graph *r, size_t total)
{
    size_t sum = 0;
    size_t end = 0;
    for (graph_id id = 1; id < r->g.n_values; id++) {
        const graph_slot *s = &r->slots[id];
        assert_int_equal(s->offset != SIZE_MAX, stored(r, id));
        if (!stored(r, id)) continue;
        assert_int_equal(s->offset % 16, 0);
        assert_int_equal(s->size, (floats(r, id) + 15) / 16 * 16);
        if (s->shares == 0) sum += s->size;
        if (s->offset + s->size > end) end = s->offset + s->size;
    }
    assert_int_equal(total, end);
    assert_true(total <= sum);
}

static void test_living_values_do_not_overlap(void **state)
{
    (void)state;
    const char *text = getenv("WEFT_TEST_SEED");
    uint64_t seed = text == NULL ? 1 : strtoull(text, NULL, 10);
    uint32_t rounds = text == NULL ? 3000 : 1;
    size_t reused = 0;
    static random_graph r;
    print_message("WEFT_TEST_SEED=%llu to %llu\n", (unsigned long long)seed,
                  (unsigned long long)(seed + rounds - 1));
    for (uint32_t k = 0; k < rounds; k++) {
        uint32_t moment[CAPACITY];
        size_t total;
        build(&r, seed + k);
        graph_lifetimes(&r.g, r.slots);
        for (graph_id id = 1; id < r.g.n_values; id++) {
            assert_int_equal(r.slots[id].start, id);
            assert_int_equal(r.slots[id].end, graph_last_use(&r.g, id));
            moment[id] = id;
        }
        weft_error err = {0};
        assert_ok(graph_place(&r.g, MOST, r.slots, &total, &err), &err);
        check_slots(&r, total);
        replay(&r, moment, total);
        for (graph_id id = 1; id < r.g.n_values; id++) {
            for (graph_id o = 1; o < id; o++) {
                reused +=
                    stored(&r, id) && stored(&r, o) && r.slots[o].offset == r.slots[id].offset;
            }
        }
    }
    assert_true(reused > 0);
}

/* As a backend does: moments are phases of several values, and some values take an input's
 * storage. */
static void test_sharing_extends_lives(void **state)
{
    (void)state;
    size_t n_shared = 0;
    static random_graph r;
    for (uint64_t seed = 10000; seed < 13000; seed++) {
        uint32_t moment[CAPACITY];
        bool shared[CAPACITY] = {false};
        size_t total;
        build(&r, seed);
        moment[0] = 0;
        for (graph_id id = 1; id < r.g.n_values; id++) {
            moment[id] = moment[id - 1] + (pick(&r, 3) == 0);
            r.slots[id] = (graph_slot){.start = moment[id], .end = moment[id], .offset = SIZE_MAX};
        }
        for (graph_id id = 1; id < r.g.n_values; id++) {
            for (uint32_t i = 0; i < GRAPH_INPUTS; i++) {
                graph_id in = r.values[id].in[i];
                if (in != 0 && moment[id] > r.slots[in].end) r.slots[in].end = moment[id];
            }
        }
        for (graph_id id = 1; id < r.g.n_values; id++) {
            graph_id in = r.values[id].in[0];
            bool fits = in != 0 && stored(&r, in) && stored(&r, id) && !shared[in] &&
                        floats(&r, in) == floats(&r, id) && graph_last_use(&r.g, in) == id;
            if (!fits || pick(&r, 2) == 0) continue;
            r.slots[id].shares = in;
            shared[in] = true;
            n_shared++;
        }
        weft_error err = {0};
        assert_ok(graph_place(&r.g, MOST, r.slots, &total, &err), &err);
        check_slots(&r, total);
        for (graph_id id = 1; id < r.g.n_values; id++) {
            graph_id base = r.slots[id].shares;
            if (base == 0) continue;
            assert_int_equal(r.slots[id].offset, r.slots[base].offset);
            assert_true(r.slots[base].end >= r.slots[id].end);
        }
        /* A sharing value may be written in the moment of the other, which then is gone. */
        bool gone = false;
        for (graph_id id = 1; id < r.g.n_values; id++) {
            graph_id base = r.slots[id].shares;
            gone = gone || (base != 0 && moment[id] == moment[base]);
        }
        if (!gone) replay(&r, moment, total);
    }
    assert_true(n_shared > 1000);
}

static void test_limits(void **state)
{
    (void)state;
    static random_graph r;
    weft_error err = {0};
    size_t total = 1;
    build(&r, 5);
    graph_lifetimes(&r.g, r.slots);
    assert_ok(graph_place(&r.g, (graph_rows){0}, r.slots, &total, &err), &err);
    assert_int_equal(total, 0);
    /* 2^32 tokens of 2^32 columns. */
    tensor wide[] = {{.name = "w", .n_rows = 1, .n_cols = GRAPH_HIDDEN - 1}};
    graph_init(&r.g, r.values, CAPACITY, wide, 1);
    graph_id tokens = graph_tokens(&r.g);
    graph_id x = graph_embed(&r.g, tokens, graph_weight(&r.g, 0));
    graph_id first = x;
    for (uint32_t i = 0; i < 20; i++) x = graph_add(&r.g, x, first);
    graph_lifetimes(&r.g, r.slots);
    assert_status(WEFT_LIMIT,
                  graph_place(&r.g, (graph_rows){UINT32_MAX, 1, 1}, r.slots, &total, &err), &err);
    assert_message(&err, "a step of 4294967295 tokens needs too much memory");
    assert_int_equal(total, 0);
    /* Each fits, their sum does not: no offset may wrap. */
    for (graph_id id = 1; id < r.g.n_values; id++) r.slots[id].end = r.g.n_values;
    err = (weft_error){0};
    assert_status(WEFT_LIMIT,
                  graph_place(&r.g, (graph_rows){1u << 25, 1, 1}, r.slots, &total, &err), &err);
}

static void shares_a_later_value(void *user)
{
    random_graph *r = user;
    size_t total;
    graph_lifetimes(&r->g, r->slots);
    r->slots[3].shares = 4;
    if (graph_place(&r->g, (graph_rows){1, 1, 1}, r->slots, &total, NULL) != WEFT_OK) return;
}

static void test_misuse_traps(void **state)
{
    (void)state;
    static random_graph r;
    build(&r, 6);
    assert_true(test_traps(shares_a_later_value, &r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_living_values_do_not_overlap),
        cmocka_unit_test(test_sharing_extends_lives),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_misuse_traps),
    };
    return TEST_RUN("graph/place", tests);
}
