/* test_trace.c - a random trace of requests: they come, are cancelled, draft, share prompts, wait,
 * are paused and go on in memory that does not suffice, each in a codec of its own, some of a form,
 * with some models beside a folder for what memory lets go of; and every one of them has the tokens
 * and log-probabilities, bit for bit, that it has alone. Repeatable from the printed seed. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/rng.h"
#include "support/runs.h"

enum { CONTEXT = 384, PROMPT_MOST = 180, TEXTS = 3 };

static const struct {
    const char *path;
    bool large;  /* a real model: fewer requests */
    bool folder; /* what memory lets go of goes there, and comes back */
} MODELS[] = {
    {GOLDEN_PATH("llama"), false, true},
    {GOLDEN_PATH("gemma3-long"), false, false},
    {GOLDEN_PATH("gemma4-ple"), false, false},
    {GOLDEN_PATH("qwen3_5"), false, true},
    {GOLDEN_PATH("glm_moe_dsa"), false, true},
    {GOLDEN_PATH("gpt_oss"), false, false},
    {WEFT_SOURCE_DIR "/models/tiny/target-mlx8", true, false},
    {WEFT_SOURCE_DIR "/models/tiny/window-mlx4", true, true},
    {WEFT_SOURCE_DIR "/models/tiny/hybrid-mlx4", true, true},
};

static const char *const CODECS[] = {"bf16", "affine8g32", "affine4g32,start=50"};

typedef struct visit {
    run r;
    uint32_t arrives; /* before this step */
    uint32_t cancels; /* before this one; 0: never */
} visit;

enum { FORMS = 2, LETTERS = 128 };

typedef struct trace {
    grammar_vocab *vocab;
    weft_grammar forms[FORMS];
    uint64_t seed, counter;
    int32_t *texts[TEXTS]; /* [PROMPT_MOST], which prompts begin with */
    int32_t *prompts;      /* [n, PROMPT_MOST] */
    visit *visits;         /* [n] */
    uint32_t n, n_vocab;
} trace;

static uint32_t pick(trace *t, uint32_t n)
{
    return (uint32_t)(rng_u64(t->seed, t->counter++) % n);
}

static weft_sampling pick_sampling(trace *t)
{
    weft_sampling s = {.top_p = 1.0F, .seed = rng_u64(t->seed, t->counter++)};
    if (pick(t, 3) == 0) return s;
    s.temperature = 0.3F + 0.1F * (float)pick(t, 15);
    if (pick(t, 2) == 0) s.top_k = 1 + pick(t, 40);
    if (pick(t, 2) == 0) s.top_p = 0.5F + 0.1F * (float)pick(t, 5);
    if (pick(t, 3) == 0) s.min_p = 0.05F;
    if (pick(t, 3) == 0) s.repetition_penalty = 1.3F;
    if (pick(t, 4) == 0) s.presence_penalty = 0.7F;
    if (pick(t, 4) == 0) s.dry_multiplier = 0.8F;
    return s;
}

static void pick_visit(trace *t, uint32_t i, uint32_t *at)
{
    visit *v = &t->visits[i];
    int32_t *prompt = t->prompts + (size_t)i * PROMPT_MOST;
    uint32_t n = 1 + (pick(t, 4) == 0 ? pick(t, PROMPT_MOST) : pick(t, 60));
    uint32_t n_common = pick(t, 3) == 0 ? n : pick(t, n + 1);
    memcpy(prompt, t->texts[pick(t, TEXTS)], n_common * sizeof *prompt);
    for (uint32_t k = n_common; k < n; k++) prompt[k] = (int32_t)pick(t, t->n_vocab);
    v->r = (run){.prompt = prompt,
                 .n_prompt = n,
                 .max_new = 1 + (pick(t, 6) == 0 ? pick(t, 200) : pick(t, 30)),
                 .kv = CODECS[pick(t, 3)],
                 .sampling = pick_sampling(t),
                 .stops = pick(t, 2) == 0,
                 .draft = pick(t, 2) == 0 ? "ngram" : NULL,
                 .priority = (int32_t)pick(t, 3) - 1,
                 .cache_salt = pick(t, 4) == 0,
                 .flags = pick(t, 8) == 0 ? WEFT_REQUEST_NO_CACHE : 0};
    if (pick(t, 4) == 0) v->r.grammar = &t->forms[pick(t, FORMS)];
    *at += pick(t, 3) == 0 ? pick(t, 12) : 0;
    v->arrives = *at;
    if (pick(t, 10) == 0) v->cancels = *at + 1 + pick(t, 30);
}

/* Every model gets the same letters, whatever its tokenizer: forms are of them. */
static void open_forms(trace *t, const weft_model *model)
{
    static const struct {
        grammar_kind kind;
        const char *text;
    } TEXTS_OF[FORMS] = {{GRAMMAR_SCHEMA,
                          "{\"type\":\"object\",\"properties\":{\"number\":{\"type\":\"integer\"},"
                          "\"word\":{\"enum\":[\"first\",\"second\"]}},\"required\":[\"number\","
                          "\"word\"],\"additionalProperties\":false}"},
                         {GRAMMAR_REGEX, "(a[b-d]+e){2,5} and the rest of it"}};
    static const int32_t END = LETTERS - 1;
    char letters[LETTERS];
    str bytes[LETTERS] = {{"", 0}};
    for (uint32_t i = 1; i + 1 < LETTERS; i++) {
        letters[i] = (char)i;
        bytes[i] = (str){&letters[i], 1};
    }
    grammar_tokens tokens = {
        .n_rows = t->n_vocab, .n_tokens = LETTERS, .bytes = bytes, .ends = &END, .n_ends = 1};
    weft_error err = {WEFT_OK, ""};
    const env *world = &model->model->env;
    assert_ok(grammar_vocab_create(world, &tokens, &t->vocab, &err), &err);
    for (uint32_t i = 0; i < FORMS; i++) {
        t->forms[i] = (weft_grammar){.env = *world, .model = model->model};
        assert_ok(grammar_compile(world, t->vocab, TEXTS_OF[i].kind, str_of(TEXTS_OF[i].text),
                                  &t->forms[i].rules, &err),
                  &err);
    }
}

static void trace_open(trace *t, const weft_model *model, uint64_t seed, uint32_t n)
{
    *t = (trace){.seed = seed, .n = n, .n_vocab = run_n_vocab(model)};
    for (uint32_t i = 0; i < TEXTS; i++)
        t->texts[i] = run_random_ids(PROMPT_MOST, t->n_vocab, seed + 1 + i);
    t->prompts = calloc((size_t)n * PROMPT_MOST, sizeof *t->prompts);
    t->visits = calloc(n, sizeof *t->visits);
    assert_true(t->prompts != NULL && t->visits != NULL);
    open_forms(t, model);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) pick_visit(t, i, &at);
}

static void trace_close(trace *t)
{
    for (uint32_t i = 0; i < t->n; i++) run_free(&t->visits[i].r);
    for (uint32_t i = 0; i < TEXTS; i++) free(t->texts[i]);
    for (uint32_t i = 0; i < FORMS; i++) grammar_unref(t->forms[i].rules);
    grammar_vocab_destroy(t->vocab);
    free(t->prompts);
    free(t->visits);
}

/* All of them in one engine. */
static void trace_run(trace *t, weft_engine *e)
{
    uint32_t n_come = 0;
    uint32_t n_active = 1;
    weft_error err = {WEFT_OK, ""};
    for (uint32_t at = 0; n_come < t->n || n_active > 0; at++) {
        for (; n_come < t->n && t->visits[n_come].arrives <= at; n_come++)
            run_submit(e, t->n_vocab, &t->visits[n_come].r);
        for (uint32_t i = 0; i < n_come; i++) {
            if (t->visits[i].cancels == at && at > 0)
                assert_ok(weft_cancel(e, t->visits[i].r.handle, &err), &err);
        }
        assert_ok(weft_step(e, &n_active, &err), &err);
        assert_true(at < 200 * t->n);
    }
    for (uint32_t i = 0; i < t->n; i++) run_collect(e, &t->visits[i].r);
}

/* Once more, in an engine that knows what the folder has and nothing else. */
static void check_again(const trace *t, weft_engine *e, const run *r, const run *expected)
{
    run again = {.prompt = r->prompt,
                 .n_prompt = r->n_prompt,
                 .max_new = r->max_new,
                 .kv = r->kv,
                 .sampling = r->sampling,
                 .stops = r->stops,
                 .grammar = r->grammar,
                 .cache_salt = r->cache_salt};
    run_all(e, t->n_vocab, &again, 1);
    run_assert_identical(&again, expected, t->n_vocab);
    run_free(&again);
}

/* again: another engine to ask; NULL: none. */
static void check_alone(const trace *t, weft_engine *e, weft_engine *again, const run *r)
{
    run expected = {.prompt = r->prompt,
                    .n_prompt = r->n_prompt,
                    .max_new = r->max_new,
                    .kv = r->kv,
                    .sampling = r->sampling,
                    .stops = r->stops,
                    .grammar = r->grammar,
                    .flags = WEFT_REQUEST_NO_CACHE};
    run_all(e, t->n_vocab, &expected, 1);
    if (r->finish != WEFT_FINISH_CANCELLED) {
        run_assert_identical(r, &expected, t->n_vocab);
        assert_int_equal(r->finish, expected.finish);
    } else {
        assert_true(r->n_tokens <= expected.n_tokens);
        assert_memory_equal(r->tokens, expected.tokens, r->n_tokens * sizeof(int32_t));
        assert_memory_equal(r->logprobs, expected.logprobs, r->n_tokens * sizeof(float));
    }
    if (again != NULL) check_again(t, again, r, &expected);
    run_free(&expected);
}

/* What happened, over all models. */
typedef struct totals {
    uint64_t n_paused, n_cancelled, n_hits, n_accepted;
    uint64_t n_fetched,
        n_fetched_again; /* from folders: in traces, and by engines that came later */
} totals;

enum { AGAIN_EVERY = 8 };

static weft_engine_options alone_options(void)
{
    return (weft_engine_options){.struct_size = sizeof(weft_engine_options),
                                 .n_threads = 1,
                                 .context = CONTEXT,
                                 .max_sequences = 1,
                                 .max_drafts = WEFT_NO_DRAFTS,
                                 .kv = "bf16"};
}

static uint64_t fetched(const weft_engine *e)
{
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(e, &info, NULL), NULL);
    return info.n_disk_hits;
}

/* state_dir: what the trace's engine wrote to; NULL: nothing. */
static void check_trace(const trace *t, const weft_model *model, const char *state_dir, totals *all)
{
    weft_engine_options options = alone_options();
    weft_engine *e = run_open_engine(model, &options);
    weft_engine *again = NULL;
    options.state_dir = state_dir;
    if (state_dir != NULL) again = run_open_engine(model, &options);
    for (uint32_t i = 0; i < t->n; i++) {
        bool asks_again = i % AGAIN_EVERY == 0;
        check_alone(t, e, asks_again ? again : NULL, &t->visits[i].r);
    }
    if (again != NULL) all->n_fetched_again += fetched(again);
    weft_engine_close(again);
    weft_engine_close(e);
}

static void check_model(size_t m, uint64_t seed, uint32_t n, totals *all)
{
    const char *path = MODELS[m].path;
    weft_model *model = run_open_model(path);
    test_folder folder;
    if (MODELS[m].folder) test_folder_create(&folder);
    weft_engine_options options = {.struct_size = sizeof options,
                                   .n_threads = 2,
                                   .context = CONTEXT,
                                   .max_sequences = 6,
                                   .chunk_tokens = 48,
                                   .kv = "bf16"};
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_model_state_bytes(model, &options, 260, &options.memory_bytes, &err), &err);
    options.memory_bytes *= 3;
    options.state_dir = MODELS[m].folder ? folder.path : NULL;
    weft_engine *e = run_open_engine(model, &options);
    trace t;
    trace_open(&t, model, seed, n);
    trace_run(&t, e);
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(e, &info, &err), &err);
    weft_engine_close(e);
    check_trace(&t, model, options.state_dir, all);
    uint32_t n_cancelled = 0;
    for (uint32_t i = 0; i < n; i++) n_cancelled += t.visits[i].r.finish == WEFT_FINISH_CANCELLED;
    print_message("%s: %llu steps, %llu pauses, %u cancelled, %llu of %llu lookups hit, %llu from "
                  "the folder, %llu of %llu drafts right\n",
                  strrchr(path, '/') + 1, (unsigned long long)info.n_steps,
                  (unsigned long long)info.n_paused, n_cancelled,
                  (unsigned long long)info.n_cache_hits, (unsigned long long)info.n_cache_lookups,
                  (unsigned long long)info.n_disk_hits, (unsigned long long)info.n_accepted,
                  (unsigned long long)info.n_drafted);
    all->n_paused += info.n_paused;
    all->n_cancelled += n_cancelled;
    all->n_hits += info.n_cache_hits;
    all->n_accepted += info.n_accepted;
    all->n_fetched += info.n_disk_hits;
    trace_close(&t);
    weft_model_close(model);
    if (MODELS[m].folder) test_folder_remove(&folder);
}

static void test_every_request_is_as_alone(void **state)
{
    (void)state;
    const char *text = getenv("WEFT_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : 20261130;
    print_message("WEFT_TEST_SEED=%llu\n", (unsigned long long)seed);
    totals all = {0};
    for (size_t m = 0; m < sizeof MODELS / sizeof MODELS[0]; m++) {
        uint32_t n = MODELS[m].large || TEST_SLOWED ? 60 : 200;
        check_model(m, seed + m, n, &all);
    }
    assert_true(all.n_paused > 50 && all.n_cancelled > 20 && all.n_hits > 50);
    assert_true(all.n_accepted > 500);
    print_message("from folders: %llu, and %llu by engines that came later\n",
                  (unsigned long long)all.n_fetched, (unsigned long long)all.n_fetched_again);
    assert_true(all.n_fetched > (TEST_SLOWED ? 0 : 10) && all.n_fetched_again > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_request_is_as_alone)};
    return TEST_RUN("engine/trace", tests);
}
