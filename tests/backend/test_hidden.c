/* test_hidden.c - hidden states as the second thing that a graph may end in: rows of their own,
 * the bits that logits of the same rows have when both are computed alike, with logits beside them,
 * without, and in a graph that has none. */
#include "backend/ops_runs.h"

typedef enum ending { ENDS_IN_BOTH, ENDS_IN_LOGITS, ENDS_IN_HIDDEN, N_ENDINGS } ending;

/* What both results are made of. */
typedef struct last_part {
    graph_id norm, square, gate;
} last_part;

/* What a backend may fuse, and in place: the last of it must all the same lie where it is wanted.
 */
static graph_id finish_part(graph *g, graph_id taken, const last_part *w, uint32_t last)
{
    graph_id x = graph_rms_norm(g, taken, w->norm, 1e-5F, 0.0F);
    if (last == 0) return x;
    if (last == 1) return graph_add(g, x, graph_linear(g, x, w->square, 0));
    graph_id gate = graph_linear(g, x, w->gate, 0);
    return graph_glu(g, gate, graph_linear(g, x, w->square, 0), GRAPH_SILU);
}

/* The same tensors whatever it ends in. */
static void build(model *m, uint64_t seed, ending e)
{
    weft_error err = {0};
    case_seed = seed;
    model_begin(m);
    graph *g = &m->g;
    uint32_t last = draw(0, 2);
    graph_id x = model_embed(m);
    x = graph_add(g, x, model_attention(m, x, 0));
    last_part w = {.norm = model_vector(m, m->width)};
    if (last != 0) w.square = model_matrix(m, m->width, m->width);
    if (last == 2) w.gate = model_matrix(m, m->width, m->width);
    if (e != ENDS_IN_LOGITS) graph_hidden(g, finish_part(g, graph_take_hidden(g, x), &w, last));
    graph_finish(g, e != ENDS_IN_HIDDEN ? finish_part(g, graph_take(g, x), &w, last) : 0);
    assert_ok(graph_status(g, &err), &err);
}

/* What a step of one text gave. */
typedef struct results {
    uint32_t n_outputs, n_hidden;
    uint32_t outputs[SEQ_MOST], hidden_of[SEQ_MOST];
    float *logits, *hidden;
} results;

/* Each token with a chance of one in every; 0: none. */
static uint32_t some_of(uint32_t n, uint32_t every, uint32_t *of)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n && every > 0; i++) {
        if (draw(1, every) == 1) of[found++] = i;
    }
    return found;
}

/* Two rows, of n - n / 3 and n / 3 tokens. */
static void run(const model *m, setup s, const texts *t, uint32_t n, results *r)
{
    static uint32_t positions[SEQ_MOST];
    static sequence q[2];
    machine w;
    kv_view views[MODEL_STATES * 2];
    weft_error err = {0};
    machine_open(&w, m, s);
    uint32_t row_starts[3] = {0, n - n / 3, n};
    for (uint32_t i = 0; i < 2; i++) {
        sequence_open(&w, &q[i], t->ids[0] + row_starts[i], row_starts[i + 1] - row_starts[i]);
        sequence_views(&q[i], views + i, 2);
    }
    for (uint32_t i = 0; i < n; i++) positions[i] = i < row_starts[1] ? i : i - row_starts[1];
    r->logits = case_alloc((size_t)r->n_outputs * m->width * sizeof(float));
    r->hidden = case_alloc((size_t)r->n_hidden * m->width * sizeof(float));
    backend_step step = {.n_tokens = n,
                         .n_rows = 2,
                         .n_outputs = r->n_outputs,
                         .n_hidden = r->n_hidden,
                         .ids = t->ids[0],
                         .positions = positions,
                         .row_starts = row_starts,
                         .outputs = r->outputs,
                         .hidden_of = r->hidden_of,
                         .views = views,
                         .logits = r->logits,
                         .hidden = r->hidden};
    w.memory.armed = true;
    assert_ok(s.api->run(w.b, w.plan, &step, &err), &err);
    assert_ok(s.api->wait(w.b, &err), &err);
    w.memory.armed = false;
    for (uint32_t i = 0; i < 2; i++) sequence_close(&w, &q[i]);
    machine_close(&w);
}

static void check_rows(const float *rows, const uint32_t *of, uint32_t n, const float *all,
                       size_t cols, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(rows + i * cols, all + of[i] * cols, cols * sizeof *all) != 0)
            fail_msg("%s of token %u differ", what, of[i]);
    }
}

static void free_results(results *r)
{
    free(r->logits);
    free(r->hidden);
}

/* All logits of the graph that has nothing else are what every other result is held against. */
static void check_endings(setup s, uint64_t seed, uint32_t n)
{
    static model m[N_ENDINGS];
    static texts t;
    static results all, r;
    static const uint32_t EVERY[][2] = {{1, 1}, {3, 2}, {0, 1}, {1, 0}, {0, 2}, {9, 9}};
    for (uint32_t e = 0; e < N_ENDINGS; e++) build(&m[e], seed, (ending)e);
    fill_texts(&t, SEQ_MOST);
    all.n_outputs = some_of(n, 1, all.outputs);
    all.n_hidden = 0;
    run(&m[ENDS_IN_LOGITS], s, &t, n, &all);
    size_t cols = m[0].width;
    for (uint32_t i = 0; i < COUNT_OF(EVERY); i++) {
        s.n_threads = draw(1, 3);
        for (uint32_t e = ENDS_IN_BOTH; e < N_ENDINGS; e += ENDS_IN_HIDDEN) {
            r.n_outputs = some_of(n, e == ENDS_IN_BOTH ? EVERY[i][0] : 0, r.outputs);
            r.n_hidden = some_of(n, EVERY[i][1], r.hidden_of);
            run(&m[e], s, &t, n, &r);
            check_rows(r.logits, r.outputs, r.n_outputs, all.logits, cols, "logits");
            check_rows(r.hidden, r.hidden_of, r.n_hidden, all.logits, cols, "hidden states");
            free_results(&r);
        }
    }
    free_results(&all);
    for (uint32_t e = 0; e < N_ENDINGS; e++) model_free(&m[e]);
}

static void test_rows_of_their_own(void **state)
{
    (void)state;
    size_t n_isas;
    const cpu_isa *isas = cpu_isa_table(&n_isas);
    for (uint64_t round = 0; round < SHORT_ROUNDS; round++) {
        setup s = {.api = &BACKEND_REF,
                   .n_threads = 1,
                   .page_tokens = 64,
                   .k = kv_codec_by_name("f32", 3),
                   .v = kv_codec_by_name("f32", 3),
                   .act = round % 2 == 0 ? WEFT_ACT_F32 : WEFT_ACT_BF16,
                   .fill = 0xff};
        uint32_t n = round == 0 ? 130 : 1 + (uint32_t)round * 3;
        check_endings(s, 31000 + round, n);
        s.api = &BACKEND_CPU;
        for (size_t i = 0; i < n_isas; i++) {
            if (!isas[i].available()) continue;
            s.isa = isas[i].name;
            check_endings(s, 31000 + round, n);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_of_their_own)};
    return TEST_RUN("backend/hidden", tests);
}
