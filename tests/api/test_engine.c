/* test_engine.c - what weft_model_state_bytes says is what an engine takes; and where its steps say
 * that their time went. */
#include <stdio.h>
#include <string.h>

#include "support/runs.h"

#include "base/assert.h"

enum { CONTEXT = 150, PROMPT = 70 };

static weft_handle submit(weft_engine *e, int32_t first, uint32_t n_new)
{
    int32_t prompt[PROMPT];
    for (int32_t i = 0; i < PROMPT; i++) prompt[i] = first + i;
    weft_error err = {WEFT_OK, ""};
    weft_handle handle = 0;
    weft_request r = {.struct_size = sizeof r,
                      .flags = WEFT_REQUEST_IGNORE_STOP,
                      .prompt = prompt,
                      .n_prompt = PROMPT,
                      .max_new = n_new,
                      .sampling = {.top_p = 1.0F}};
    assert_ok(weft_submit(e, &r, &handle, &err), &err);
    return handle;
}

/* Tokens that a request has given, and whether it is done. */
static uint32_t poll_all(weft_engine *e, weft_handle handle, bool *done)
{
    uint32_t n = 0;
    *done = false;
    for (;;) {
        weft_event event = {.struct_size = sizeof event};
        assert_ok(weft_poll(e, handle, &event, NULL), NULL);
        if (event.kind == WEFT_EVENT_NONE) return n;
        if (event.kind == WEFT_EVENT_TOKEN) n++;
        if (event.kind != WEFT_EVENT_DONE) continue;
        assert_int_equal(event.finish, WEFT_FINISH_LENGTH);
        *done = true;
    }
}

/* Two requests of n_positions: with room for both they run side by side, with a byte less one waits
 * for the other, and with less than for one it is refused with both numbers. */
static void check(const weft_model *model, const char *kv, uint32_t flags, uint32_t n_new)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .kv = kv,
                                   .context = CONTEXT,
                                   .max_sequences = 2,
                                   .chunk_tokens = 40,
                                   .flags = flags};
    uint32_t n_positions = PROMPT + n_new - 1;
    uint64_t one = 0;
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_model_state_bytes(model, &options, n_positions, &one, &err), &err);
    assert_true(one > 0);
    uint32_t early[2];
    for (uint64_t missing = 0; missing < 2; missing++) {
        options.memory_bytes = 2 * one - missing;
        weft_engine *e = run_open_engine(model, &options);
        weft_handle a = submit(e, 1, n_new);
        weft_handle b = submit(e, 2, n_new);
        uint32_t n_active = 2;
        uint32_t n_early = 0; /* of the second, before the first was done */
        bool done_a = false;
        bool done_b = false;
        while (n_active > 0) {
            assert_ok(weft_step(e, &n_active, &err), &err);
            poll_all(e, a, &done_a);
            uint32_t n = poll_all(e, b, &done_b);
            if (n_active == 2) n_early += n;
        }
        assert_true(done_b);
        early[missing] = n_early;
        weft_engine_close(e);
    }
    /* One that is converted gives back what it had before, so that the other may begin then. */
    assert_true(early[1] < early[0]);
    assert_true(early[1] == 0 || (kv != NULL && strstr(kv, "start") != NULL));
    options.memory_bytes = one - 1;
    weft_engine *e = run_open_engine(model, &options);
    int32_t prompt[PROMPT] = {0};
    weft_handle handle;
    weft_request r = {.struct_size = sizeof r,
                      .prompt = prompt,
                      .n_prompt = PROMPT,
                      .max_new = n_new,
                      .sampling = {.top_p = 1.0F}};
    char message[160];
    snprintf(message, sizeof message, "the request needs %llu bytes of state, the budget is %llu",
             (unsigned long long)one, (unsigned long long)one - 1);
    assert_status(WEFT_LIMIT, weft_submit(e, &r, &handle, &err), &err);
    assert_message(&err, message);
    weft_engine_close(e);
}

static void test_state_bytes(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"llama", "gemma3", "qwen3_5", "gemma4-ple"};
    static const char *const SPECS[] = {NULL, "affine8g32", "turbo-k8v3,-1=f32", "f16,start=80"};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, NAMES[i]);
        weft_model *model = run_open_model(path);
        for (size_t k = 0; k < COUNT_OF(SPECS); k++) {
            /* A layer that has no keys and values takes no rule. */
            if (k == 2 && i >= 2) continue;
            check(model, SPECS[k], 0, 20);
            check(model, SPECS[k], WEFT_ENGINE_NO_CACHE, 60);
        }
        weft_model_close(model);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH("llama"));
    weft_error err = {WEFT_OK, ""};
    uint64_t n = 7;
    weft_engine_options options = {.struct_size = sizeof options, .context = CONTEXT};
    assert_status(WEFT_LIMIT, weft_model_state_bytes(model, &options, CONTEXT + 1, &n, &err), &err);
    assert_message(&err, "151 positions, the context holds 150");
    assert_int_equal(n, 0);
    assert_status(WEFT_ARGUMENT, weft_model_state_bytes(model, &options, 1, NULL, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_model_state_bytes(NULL, &options, 1, &n, &err), &err);
    options.kv = "q99";
    assert_status(WEFT_ARGUMENT, weft_model_state_bytes(model, &options, 1, &n, &err), &err);
    assert_message(&err, "unknown kv codec 'q99'");
    options.struct_size = 4;
    assert_status(WEFT_ARGUMENT, weft_model_state_bytes(model, &options, 1, &n, &err), &err);
    assert_ok(weft_model_state_bytes(model, NULL, 1, &n, &err), &err);
    assert_true(n > 0);
    weft_model_close(model);
}

static void run_to_end(weft_engine *e, uint32_t n_new)
{
    weft_handle handle = submit(e, 5, n_new);
    bool done = false;
    for (uint32_t n_active; !done;) {
        assert_ok(weft_step(e, &n_active, NULL), NULL);
        poll_all(e, handle, &done);
    }
    assert_ok(weft_release(e, handle, NULL), NULL);
}

/* Of all parts; the last call says how many there are. */
static double trace_seconds(const weft_engine *e, uint64_t *n_calls)
{
    double seconds = 0.0;
    weft_error err = {WEFT_OK, ""};
    *n_calls = 0;
    for (uint32_t i = 0;; i++) {
        weft_trace_part part = {.struct_size = sizeof part};
        weft_status status = weft_engine_trace_part(e, i, &part, &err);
        if (status != WEFT_OK) {
            char expected[64];
            snprintf(expected, sizeof expected, "part %u, the trace has %u", i, i);
            assert_status(WEFT_ARGUMENT, status, &err);
            assert_message(&err, expected);
            return seconds;
        }
        assert_true(part.work[0] != '\0' && part.idle_seconds <= part.seconds);
        seconds += part.seconds;
        *n_calls += part.n_calls;
    }
}

/* What is traced are steps between its beginning and its end, and no more than those took. */
static void test_trace(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH("llama"));
    weft_engine_options options = {.struct_size = sizeof options, .context = CONTEXT};
    weft_engine *e = run_open_engine(model, &options);
    weft_engine_info before = {.struct_size = sizeof before};
    weft_engine_info after = before;
    weft_error err = {WEFT_OK, ""};
    uint64_t n_calls;
    assert_true(trace_seconds(e, &n_calls) == 0.0 && n_calls == 0);
    run_to_end(e, 4);
    assert_ok(weft_engine_get_info(e, &before, NULL), NULL);
    assert_ok(weft_engine_trace(e, true, &err), &err);
    run_to_end(e, 20);
    assert_ok(weft_engine_get_info(e, &after, NULL), NULL);
    double seconds = trace_seconds(e, &n_calls);
    assert_true(n_calls > after.n_steps - before.n_steps);
    assert_true(seconds > 0.0 && seconds <= (double)(after.ns_runs - before.ns_runs) * 1e-9);
    weft_trace_part part = {.struct_size = 8};
    assert_status(WEFT_ARGUMENT, weft_engine_trace_part(e, 0, &part, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_engine_trace_part(NULL, 0, &part, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_engine_trace_part(e, 0, NULL, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_engine_trace(NULL, true, &err), &err);
    assert_ok(weft_engine_trace(e, false, &err), &err);
    assert_true(trace_seconds(e, &n_calls) == 0.0 && n_calls == 0);
    /* It ends with its engine, too. */
    assert_ok(weft_engine_trace(e, true, &err), &err);
    weft_engine_close(e);
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_bytes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_trace),
    };
    return TEST_RUN("api/engine", tests);
}
