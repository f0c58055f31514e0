/* graph_rules_recur.h - the rules of recurrent layers, for test_graph.c. */
#ifndef GRAPH_GRAPH_RULES_RECUR_H
#define GRAPH_GRAPH_RULES_RECUR_H

#include "graph/graph_fixture.h"

static inline void rules_conv(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_conv(&f->g, f->wide, f->weight[CONV_W], 3, GRAPH_CONV_SILU);
    check_value(f, id, GRAPH_CONV, GRAPH_TOKENS, WIDE);
    assert_int_equal(f->values[id].i[0], 3);
    assert_int_equal(f->g.n_states, 4);
    fixture_init(f);
    id = graph_conv(&f->g, f->wide, f->weight[CONV_W], 3, GRAPH_CONV_PLAIN);
    assert_int_equal(f->values[id].i[1], GRAPH_CONV_PLAIN);
    refuses(f, graph_conv(&f->g, f->wide, f->weight[CONV_W], 1, (graph_conv_act)2));
    refuses(
        f, graph_conv(&f->g, f->wide, f->weight[CONV_W], 0, GRAPH_CONV_SILU)); /* keys and values */
    refuses(f, graph_conv(&f->g, f->wide, f->weight[CONV_W], 65536, GRAPH_CONV_SILU));
    refuses(f, graph_conv(&f->g, f->x, f->weight[CONV_W], 1, GRAPH_CONV_SILU));
    refuses(f, graph_conv(&f->g, f->wide, f->weight[WIDE_BIAS], 1, GRAPH_CONV_SILU));
    refuses(f, graph_conv(&f->g, f->wide, f->weight[MANY_TAPS_W], 1, GRAPH_CONV_SILU));
    refuses(f, graph_conv(&f->g, f->wide, f->wide, 1, GRAPH_CONV_SILU));
    refuses(f, graph_conv(&f->g, f->wide, 0, 1, GRAPH_CONV_SILU));
    refuses(f, graph_conv(&f->g, f->state, f->weight[CONV_W], 1, GRAPH_CONV_SILU));
    /* Twice the same state, and keys and values into it. */
    fixture_init(f);
    assert_int_not_equal(graph_conv(&f->g, f->wide, f->weight[CONV_W], 1, GRAPH_CONV_SILU), 0);
    check_refused(f, graph_conv(&f->g, f->wide, f->weight[CONV_W], 1, GRAPH_CONV_SILU),
                  f->g.n_values, __LINE__);
    fixture_init(f);
    assert_int_not_equal(graph_conv(&f->g, f->wide, f->weight[CONV_W], 1, GRAPH_CONV_SILU), 0);
    assert_int_equal(graph_kv_append(&f->g, f->x, f->x, 1, KEY_HEADS), 0);
}

/* 36 columns: queries and keys of 2 heads of 5, and 4 values of 4. */
static inline graph_delta delta_of(fixture *f)
{
    fixture_init(f);
    graph_delta d = {.state_i = 1, .n_k_heads = 2, .k_dim = 5, .eps = 1e-6F};
    d.decay = graph_linear(&f->g, f->x, f->weight[GATE_W], 0);
    d.rate = graph_linear(&f->g, f->x, f->weight[GATE_W], 0);
    d.x = graph_conv(&f->g, f->wide, f->weight[CONV_W], 1, GRAPH_CONV_SILU);
    d.a_log = d.bias = f->weight[GATE_BIAS];
    return d;
}

/* One field of it changed. */
#define refuses_delta(f, field, value)                                                             \
    do {                                                                                           \
        graph_delta changed = delta_of(f);                                                         \
        changed.field = (value);                                                                   \
        check_refused((f), graph_gated_delta(&(f)->g, &changed), (f)->g.n_values, __LINE__);       \
    } while (0)

static inline void rules_gated_delta(fixture *f)
{
    graph_delta d = delta_of(f);
    graph_id id = graph_gated_delta(&f->g, &d);
    check_value(f, id, GRAPH_GATED_DELTA, GRAPH_TOKENS, 16);
    assert_int_equal(f->g.n_states, 2);
    graph_heads h = graph_delta_heads(&f->g, &f->values[id]);
    assert_true(h.n_k == 2 && h.n_v == 4 && h.k_dim == 5 && h.v_dim == 4);
    assert_true(graph_key_head(&h, 1) == 0 && graph_key_head(&h, 2) == 1);
    assert_true(graph_delta_speed(&f->values[id], 0.0F) == 1.0);
    check_refused(f, graph_gated_delta(&f->g, &d), f->g.n_values, __LINE__);
    refuses_delta(f, x, f->wide); /* not what conv gives */
    refuses_delta(f, x, 0);
    refuses_delta(f, decay, f->x);
    refuses_delta(f, decay, 0);
    refuses_delta(f, rate, f->wide);
    refuses_delta(f, rate, 0);
    refuses_delta(f, a_log, f->weight[NORM_W]);
    refuses_delta(f, a_log, 0);
    refuses_delta(f, bias, f->weight[GATE_W]);
    refuses_delta(f, bias, 0);
    refuses_delta(f, flags, 4);   /* of 1 and 2 */
    refuses_delta(f, state_i, 2); /* another's conv */
    refuses_delta(f, state_i, 0);
    refuses_delta(f, n_k_heads, 0);
    refuses_delta(f, n_k_heads, 3); /* of 4 */
    refuses_delta(f, n_k_heads, UINT32_MAX);
    refuses_delta(f, k_dim, 0);
    refuses_delta(f, k_dim, 9); /* nothing is left for values */
    refuses_delta(f, k_dim, 1u << 31);
    refuses_delta(f, k_dim, UINT32_MAX);
    d = delta_of(f);
    d.flags = GRAPH_DELTA_TILED | GRAPH_DELTA_SPEED;
    id = graph_gated_delta(&f->g, &d);
    h = graph_delta_heads(&f->g, &f->values[id]);
    assert_true(graph_key_head(&h, 1) == 1 && graph_key_head(&h, 2) == 0);
    assert_true(graph_delta_speed(&f->values[id], -0.5F) == 0.5);
}

#endif
