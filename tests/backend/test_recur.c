/* test_recur.c - recurrent layers of whole backends, bit for bit: in any pieces and company, and
 * replayed from a record. How far their numbers may be off is in test_ops.c, with all others. */
#include "backend/ops_runs.h"

/* KV-14: a state after a ragged prefill is that of the tokens one by one. */
static void check_states(const model *m, setup s, const texts *t)
{
    static sequence base[N_SEQS];
    static sequence q[N_SEQS];
    machine v;
    machine w;
    check_p1(m, s, t);
    machine_open(&v, m, s);
    machine_open(&w, m, s);
    run_alone(&v, base, t);
    run_together(&w, q, t, 9);
    for (uint32_t l = 0; l < m->n_layers; l++) {
        for (uint32_t i = 0; i < N_SEQS; i++) {
            for (uint32_t b = 0; b < KV_BUFFERS; b++) {
                size_t at = w.config.geometries[l].buffers_at[b];
                assert_memory_equal(base[i].states[l][0] + at, q[i].states[l][0] + at,
                                    m->layers[l].buffers[b] * sizeof(float));
            }
        }
    }
    close_all(&v, base);
    close_all(&w, q);
}

static void test_p1_recurrent(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        case_seed = 5500 + round;
        model_begin(&m);
        model_hybrid(&m, draw(0, 1) * draw(1, 20));
        fill_texts(&t, 30);
        each_isa(check_states, &m, &t);
        check_states(&m, random_setup(&m, &BACKEND_REF, NULL), &t);
        model_free(&m);
    }
}

/* KV-41: a step of n of which a part is replayed leaves the state that a step of that part leaves,
 * and gives the same numbers whether somebody keeps a record or not. */
static void check_replay(const model *m, setup s, const texts *t)
{
    static sequence base[N_SEQS];
    static sequence q[N_SEQS];
    machine w;
    row rows[N_SEQS];
    uint32_t before[N_SEQS];
    uint32_t keep[N_SEQS];
    machine_open(&w, m, s);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        before[i] = draw(0, t->n[i] - 1);
        keep[i] = draw(1, t->n[i] - before[i]);
        sequence_open(&w, &q[i], t->ids[i], t->n[i]);
        sequence_open(&w, &base[i], t->ids[i], t->n[i]);
        if (before[i] > 0) machine_step(&w, &(row){&q[i], before[i], 0}, 1);
        if (before[i] > 0) machine_step(&w, &(row){&base[i], before[i], 0}, 1);
        machine_step(&w, &(row){&base[i], keep[i], keep[i]}, 1);
        rows[i] = (row){&q[i], t->n[i] - before[i], t->n[i] - before[i]};
        for (uint32_t l = 0; l < m->n_layers; l++) {
            if (!kv_is_recurrent(&w.config, l)) continue;
            q[i].records[l] = case_alloc(rows[i].n * w.config.geometries[l].record_bytes);
        }
    }
    machine_step(&w, rows, N_SEQS);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        uint32_t cols = m->values[m->g.output].cols;
        assert_memory_equal(q[i].logits + (size_t)before[i] * cols,
                            base[i].logits + (size_t)before[i] * cols,
                            (size_t)keep[i] * cols * sizeof(float));
        for (uint32_t l = 0; l < m->n_layers; l++) {
            if (!kv_is_recurrent(&w.config, l)) continue;
            const kv_geometry *g = &w.config.geometries[l];
            kv_view view = {.geometry = g, .len = before[i], .record = q[i].records[l]};
            if (before[i] > 0) view.committed = q[i].states[l][1];
            view.fresh = case_alloc(g->page_bytes);
            s.api->replay(w.b, w.plan, l, &view, keep[i]);
            for (uint32_t b = 0; b < KV_BUFFERS; b++) {
                assert_memory_equal(view.fresh + g->buffers_at[b],
                                    base[i].states[l][0] + g->buffers_at[b],
                                    m->layers[l].buffers[b] * sizeof(float));
            }
            free(view.fresh);
            free(q[i].records[l]);
        }
        sequence_close(&w, &q[i]);
    }
    close_all(&w, base);
}

static void test_kv41_replay(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < 4 * SHORT_ROUNDS; round++) {
        case_seed = 5700 + round;
        model_begin(&m);
        model_hybrid(&m, draw(0, 1) * draw(1, 20));
        fill_texts(&t, 17);
        each_isa(check_replay, &m, &t);
        check_replay(&m, random_setup(&m, &BACKEND_REF, NULL), &t);
        model_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_p1_recurrent),
        cmocka_unit_test(test_kv41_replay),
    };
    return TEST_RUN("backend/recur", tests);
}
