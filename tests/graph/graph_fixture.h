/* graph_fixture.h - a graph with one value of each kind, and how a builder's answer is checked. */
#ifndef GRAPH_GRAPH_FIXTURE_H
#define GRAPH_GRAPH_FIXTURE_H

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "support/test.h"

enum { CAPACITY = 64 };

/* Indices of TENSORS. */
enum {
    EMBED_W,
    SQUARE_W,
    WIDE_W,
    NORM_W,
    HEAD_NORM_W,
    WIDE_BIAS,
    CONV_W,
    MANY_TAPS_W,
    GATE_W,
    GATE_BIAS,
    TOO_WIDE,
    N_TENSORS
};

/* Pairwise different dims. */
enum { VOCAB = 50, WIDTH = 24, WIDE = 36, HEADS = 4, KEY_HEADS = 2 };

static const tensor TENSORS[N_TENSORS] = {
    [EMBED_W] = {.name = "embed", .n_rows = VOCAB, .n_cols = WIDTH},
    [SQUARE_W] = {.name = "square", .n_rows = WIDTH, .n_cols = WIDTH},
    [WIDE_W] = {.name = "wide", .n_rows = WIDE, .n_cols = WIDTH},
    [NORM_W] = {.name = "norm", .n_rows = 1, .n_cols = WIDTH},
    [HEAD_NORM_W] = {.name = "head_norm", .n_rows = 1, .n_cols = 6},
    [WIDE_BIAS] = {.name = "bias", .n_rows = 1, .n_cols = WIDE},
    [CONV_W] = {.name = "conv", .n_rows = WIDE, .n_cols = 4},
    [MANY_TAPS_W] = {.name = "many_taps", .n_rows = WIDE, .n_cols = GRAPH_TAPS + 1},
    [GATE_W] = {.name = "gate", .n_rows = 4, .n_cols = WIDTH},
    [GATE_BIAS] = {.name = "gate_bias", .n_rows = 1, .n_cols = 4},
    [TOO_WIDE] = {.name = "too_wide", .n_rows = 1, .n_cols = GRAPH_HIDDEN},
};

static const float INV_FREQ[3] = {1.0F, 0.5F, 0.25F};
static const uint8_t BAD_AXES[3] = {0, 2, GRAPH_AXES};
static const graph_rope ROPES[] = {{INV_FREQ, 3, false, 1.0F, NULL},
                                   {INV_FREQ, 3, false, 1.0F, BAD_AXES}};

/* A graph with one value of each kind to build upon. */
typedef struct fixture {
    graph g;
    graph_value values[CAPACITY];
    graph_id tokens, weight[N_TENSORS], x, wide, state, taken;
} fixture;

static inline void fixture_init(fixture *f)
{
    graph_init(&f->g, f->values, CAPACITY, TENSORS, N_TENSORS);
    graph_set_ropes(&f->g, ROPES, 2);
    f->tokens = graph_tokens(&f->g);
    for (uint32_t i = 0; i < TOO_WIDE; i++) f->weight[i] = graph_weight(&f->g, i);
    f->x = graph_embed(&f->g, f->tokens, f->weight[EMBED_W]);
    f->wide = graph_linear(&f->g, f->x, f->weight[WIDE_W], 0);
    graph_id k = graph_scale(&f->g, f->x, 2.0F);
    f->state = graph_kv_append(&f->g, k, f->wide, 0, KEY_HEADS);
    f->taken = graph_take(&f->g, f->x);
    assert_int_equal(f->g.error.status, WEFT_OK);
}

static inline void check_value(const fixture *f, graph_id id, graph_op op, uint32_t rows,
                               uint32_t cols)
{
    assert_int_not_equal(id, 0);
    assert_int_equal(f->g.error.status, WEFT_OK);
    assert_int_equal(f->values[id].op, op);
    assert_int_equal(f->values[id].rows, rows);
    assert_int_equal(f->values[id].cols, cols);
}

/* One call that must be refused, on a graph of its own. The message names the operation and the
 * index. */
#define refuses(f, call)                                                                           \
    do {                                                                                           \
        fixture_init(f);                                                                           \
        check_refused((f), (call), (f)->g.n_values, __LINE__);                                     \
    } while (0)

static const char *now_name;

static inline void check_refused(const fixture *f, graph_id id, uint32_t index, int line)
{
    char expected[64];
    snprintf(expected, sizeof expected, "graph value %u: %s does not fit", index, now_name);
    if (id != 0 || f->g.error.status != WEFT_FORMAT ||
        strncmp(f->g.error.message, expected, strlen(expected)) != 0) {
        fail_msg("line %d: value %u, message '%s', expected '%s...'", line, id, f->g.error.message,
                 expected);
    }
    assert_int_equal(f->g.n_values, index);
}

#endif
