/* test_draft_head.c - the head that drafts in a checkpoint of qwen3_5, as a graph of its own: what
 * it gives beside the reference, in one piece and in many, and which heads are read. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"
#include "kv/txn.h"
#include "models/model.h"
#include "support/compare.h"
#include "support/fault.h"
#include "support/golden_copy.h"

#define NAME "qwen3_5-mtp"

enum { CONTEXT = 64, PAGE = 16, N_DRAFTS = 4 };

/* A graph with a backend of its own and one sequence. */
typedef struct stage {
    const backend_api *api;
    const graph *g;
    backend *b;
    backend_plan *plan;
    arena arena;
    kv_config config;
    kv_pool *pool;
    kv_seq *seq;
} stage;

typedef struct where {
    const backend_api *api;
    const char *isa;
    weft_act act;
    uint32_t n_threads;
} where;

static void stage_open(stage *s, const where *w, const graph *g, const kv_layer *layers,
                       uint32_t n_layers)
{
    weft_error err = {0};
    const kv_codec *f32 = kv_codec_by_id(KV_BASE_F32);
    kv_spec spec = {.k = f32, .v = f32, .base = KV_BASE_F32};
    kv_bounds bounds = {.context = CONTEXT, .most_append = CONTEXT, .page_tokens = PAGE};
    backend_config config = {.env = {.allocator = mem_system(), .io = io_system()},
                             .isa = w->isa,
                             .act = w->act,
                             .n_threads = w->n_threads};
    backend_limits limits = {.n_tokens = CONTEXT,
                             .n_rows = 1,
                             .n_outputs = CONTEXT,
                             .n_hidden = CONTEXT,
                             .context = CONTEXT};
    *s = (stage){.api = w->api, .g = g};
    arena_init(&s->arena, mem_system(), 0);
    assert_ok(s->api->open(&config, &s->b, &err), &err);
    assert_ok(s->api->supports(s->b, g, &err), &err);
    assert_ok(s->api->plan(s->b, g, &limits, &s->plan, &err), &err);
    assert_ok(kv_config_init(&s->config, &s->arena, layers, n_layers, &spec, &bounds, &err), &err);
    assert_ok(kv_pool_create(mem_system(), s->api, s->b, &s->config, 1 << 24, &s->pool, &err),
              &err);
    assert_ok(kv_seq_create(mem_system(), s->pool, &s->config, CONTEXT, &s->seq, &err), &err);
}

static void stage_close(stage *s)
{
    kv_seq_destroy(mem_system(), s->seq);
    kv_pool_destroy(s->pool);
    arena_deinit(&s->arena);
    s->api->plan_free(s->b, s->plan);
    s->api->close(s->b);
}

/* The next n tokens; logits [n, V] and hidden [n, H] of all of them. */
static void stage_run(stage *s, const int32_t *ids, float *features, uint32_t n, float *logits,
                      float *hidden)
{
    enum { LAYERS_MOST = 8 };
    kv_view views[LAYERS_MOST];
    uint32_t positions[CONTEXT];
    uint32_t rows[CONTEXT];
    uint32_t row_starts[2] = {0, n};
    weft_error err = {0};
    kv_txn txn;
    kv_txn_row row = {.seq = s->seq, .n = n};
    assert_true(s->config.n_layers <= LAYERS_MOST && n <= CONTEXT);
    for (uint32_t i = 0; i < n; i++) {
        positions[i] = s->seq->len + i;
        rows[i] = i;
    }
    kv_txn_init(&txn);
    assert_ok(kv_txn_begin(&txn, &row, 1, &err), &err);
    kv_seq_views(s->seq, views, 1);
    backend_step step = {.n_tokens = n,
                         .n_rows = 1,
                         .n_outputs = n,
                         .n_hidden = n,
                         .ids = ids,
                         .feeds = &features,
                         .positions = positions,
                         .row_starts = row_starts,
                         .outputs = rows,
                         .hidden_of = rows,
                         .views = views,
                         .logits = logits,
                         .hidden = hidden};
    assert_ok(s->api->run(s->b, s->plan, &step, &err), &err);
    assert_ok(s->api->wait(s->b, &err), &err);
    kv_txn_commit(&txn, &n);
}

/* The golden, its model, and what the model's own graph makes of the prompt. */
typedef struct fixture {
    golden_copy golden;
    llm *m;
    int32_t *ids; /* [n], token i + 1 of each */
    uint32_t n, n_vocab, n_embd;
    float *mtp_logits, *draft_logits;
    int32_t *draft_ids;
} fixture;

static void *read_tensor(const fixture *f, const char *name, size_t expected)
{
    char path[600];
    size_t n;
    snprintf(path, sizeof path, "%s/golden.safetensors", f->golden.path);
    void *data = run_read_tensor(path, name, &n);
    assert_non_null(data);
    if (expected != 0) assert_int_equal(n, expected);
    return data;
}

static void fixture_open(fixture *f)
{
    weft_error err = {0};
    char path[600];
    size_t n;
    golden_copy_open(&f->golden, NAME);
    assert_ok(llm_open(&f->golden.env, f->golden.path, &f->m, &err), &err);
    f->n_vocab = f->m->params.n_vocab;
    f->n_embd = f->m->params.n_embd;
    snprintf(path, sizeof path, "%s/golden.safetensors", f->golden.path);
    f->ids = run_read_tensor(path, "input_ids", &n);
    assert_non_null(f->ids);
    f->n = (uint32_t)n;
    assert_true(f->n + N_DRAFTS <= CONTEXT);
    f->mtp_logits = read_tensor(f, "mtp_logits", n * f->n_vocab);
    f->draft_logits = read_tensor(f, "draft_logits", (size_t)N_DRAFTS * f->n_vocab);
    f->draft_ids = read_tensor(f, "draft_ids", N_DRAFTS);
}

static void fixture_close(fixture *f)
{
    free(f->ids);
    free(f->mtp_logits);
    free(f->draft_logits);
    free(f->draft_ids);
    llm_close(f->m);
    golden_copy_close(&f->golden);
}

static int32_t argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (x[i] > x[best]) best = i;
    }
    return (int32_t)best;
}

static float *numbers(size_t n)
{
    float *x = calloc(n, sizeof *x);
    assert_non_null(x);
    return x;
}

/* What the head gave for the prompt, and for the drafts behind it. */
typedef struct answer {
    float *logits, *hidden; /* [n + N_DRAFTS - 1, V or H] */
    int32_t ids[N_DRAFTS];
} answer;

static void answer_free(answer *a)
{
    free(a->logits);
    free(a->hidden);
}

/* The model over the prompt, the head over what that gave, piece by piece, then its own drafts. */
static answer answer_of(const fixture *f, const where *w, uint32_t piece)
{
    stage model;
    stage head;
    answer a = {.logits = numbers((size_t)CONTEXT * f->n_vocab),
                .hidden = numbers((size_t)CONTEXT * f->n_embd)};
    float *seen = numbers((size_t)f->n * f->n_embd);
    int32_t next[CONTEXT];
    stage_open(&model, w, &f->m->graph, f->m->kv_layers, f->m->n_kv_layers);
    stage_run(&model, f->ids, NULL, f->n, a.logits, seen);
    stage_close(&model);
    memcpy(next, f->ids + 1, (f->n - 1) * sizeof *next);
    next[f->n - 1] = argmax(a.logits + (size_t)(f->n - 1) * f->n_vocab, f->n_vocab);
    stage_open(&head, w, &f->m->draft, f->m->draft_kv_layers, f->m->n_draft_kv_layers);
    for (uint32_t at = 0; at < f->n; at += piece) {
        uint32_t n = f->n - at < piece ? f->n - at : piece;
        stage_run(&head, next + at, seen + (size_t)at * f->n_embd, n,
                  a.logits + (size_t)at * f->n_vocab, a.hidden + (size_t)at * f->n_embd);
    }
    for (uint32_t i = 0; i < N_DRAFTS; i++) {
        size_t last = f->n - 1 + i;
        a.ids[i] = argmax(a.logits + last * f->n_vocab, f->n_vocab);
        if (i + 1 == N_DRAFTS) break;
        stage_run(&head, &a.ids[i], a.hidden + last * f->n_embd, 1,
                  a.logits + (last + 1) * f->n_vocab, a.hidden + (last + 1) * f->n_embd);
    }
    stage_close(&head);
    free(seen);
    return a;
}

/* In deviations of the golden logits: 4.7e-5 is measured. */
static const double BOUND = 1e-4;

static void check_golden(const fixture *f, const where *w)
{
    answer a = answer_of(f, w, f->n);
    size_t n = (size_t)f->n * f->n_vocab;
    size_t n_drafts = (size_t)N_DRAFTS * f->n_vocab;
    double unit = compare_deviation(f->mtp_logits, n);
    const float *drafts = a.logits + n - f->n_vocab;
    print_message("%s %s %.1e, drafts %.1e\n", w->api->name, w->isa == NULL ? "" : w->isa,
                  compare_max_abs(a.logits, f->mtp_logits, n, NULL) / unit,
                  compare_max_abs(drafts, f->draft_logits, n_drafts, NULL) / unit);
    assert_floats_near(a.logits, f->mtp_logits, n, BOUND * unit);
    assert_floats_near(drafts, f->draft_logits, n_drafts, BOUND * unit);
    assert_memory_equal(a.ids, f->draft_ids, sizeof a.ids);
    answer_free(&a);
}

static void test_golden(void **state)
{
    (void)state;
    fixture f;
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    fixture_open(&f);
    check_golden(&f, &(where){&BACKEND_REF, NULL, WEFT_ACT_F32, 1});
    for (size_t i = 0; i < n_isas; i++)
        check_golden(&f, &(where){&BACKEND_CPU, isas[i], WEFT_ACT_F32, 2});
    fixture_close(&f);
}

/* P1: in any pieces, on one thread and on two. */
static void test_same_bits(void **state)
{
    (void)state;
    static const uint32_t PIECES[] = {1, 7, 32};
    fixture f;
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    fixture_open(&f);
    size_t n_rows = f.n + N_DRAFTS - 1;
    for (size_t i = 0; i < n_isas * 2; i++) {
        where w = {&BACKEND_CPU, isas[i / 2], i % 2 == 0 ? WEFT_ACT_F32 : WEFT_ACT_BF16, 1};
        answer whole = answer_of(&f, &w, f.n);
        w.n_threads = 2;
        for (size_t k = 0; k < sizeof PIECES / sizeof PIECES[0]; k++) {
            answer a = answer_of(&f, &w, PIECES[k]);
            assert_floats_identical(a.logits, whole.logits, n_rows * f.n_vocab, f.n_vocab);
            assert_floats_identical(a.hidden, whole.hidden, n_rows * f.n_embd, f.n_embd);
            answer_free(&a);
        }
        answer_free(&whole);
    }
    fixture_close(&f);
}

/* What of such a checkpoint is read, left out, or refused. */
static const struct {
    const char *without, *more, *config[2];
    bool drafts;
    weft_status status;
    const char *message;
} CASES[] = {
    {NULL, NULL, {NULL, NULL}, true, WEFT_OK, ""},
    {"mtp.fc.weight", NULL, {NULL, NULL}, false, WEFT_OK, ""},
    {NULL,
     NULL,
     {"\"mtp_num_hidden_layers\": 1", "\"mtp_num_hidden_layers\": 2"},
     false,
     WEFT_OK,
     ""},
    {NULL,
     NULL,
     {"\"mtp_num_hidden_layers\"", "\"mtp_use_dedicated_embeddings\": true, \"x\""},
     false,
     WEFT_OK,
     ""},
    {"mtp.norm.weight",
     NULL,
     {NULL, NULL},
     false,
     WEFT_FORMAT,
     "tensor 'mtp.norm.weight' is missing"},
    {"mtp.layers.0.self_attn.k_proj.weight",
     NULL,
     {NULL, NULL},
     false,
     WEFT_FORMAT,
     "tensor 'mtp.layers.0.self_attn.k_proj.weight' is missing"},
    {NULL,
     "mtp.layers.1.input_layernorm.weight",
     {NULL, NULL},
     false,
     WEFT_UNSUPPORTED,
     "tensor 'mtp.layers.1.input_layernorm.weight' has no place in architecture qwen3_5"},
};

static void test_which_are_read(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, NAME);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        golden_change change = {CASES[i].without,
                                CASES[i].more,
                                "model.norm.weight",
                                {CASES[i].config[0], CASES[i].config[1]}};
        test_folder folder;
        weft_error err = {0};
        llm *m = NULL;
        golden_write_changed(&s, &change, &folder);
        assert_status(CASES[i].status, llm_open(&s.env, folder.path, &m, &err), &err);
        if (m == NULL) {
            assert_message(&err, CASES[i].message);
        } else {
            assert_int_equal(m->draft.n_values > 0, CASES[i].drafts);
            assert_int_equal(m->n_draft_kv_layers, CASES[i].drafts ? 1 : 0);
            assert_int_equal(m->n_kv_layers, 3);
        }
        llm_close(m);
        test_folder_remove(&folder);
    }
    golden_copy_close(&s);
}

static weft_status open_and_close(const env *world, void *user, weft_error *err)
{
    llm *m;
    weft_status status = llm_open(world, user, &m, err);
    llm_close(m);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    char path[] = GOLDEN_PATH(NAME);
    size_t n = fault_sweep(open_and_close, path);
    size_t n_io = fault_sweep_io(open_and_close, path);
    print_message("%zu allocations, %zu file operations\n", n, n_io);
    assert_true(n >= 18 && n_io >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_which_are_read),
        cmocka_unit_test(test_faults),
    };
    return TEST_RUN("models/draft_head", tests);
}
