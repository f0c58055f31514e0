/* graph_rules.h - the rules of what reads and writes states, for test_graph.c. */
#ifndef GRAPH_GRAPH_RULES_H
#define GRAPH_GRAPH_RULES_H

#include "base/assert.h"
#include "graph/graph_fixture.h"

static inline void rules_kv_append(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_kv_append(&f->g, f->x, f->wide, 5, KEY_HEADS);
    check_value(f, id, GRAPH_KV_APPEND, GRAPH_TOKENS, WIDE);
    assert_int_equal(f->values[id].i[0], 5);
    assert_int_equal(f->values[id].i[1], KEY_HEADS);
    assert_int_equal(f->g.n_states, 6);
    refuses(f, graph_kv_append(&f->g, f->x, f->wide, 0, KEY_HEADS)); /* appended to already */
    refuses(f, graph_kv_append(&f->g, f->x, f->wide, 1, 0));
    refuses(f, graph_kv_append(&f->g, f->x, f->wide, 1, 5));
    refuses(f, graph_kv_append(&f->g, f->x, f->wide, 1, 8)); /* of 24, not of 36 */
    refuses(f, graph_kv_append(&f->g, f->x, f->wide, 65536, 1));
    refuses(f, graph_kv_append(&f->g, f->x, 0, 1, 1));
    refuses(f, graph_kv_append(&f->g, f->taken, f->wide, 1, 1));
    refuses(f, graph_kv_append(&f->g, f->x, f->state, 1, 1));
    assert_int_equal(f->g.n_states, 1);
    fixture_init(f);
    id = graph_kv_append_latent(&f->g, f->x, 20, 3);
    check_value(f, id, GRAPH_KV_APPEND, GRAPH_TOKENS, 20);
    assert_int_equal(f->values[id].in[1], 0);
    assert_int_equal(f->values[id].i[1], 1);
    assert_int_equal(f->g.n_states, 4);
    /* 3 heads of 24 on one key of 24, of which 20 are the value. */
    graph_id q = graph_concat(&f->g, f->wide, f->wide, 1);
    check_value(f, graph_attend(&f->g, q, id, 3, 1, 0), GRAPH_ATTEND, GRAPH_TOKENS, 60);
    refuses(f, graph_kv_append_latent(&f->g, f->x, 25, 1));
    refuses(f, graph_kv_append_latent(&f->g, f->x, 0, 1));
    refuses(f, graph_kv_append_latent(&f->g, f->taken, 2, 1));
    refuses(f, graph_kv_append_latent(&f->g, f->x, 2, 0));
    refuses(f, graph_kv_append_keys(&f->g, f->x, 0));
    refuses(f, graph_kv_append_keys(&f->g, f->taken, 1));
    refuses(f, graph_kv_append_keys(&f->g, 0, 1));
}

/* 36 columns: 4 heads of 9 over keys alone, of 9. */
static inline graph_id keys_of(fixture *f, uint32_t state_i)
{
    fixture_init(f);
    return graph_kv_append_keys(&f->g, graph_cols(&f->g, f->wide, 36, 0, 9), state_i);
}

/* One input of a select changed. */
#define refuses_select(f, with)                                                                    \
    do {                                                                                           \
        graph_id keys_i = keys_of(f, 1);                                                           \
        graph_id weights_i = graph_linear(&(f)->g, (f)->x, (f)->weight[GATE_W], 0);                \
        graph_id in[] = {(f)->wide, weights_i, keys_i, 7};                                         \
        with;                                                                                      \
        check_refused((f), graph_select(&(f)->g, in[0], in[1], in[2], in[3]), (f)->g.n_values,     \
                      __LINE__);                                                                   \
    } while (0)

static inline void rules_select(fixture *f)
{
    graph_id keys = keys_of(f, 3);
    check_value(f, keys, GRAPH_KV_APPEND, GRAPH_TOKENS, 0);
    assert_int_equal(f->values[keys].i[2], 9);
    assert_int_equal(f->g.n_states, 4);
    graph_id weights = graph_linear(&f->g, f->x, f->weight[GATE_W], 0);
    graph_id id = graph_select(&f->g, f->wide, weights, keys, 7);
    check_value(f, id, GRAPH_SELECT, GRAPH_TOKENS, 8);
    assert_int_equal(f->values[id].i[0], 7);
    /* A list is no number, and attends to some positions; keys alone are not attended to. */
    graph_id o = graph_attend_listed(&f->g, f->x, f->state, id, 2, 0.5F);
    check_value(f, o, GRAPH_ATTEND, GRAPH_TOKENS, 36);
    assert_int_equal(f->values[o].in[3], id);
    assert_int_equal(graph_scale(&f->g, id, 2.0F), 0);
    keys = keys_of(f, 1);
    assert_int_equal(graph_attend(&f->g, f->x, keys, 2, 1, 0), 0);
    refuses_select(f, in[0] = f->x); /* 4 heads of 6 */
    refuses_select(f, in[0] = f->taken);
    refuses_select(f, in[0] = 0);
    refuses_select(f, in[1] = f->x);
    refuses_select(f, in[2] = f->state);
    refuses_select(f, in[2] = 0);
    refuses_select(f, in[3] = 0);
    refuses_select(f, in[3] = UINT32_MAX);
}

static inline void rules_attend(fixture *f)
{
    fixture_init(f);
    /* 24 columns in 2 heads of 12, keys 2 of 12, values 2 of 18. */
    graph_id id = graph_attend(&f->g, f->x, f->state, 2, 0.25F, 30.0F);
    check_value(f, id, GRAPH_ATTEND, GRAPH_TOKENS, 2 * 18);
    assert_true(f->values[id].f[0] == 0.25F && f->values[id].f[1] == 30.0F);
    fixture_init(f);
    graph_id q = graph_add(&f->g, f->x, f->x);
    graph_id k = graph_scale(&f->g, f->x, 1.0F);
    graph_id state = graph_kv_append(&f->g, k, f->wide, 1, 1);
    id = graph_attend(&f->g, q, state, 1, 1, 0);
    check_value(f, id, GRAPH_ATTEND, GRAPH_TOKENS, WIDE);
    assert_int_equal(f->values[id].i[1], 0);
    id = graph_attend_causal(&f->g, q, state, 1, 1, 0);
    check_value(f, id, GRAPH_ATTEND, GRAPH_TOKENS, WIDE);
    assert_int_equal(f->values[id].i[1], 1);
    refuses(f, graph_attend(&f->g, f->x, f->state, 0, 1, 0));
    refuses(f, graph_attend(&f->g, f->x, f->state, 5, 1, 0));
    refuses(f, graph_attend(&f->g, f->x, f->state, 4, 1, 0));    /* heads of 6, keys of 12 */
    refuses(f, graph_attend(&f->g, f->wide, f->state, 3, 1, 0)); /* 3 heads of 12 on 2 */
    refuses(f, graph_attend(&f->g, f->x, f->x, 2, 1, 0));
    refuses(f, graph_attend(&f->g, f->x, 0, 2, 1, 0));
    refuses(f, graph_attend(&f->g, f->taken, f->state, 2, 1, 0));
    refuses(f, graph_attend_listed(&f->g, f->x, f->state, 0, 2, 1));
    refuses(f, graph_attend_listed(&f->g, f->x, f->state, f->x, 2, 1));
    /* A sink for each head. */
    fixture_init(f);
    id = graph_state(&f->g, 7, 2, WIDTH, 5);
    graph_id all = graph_concat(&f->g, f->x, graph_concat(&f->g, f->wide, f->wide, 1), 1);
    id = graph_attend_sinks(&f->g, all, id, f->weight[GATE_BIAS], 4, 1, 0);
    check_value(f, id, GRAPH_ATTEND, GRAPH_TOKENS, 20);
    assert_int_equal(f->values[id].in[2], f->weight[GATE_BIAS]);
    refuses(f, graph_attend_sinks(&f->g, f->x, f->state, f->weight[GATE_BIAS], 2, 1, 0));
    refuses(f, graph_attend_sinks(&f->g, f->x, f->state, f->weight[GATE_W], 2, 1, 0));
    refuses(f, graph_attend_sinks(&f->g, f->x, f->state, f->x, 2, 1, 0));
}

static inline void rules_kv_store(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_kv_store(&f->g, f->x, f->wide, 5, KEY_HEADS);
    check_value(f, id, GRAPH_KV_STORE, GRAPH_TOKENS, WIDE);
    assert_int_equal(f->values[id].i[0], 5);
    assert_int_equal(f->values[id].i[1], KEY_HEADS);
    assert_int_equal(f->g.n_states, 6);
    /* Nothing in the same graph reads it, neither as a state nor as numbers. */
    assert_int_equal(graph_attend(&f->g, f->x, id, 2, 1, 0), 0);
    fixture_init(f);
    id = graph_kv_store(&f->g, f->x, f->wide, 5, KEY_HEADS);
    assert_int_equal(graph_scale(&f->g, id, 2.0F), 0);
    fixture_init(f);
    assert_int_not_equal(graph_kv_store(&f->g, f->x, f->wide, 5, KEY_HEADS), 0);
    assert_int_equal(graph_state(&f->g, 5, KEY_HEADS, 12, 18), 0);
    refuses(f, graph_kv_store(&f->g, f->x, f->wide, 0, KEY_HEADS)); /* appended to already */
    refuses(f, graph_kv_store(&f->g, f->x, f->wide, 1, 0));
    refuses(f, graph_kv_store(&f->g, f->x, f->wide, 1, 8));
    refuses(f, graph_kv_store(&f->g, f->x, f->wide, 65536, 1));
    refuses(f, graph_kv_store(&f->g, f->x, 0, 1, 1));
    refuses(f, graph_kv_store(&f->g, f->taken, f->wide, 1, 1));
}

static inline void rules_state(fixture *f)
{
    fixture_init(f);
    graph_id id = graph_state(&f->g, 7, 2, 12, 5);
    check_value(f, id, GRAPH_STATE, GRAPH_TOKENS, 10);
    assert_int_equal(f->values[id].i[0], 7);
    assert_int_equal(f->values[id].i[1], 2);
    assert_int_equal(f->values[id].i[2], 12);
    assert_int_equal(f->g.n_states, 8);
    graph_id q = graph_concat(&f->g, f->x, f->x, 1);
    check_value(f, graph_attend(&f->g, q, id, 4, 1, 0), GRAPH_ATTEND, GRAPH_TOKENS, 20);
    assert_int_equal(graph_attend(&f->g, f->wide, id, 2, 1, 0), 0); /* heads of 18 */
    fixture_init(f);
    id = graph_state(&f->g, 7, 2, 12, 5);
    assert_int_equal(graph_scale(&f->g, id, 2.0F), 0);
    refuses(f, graph_state(&f->g, 0, 2, 12, 18)); /* this graph's own */
    refuses(f, graph_state(&f->g, 1, 0, 12, 18));
    refuses(f, graph_state(&f->g, 1, 2, 0, 18));
    refuses(f, graph_state(&f->g, 1, 2, 12, 0));
    refuses(f, graph_state(&f->g, 1, 65536, 65536, 1));
    refuses(f, graph_state(&f->g, 1, 65536, 1, 65536));
    refuses(f, graph_state(&f->g, 65536, 2, 12, 18));
    fixture_init(f);
    assert_int_not_equal(graph_state(&f->g, 1, 2, 12, 5), 0);
    check_refused(f, graph_state(&f->g, 1, 2, 12, 5), f->g.n_values, __LINE__);
    fixture_init(f);
    assert_int_not_equal(graph_state(&f->g, 1, 2, 12, 5), 0);
    assert_int_equal(graph_kv_append(&f->g, f->x, f->wide, 1, KEY_HEADS), 0);
}

#endif
