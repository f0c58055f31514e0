/* test_draft_assistant.c - drafts of a model that reads another's keys and values: its logits
 * beside the reference's, and that drafts are of the tokens alone (KV-48). That answers are those
 * without drafts, and how such requests end: test_draft_graphs.c, test_draft_life.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "engine/state.h"
#include "support/compare.h"
#include "support/draft_world.h"
#include "support/golden_copy.h"

#define TARGET "gemma4-assistant/target"
#define GOLDEN GOLDEN_PATH("gemma4-assistant/golden.safetensors")

enum { VOCAB = 128, WIDTH = 64, N_DRAFTS = 5, N_SHORT = 17, STATES = 2 };

static const struct {
    const char *name, *prefix; /* of the golden's tensors */
} HEADS[] = {{"gemma4-assistant/assistant", ""}, {"gemma4-assistant/assistant-centroid", "c_"}};

enum { N_HEADS = sizeof HEADS / sizeof HEADS[0] };

/* ---- what runs of an assistant are given and give, its logits among them -------------------- */

typedef struct watch {
    backend_api api; /* with a run of ours */
    const backend_api *inner;
    weft_engine *e;
    uint32_t wider; /* positions that windows see more */
    uint32_t n;     /* runs */
    float logits[DRAFTS_MOST][VOCAB];
    float before[DRAFTS_MOST][WIDTH], behind[DRAFTS_MOST][WIDTH]; /* hidden states */
} watch;

static watch watched; /* the functions of a backend know nobody */

/* Whichever run comes next: the logits of the last draft lie there. */
static void take_logits(watch *w)
{
    if (w->n > 0) memcpy(w->logits[w->n - 1], w->e->assistant.logits, sizeof w->logits[0]);
}

static weft_status run_watched(backend *b, backend_plan *plan, const backend_step *step,
                               weft_error *err)
{
    watch *w = &watched;
    kv_geometry geometries[STATES];
    kv_view views[STATES];
    backend_step ours = *step;
    take_logits(w);
    if (plan != w->e->assistant.g.plan) return w->inner->run(b, plan, step, err);
    assert_true(step->n_rows == 1 && w->n < DRAFTS_MOST);
    for (uint32_t i = 0; i < STATES; i++) {
        views[i] = step->views[i];
        geometries[i] = *views[i].geometry;
        if (geometries[i].layout == KV_LAYOUT_WINDOW) geometries[i].window += w->wider;
        views[i].geometry = &geometries[i];
    }
    ours.views = views;
    memcpy(w->before[w->n], step->feeds[0] + WIDTH, sizeof w->before[0]);
    weft_status status = w->inner->run(b, plan, &ours, err);
    memcpy(w->behind[w->n++], step->hidden, sizeof w->behind[0]);
    return status;
}

static void watch_engine(weft_engine *e, uint32_t wider)
{
    watched = (watch){.api = *e->api, .inner = e->api, .e = e, .wider = wider};
    watched.api.run = run_watched;
    e->api = &watched.api;
}

/* ---- beside the reference ------------------------------------------------------------------- */

typedef struct reference {
    int32_t *prompt, *bonus, *ids;
    float *logits, *hidden;
    size_t n_prompt;
} reference;

static void *read_of(const char *prefix, uint32_t round, const char *name, size_t expected)
{
    char text[64];
    size_t n;
    snprintf(text, sizeof text, "%sr%u_%s", prefix, round, name);
    void *data = run_read_tensor(GOLDEN, text, &n);
    assert_non_null(data);
    assert_int_equal(n, expected);
    return data;
}

static reference reference_read(const char *prefix, uint32_t round)
{
    reference r;
    r.prompt = run_read_tensor(GOLDEN, "input_ids", &r.n_prompt);
    assert_true(r.prompt != NULL && r.n_prompt > N_SHORT);
    r.bonus = read_of("", round == 1, "bonus", 1);
    r.ids = read_of(prefix, round, "draft_ids", N_DRAFTS);
    r.logits = read_of(prefix, round, "draft_logits", (size_t)N_DRAFTS * VOCAB);
    r.hidden = read_of(prefix, round, "hidden", (size_t)(N_DRAFTS + 1) * WIDTH);
    if (round == 1) r.n_prompt = N_SHORT;
    return r;
}

static void reference_free(reference *r)
{
    free(r->prompt);
    free(r->bonus);
    free(r->ids);
    free(r->logits);
    free(r->hidden);
}

/* The largest difference of a logit, in standard deviations. */
static double check_round(draft_world *w, uint32_t head, uint32_t round,
                          weft_engine_options options)
{
    reference of = reference_read(HEADS[head].prefix, round);
    eager s = {.least = N_DRAFTS};
    run r = {.prompt = of.prompt, .n_prompt = (uint32_t)of.n_prompt, .max_new = N_DRAFTS + 4};
    weft_engine *e = draft_world_engine(w, true, options);
    watch_engine(e, round == 0 ? 1 : 0);
    draft_world_eager(w, &r, &s);
    run_submit(e, w->n_vocab, &r);
    uint32_t n_active;
    while (watched.n == 0) assert_ok(weft_step(e, &n_active, NULL), NULL);
    assert_int_equal(e->active[0]->tokens[of.n_prompt], of.bonus[0]);
    assert_true(watched.n >= N_DRAFTS && e->batch.rows[0].n_drafts == watched.n);
    assert_memory_equal(e->batch.rows[0].drafts, of.ids, N_DRAFTS * sizeof *of.ids);
    double unit = compare_deviation(of.logits, (size_t)N_DRAFTS * VOCAB);
    double state = compare_deviation(of.hidden, (size_t)(N_DRAFTS + 1) * WIDTH);
    double worst = 0.0;
    for (uint32_t i = 0; i < N_DRAFTS; i++) {
        double off = compare_max_abs(watched.logits[i], of.logits + (size_t)i * VOCAB, VOCAB, NULL);
        if (off / unit > worst) worst = off / unit;
        const float *hidden = of.hidden + (size_t)i * WIDTH;
        assert_floats_near(watched.before[i], hidden, WIDTH, 1e-4 * state);
        assert_floats_near(watched.behind[i], hidden + WIDTH, WIDTH, 1e-4 * state);
    }
    while (n_active > 0) assert_ok(weft_step(e, &n_active, NULL), NULL);
    run_collect(e, &r);
    run_free(&r);
    weft_engine_close(e);
    reference_free(&of);
    return worst;
}

/* In a round of the reference in which the model kept no more than its window, as here between
 * steps, and one within the window; and with one position more, as it has after a prompt. */
static void test_logits(void **state)
{
    (void)state;
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (uint32_t head = 0; head < N_HEADS; head++) {
        for (uint32_t round = 0; round < 3; round++) {
            print_message("%s, round %u:", HEADS[head].name, round);
            for (size_t i = 0; i <= n_isas; i++) {
                draft_world w;
                draft_world_open(&w,
                                 (draft_setting){.golden = TARGET,
                                                 .drafting = HEADS[head].name,
                                                 .backend = i == n_isas ? "ref" : "cpu",
                                                 .act = WEFT_ACT_F32},
                                 NULL);
                const char *isa = i == n_isas ? NULL : isas[i];
                double worst = check_round(&w, head, round, (weft_engine_options){.isa = isa});
                print_message(" %s %.1e", isa != NULL ? isa : "ref", worst);
                assert_true(worst < 1e-4);
                draft_world_close(&w);
            }
            print_message("\n");
        }
    }
}

/* ---- drafts are of the tokens alone --------------------------------------------------------- */

enum { N_PROMPT = 70, NEW_TOKENS = 60, MOST = N_PROMPT + NEW_TOKENS, COMPANY = 3 };

/* What was drafted behind so many tokens. */
typedef struct drafted {
    uint32_t n[MOST];
    int32_t ids[MOST][DRAFTS_MOST];
} drafted;

/* Steps until all is done, and notes what the request of a handle was proposed. */
static void step_noting(weft_engine *e, weft_handle handle, drafted *d)
{
    uint32_t n_active = 1;
    while (n_active > 0) {
        assert_ok(weft_step(e, &n_active, NULL), NULL);
        for (uint32_t i = 0; i < e->batch.step.n_rows; i++) {
            const batch_row *row = &e->batch.rows[i];
            const request *r = queue_find(e, handle);
            if (row->r != r || row->n_drafts == 0) continue;
            assert_true(row->n_known < MOST && d->n[row->n_known] == 0);
            d->n[row->n_known] = row->n_drafts;
            memcpy(d->ids[row->n_known], row->drafts, row->n_drafts * sizeof *row->drafts);
        }
    }
}

/* Few tokens are likely, so that some drafts are right. */
static run make_run(uint32_t i)
{
    static const weft_logit_bias BIAS[] = {{3, 40.0F}, {77, 40.0F}};
    return (run){.prompt = run_random_ids(N_PROMPT - i, VOCAB, 50 + i),
                 .n_prompt = N_PROMPT - i,
                 .max_new = NEW_TOKENS,
                 .sampling = {.temperature = 0.7F,
                              .top_p = 0.95F,
                              .top_k = 30,
                              .seed = 9 + i,
                              .logit_bias = BIAS,
                              .n_logit_bias = sizeof BIAS / sizeof BIAS[0]}};
}

static void free_run(run *r)
{
    free((void *)(uintptr_t)r->prompt);
    run_free(r);
}

/* The first run, with others beside it, whose pauses it may be the reason of. */
static void answer_noting(const draft_world *w, weft_engine *e, uint32_t n_others, drafted *d,
                          run *first)
{
    run others[COMPANY];
    eager s[COMPANY + 1] = {{.least = 3}, {.least = 1}, {.least = 2}, {.least = 4}};
    *first = make_run(0);
    *d = (drafted){{0}, {{0}}};
    for (uint32_t i = 0; i < n_others; i++) {
        others[i] = make_run(i + 1);
        draft_world_eager(w, &others[i], &s[i + 1]);
        run_submit(e, VOCAB, &others[i]);
    }
    draft_world_eager(w, first, &s[0]);
    run_submit(e, VOCAB, first);
    step_noting(e, first->handle, d);
    run_collect(e, first);
    for (uint32_t i = 0; i < n_others; i++) {
        run_collect(e, &others[i]);
        free_run(&others[i]);
    }
}

/* How many drafts both have, which are the same. */
static uint32_t assert_same_drafts(const drafted *a, const drafted *b)
{
    uint32_t n_common = 0;
    for (uint32_t n = 0; n < MOST; n++) {
        uint32_t both = a->n[n] < b->n[n] ? a->n[n] : b->n[n];
        assert_memory_equal(a->ids[n], b->ids[n], both * sizeof(int32_t));
        n_common += both;
    }
    return n_common;
}

/* Beside others, in pieces, with other numbers of drafts verified before, behind what was found of
 * another, and after a pause: the same drafts. */
static void check_alone(const draft_setting *of)
{
    static const struct {
        uint32_t n_others, n_passes;
        weft_engine_options options;
    } WAYS[] = {
        {0, 1, {.chunk_tokens = 1}},
        {0, 1, {.chunk_tokens = 7, .n_threads = 2}},
        {0, 1, {.max_drafts = 1}},
        {COMPANY, 1, {.max_outputs = 40}},
        {COMPANY, 1, {.chunk_tokens = 16}},
        {0, 2, {0}},
        {COMPANY, 2, {.max_outputs = 40, .max_sequences = 2}},
    };
    draft_world w;
    drafted *alone = calloc(2, sizeof *alone);
    assert_non_null(alone);
    drafted *other = alone + 1;
    run plain;
    draft_world_open(&w, *of, NULL);
    weft_engine *e = draft_world_engine(
        &w, true, (weft_engine_options){.flags = WEFT_ENGINE_NO_CACHE, .max_outputs = 40});
    answer_noting(&w, e, 0, alone, &plain);
    weft_engine_close(e);
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < sizeof WAYS / sizeof WAYS[0]; i++) {
        run r;
        e = draft_world_engine(&w, true, WAYS[i].options);
        for (uint32_t pass = 0; pass < WAYS[i].n_passes; pass++) {
            answer_noting(&w, e, WAYS[i].n_others, other, &r);
            run_assert_identical(&r, &plain, VOCAB);
            uint32_t n = assert_same_drafts(alone, other);
            if (n < least) least = n;
            free_run(&r);
        }
        weft_engine_close(e);
    }
    print_message("%s, %s: at least %u drafts in common, %u of %u right\n", of->drafting,
                  of->kv != NULL ? of->kv : "dense", least, plain.n_accepted, plain.n_drafted);
    assert_true(least >= 10 && plain.n_accepted > plain.n_drafted / 8);
    free_run(&plain);
    free(alone);
    draft_world_close(&w);
}

static void test_kv48_of_tokens_alone(void **state)
{
    (void)state;
    static const char *const KV[] = {NULL, "affine8g64,start=90", "turbo-k8v4"};
    for (uint32_t head = 0; head < N_HEADS; head++) {
        for (size_t i = 0; i < sizeof KV / sizeof KV[0]; i += TEST_SLOWED ? 2 : 1) {
            check_alone(&(draft_setting){.golden = TARGET,
                                         .drafting = HEADS[head].name,
                                         .kv = KV[i],
                                         .act = i == 1 ? WEFT_ACT_BF16 : WEFT_ACT_F32});
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_kv48_of_tokens_alone),
    };
    return TEST_RUN("engine/draft_assistant", tests);
}
