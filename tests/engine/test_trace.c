/* test_trace.c - a random trace of requests: they come, are cancelled, draft, share prompts, wait,
 * are paused and go on in memory that does not suffice, each in a codec of its own, some of a form;
 * and every one of them has the tokens and log-probabilities, bit for bit, that it has alone.
 * Repeatable from the printed seed. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/rng.h"
#include "support/runs.h"

enum { CONTEXT = 384, PROMPT_MOST = 180, TEXTS = 3 };

static const struct {
    const char *path;
    bool large; /* a real model: fewer requests */
} MODELS[] = {
    {GOLDEN_PATH("llama"), false},
    {GOLDEN_PATH("gemma3-long"), false},
    {GOLDEN_PATH("gemma4-ple"), false},
    {GOLDEN_PATH("qwen3_5"), false},
    {GOLDEN_PATH("glm_moe_dsa"), false},
    {GOLDEN_PATH("gpt_oss"), false},
    {WEFT_SOURCE_DIR "/models/tiny/target-mlx8", true},
    {WEFT_SOURCE_DIR "/models/tiny/window-mlx4", true},
    {WEFT_SOURCE_DIR "/models/tiny/hybrid-mlx4", true},
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

static void check_alone(const trace *t, weft_engine *e, const run *r)
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
    run_free(&expected);
}

/* What happened, over all models. */
typedef struct totals {
    uint64_t n_paused, n_cancelled, n_hits, n_accepted;
} totals;

static void check_model(const char *path, uint64_t seed, uint32_t n, totals *all)
{
    weft_model *model = run_open_model(path);
    weft_engine_options options = {.struct_size = sizeof options,
                                   .n_threads = 2,
                                   .context = CONTEXT,
                                   .max_sequences = 6,
                                   .chunk_tokens = 48,
                                   .kv = "bf16"};
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_model_state_bytes(model, &options, 260, &options.memory_bytes, &err), &err);
    options.memory_bytes *= 3;
    weft_engine *e = run_open_engine(model, &options);
    trace t;
    trace_open(&t, model, seed, n);
    trace_run(&t, e);
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(e, &info, &err), &err);
    weft_engine_close(e);
    options = (weft_engine_options){.struct_size = sizeof options,
                                    .n_threads = 1,
                                    .context = CONTEXT,
                                    .max_sequences = 1,
                                    .max_drafts = WEFT_NO_DRAFTS,
                                    .kv = "bf16"};
    e = run_open_engine(model, &options);
    uint32_t n_cancelled = 0;
    for (uint32_t i = 0; i < n; i++) {
        check_alone(&t, e, &t.visits[i].r);
        n_cancelled += t.visits[i].r.finish == WEFT_FINISH_CANCELLED;
    }
    print_message("%s: %llu steps, %llu pauses, %u cancelled, %llu of %llu lookups hit, %llu of "
                  "%llu drafts right\n",
                  strrchr(path, '/') + 1, (unsigned long long)info.n_steps,
                  (unsigned long long)info.n_paused, n_cancelled,
                  (unsigned long long)info.n_cache_hits, (unsigned long long)info.n_cache_lookups,
                  (unsigned long long)info.n_accepted, (unsigned long long)info.n_drafted);
    all->n_paused += info.n_paused;
    all->n_cancelled += n_cancelled;
    all->n_hits += info.n_cache_hits;
    all->n_accepted += info.n_accepted;
    weft_engine_close(e);
    trace_close(&t);
    weft_model_close(model);
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
        check_model(MODELS[m].path, seed + m, n, &all);
    }
    assert_true(all.n_paused > 50 && all.n_cancelled > 20 && all.n_hits > 50);
    assert_true(all.n_accepted > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_request_is_as_alone)};
    return TEST_RUN("engine/trace", tests);
}
