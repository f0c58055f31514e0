/* test_goldens.c - every checkpoint of tests/golden, converted: the logits of what was written are
 * those of the original with each quantized matrix in the place of its own, decoded. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/assert.h"
#include "support/compare.h"
#include "support/runs.h"

enum { PROMPT = 40, NEW = 4, MATRICES = 4096 };

/* The original's matrices, as f32 in memory of our own. */
typedef struct patches {
    float *all[MATRICES];
    uint32_t n;
} patches;

static const tensor *matrix_of(const llm *m, uint32_t slot, uint32_t layer, uint32_t i)
{
    uint32_t bound = m->bound[model_bound_at(&m->params, slot, layer)];
    return bound == 0 ? NULL : &m->tensors[bound - 1 + i];
}

static void put(patches *p, tensor *t, float *values)
{
    assert_true(p->n < MATRICES);
    p->all[p->n++] = values;
    *t = (tensor){.name = t->name,
                  .encoding = &ENCODING_F32,
                  .n_dims = 2,
                  .dims = {t->n_rows, t->n_cols, 1, 1},
                  .n_rows = t->n_rows,
                  .n_cols = t->n_cols,
                  .planes = {(const unsigned char *)values},
                  .plane_bytes = {t->n_rows * t->n_cols * sizeof(float)},
                  .row_bytes = {t->n_cols * sizeof(float)}};
}

/* written is what the matrix became, turned where the slot says so. */
static void patch(patches *p, tensor *t, const tensor *written, bool turned)
{
    size_t n = (size_t)(t->n_rows * t->n_cols);
    float *values = malloc(n * sizeof *values);
    float *decoded = malloc(n * sizeof *decoded);
    assert_true(values != NULL && decoded != NULL);
    assert_int_equal(written->n_rows * written->n_cols, n);
    tensor_decode(written, decoded);
    for (size_t i = 0; i < n; i++) {
        size_t row = i / t->n_cols;
        size_t col = i % t->n_cols;
        values[i] = decoded[turned ? col * t->n_rows + row : i];
    }
    free(decoded);
    put(p, t, values);
}

static void patch_all(patches *p, llm *source, const llm *written)
{
    const model_family *family = source->family;
    for (uint32_t slot = 0; slot < family->n_slots; slot++) {
        const model_slot *s = &family->slots[slot];
        bool vectors = s->rows == SHAPE(one) && s->stack != NULL;
        bool turned = (s->mlx & MLX_TURNED) != 0;
        uint32_t n = s->stack == NULL ? 1 : model_field(&source->params, s->stack->count);
        if (s->rows == SHAPE_NONE || s->squeeze || vectors || s->place == SLOT_DRAFT) continue;
        for (uint32_t layer = 0; layer < source->params.n_layers; layer++) {
            for (uint32_t i = 0; i < n && matrix_of(source, slot, layer, 0) != NULL; i++) {
                const tensor *to = matrix_of(written, turned ? s->unless : slot, layer, i);
                uint32_t bound = source->bound[model_bound_at(&source->params, slot, layer)];
                assert_non_null(to);
                patch(p, &source->tensors[bound - 1 + i], to, turned);
            }
        }
    }
}

static run answer(const weft_model *model, const char *on, const char *isa, const int32_t *ids)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .backend = on,
                                   .isa = isa,
                                   .act = WEFT_ACT_F32,
                                   .n_threads = 2,
                                   .max_outputs = PROMPT};
    weft_engine *engine = run_open_engine(model, &options);
    run r = {.prompt = ids, .n_prompt = PROMPT, .max_new = NEW, .want_prompt_logits = true};
    run_all(engine, run_n_vocab(model), &r, 1);
    weft_engine_close(engine);
    return r;
}

/* Whether a model that sees images reads the id as its padding: one without images, as is written,
 * reads it as any other. */
static bool is_placeholder(const llm *m, int32_t id)
{
    const llm_tower *t = &m->tower;
    const int32_t *of = t->params.image.placeholders;
    return t->family != NULL && (id == of[0] || id == of[1] || id == of[2]);
}

/* New tokens up to the first placeholder. */
static uint32_t n_comparable(const llm *m, const int32_t *tokens)
{
    uint32_t n = 1;
    while (n < NEW && !is_placeholder(m, tokens[n - 1])) n++;
    return n;
}

/* Of the logits' standard deviation; 2e-3 is what a golden may differ by, 3.0e-5 is measured, of
 * hybrids with experts 1.5e-4. */
static double worst, bound;

static void check_near(const llm *original, const run *got, const run *expected)
{
    uint32_t n_vocab = original->params.n_vocab;
    size_t n = (size_t)PROMPT * n_vocab;
    double scale = compare_deviation(expected->prompt_logits, n);
    double difference = compare_max_abs(got->prompt_logits, expected->prompt_logits, n, NULL);
    assert_true(scale > 0.0 && !isnan(difference));
    if (difference / scale > worst) worst = difference / scale;
    assert_true(difference <= bound * scale);
    uint32_t n_new = n_comparable(original, expected->tokens);
    assert_memory_equal(got->tokens, expected->tokens, n_new * sizeof(int32_t));
}

/* A config that says how the matrices of one of these are stored. */
typedef struct form {
    const char *mode;
    uint32_t bits, group;
} form;

/* How many matrices were quantized, and how many not, as groups do not divide their columns. */
typedef struct counts {
    uint64_t quantized, whole;
} counts;

static counts check_form(const char *source, const form *f, const int32_t *ids)
{
    test_folder folder;
    weft_error err = {WEFT_OK, ""};
    patches *p = calloc(1, sizeof *p);
    assert_non_null(p);
    test_folder_create(&folder);
    const char *target = test_folder_path(&folder, "to");
    /* f32: a norm weight that 1 was added to keeps its bits. */
    weft_convert_options options = {.struct_size = sizeof options,
                                    .mode = f->mode,
                                    .bits = f->bits,
                                    .group = f->group,
                                    .type = "f32",
                                    .n_threads = 2};
    weft_conversion result = {.struct_size = sizeof result};
    assert_ok(weft_convert(source, target, &options, &result, &err), &err);
    weft_model *original = run_open_model(source);
    weft_model *written = run_open_model(target);
    patch_all(p, original->model, written->model);
    run expected = answer(original, "ref", NULL, ids);
    run got = answer(written, "ref", NULL, ids);
    check_near(original->model, &got, &expected);
    run_free(&got);
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t i = 0; i < n_isas; i++) {
        got = answer(written, "cpu", isas[i], ids);
        check_near(original->model, &got, &expected);
        run_free(&got);
    }
    run_free(&expected);
    weft_model_close(original);
    weft_model_close(written);
    for (uint32_t i = 0; i < p->n; i++) free(p->all[i]);
    free(p);
    test_folder_remove(&folder);
    return (counts){result.n_quantized, result.n_whole};
}

/* Goldens that are not converted, and why. */
static const struct {
    const char *name, *reason;
} LEFT_OUT[] = {{"bert", "an encoder; mlx-lm has none"},
                {"gemma4-assistant/assistant", "no model of its own; mlx-lm has none"},
                {"gemma4-assistant/assistant-centroid", "no model of its own; mlx-lm has none"}};

/* What is not on the list must be converted, what is on it refused. */
static bool is_left_out(const char *name, const char *source)
{
    bool listed = false;
    for (size_t i = 0; i < COUNT_OF(LEFT_OUT); i++) {
        if (strcmp(LEFT_OUT[i].name, name) != 0) continue;
        weft_error err = {WEFT_OK, ""};
        assert_status(WEFT_UNSUPPORTED, weft_convert(source, "not-written", NULL, NULL, &err),
                      &err);
        print_message("golden %s: %s\n", name, LEFT_OUT[i].reason);
        listed = true;
    }
    return listed;
}

/* Groups of 32 do not divide the columns of narrow goldens: these have groups of 16, too. Other
 * modes once: they differ in nothing that a family decides. */
static void check(const char *name, const char *source)
{
    enum { USUAL = 2, NARROW = 3 };
    static const form FORMS[] = {{"affine", 4, 32}, {"affine", 8, 32}, {"nvfp4", 0, 0},
                                 {"affine", 8, 64}, {"mxfp4", 0, 0},   {"mxfp8", 0, 0}};
    weft_model *model = run_open_model(source);
    int32_t *ids = run_random_ids(PROMPT, run_n_vocab(model), 7);
    weft_model_close(model);
    counts first = check_form(source, &FORMS[0], ids);
    uint64_t n_quantized = first.quantized;
    size_t n = TEST_SLOWED ? 1 : first.whole > 0 ? NARROW : USUAL;
    if (strcmp(name, "llama") == 0) n = COUNT_OF(FORMS);
    for (size_t i = 1; i < n; i++) n_quantized += check_form(source, &FORMS[i], ids).quantized;
    assert_true(TEST_SLOWED || n_quantized > 0);
    free(ids);
}

static void test_every_golden(void **state)
{
    (void)state;
    char *names = run_checkpoints(WEFT_GOLDEN_DIR);
    size_t n = 0;
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1) {
        worst = 0.0;
        bound =
            strncmp(name, "qwen3_5", 7) == 0 || strncmp(name, "qwen3_next", 10) == 0 ? 4e-4 : 1e-4;
        char source[512];
        snprintf(source, sizeof source, "%s/%s", WEFT_GOLDEN_DIR, name);
        n++;
        if (is_left_out(name, source)) continue;
        print_message("golden %s: ", name); /* before it fails */
        check(name, source);
        print_message("at most %.2g\n", worst);
    }
    free(names);
    assert_true(n >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_golden)};
    return TEST_RUN("convert/goldens", tests);
}
