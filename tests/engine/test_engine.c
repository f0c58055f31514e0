/* test_engine.c - requests from submit to release: what is refused, how they end, what they may not
 * cost. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "engine/state.h"
#include "support/fault.h"
#include "support/runs.h"

#define MODEL GOLDEN_PATH("llama")

enum { VOCAB = 320, CONTEXT = 64 };

typedef struct fixture {
    weft_model *model;
    weft_engine *engine;
} fixture;

static fixture open_with(const weft_allocator *allocator, weft_engine_options options)
{
    weft_error err = {WEFT_OK, ""};
    fixture f = {NULL, NULL};
    weft_model_options model_options = {.struct_size = sizeof model_options,
                                        .allocator = allocator};
    assert_ok(weft_model_open(MODEL, &model_options, &f.model, &err), &err);
    options.struct_size = sizeof options;
    if (options.context == 0) options.context = CONTEXT;
    assert_ok(weft_engine_open(f.model, &options, &f.engine, &err), &err);
    return f;
}

static void close_all(fixture f)
{
    weft_engine_close(f.engine);
    weft_model_close(f.model);
}

static const int32_t PROMPT[] = {5, 6, 7, 8, 9, 10, 11, 12};

static weft_request plain(uint32_t n_prompt, uint32_t max_new)
{
    weft_request r = {.struct_size = sizeof r,
                      .prompt = PROMPT,
                      .n_prompt = n_prompt,
                      .max_new = max_new,
                      .flags = WEFT_REQUEST_IGNORE_STOP};
    r.sampling.top_p = 1.0F;
    return r;
}

static weft_handle submit(weft_engine *e, weft_request r)
{
    weft_error err = {WEFT_OK, ""};
    weft_handle handle;
    assert_ok(weft_submit(e, &r, &handle, &err), &err);
    assert_true(handle != 0);
    return handle;
}

/* Polls what there is: number of tokens, and the finish (NONE when not done). */
static uint32_t drain(weft_engine *e, weft_handle handle, weft_finish *finish, int32_t *last)
{
    uint32_t n = 0;
    *finish = WEFT_FINISH_NONE;
    for (;;) {
        weft_event event = {.struct_size = sizeof event};
        assert_ok(weft_poll(e, handle, &event, NULL), NULL);
        if (event.kind == WEFT_EVENT_NONE) return n;
        if (event.kind == WEFT_EVENT_DONE) {
            *finish = event.finish;
        } else {
            n++;
            *last = event.token;
        }
    }
}

static uint32_t step(weft_engine *e)
{
    weft_error err = {WEFT_OK, ""};
    uint32_t n_active;
    assert_ok(weft_step(e, &n_active, &err), &err);
    return n_active;
}

static void test_refusals(void **state)
{
    (void)state;
    fixture f = open_with(NULL, (weft_engine_options){.max_sequences = 2});
    weft_error err = {WEFT_OK, ""};
    weft_handle handle = 99;
    static const int32_t BAD[] = {5, VOCAB, -1};
    struct {
        weft_request r;
        weft_status status;
        const char *part;
    } rows[] = {
        {plain(0, 4), WEFT_ARGUMENT, "the prompt is empty"},
        {plain(8, 4), WEFT_ARGUMENT, "prompt token 1 is token id 320, the vocabulary has 320"},
        {plain(8, 4), WEFT_ARGUMENT, "temperature is -1"},
        {plain(8, 4), WEFT_ARGUMENT, "top_p is 2"},
        {plain(8, 4), WEFT_ARGUMENT, "unknown flags"},
        {plain(8, 4), WEFT_ARGUMENT, "stop id 1 is token id 320"},
        {plain(8, 4), WEFT_LIMIT, "the prompt has 65 tokens, the context holds 64"},
        {plain(8, 4), WEFT_ARGUMENT, "struct_size"},
    };
    int32_t *longer = calloc(CONTEXT + 1, sizeof *longer);
    rows[1].r.prompt = BAD;
    rows[2].r.sampling.temperature = -1.0F;
    rows[3].r.sampling.top_p = 2.0F;
    rows[4].r.flags = 64;
    rows[5].r.stop_ids = BAD;
    rows[5].r.n_stop_ids = 2;
    rows[6].r.prompt = longer;
    rows[6].r.n_prompt = CONTEXT + 1;
    rows[7].r.struct_size = 8;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_status(rows[i].status, weft_submit(f.engine, &rows[i].r, &handle, &err), &err);
        assert_message(&err, rows[i].part);
        assert_int_equal(handle, 0);
    }
    free(longer);
    assert_int_equal(step(f.engine), 0);
    close_all(f);
}

static void test_larger_than_budget(void **state)
{
    (void)state;
    /* 4 layers of one page: 64 positions * 2 heads * 16 * 2 sides * 2 bytes */
    fixture f =
        open_with(NULL, (weft_engine_options){.context = 512, .memory_bytes = 4 * 8192 + 100});
    weft_error err = {WEFT_OK, ""};
    weft_handle handle;
    weft_request r = plain(8, 100);
    assert_status(WEFT_LIMIT, weft_submit(f.engine, &r, &handle, &err), &err);
    assert_message(&err, "the request needs 65536 bytes of state, the budget is 32868");
    /* Two that fit one after the other: the second waits. */
    weft_handle a = submit(f.engine, plain(8, 20));
    weft_handle b = submit(f.engine, plain(4, 20));
    while (step(f.engine) > 0) {
        weft_engine_info info = {.struct_size = sizeof info};
        assert_ok(weft_engine_get_info(f.engine, &info, NULL), NULL);
        assert_true(info.kv_bytes_live <= info.kv_bytes_budget);
    }
    weft_finish finish;
    int32_t last;
    assert_int_equal(drain(f.engine, a, &finish, &last), 20);
    assert_int_equal(finish, WEFT_FINISH_LENGTH);
    assert_int_equal(drain(f.engine, b, &finish, &last), 20);
    assert_int_equal(finish, WEFT_FINISH_LENGTH);
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(f.engine, &info, NULL), NULL);
    assert_int_equal(info.kv_bytes_live, 0);
    close_all(f);
}

static void test_context_full(void **state)
{
    (void)state;
    fixture f = open_with(NULL, (weft_engine_options){.context = 16});
    weft_handle a = submit(f.engine, plain(8, 100));
    while (step(f.engine) > 0) continue;
    weft_finish finish;
    int32_t last;
    /* 16 positions: 8 of the prompt, 8 sampled and forwarded, and one more that needs none. */
    assert_int_equal(drain(f.engine, a, &finish, &last), 9);
    assert_int_equal(finish, WEFT_FINISH_LENGTH);
    weft_handle b = submit(f.engine, plain(8, 0));
    while (step(f.engine) > 0) continue;
    assert_int_equal(drain(f.engine, b, &finish, &last), 0);
    assert_int_equal(finish, WEFT_FINISH_LENGTH);
    close_all(f);
}

/* Polls a request that gives its prompt's logits in pieces of at most rows, into all
 * [n_prompt, VOCAB]; number of pieces. */
static uint32_t take_pieces(weft_engine *e, weft_handle handle, const float *piece, uint32_t rows,
                            float *all)
{
    uint32_t n_pieces = 0;
    uint32_t next = 0;
    for (;;) {
        step(e);
        weft_event event = {.struct_size = sizeof event};
        assert_ok(weft_poll(e, handle, &event, NULL), NULL);
        if (event.kind != WEFT_EVENT_LOGITS) {
            assert_int_equal(event.kind, WEFT_EVENT_TOKEN);
            return n_pieces;
        }
        assert_int_equal(event.first, next);
        assert_true(event.n_rows >= 1 && event.n_rows <= rows);
        next += event.n_rows;
        n_pieces++;
        /* It waits, and leaves the memory alone, until it is polled again. */
        float before[2] = {piece[0], piece[VOCAB - 1]};
        step(e);
        assert_true(before[0] == piece[0] && before[1] == piece[VOCAB - 1]);
        memcpy(all + (size_t)event.first * VOCAB, piece,
               (size_t)event.n_rows * VOCAB * sizeof *all);
        if (next == sizeof PROMPT / sizeof *PROMPT) continue;
        event = (weft_event){.struct_size = sizeof event};
        assert_ok(weft_poll(e, handle, &event, NULL), NULL);
        assert_int_equal(event.kind, WEFT_EVENT_NONE);
    }
}

/* A prompt's logits in pieces have the bits of the whole, whatever the pieces are. */
static void test_prompt_logits_in_pieces(void **state)
{
    (void)state;
    enum { N = sizeof PROMPT / sizeof *PROMPT };
    fixture f = open_with(NULL, (weft_engine_options){.max_sequences = 2, .max_outputs = 5});
    static float whole[N][VOCAB];
    static float all[N][VOCAB];
    static float piece[N][VOCAB];
    weft_finish finish;
    int32_t last;
    weft_request r = plain(N, 1);
    r.prompt_logits = &whole[0][0];
    weft_handle handle = submit(f.engine, r);
    while (step(f.engine) > 0) continue;
    assert_int_equal(drain(f.engine, handle, &finish, &last), 1);
    static const struct {
        uint32_t rows, n_pieces;
    } CASES[] = {{1, N}, {3, 3}, {5, 2}, {N, 2}, {1000, 2}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        memset(all, 0, sizeof all);
        r.prompt_logits = &piece[0][0];
        r.prompt_logits_rows = CASES[i].rows;
        handle = submit(f.engine, r);
        assert_int_equal(take_pieces(f.engine, handle, &piece[0][0], CASES[i].rows, &all[0][0]),
                         CASES[i].n_pieces);
        assert_memory_equal(all, whole, sizeof all);
        assert_int_equal(drain(f.engine, handle, &finish, &last), 0);
        assert_int_equal(finish, WEFT_FINISH_LENGTH);
    }
    /* One that ends while a piece lies there still hands it out, and then its end. */
    r.prompt_logits_rows = 2;
    handle = submit(f.engine, r);
    step(f.engine);
    assert_ok(weft_cancel(f.engine, handle, NULL), NULL);
    assert_int_equal(step(f.engine), 0);
    weft_event event = {.struct_size = sizeof event};
    assert_ok(weft_poll(f.engine, handle, &event, NULL), NULL);
    assert_int_equal(event.kind, WEFT_EVENT_LOGITS);
    assert_int_equal(event.n_rows, 2);
    assert_int_equal(drain(f.engine, handle, &finish, &last), 0);
    assert_int_equal(finish, WEFT_FINISH_CANCELLED);
    weft_error err = {WEFT_OK, ""};
    r.prompt_logits = NULL;
    assert_status(WEFT_ARGUMENT, weft_submit(f.engine, &r, &handle, &err), &err);
    assert_message(&err, "prompt_logits_rows is 2, prompt_logits is NULL");
    close_all(f);
}

static void test_stop_ids(void **state)
{
    (void)state;
    fixture f = open_with(NULL, (weft_engine_options){.chunk_tokens = 3});
    weft_finish finish;
    int32_t tokens[4];
    weft_handle a = submit(f.engine, plain(8, 4));
    while (step(f.engine) > 0) continue;
    for (int i = 0; i < 4; i++) {
        weft_event event = {.struct_size = sizeof event};
        assert_ok(weft_poll(f.engine, a, &event, NULL), NULL);
        tokens[i] = event.token;
    }
    weft_request r = plain(8, 4);
    r.flags = 0;
    r.stop_ids = &tokens[1];
    r.n_stop_ids = 1;
    weft_handle b = submit(f.engine, r);
    while (step(f.engine) > 0) continue;
    int32_t last = -1;
    uint32_t n = drain(f.engine, b, &finish, &last);
    assert_int_equal(finish, WEFT_FINISH_STOP);
    assert_int_equal(last, tokens[1]);
    assert_int_equal(n, tokens[0] == tokens[1] ? 1 : 2);
    close_all(f);
}

static void test_cancel_and_release(void **state)
{
    (void)state;
    fixture f = open_with(NULL, (weft_engine_options){.max_sequences = 1});
    weft_handle a = submit(f.engine, plain(8, 50));
    weft_handle b = submit(f.engine, plain(8, 50));
    step(f.engine);
    step(f.engine);
    assert_ok(weft_cancel(f.engine, b, NULL), NULL);
    assert_ok(weft_cancel(f.engine, a, NULL), NULL);
    assert_int_equal(step(f.engine), 0);
    weft_finish finish;
    int32_t last;
    assert_int_equal(drain(f.engine, a, &finish, &last), 2);
    assert_int_equal(finish, WEFT_FINISH_CANCELLED);
    assert_int_equal(drain(f.engine, b, &finish, &last), 0);
    assert_int_equal(finish, WEFT_FINISH_CANCELLED);
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_release(f.engine, a, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_release(f.engine, a, &err), &err);
    assert_message(&err, "there is no request ");
    weft_handle c = submit(f.engine, plain(8, 50));
    step(f.engine);
    assert_ok(weft_release(f.engine, c, NULL), NULL);
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(f.engine, &info, NULL), NULL);
    assert_int_equal(info.kv_bytes_live, 0);
    submit(f.engine, plain(8, 50));
    step(f.engine);
    close_all(f); /* with requests open */
}

/* More requests than places, long and short prompts: all end, and each step moves every one that
 * decodes. */
static void test_fairness(void **state)
{
    (void)state;
    fixture f = open_with(NULL, (weft_engine_options){.max_sequences = 3, .chunk_tokens = 4});
    weft_handle handles[10];
    for (uint32_t i = 0; i < 10; i++) handles[i] = submit(f.engine, plain(1 + i % 8, 1 + i));
    uint32_t n_steps = 0;
    while (step(f.engine) > 0) n_steps++;
    assert_true(n_steps < 60);
    for (uint32_t i = 0; i < 10; i++) {
        weft_finish finish;
        int32_t last;
        assert_int_equal(drain(f.engine, handles[i], &finish, &last), 1 + i);
        assert_int_equal(finish, WEFT_FINISH_LENGTH);
    }
    close_all(f);
}

static void test_steady_step_allocates_nothing(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    fixture f = open_with(&fault.allocator, (weft_engine_options){.max_sequences = 3});
    weft_handle a = submit(f.engine, plain(8, 50));
    weft_handle b = submit(f.engine, plain(3, 50));
    step(f.engine);
    step(f.engine);
    fault.armed = true;
    for (int i = 0; i < 20; i++) assert_int_equal(step(f.engine), 2);
    fault.armed = false;
    weft_finish finish;
    int32_t last;
    assert_int_equal(drain(f.engine, a, &finish, &last), 22);
    assert_int_equal(drain(f.engine, b, &finish, &last), 22);
    close_all(f);
    fault_allocator_check(&fault);
}

/* ---- other threads submit, poll and cancel while one steps ----------------------------------- */

enum { CLIENTS = 3, REQUESTS = 12 };

typedef struct client {
    weft_engine *engine;
    pthread_t thread;
    uint64_t seed;
    atomic_uint *n_finished;
    uint32_t n_done;
} client;

static void run_client(client *c)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        weft_request r = plain(1 + (uint32_t)(rng_u64(c->seed, i) % 8), 5);
        if (i % 2 == 1) {
            r.draft = "ngram";
            r.max_new = 30;
        }
        weft_handle handle;
        if (weft_submit(c->engine, &r, &handle, NULL) != WEFT_OK) return;
        bool cancel = rng_u64(c->seed, 100 + i) % 3 == 0;
        bool drop = rng_u64(c->seed, 200 + i) % 4 == 0;
        if (cancel) weft_cancel(c->engine, handle, NULL);
        for (bool done = drop; !done;) {
            weft_event event = {.struct_size = sizeof event};
            if (weft_poll(c->engine, handle, &event, NULL) != WEFT_OK) return;
            done = event.kind == WEFT_EVENT_DONE;
            if (event.kind == WEFT_EVENT_NONE) {
                struct timespec pause = {0, 200000};
                nanosleep(&pause, NULL);
            }
        }
        if (weft_release(c->engine, handle, NULL) != WEFT_OK) return;
        c->n_done++;
    }
}

static void *client_main(void *user)
{
    client *c = user;
    run_client(c);
    atomic_fetch_add(c->n_finished, 1);
    return NULL;
}

static void test_other_threads(void **state)
{
    (void)state;
    fixture f = open_with(NULL, (weft_engine_options){.max_sequences = 2, .n_threads = 2});
    client clients[CLIENTS];
    atomic_uint n_finished = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = (client){.engine = f.engine, .seed = i, .n_finished = &n_finished};
        assert_int_equal(pthread_create(&clients[i].thread, NULL, client_main, &clients[i]), 0);
    }
    while (atomic_load(&n_finished) < CLIENTS) {
        if (step(f.engine) == 0) {
            struct timespec pause = {0, 200000};
            nanosleep(&pause, NULL);
        }
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        assert_int_equal(clients[i].n_done, REQUESTS);
    }
    /* What was released is gone, whatever step it ended in. */
    while (step(f.engine) > 0) continue;
    assert_int_equal(f.engine->n_requests, 0);
    close_all(f);
}

/* A reader that does not read holds nobody up, costs no steps, and has the same answer in the
 * end. */
static void test_a_request_rests_until_it_is_polled(void **state)
{
    (void)state;
    enum { AHEAD = 3, NEW = 10 };
    fixture f = open_with(NULL, (weft_engine_options){.max_sequences = 2});
    weft_request r = plain(8, NEW);
    weft_finish finish;
    int32_t alone[NEW];
    int32_t last = -1;
    uint32_t n_active = 1;
    weft_handle handle = submit(f.engine, r);
    while (n_active > 0) assert_ok(weft_step(f.engine, &n_active, NULL), NULL);
    for (uint32_t i = 0; i < NEW; i++) {
        weft_event event = {.struct_size = sizeof event};
        assert_ok(weft_poll(f.engine, handle, &event, NULL), NULL);
        alone[i] = event.token;
    }
    r.max_ahead = AHEAD;
    weft_handle slow = submit(f.engine, r);
    weft_handle other = submit(f.engine, plain(4, NEW));
    for (uint32_t i = 0; i < 4 * NEW; i++) assert_ok(weft_step(f.engine, &n_active, NULL), NULL);
    assert_int_equal(n_active, 1);
    assert_int_equal(drain(f.engine, other, &finish, &last), NEW);
    assert_int_equal(finish, WEFT_FINISH_LENGTH);
    weft_engine_info before = {.struct_size = sizeof before};
    weft_engine_info after = before;
    assert_ok(weft_engine_get_info(f.engine, &before, NULL), NULL);
    assert_ok(weft_step(f.engine, &n_active, NULL), NULL);
    assert_ok(weft_engine_get_info(f.engine, &after, NULL), NULL);
    assert_true(after.ns_runs == before.ns_runs);
    for (uint32_t i = 0; i < NEW; i++) {
        weft_event event = {.struct_size = sizeof event};
        assert_ok(weft_poll(f.engine, slow, &event, NULL), NULL);
        assert_int_equal(event.kind, WEFT_EVENT_TOKEN);
        assert_int_equal(event.token, alone[i]);
        assert_ok(weft_step(f.engine, &n_active, NULL), NULL);
    }
    assert_int_equal(drain(f.engine, slow, &finish, &last), 0);
    assert_int_equal(finish, WEFT_FINISH_LENGTH);
    close_all(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_larger_than_budget),
        cmocka_unit_test(test_context_full),
        cmocka_unit_test(test_prompt_logits_in_pieces),
        cmocka_unit_test(test_stop_ids),
        cmocka_unit_test(test_cancel_and_release),
        cmocka_unit_test(test_fairness),
        cmocka_unit_test(test_steady_step_allocates_nothing),
        cmocka_unit_test(test_other_threads),
        cmocka_unit_test(test_a_request_rests_until_it_is_polled),
    };
    return TEST_RUN("engine/engine", tests);
}
