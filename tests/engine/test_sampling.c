/* test_sampling.c - each way of choosing tokens, with its text and the likeliest tokens: the same
 * bits alone, in company, and with drafts (P1, KV-38). What is refused, what ends an answer, and
 * that steps take no memory. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "support/fault.h"
#include "support/scripted.h"

enum { NEW_TOKENS = 70, CONTEXT = 200, N_PROMPT = 24 };

static const weft_logit_bias BIAS[] = {
    {7, 4.0F}, {11, -100.0F}, {13, -INFINITY}, {101, 2.5F}, {7, 0.5F}};
static const char *const BREAKERS[] = {"\n", "."};

/* Some of everything, alone and together. */
static const weft_sampling SETS[] = {
    {.repetition_penalty = 1.3F},
    {.dry_multiplier = 2.0F, .dry_allowed_length = 1},
    {.temperature = 0.5F, .typical_p = 0.5F, .seed = 1},
    {.temperature = 0.3F, .xtc_probability = 0.5F, .xtc_threshold = 0.02F, .seed = 2},
    {.temperature = 1.0F, .presence_penalty = 1.5F, .frequency_penalty = 0.7F, .seed = 3},
    {.temperature = 1.0F, .logit_bias = BIAS, .n_logit_bias = COUNT_OF(BIAS), .seed = 4},
    {.temperature = 0.7F, .top_p = 0.9F, .min_p = 0.02F, .top_k = 40, .seed = 5},
    {.temperature = 1.1F,
     .top_p = 0.97F,
     .top_k = 200,
     .typical_p = 0.95F,
     .xtc_probability = 0.3F,
     .xtc_threshold = 0.1F,
     .repetition_penalty = 1.1F,
     .presence_penalty = 0.2F,
     .frequency_penalty = 0.1F,
     .penalty_range = 20,
     .dry_multiplier = 0.8F,
     .dry_range = 64,
     .logit_bias = BIAS,
     .n_logit_bias = COUNT_OF(BIAS),
     .seed = 6},
};

enum { SETS_N = COUNT_OF(SETS) };

typedef struct stop_pair {
    const char *texts[2];
} stop_pair;

typedef struct fixture {
    weft_model *model;
    weft_engine *engine;
    uint32_t n_vocab;
} fixture;

static fixture open_with(const char *path, weft_engine_options options)
{
    fixture f = {.model = run_open_model(path)};
    options.struct_size = sizeof options;
    if (options.n_threads == 0) options.n_threads = 1;
    options.context = CONTEXT;
    f.engine = run_open_engine(f.model, &options);
    f.n_vocab = run_n_vocab(f.model);
    return f;
}

static void close_all(fixture f)
{
    weft_engine_close(f.engine);
    weft_model_close(f.model);
}

/* An own prompt and set each, with a text that ends it or without. */
static run make_run(const fixture *f, uint32_t i, bool text, const stop_pair *stop)
{
    run r = {.prompt = run_random_ids(N_PROMPT, f->n_vocab < 4096 ? f->n_vocab : 4096, 40 + i),
             .n_prompt = N_PROMPT,
             .max_new = NEW_TOKENS,
             .min_new = i % 4 * 3,
             .n_top = i % 2 == 0 ? 5 : 0,
             .stops = i % 3 == 0,
             .sampling = SETS[i]};
    if (text) {
        r.flags |= WEFT_REQUEST_TEXT;
        r.sampling.dry_breakers = BREAKERS;
        r.sampling.n_dry_breakers = COUNT_OF(BREAKERS);
    }
    if (stop != NULL) {
        r.stop_texts = stop->texts;
        r.n_stop_texts = 2;
    }
    return r;
}

static void free_runs(run *runs)
{
    for (uint32_t i = 0; i < SETS_N; i++) {
        free((void *)(uintptr_t)runs[i].prompt);
        run_free(&runs[i]);
    }
}

static void make_runs(const fixture *f, run *runs, bool text, const stop_pair *stops)
{
    for (uint32_t i = 0; i < SETS_N; i++)
        runs[i] = make_run(f, i, text, stops != NULL ? &stops[i] : NULL);
}

/* In company in small chunks; each with drafts of all kinds. */
static void check_company(const char *path, const run *plain, bool text, const stop_pair *stops)
{
    run runs[SETS_N];
    script scripts[SETS_N];
    fixture f = open_with(
        path, (weft_engine_options){.chunk_tokens = 7, .n_threads = 2, .max_outputs = 64});
    make_runs(&f, runs, text, stops);
    run_all(f.engine, f.n_vocab, runs, SETS_N);
    for (uint32_t i = 0; i < SETS_N; i++) {
        run_assert_identical(&runs[i], &plain[i], f.n_vocab);
        assert_int_equal(runs[i].finish, plain[i].finish);
    }
    free_runs(runs);
    for (uint32_t first = 0; first <= SCRIPT_KINDS; first += TEST_SLOWED ? 3 : 1) {
        make_runs(&f, runs, text, stops);
        for (uint32_t i = 0; i < SETS_N; i++) {
            uint32_t kind = (first + i) % (SCRIPT_KINDS + 1);
            if (kind == SCRIPT_KINDS) {
                runs[i].draft = "ngram";
                continue;
            }
            scripts[i] = (script){.kind = (script_kind)kind,
                                  .answer = &plain[i],
                                  .n_vocab = f.n_vocab,
                                  .start = 7 * i};
            runs[i].drafter = &SCRIPTED;
            runs[i].draft_state = &scripts[i];
        }
        run_all(f.engine, f.n_vocab, runs, SETS_N);
        for (uint32_t i = 0; i < SETS_N; i++) {
            run_assert_identical(&runs[i], &plain[i], f.n_vocab);
            assert_int_equal(runs[i].finish, plain[i].finish);
        }
        free_runs(runs);
    }
    close_all(f);
}

static void run_alone(const char *path, run *plain, bool text, const stop_pair *stops)
{
    fixture f = open_with(path, (weft_engine_options){.max_drafts = WEFT_NO_DRAFTS});
    make_runs(&f, plain, text, stops);
    for (uint32_t i = 0; i < SETS_N; i++) run_all(f.engine, f.n_vocab, &plain[i], 1);
    close_all(f);
}

static void test_golden(void **state)
{
    (void)state;
    static const char *const PATHS[] = {GOLDEN_PATH("llama"), GOLDEN_PATH("qwen3_5")};
    for (size_t k = 0; k < COUNT_OF(PATHS); k++) {
        run plain[SETS_N];
        run_alone(PATHS[k], plain, false, NULL);
        /* Each set chooses in its own way: only then does it say anything that they agree. */
        for (uint32_t i = 0; i < SETS_N && k == 0; i++) {
            fixture f = open_with(PATHS[k], (weft_engine_options){0});
            run r = make_run(&f, i, false, NULL);
            r.sampling =
                (weft_sampling){.temperature = r.sampling.temperature, .seed = r.sampling.seed};
            run_all(f.engine, f.n_vocab, &r, 1);
            assert_true(r.n_tokens != plain[i].n_tokens ||
                        memcmp(r.tokens, plain[i].tokens, r.n_tokens * sizeof *r.tokens) != 0);
            free((void *)(uintptr_t)r.prompt);
            run_free(&r);
            close_all(f);
        }
        check_company(PATHS[k], plain, false, NULL);
        free_runs(plain);
    }
}

/* One that makes room for others in the middle goes on where it was, with its text, too. */
static void check_paused(const char *path, const run *plain, const stop_pair *stops)
{
    fixture f = open_with(path, (weft_engine_options){.max_sequences = 1, .chunk_tokens = 16});
    run runs[SETS_N];
    uint32_t n_active;
    uint32_t n_paused = 0;
    make_runs(&f, runs, true, stops);
    for (uint32_t i = 0; i < SETS_N; i++) {
        runs[i].priority = (int32_t)i;
        run_submit(f.engine, f.n_vocab, &runs[i]);
        for (uint32_t k = 0; k < 7; k++) assert_ok(weft_step(f.engine, &n_active, NULL), NULL);
    }
    while (n_active > 0) assert_ok(weft_step(f.engine, &n_active, NULL), NULL);
    for (uint32_t i = 0; i < SETS_N; i++) {
        run_collect(f.engine, &runs[i]);
        run_assert_identical(&runs[i], &plain[i], f.n_vocab);
        n_paused += runs[i].n_paused;
    }
    assert_true(n_paused >= SETS_N / 2);
    free_runs(runs);
    close_all(f);
}

/* Characters around a place of a text that is said without it. */
static void cut_stop(const run *r, uint32_t i, char *out)
{
    size_t at = r->n_text * (2 + i % 3) / 5;
    while (at > 0 && ((unsigned char)r->text[at] & 0xc0) == 0x80) at--;
    size_t n = utf8_whole(r->text + at, r->n_text - at < 6 ? r->n_text - at : 6);
    memcpy(out, r->text + at, n);
    out[n] = '\0';
    if (n == 0) strcpy(out, "e");
}

static void test_text(void **state)
{
    (void)state;
    static const char *const PATHS[] = {TINY_PATH("draft"), TINY_PATH("hybrid-mlx4")};
    uint32_t n_stopped = 0;
    for (size_t k = 0; k < COUNT_OF(PATHS); k++) {
        run open[SETS_N];
        run plain[SETS_N];
        char cuts[SETS_N][16];
        stop_pair stops[SETS_N];
        run_alone(PATHS[k], open, true, NULL);
        for (uint32_t i = 0; i < SETS_N; i++) {
            cut_stop(&open[i], i, cuts[i]);
            stops[i] = (stop_pair){{"never said, zq", cuts[i]}};
        }
        run_alone(PATHS[k], plain, true, stops);
        for (uint32_t i = 0; i < SETS_N; i++) {
            /* The same answer up to there. */
            assert_true(plain[i].n_tokens <= open[i].n_tokens);
            assert_memory_equal(plain[i].tokens, open[i].tokens,
                                plain[i].n_tokens * sizeof *plain[i].tokens);
            assert_memory_equal(plain[i].text, open[i].text, plain[i].n_text);
            if (plain[i].stop_text < 0) continue;
            n_stopped++;
            assert_int_equal(plain[i].stop_text, 1);
            assert_int_equal(plain[i].finish, WEFT_FINISH_STOP);
            assert_memory_equal(open[i].text + plain[i].n_text, cuts[i], strlen(cuts[i]));
        }
        check_company(PATHS[k], open, true, NULL);
        check_company(PATHS[k], plain, true, stops);
        check_paused(PATHS[k], plain, stops);
        free_runs(plain);
        free_runs(open);
    }
    assert_true(n_stopped >= SETS_N);
}

/* A request with a seed beside seven others, and alone (seeds are no reason not to batch); one that
 * has biases alone is still sampled (B66). */
static void test_seed_in_company(void **state)
{
    (void)state;
    fixture f = open_with(TINY_PATH("draft"), (weft_engine_options){.max_sequences = 8});
    int32_t *prompt = run_random_ids(9, 4096, 5);
    run alone = {.prompt = prompt, .n_prompt = 9, .max_new = 30};
    alone.sampling = (weft_sampling){.temperature = 1.0F, .seed = 77};
    run other = alone;
    run eight[8];
    for (uint32_t i = 0; i < 8; i++) {
        eight[i] = alone;
        eight[i].sampling.seed = i == 3 ? 77 : i;
    }
    run_all(f.engine, f.n_vocab, &alone, 1);
    for (uint32_t i = 0; i < 8; i++) run_submit(f.engine, f.n_vocab, &eight[i]);
    uint32_t n_steps = 0;
    uint32_t n_active;
    do {
        assert_ok(weft_step(f.engine, &n_active, NULL), NULL);
        n_steps++;
    } while (n_active > 0);
    assert_in_range(n_steps, 30, 32);
    for (uint32_t i = 0; i < 8; i++) run_collect(f.engine, &eight[i]);
    run_assert_identical(&eight[3], &alone, f.n_vocab);
    assert_memory_not_equal(eight[4].tokens, alone.tokens, 30 * sizeof(int32_t));
    /* A bias of nothing changes no bit, and one of something leaves chance to the rest. */
    const weft_logit_bias nothing = {9, 0.0F};
    other.sampling.logit_bias = &nothing;
    other.sampling.n_logit_bias = 1;
    run_all(f.engine, f.n_vocab, &other, 1);
    run_assert_identical(&other, &alone, f.n_vocab);
    run seeds[2];
    for (uint32_t i = 0; i < 2; i++) {
        seeds[i] = (run){.prompt = prompt, .n_prompt = 9, .max_new = 30};
        seeds[i].sampling = (weft_sampling){
            .temperature = 1.0F, .seed = i, .logit_bias = BIAS, .n_logit_bias = COUNT_OF(BIAS)};
    }
    run_all(f.engine, f.n_vocab, seeds, 2);
    assert_memory_not_equal(seeds[0].tokens, seeds[1].tokens, 30 * sizeof(int32_t));
    for (uint32_t i = 0; i < 2; i++) run_free(&seeds[i]);
    for (uint32_t i = 0; i < 8; i++) run_free(&eight[i]);
    run_free(&alone);
    run_free(&other);
    free(prompt);
    close_all(f);
}

/* Nothing is to be sampled, twice; then as if that had not been (B64). */
static void test_no_new_tokens(void **state)
{
    (void)state;
    static const char *const STOPS[] = {"the"};
    fixture f = open_with(TINY_PATH("draft"), (weft_engine_options){0});
    int32_t *prompt = run_random_ids(9, 4096, 5);
    run r = {.prompt = prompt, .n_prompt = 9, .n_top = 3, .stop_texts = STOPS, .n_stop_texts = 1};
    r.sampling = SETS[7];
    for (uint32_t i = 0; i < 3; i++) {
        r.max_new = i < 2 ? 0 : 12;
        run_all(f.engine, f.n_vocab, &r, 1);
        assert_int_equal(r.n_tokens, r.stop_text >= 0 ? r.n_tokens : r.max_new);
        assert_int_equal(r.finish, r.stop_text >= 0 ? WEFT_FINISH_STOP : WEFT_FINISH_LENGTH);
        if (i < 2) assert_int_equal(r.n_text, 0);
        run_free(&r);
    }
    free(prompt);
    close_all(f);
}

/* Stop ids are not sampled before min_new tokens: the next likeliest token is. */
static void test_min_new(void **state)
{
    (void)state;
    fixture f = open_with(GOLDEN_PATH("llama"), (weft_engine_options){0});
    int32_t *prompt = run_random_ids(9, f.n_vocab, 5);
    run open = {.prompt = prompt, .n_prompt = 9, .max_new = 20, .n_top = 2};
    run_all(f.engine, f.n_vocab, &open, 1);
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t least = 0; least <= 20; least += 4) {
            run r = {.prompt = prompt, .n_prompt = 9, .max_new = 20, .min_new = least};
            r.stops = true;
            r.stop_ids = &open.tokens[i];
            r.n_stop_ids = 1;
            run_all(f.engine, f.n_vocab, &r, 1);
            for (uint32_t k = 0; k < r.n_tokens; k++)
                assert_true(r.tokens[k] != open.tokens[i] || (k >= least && k + 1 == r.n_tokens));
            if (least <= i) assert_int_equal(r.stop_id, open.tokens[i]);
            if (least > i && open.tokens[0] == open.tokens[i])
                assert_int_equal(r.tokens[0], open.top[1].token);
            run_free(&r);
            /* Where they end nothing they are sampled as any other. */
            r = (run){.prompt = prompt, .n_prompt = 9, .max_new = 20, .min_new = least, .n_top = 2};
            r.stop_ids = &open.tokens[i];
            r.n_stop_ids = 1;
            run_all(f.engine, f.n_vocab, &r, 1);
            run_assert_identical(&r, &open, f.n_vocab);
            run_free(&r);
        }
    }
    run_free(&open);
    free(prompt);
    close_all(f);
}

/* Numbers out of their bounds (B63) and lists that are not what they say. */
static void test_refusals(void **state)
{
    (void)state;
    static const int32_t PROMPT[] = {5, 6, 7};
    static const char *const FINE[] = {"x"};
    static const char *const EMPTY[] = {"x", ""};
    static const char *const INVALID[] = {"x\xc3"};
    static const weft_logit_bias OUTSIDE = {4096, 1.0F};
    char text[WEFT_STOP_TEXT_BYTES + 2];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const char *const longs[] = {"x", text};
    const struct {
        weft_request r;
        weft_status status;
        const char *part;
    } rows[] = {
        {{.min_new = 5}, WEFT_ARGUMENT, "min_new is 5, max_new 4"},
        {{.n_top = 33}, WEFT_ARGUMENT, "n_top is 33, expected at most 32"},
        {{.n_stop_texts = 1}, WEFT_ARGUMENT, "stop_texts is NULL"},
        {{.n_stop_texts = 2, .stop_texts = EMPTY}, WEFT_ARGUMENT, "stop_texts 1 is empty"},
        {{.n_stop_texts = 1, .stop_texts = INVALID}, WEFT_ARGUMENT, "stop_texts 0 is not UTF-8"},
        {{.n_stop_texts = 17, .stop_texts = FINE}, WEFT_LIMIT, "stop_texts has 17 entries"},
        {{.n_stop_texts = 2, .stop_texts = longs}, WEFT_LIMIT, "stop_texts 1 has more than 256"},
        {{.sampling = {.temperature = 1e6F}}, WEFT_ARGUMENT, "temperature is 1e+06"},
        {{.sampling = {.temperature = -1.0F}}, WEFT_ARGUMENT, "temperature is -1"},
        {{.sampling = {.temperature = NAN}}, WEFT_ARGUMENT, "temperature is nan"},
        {{.sampling = {.top_p = NAN}}, WEFT_ARGUMENT, "top_p is nan"},
        {{.sampling = {.top_p = -1.0F}}, WEFT_ARGUMENT, "top_p is -1"},
        {{.sampling = {.top_p = 2.0F}}, WEFT_ARGUMENT, "top_p is 2"},
        {{.sampling = {.repetition_penalty = 1e-3F}}, WEFT_ARGUMENT, "repetition_penalty is 0.001"},
        {{.sampling = {.logit_bias = &OUTSIDE, .n_logit_bias = 1}},
         WEFT_ARGUMENT,
         "token id 4096, the vocabulary has 4096"},
        {{.flags = 64}, WEFT_ARGUMENT, "unknown flags 40"},
    };
    fixture f = open_with(TINY_PATH("draft"), (weft_engine_options){0});
    weft_error err = {WEFT_OK, ""};
    weft_handle handle = 1;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weft_request r = rows[i].r;
        r.struct_size = sizeof r;
        r.prompt = PROMPT;
        r.n_prompt = 3;
        r.max_new = 4;
        assert_status(rows[i].status, weft_submit(f.engine, &r, &handle, &err), &err);
        assert_message(&err, rows[i].part);
        assert_int_equal(handle, 0);
    }
    close_all(f);
    /* Without a tokenizer there is no text. */
    f = open_with(GOLDEN_PATH("llama"), (weft_engine_options){0});
    weft_request r = {.struct_size = sizeof r, .prompt = PROMPT, .n_prompt = 3, .max_new = 4};
    r.stop_texts = FINE;
    r.n_stop_texts = 1;
    assert_status(WEFT_UNSUPPORTED, weft_submit(f.engine, &r, &handle, &err), &err);
    assert_message(&err, "stop_texts: the model has no tokenizer");
    r.n_stop_texts = 0;
    r.flags = WEFT_REQUEST_TEXT;
    assert_status(WEFT_UNSUPPORTED, weft_submit(f.engine, &r, &handle, &err), &err);
    assert_message(&err, "the text of an answer: the model has no tokenizer");
    r.flags = 0;
    r.sampling.dry_breakers = FINE;
    r.sampling.n_dry_breakers = 1;
    assert_status(WEFT_UNSUPPORTED, weft_submit(f.engine, &r, &handle, &err), &err);
    assert_message(&err, "dry_breakers: the model has no tokenizer");
    close_all(f);
}

/* Every token is forbidden to a request: it fails by itself, the other goes on. */
static void test_nothing_left(void **state)
{
    (void)state;
    fixture f = open_with(GOLDEN_PATH("llama"), (weft_engine_options){0});
    int32_t *all = calloc(f.n_vocab, sizeof *all);
    for (uint32_t i = 0; i < f.n_vocab; i++) all[i] = (int32_t)i;
    weft_request r = {.struct_size = sizeof r, .prompt = all, .n_prompt = 3, .max_new = 4};
    r.min_new = 1;
    r.stop_ids = all;
    r.n_stop_ids = f.n_vocab;
    weft_handle handle;
    assert_ok(weft_submit(f.engine, &r, &handle, NULL), NULL);
    run other = {.prompt = all, .n_prompt = 3, .max_new = 4};
    run_all(f.engine, f.n_vocab, &other, 1);
    assert_int_equal(other.n_tokens, 4);
    weft_event event = {.struct_size = sizeof event};
    assert_ok(weft_poll(f.engine, handle, &event, NULL), NULL);
    assert_int_equal(event.kind, WEFT_EVENT_DONE);
    assert_int_equal(event.finish, WEFT_FINISH_ERROR);
    assert_message(&event.error, "no token may be sampled");
    run_free(&other);
    free(all);
    close_all(f);
}

static void test_steps_allocate_nothing(void **state)
{
    (void)state;
    static const stop_pair STOPS = {{"never said, zq", "\xf0\x9f\xa7\x91"}};
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    weft_error err = {WEFT_OK, ""};
    weft_model_options model_options = {.struct_size = sizeof model_options,
                                        .allocator = &fault.allocator};
    weft_engine_options options = {
        .struct_size = sizeof options, .context = CONTEXT, .n_threads = 1};
    fixture f = {NULL, NULL, 0};
    assert_ok(weft_model_open(TINY_PATH("draft"), &model_options, &f.model, &err), &err);
    assert_ok(weft_engine_open(f.model, &options, &f.engine, &err), &err);
    f.n_vocab = run_n_vocab(f.model);
    run runs[SETS_N];
    stop_pair stops[SETS_N];
    for (uint32_t i = 0; i < SETS_N; i++) stops[i] = STOPS;
    make_runs(&f, runs, true, stops);
    uint32_t n_active;
    for (uint32_t i = 0; i < SETS_N; i++) {
        runs[i].stops = false;
        run_submit(f.engine, f.n_vocab, &runs[i]);
    }
    for (uint32_t i = 0; i < 2; i++) assert_ok(weft_step(f.engine, &n_active, &err), &err);
    fault.armed = true;
    for (uint32_t i = 0; i < 35; i++) assert_ok(weft_step(f.engine, &n_active, &err), &err);
    fault.armed = false;
    assert_int_equal(n_active, SETS_N);
    while (n_active > 0) assert_ok(weft_step(f.engine, &n_active, &err), &err);
    for (uint32_t i = 0; i < SETS_N; i++) run_collect(f.engine, &runs[i]);
    free_runs(runs);
    close_all(f);
    fault_allocator_check(&fault);
}

/* ---- another thread polls while one steps ---------------------------------------------------- */

typedef struct poller {
    weft_engine *engine;
    run *runs;
    atomic_bool stop; /* a step failed */
    bool fine;
} poller;

/* Reads what an event lends while the next step may run. */
static void keep_event(run *r, const weft_event *event)
{
    r->text = realloc(r->text, r->n_text + event->n_text + 1);
    memcpy(r->text + r->n_text, event->text, event->n_text);
    r->n_text += event->n_text;
    r->text[r->n_text] = '\0';
    if (event->kind == WEFT_EVENT_TOKEN) {
        for (uint32_t k = 0; k < event->n_top; k++)
            r->top[r->n_tokens * r->n_top + k] = event->top[k];
        r->logprobs[r->n_tokens] = event->logprob;
        r->tokens[r->n_tokens++] = event->token;
    }
    if (event->kind != WEFT_EVENT_DONE) return;
    r->finish = event->finish;
    r->stop_id = event->stop_id;
    r->stop_text = event->stop_text;
}

static void *poll_all(void *user)
{
    poller *p = user;
    uint32_t n_done = 0;
    while (n_done < SETS_N && !atomic_load(&p->stop)) {
        for (uint32_t i = 0; i < SETS_N; i++) {
            run *r = &p->runs[i];
            weft_event event = {.struct_size = sizeof event};
            if (r->finish != WEFT_FINISH_NONE) continue;
            if (weft_poll(p->engine, r->handle, &event, NULL) != WEFT_OK) return NULL;
            keep_event(r, &event);
            n_done += event.kind == WEFT_EVENT_DONE;
        }
    }
    p->fine = n_done == SETS_N;
    return NULL;
}

static void test_other_thread(void **state)
{
    (void)state;
    run plain[SETS_N];
    run runs[SETS_N];
    stop_pair stops[SETS_N];
    for (uint32_t i = 0; i < SETS_N; i++) stops[i] = (stop_pair){{" the", "\n\n"}};
    run_alone(TINY_PATH("draft"), plain, true, stops);
    fixture f = open_with(TINY_PATH("draft"), (weft_engine_options){.n_threads = 2});
    make_runs(&f, runs, true, stops);
    for (uint32_t i = 0; i < SETS_N; i++) run_submit(f.engine, f.n_vocab, &runs[i]);
    poller p = {.engine = f.engine, .runs = runs};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, poll_all, &p), 0);
    uint32_t n_active = 1;
    weft_status status = WEFT_OK;
    while (n_active > 0 && status == WEFT_OK) status = weft_step(f.engine, &n_active, NULL);
    if (status != WEFT_OK) atomic_store(&p.stop, true);
    pthread_join(thread, NULL);
    assert_ok(status, NULL);
    assert_true(p.fine);
    for (uint32_t i = 0; i < SETS_N; i++) run_assert_identical(&runs[i], &plain[i], f.n_vocab);
    free_runs(runs);
    free_runs(plain);
    close_all(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_thread),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_seed_in_company),
        cmocka_unit_test(test_no_new_tokens),
        cmocka_unit_test(test_min_new),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_nothing_left),
        cmocka_unit_test(test_steps_allocate_nothing),
    };
    return TEST_RUN("engine/sampling", tests);
}
