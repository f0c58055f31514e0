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

enum { MARK_TEXT = 17 };

/* The states of a sequence after each of its tokens, fed one by one. */
typedef struct states {
    unsigned char *after[MARK_TEXT + 1][MODEL_STATES];
} states;

static void feed_one_by_one(machine *w, sequence *q, const texts *t, uint32_t i, states *s)
{
    memset(s, 0, sizeof *s);
    sequence_open(w, q, t->ids[i], t->n[i]);
    for (uint32_t n = 1; n <= t->n[i]; n++) {
        machine_step(w, &(row){q, 1, 1}, 1);
        for (uint32_t l = 0; l < w->config.n_layers; l++) {
            if (!kv_is_recurrent(&w->config, l)) continue;
            size_t size = w->config.geometries[l].page_bytes;
            s->after[n][l] = case_alloc(size);
            memcpy(s->after[n][l], q->states[l][0], size);
        }
    }
}

static void free_states(states *s)
{
    for (uint32_t n = 0; n <= MARK_TEXT; n++) {
        for (uint32_t l = 0; l < MODEL_STATES; l++) free(s->after[n][l]);
    }
}

static void assert_same_state(const machine *w, uint32_t l, const unsigned char *a,
                              const unsigned char *b)
{
    for (uint32_t i = 0; i < KV_BUFFERS; i++) {
        size_t at = w->config.geometries[l].buffers_at[i];
        assert_memory_equal(a + at, b + at, w->m->layers[l].buffers[i] * sizeof(float));
    }
}

/* Of the next row of n: a mark in every recurrent layer, and a record where a part is to be
 * replayed. */
static void want_marks(const machine *w, sequence *q, uint32_t n, uint32_t mark, bool records)
{
    q->mark = mark;
    for (uint32_t l = 0; l < w->config.n_layers; l++) {
        if (!kv_is_recurrent(&w->config, l)) continue;
        const kv_geometry *g = &w->config.geometries[l];
        q->marked[l] = case_alloc(g->page_bytes);
        memset(q->marked[l], w->s.fill, g->page_bytes);
        if (records) q->records[l] = case_alloc(n * g->record_bytes);
    }
}

static void close_marked(machine *w, sequence *q)
{
    for (uint32_t l = 0; l < MODEL_STATES; l++) {
        free(q->marked[l]);
        free(q->records[l]);
    }
    sequence_close(w, q);
}

/* A replay of the first keep of a row whose state before it was committed leaves the mark alone. */
static void check_replay_beside(machine *w, const sequence *q, uint32_t l, uint32_t before,
                                uint32_t keep, const unsigned char *expected)
{
    const kv_geometry *g = &w->config.geometries[l];
    kv_view view = {.geometry = g, .len = before, .record = q->records[l]};
    view.marked = q->marked[l];
    view.mark = q->mark;
    if (before > 0) view.committed = q->states[l][1];
    view.fresh = case_alloc(g->page_bytes);
    w->s.api->replay(w->b, w->plan, l, &view, keep);
    assert_same_state(w, l, view.fresh, expected);
    free(view.fresh);
}

/* Three rows in a step, each with a mark: the marked state is that of the tokens up to it, one by
 * one; what the step leaves and gives is what it would be without. */
static void check_mark(machine *w, const texts *t, const sequence *base, const states *s,
                       const uint32_t *before, uint32_t mark, bool records)
{
    static sequence q[N_SEQS];
    row rows[N_SEQS];
    for (uint32_t i = 0; i < N_SEQS; i++) {
        uint32_t n = t->n[i] - before[i];
        sequence_open(w, &q[i], t->ids[i], t->n[i]);
        if (before[i] > 0) machine_step(w, &(row){&q[i], before[i], before[i]}, 1);
        want_marks(w, &q[i], n, mark < n ? mark : n, records);
        rows[i] = (row){&q[i], n, n};
    }
    machine_step(w, rows, N_SEQS);
    check_same(w, q, base, "marked");
    for (uint32_t i = 0; i < N_SEQS; i++) {
        uint32_t n = t->n[i] - before[i];
        for (uint32_t l = 0; l < w->config.n_layers; l++) {
            if (!kv_is_recurrent(&w->config, l)) continue;
            uint32_t keep = q[i].mark + (n - q[i].mark) / 2;
            if (records) {
                check_replay_beside(w, &q[i], l, before[i], keep, s[i].after[before[i] + keep][l]);
            }
            assert_same_state(w, l, q[i].marked[l], s[i].after[before[i] + q[i].mark][l]);
            assert_same_state(w, l, q[i].states[l][0], s[i].after[t->n[i]][l]);
        }
        close_marked(w, &q[i]);
    }
}

static void check_marks(const model *m, setup s, const texts *t)
{
    static sequence base[N_SEQS];
    static states of[N_SEQS];
    machine w;
    uint32_t before[N_SEQS];
    uint32_t most = 0;
    machine_open(&w, m, s);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        feed_one_by_one(&w, &base[i], t, i, &of[i]);
        before[i] = draw(0, t->n[i] - 1);
        if (t->n[i] - before[i] > most) most = t->n[i] - before[i];
    }
    for (uint32_t mark = 1; mark <= most; mark++) {
        check_mark(&w, t, base, of, before, mark, mark % 2 == 0);
    }
    for (uint32_t i = 0; i < N_SEQS; i++) free_states(&of[i]);
    close_all(&w, base);
}

static void test_marks(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        case_seed = 5900 + round;
        model_begin(&m);
        model_hybrid(&m, draw(0, 1) * draw(1, 20));
        fill_texts(&t, MARK_TEXT);
        each_isa(check_marks, &m, &t);
        check_marks(&m, random_setup(&m, &BACKEND_REF, NULL), &t);
        model_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_p1_recurrent),
        cmocka_unit_test(test_kv41_replay),
        cmocka_unit_test(test_marks),
    };
    return TEST_RUN("backend/recur", tests);
}
