/* test_draft_life.c - requests that draft by graphs, from their first step to their end: what they
 * begin with (B21, B22, B23), how they end, what fails, what is refused, what it takes. That their
 * answers are those without drafts: test_draft_graphs.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "engine/state.h"
#include "support/draft_world.h"
#include "support/fault.h"
#include "support/fault_backend.h"
#include "support/files.h"

enum { N_PROMPT = 70, NEW_TOKENS = 40 };

static const draft_setting BY_MODEL = {.golden = "llama", .drafting = "llama", .act = WEFT_ACT_F32};
static const draft_setting BY_HYBRID = {
    .golden = "gemma3", .drafting = "qwen3_5", .act = WEFT_ACT_F32};
static const draft_setting BY_HEAD = {.golden = "qwen3_5-mtp", .act = WEFT_ACT_F32};
static const draft_setting BY_ASSISTANT = {.golden = "gemma4-assistant/target",
                                           .drafting = "gemma4-assistant/assistant-centroid",
                                           .act = WEFT_ACT_F32};
static const draft_setting *const SETTINGS[] = {&BY_MODEL, &BY_HYBRID, &BY_HEAD, &BY_ASSISTANT};

enum { N_SETTINGS = sizeof SETTINGS / sizeof SETTINGS[0] };

static run make_run(const draft_world *w, uint64_t seed)
{
    return (run){.prompt = run_random_ids(N_PROMPT, w->n_vocab, seed),
                 .n_prompt = N_PROMPT,
                 .max_new = NEW_TOKENS,
                 .sampling = {.temperature = 0.7F, .top_p = 0.95F, .top_k = 40, .seed = seed}};
}

static void free_run(run *r)
{
    free((void *)(uintptr_t)r->prompt);
    run_free(r);
}

static run plain_answer(const draft_world *w, uint64_t seed)
{
    weft_engine *e = draft_world_engine(w, false, (weft_engine_options){0});
    run r = make_run(w, seed);
    run_all(e, w->n_vocab, &r, 1);
    weft_engine_close(e);
    return r;
}

static uint32_t step(weft_engine *e)
{
    weft_error err = {WEFT_OK, ""};
    uint32_t n_active;
    assert_ok(weft_step(e, &n_active, &err), &err);
    return n_active;
}

static weft_engine_info info_of(const weft_engine *e)
{
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(e, &info, NULL), NULL);
    return info;
}

static void assert_floor(const weft_engine *e)
{
    weft_engine_info info = info_of(e);
    assert_int_equal(info.kv_bytes_live, 0);
    assert_int_equal(info.draft_bytes_live, 0);
}

/* ---- the head's drafts are the reference's --------------------------------------------------*/

static void test_head_drafts(void **state)
{
    (void)state;
    char path[600];
    size_t n_ids;
    size_t n_drafts;
    draft_world w;
    eager s = {.least = 4};
    draft_world_open(&w, BY_HEAD, NULL);
    snprintf(path, sizeof path, "%s/%s/golden.safetensors", WEFT_GOLDEN_DIR, BY_HEAD.golden);
    int32_t *ids = run_read_tensor(path, "input_ids", &n_ids);
    int32_t *expected = run_read_tensor(path, "draft_ids", &n_drafts);
    assert_true(ids != NULL && expected != NULL && n_drafts == 4);
    static const uint32_t CHUNKS[] = {0, 1, 7};
    for (size_t i = 0; i < sizeof CHUNKS / sizeof CHUNKS[0]; i++) {
        weft_engine *e =
            draft_world_engine(&w, true, (weft_engine_options){.chunk_tokens = CHUNKS[i]});
        run r = {.prompt = ids, .n_prompt = (uint32_t)n_ids, .max_new = 8};
        draft_world_eager(&w, &r, &s);
        run_submit(e, w.n_vocab, &r);
        while (e->batch.rows == NULL || e->batch.rows[0].n_drafts == 0) step(e);
        assert_true(e->batch.rows[0].n_drafts >= 4);
        assert_memory_equal(e->batch.rows[0].drafts, expected, 4 * sizeof *expected);
        while (step(e) > 0) continue;
        run_collect(e, &r);
        run_free(&r);
        weft_engine_close(e);
    }
    free(ids);
    free(expected);
    draft_world_close(&w);
}

/* ---- what they begin with -------------------------------------------------------------------*/

/* B21, B23: the same prompt again is found as far as without drafts, and drafts are at hand from
 * the first token on, as good as the first time. */
static void test_b21_b23_again(void **state)
{
    (void)state;
    static const uint32_t LENGTHS[] = {1, 2, 63, 64, 65, 100, 200};
    for (size_t k = 0; k < N_SETTINGS; k++) {
        draft_world w;
        draft_world_open(&w, *SETTINGS[k], NULL);
        for (size_t i = 0; i < sizeof LENGTHS / sizeof LENGTHS[0]; i++) {
            uint32_t n = LENGTHS[i];
            run r = {.prompt = run_random_ids(n, w.n_vocab, i), .n_prompt = n, .max_new = 20};
            run first = r;
            run plain[2] = {r, r};
            weft_engine *e = draft_world_engine(&w, true, (weft_engine_options){0});
            weft_engine *bare = draft_world_engine(&w, false, (weft_engine_options){0});
            eager s = {.least = 2};
            for (uint32_t pass = 0; pass < 2; pass++) run_all(bare, w.n_vocab, &plain[pass], 1);
            draft_world_eager(&w, &first, &s);
            run_all(e, w.n_vocab, &first, 1);
            draft_world_eager(&w, &r, &s);
            run_all(e, w.n_vocab, &r, 1);
            run_assert_identical(&first, &plain[0], w.n_vocab);
            run_assert_identical(&r, &plain[0], w.n_vocab);
            assert_int_equal(r.n_cached, plain[1].n_cached);
            assert_int_equal(r.n_cached, n - 1);
            if (SETTINGS[k] == &BY_MODEL) assert_int_equal(r.n_accepted, r.n_drafted);
            assert_int_equal(r.n_drafted, first.n_drafted);
            weft_engine_close(bare);
            weft_engine_close(e);
            run_free(&first);
            run_free(&plain[0]);
            run_free(&plain[1]);
            free_run(&r);
        }
        draft_world_close(&w);
    }
}

/* B22: turns that grow by what was said find as much with drafts as without. */
static void test_b22_turns(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_SETTINGS; k++) {
        draft_world w;
        uint32_t cached[2] = {0, 0};
        draft_world_open(&w, *SETTINGS[k], NULL);
        for (uint32_t drafts = 0; drafts < 2; drafts++) {
            weft_engine *e = draft_world_engine(&w, drafts == 1, (weft_engine_options){0});
            int32_t *ids = run_random_ids(256, w.n_vocab, 5);
            for (uint32_t turn = 1; turn <= 6; turn++) {
                eager s = {.least = 3};
                run r = {.prompt = ids, .n_prompt = turn * 30, .max_new = 12};
                if (drafts == 1) draft_world_eager(&w, &r, &s);
                run_all(e, w.n_vocab, &r, 1);
                memcpy(ids + r.n_prompt, r.tokens, r.n_tokens * sizeof *ids);
                cached[drafts] += r.n_cached;
                run_free(&r);
            }
            weft_engine_close(e);
            free(ids);
        }
        print_message("%s: %u and %u cached\n", w.s.golden, cached[0], cached[1]);
        assert_int_equal(cached[0], cached[1]);
        assert_true(cached[0] > 0);
        draft_world_close(&w);
    }
}

/* State that was saved carries the head's; an engine without the head does not take it. */
static void test_files(void **state)
{
    (void)state;
    draft_world w;
    test_folder folder;
    char path[700];
    weft_error err = {WEFT_OK, ""};
    draft_world_open(&w, BY_HEAD, NULL);
    test_folder_create(&folder);
    snprintf(path, sizeof path, "%s/state", folder.path);
    run plain = plain_answer(&w, 9);
    weft_engine *e = draft_world_engine(&w, true, (weft_engine_options){0});
    run first = make_run(&w, 9);
    eager s = {.least = 3};
    uint32_t n_saved;
    draft_world_eager(&w, &first, &s);
    run_all(e, w.n_vocab, &first, 1);
    assert_ok(weft_state_save(e, first.prompt, N_PROMPT, path, &n_saved, &err), &err);
    assert_true(n_saved >= N_PROMPT - 1);
    weft_engine_close(e);
    for (uint32_t with = 0; with < 2; with++) {
        weft_restored restored = {.struct_size = sizeof restored};
        e = draft_world_engine(&w, with == 1, (weft_engine_options){0});
        assert_ok(weft_state_restore(e, path, &restored, &err), &err);
        assert_int_equal(restored.n_usable > 0, with == 1);
        assert_false(restored.set_aside);
        run r = make_run(&w, 9);
        if (with == 1) draft_world_eager(&w, &r, &s);
        run_all(e, w.n_vocab, &r, 1);
        run_assert_identical(&r, &plain, w.n_vocab);
        assert_int_equal(r.n_cached, with == 1 ? N_PROMPT - 1 : 0);
        if (with == 1) assert_int_equal(r.n_drafted, first.n_drafted);
        if (with == 1) assert_int_equal(r.n_accepted, first.n_accepted);
        free_run(&r);
        weft_engine_close(e);
    }
    test_folder_remove(&folder);
    free_run(&first);
    free_run(&plain);
    draft_world_close(&w);
}

/* ---- budgets --------------------------------------------------------------------------------*/

/* Without room in the draft model's budget a request is answered without drafts, until another one
 * ends. */
static void test_budgets(void **state)
{
    (void)state;
    draft_world w;
    uint64_t bytes;
    weft_engine_options o = {.struct_size = sizeof o, .act = WEFT_ACT_F32, .context = 256};
    draft_world_open(&w, BY_MODEL, NULL);
    run plain = plain_answer(&w, 3);
    assert_ok(weft_model_state_bytes(w.drafting, &o, N_PROMPT + NEW_TOKENS - 1, &bytes, NULL),
              NULL);
    for (uint32_t room = 0; room < 3; room++) {
        run runs[3];
        eager s[3] = {{.least = 3}, {.least = 3}, {.least = 3}};
        uint32_t n_drafted = 0;
        weft_engine *e = draft_world_engine(
            &w, true, (weft_engine_options){.draft_memory_bytes = 1 + room * bytes});
        for (uint32_t i = 0; i < 3; i++) {
            runs[i] = make_run(&w, 3);
            draft_world_eager(&w, &runs[i], &s[i]);
        }
        runs[0].max_new = 10;
        run_all(e, w.n_vocab, runs, 3);
        for (uint32_t i = 0; i < 3; i++) {
            assert_memory_equal(runs[i].tokens, plain.tokens, runs[i].n_tokens * sizeof(int32_t));
            n_drafted += runs[i].n_drafted;
            assert_int_equal(runs[i].n_accepted, runs[i].n_drafted);
        }
        assert_int_equal(n_drafted > 0, room > 0);
        if (room > 0) assert_true(runs[1].n_drafted > 0); /* once the first had ended */
        assert_true(info_of(e).draft_bytes_budget == 1 + room * bytes);
        assert_floor(e);
        weft_engine_close(e);
        for (uint32_t i = 0; i < 3; i++) free_run(&runs[i]);
    }
    free_run(&plain);
    draft_world_close(&w);
}

/* A draft model whose context is shorter drafts as far as it goes. */
static void test_short_context(void **state)
{
    (void)state;
    draft_world w;
    weft_error err = {WEFT_OK, ""};
    draft_world_open(&w, BY_MODEL, NULL);
    w.drafting->model->params.context = N_PROMPT + 15;
    run plain = plain_answer(&w, 4);
    run r = make_run(&w, 4);
    eager s = {.least = 2};
    weft_engine *e = draft_world_engine(&w, true, (weft_engine_options){0});
    draft_world_eager(&w, &r, &s);
    run_all(e, w.n_vocab, &r, 1);
    run_assert_identical(&r, &plain, w.n_vocab);
    assert_true(r.n_drafted > 5 && r.n_drafted <= 15);
    free_run(&r);
    r = (run){.prompt = run_random_ids(N_PROMPT + 15, w.n_vocab, 4),
              .n_prompt = N_PROMPT + 15,
              .max_new = 5};
    draft_world_eager(&w, &r, &s);
    run_all(e, w.n_vocab, &r, 1);
    assert_int_equal(r.n_drafted, 0);
    assert_ok(weft_engine_drop_cache(e, &err), &err);
    assert_floor(e);
    weft_engine_close(e);
    free_run(&r);
    free_run(&plain);
    draft_world_close(&w);
}

/* ---- ends and failures ----------------------------------------------------------------------*/

static void test_cancel_and_release(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_SETTINGS; k++) {
        draft_world w;
        draft_world_open(&w, *SETTINGS[k], NULL);
        run plain = plain_answer(&w, 6);
        weft_engine *e = draft_world_engine(
            &w, true, (weft_engine_options){.chunk_tokens = 32, .flags = WEFT_ENGINE_NO_CACHE});
        for (uint32_t n_steps = 0; n_steps < 8; n_steps++) {
            run r = make_run(&w, 6);
            eager s = {.least = 3};
            draft_world_eager(&w, &r, &s);
            run_submit(e, w.n_vocab, &r);
            for (uint32_t i = 0; i < n_steps; i++) step(e);
            if (n_steps % 2 == 0) {
                assert_ok(weft_release(e, r.handle, NULL), NULL);
            } else {
                assert_ok(weft_cancel(e, r.handle, NULL), NULL);
                assert_int_equal(step(e), 0);
                run_collect(e, &r);
                assert_int_equal(r.finish, WEFT_FINISH_CANCELLED);
                assert_memory_equal(r.tokens, plain.tokens, r.n_tokens * sizeof *r.tokens);
            }
            assert_floor(e);
            free_run(&r);
        }
        weft_engine_close(e);
        free_run(&plain);
        draft_world_close(&w);
    }
}

/* A request that makes room for another one goes on as if nothing had been, and so do its drafts.
 */
static void test_pauses(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_SETTINGS; k++) {
        draft_world w;
        draft_world_open(&w, *SETTINGS[k], NULL);
        run plain[2] = {plain_answer(&w, 11), plain_answer(&w, 12)};
        weft_engine *e = draft_world_engine(&w, true, (weft_engine_options){.max_sequences = 1});
        for (uint32_t n_steps = 1; n_steps < 8; n_steps += 3) {
            run runs[2] = {make_run(&w, 11), make_run(&w, 12)};
            eager s[2] = {{.least = 2}, {.least = 2}};
            for (uint32_t i = 0; i < 2; i++) {
                draft_world_eager(&w, &runs[i], &s[i]);
                runs[i].priority = (int32_t)i;
                run_submit(e, w.n_vocab, &runs[i]);
                for (uint32_t j = 0; j < n_steps; j++) step(e);
            }
            while (step(e) > 0) continue;
            for (uint32_t i = 0; i < 2; i++) {
                run_collect(e, &runs[i]);
                run_assert_identical(&runs[i], &plain[i], w.n_vocab);
                if (SETTINGS[k] == &BY_MODEL)
                    assert_int_equal(runs[i].n_accepted, runs[i].n_drafted);
                assert_true(runs[i].n_drafted > 0);
                free_run(&runs[i]);
            }
            assert_floor(e);
        }
        assert_true(info_of(e).n_paused >= 3);
        weft_engine_close(e);
        free_run(&plain[0]);
        free_run(&plain[1]);
        draft_world_close(&w);
    }
}

/* One that found no room for its drafts before it was paused looks again when it goes on: what was
 * in the way has ended meanwhile. */
static void test_room_after_a_pause(void **state)
{
    (void)state;
    draft_world w;
    uint64_t bytes;
    weft_engine_options o = {.struct_size = sizeof o, .act = WEFT_ACT_F32, .context = 256};
    draft_world_open(&w, BY_MODEL, NULL);
    assert_ok(weft_model_state_bytes(w.drafting, &o, N_PROMPT + NEW_TOKENS - 1, &bytes, NULL),
              NULL);
    weft_engine *e = draft_world_engine(
        &w, true, (weft_engine_options){.draft_memory_bytes = bytes, .max_sequences = 2});
    run runs[3] = {make_run(&w, 11), make_run(&w, 12), make_run(&w, 13)};
    run plain = plain_answer(&w, 12);
    eager s[3] = {{.least = 2}, {.least = 2}, {.least = 0}};
    runs[0].priority = runs[2].priority = 1;
    runs[0].max_new = 8;
    for (uint32_t i = 0; i < 2; i++) {
        draft_world_eager(&w, &runs[i], &s[i]);
        run_submit(e, w.n_vocab, &runs[i]);
    }
    for (int i = 0; i < 2; i++) step(e);
    assert_true(e->n_active == 2 && e->active[1]->draft.refused);
    run_submit(e, w.n_vocab, &runs[2]);
    while (step(e) > 0) continue;
    for (uint32_t i = 0; i < 3; i++) run_collect(e, &runs[i]);
    run_assert_identical(&runs[1], &plain, w.n_vocab);
    assert_int_equal(runs[1].n_paused, 1);
    assert_true(runs[1].n_drafted > 0);
    assert_floor(e);
    for (uint32_t i = 0; i < 3; i++) free_run(&runs[i]);
    free_run(&plain);
    weft_engine_close(e);
    draft_world_close(&w);
}

/* KV-43: whichever run of a step fails, of the model or of what drafts, its requests end, nothing
 * is held, and the engine goes on. */
static void test_kv43_failing_run(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_SETTINGS; k++) {
        draft_world w;
        draft_world_open(&w, *SETTINGS[k], NULL);
        run plain = plain_answer(&w, 7);
        uint32_t n_hit = 0;
        for (uint32_t fail_at = 1; fail_at < 40; fail_at++) {
            weft_engine *e = draft_world_engine(
                &w, true, (weft_engine_options){.chunk_tokens = 50, .flags = WEFT_ENGINE_NO_CACHE});
            run r = make_run(&w, 7);
            eager s = {.least = 3};
            draft_world_eager(&w, &r, &s);
            run_submit(e, w.n_vocab, &r);
            fault_backend_set(e->api, fail_at % 2 == 0 ? FAULT_RUN : FAULT_WAIT, (fail_at + 1) / 2);
            backend *failing = fault_backend_wrap(e->api, e->backend, &e->env);
            assert_non_null(failing);
            e->backend = failing;
            e->api = &BACKEND_FAULT;
            weft_error err = {WEFT_OK, ""};
            uint32_t n_active = 1;
            weft_status status = WEFT_OK;
            while (n_active > 0 && status == WEFT_OK) status = weft_step(e, &n_active, &err);
            assert_int_equal(status, fault_backend_hit() ? WEFT_DEVICE : WEFT_OK);
            n_hit += fault_backend_hit();
            assert_int_equal(n_active, 0);
            assert_floor(e);
            run again = make_run(&w, 7);
            draft_world_eager(&w, &again, &s);
            run_all(e, w.n_vocab, &again, 1);
            run_assert_identical(&again, &plain, w.n_vocab);
            weft_engine_close(e);
            free_run(&again);
            free_run(&r);
        }
        assert_true(n_hit >= 20);
        free_run(&plain);
        draft_world_close(&w);
    }
}

/* What drafts lack costs drafts: a run of theirs that fails, but not for the device, ends nobody,
 * nor does it change an answer, and nobody begins with what it left half done. */
static void check_failing_drafts(const draft_world *w, const run *plain, uint32_t fail_at,
                                 uint32_t *n_ended, uint32_t *n_survived)
{
    weft_engine *e = draft_world_engine(w, true, (weft_engine_options){.chunk_tokens = 50});
    run runs[2] = {make_run(w, 7), make_run(w, 8)};
    eager s = {.least = 3};
    draft_world_eager(w, &runs[0], &s);
    for (uint32_t i = 0; i < 2; i++) run_submit(e, w->n_vocab, &runs[i]);
    fault_backend_set(e->api, FAULT_RUN, fail_at);
    fault_backend_fail_with(WEFT_IO);
    backend *failing = fault_backend_wrap(e->api, e->backend, &e->env);
    assert_non_null(failing);
    e->backend = failing;
    e->api = &BACKEND_FAULT;
    weft_error err = {WEFT_OK, ""};
    uint32_t n_active = 1;
    weft_status status = WEFT_OK;
    while (n_active > 0 && status == WEFT_OK) status = weft_step(e, &n_active, &err);
    bool ended = fault_backend_plan() == e->plan;
    assert_int_equal(status, ended ? WEFT_IO : WEFT_OK);
    *n_ended += ended;
    *n_survived += fault_backend_hit() && !ended;
    for (uint32_t i = 0; i < 2 && !ended; i++) {
        run_collect(e, &runs[i]);
        run_assert_identical(&runs[i], &plain[i], w->n_vocab);
    }
    assert_floor(e);
    for (uint32_t i = 0; i < 2; i++) {
        run again = make_run(w, 7 + i);
        draft_world_eager(w, &again, &s);
        run_all(e, w->n_vocab, &again, 1);
        run_assert_identical(&again, &plain[i], w->n_vocab);
        assert_true(again.n_drafted > 0);
        if (w->s.golden == BY_MODEL.golden) assert_int_equal(again.n_accepted, again.n_drafted);
        /* The head's first run, behind the model's. */
        bool lost = w->drafting == NULL && fail_at == 2 && i == 0;
        if (lost) assert_int_equal(again.n_cached, 0);
        free_run(&again);
        free_run(&runs[i]);
    }
    weft_engine_close(e);
}

static void test_failing_drafts(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_SETTINGS; k++) {
        draft_world w;
        draft_world_open(&w, *SETTINGS[k], NULL);
        run plain[2] = {plain_answer(&w, 7), plain_answer(&w, 8)};
        uint32_t n_ended = 0;
        uint32_t n_survived = 0;
        for (uint32_t fail_at = 1; fail_at < 40; fail_at++)
            check_failing_drafts(&w, plain, fail_at, &n_ended, &n_survived);
        print_message("%s: %u runs of drafts failed, %u others\n", w.s.golden, n_survived, n_ended);
        assert_true(n_ended >= 3 && n_survived >= 10);
        for (uint32_t i = 0; i < 2; i++) free_run(&plain[i]);
        draft_world_close(&w);
    }
}

/* ---- memory ---------------------------------------------------------------------------------*/

/* Everything from opening to the last step. What a draft model has no memory for is not drafted,
 * and is no failure. */
static weft_status whole_life(const env *world, void *user, weft_error *err)
{
    const draft_setting *s = user;
    char path[600];
    weft_model_options with = {.struct_size = sizeof with, .allocator = world->allocator};
    weft_model *model = NULL;
    weft_model *drafting = NULL;
    weft_engine *e = NULL;
    weft_engine_options o = {.struct_size = sizeof o, .n_threads = 1, .context = 64};
    snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, s->golden);
    weft_status status = weft_model_open(path, &with, &model, err);
    if (status == WEFT_OK && s->drafting != NULL) {
        snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, s->drafting);
        status = weft_model_open(path, &with, &drafting, err);
    }
    o.draft_model = drafting;
    if (s->drafting == NULL) o.flags = WEFT_ENGINE_MTP;
    o.max_sequences = 2;
    if (status == WEFT_OK) status = weft_engine_open(model, &o, &e, err);
    static const int32_t IDS[] = {5, 6, 7, 8};
    weft_request r = {.struct_size = sizeof r,
                      .flags = WEFT_REQUEST_IGNORE_STOP,
                      .prompt = IDS,
                      .n_prompt = 4,
                      .max_new = 12,
                      .sampling = {.top_p = 1.0F},
                      .draft = s->drafting != NULL ? "model" : "mtp"};
    weft_handle handle;
    if (status == WEFT_OK) status = weft_submit(e, &r, &handle, err);
    uint32_t n_active = 1;
    while (status == WEFT_OK && n_active > 0) status = weft_step(e, &n_active, err);
    weft_event event = {.struct_size = sizeof event};
    while (status == WEFT_OK && event.kind != WEFT_EVENT_DONE)
        status = weft_poll(e, handle, &event, err);
    if (event.finish == WEFT_FINISH_ERROR) {
        status = event.error.status;
        if (err != NULL) *err = event.error;
    }
    weft_engine_close(e);
    weft_model_close(drafting);
    weft_model_close(model);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_SETTINGS; k++) {
        draft_setting s = *SETTINGS[k];
        size_t n_hit = 0;
        for (size_t n_survived = 0; n_survived < 60; n_hit++) {
            fault_allocator fault;
            env world = {.io = io_system()};
            weft_error err = {WEFT_OK, ""};
            fault_allocator_init(&fault, n_hit + 1);
            world.allocator = &fault.allocator;
            weft_status status = whole_life(&world, &s, &err);
            assert_true(status == WEFT_OK || status == WEFT_NOMEM);
            assert_true(status == err.status);
            if (!fault.hit) {
                assert_int_equal(status, WEFT_OK);
                fault_allocator_check(&fault);
                break;
            }
            n_survived += status == WEFT_OK;
            fault_allocator_check(&fault);
        }
        print_message("%s: %zu allocations\n", s.golden, n_hit);
        assert_true(n_hit > 60);
    }
}

/* KV-59. */
static void test_kv59_steps_allocate_nothing(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_SETTINGS; k++) {
        fault_allocator fault;
        draft_world w;
        fault_allocator_init(&fault, 0);
        draft_world_open(&w, *SETTINGS[k], &fault.allocator);
        weft_engine *e = draft_world_engine(&w, true, (weft_engine_options){.max_sequences = 3});
        run runs[3];
        eager s[3] = {{.least = 1}, {.least = 3}, {.least = 0}};
        for (uint32_t i = 0; i < 3; i++) {
            runs[i] = make_run(&w, 8);
            runs[i].max_new = 80;
            if (i < 2) draft_world_eager(&w, &runs[i], &s[i]);
            run_submit(e, w.n_vocab, &runs[i]);
        }
        step(e);
        step(e);
        fault.armed = true;
        for (uint32_t n = 0; n < 8; n++) step(e);
        fault.armed = false;
        assert_true(s[0].n_learned >= 7 && s[1].n_learned >= 7);
        while (step(e) > 0) continue;
        for (uint32_t i = 0; i < 3; i++) {
            run_collect(e, &runs[i]);
            free_run(&runs[i]);
        }
        weft_engine_close(e);
        draft_world_close(&w);
        fault_allocator_check(&fault);
    }
}

/* ---- what is refused ------------------------------------------------------------------------*/

static void assert_refused(const weft_model *model, weft_engine_options o, weft_status status,
                           const char *message)
{
    weft_error err = {WEFT_OK, ""};
    weft_engine *e;
    o.struct_size = sizeof o;
    o.n_threads = 1;
    assert_status(status, weft_engine_open(model, &o, &e, &err), &err);
    assert_null(e);
    assert_message(&err, message);
}

static void test_refusals(void **state)
{
    (void)state;
    draft_world w;
    draft_world other;
    weft_error err = {WEFT_OK, ""};
    weft_handle handle;
    draft_world_open(&w, BY_MODEL, NULL);
    draft_world_open(&other, (draft_setting){.golden = "qwen3_5-mtp", .drafting = "bert"}, NULL);
    assert_refused(w.model, (weft_engine_options){.flags = WEFT_ENGINE_MTP}, WEFT_UNSUPPORTED,
                   "the model has no head that drafts (mtp)");
    assert_refused(w.model, (weft_engine_options){.draft_model = other.model}, WEFT_ARGUMENT,
                   "draft_model: it has a vocabulary of 128, the model one of 320");
    assert_refused(w.model, (weft_engine_options){.draft_model = other.drafting}, WEFT_UNSUPPORTED,
                   "draft_model: it is an encoder, which says no tokens");
    assert_refused(w.model,
                   (weft_engine_options){.draft_model = w.drafting, .max_drafts = WEFT_NO_DRAFTS},
                   WEFT_ARGUMENT, "the engine shall draft, and max_drafts is none");
    assert_refused(w.model, (weft_engine_options){.draft_kv = "bf16"}, WEFT_ARGUMENT,
                   "draft_kv is given, but no draft_model");
    assert_refused(w.model, (weft_engine_options){.draft_memory_bytes = 1}, WEFT_ARGUMENT,
                   "draft_memory_bytes is given, but no draft_model");
    assert_refused(w.model, (weft_engine_options){.draft_model = w.drafting, .draft_kv = "affine9"},
                   WEFT_ARGUMENT, "draft_model: unknown");
    draft_world experts;
    draft_world_open(&experts, (draft_setting){.golden = "qwen3_5_moe", .drafting = "qwen3_5_moe"},
                     NULL);
    assert_refused(experts.model,
                   (weft_engine_options){.draft_model = experts.drafting, .expert_bytes = 1 << 30},
                   WEFT_UNSUPPORTED,
                   "draft_model: experts that draft are not streamed (expert_bytes)");
    draft_world_close(&experts);
    weft_engine *e = draft_world_engine(&w, false, (weft_engine_options){0});
    run r = make_run(&w, 1);
    weft_request asked = {.struct_size = sizeof asked,
                          .prompt = r.prompt,
                          .n_prompt = r.n_prompt,
                          .max_new = 5,
                          .sampling = {.top_p = 1.0F},
                          .draft = "model"};
    assert_status(WEFT_ARGUMENT, weft_submit(e, &asked, &handle, &err), &err);
    assert_message(&err, "draft is 'model', the engine has no draft_model");
    asked.draft = "mtp";
    assert_status(WEFT_ARGUMENT, weft_submit(e, &asked, &handle, &err), &err);
    assert_message(&err, "draft is 'mtp', the engine was opened without WEFT_ENGINE_MTP");
    weft_engine_close(e);
    free_run(&r);
    draft_world_close(&other);
    draft_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_drafts),
        cmocka_unit_test(test_b21_b23_again),
        cmocka_unit_test(test_b22_turns),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_short_context),
        cmocka_unit_test(test_cancel_and_release),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_room_after_a_pause),
        cmocka_unit_test(test_kv43_failing_run),
        cmocka_unit_test(test_failing_drafts),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_kv59_steps_allocate_nothing),
        cmocka_unit_test(test_refusals),
    };
    return TEST_RUN("engine/draft_life", tests);
}
