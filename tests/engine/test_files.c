/* test_files.c - state that outlives its process: saved in one, restored in another, which goes on
 * with the bits of one that was never interrupted (KV-55, B19, B37); and files that are of no use,
 * with the reason (KV-56, B33). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "support/fault.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/group_folder.h"

enum { NEW = 6, MORE = 10 };

typedef struct setting {
    const char *model, *kv, *isa;
    uint32_t n_prompt, context;
    weft_act act;
} setting;

static uint32_t expected_len(const setting *s)
{
    /* The last token of an answer was not forwarded. */
    return s->n_prompt + NEW - 1;
}

static weft_engine *open_engine(const weft_model *model, const setting *s)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .kv = s->kv,
                                   .isa = s->isa,
                                   .act = s->act,
                                   .n_threads = 2,
                                   .context = s->context};
    return run_open_engine(model, &options);
}

static weft_model *open_model(const setting *s)
{
    return run_open_model(s->model);
}

/* A prompt, its answer, and what is asked next: [n_prompt + NEW + MORE]. */
static int32_t *first_ids(const setting *s, uint32_t n_vocab)
{
    return run_random_ids(s->n_prompt + NEW + MORE, n_vocab, 99);
}

/* The first request of a conversation; its answer goes into ids. */
static void answer_first(weft_engine *engine, uint32_t n_vocab, const setting *s, int32_t *ids,
                         uint32_t flags)
{
    run r = {.prompt = ids, .n_prompt = s->n_prompt, .max_new = NEW, .flags = flags};
    run_all(engine, n_vocab, &r, 1);
    assert_int_equal(r.n_tokens, NEW);
    memcpy(ids + s->n_prompt, r.tokens, NEW * sizeof *ids);
    run_free(&r);
}

static uint32_t save(weft_engine *engine, const int32_t *ids, uint32_t n, const char *path)
{
    uint32_t n_saved;
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_state_save(engine, ids, n, path, &n_saved, &err), &err);
    return n_saved;
}

static weft_restored restore(weft_engine *engine, const char *path)
{
    weft_restored restored = {.struct_size = sizeof restored};
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_state_restore(engine, path, &restored, &err), &err);
    return restored;
}

/* In a process of its own, which is gone when this returns. */
static void save_elsewhere(const setting *s, const char *path)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) fail_msg("cannot fork");
    if (child == 0) {
        weft_model *model = open_model(s);
        uint32_t n_vocab = run_n_vocab(model);
        weft_engine *engine = open_engine(model, s);
        int32_t *ids = first_ids(s, n_vocab);
        answer_first(engine, n_vocab, s, ids, 0);
        uint32_t n = save(engine, ids, s->n_prompt + NEW, path);
        _exit(n == expected_len(s) ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void check(const setting *s)
{
    const char *path = test_folder_path(&folder, "state");
    uint32_t n = s->n_prompt + NEW;
    save_elsewhere(s, path);
    weft_model *model = open_model(s);
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = first_ids(s, n_vocab);
    weft_engine *engine = open_engine(model, s);
    answer_first(engine, n_vocab, s, ids, WEFT_REQUEST_NO_CACHE);
    weft_restored restored = restore(engine, path);
    assert_string_equal(restored.reason, "");
    assert_int_equal(restored.n_tokens, expected_len(s));
    assert_int_equal(restored.n_usable, expected_len(s));
    assert_int_equal(remove(path), 0);
    run warm = {.prompt = ids, .n_prompt = n + MORE, .max_new = NEW};
    run cold = {
        .prompt = ids, .n_prompt = n + MORE, .max_new = NEW, .flags = WEFT_REQUEST_NO_CACHE};
    run_all(engine, n_vocab, &cold, 1);
    run_all(engine, n_vocab, &warm, 1);
    assert_int_equal(warm.n_cached, expected_len(s));
    run_assert_identical(&warm, &cold, n_vocab);
    /* The prompt by itself, at the boundary before its last token. */
    run again = {.prompt = ids, .n_prompt = s->n_prompt, .max_new = NEW};
    run_all(engine, n_vocab, &again, 1);
    assert_int_equal(again.n_cached, s->n_prompt - 1);
    assert_memory_equal(again.tokens, ids + s->n_prompt, NEW * sizeof *ids);
    run_free(&warm);
    run_free(&cold);
    run_free(&again);
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(engine, &info, NULL), NULL);
    assert_int_equal(info.n_states_restored, 1);
    assert_int_equal(info.n_states_saved, 0);
    assert_int_equal(info.n_state_misses, 0);
    weft_engine_close(engine);
    free(ids);
    weft_model_close(model);
}

static void test_kv55_restored_goes_on_in_goldens(void **state)
{
    (void)state;
    static const setting SETTINGS[] = {
        {GOLDEN_PATH("llama"), NULL, NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("llama"), "turbo-k8v3,start=100", NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("gemma3"), NULL, NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("gemma3"), "turbo-k8v4", NULL, 150, 512, WEFT_ACT_F32},
        {GOLDEN_PATH("qwen3_5"), NULL, NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("qwen3_5"), "affine8g64,start=200", NULL, 190, 512, WEFT_ACT_F32},
        {GOLDEN_PATH("qwen3_5_moe"), NULL, NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("qwen3_next"), "affine8g64", NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("lfm2"), NULL, NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("lfm2"), "affine4g64,start=200", NULL, 190, 512, WEFT_ACT_F32},
        {GOLDEN_PATH("deepseek_v3"), NULL, NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("deepseek_v3"), "affine4g32", NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("glm_moe_dsa-shared"), NULL, NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("glm_moe_dsa-shared"), "affine8g32,index=tk8", NULL, 150, 512, WEFT_ACT_BF16},
    };
    for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0]; i++) check(&SETTINGS[i]);
}

/* B37: latent layers, and those of which one side is packed, on each path of attention. */
static void test_b37_on_each_isa(void **state)
{
    (void)state;
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t i = 0; i < n_isas; i++) {
        setting latent = {
            GOLDEN_PATH("deepseek_v3"), "affine8g32", isas[i], 70, 512, WEFT_ACT_BF16};
        setting keys = latent;
        keys.model = GOLDEN_PATH("llama");
        keys.kv = "k=tk8,v=bf16";
        check(&latent);
        check(&keys);
    }
}

static void test_kv55_restored_goes_on_in_real_models(void **state)
{
    (void)state;
    static const setting SETTINGS[] = {
        {TINY_PATH("target-mlx8"), "turbo-k8v4", NULL, 300, 1024, WEFT_ACT_BF16},
        {TINY_PATH("window-mlx4"), NULL, NULL, 300, 1024, WEFT_ACT_BF16},
        {TINY_PATH("hybrid-mlx4"), "affine8g64", NULL, 300, 1024, WEFT_ACT_BF16},
    };
    for (size_t i = 0; i < sizeof SETTINGS / sizeof SETTINGS[0]; i++) check(&SETTINGS[i]);
}

/* B19: a long one, with the boundaries on its way; what differs early has one of those. */
static void test_b19_long(void **state)
{
    (void)state;
    static const char *const NAMES[] = {TINY_PATH("window-mlx4"), TINY_PATH("hybrid-mlx4")};
    for (size_t i = 0; i < 2; i++) {
        setting s = {NAMES[i], NULL, NULL, 4000, 8192, WEFT_ACT_BF16};
        weft_model *model = open_model(&s);
        weft_model_info model_info = {.struct_size = sizeof model_info};
        assert_ok(weft_model_get_info(model, &model_info, NULL), NULL);
        weft_model_close(model);
        s.context = model_info.context < 8192 ? model_info.context : 8192;
        if (s.n_prompt + 100 > s.context) s.n_prompt = s.context - 100;
        if (TEST_SLOWED && s.n_prompt > 900) s.n_prompt = 900;
        check(&s);
        const char *path = test_folder_path(&folder, "state");
        save_elsewhere(&s, path);
        model = open_model(&s);
        uint32_t n_vocab = run_n_vocab(model);
        int32_t *ids = first_ids(&s, n_vocab);
        weft_engine *engine = open_engine(model, &s);
        restore(engine, path);
        ids[s.n_prompt - 20] ^= 1;
        run warm = {.prompt = ids, .n_prompt = s.n_prompt, .max_new = 2};
        run cold = {
            .prompt = ids, .n_prompt = s.n_prompt, .max_new = 2, .flags = WEFT_REQUEST_NO_CACHE};
        run_all(engine, n_vocab, &warm, 1);
        run_all(engine, n_vocab, &cold, 1);
        run_assert_identical(&warm, &cold, n_vocab);
        assert_int_equal(warm.n_known, s.n_prompt - 20);
        assert_true(warm.n_cached + 512 + 20 >= s.n_prompt - 20);
        print_message("%s, %u tokens: %u of %u known ones are used\n", s.model, s.n_prompt,
                      warm.n_cached, warm.n_known);
        run_free(&warm);
        run_free(&cold);
        free(ids);
        weft_engine_close(engine);
        weft_model_close(model);
    }
}

/* ---- files that are of no use ---------------------------------------------------------------- */

static void expect(const setting *s, const char *path, const char *reason, bool set_aside)
{
    weft_model *model = open_model(s);
    weft_engine *engine = open_engine(model, s);
    weft_restored restored = restore(engine, path);
    if (strstr(restored.reason, reason) == NULL)
        fail_msg("'%s' is not '%s'", restored.reason, reason);
    assert_int_equal(restored.set_aside, set_aside);
    assert_int_equal(restored.n_usable, 0);
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(engine, &info, NULL), NULL);
    assert_int_equal(info.n_state_misses, 1);
    assert_int_equal(info.kv_bytes_cached, 0);
    weft_engine_close(engine);
    weft_model_close(model);
}

/* B33: each has its reason; what is damaged is looked at once. */
static void test_kv56_files_of_no_use(void **state)
{
    (void)state;
    setting s = {GOLDEN_PATH("llama"), NULL, NULL, 50, 512, WEFT_ACT_BF16};
    char path[300];
    char aside[310];
    snprintf(path, sizeof path, "%s/state", folder.path);
    snprintf(aside, sizeof aside, "%s.bad", path);
    expect(&s, path, "no such file", false);
    save_elsewhere(&s, path);
    setting other = s;
    other.model = GOLDEN_PATH("llama-yarn");
    expect(&other, path, "another model", false);
    other = s;
    other.kv = "f16";
    expect(&other, path, "stored in another way", false);
    other = s;
    other.isa = "generic";
    size_t n_isas;
    if (strcmp(run_isas(&n_isas)[0], "generic") == 0 && n_isas > 1)
        expect(&other, path, "other arithmetic", false);
    other = s;
    other.act = WEFT_ACT_F32;
    other.kv = "k=bf16,v=bf16";
    expect(&other, path, "stored in another way", false);
    assert_int_equal(access(path, F_OK), 0);
    weft_error err = {WEFT_OK, ""};
    char *data;
    size_t n_bytes;
    assert_ok(io_read_file(io_system(), mem_system(), path, SIZE_MAX, &data, &n_bytes, &err), &err);
    data[n_bytes - 5000] ^= 1;
    test_folder_write(&folder, "state", data, n_bytes);
    expect(&s, path, "a section of it is damaged", true);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(access(aside, F_OK), 0);
    expect(&s, path, "no such file", false);
    test_folder_write(&folder, "state", data, n_bytes / 2);
    expect(&s, path, "not as long as it says", true);
    /* What is somebody else's is left alone. */
    test_folder_write(&folder, "state", "a letter to a friend", 20);
    expect(&s, path, "not a file of state", false);
    assert_int_equal(access(path, F_OK), 0);
    mem_free(mem_system(), data, n_bytes + 1);
}

static void test_arguments(void **state)
{
    (void)state;
    setting s = {GOLDEN_PATH("llama"), NULL, NULL, 50, 512, WEFT_ACT_BF16};
    const char *path = test_folder_path(&folder, "state");
    weft_model *model = open_model(&s);
    weft_engine *engine = open_engine(model, &s);
    uint32_t n = 9;
    weft_restored restored = {.struct_size = sizeof restored};
    weft_error err = {WEFT_OK, ""};
    assert_status(WEFT_ARGUMENT, weft_state_save(NULL, NULL, 0, path, &n, &err), &err);
    assert_int_equal(n, 0);
    assert_status(WEFT_ARGUMENT, weft_state_save(engine, NULL, 1, path, &n, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_state_save(engine, NULL, 0, "", &n, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_state_restore(engine, NULL, &restored, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_state_restore(NULL, path, &restored, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_state_restore(engine, path, NULL, &err), &err);
    restored.struct_size = 8;
    assert_status(WEFT_ARGUMENT, weft_state_restore(engine, path, &restored, &err), &err);
    /* Tokens of which nothing is known, whatever they are. */
    static const int32_t IDS[] = {-1, INT32_MAX, INT32_MIN};
    assert_int_equal(save(engine, IDS, 3, path), 0);
    assert_int_equal(save(engine, NULL, 0, path), 0);
    assert_int_not_equal(access(path, F_OK), 0);
    weft_engine_close(engine);
    weft_engine_options options = {
        .struct_size = sizeof options, .context = 64, .flags = WEFT_ENGINE_NO_CACHE};
    engine = run_open_engine(model, &options);
    restored.struct_size = sizeof restored;
    assert_status(WEFT_UNSUPPORTED, weft_state_save(engine, IDS, 3, path, &n, &err), &err);
    assert_status(WEFT_UNSUPPORTED, weft_state_restore(engine, path, &restored, &err), &err);
    weft_engine_close(engine);
    weft_model_close(model);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Saves or restores with an allocation or an operation on files failing. */
static bool attempt(bool restores, size_t memory_at, size_t operation_at, const char *path)
{
    fault_allocator memory;
    fault_io files;
    fault_allocator_init(&memory, 0);
    fault_io_init(&files, 0);
    weft_model_options options = {.struct_size = sizeof options, .allocator = &memory.allocator};
    weft_engine_options with = {.struct_size = sizeof with, .n_threads = 1, .context = 64};
    weft_model *model;
    weft_engine *engine;
    weft_error err = {WEFT_OK, ""};
    assert_ok(api_model_open(GOLDEN_PATH("qwen3_5"), &options, &files.io, &model, &err), &err);
    assert_ok(weft_engine_open(model, &with, &engine, &err), &err);
    static const int32_t IDS[] = {5, 9, 2, 77, 31, 8, 100, 3, 4, 6};
    run r = {.prompt = IDS, .n_prompt = 10, .max_new = 2};
    if (!restores) run_all(engine, run_n_vocab(model), &r, 1);
    run_free(&r);
    memory.fail_at = memory_at == 0 ? 0 : memory.n_allocations + memory_at;
    files.fail_at = operation_at == 0 ? 0 : files.n_operations + operation_at;
    uint32_t n = 0;
    weft_restored restored = {.struct_size = sizeof restored};
    weft_status status = restores ? weft_state_restore(engine, path, &restored, &err)
                                  : weft_state_save(engine, IDS, 10, path, &n, &err);
    bool hit = files.hit || memory.hit;
    memory.fail_at = 0;
    files.fail_at = 0;
    assert_true(status == WEFT_OK || status == (files.hit ? WEFT_IO : WEFT_NOMEM));
    assert_true(hit || status == WEFT_OK);
    if (!hit) assert_int_equal(restores ? restored.n_usable : n, 9);
    if (hit && !restores) assert_true(status != WEFT_OK && n == 0);
    /* Then all is well. */
    if (restores) assert_int_equal(restore(engine, path).n_usable, 9);
    if (!restores) assert_int_equal(save(engine, IDS, 10, path), 9);
    weft_engine_close(engine);
    weft_model_close(model);
    fault_allocator_check(&memory);
    fault_io_check(&files);
    return hit;
}

static void test_refused(void **state)
{
    (void)state;
    char path[300];
    snprintf(path, sizeof path, "%s/state", folder.path);
    size_t n_hits[2][2] = {{0, 0}, {0, 0}};
    for (int restores = 0; restores < 2; restores++) {
        while (attempt(restores, n_hits[restores][0] + 1, 0, path)) n_hits[restores][0]++;
        while (attempt(restores, 0, n_hits[restores][1] + 1, path)) n_hits[restores][1]++;
        print_message("%s: %zu allocations and %zu operations failed\n",
                      restores ? "restoring" : "saving", n_hits[restores][0], n_hits[restores][1]);
        assert_true(n_hits[restores][0] >= 3 && n_hits[restores][1] >= 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kv55_restored_goes_on_in_goldens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_b37_on_each_isa, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kv55_restored_goes_on_in_real_models, setup, teardown),
        cmocka_unit_test_setup_teardown(test_b19_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kv56_files_of_no_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };
    return TEST_RUN("engine/files", tests);
}
