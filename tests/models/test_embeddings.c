/* test_embeddings.c - the checkpoints of tests/golden that make vectors, against what Transformers
 * computes: hidden states of every token, and the vectors of their own pooling; then bit for bit in
 * any company, pieces and number of threads, whatever the pooling. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/io.h"
#include "support/compare.h"
#include "support/runs.h"
#include "support/vectors.h"

enum { TEXTS_MOST = 8 };

/* In units of the root mean square of what is compared; 4.4e-6 is measured. */
static const double BOUND = 2e-5;

typedef struct golden {
    char path[512];
    int32_t *ids, *mask;
    float *hidden, *pooled;
    size_t n_texts, length, width;
    uint32_t n[TEXTS_MOST];
    double off; /* the largest difference so far, in those units */
} golden;

/* False when it is of another kind. */
static bool golden_load(golden *g, const char *name)
{
    char file[600];
    memset(g, 0, sizeof *g);
    snprintf(g->path, sizeof g->path, "%s/%s", WEFT_GOLDEN_DIR, name);
    snprintf(file, sizeof file, "%s/golden.safetensors", g->path);
    size_t n_pooled;
    size_t n_hidden;
    size_t n_ids;
    size_t n_mask;
    g->pooled = run_read_tensor(file, "pooled", &n_pooled);
    if (g->pooled == NULL) return false;
    g->hidden = run_read_tensor(file, "hidden", &n_hidden);
    g->ids = run_read_tensor(file, "input_ids", &n_ids);
    g->mask = run_read_tensor(file, "attention_mask", &n_mask);
    assert_true(g->hidden != NULL && g->ids != NULL && g->mask != NULL && n_mask == n_ids);
    g->width = n_hidden / n_ids;
    g->n_texts = n_pooled / g->width;
    g->length = n_ids / g->n_texts;
    assert_true(g->n_texts > 1 && g->n_texts <= TEXTS_MOST);
    for (size_t i = 0; i < n_ids; i++) g->n[i / g->length] += g->mask[i] != 0;
    return true;
}

static void golden_free(golden *g)
{
    free(g->ids);
    free(g->mask);
    free(g->hidden);
    free(g->pooled);
}

static void near(golden *g, const float *x, const float *expected, size_t n)
{
    double squares = 0.0;
    for (size_t i = 0; i < n; i++) squares += (double)expected[i] * (double)expected[i];
    double unit = sqrt(squares / (double)n);
    assert_floats_near(x, expected, n, BOUND * unit);
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)x[i] - (double)expected[i]) / unit;
        if (off > g->off) g->off = off;
    }
}

static void fill(const golden *g, vectors *texts, weft_pooling pooling, weft_normalize normalize)
{
    memset(texts, 0, g->n_texts * sizeof *texts);
    for (size_t i = 0; i < g->n_texts; i++) {
        texts[i].prompt = g->ids + i * g->length;
        texts[i].n_prompt = g->n[i];
        texts[i].pooling = pooling;
        texts[i].normalize = normalize;
    }
}

static weft_engine *open_engine(const weft_model *model, const char *backend, const char *isa,
                                uint32_t n_threads, uint32_t chunk)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .backend = backend,
                                   .isa = isa,
                                   .act = WEFT_ACT_F32,
                                   .n_threads = n_threads,
                                   .chunk_tokens = chunk};
    return run_open_engine(model, &options);
}

/* One by one, then all at once. */
static void check_on(golden *g, const weft_model *model, const char *backend, const char *isa)
{
    vectors texts[TEXTS_MOST];
    weft_engine *engine = open_engine(model, backend, isa, isa == NULL ? 1 : 2, 0);
    fill(g, texts, WEFT_POOLING_TOKENS, WEFT_NORMALIZE_NO);
    for (size_t i = 0; i < g->n_texts; i++) {
        vectors_run(engine, model, &texts[i], 1);
        near(g, texts[i].rows, g->hidden + i * g->length * g->width, g->n[i] * g->width);
    }
    vectors_free(texts, g->n_texts);
    fill(g, texts, WEFT_POOLING_DEFAULT, WEFT_NORMALIZE_DEFAULT);
    vectors_run(engine, model, texts, g->n_texts);
    for (size_t i = 0; i < g->n_texts; i++)
        near(g, texts[i].rows, g->pooled + i * g->width, g->width);
    vectors_free(texts, g->n_texts);
    weft_engine_close(engine);
}

/* chunk 0: texts of an encoder, which go as they are. */
static void check_same(const golden *g, const weft_model *model, const char *isa, uint32_t chunk)
{
    static const weft_pooling POOLINGS[] = {WEFT_POOLING_LAST, WEFT_POOLING_MEAN,
                                            WEFT_POOLING_FIRST, WEFT_POOLING_TOKENS};
    for (size_t p = 0; p < COUNT_OF(POOLINGS); p++) {
        vectors alone[TEXTS_MOST];
        vectors texts[TEXTS_MOST];
        char what[80];
        weft_engine *engine = open_engine(model, "cpu", isa, 1, 0);
        fill(g, alone, POOLINGS[p], WEFT_NORMALIZE_DEFAULT);
        for (size_t i = 0; i < g->n_texts; i++) vectors_run(engine, model, &alone[i], 1);
        weft_engine_close(engine);
        engine = open_engine(model, "cpu", isa, 2, chunk);
        fill(g, texts, POOLINGS[p], WEFT_NORMALIZE_DEFAULT);
        vectors_run(engine, model, texts, g->n_texts);
        for (size_t i = 0; i < g->n_texts; i++) {
            snprintf(what, sizeof what, "%s, pooling %d, chunks of %u, text %zu", isa,
                     (int)POOLINGS[p], chunk, i);
            vectors_assert_same(&texts[i], &alone[i], what);
        }
        weft_engine_close(engine);
        vectors_free(alone, g->n_texts);
        vectors_free(texts, g->n_texts);
    }
}

static bool check(const char *name)
{
    static const uint32_t CHUNKS[] = {0, 1, 7, 32};
    golden g;
    if (!golden_load(&g, name)) return false;
    weft_model *model = run_open_model(g.path);
    weft_model_info info = {.struct_size = sizeof info};
    assert_ok(weft_model_get_info(model, &info, NULL), NULL);
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    check_on(&g, model, "ref", NULL);
    for (size_t i = 0; i < n_isas; i++) {
        check_on(&g, model, "cpu", isas[i]);
        /* An encoder's chunk is the least that a text fits. */
        if (!info.has_logits) check_same(&g, model, isas[i], (uint32_t)g.length);
        for (size_t k = 0; k < COUNT_OF(CHUNKS) && (k == 0 || info.has_logits); k++)
            check_same(&g, model, isas[i], CHUNKS[k]);
    }
    print_message("golden %s: at most %.2g off\n", name, g.off);
    weft_model_close(model);
    golden_free(&g);
    return true;
}

static void test_every_golden(void **state)
{
    (void)state;
    const io *files = io_system();
    char *names;
    size_t n_bytes;
    weft_error err = {WEFT_OK, ""};
    assert_ok(files->list(files, WEFT_GOLDEN_DIR, mem_system(), &names, &n_bytes, &err), &err);
    size_t n = 0;
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1)
        n += strchr(name, '.') == NULL && check(name);
    mem_free(mem_system(), names, n_bytes);
    assert_true(n >= 2);
}

/* ---- a trained model, where it has been fetched ---------------------------------------------- */

/* Text, ids and numbers; the reference has six places. */
static void check_text(const weft_model *model, weft_engine *engine, const json *c, size_t every)
{
    int32_t got[512];
    size_t n;
    uint32_t n_ids;
    weft_error err = {WEFT_OK, ""};
    str text = json_text(json_get(c, "text"));
    int32_t *ids = run_ids(json_get(c, "ids"), &n_ids);
    assert_ok(weft_tokenize(model, text.ptr, text.len, WEFT_TOKENIZE_SPECIALS, got, COUNT_OF(got),
                            &n, &err),
              &err);
    assert_int_equal(n, n_ids);
    assert_memory_equal(got, ids, n * sizeof *ids);
    vectors v = {.prompt = got, .n_prompt = n_ids};
    vectors_run(engine, model, &v, 1);
    const json *numbers = json_get(c, "numbers");
    assert_int_equal(json_length(numbers), v.cols / every);
    for (size_t i = 0; i < json_length(numbers); i++) {
        double expected = json_number(json_at(numbers, i), 2.0);
        if (fabs((double)v.rows[i * every] - expected) > 2e-6)
            fail_msg("number %zu: %.9g, expected %g", i * every, (double)v.rows[i * every],
                     expected);
    }
    vectors_free(&v, 1);
    free(ids);
}

static void test_minilm(void **state)
{
    (void)state;
    char path[512];
    if (run_extra_model("minilm/model.safetensors", path, sizeof path) == NULL) skip();
    *strrchr(path, '/') = '\0';
    json_doc doc = run_read_json(WEFT_SOURCE_DIR "/tests/models/fixtures/ref_minilm.json");
    size_t every = (size_t)json_int(json_get(doc.root, "every"), 1);
    const json *cases = json_get(doc.root, "cases");
    weft_model *model = run_open_model(path);
    weft_engine *engine = open_engine(model, NULL, NULL, 2, 0);
    assert_true(json_length(cases) > 4);
    for (size_t i = 0; i < json_length(cases); i++)
        check_text(model, engine, json_at(cases, i), every);
    weft_engine_close(engine);
    weft_model_close(model);
    json_doc_free(&doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_golden),
                                       cmocka_unit_test(test_minilm)};
    return TEST_RUN("models/embeddings", tests);
}
