/* test_reference.c - trained models against what Transformers and mlx-lm say with them: texts, ids,
 * greedy answers.
 *
 * The quantized tiny models and the draft are in the repository; the 16-bit ones, SmolLM2 and Gemma
 * 3 are tested where they have been fetched (tools/fetch_models.sh) or copied to
 * build/models/tiny. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/real_models.h"
#include "support/runs.h"

static weft_engine *open_f32(const weft_model *model, const char *backend)
{
    weft_engine_options options = {
        .struct_size = sizeof options, .backend = backend, .act = WEFT_ACT_F32, .context = 2048};
    return run_open_engine(model, &options);
}

/* The greedy answer up to the first step where the two best logits of the reference are closer than
 * our own error could be. margins may be NULL: then all of it. */
static void check_greedy(weft_engine *engine, uint32_t n_vocab, const json *prompt_ids,
                         const json *greedy, const json *margins, const json *top)
{
    uint32_t n_prompt;
    uint32_t n_greedy;
    int32_t *prompt = run_ids(prompt_ids, &n_prompt);
    int32_t *expected = run_ids(greedy, &n_greedy);
    run r = {.prompt = prompt, .n_prompt = n_prompt, .max_new = n_greedy};
    run_all(engine, n_vocab, &r, 1);
    const double error = 2e-3;
    for (uint32_t i = 0; i < n_greedy; i++) {
        if (json_number(json_at(margins, i), 1.0) < error) break;
        if (r.tokens[i] != expected[i])
            fail_msg("step %u: %d, expected %d", i, r.tokens[i], expected[i]);
    }
    const json *ids = json_get(top, "ids");
    const json *logits = json_get(top, "logits");
    for (size_t i = 0; i < json_length(ids); i++) {
        double ours = (double)r.new_logits[json_int(json_at(ids, i), 0)];
        double theirs = json_number(json_at(logits, i), 0.0);
        if (fabs(ours - theirs) > error) fail_msg("logit %zu: %g, expected %g", i, ours, theirs);
    }
    run_free(&r);
    free(prompt);
    free(expected);
}

static void check_text(const weft_model *model, const json *messages, const json *rendered,
                       const json *ids)
{
    weft_error err = {WEFT_OK, ""};
    strbuf text;
    strbuf_init(&text, mem_system(), 0);
    assert_ok(json_write(messages, 0, &text), NULL);
    char out[4096];
    size_t n;
    assert_ok(weft_chat_render(model, text.ptr, NULL, 0, out, sizeof out, &n, &err), &err);
    str expected = json_text(rendered);
    assert_int_equal(n, expected.len);
    assert_memory_equal(out, expected.ptr, n);
    int32_t got[2048];
    assert_ok(weft_chat_tokenize(model, text.ptr, NULL, 0, got, 2048, &n, &err), &err);
    assert_int_equal(n, json_length(ids));
    for (size_t i = 0; i < n; i++) assert_int_equal(got[i], json_int(json_at(ids, i), -1));
    strbuf_deinit(&text);
}

/* of: the object of reference.json whose cases hold the answers; texts: the cases that hold the
 * prompts. */
static void check_tiny(const char *path, const json *texts, const json *answers)
{
    weft_model *model = run_open_model(path);
    uint32_t n_vocab = run_n_vocab(model);
    static const char *const BACKENDS[] = {"cpu", "ref"};
    for (size_t b = 0; b < 2; b++) {
        weft_engine *engine = open_f32(model, BACKENDS[b]);
        size_t n = json_length(answers);
        assert_true(n >= 6);
        for (size_t i = 0; i < (b == 0 && !TEST_SLOWED ? n : 1); i++) {
            const json *text = json_at(texts, i);
            check_text(model, json_get(text, "messages"), json_get(text, "rendered"),
                       json_get(text, "prompt_ids"));
            const json *answer = json_at(answers, i);
            /* min_margin below the error anywhere: compare up to the end token only, as the file
             * advises. */
            check_greedy(engine, n_vocab, json_get(text, "prompt_ids"), json_get(answer, "greedy"),
                         NULL, NULL);
        }
        weft_engine_close(engine);
    }
    weft_model_close(model);
}

static void test_tiny_in_repository(void **state)
{
    (void)state;
    json_doc doc = run_read_json(WEFT_SOURCE_DIR "/models/tiny/reference.json");
    const json *models = json_get(doc.root, "models");
    const json *mlx = json_get(doc.root, "mlx");
    const json *target = json_get(json_get(models, "target"), "cases");
    const json *window = json_get(json_get(models, "window"), "cases");
    const json *hybrid = json_get(json_get(models, "hybrid"), "cases");
    const json *draft = json_get(json_get(models, "draft"), "cases");
    check_tiny(WEFT_SOURCE_DIR "/models/tiny/draft", draft, draft);
    check_tiny(WEFT_SOURCE_DIR "/models/tiny/target-mlx8", target,
               json_get(json_get(mlx, "target-mlx8"), "cases"));
    check_tiny(WEFT_SOURCE_DIR "/models/tiny/window-mlx4", window,
               json_get(json_get(mlx, "window-mlx4"), "cases"));
    check_tiny(WEFT_SOURCE_DIR "/models/tiny/hybrid-mlx4", hybrid,
               json_get(json_get(mlx, "hybrid-mlx4"), "cases"));
    json_doc_free(&doc);
}

static void test_tiny_16_bit(void **state)
{
    (void)state;
    json_doc doc = run_read_json(WEFT_SOURCE_DIR "/models/tiny/reference.json");
    static const char *const NAMES[] = {"target", "window", "hybrid"};
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        char path[600];
        snprintf(name, sizeof name, "tiny/%s", NAMES[i]);
        if (run_extra_model(name, path, sizeof path) == NULL) continue;
        const json *cases = json_get(json_get(json_get(doc.root, "models"), NAMES[i]), "cases");
        check_tiny(path, cases, cases);
    }
    json_doc_free(&doc);
}

static void check_ids_of(const weft_model *model, const json *reference)
{
    weft_error err = {WEFT_OK, ""};
    str prompt = json_text(json_get(reference, "prompt"));
    int32_t got[2048];
    size_t n;
    assert_ok(weft_tokenize(model, prompt.ptr, prompt.len, 0, got, 2048, &n, &err), &err);
    const json *ids = json_get(reference, "prompt_ids");
    assert_int_equal(n, json_length(ids));
    for (size_t i = 0; i < n; i++) assert_int_equal(got[i], json_int(json_at(ids, i), -1));
    const json *messages = json_get(reference, "messages");
    if (messages != NULL) check_text(model, messages, json_get(reference, "prompt"), ids);
}

static void check_real(const real_model *real)
{
    char path[600];
    char fixture[600];
    if (run_extra_model(real->file, path, sizeof path) == NULL) return;
    snprintf(fixture, sizeof fixture, "%s/tests/models/fixtures/%s", WEFT_SOURCE_DIR,
             real->fixture);
    json_doc doc = run_read_json(fixture);
    weft_model *model = run_open_model(path);
    weft_engine *engine = open_f32(model, "cpu");
    uint32_t n_vocab = run_n_vocab(model);
    const json *cases = json_get(doc.root, "cases");
    assert_true(json_length(cases) >= 7);
    for (size_t i = 0; i < (TEST_SLOWED ? 1 : json_length(cases)); i++) {
        const json *c = json_at(cases, i);
        if (real->texts) check_ids_of(model, c);
        check_greedy(engine, n_vocab, json_get(c, "prompt_ids"), json_get(c, "greedy"),
                     json_get(c, "margins"), json_get(c, "top8_first"));
    }
    weft_engine_close(engine);
    weft_model_close(model);
    json_doc_free(&doc);
}

static void test_real(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_REAL_MODELS; i++) check_real(&REAL_MODELS[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_in_repository),
        cmocka_unit_test(test_tiny_16_bit),
        cmocka_unit_test(test_real),
    };
    return TEST_RUN("models/reference", tests);
}
