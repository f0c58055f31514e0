/* test_trace.c - where the time of runs goes: it changes no result, its parts are the time of the
 * runs, and what they count is what the plan has. */
#include "backend/ops_patterns.h"
#include "backend/ops_runs.h"

#include "base/clock.h"

static weft_status trace(machine *w, bool on, weft_error *err)
{
    return w->s.api->trace(w->b, w->plan, on, err);
}

static void trace_on(machine *w)
{
    weft_error err = {0};
    assert_ok(trace(w, true, &err), &err);
}

/* Of a work, all of them together; NULL: of all. */
static backend_trace_part sum_of(const machine *w, const char *work)
{
    backend_trace_part sum = {0};
    backend_trace_part part;
    uint32_t n = w->s.api->trace_part(w->plan, 0, &part);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(w->s.api->trace_part(w->plan, i, &part), n);
        if (work != NULL && strcmp(part.work, work) != 0) continue;
        sum.n_calls += part.n_calls;
        sum.n_bytes += part.n_bytes;
        sum.ns += part.ns;
        sum.idle_ns += part.idle_ns;
    }
    return sum;
}

static uint64_t bytes_of(const model *m, graph_id weight)
{
    const tensor *t = &m->tensors[m->values[weight].i[0]];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < TENSOR_PLANES; i++) bytes += t->plane_bytes[i];
    return bytes;
}

static uint64_t linear_bytes(const model *m)
{
    uint64_t bytes = 0;
    for (graph_id id = 1; id < m->g.n_values; id++) {
        if (m->values[id].op == GRAPH_LINEAR) bytes += bytes_of(m, m->values[id].in[1]);
    }
    return bytes;
}

static uint32_t count_phases(const machine *w, phase_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->plan->n_phases; i++) n += w->plan->phases[i].kind == kind;
    return n;
}

/* ---- results and time ---- */

static void check_traced(const model *m, setup s, const texts *t)
{
    static sequence base[N_SEQS];
    static sequence q[N_SEQS];
    machine plain;
    machine w;
    machine_open(&plain, m, s);
    run_alone(&plain, base, t);
    machine_open(&w, m, s);
    assert_int_equal(sum_of(&w, NULL).n_calls, 0);
    trace_on(&w);
    uint64_t begun = clock_now_ns();
    run_alone(&w, q, t);
    uint64_t ns = clock_now_ns() - begun;
    check_same(&w, q, base, "traced");
    backend_trace_part first;
    assert_true(w.s.api->trace_part(w.plan, 0, &first) > 1);
    assert_string_equal(first.work, "barrier");
    assert_string_equal(first.weights, "");
    assert_int_equal(first.n_calls, (uint64_t)N_SEQS * w.plan->n_phases);
    backend_trace_part all = sum_of(&w, NULL);
    assert_true(all.ns > 0 && all.ns <= ns);
    if (s.n_threads == 1) assert_int_equal(all.idle_ns, 0);
    assert_true(all.idle_ns <= all.ns);
    close_all(&plain, base);
    close_all(&w, q);
}

static void pattern_attended(model *m)
{
    graph_id x = model_embed(m);
    x = graph_add(&m->g, x, model_attention(m, x, 0));
    graph_finish(&m->g, model_linear(m, graph_take(&m->g, x), MODEL_VOCAB));
}

static void test_nothing_but_time(void **state)
{
    (void)state;
    static void (*const BUILDS[])(model * m) = {pattern_many_linears, pattern_heads,
                                                pattern_attended, pattern_experts, pattern_chosen};
    static model m;
    static texts t;
    for (uint64_t round = 0; round < 2 * COUNT_OF(BUILDS); round++) {
        case_seed = 8100 + round;
        model_begin(&m);
        BUILDS[round % COUNT_OF(BUILDS)](&m);
        fill_texts(&t, 40);
        each_isa(check_traced, &m, &t);
        model_free(&m);
    }
}

/* ---- counts ---- */

static void check_linears(const model *m, setup s, const texts *t)
{
    static sequence q[N_SEQS];
    machine w;
    machine_open(&w, m, s);
    trace_on(&w);
    run_alone(&w, q, t);
    backend_trace_part sum = {0};
    static const char *const WORKS[] = {"linear", "linear, glu", "head"};
    for (size_t i = 0; i < COUNT_OF(WORKS); i++) {
        backend_trace_part part = sum_of(&w, WORKS[i]);
        sum.n_calls += part.n_calls;
        sum.n_bytes += part.n_bytes;
    }
    assert_int_equal(sum.n_calls, N_SEQS * count_phases(&w, PHASE_LINEAR));
    assert_int_equal(sum.n_bytes, N_SEQS * linear_bytes(m));
    /* Begun again it has the same parts, and nothing in them. */
    trace_on(&w);
    assert_int_equal(sum_of(&w, NULL).n_calls, 0);
    assert_int_equal(sum_of(&w, NULL).ns, 0);
    assert_ok(trace(&w, false, NULL), NULL);
    assert_int_equal(w.s.api->trace_part(w.plan, 0, &sum), 0);
    close_all(&w, q);
}

static void test_linears(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        case_seed = 8300 + round;
        model_begin(&m);
        pattern_many_linears(&m);
        fill_texts(&t, 40);
        each_isa(check_linears, &m, &t);
        model_free(&m);
    }
}

static uint64_t expert_bytes(const model *m, const graph_value *v, uint32_t expert)
{
    uint64_t bytes = 0;
    for (uint32_t i = 2; i < 5; i++) {
        const tensor *t = &m->tensors[m->values[v->in[i]].i[0] + expert];
        for (uint32_t p = 0; p < TENSOR_PLANES; p++) bytes += t->plane_bytes[p];
    }
    return bytes;
}

/* One token goes to top_k experts, and reads their matrices alone. */
static void check_experts(const model *m, setup s, const texts *t)
{
    static sequence q[N_SEQS];
    machine w;
    uint64_t least = 0;
    uint64_t most = 0;
    machine_open(&w, m, s);
    trace_on(&w);
    for (graph_id id = 1; id < m->g.n_values; id++) {
        const graph_value *v = &m->values[id];
        if (v->op != GRAPH_EXPERTS) continue;
        uint64_t low = UINT64_MAX;
        uint64_t high = 0;
        for (uint32_t k = 0; k < m->values[v->in[2]].i[1]; k++) {
            uint64_t bytes = expert_bytes(m, v, k);
            if (bytes < low) low = bytes;
            if (bytes > high) high = bytes;
        }
        least += N_SEQS * m->values[v->in[1]].i[0] * low;
        most += N_SEQS * m->values[v->in[1]].i[0] * high;
    }
    run_alone(&w, q, t);
    uint64_t bytes = sum_of(&w, "experts: gate, up").n_bytes + sum_of(&w, "experts: down").n_bytes;
    assert_true(least > 0 && bytes >= least && bytes <= most);
    assert_int_equal(sum_of(&w, "experts: group").n_calls, N_SEQS * count_phases(&w, PHASE_GROUP));
    close_all(&w, q);
}

static void test_experts(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        case_seed = 8500 + round;
        model_begin(&m);
        pattern_experts(&m);
        fill_texts(&t, 1);
        each_isa(check_experts, &m, &t);
        model_free(&m);
    }
}

/* Keys and values of all positions, once. */
static void check_attend(const model *m, setup s, const texts *t)
{
    static sequence q[N_SEQS];
    machine w;
    machine_open(&w, m, s);
    trace_on(&w);
    run_alone(&w, q, t);
    const kv_geometry *g = &w.config.geometries[0];
    uint64_t n = 0;
    for (uint32_t i = 0; i < N_SEQS; i++) n += t->n[i];
    backend_trace_part part = sum_of(&w, "attend");
    assert_int_equal(part.n_calls, N_SEQS);
    assert_int_equal(part.n_bytes, n * g->n_heads * (g->k_row_bytes + g->v_row_bytes));
    assert_int_equal(sum_of(&w, "kv_append").n_calls, N_SEQS);
    close_all(&w, q);
}

static void test_attend(void **state)
{
    (void)state;
    static model m;
    static texts t;
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        case_seed = 8700 + round;
        model_begin(&m);
        pattern_attended(&m);
        fill_texts(&t, 300);
        each_isa(check_attend, &m, &t);
        model_free(&m);
    }
}

/* ---- what can fail ---- */

static void test_memory(void **state)
{
    (void)state;
    static model m;
    machine w;
    backend_trace_part part;
    weft_error err = {0};
    uint32_t n_faults = 0;
    case_seed = 8900;
    model_begin(&m);
    pattern_attended(&m);
    machine_open(&w, &m, random_setup(&m, &BACKEND_CPU, NULL));
    for (;; n_faults++) {
        trace_on(&w);
        atomic_store(&w.memory.n_allocations, 0);
        w.memory.fail_at = n_faults + 1;
        weft_status status = trace(&w, true, &err);
        w.memory.fail_at = 0;
        if (status == WEFT_OK) break;
        assert_status(WEFT_NOMEM, status, &err);
        assert_message(&err, "out of memory for a trace");
        assert_int_equal(w.s.api->trace_part(w.plan, 0, &part), 0);
    }
    assert_true(n_faults >= 2);
    machine_close(&w);
    model_free(&m);
}

static void test_ref_has_none(void **state)
{
    (void)state;
    static model m;
    machine w;
    backend_trace_part part;
    weft_error err = {0};
    case_seed = 8901;
    model_begin(&m);
    pattern_attended(&m);
    machine_open(&w, &m, random_setup(&m, &BACKEND_REF, NULL));
    assert_status(WEFT_UNSUPPORTED, trace(&w, true, &err), &err);
    assert_message(&err, "this backend does not measure where time goes");
    assert_ok(trace(&w, false, NULL), NULL);
    assert_int_equal(w.s.api->trace_part(w.plan, 0, &part), 0);
    machine_close(&w);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_but_time), cmocka_unit_test(test_linears),
        cmocka_unit_test(test_experts),          cmocka_unit_test(test_attend),
        cmocka_unit_test(test_memory),           cmocka_unit_test(test_ref_has_none),
    };
    return TEST_RUN("backend/trace", tests);
}
