/* test_verify.c - how requests that draft end, what they hold on the way, and what they may not
 * cost. That their answers are those without drafts: test_drafts.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state.h"
#include "support/fault.h"
#include "support/fault_backend.h"
#include "support/scripted.h"

#define GOLDEN WEFT_GOLDEN_DIR "/"

enum { VOCAB = 320, CONTEXT = 256, N_PROMPT = 20, NEW_TOKENS = 60 };

typedef struct fixture {
    weft_model *model;
    weft_engine *engine;
} fixture;

static fixture open_with(const char *golden, const weft_allocator *allocator,
                         weft_engine_options options)
{
    char path[600];
    weft_error err = {WEFT_OK, ""};
    fixture f = {NULL, NULL};
    snprintf(path, sizeof path, "%s%s", GOLDEN, golden);
    weft_model_options model_options = {.struct_size = sizeof model_options,
                                        .allocator = allocator};
    assert_ok(weft_model_open(path, &model_options, &f.model, &err), &err);
    options.struct_size = sizeof options;
    options.n_threads = 1;
    if (options.context == 0) options.context = CONTEXT;
    assert_ok(weft_engine_open(f.model, &options, &f.engine, &err), &err);
    return f;
}

static void close_all(fixture f)
{
    weft_engine_close(f.engine);
    weft_model_close(f.model);
}

static uint32_t step(weft_engine *e)
{
    weft_error err = {WEFT_OK, ""};
    uint32_t n_active;
    assert_ok(weft_step(e, &n_active, &err), &err);
    return n_active;
}

static run make_run(uint64_t seed, uint32_t max_new)
{
    return (run){
        .prompt = run_random_ids(N_PROMPT, VOCAB, seed),
        .n_prompt = N_PROMPT,
        .max_new = max_new,
        .sampling = {
            .temperature = 0.9F, .top_p = 0.95F, .min_p = 0.0F, .top_k = 40, .seed = seed}};
}

static void free_run(run *r)
{
    free((void *)(uintptr_t)r->prompt);
    run_free(r);
}

static void draft_by(run *r, script *s, script_kind kind, const run *answer)
{
    *s = (script){.kind = kind, .answer = answer, .n_vocab = VOCAB};
    r->drafter = &SCRIPTED;
    r->draft_state = s;
}

static uint64_t live_bytes(const weft_engine *e)
{
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(e, &info, NULL), NULL);
    return info.kv_bytes_live;
}

/* ---- KV-38: every end -------------------------------------------------------------------------*/

/* The same request with and without drafts; both are freed. */
static void assert_ends_alike(weft_engine *e, run plain, script_kind kind, const run *answer)
{
    run drafted = plain;
    script s;
    run_all(e, VOCAB, &plain, 1);
    draft_by(&drafted, &s, kind, answer != NULL ? answer : &plain);
    run_all(e, VOCAB, &drafted, 1);
    run_assert_identical(&drafted, &plain, VOCAB);
    assert_int_equal(drafted.finish, plain.finish);
    assert_int_equal(live_bytes(e), 0);
    run_free(&drafted);
    run_free(&plain);
}

static void test_kv38_any_length(void **state)
{
    (void)state;
    fixture f = open_with("gemma3", NULL, (weft_engine_options){.context = 64});
    run answer = make_run(1, 100);
    run_all(f.engine, VOCAB, &answer, 1);
    assert_int_equal(answer.n_tokens, 64 - N_PROMPT + 1); /* the context is full */
    for (uint32_t max_new = 0; max_new < 30; max_new++) {
        run r = make_run(1, max_new);
        for (uint32_t k = SCRIPT_EVERY; k <= SCRIPT_WRONG; k++)
            assert_ends_alike(f.engine, r, (script_kind)k, &answer);
        free_run(&r);
    }
    run r = make_run(1, 100);
    assert_ends_alike(f.engine, r, SCRIPT_PERFECT, &answer);
    free_run(&r);
    free_run(&answer);
    close_all(f);
}

/* A stop id anywhere among drafts that are right goes by what was sampled: what the drafter would
 * have had behind it is never said. */
static void test_kv38_stops(void **state)
{
    (void)state;
    fixture f = open_with("qwen3_5", NULL, (weft_engine_options){0});
    run answer = make_run(2, NEW_TOKENS);
    run_all(f.engine, VOCAB, &answer, 1);
    uint32_t n_stopped = 0;
    for (uint32_t i = 0; i < 20; i++) {
        run r = make_run(2, NEW_TOKENS);
        r.stops = true;
        r.stop_ids = &answer.tokens[i];
        r.n_stop_ids = 1;
        for (uint32_t k = SCRIPT_EVERY; k <= SCRIPT_WRONG; k++)
            assert_ends_alike(f.engine, r, (script_kind)k, &answer);
        run_all(f.engine, VOCAB, &r, 1);
        n_stopped += r.finish == WEFT_FINISH_STOP && r.n_tokens <= i + 1;
        free_run(&r);
    }
    assert_int_equal(n_stopped, 20);
    free_run(&answer);
    close_all(f);
}

/* Cancelled between steps: what was sampled until then is the beginning of the answer. */
static void test_cancel_and_release(void **state)
{
    (void)state;
    fixture f = open_with("qwen3_5", NULL, (weft_engine_options){0});
    run answer = make_run(3, NEW_TOKENS);
    run_all(f.engine, VOCAB, &answer, 1);
    for (uint32_t n_steps = 0; n_steps < 6; n_steps++) {
        for (uint32_t release = 0; release < 2; release++) {
            run r = make_run(3, NEW_TOKENS);
            script s;
            draft_by(&r, &s, SCRIPT_EVERY, &answer);
            s.start = 40 + n_steps;
            run_submit(f.engine, VOCAB, &r);
            for (uint32_t i = 0; i < n_steps; i++) step(f.engine);
            if (release == 1) {
                assert_ok(weft_release(f.engine, r.handle, NULL), NULL);
            } else {
                assert_ok(weft_cancel(f.engine, r.handle, NULL), NULL);
                assert_int_equal(step(f.engine), 0);
                run_collect(f.engine, &r);
                assert_int_equal(r.finish, WEFT_FINISH_CANCELLED);
                assert_true(r.n_tokens >= n_steps && r.n_tokens < answer.n_tokens);
                assert_memory_equal(r.tokens, answer.tokens, r.n_tokens * sizeof *r.tokens);
                script_check(&s, &r);
            }
            assert_int_equal(live_bytes(f.engine), 0);
            free_run(&r);
        }
    }
    free_run(&answer);
    close_all(f);
}

/* ---- KV-39, KV-40, KV-41: what is held after each round ---------------------------------------*/

static request *first_request(const weft_engine *e)
{
    request *r = e->n_active > 0 ? e->active[0] : e->first_waiting;
    assert_non_null(r);
    return r;
}

static void assert_same_position(const kv_view *a, const kv_view *b, uint32_t position)
{
    const kv_geometry *g = a->geometry;
    for (uint32_t h = 0; h < g->n_heads; h++) {
        assert_memory_equal(kv_key(a, h, position), kv_key(b, h, position), g->k_row_bytes);
        if (!kv_has_values(g)) continue;
        assert_memory_equal(kv_value(a, h, position), kv_value(b, h, position), g->v_row_bytes);
    }
}

static void assert_same_state(const weft_engine *e, const kv_seq *a, const kv_seq *b)
{
    enum { MOST_LAYERS = 16 };
    kv_view va[MOST_LAYERS];
    kv_view vb[MOST_LAYERS];
    assert_true(e->stores->config.n_layers <= MOST_LAYERS);
    assert_int_equal(a->len, b->len);
    assert_int_equal(a->converted, b->converted);
    kv_seq_views(a, va, 1);
    kv_seq_views(b, vb, 1);
    for (uint32_t l = 0; l < e->stores->config.n_layers; l++) {
        assert_int_equal(a->firsts[l], b->firsts[l]);
        for (uint32_t i = 0; i < KV_BUFFERS && kv_is_recurrent(&e->stores->config, l); i++) {
            const kv_layer *of = &e->model->kv_layers[l];
            assert_memory_equal(kv_committed(&va[l], i), kv_committed(&vb[l], i),
                                of->buffers[i] * sizeof(float));
        }
        if (kv_is_recurrent(&e->stores->config, l)) continue;
        for (uint32_t p = a->firsts[l]; p < a->len; p++) assert_same_position(&va[l], &vb[l], p);
    }
}

/* Round by round beside an engine that takes single tokens. */
static void check_rounds(const char *golden, const char *kv)
{
    fixture f = open_with(golden, NULL, (weft_engine_options){.kv = kv, .chunk_tokens = 16});
    weft_error err = {WEFT_OK, ""};
    weft_engine_options options = {.struct_size = sizeof options,
                                   .kv = kv,
                                   .n_threads = 1,
                                   .context = CONTEXT,
                                   .max_drafts = WEFT_NO_DRAFTS};
    weft_engine *other = NULL;
    assert_ok(weft_engine_open(f.model, &options, &other, &err), &err);
    run answer = make_run(4, 200);
    run_all(other, VOCAB, &answer, 1);
    run drafted = make_run(4, 200);
    run plain = make_run(4, 200);
    script s;
    draft_by(&drafted, &s, SCRIPT_EVERY, &answer);
    run_submit(f.engine, VOCAB, &drafted);
    run_submit(other, VOCAB, &plain);
    uint32_t n_rounds = 0;
    while (step(f.engine) > 0) {
        const request *r = first_request(f.engine);
        while (first_request(other)->seq == NULL || first_request(other)->seq->len < r->seq->len) {
            if (r->seq->len < N_PROMPT) break; /* the other reads its prompt in one piece */
            step(other);
        }
        if (r->seq->len < N_PROMPT) continue;
        assert_int_equal(r->seq->len, r->n_tokens - 1);
        assert_same_state(f.engine, r->seq, first_request(other)->seq);
        n_rounds++;
    }
    assert_true(n_rounds >= SCRIPT_PATTERNS && n_rounds < 120);
    while (step(other) > 0) continue;
    run_collect(f.engine, &drafted);
    run_collect(other, &plain);
    run_assert_identical(&drafted, &plain, VOCAB);
    free_run(&answer);
    free_run(&drafted);
    free_run(&plain);
    weft_engine_close(other);
    close_all(f);
}

static void test_kv39_kv40_kv41(void **state)
{
    (void)state;
    check_rounds("llama", NULL);
    check_rounds("gemma3", "affine8g64,start=50");
    check_rounds("deepseek_v3", "affine8g32");
    check_rounds("glm_moe_dsa", "affine8g32,index=affine8g32,start=60");
    check_rounds("gemma4-ple", "turbo-k8v4,start=100");
    check_rounds("qwen3_5", NULL);
    check_rounds("qwen3_5", "affine8g64,start=64");
    check_rounds("lfm2", NULL);
    check_rounds("lfm2", "affine8g64,start=50");
}

/* ---- B26, B29: a step's outputs ---------------------------------------------------------------*/

/* Drafts take what no sequence needs: with as many outputs as sequences there are none, and with
 * two to spare never more than two. */
static void test_outputs_are_shared(void **state)
{
    (void)state;
    for (uint32_t spare = 0; spare <= 2; spare++) {
        fixture f = open_with("llama", NULL,
                              (weft_engine_options){.max_sequences = 3, .max_outputs = 3 + spare});
        run runs[3];
        run answers[3];
        script scripts[3];
        for (uint32_t i = 0; i < 3; i++) {
            answers[i] = make_run(10 + i, NEW_TOKENS);
            runs[i] = make_run(10 + i, NEW_TOKENS);
            run_all(f.engine, VOCAB, &answers[i], 1);
            draft_by(&runs[i], &scripts[i], SCRIPT_PERFECT, &answers[i]);
        }
        for (uint32_t i = 0; i < 3; i++) run_submit(f.engine, VOCAB, &runs[i]);
        uint64_t before = 0;
        uint32_t n_active = 3;
        do {
            uint32_t room = 3 + spare - n_active;
            n_active = step(f.engine);
            weft_engine_info info = {.struct_size = sizeof info};
            assert_ok(weft_engine_get_info(f.engine, &info, NULL), NULL);
            assert_true(info.n_drafted - before <= room);
            before = info.n_drafted;
        } while (n_active > 0);
        for (uint32_t i = 0; i < 3; i++) {
            run_collect(f.engine, &runs[i]);
            run_assert_identical(&runs[i], &answers[i], VOCAB);
            script_check(&scripts[i], &runs[i]);
            free_run(&runs[i]);
            free_run(&answers[i]);
        }
        assert_true((before > 0) == (spare > 0));
        close_all(f);
    }
}

/* ---- KV-43: failures --------------------------------------------------------------------------*/

/* Logits of a row of which the third has nothing to sample: two tokens, and an end. */
static void test_kv43_failing_sample(void **state)
{
    (void)state;
    fixture f = open_with("llama", NULL, (weft_engine_options){0});
    run r = make_run(5, NEW_TOKENS);
    run_submit(f.engine, VOCAB, &r);
    step(f.engine);
    int32_t drafts[] = {7, 8, 8};
    float *logits = calloc((size_t)4 * VOCAB, sizeof *logits);
    for (uint32_t i = 0; i < 3; i++) logits[i * VOCAB + (uint32_t)drafts[i]] = 1e9F;
    for (uint32_t i = 0; i < VOCAB; i++) logits[2 * VOCAB + i] = NAN;
    batch_row row = {.r = first_request(f.engine), .drafts = drafts, .n_drafts = 3};
    assert_int_equal(row.r->n_tokens, N_PROMPT + 1);
    assert_int_equal(verify_row(f.engine, &row, logits), 3);
    assert_int_equal(row.finish, WEFT_FINISH_ERROR);
    assert_int_equal(row.r->error.status, WEFT_FORMAT);
    assert_message(&row.r->error, "none of 320 logits is a number");
    assert_int_equal(row.r->n_tokens, N_PROMPT + 3);
    assert_int_equal(row.r->n_accepted, 2);
    free(logits);
    close_all(f);
    free_run(&r);
}

/* A run that fails while drafts are verified: its requests end, and the engine goes on. */
static void test_kv43_failing_run(void **state)
{
    (void)state;
    for (uint32_t call = 0; call < 2; call++) {
        fixture f = open_with("qwen3_5", NULL, (weft_engine_options){0});
        weft_engine *e = f.engine;
        run answer = make_run(6, NEW_TOKENS);
        run_all(e, VOCAB, &answer, 1);
        run r = make_run(6, NEW_TOKENS);
        script s;
        draft_by(&r, &s, SCRIPT_EVERY, &answer);
        run_submit(e, VOCAB, &r);
        for (uint32_t i = 0; i < 4; i++) step(e);
        /* Closing the engine closes both. */
        fault_backend_set(e->api, call == 0 ? FAULT_RUN : FAULT_WAIT, 1);
        backend *failing = fault_backend_wrap(e->api, e->backend, &e->env);
        assert_non_null(failing);
        e->backend = failing;
        e->api = &BACKEND_FAULT;
        weft_error err = {WEFT_OK, ""};
        uint32_t n_active;
        assert_status(WEFT_DEVICE, weft_step(e, &n_active, &err), &err);
        assert_true(fault_backend_hit());
        assert_int_equal(n_active, 0);
        assert_int_equal(live_bytes(e), 0);
        run again = make_run(6, NEW_TOKENS);
        draft_by(&again, &s, SCRIPT_EVERY, &answer);
        run_all(e, VOCAB, &again, 1);
        run_assert_identical(&again, &answer, VOCAB);
        close_all(f);
        free_run(&again);
        free_run(&r);
        free_run(&answer);
    }
}

/* ---- what is refused, what it costs -----------------------------------------------------------*/

static weft_request request_for(const run *r, const char *draft)
{
    return (weft_request){.struct_size = sizeof(weft_request),
                          .prompt = r->prompt,
                          .n_prompt = r->n_prompt,
                          .max_new = r->max_new,
                          .sampling = {.top_p = 1.0F},
                          .flags = WEFT_REQUEST_IGNORE_STOP,
                          .draft = draft};
}

static void test_refusals(void **state)
{
    (void)state;
    fixture f = open_with("llama", NULL, (weft_engine_options){.max_drafts = WEFT_NO_DRAFTS});
    weft_error err = {WEFT_OK, ""};
    weft_handle handle = 9;
    run r = make_run(7, 5);
    weft_request asked = request_for(&r, "oracle");
    assert_status(WEFT_ARGUMENT, weft_submit(f.engine, &asked, &handle, &err), &err);
    assert_message(&err, "unknown drafter 'oracle', expected one of ngram, model, mtp");
    assert_int_equal(handle, 0);
    asked.draft = "ngram";
    assert_status(WEFT_ARGUMENT, weft_submit(f.engine, &asked, &handle, &err), &err);
    assert_message(&err, "draft is 'ngram', the engine was opened for no drafts");
    /* A caller that was built before there were drafts. */
    asked.struct_size = offsetof(weft_request, draft);
    assert_ok(weft_submit(f.engine, &asked, &handle, &err), &err);
    while (step(f.engine) > 0) continue;
    struct {
        weft_event event;
        uint32_t behind;
    } old = {{.struct_size = offsetof(weft_event, n_drafted), .n_drafted = 77, .n_accepted = 78},
             79};
    do {
        assert_ok(weft_poll(f.engine, handle, &old.event, &err), &err);
    } while (old.event.kind == WEFT_EVENT_TOKEN);
    assert_int_equal(old.event.kind, WEFT_EVENT_DONE);
    assert_int_equal(old.event.n_drafted, 77);
    assert_int_equal(old.event.n_accepted, 78);
    weft_engine *other = NULL;
    weft_engine_options many = {.struct_size = sizeof many, .max_drafts = DRAFTS_MOST + 1};
    assert_status(WEFT_ARGUMENT, weft_engine_open(f.model, &many, &other, &err), &err);
    assert_message(&err, "max_drafts is 33, expected at most 32");
    many.max_drafts = DRAFTS_MOST;
    assert_ok(weft_engine_open(f.model, &many, &other, &err), &err);
    weft_engine_close(other);
    close_all(f);
    free_run(&r);
}

/* KV-59, with a drafter of the table and drafts that are right, partly and not. */
/* With a cache, all steps but those in which a request begins, ends or comes to a boundary. */
static void check_steps(uint32_t flags, uint32_t n_steps)
{
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    fixture f =
        open_with("qwen3_5", &fault.allocator,
                  (weft_engine_options){.max_sequences = 3, .max_outputs = 27, .flags = flags});
    run answer = make_run(8, 150);
    run_all(f.engine, VOCAB, &answer, 1);
    run runs[3];
    script s;
    for (uint32_t i = 0; i < 3; i++) runs[i] = make_run(8, 150);
    draft_by(&runs[0], &s, SCRIPT_EVERY, &answer);
    runs[1].draft = "ngram";
    runs[1].sampling = (weft_sampling){0};
    for (uint32_t i = 0; i < 3; i++) run_submit(f.engine, VOCAB, &runs[i]);
    step(f.engine);
    step(f.engine);
    fault.armed = true;
    uint32_t n = 0;
    while (n < n_steps && step(f.engine) > 0) n++;
    fault.armed = false;
    assert_true(n >= 12);
    while (step(f.engine) > 0) continue;
    for (uint32_t i = 0; i < 3; i++) {
        run_collect(f.engine, &runs[i]);
        free_run(&runs[i]);
    }
    free_run(&answer);
    close_all(f);
    fault_allocator_check(&fault);
}

static void test_kv59_steps_allocate_nothing(void **state)
{
    (void)state;
    check_steps(WEFT_ENGINE_NO_CACHE, UINT32_MAX);
    check_steps(0, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv38_any_length),
        cmocka_unit_test(test_kv38_stops),
        cmocka_unit_test(test_cancel_and_release),
        cmocka_unit_test(test_kv39_kv40_kv41),
        cmocka_unit_test(test_outputs_are_shared),
        cmocka_unit_test(test_kv43_failing_sample),
        cmocka_unit_test(test_kv43_failing_run),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_kv59_steps_allocate_nothing),
    };
    return TEST_RUN("engine/verify", tests);
}
