/* test_embed.c - requests for vectors beside others: the same bits in any company, with what was
 * kept of earlier requests and without; what is refused; memory that fails; and that no step asks
 * for any. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/assert.h"
#include "support/fault.h"
#include "support/golden_copy.h"
#include "support/runs.h"
#include "support/vectors.h"

#define DRAFT WEFT_SOURCE_DIR "/models/tiny/draft"

static weft_engine *open_engine(const weft_model *model, uint32_t n_threads, uint32_t chunk)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .n_threads = n_threads,
                                   .context = 256,
                                   .chunk_tokens = chunk};
    return run_open_engine(model, &options);
}

/* ---- company and caches ---- */

enum { N_TEXTS = 3 };

static const uint32_t LENGTHS[N_TEXTS] = {40, 1, 23};

static void fill(vectors *texts, int32_t *const ids[N_TEXTS], weft_pooling pooling)
{
    memset(texts, 0, N_TEXTS * sizeof *texts);
    for (uint32_t i = 0; i < N_TEXTS; i++) {
        texts[i].prompt = ids[i];
        texts[i].n_prompt = LENGTHS[i];
        texts[i].pooling = pooling;
    }
}

/* Beside answers that are sampled meanwhile, which have the tokens that they have alone. */
static void check_company(const weft_model *model, int32_t *const ids[N_TEXTS],
                          const vectors *alone, weft_pooling pooling)
{
    uint32_t n_vocab = run_n_vocab(model);
    weft_engine *engine = open_engine(model, 2, 5);
    run plain = {.prompt = ids[0], .n_prompt = 17, .max_new = 20};
    run beside = plain;
    run_all(engine, n_vocab, &plain, 1);
    vectors texts[N_TEXTS];
    /* The second time last tokens begin with what the first left. */
    for (uint32_t time = 0; time < 2; time++) {
        fill(texts, ids, pooling);
        run_submit(engine, n_vocab, &beside);
        vectors_run(engine, model, texts, N_TEXTS);
        run_collect(engine, &beside);
        run_assert_identical(&beside, &plain, n_vocab);
        run_free(&beside);
        for (uint32_t i = 0; i < N_TEXTS; i++) {
            vectors_assert_same(&texts[i], &alone[i], time == 0 ? "in company" : "again");
            bool found = pooling == WEFT_POOLING_LAST && (time == 1 || i == 0) && i != 1;
            assert_true((texts[i].n_cached > 0) == found);
        }
        vectors_free(texts, N_TEXTS);
    }
    run_free(&plain);
    weft_engine_close(engine);
}

static void test_company_and_caches(void **state)
{
    (void)state;
    weft_model *model = run_open_model(DRAFT);
    int32_t *ids[N_TEXTS];
    for (uint32_t i = 0; i < N_TEXTS; i++)
        ids[i] = run_random_ids(LENGTHS[i], run_n_vocab(model), 300 + i);
    for (weft_pooling p = WEFT_POOLING_LAST; p <= WEFT_POOLING_TOKENS; p++) {
        vectors alone[N_TEXTS];
        fill(alone, ids, p);
        weft_engine *engine = open_engine(model, 1, 0);
        for (uint32_t i = 0; i < N_TEXTS; i++) vectors_run(engine, model, &alone[i], 1);
        weft_engine_close(engine);
        check_company(model, ids, alone, p);
        vectors_free(alone, N_TEXTS);
    }
    for (uint32_t i = 0; i < N_TEXTS; i++) free(ids[i]);
    weft_model_close(model);
}

/* ---- what a vector is ---- */

/* Pooling and length, from the vectors of all tokens; the first numbers alone. */
static void test_what_vectors_are(void **state)
{
    (void)state;
    weft_model *model = run_open_model(DRAFT);
    int32_t *ids = run_random_ids(9, run_n_vocab(model), 5);
    weft_engine *engine = open_engine(model, 1, 0);
    vectors v[] = {
        {.pooling = WEFT_POOLING_TOKENS, .normalize = WEFT_NORMALIZE_NO},
        {.pooling = WEFT_POOLING_LAST, .normalize = WEFT_NORMALIZE_NO},
        {.pooling = WEFT_POOLING_FIRST, .normalize = WEFT_NORMALIZE_NO},
        {.pooling = WEFT_POOLING_MEAN, .normalize = WEFT_NORMALIZE_NO},
        {.pooling = WEFT_POOLING_MEAN, .normalize = WEFT_NORMALIZE_YES, .n_embedding = 7},
    };
    enum { ALL, LAST, FIRST, MEAN, SHORT, N };
    for (uint32_t i = 0; i < N; i++) {
        v[i].prompt = ids;
        v[i].n_prompt = 9;
    }
    vectors_run(engine, model, v, N);
    size_t cols = v[ALL].cols;
    assert_memory_equal(v[LAST].rows, v[ALL].rows + 8 * cols, cols * sizeof(float));
    assert_memory_equal(v[FIRST].rows, v[ALL].rows, cols * sizeof(float));
    double squares = 0.0;
    for (size_t c = 0; c < cols; c++) {
        double sum = 0.0;
        for (size_t i = 0; i < 9; i++) sum += (double)v[ALL].rows[i * cols + c];
        assert_true(v[MEAN].rows[c] == (float)(sum / 9.0));
        if (c < 7) squares += (double)v[MEAN].rows[c] * (double)v[MEAN].rows[c];
    }
    for (size_t c = 0; c < 7; c++)
        assert_true(v[SHORT].rows[c] == (float)((double)v[MEAN].rows[c] / sqrt(squares)));
    vectors_free(v, N);
    weft_engine_close(engine);
    free(ids);
    weft_model_close(model);
}

/* ---- what is refused ---- */

static const int32_t IDS[40] = {5, 9, 2, 77, 31, 8, 100, 3, 4, 6};

static void refused(weft_engine *engine, weft_request r, weft_status expected, const char *part)
{
    weft_error err = {WEFT_OK, ""};
    weft_handle handle = 1;
    r.struct_size = sizeof r;
    r.prompt = IDS;
    r.sampling.top_p = 1.0F;
    if (r.n_prompt == 0) r.n_prompt = 10;
    assert_status(expected, weft_submit(engine, &r, &handle, &err), &err);
    assert_int_equal(handle, 0);
    if (strstr(err.message, part) == NULL) fail_msg("'%s' without '%s'", err.message, part);
}

static void test_refused(void **state)
{
    (void)state;
    static float to[40 * 256];
    weft_model *model = run_open_model(DRAFT);
    weft_engine *e = open_engine(model, 1, 0);
    weft_model_info info = {.struct_size = sizeof info};
    assert_ok(weft_model_get_info(model, &info, NULL), NULL);
    assert_true(info.has_logits);
    assert_int_equal(info.pooling, WEFT_POOLING_LAST);
    assert_int_equal(info.normalize, WEFT_NORMALIZE_YES);
    const weft_status bad = WEFT_ARGUMENT;
    refused(e, (weft_request){.embedding = to, .max_new = 3}, bad, "max_new is 3, expected 0");
    refused(e, (weft_request){.embedding = to, .n_embedding = info.n_embd + 1}, bad, "n_embedding");
    refused(e, (weft_request){.embedding = to, .pooling = (weft_pooling)5}, bad, "pooling is 5");
    refused(e, (weft_request){.embedding = to, .normalize = (weft_normalize)3}, bad,
            "normalize is 3");
    refused(e, (weft_request){.pooling = WEFT_POOLING_MEAN}, bad, "embedding is NULL, and pooling");
    refused(e, (weft_request){.normalize = WEFT_NORMALIZE_NO}, bad, "and normalize is set");
    refused(e, (weft_request){.n_embedding = 1}, bad, "and n_embedding is set");
    weft_engine_close(e);
    weft_model_close(model);
}

static void test_encoders_refuse(void **state)
{
    (void)state;
    static float to[40 * 256];
    weft_model *model = run_open_model(GOLDEN_PATH("bert"));
    weft_model_info info = {.struct_size = sizeof info};
    assert_ok(weft_model_get_info(model, &info, NULL), NULL);
    assert_false(info.has_logits);
    assert_int_equal(info.pooling, WEFT_POOLING_MEAN);
    weft_engine_options options = {
        .struct_size = sizeof options, .n_threads = 1, .chunk_tokens = 12};
    weft_engine *e = run_open_engine(model, &options);
    refused(e, (weft_request){.max_new = 1}, WEFT_UNSUPPORTED, "family bert makes no logits");
    refused(e, (weft_request){.prompt_logits = to}, WEFT_UNSUPPORTED, "makes no logits");
    refused(e, (weft_request){.embedding = to, .n_prompt = 13}, WEFT_LIMIT,
            "the text has 13 tokens, which see each other and go through one step, of at most 12");
    refused(e, (weft_request){.embedding = to, .kv = "affine8g32,start=9"}, WEFT_UNSUPPORTED,
            "start= cuts a text");
    weft_engine_close(e);
    /* Without chunk_tokens, as long as the model allows. */
    options.chunk_tokens = 0;
    e = run_open_engine(model, &options);
    vectors v = {.prompt = IDS, .n_prompt = 40, .kv = "q8_0"};
    weft_error err = {WEFT_OK, ""};
    weft_handle handle;
    weft_request r = {
        .struct_size = sizeof r, .prompt = IDS, .n_prompt = 40, .embedding = to, .kv = "nonsense"};
    assert_status(WEFT_ARGUMENT, weft_submit(e, &r, &handle, &err), &err);
    v.kv = "bf16";
    vectors_run(e, model, &v, 1);
    vectors_free(&v, 1);
    weft_engine_close(e);
    weft_model_close(model);
}

/* ---- texts of an encoder wait for a step that they fit ---- */

static void test_encoders_take_turns(void **state)
{
    (void)state;
    enum { N = 5 };
    static const uint32_t N_TOKENS[N] = {7, 12, 1, 11, 3};
    weft_model *model = run_open_model(GOLDEN_PATH("bert"));
    weft_engine_options options = {
        .struct_size = sizeof options, .n_threads = 1, .chunk_tokens = 12};
    weft_engine *e = run_open_engine(model, &options);
    static float to[N][256];
    weft_handle handles[N];
    weft_error err = {WEFT_OK, ""};
    for (uint32_t i = 0; i < N; i++) {
        weft_request r = {.struct_size = sizeof r,
                          .prompt = IDS,
                          .n_prompt = N_TOKENS[i],
                          .sampling = {.top_p = 1.0F},
                          .embedding = to[i]};
        assert_ok(weft_submit(e, &r, &handles[i], &err), &err);
    }
    /* 7; 12; 1 + 11; 3: in the order of their coming, as many as fit. */
    static const uint32_t LEFT[] = {4, 3, 1, 0};
    for (uint32_t step = 0; step < COUNT_OF(LEFT); step++) {
        uint32_t n_active;
        assert_ok(weft_step(e, &n_active, &err), &err);
        assert_int_equal(n_active, LEFT[step]);
    }
    for (uint32_t i = 0; i < N; i++) assert_ok(weft_release(e, handles[i], &err), &err);
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(e, &info, &err), &err);
    assert_int_equal(info.kv_bytes_live, 0);
    assert_int_equal(info.kv_bytes_cached, 0);
    weft_engine_close(e);
    weft_model_close(model);
}

/* ---- numbers that are none ---- */

/* The last norm's bias is not a number: the request ends, and the next is served. */
static void test_not_a_number(void **state)
{
    (void)state;
    golden_copy s;
    golden_copy_open(&s, "bert");
    test_folder folder;
    test_folder_create(&folder);
    golden_write_config(&s, &folder, NULL);
    safetensors_builder b;
    safetensors_init(&b);
    static const char LAST[] = "encoder.layer.2.output.LayerNorm.bias";
    for (uint32_t i = 0; i < s.w->n_tensors; i++) {
        const tensor *t = &s.w->tensors[i];
        if (strcmp(t->name, LAST) != 0) {
            golden_add(&b, t->name, t);
            continue;
        }
        uint16_t numbers[1024];
        for (uint32_t c = 0; c < t->n_cols; c++) numbers[c] = 0x7fc0;
        safetensors_add(&b, LAST, "BF16", t->dims, 1, numbers, (size_t)t->n_cols * 2);
    }
    safetensors_write(&b, &folder, "model.safetensors");
    safetensors_deinit(&b);
    weft_model *model = run_open_model(folder.path);
    weft_engine_options options = {.struct_size = sizeof options, .n_threads = 1};
    weft_engine *e = run_open_engine(model, &options);
    static float to[256];
    weft_error err = {WEFT_OK, ""};
    for (uint32_t i = 0; i < 2; i++) {
        weft_handle handle;
        weft_event event = {.struct_size = sizeof event};
        uint32_t n_active = 1;
        weft_request r = {.struct_size = sizeof r,
                          .prompt = IDS,
                          .n_prompt = 10,
                          .sampling = {.top_p = 1.0F},
                          .embedding = to,
                          .pooling = i == 0 ? WEFT_POOLING_MEAN : WEFT_POOLING_LAST};
        assert_ok(weft_submit(e, &r, &handle, &err), &err);
        while (n_active > 0) assert_ok(weft_step(e, &n_active, &err), &err);
        assert_ok(weft_poll(e, handle, &event, &err), &err);
        assert_int_equal(event.kind, WEFT_EVENT_DONE);
        assert_int_equal(event.finish, WEFT_FINISH_ERROR);
        assert_int_equal(event.error.status, WEFT_FORMAT);
        assert_non_null(strstr(event.error.message, "not a finite number"));
        assert_ok(weft_release(e, handle, &err), &err);
    }
    weft_engine_close(e);
    weft_model_close(model);
    test_folder_remove(&folder);
    golden_copy_close(&s);
}

/* ---- a request that is given up ---- */

/* What lies there when it is released stays; its memory goes (the sweep counts). */
static void test_released_on_the_way(void **state)
{
    (void)state;
    static float to[40 * 1024];
    static float before[40 * 1024];
    weft_model *model = run_open_model(DRAFT);
    weft_engine *e = open_engine(model, 1, 4);
    weft_error err = {WEFT_OK, ""};
    for (weft_pooling p = WEFT_POOLING_LAST; p <= WEFT_POOLING_TOKENS; p++) {
        weft_handle handle;
        uint32_t n_active;
        weft_request r = {.struct_size = sizeof r,
                          .flags = WEFT_REQUEST_NO_CACHE,
                          .prompt = IDS,
                          .n_prompt = 40,
                          .sampling = {.top_p = 1.0F},
                          .embedding = to,
                          .pooling = p};
        memset(to, 0, sizeof to);
        assert_ok(weft_submit(e, &r, &handle, &err), &err);
        for (uint32_t i = 0; i < 3; i++) assert_ok(weft_step(e, &n_active, &err), &err);
        assert_int_equal(n_active, 1);
        memcpy(before, to, sizeof to);
        assert_ok(weft_release(e, handle, &err), &err);
        for (uint32_t i = 0; i < 3; i++) assert_ok(weft_step(e, &n_active, &err), &err);
        assert_int_equal(n_active, 0);
        assert_memory_equal(before, to, sizeof to);
    }
    weft_engine_close(e);
    weft_model_close(model);
}

/* ---- memory ---- */

typedef struct sweep_case {
    const char *path;
    weft_pooling pooling;
} sweep_case;

static weft_status embed(weft_engine *engine, weft_pooling pooling, weft_error *err)
{
    static float to[20 * 1024];
    weft_request r = {.struct_size = sizeof r,
                      .prompt = IDS,
                      .n_prompt = 20,
                      .sampling = {.top_p = 1.0F},
                      .flags = WEFT_REQUEST_NO_CACHE,
                      .embedding = to,
                      .pooling = pooling};
    weft_handle handle;
    weft_event event = {.struct_size = sizeof event};
    weft_status status = weft_submit(engine, &r, &handle, err);
    uint32_t n_active = 1;
    while (status == WEFT_OK && n_active > 0) status = weft_step(engine, &n_active, err);
    while (status == WEFT_OK && event.kind != WEFT_EVENT_DONE)
        status = weft_poll(engine, handle, &event, err);
    if (status == WEFT_OK && event.finish == WEFT_FINISH_ERROR)
        status = err_set(err, event.error.status, "%s", event.error.message);
    return status;
}

static weft_status scenario(const env *world, void *user, weft_error *err)
{
    const sweep_case *c = user;
    weft_model_options options = {.struct_size = sizeof options, .allocator = world->allocator};
    weft_engine_options with = {
        .struct_size = sizeof with, .n_threads = 2, .context = 64, .max_sequences = 2};
    weft_model *model = NULL;
    weft_engine *engine = NULL;
    weft_status status = api_model_open(c->path, &options, world->io, &model, err);
    if (status == WEFT_OK) status = weft_engine_open(model, &with, &engine, err);
    if (status == WEFT_OK) status = embed(engine, c->pooling, err);
    weft_engine_close(engine);
    weft_model_close(model);
    return status;
}

static void test_memory_that_fails(void **state)
{
    (void)state;
    sweep_case encoder = {GOLDEN_PATH("bert"), WEFT_POOLING_DEFAULT};
    sweep_case decoder = {GOLDEN_PATH("qwen3-embedding"), WEFT_POOLING_MEAN};
    size_t n = fault_sweep(scenario, &encoder);
    size_t n_decoder = fault_sweep(scenario, &decoder);
    print_message("%zu and %zu allocations\n", n, n_decoder);
    assert_true(n >= 40 && n_decoder >= 40);
}

/* Behind the first step, in which a request gets its sequence. */
static void test_steps_allocate_nothing(void **state)
{
    (void)state;
    static float to[4][40 * 1024];
    fault_allocator memory;
    fault_allocator_init(&memory, 0);
    weft_model_options options = {.struct_size = sizeof options, .allocator = &memory.allocator};
    weft_engine_options with = {.struct_size = sizeof with, .n_threads = 2, .chunk_tokens = 16};
    weft_error err = {WEFT_OK, ""};
    weft_model *model;
    weft_engine *e;
    uint32_t n_active;
    assert_ok(weft_model_open(DRAFT, &options, &model, &err), &err);
    assert_ok(weft_engine_open(model, &with, &e, &err), &err);
    for (uint32_t i = 0; i < 4; i++) {
        weft_handle handle;
        weft_request r = {.struct_size = sizeof r,
                          .flags = WEFT_REQUEST_NO_CACHE,
                          .prompt = IDS,
                          .n_prompt = 40 - 5 * i,
                          .sampling = {.top_p = 1.0F},
                          .embedding = to[i],
                          .pooling = WEFT_POOLING_LAST + i};
        assert_ok(weft_submit(e, &r, &handle, &err), &err);
    }
    assert_ok(weft_step(e, &n_active, &err), &err);
    assert_int_equal(n_active, 4);
    memory.armed = true;
    while (n_active > 0) assert_ok(weft_step(e, &n_active, &err), &err);
    memory.armed = false;
    weft_engine_close(e);
    weft_model_close(model);
    fault_allocator_check(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_company_and_caches),
        cmocka_unit_test(test_what_vectors_are),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_encoders_refuse),
        cmocka_unit_test(test_encoders_take_turns),
        cmocka_unit_test(test_not_a_number),
        cmocka_unit_test(test_released_on_the_way),
        cmocka_unit_test(test_memory_that_fails),
        cmocka_unit_test(test_steps_allocate_nothing),
    };
    return TEST_RUN("engine/embed", tests);
}
