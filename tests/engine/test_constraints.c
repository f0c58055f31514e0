/* test_constraints.c - answers that must be something: they are, whatever the model would rather
 * say, and the same alone, in company, with drafts and without. */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "support/fault.h"
#include "support/runs.h"

#define TARGET WEFT_SOURCE_DIR "/models/tiny/target-mlx8"

enum { CONTEXT = 512, SEEDS = 6 };

static const char SCHEMA[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":20},"
    "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},"
    "\"kind\":{\"enum\":[\"cat\",\"dog\",\"something else altogether\"]},"
    "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"maxItems\":3}},"
    "\"required\":[\"name\",\"age\",\"kind\",\"tags\"],\"additionalProperties\":false}";

static const char RULES[] = "root ::= \"<\" item (\", \" item){0,4} \">\"\n"
                            "item ::= [a-z]{1,4} | \"(\" item \")\"\n";

/* Thoughts, then calls with control tokens around them, which are not in the text, then a word. */
static const char PARTS[] =
    "{\"all\":[{\"text\":\"<think>\"},{\"until\":\"</think>\",\"max_chars\":30},"
    "{\"repeat\":{\"all\":[{\"text\":\"<|system|>call:\"},{\"schema\":{\"enum\":[\"one\",\"two\"]}}"
    ","
    "{\"text\":\"<|user|>\"}]},\"min\":1,\"max\":3},{\"optional\":{\"regex\":\"[a-z]{2,9}\"}},"
    "{\"text\":\"<|end|>\"}]}";

typedef struct form {
    weft_grammar_kind kind;
    const char *text;
    const char *pattern; /* of POSIX, that the answer matches; NULL: it is an object as in SCHEMA */
} form;

static const form FORMS[] = {
    {WEFT_GRAMMAR_SCHEMA, SCHEMA, NULL},
    {WEFT_GRAMMAR_REGEX, "[0-9]{3}-[0-9]{4} (yes|no)", "^[0-9]{3}-[0-9]{4} (yes|no)$"},
    {WEFT_GRAMMAR_CHOICE, "[\"one of these\", \"one or two\", \"x\"]",
     "^(one of these|one or two|x)$"},
    {WEFT_GRAMMAR_RULES, RULES, "^<[a-z(][a-z()]*(, [a-z(][a-z()]*)*>$"},
    {WEFT_GRAMMAR_PARTS, PARTS, "^<think>.*</think>(call:\"(one|two)\"){1,3}([a-z]{2,9})?$"},
};
enum { N_FORMS = sizeof FORMS / sizeof FORMS[0] };

static weft_grammar *open_form(const weft_model *model, const form *f)
{
    weft_error err = {WEFT_OK, ""};
    weft_grammar *g;
    assert_ok(weft_grammar_open(model, f->kind, f->text, strlen(f->text), &g, &err), &err);
    return g;
}

static weft_engine *open_engine(const weft_model *model, uint32_t max_drafts)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .n_threads = 2,
                                   .context = CONTEXT,
                                   .max_sequences = 4,
                                   .max_drafts = max_drafts};
    return run_open_engine(model, &options);
}

static void check_object(const char *text)
{
    json_doc doc = {NULL};
    weft_error err = {WEFT_OK, ""};
    static const char *const KINDS[] = {"cat", "dog", "something else altogether"};
    assert_ok(json_parse(&doc, text, strlen(text), &err), &err);
    const json *kind = json_get(doc.root, "kind");
    const json *age = json_get(doc.root, "age");
    assert_non_null(json_get(doc.root, "name"));
    assert_non_null(json_get(doc.root, "tags"));
    assert_true(json_number(age, -1.0) >= 0.0 && json_number(age, -1.0) <= 150.0);
    bool known = false;
    for (size_t i = 0; i < 3; i++) known = known || str_equal(json_text(kind), str_of(KINDS[i]));
    assert_true(known);
    json_doc_free(&doc);
}

static void check_form(const form *f, const run *r)
{
    print_message("%s\n", r->text);
    assert_int_equal(r->finish, WEFT_FINISH_STOP);
    if (f->pattern == NULL) {
        check_object(r->text);
        return;
    }
    regex_t pattern;
    assert_int_equal(regcomp(&pattern, f->pattern, REG_EXTENDED | REG_NOSUB), 0);
    assert_int_equal(regexec(&pattern, r->text, 0, NULL, 0), 0);
    regfree(&pattern);
}

static run ask(const int32_t *ids, const weft_grammar *g, uint64_t seed)
{
    run r = {.prompt = ids,
             .n_prompt = 12,
             .max_new = 300,
             .stops = true,
             .flags = WEFT_REQUEST_TEXT,
             .grammar = g};
    if (seed > 0) r.sampling = (weft_sampling){.temperature = 1.2F, .top_p = 0.98F, .seed = seed};
    return r;
}

static void test_answers_have_their_form(void **state)
{
    (void)state;
    weft_model *model = run_open_model(TARGET);
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(12, n_vocab, 3);
    weft_engine *plain = open_engine(model, WEFT_NO_DRAFTS);
    weft_engine *drafting = open_engine(model, 0);
    uint32_t n_forced = 0;
    for (size_t i = 0; i < N_FORMS; i++) {
        weft_grammar *g = open_form(model, &FORMS[i]);
        run alone[SEEDS];
        run together[SEEDS];
        for (uint32_t k = 0; k < SEEDS; k++) {
            alone[k] = ask(ids, g, k);
            together[k] = ask(ids, g, k);
            if (k % 2 == 0) together[k].draft = "ngram";
            run_all(plain, n_vocab, &alone[k], 1);
            check_form(&FORMS[i], &alone[k]);
        }
        run_all(drafting, n_vocab, together, SEEDS);
        for (uint32_t k = 0; k < SEEDS; k++) {
            run_assert_identical(&together[k], &alone[k], n_vocab);
            assert_string_equal(together[k].text, alone[k].text);
            n_forced += together[k].n_accepted;
            run_free(&alone[k]);
            run_free(&together[k]);
        }
        weft_grammar_close(g);
    }
    print_message("%u forced tokens\n", n_forced);
    assert_true(n_forced > 20);
    weft_engine_close(plain);
    weft_engine_close(drafting);
    weft_model_close(model);
    free(ids);
}

/* A grammar ends an answer, whatever else was said of its end; and goes on when it was closed. */
static void test_the_end_is_the_grammars(void **state)
{
    (void)state;
    weft_model *model = run_open_model(TARGET);
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(12, n_vocab, 3);
    weft_engine *e = open_engine(model, 0);
    weft_grammar *g = open_form(model, &FORMS[2]);
    run r = ask(ids, g, 1);
    r.stops = false;
    r.min_new = 100;
    run_submit(e, n_vocab, &r);
    weft_grammar_close(g);
    weft_error err = {WEFT_OK, ""};
    uint32_t n_active;
    do {
        assert_ok(weft_step(e, &n_active, &err), &err);
    } while (n_active > 0);
    run_collect(e, &r);
    check_form(&FORMS[2], &r);
    run_free(&r);
    weft_engine_close(e);
    weft_model_close(model);
    free(ids);
}

/* min_new holds where something may follow, also with IGNORE_STOP. */
static void test_no_end_before_its_time(void **state)
{
    (void)state;
    static const form LETTERS = {WEFT_GRAMMAR_REGEX, "[a-z .]*", "^[a-z .]*$"};
    weft_model *model = run_open_model(TARGET);
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(12, n_vocab, 3);
    weft_engine *e = open_engine(model, 0);
    weft_grammar *g = open_form(model, &LETTERS);
    for (uint32_t i = 0; i < 24; i++) {
        run r = ask(ids, g, 1 + i / 2);
        r.stops = i % 2 == 0;
        r.min_new = 40;
        r.max_new = 60;
        r.sampling.temperature = 1.5F;
        run_all(e, n_vocab, &r, 1);
        assert_true(r.n_tokens >= 40);
        run_free(&r);
    }
    weft_grammar_close(g);
    weft_engine_close(e);
    weft_model_close(model);
    free(ids);
}

static void test_refusals(void **state)
{
    (void)state;
    weft_model *model = run_open_model(TARGET);
    weft_model *other = run_open_model(TARGET);
    weft_model *without = run_open_model(GOLDEN_PATH("llama"));
    weft_error err = {WEFT_OK, ""};
    weft_grammar *g;
    static const struct {
        weft_grammar_kind kind;
        const char *text;
    } WRONG[] = {{WEFT_GRAMMAR_SCHEMA, ""},
                 {WEFT_GRAMMAR_SCHEMA, "{\"type\":\"strange\"}"},
                 {WEFT_GRAMMAR_SCHEMA, "{\"properties\":{\"foo\":\"bar\"}}"},
                 {WEFT_GRAMMAR_SCHEMA, "{\"pattern\":\"^a\\\\!$(\"}"},
                 {WEFT_GRAMMAR_REGEX, "("},
                 {WEFT_GRAMMAR_REGEX, ""},
                 {WEFT_GRAMMAR_CHOICE, "[]"},
                 {WEFT_GRAMMAR_RULES, "root ::= missing"},
                 {(weft_grammar_kind)9, "x"}};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        const char *text = WRONG[i].text;
        weft_status status = weft_grammar_open(model, WRONG[i].kind, text, strlen(text), &g, &err);
        assert_true(status != WEFT_OK && status != WEFT_NOMEM && err.message[0] != '\0');
        assert_null(g);
    }
    assert_status(WEFT_UNSUPPORTED,
                  weft_grammar_open(without, WEFT_GRAMMAR_REGEX, "a", 1, &g, &err), &err);
    assert_message(&err, "tokenizer");
    g = open_form(other, &FORMS[1]);
    weft_engine *e = open_engine(model, 0);
    static const int32_t PROMPT[] = {5, 6};
    weft_request r = {.struct_size = sizeof r,
                      .prompt = PROMPT,
                      .n_prompt = 2,
                      .max_new = 4,
                      .sampling = {.top_p = 1.0F},
                      .grammar = g};
    weft_handle handle;
    assert_status(WEFT_ARGUMENT, weft_submit(e, &r, &handle, &err), &err);
    assert_message(&err, "the grammar is one of another model");
    weft_engine_close(e);
    weft_grammar_close(g);
    weft_grammar_close(NULL);
    weft_model_close(model);
    weft_model_close(other);
    weft_model_close(without);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void test_a_step_allocates_nothing(void **state)
{
    (void)state;
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    weft_error err = {WEFT_OK, ""};
    weft_model_options model_options = {.struct_size = sizeof model_options,
                                        .allocator = &fault.allocator};
    weft_model *model;
    assert_ok(weft_model_open(TARGET, &model_options, &model, &err), &err);
    weft_engine *e = open_engine(model, 0);
    weft_grammar *g = open_form(model, &FORMS[0]);
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(12, n_vocab, 3);
    run r = ask(ids, g, 2);
    run_submit(e, n_vocab, &r);
    uint32_t n_active;
    for (int i = 0; i < 3; i++) assert_ok(weft_step(e, &n_active, &err), &err);
    fault.armed = true;
    for (int i = 0; i < 20; i++) assert_ok(weft_step(e, &n_active, &err), &err);
    fault.armed = false;
    while (n_active > 0) assert_ok(weft_step(e, &n_active, &err), &err);
    run_collect(e, &r);
    check_form(&FORMS[0], &r);
    run_free(&r);
    weft_grammar_close(g);
    weft_engine_close(e);
    weft_model_close(model);
    fault_allocator_check(&fault);
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_have_their_form),
        cmocka_unit_test(test_the_end_is_the_grammars),
        cmocka_unit_test(test_no_end_before_its_time),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_step_allocates_nothing),
    };
    return TEST_RUN("engine/constraints", tests);
}
