/* test_sequences.c - what the engine's interface does not show yet, on a model with recurrent
 * layers beside attention: steps of which a part is kept, and sequences that are cloned and go on.
 * Every answer is compared bit for bit with that of a sequence which was fed the same tokens and
 * nothing else. */
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/io.h"
#include "base/rng.h"
#include "kv/txn.h"
#include "models/model.h"
#include "support/compare.h"
#include "support/fault.h"
#include "support/test.h"

enum { MOST_ROWS = 4, MOST_TOKENS = 64, MOST_STATES = 8, CONTEXT = 128, MOST_VERIFY = 17 };

typedef struct world {
    const llm *model;
    fault_allocator memory;
    const backend_api *api;
    backend *b;
    backend_plan *plan;
    arena arena;
    kv_config config;
    kv_pool *pool;
    uint32_t n_vocab;
    float *logits; /* [MOST_TOKENS, n_vocab], of the last step */
    const float *of_row[MOST_ROWS];
} world;

static void world_open(world *w, const llm *model, const char *name, const char *isa,
                       uint32_t n_threads)
{
    weft_error err = {0};
    *w = (world){.model = model, .n_vocab = model->params.n_vocab};
    fault_allocator_init(&w->memory, 0);
    assert_ok(backend_find(name, &w->api, &err), &err);
    backend_config config = {.env = {.allocator = &w->memory.allocator, .io = io_system()},
                             .isa = isa,
                             .act = WEFT_ACT_BF16,
                             .n_threads = n_threads};
    assert_ok(w->api->open(&config, &w->b, &err), &err);
    backend_limits limits = {
        .n_tokens = MOST_TOKENS, .n_rows = MOST_ROWS, .n_outputs = MOST_TOKENS, .context = CONTEXT};
    assert_ok(w->api->plan(w->b, &model->graph, &limits, &w->plan, &err), &err);
    arena_init(&w->arena, &w->memory.allocator, 0);
    kv_spec spec;
    assert_ok(kv_spec_parse("affine8g32", "bf16", &spec, &err), &err);
    kv_bounds bounds = {.context = CONTEXT,
                        .most_append = 48,
                        .page_tokens = 16,
                        .most_verify = MOST_VERIFY,
                        .marks = true};
    assert_ok(kv_config_init(&w->config, &w->arena, model->kv_layers, model->n_kv_layers, &spec,
                             &bounds, &err),
              &err);
    assert_true(w->config.n_recurrent > 0 && w->config.n_recurrent < w->config.n_layers);
    assert_true(w->config.n_layers <= MOST_STATES);
    assert_ok(kv_pool_create(&w->memory.allocator, w->api, w->b, &w->config,
                             20 * kv_config_bytes(&w->config, CONTEXT), &w->pool, &err),
              &err);
    kv_pool_set_plan(w->pool, w->plan);
    w->logits = calloc((size_t)MOST_TOKENS * w->n_vocab, sizeof(float));
    assert_non_null(w->logits);
}

static void world_close(world *w)
{
    assert_int_equal(kv_pool_bytes_taken(w->pool), 0);
    kv_pool_destroy(w->pool);
    w->api->plan_free(w->b, w->plan);
    w->api->close(w->b);
    arena_deinit(&w->arena);
    fault_allocator_check(&w->memory);
    free(w->logits);
}

static kv_seq *open_seq(world *w)
{
    weft_error err = {0};
    kv_seq *seq = NULL;
    assert_ok(kv_seq_create(&w->memory.allocator, w->pool, &w->config, CONTEXT, &seq, &err), &err);
    return seq;
}

static kv_seq *clone_seq(world *w, const kv_seq *from)
{
    weft_error err = {0};
    kv_seq *seq = NULL;
    assert_ok(kv_seq_clone(&w->memory.allocator, from, CONTEXT, &seq, &err), &err);
    return seq;
}

static void close_seq(world *w, kv_seq *seq)
{
    kv_seq_destroy(&w->memory.allocator, seq);
}

/* What a row of a step is fed, how much of it stays, and where a state is marked. */
typedef struct feed {
    kv_seq *seq;
    const int32_t *ids;
    uint32_t n, keep, mark;
} feed;

/* KV-59: from begin to commit nothing is allocated. */
static void step(world *w, const feed *feeds, uint32_t n_rows)
{
    int32_t ids[MOST_TOKENS];
    uint32_t positions[MOST_TOKENS];
    uint32_t outputs[MOST_TOKENS];
    uint32_t row_starts[MOST_ROWS + 1] = {0};
    uint32_t keep[MOST_ROWS];
    kv_txn_row rows[MOST_ROWS];
    kv_view views[MOST_ROWS * MOST_STATES];
    kv_txn txn;
    weft_error err = {0};
    backend_step s = {.n_rows = n_rows,
                      .ids = ids,
                      .positions = positions,
                      .row_starts = row_starts,
                      .outputs = outputs,
                      .views = views,
                      .logits = w->logits};
    w->memory.armed = true;
    for (uint32_t r = 0; r < n_rows; r++) {
        const feed *f = &feeds[r];
        rows[r] = (kv_txn_row){f->seq, f->n, f->keep != 0 && f->keep != f->n, f->mark};
        keep[r] = f->keep;
        w->of_row[r] = w->logits + (size_t)s.n_tokens * w->n_vocab;
        for (uint32_t i = 0; i < f->n; i++, s.n_tokens++) {
            ids[s.n_tokens] = f->ids[i];
            positions[s.n_tokens] = f->seq->len + i;
            outputs[s.n_tokens] = s.n_tokens;
        }
        row_starts[r + 1] = s.n_tokens;
    }
    s.n_outputs = s.n_tokens;
    kv_txn_init(&txn);
    assert_ok(kv_txn_begin(&txn, rows, n_rows, &err), &err);
    for (uint32_t r = 0; r < n_rows; r++) kv_seq_views(rows[r].seq, views + r, n_rows);
    assert_ok(w->api->run(w->b, w->plan, &s, &err), &err);
    assert_ok(w->api->wait(w->b, &err), &err);
    kv_txn_commit(&txn, keep);
    w->memory.armed = false;
}

static void fill_ids(const world *w, int32_t *ids, uint32_t n, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)(rng_u64(seed, i) % w->n_vocab);
}

/* Both hold the same state in recurrent layers. */
static void assert_same_states(const world *w, const kv_seq *a, const kv_seq *b)
{
    kv_view va[MOST_STATES];
    kv_view vb[MOST_STATES];
    assert_int_equal(a->len, b->len);
    kv_seq_views(a, va, 1);
    kv_seq_views(b, vb, 1);
    for (uint32_t l = 0; l < w->config.n_layers; l++) {
        if (!kv_is_recurrent(&w->config, l) || a->len == 0) continue;
        const kv_layer *of = &w->model->kv_layers[l];
        for (uint32_t i = 0; i < KV_BUFFERS; i++) {
            assert_memory_equal(kv_committed(&va[l], i), kv_committed(&vb[l], i),
                                of->buffers[i] * sizeof(float));
        }
    }
}

/* What a marks is what b holds. */
static void assert_marked_as(const world *w, const kv_seq *a, const kv_seq *b)
{
    kv_view of_b[MOST_STATES];
    assert_int_equal(a->mark_at, b->len);
    kv_seq_views(b, of_b, 1);
    for (uint32_t l = 0; l < w->config.n_layers; l++) {
        const kv_page *page = kv_seq_marked(a, l);
        assert_int_equal(page != NULL, kv_is_recurrent(&w->config, l));
        for (uint32_t i = 0; i < KV_BUFFERS && page != NULL; i++) {
            assert_memory_equal(page->at + of_b[l].geometry->buffers_at[i],
                                kv_committed(&of_b[l], i),
                                w->model->kv_layers[l].buffers[i] * sizeof(float));
        }
    }
}

/* Feeds both the same and compares all logits. */
static void assert_same_from_here(world *w, kv_seq *a, kv_seq *b, uint64_t seed)
{
    int32_t next[3];
    fill_ids(w, next, 3, seed);
    step(w, &(feed){a, next, 3, 3, 0}, 1);
    float *of_a = malloc((size_t)3 * w->n_vocab * sizeof *of_a);
    assert_non_null(of_a);
    memcpy(of_a, w->of_row[0], (size_t)3 * w->n_vocab * sizeof *of_a);
    step(w, &(feed){b, next, 3, 3, 0}, 1);
    assert_floats_identical(of_a, w->of_row[0], (size_t)3 * w->n_vocab, w->n_vocab);
    free(of_a);
}

/* KV-41, KV-44: three rows of n, of which any part is kept, ragged; in a step with a prompt. */
static void check_parts(world *w, uint32_t n)
{
    int32_t ids[3][CONTEXT];
    int32_t prompt[9];
    static const uint32_t BEFORE[3] = {0, 1, 30};
    fill_ids(w, prompt, 9, 5);
    for (uint32_t part = 0; part <= n; part++) {
        kv_seq *seq[3];
        feed feeds[4];
        for (uint32_t i = 0; i < 3; i++) {
            seq[i] = open_seq(w);
            fill_ids(w, ids[i], BEFORE[i] + n, 100 + i);
            if (BEFORE[i] > 0) step(w, &(feed){seq[i], ids[i], BEFORE[i], BEFORE[i], 0}, 1);
            uint32_t keep = (part + i * 5) % (n + 1);
            feeds[i] = (feed){seq[i], ids[i] + BEFORE[i], n, keep, 0};
        }
        kv_seq *other = open_seq(w);
        feeds[3] = (feed){other, prompt, 9, 9, 0};
        step(w, feeds, 4);
        for (uint32_t i = 0; i < 3; i++) {
            kv_seq *plain = open_seq(w);
            uint32_t kept = BEFORE[i] + feeds[i].keep;
            if (kept > 0) step(w, &(feed){plain, ids[i], kept, kept, 0}, 1);
            assert_same_states(w, seq[i], plain);
            assert_same_from_here(w, seq[i], plain, part);
            close_seq(w, plain);
            close_seq(w, seq[i]);
        }
        close_seq(w, other);
    }
}

/* A prompt in pieces, the last of which marks each of its positions in turn, beside a row of which
 * a part is kept. */
static void check_marks(world *w, uint32_t n)
{
    int32_t ids[2][CONTEXT];
    for (uint32_t i = 0; i < 2; i++) fill_ids(w, ids[i], CONTEXT, 300 + i);
    for (uint32_t mark = 1; mark <= n; mark++) {
        kv_seq *a = open_seq(w);
        kv_seq *b = open_seq(w);
        kv_seq *plain = open_seq(w);
        step(w, &(feed){a, ids[0], 20, 20, 7}, 1);
        uint32_t kept = mark + (n - mark) / 2;
        feed both[2] = {{a, ids[0] + 20, n, n, mark}, {b, ids[1], n, kept, mark}};
        step(w, both, 2);
        step(w, &(feed){plain, ids[0], 20 + mark, 20 + mark, 0}, 1);
        assert_marked_as(w, a, plain);
        assert_ok(kv_seq_trim(plain, 0, NULL), NULL);
        step(w, &(feed){plain, ids[1], mark, mark, 0}, 1);
        assert_marked_as(w, b, plain);
        if (kept > mark) step(w, &(feed){plain, ids[1] + mark, kept - mark, kept - mark, 0}, 1);
        assert_same_states(w, b, plain);
        assert_same_from_here(w, b, plain, mark);
        close_seq(w, a);
        close_seq(w, b);
        close_seq(w, plain);
    }
}

/* KV-2: a clone and what it was cloned from go on, together, and neither sees the other. */
static void check_clones(world *w)
{
    int32_t ids[40];
    int32_t more[2][7];
    fill_ids(w, ids, 40, 1);
    kv_seq *a = open_seq(w);
    step(w, &(feed){a, ids, 40, 40, 0}, 1);
    kv_seq *b = clone_seq(w, a);
    for (uint32_t i = 0; i < 2; i++) fill_ids(w, more[i], 7, 10 + i);
    feed both[2] = {{a, more[0], 7, 7, 0}, {b, more[1], 7, 3, 0}};
    step(w, both, 2);
    for (uint32_t i = 0; i < 2; i++) {
        kv_seq *plain = open_seq(w);
        step(w, &(feed){plain, ids, 40, 40, 0}, 1);
        step(w, &(feed){plain, more[i], both[i].keep, both[i].keep, 0}, 1);
        assert_same_states(w, both[i].seq, plain);
        assert_same_from_here(w, both[i].seq, plain, 77);
        close_seq(w, plain);
    }
    close_seq(w, a);
    /* From nothing again. */
    assert_ok(kv_seq_trim(b, 0, NULL), NULL);
    a = open_seq(w);
    assert_same_from_here(w, a, b, 78);
    close_seq(w, a);
    close_seq(w, b);
}

static void check_backend(const llm *model, const char *name, const char *isa, uint32_t n_threads)
{
    static const uint32_t SIZES[] = {1, 2, 5, MOST_VERIFY};
    world w;
    world_open(&w, model, name, isa, n_threads);
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) check_parts(&w, SIZES[i]);
    check_marks(&w, 7);
    check_clones(&w);
    world_close(&w);
}

static void test_kv41_and_clones(void **state)
{
    (void)state;
    weft_error err = {0};
    env world_env = {.allocator = mem_system(), .io = io_system()};
    llm *model = NULL;
    assert_ok(llm_open(&world_env, GOLDEN_PATH("qwen3_5"), &model, &err), &err);
    check_backend(model, "ref", NULL, 1);
    size_t n_isas;
    const cpu_isa *isas = cpu_isa_table(&n_isas);
    for (size_t i = 0; i < n_isas; i++) {
        if (!isas[i].available()) continue;
        for (uint32_t threads = 1; threads <= 3; threads++) {
            check_backend(model, "cpu", isas[i].name, threads);
        }
    }
    llm_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kv41_and_clones)};
    return TEST_RUN("engine/sequences", tests);
}
