/* test_constraint_drafts.c - drafts of answers that must be something: what is forced, what a graph
 * guesses, and what no guess may do (B30). The models are goldens, whose tokens are bytes here. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/assert.h"
#include "engine/state.h"
#include "support/draft_world.h"

enum { N_PROMPT = 20, END = 2 };

static const draft_setting BY_MODEL = {.golden = "llama", .drafting = "llama", .act = WEFT_ACT_F32};
static const draft_setting BY_HEAD = {.golden = "qwen3_5-mtp", .act = WEFT_ACT_F32};
static const draft_setting *const SETTINGS[] = {&BY_MODEL, &BY_HEAD};

/* Token i is byte i, but for the first three: padding, beginning, end. */
typedef struct words {
    grammar_vocab *vocab;
    weft_grammar grammar;
} words;

static void words_open(words *w, const draft_world *world, const char *expression)
{
    static char bytes[128];
    str list[128];
    static const int32_t ENDS[] = {END};
    const env here = {.allocator = mem_system()};
    weft_error err = {WEFT_OK, ""};
    for (uint32_t i = 0; i < 128; i++) {
        bytes[i] = (char)i;
        list[i] = (str){&bytes[i], i > END};
    }
    const grammar_tokens tokens = {
        .n_rows = world->n_vocab, .n_tokens = 128, .bytes = list, .ends = ENDS, .n_ends = 1};
    assert_ok(grammar_vocab_create(&here, &tokens, &w->vocab, &err), &err);
    w->grammar = (weft_grammar){.env = here, .model = world->model->model};
    assert_ok(grammar_compile(&here, w->vocab, GRAMMAR_REGEX, str_of(expression), &w->grammar.rules,
                              &err),
              &err);
}

static void words_close(words *w)
{
    grammar_unref(w->grammar.rules);
    grammar_vocab_destroy(w->vocab);
}

static run make_run(const draft_world *w, const words *form, uint64_t seed)
{
    run r = {.prompt = run_random_ids(N_PROMPT, w->n_vocab, 11 + seed),
             .n_prompt = N_PROMPT,
             .max_new = 60,
             .grammar = &form->grammar};
    if (seed > 0) r.sampling = (weft_sampling){.temperature = 1.0F, .seed = seed};
    return r;
}

static void free_run(run *r)
{
    free((void *)(uintptr_t)r->prompt);
    run_free(r);
}

/* What a form leaves no choice in is right whoever drafts: nobody else writes into its places. */
static void test_forced_tokens_stay(void **state)
{
    (void)state;
    static const char TEXT[] = "so it was written, and so it was read";
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++) {
        draft_world w;
        words form;
        eager s = {.least = 4};
        draft_world_open(&w, *SETTINGS[i], NULL);
        words_open(&form, &w, TEXT);
        weft_engine *e = draft_world_engine(&w, true, (weft_engine_options){0});
        run r = make_run(&w, &form, 0);
        draft_world_eager(&w, &r, &s);
        run_all(e, w.n_vocab, &r, 1);
        assert_int_equal(r.finish, WEFT_FINISH_STOP);
        assert_int_equal(r.n_tokens, strlen(TEXT) + 1);
        for (uint32_t k = 0; k < strlen(TEXT); k++) assert_int_equal(r.tokens[k], TEXT[k]);
        /* Behind the text a graph may guess: the end is not forced. */
        assert_true(r.n_accepted >= 30 && r.n_drafted - r.n_accepted <= 8);
        free_run(&r);
        weft_engine_close(e);
        words_close(&form);
        draft_world_close(&w);
    }
}

/* A model that drafts for itself is right every time, as its guesses are held to the form, too. */
static void test_guesses_have_the_form(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        draft_world w;
        words form;
        eager s = {.least = 3};
        draft_world_open(&w, BY_MODEL, NULL);
        words_open(&form, &w, "([a-f]{2,5} |[0-9]+\\.)*");
        weft_engine *plain = draft_world_engine(&w, false, (weft_engine_options){0});
        weft_engine *e = draft_world_engine(&w, true, (weft_engine_options){0});
        run expected = make_run(&w, &form, seed);
        run r = make_run(&w, &form, seed);
        expected.min_new = r.min_new = r.max_new; /* behind the end no guess is right */
        run_all(plain, w.n_vocab, &expected, 1);
        draft_world_eager(&w, &r, &s);
        run_all(e, w.n_vocab, &r, 1);
        run_assert_identical(&r, &expected, w.n_vocab);
        assert_true(r.n_drafted > 15);
        assert_int_equal(r.n_accepted, r.n_drafted);
        free_run(&expected);
        free_run(&r);
        weft_engine_close(plain);
        weft_engine_close(e);
        words_close(&form);
        draft_world_close(&w);
    }
}

/* Two letters, the end of the answer, and letters again. */
static uint32_t propose_end(void *state, const int32_t *tokens, uint32_t n_tokens, uint32_t most,
                            int32_t *out)
{
    static const int32_t IDS[] = {'a', 'b', END, 'c', 'd'};
    (void)tokens;
    (void)n_tokens;
    uint32_t n = most < COUNT_OF(IDS) ? most : (uint32_t)COUNT_OF(IDS);
    memcpy(out, IDS, n * sizeof *out);
    ++*(uint32_t *)state;
    return n;
}

/* B30: the end of an answer, proposed where it cannot end, is not even verified. */
static void test_b30_no_end_within(void **state)
{
    (void)state;
    static const engine_drafter ENDING = {.name = "ending", .propose = propose_end};
    draft_world w;
    words form;
    uint32_t n_calls = 0;
    draft_world_open(&w, BY_MODEL, NULL);
    words_open(&form, &w, "[a-d]{40}!");
    weft_engine *e = draft_world_engine(&w, false, (weft_engine_options){0});
    run plain = make_run(&w, &form, 3);
    run r = make_run(&w, &form, 3);
    run_all(e, w.n_vocab, &plain, 1);
    r.drafter = &ENDING;
    r.draft_state = &n_calls;
    run_all(e, w.n_vocab, &r, 1);
    run_assert_identical(&r, &plain, w.n_vocab);
    assert_int_equal(r.n_tokens, 42);
    assert_true(n_calls > 10 && r.n_drafted > 0);
    /* "!" and the end are the only ones that are forced. */
    assert_true(r.n_drafted <= 2 * n_calls + 2);
    free_run(&plain);
    free_run(&r);
    weft_engine_close(e);
    words_close(&form);
    draft_world_close(&w);
}

/* A stop id that the form leaves no choice but to take is a token like others before min_new, and
 * ends the answer from there on. */
static void test_stop_id_before_its_time(void **state)
{
    (void)state;
    static const int32_t STOPS[] = {'x'};
    draft_world w;
    words form;
    draft_world_open(&w, BY_MODEL, NULL);
    words_open(&form, &w, "abxabxabxab");
    weft_engine *e = draft_world_engine(&w, false, (weft_engine_options){0});
    for (uint32_t min_new = 0; min_new < 10; min_new++) {
        run r = make_run(&w, &form, 0);
        r.stops = true;
        r.stop_ids = STOPS;
        r.n_stop_ids = 1;
        r.min_new = min_new;
        run_all(e, w.n_vocab, &r, 1);
        assert_int_equal(r.finish, WEFT_FINISH_STOP);
        assert_int_equal(r.n_tokens, min_new < 3 ? 3 : min_new < 6 ? 6 : min_new < 9 ? 9 : 12);
        assert_int_equal(r.stop_id, min_new < 9 ? 'x' : END);
        free_run(&r);
    }
    weft_engine_close(e);
    words_close(&form);
    draft_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forced_tokens_stay),
        cmocka_unit_test(test_guesses_have_the_form),
        cmocka_unit_test(test_b30_no_end_within),
        cmocka_unit_test(test_stop_id_before_its_time),
    };
    return TEST_RUN("engine/constraint_drafts", tests);
}
