/* test_stream.c - experts that are read when tokens go to them: the answers are those of all in
 * memory, bit for bit, whatever memory there is for experts, in whatever company, chunks and
 * threads; what fails fails with its step, and changes nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "support/fault.h"
#include "support/group_folder.h"
#include "support/runs.h"

/* Every kind of model with experts. */
static const char *const NAMES[] = {"qwen2_moe",     "qwen3_moe",   "mixtral",
                                    "olmoe",         "gpt_oss",     "qwen3_5_moe",
                                    "deepseek_v3",   "glm_moe_dsa", "glm_moe_dsa-long",
                                    "gemma4-moe",    "qwen3_next",  "qwen3_moe-mixed",
                                    "mixtral-window"};

enum { COMPANY = 3, NEW_TOKENS = 8 };

static const uint32_t LENGTHS[COMPANY] = {61, 1, 20};

static void make_runs(run *runs, uint32_t n_vocab)
{
    memset(runs, 0, COMPANY * sizeof *runs);
    for (uint32_t i = 0; i < COMPANY; i++) {
        runs[i] = (run){.prompt = run_random_ids(LENGTHS[i], n_vocab, 40 + i),
                        .n_prompt = LENGTHS[i],
                        .max_new = NEW_TOKENS,
                        .want_prompt_logits = true};
    }
}

static void free_runs(run *runs)
{
    for (uint32_t i = 0; i < COMPANY; i++) {
        free((void *)(uintptr_t)runs[i].prompt);
        run_free(&runs[i]);
    }
}

static weft_experts_info experts_of(const weft_model *model)
{
    weft_experts_info info = {.struct_size = sizeof info};
    assert_ok(weft_model_experts(model, &info, NULL), NULL);
    return info;
}

static weft_engine_info info_of(const weft_engine *engine)
{
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(engine, &info, NULL), NULL);
    return info;
}

/* Counters agree with each other and with the memory there is. */
static void check_counters(const weft_engine *engine, const weft_experts_info *experts,
                           uint64_t budget)
{
    weft_engine_info info = info_of(engine);
    uint64_t n_slots = info.expert_bytes / experts->bytes_each;
    assert_true(info.expert_bytes <= budget && info.expert_bytes % experts->bytes_each == 0);
    assert_true(n_slots >= 2 && n_slots <= experts->n_all);
    assert_true(info.n_experts_used > 0 && info.n_experts_there <= info.n_experts_used);
    assert_true(info.n_experts_ahead_used <= info.n_experts_ahead);
    if (n_slots == experts->n_all) {
        /* Each is read once. */
        assert_true(info.expert_bytes_read <= experts->n_all * experts->bytes_each);
        assert_true(info.n_experts_used - info.n_experts_there <= experts->n_all);
    } else if (n_slots == 2) {
        /* So few that what was read gave way and was read again. */
        assert_true(info.n_experts_used - info.n_experts_there > experts->n_all);
        assert_true(info.expert_bytes_read > 2 * experts->n_bytes);
    }
}

static void check_streamed(const weft_model *model, weft_engine_options options, const run *alone)
{
    uint32_t n_vocab = run_n_vocab(model);
    weft_experts_info experts = experts_of(model);
    const uint64_t budgets[] = {experts.bytes_least, 5 * experts.bytes_each, UINT64_MAX};
    static const uint32_t CHUNKS[] = {512, 7};
    for (size_t k = 0; k < 3; k++) {
        for (uint32_t threads = 1; threads <= 3; threads++) {
            run together[COMPANY];
            make_runs(together, n_vocab);
            options.expert_bytes = budgets[k];
            options.n_threads = threads;
            options.chunk_tokens = CHUNKS[(k + threads) % 2];
            weft_engine *engine = run_open_engine(model, &options);
            run_all(engine, n_vocab, together, COMPANY);
            for (uint32_t i = 0; i < COMPANY; i++)
                run_assert_identical(&together[i], &alone[i], n_vocab);
            check_counters(engine, &experts, budgets[k]);
            free_runs(together);
            weft_engine_close(engine);
        }
    }
}

/* What is compared with: each sequence alone, all experts in memory. */
static void check_model(const char *path, weft_act act, const char *isa)
{
    weft_model *model = run_open_model(path);
    uint32_t n_vocab = run_n_vocab(model);
    weft_engine_options options = {
        .struct_size = sizeof options, .isa = isa, .act = act, .n_threads = 2, .max_outputs = 512};
    run alone[COMPANY];
    make_runs(alone, n_vocab);
    weft_engine *engine = run_open_engine(model, &options);
    for (uint32_t i = 0; i < COMPANY; i++) run_all(engine, n_vocab, &alone[i], 1);
    assert_int_equal(info_of(engine).expert_bytes, 0);
    assert_int_equal(info_of(engine).n_experts_used, 0);
    weft_engine_close(engine);
    check_streamed(model, options, alone);
    free_runs(alone);
    weft_model_close(model);
}

static void test_every_family(void **state)
{
    (void)state;
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, NAMES[i]);
        check_model(path, i % 3 == 2 ? WEFT_ACT_F32 : WEFT_ACT_BF16, isas[i % n_isas]);
    }
}

/* Codes with scales and biases, each a plane of its own file range. */
static void test_quantized(void **state)
{
    (void)state;
    static const struct {
        const char *name, *mode;
        uint32_t group;
    } CASES[] = {{"mixtral", "affine", 32}, {"qwen3_moe", "mxfp4", 0}, {"gpt_oss", "nvfp4", 0}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char source[600];
        weft_error err = {WEFT_OK, ""};
        snprintf(source, sizeof source, "%s/%s", WEFT_GOLDEN_DIR, CASES[i].name);
        const char *target = test_folder_path(&folder, CASES[i].name);
        weft_convert_options options = {.struct_size = sizeof options,
                                        .mode = CASES[i].mode,
                                        .group = CASES[i].group,
                                        .n_threads = 1};
        assert_ok(weft_convert(source, target, &options, NULL, &err), &err);
        check_model(target, WEFT_ACT_BF16, NULL);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH("mixtral"));
    weft_experts_info experts = experts_of(model);
    char number[32];
    assert_int_equal(experts.n_layers, 4);
    assert_int_equal(experts.n_experts, 4);
    assert_int_equal(experts.n_top, 2);
    assert_int_equal(experts.n_all, 16);
    assert_int_equal(experts.bytes_least, 2 * experts.bytes_each);
    weft_engine *engine;
    weft_error err = {WEFT_OK, ""};
    weft_engine_options options = {.struct_size = sizeof options, .n_threads = 1};
    options.expert_bytes = experts.bytes_least - 1;
    assert_status(WEFT_LIMIT, weft_engine_open(model, &options, &engine, &err), &err);
    assert_null(engine);
    snprintf(number, sizeof number, "%llu", (unsigned long long)options.expert_bytes);
    assert_message(&err, number);
    snprintf(number, sizeof number, "%llu", (unsigned long long)experts.bytes_least);
    assert_message(&err, number);
    options.expert_bytes = experts.bytes_least;
    options.backend = "ref";
    assert_status(WEFT_UNSUPPORTED, weft_engine_open(model, &options, &engine, &err), &err);
    assert_message(&err, "ref");
    weft_model_close(model);
    model = run_open_model(GOLDEN_PATH("llama"));
    assert_int_equal(experts_of(model).n_all, 0);
    assert_int_equal(experts_of(model).bytes_least, 0);
    options.backend = NULL;
    assert_status(WEFT_ARGUMENT, weft_engine_open(model, &options, &engine, &err), &err);
    assert_message(&err, "no experts");
    assert_status(WEFT_ARGUMENT, weft_model_experts(NULL, &experts, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_model_experts(model, NULL, &err), &err);
    weft_model_close(model);
}

static void copy_file(const char *from, const char *to)
{
    char *data;
    size_t n_bytes;
    weft_error err = {WEFT_OK, ""};
    assert_ok(io_read_file(io_system(), mem_system(), from, 64 << 20, &data, &n_bytes, &err), &err);
    assert_ok(io_system()->write(io_system(), to, data, n_bytes, &err), &err);
    mem_free(mem_system(), data, n_bytes + 1);
}

/* The file that the model was opened from is not there any more, or another one is. */
static void test_replaced_file(void **state)
{
    (void)state;
    static const char *const FILES[] = {"config.json", "model.safetensors"};
    char from[600];
    char to[600];
    test_folder own;
    test_folder_create(&own);
    for (size_t i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s/olmoe/%s", WEFT_GOLDEN_DIR, FILES[i]);
        snprintf(to, sizeof to, "%s/%s", own.path, FILES[i]);
        copy_file(from, to);
    }
    weft_model *model = run_open_model(own.path);
    weft_engine *engine;
    weft_error err = {WEFT_OK, ""};
    weft_engine_options options = {.struct_size = sizeof options, .n_threads = 1};
    options.expert_bytes = 1 << 30;
    copy_file(from, to); /* the same bytes in a new file */
    assert_status(WEFT_IO, weft_engine_open(model, &options, &engine, &err), &err);
    assert_message(&err, "another file");
    assert_message(&err, "model.safetensors");
    assert_int_equal(unlink(to), 0);
    assert_status(WEFT_IO, weft_engine_open(model, &options, &engine, &err), &err);
    assert_message(&err, "cannot open");
    options.expert_bytes = 0;
    weft_engine_close(run_open_engine(model, &options));
    weft_model_close(model);
    test_folder_remove(&own);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* An answer of ids; its request's failure is the status. */
static weft_status answer(weft_engine *engine, const int32_t *ids, uint32_t n, uint32_t max_new,
                          float *logits, weft_error *err)
{
    weft_request r = {.struct_size = sizeof r,
                      .prompt = ids,
                      .n_prompt = n,
                      .max_new = max_new,
                      .flags = WEFT_REQUEST_IGNORE_STOP,
                      .sampling = {.top_p = 1.0F},
                      .new_logits = logits};
    weft_handle handle;
    weft_status status = weft_submit(engine, &r, &handle, err);
    if (status != WEFT_OK) return status;
    uint32_t n_active = 1;
    while (n_active > 0) {
        weft_status step = weft_step(engine, &n_active, NULL);
        if (step != WEFT_OK) status = step;
    }
    weft_event event = {.struct_size = sizeof event};
    do {
        assert_ok(weft_poll(engine, handle, &event, NULL), NULL);
    } while (event.kind == WEFT_EVENT_TOKEN);
    assert_int_equal(event.kind, WEFT_EVENT_DONE);
    if (status != WEFT_OK) assert_int_equal(event.error.status, status);
    status = event.error.status;
    if (status != WEFT_OK) err_set(err, status, "%s", event.error.message);
    weft_release(engine, handle, NULL);
    return status;
}

enum { FAULT_NEW = 3, FAULT_PROMPT = 9, FAULT_VOCAB = 320 };

static const int32_t PROMPT[FAULT_PROMPT] = {3, 17, 250, 96, 4, 4, 181, 77, 12};

static weft_status scenario(const env *world, void *user, weft_error *err)
{
    (void)user;
    weft_model_options options = {.struct_size = sizeof options, .allocator = world->allocator};
    weft_model *model = NULL;
    weft_engine *engine = NULL;
    weft_status status = api_model_open(GOLDEN_PATH("mixtral"), &options, world->io, &model, err);
    if (status == WEFT_OK) {
        /* What cannot be kept for later is no failure. */
        weft_engine_options how = {.struct_size = sizeof how,
                                   .n_threads = 2,
                                   .context = 64,
                                   .flags = WEFT_ENGINE_NO_CACHE};
        how.expert_bytes = experts_of(model).bytes_least;
        status = weft_engine_open(model, &how, &engine, err);
    }
    if (status == WEFT_OK) status = answer(engine, PROMPT, FAULT_PROMPT, 1, NULL, err);
    weft_engine_close(engine);
    weft_model_close(model);
    return status;
}

static void test_allocations(void **state)
{
    (void)state;
    size_t n = fault_sweep(scenario, NULL);
    print_message("%zu allocations\n", n);
    assert_true(n >= 40);
}

/* Each read of a step fails once, on an engine that goes on: what was asked for ends with IO, the
 * next answer is right. A read of what was only guessed may fail and nobody notice. */
static void test_failing_reads(void **state)
{
    (void)state;
    fault_io disk;
    fault_io_init(&disk, 0);
    weft_model *model = NULL;
    weft_error err = {WEFT_OK, ""};
    assert_ok(api_model_open(GOLDEN_PATH("mixtral"), NULL, &disk.io, &model, &err), &err);
    weft_experts_info experts = experts_of(model);
    static float expected[FAULT_NEW * FAULT_VOCAB];
    static float logits[FAULT_NEW * FAULT_VOCAB];
    assert_int_equal(run_n_vocab(model), FAULT_VOCAB);
    weft_engine_options options = {.struct_size = sizeof options, .n_threads = 2, .context = 64};
    weft_engine *engine = run_open_engine(model, &options);
    assert_ok(answer(engine, PROMPT, FAULT_PROMPT, FAULT_NEW, expected, &err), &err);
    weft_engine_close(engine);
    const uint64_t budgets[] = {experts.bytes_least, 6 * experts.bytes_each, UINT64_MAX};
    static const uint32_t LEAST[] = {12, 4, 1};
    for (size_t k = 0; k < 3; k++) {
        uint32_t n_failed = 0;
        options.expert_bytes = budgets[k];
        engine = run_open_engine(model, &options);
        for (size_t nth = 1;; nth++) {
            atomic_store(&disk.hit, false);
            atomic_store(&disk.fail_at, atomic_load(&disk.n_operations) + nth);
            err = (weft_error){WEFT_OK, ""};
            weft_status status = answer(engine, PROMPT, FAULT_PROMPT, FAULT_NEW, logits, &err);
            bool hit = atomic_load(&disk.hit);
            if (status != WEFT_OK) {
                assert_true(hit);
                assert_int_equal(status, WEFT_IO);
                assert_message(&err, "model.safetensors");
                n_failed++;
            } else {
                assert_memory_equal(logits, expected, sizeof expected);
            }
            atomic_store(&disk.fail_at, 0);
            if (!hit) break;
            assert_ok(answer(engine, PROMPT, FAULT_PROMPT, FAULT_NEW, logits, &err), &err);
            assert_memory_equal(logits, expected, sizeof expected);
        }
        print_message("%u reads ended an answer\n", n_failed);
        assert_true(n_failed >= LEAST[k]);
        weft_engine_close(engine);
    }
    weft_model_close(model);
    fault_io_check(&disk);
}

/* An engine that cannot be opened leaves nothing open. */
static void test_failing_opens(void **state)
{
    (void)state;
    fault_io disk;
    fault_io_init(&disk, 0);
    weft_model *model = NULL;
    weft_engine *engine;
    weft_error err = {WEFT_OK, ""};
    assert_ok(api_model_open(GOLDEN_PATH("mixtral"), NULL, &disk.io, &model, &err), &err);
    weft_engine_options options = {.struct_size = sizeof options, .n_threads = 1, .context = 64};
    options.expert_bytes = UINT64_MAX;
    disk.fail_at = disk.n_operations + 1;
    assert_status(WEFT_IO, weft_engine_open(model, &options, &engine, &err), &err);
    assert_null(engine);
    weft_model_close(model);
    fault_io_check(&disk);
}

/* ---- several engines ------------------------------------------------------------------------- */

/* Engines have stores of their own, and steps in turn. */
static void test_two_engines(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH("qwen3_moe"));
    weft_experts_info experts = experts_of(model);
    uint32_t n_vocab = run_n_vocab(model);
    weft_engine *engines[3];
    run runs[3];
    weft_engine_options options = {.struct_size = sizeof options, .n_threads = 2};
    for (size_t i = 0; i < 3; i++) {
        options.expert_bytes = i == 0 ? 0 : (2 * i + 1) * experts.bytes_each;
        engines[i] = run_open_engine(model, &options);
        runs[i] = (run){.prompt = PROMPT, .n_prompt = FAULT_PROMPT, .max_new = 12};
        run_submit(engines[i], n_vocab, &runs[i]);
    }
    for (uint32_t n_left = 3; n_left > 0;) {
        n_left = 0;
        for (size_t i = 0; i < 3; i++) {
            uint32_t n_active;
            assert_ok(weft_step(engines[i], &n_active, NULL), NULL);
            n_left += n_active;
        }
    }
    for (size_t i = 0; i < 3; i++) {
        run_collect(engines[i], &runs[i]);
        run_assert_identical(&runs[i], &runs[0], n_vocab);
        assert_int_equal(info_of(engines[i]).expert_bytes,
                         i == 0 ? 0 : (2 * i + 1) * experts.bytes_each);
    }
    for (size_t i = 0; i < 3; i++) {
        run_free(&runs[i]);
        weft_engine_close(engines[i]);
    }
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family),  cmocka_unit_test(test_quantized),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_replaced_file),
        cmocka_unit_test(test_allocations),   cmocka_unit_test(test_failing_reads),
        cmocka_unit_test(test_failing_opens), cmocka_unit_test(test_two_engines),
    };
    return cmocka_run_group_tests_name("engine/stream", tests, setup, teardown);
}
