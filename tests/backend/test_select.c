/* test_select.c - attention to chosen positions on whole backends: a list of all that is seen is no
 * list, to the bit; and promise P1. That the largest are chosen, and that attention to them is
 * right, test_ops.c has with bounds. */
#include "backend/ops_patterns.h"
#include "backend/ops_runs.h"

static graph_id find_listed(const model *m)
{
    for (graph_id id = 1; id < m->g.n_values; id++) {
        if (m->values[id].op == GRAPH_ATTEND && m->values[id].in[3] != 0) return id;
    }
    fail_msg("nothing is attended to by a list");
    return 0;
}

static void check_list_of_all(const model *m, setup s, const texts *t)
{
    static model plain;
    static sequence base[N_SEQS];
    static sequence q[N_SEQS];
    machine v;
    machine w;
    plain = *m;
    plain.g.values = plain.values;
    plain.g.tensors = plain.tensors;
    plain.g.ropes = plain.ropes;
    plain.values[find_listed(m)].in[3] = 0;
    machine_open(&v, &plain, s);
    run_alone(&v, base, t);
    machine_open(&w, m, s);
    run_together(&w, q, t, 100);
    check_same(&w, q, base, "a list of all");
    close_all(&v, base);
    close_all(&w, q);
}

static void test_a_list_of_all_is_no_list(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        case_seed = 4500 + round;
        model_begin(&m);
        pattern_chosen(&m);
        graph_value *select = &m.values[m.values[find_listed(&m)].in[3]];
        select->i[0] = SEQ_MOST;
        select->cols = 1 + SEQ_MOST;
        fill_texts(&t, round < LONG_ROUNDS ? SEQ_MOST : 40);
        each_isa(check_list_of_all, &m, &t);
        check_list_of_all(&m, random_setup(&m, &BACKEND_REF, NULL), &t);
        model_free(&m);
    }
}

/* What is chosen, and in which order it is summed, has nothing to do with company, chunks or
 * threads: short texts, and those that reach over splits. */
static void test_p1(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        case_seed = 5500 + round;
        model_begin(&m);
        pattern_chosen(&m);
        fill_texts(&t, round == 0 ? SEQ_MOST : 40);
        each_isa(check_p1, &m, &t);
        check_p1(&m, random_setup(&m, &BACKEND_REF, NULL), &t);
        model_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_of_all_is_no_list),
        cmocka_unit_test(test_p1),
    };
    return TEST_RUN("backend/select", tests);
}
