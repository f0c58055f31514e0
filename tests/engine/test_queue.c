/* test_queue.c - who comes first, who makes room and who waits changes no answer: priorities and
 * deadlines, pauses under memory that does not suffice, prompts that are read once for several. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "support/fault.h"
#include "support/runs.h"

enum { CONTEXT = 512 };

static const struct {
    const char *path, *kv;
} MODELS[] = {{GOLDEN_PATH("llama"), NULL},
              {GOLDEN_PATH("gemma3-long"), "affine8g32"},
              {GOLDEN_PATH("qwen3_5"), "f32"},
              {GOLDEN_PATH("gemma4-ple"), "bf16"},
              {GOLDEN_PATH("deepseek_v3"), NULL}};

static weft_engine *open_engine(const weft_model *model, weft_engine_options options)
{
    options.struct_size = sizeof options;
    options.n_threads = 1;
    options.context = CONTEXT;
    return run_open_engine(model, &options);
}

static uint32_t step(weft_engine *e)
{
    weft_error err = {WEFT_OK, ""};
    uint32_t n_active;
    assert_ok(weft_step(e, &n_active, &err), &err);
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(e, &info, &err), &err);
    assert_int_equal(info.n_active + info.n_waiting, n_active);
    assert_true(info.kv_bytes_live <= info.kv_bytes_budget);
    return n_active;
}

static weft_engine_info info_of(const weft_engine *e)
{
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(e, &info, NULL), NULL);
    return info;
}

static uint64_t bytes_for(const weft_model *model, const char *kv, uint32_t n_positions)
{
    weft_engine_options options = {
        .struct_size = sizeof options, .context = CONTEXT, .n_threads = 1, .kv = kv};
    uint64_t bytes;
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_model_state_bytes(model, &options, n_positions, &bytes, &err), &err);
    return bytes;
}

/* The same request in an engine of its own. */
static run alone(const weft_model *model, const char *kv, const run *of)
{
    weft_engine *e = open_engine(model, (weft_engine_options){.kv = kv});
    run r = {.prompt = of->prompt,
             .n_prompt = of->n_prompt,
             .max_new = of->max_new,
             .sampling = of->sampling,
             .flags = WEFT_REQUEST_NO_CACHE};
    run_all(e, run_n_vocab(model), &r, 1);
    weft_engine_close(e);
    return r;
}

static void check_alone(const weft_model *model, const char *kv, const run *r)
{
    run expected = alone(model, kv, r);
    run_assert_identical(r, &expected, run_n_vocab(model));
    run_free(&expected);
}

/* ---- priorities ------------------------------------------------------------------------------ */

static void test_higher_comes_first(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof MODELS / sizeof MODELS[0]; m++) {
        weft_model *model = run_open_model(MODELS[m].path);
        weft_engine *e =
            open_engine(model, (weft_engine_options){.max_sequences = 1, .kv = MODELS[m].kv});
        uint32_t n_vocab = run_n_vocab(model);
        int32_t *ids = run_random_ids(90, n_vocab, 3);
        run low = {.prompt = ids, .n_prompt = 70, .max_new = 60, .priority = -1};
        run middle = {.prompt = ids + 5, .n_prompt = 20, .max_new = 12};
        run high = {.prompt = ids + 9, .n_prompt = 30, .max_new = 10, .priority = 7};
        high.sampling = (weft_sampling){.temperature = 1.0F, .seed = 4};
        run_submit(e, n_vocab, &low);
        for (int i = 0; i < 9; i++) step(e);
        run_submit(e, n_vocab, &middle);
        run_submit(e, n_vocab, &high);
        step(e);
        weft_engine_info info = info_of(e);
        assert_true(info.n_active == 1 && info.n_waiting == 2 && info.n_paused == 1);
        while (step(e) == 3) continue;
        run_collect(e, &high); /* the first to end */
        while (step(e) == 2) continue;
        run_collect(e, &middle);
        while (step(e) > 0) continue;
        run_collect(e, &low);
        assert_true(low.n_paused == 1 && middle.n_paused == 0 && high.n_paused == 0);
        check_alone(model, MODELS[m].kv, &low);
        check_alone(model, MODELS[m].kv, &middle);
        check_alone(model, MODELS[m].kv, &high);
        run_free(&low);
        run_free(&middle);
        run_free(&high);
        weft_engine_close(e);
        weft_model_close(model);
        free(ids);
    }
}

/* One of higher priority comes at every step: the low one is done all the same. */
static void test_nobody_starves(void **state)
{
    (void)state;
    weft_model *model = run_open_model(MODELS[0].path);
    weft_engine *e = open_engine(model, (weft_engine_options){.max_sequences = 2});
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(40, n_vocab, 3);
    run low = {.prompt = ids, .n_prompt = 40, .max_new = 20};
    run_submit(e, n_vocab, &low);
    uint32_t n = 0;
    for (bool done = false; !done; n++) {
        weft_request other = {.struct_size = sizeof other,
                              .prompt = ids + n % 20,
                              .n_prompt = 4,
                              .max_new = 3,
                              .priority = 1,
                              .sampling = {.top_p = 1.0F}};
        weft_handle handle;
        for (int i = 0; i < 2; i++) assert_ok(weft_submit(e, &other, &handle, NULL), NULL);
        step(e);
        weft_event event = {.struct_size = sizeof event};
        assert_ok(weft_poll(e, low.handle, &event, NULL), NULL);
        if (event.kind == WEFT_EVENT_TOKEN) low.tokens[low.n_tokens++] = event.token;
        done = event.kind == WEFT_EVENT_DONE;
        assert_true(n < 3 * WEFT_PRIORITY_STEPS);
    }
    assert_true(n > WEFT_PRIORITY_STEPS);
    run expected = alone(model, NULL, &low);
    assert_int_equal(low.n_tokens, expected.n_tokens);
    assert_memory_equal(low.tokens, expected.tokens, low.n_tokens * sizeof(int32_t));
    run_free(&low);
    run_free(&expected);
    weft_engine_close(e);
    weft_model_close(model);
    free(ids);
}

static void test_deadline(void **state)
{
    (void)state;
    weft_model *model = run_open_model(MODELS[0].path);
    weft_engine *e = open_engine(model, (weft_engine_options){.max_sequences = 1});
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(40, n_vocab, 3);
    run late = {.prompt = ids, .n_prompt = 8, .max_new = CONTEXT - 8, .deadline_ms = 5};
    run waits = {.prompt = ids, .n_prompt = 9, .max_new = 9, .deadline_ms = 1};
    run stays = {.prompt = ids, .n_prompt = 10, .max_new = 9, .deadline_ms = 1u << 31};
    run_submit(e, n_vocab, &late);
    run_submit(e, n_vocab, &waits);
    run_submit(e, n_vocab, &stays);
    while (step(e) > 0) continue;
    run_collect(e, &late);
    run_collect(e, &waits);
    run_collect(e, &stays);
    assert_int_equal(late.finish, WEFT_FINISH_DEADLINE);
    assert_int_equal(waits.finish, WEFT_FINISH_DEADLINE);
    assert_int_equal(waits.n_tokens, 0);
    assert_int_equal(stays.finish, WEFT_FINISH_LENGTH);
    run expected = alone(model, NULL, &late);
    assert_true(late.n_tokens < expected.n_tokens);
    assert_memory_equal(late.tokens, expected.tokens, late.n_tokens * sizeof(int32_t));
    check_alone(model, NULL, &stays);
    run_free(&late);
    run_free(&waits);
    run_free(&stays);
    run_free(&expected);
    weft_engine_close(e);
    weft_model_close(model);
    free(ids);
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { CROWD = 6 };

/* Six of up to 446 positions, in memory for two of 320: they run together as long as that goes. */
static void check_crowd(const weft_model *model, const char *kv, uint32_t flags)
{
    uint64_t budget = 2 * bytes_for(model, kv, 320);
    weft_engine *e = open_engine(model, (weft_engine_options){.kv = kv, .memory_bytes = budget});
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(200, n_vocab, 8);
    run runs[CROWD];
    uint32_t most_active = 0;
    for (uint32_t i = 0; i < CROWD; i++) {
        runs[i] = (run){.prompt = ids + 7 * (size_t)i,
                        .n_prompt = 20 + 23 * i,
                        .max_new = CONTEXT - 200,
                        .draft = i % 2 == 0 ? "ngram" : NULL,
                        .sampling = {.temperature = i % 3 == 0 ? 0.0F : 1.0F, .seed = i},
                        .flags = flags};
        run_submit(e, n_vocab, &runs[i]);
    }
    while (step(e) > 0) {
        uint32_t n = info_of(e).n_active;
        most_active = n > most_active ? n : most_active;
    }
    weft_engine_info info = info_of(e);
    print_message("%s, flags %u: %u at once, %llu pauses in %llu steps\n", kv == NULL ? "" : kv,
                  flags, most_active, (unsigned long long)info.n_paused,
                  (unsigned long long)info.n_steps);
    assert_true(most_active > 1 && info.n_paused > 0);
    for (uint32_t i = 0; i < CROWD; i++) {
        run_collect(e, &runs[i]);
        assert_int_equal(runs[i].finish, WEFT_FINISH_LENGTH);
        check_alone(model, kv, &runs[i]);
        run_free(&runs[i]);
    }
    /* The first is never paused. */
    assert_int_equal(runs[0].n_paused, 0);
    weft_engine_close(e);
    free(ids);
}

static void test_memory_is_shared(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof MODELS / sizeof MODELS[0]; m++) {
        weft_model *model = run_open_model(MODELS[m].path);
        check_crowd(model, MODELS[m].kv, 0);
        if (m == 0) check_crowd(model, MODELS[m].kv, WEFT_REQUEST_NO_CACHE);
        weft_model_close(model);
    }
}

/* Who hands out what is in its prompt is not paused: it keeps what it was promised. */
static void test_outputs_of_prompts_stay(void **state)
{
    (void)state;
    weft_model *model = run_open_model(MODELS[0].path);
    uint64_t budget = bytes_for(model, NULL, CONTEXT);
    weft_engine *e = open_engine(model, (weft_engine_options){.memory_bytes = budget});
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(100, n_vocab, 8);
    run first = {.prompt = ids, .n_prompt = 100, .max_new = 100, .want_prompt_logits = true};
    run second = {.prompt = ids, .n_prompt = 50, .max_new = 300, .priority = 3};
    run_submit(e, n_vocab, &first);
    step(e);
    run_submit(e, n_vocab, &second);
    while (step(e) > 0) continue;
    run_collect(e, &first);
    run_collect(e, &second);
    assert_int_equal(first.n_paused, 0);
    check_alone(model, NULL, &second);
    run_free(&first);
    run_free(&second);
    weft_engine_close(e);
    weft_model_close(model);
    free(ids);
}

/* Nobody is paused for one that cannot begin all the same: the larger one waits until the first,
 * which keeps its promise, has ended, and the small one goes on meanwhile. */
static void test_no_pause_for_nothing(void **state)
{
    (void)state;
    weft_model *model = run_open_model(MODELS[0].path);
    uint64_t budget = bytes_for(model, NULL, CONTEXT) + bytes_for(model, NULL, 100);
    weft_engine *e =
        open_engine(model, (weft_engine_options){.max_sequences = 2, .memory_bytes = budget});
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(400, n_vocab, 3);
    run first = {
        .prompt = ids, .n_prompt = 100, .max_new = 300, .want_prompt_logits = true, .priority = 1};
    run small = {.prompt = ids + 5, .n_prompt = 20, .max_new = 40};
    run large = {.prompt = ids + 9, .n_prompt = 300, .max_new = 100, .priority = 1};
    run_submit(e, n_vocab, &first);
    run_submit(e, n_vocab, &small);
    for (int i = 0; i < 2; i++) step(e);
    run_submit(e, n_vocab, &large);
    for (int i = 0; i < 60; i++) step(e);
    run_collect(e, &small);
    assert_int_equal(small.n_paused, 0);
    while (step(e) > 0) continue;
    run_collect(e, &first);
    run_collect(e, &large);
    check_alone(model, NULL, &small);
    check_alone(model, NULL, &large);
    run_free(&first);
    run_free(&small);
    run_free(&large);
    weft_engine_close(e);
    weft_model_close(model);
    free(ids);
}

/* Pages that several share count once: who comes first finds room that the sum of all lengths does
 * not leave. */
static void test_shared_pages_count_once(void **state)
{
    (void)state;
    weft_model *model = run_open_model(MODELS[0].path);
    uint64_t page = bytes_for(model, NULL, 1);
    weft_engine *e = open_engine(
        model, (weft_engine_options){.max_sequences = 4, .memory_bytes = 18 * page + page / 2});
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(400, n_vocab, 3);
    run runs[5];
    /* Three of 6 pages, of which two are lent 3; a small one; and one of 3 pages. */
    for (uint32_t i = 0; i < 3; i++)
        runs[i] = (run){.prompt = ids, .n_prompt = 256, .max_new = 100, .priority = 5};
    runs[3] = (run){.prompt = ids + 7, .n_prompt = 20, .max_new = 40};
    runs[4] = (run){.prompt = ids + 9, .n_prompt = 100, .max_new = 90, .priority = 5};
    for (uint32_t i = 0; i < 4; i++) {
        if (i > 0 && i < 3) runs[i].sampling = (weft_sampling){.temperature = 1.0F, .seed = i};
        run_submit(e, n_vocab, &runs[i]);
    }
    for (int i = 0; i < 4; i++) step(e);
    assert_int_equal(info_of(e).n_active, 4);
    run_submit(e, n_vocab, &runs[4]);
    step(e);
    weft_engine_info info = info_of(e);
    assert_true(info.n_active == 4 && info.n_waiting == 1 && info.n_paused == 1);
    while (step(e) > 0) continue;
    for (uint32_t i = 0; i < 5; i++) {
        run_collect(e, &runs[i]);
        assert_int_equal(runs[i].n_paused, i == 3);
        if (i == 1 || i == 2) assert_int_equal(runs[i].n_cached, 255);
        check_alone(model, NULL, &runs[i]);
        run_free(&runs[i]);
    }
    weft_engine_close(e);
    weft_model_close(model);
    free(ids);
}

/* A request begins where promises had to shrink for it, while the nth allocation of that step is
 * refused: what ends it is NOMEM, not the bound that it met before. False: there was none. */
static bool refuse_at_beginning(size_t nth, uint32_t *n_ended)
{
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    weft_error err = {WEFT_OK, ""};
    weft_model_options with = {.struct_size = sizeof with, .allocator = &fault.allocator};
    weft_model *model;
    assert_ok(weft_model_open(MODELS[0].path, &with, &model, &err), &err);
    uint64_t budget = bytes_for(model, NULL, CONTEXT);
    weft_engine *e = open_engine(model, (weft_engine_options){.memory_bytes = budget});
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(40, n_vocab, 3);
    run first = {.prompt = ids, .n_prompt = 30, .max_new = CONTEXT - 60};
    run second = {.prompt = ids + 7, .n_prompt = 20, .max_new = 200};
    run_submit(e, n_vocab, &first);
    step(e);
    run_submit(e, n_vocab, &second);
    fault.fail_at = fault.n_allocations + nth;
    uint32_t n_active;
    weft_status status = weft_step(e, &n_active, &err);
    bool hit = fault.hit;
    assert_true(status == WEFT_OK || (hit && status == WEFT_NOMEM));
    fault.fail_at = 0;
    weft_event event = {.struct_size = sizeof event};
    assert_ok(weft_poll(e, second.handle, &event, &err), &err);
    if (event.kind == WEFT_EVENT_DONE) {
        assert_int_equal(event.finish, WEFT_FINISH_ERROR);
        assert_int_equal(event.error.status, WEFT_NOMEM);
        ++*n_ended;
    } else if (!hit) {
        assert_int_equal(n_active, 2);
    }
    while (step(e) > 0) continue;
    weft_engine_close(e);
    weft_model_close(model);
    run_free(&first);
    run_free(&second);
    free(ids);
    fault_allocator_check(&fault);
    return hit;
}

static void test_refused_memory_is_no_limit(void **state)
{
    (void)state;
    uint32_t n_ended = 0;
    size_t n = 0;
    while (refuse_at_beginning(n + 1, &n_ended)) n++;
    print_message("%zu allocations refused, %u requests ended\n", n, n_ended);
    assert_true(n_ended >= 10);
}

/* ---- prompts --------------------------------------------------------------------------------- */

/* Answers to one prompt: it is read once. */
static void test_prompt_is_read_once(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof MODELS / sizeof MODELS[0]; m++) {
        weft_model *model = run_open_model(MODELS[m].path);
        weft_engine *e =
            open_engine(model, (weft_engine_options){.kv = MODELS[m].kv, .chunk_tokens = 64});
        uint32_t n_vocab = run_n_vocab(model);
        int32_t *ids = run_random_ids(301, n_vocab, 8);
        run runs[5];
        for (uint32_t i = 0; i < 5; i++) {
            runs[i] = (run){.prompt = ids, .n_prompt = 300, .max_new = 6};
            runs[i].sampling = (weft_sampling){.temperature = 1.5F, .seed = i};
        }
        runs[4].prompt = ids + 1; /* another, which waits for nobody */
        run_all(e, n_vocab, runs, 5);
        assert_true(runs[0].n_cached == 0 && runs[4].n_cached == 0);
        for (uint32_t i = 0; i < 5; i++) {
            if (i > 0 && i < 4) assert_int_equal(runs[i].n_cached, 299);
            check_alone(model, MODELS[m].kv, &runs[i]);
        }
        assert_true(memcmp(runs[1].tokens, runs[2].tokens, 6 * sizeof(int32_t)) != 0);
        for (uint32_t i = 0; i < 5; i++) run_free(&runs[i]);
        weft_engine_close(e);
        weft_model_close(model);
        free(ids);
    }
}

/* A prompt that is being read for one that others come before is not waited for by who comes
 * first. */
static void test_the_highest_waits_for_nobody(void **state)
{
    (void)state;
    weft_model *model = run_open_model(MODELS[0].path);
    weft_engine *e = open_engine(model, (weft_engine_options){.chunk_tokens = 32});
    uint32_t n_vocab = run_n_vocab(model);
    enum { LONG = 480 };
    int32_t *ids = run_random_ids(LONG, n_vocab, 3);
    int32_t *others = run_random_ids(LONG + 2, n_vocab, 4);
    run runs[5];
    for (uint32_t i = 0; i < 5; i++) {
        runs[i] = (run){.prompt = i % 4 == 0 ? ids : others + i - 1,
                        .n_prompt = LONG,
                        .max_new = 6,
                        .priority = i == 0 ? 0 : 5};
    }
    runs[4].priority = 10;
    run_submit(e, n_vocab, &runs[0]);
    for (int i = 0; i < 2; i++) step(e);
    for (uint32_t i = 1; i < 4; i++) run_submit(e, n_vocab, &runs[i]);
    step(e);
    run_submit(e, n_vocab, &runs[4]);
    for (uint32_t i = 0; i < LONG / 32 + 8; i++) step(e);
    run_collect(e, &runs[4]);
    while (step(e) > 0) continue;
    for (uint32_t i = 0; i < 5; i++) {
        if (i < 4) run_collect(e, &runs[i]);
        check_alone(model, NULL, &runs[i]);
        run_free(&runs[i]);
    }
    weft_engine_close(e);
    weft_model_close(model);
    free(ids);
    free(others);
}

/* What a request that was paused goes on with is known: nobody waits until it is read again. */
static void test_no_wait_for_what_is_known(void **state)
{
    (void)state;
    weft_model *model = run_open_model(MODELS[0].path);
    weft_engine *e =
        open_engine(model, (weft_engine_options){.max_sequences = 2, .chunk_tokens = 32});
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(480, n_vocab, 3);
    run other = {.prompt = ids + 300, .n_prompt = 5, .max_new = 300};
    run reader = {.prompt = ids, .n_prompt = 480, .max_new = 4};
    run first = {.prompt = ids + 100, .n_prompt = 5, .max_new = 2, .priority = 1};
    run late = {.prompt = ids, .n_prompt = 290, .max_new = 4};
    run_submit(e, n_vocab, &other);
    step(e);
    run_submit(e, n_vocab, &reader);
    for (int i = 0; i < 8; i++) step(e);
    run_submit(e, n_vocab, &first);
    while (info_of(e).n_paused == 0 || info_of(e).n_waiting > 0) step(e);
    assert_ok(weft_cancel(e, other.handle, NULL), NULL);
    run_submit(e, n_vocab, &late);
    step(e);
    assert_int_equal(info_of(e).n_active, 2);
    while (step(e) > 0) continue;
    run_collect(e, &other);
    run_collect(e, &first);
    run_collect(e, &reader);
    run_collect(e, &late);
    assert_int_equal(reader.n_paused, 1);
    assert_true(late.n_cached >= 256);
    check_alone(model, NULL, &reader);
    check_alone(model, NULL, &late);
    run_free(&other);
    run_free(&first);
    run_free(&reader);
    run_free(&late);
    weft_engine_close(e);
    weft_model_close(model);
    free(ids);
}

/* ---- handles --------------------------------------------------------------------------------- */

static void test_handles_are_not_used_again(void **state)
{
    (void)state;
    weft_model *model = run_open_model(MODELS[0].path);
    weft_engine *e = open_engine(model, (weft_engine_options){.max_sequences = 1});
    static const int32_t PROMPT[] = {1, 2, 3};
    weft_request r = {.struct_size = sizeof r,
                      .prompt = PROMPT,
                      .n_prompt = 3,
                      .max_new = 2,
                      .sampling = {.top_p = 1.0F}};
    enum { MANY = 200 };
    weft_handle handles[2 * MANY];
    weft_event event = {.struct_size = sizeof event};
    for (uint32_t i = 0; i < MANY; i++) assert_ok(weft_submit(e, &r, &handles[i], NULL), NULL);
    for (uint32_t i = 0; i < MANY; i += 2) assert_ok(weft_release(e, handles[i], NULL), NULL);
    for (uint32_t i = MANY; i < 2 * MANY; i++)
        assert_ok(weft_submit(e, &r, &handles[i], NULL), NULL);
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        bool gone = i < MANY && i % 2 == 0;
        assert_int_equal(weft_poll(e, handles[i], &event, NULL), gone ? WEFT_ARGUMENT : WEFT_OK);
        for (uint32_t k = 0; k < i; k++) assert_true(handles[i] != handles[k]);
    }
    static const weft_handle WRONG[] = {0, 1, 5, UINT32_MAX, UINT64_MAX, (weft_handle)1 << 32};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
        assert_int_equal(weft_cancel(e, WRONG[i], NULL), WEFT_ARGUMENT);
    while (step(e) > 0) continue;
    weft_engine_close(e);
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_higher_comes_first),
        cmocka_unit_test(test_nobody_starves),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_memory_is_shared),
        cmocka_unit_test(test_outputs_of_prompts_stay),
        cmocka_unit_test(test_no_pause_for_nothing),
        cmocka_unit_test(test_shared_pages_count_once),
        cmocka_unit_test(test_refused_memory_is_no_limit),
        cmocka_unit_test(test_prompt_is_read_once),
        cmocka_unit_test(test_the_highest_waits_for_nobody),
        cmocka_unit_test(test_no_wait_for_what_is_known),
        cmocka_unit_test(test_handles_are_not_used_again),
    };
    return TEST_RUN("engine/queue", tests);
}
