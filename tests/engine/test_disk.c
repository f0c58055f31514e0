/* test_disk.c - state in a folder (state_dir): an answer has the same bits whether its prompt was
 * known there, in memory or not at all, also in another process; what is damaged, too large or
 * another's is left out; nobody waits long for it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "base/assert.h"
#include "base/rng.h"
#include "engine/state.h"
#include "support/fault.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/group_folder.h"

enum { NEW = 6, MORE = 10 };

typedef struct setting {
    const char *model, *kv;
    uint32_t n_prompt, context;
    weft_act act;
} setting;

static weft_engine *open_engine(const weft_model *model, const setting *s,
                                weft_engine_options options)
{
    options.struct_size = sizeof options;
    options.kv = s->kv;
    options.act = s->act;
    options.n_threads = 2;
    options.context = s->context;
    return run_open_engine(model, &options);
}

static weft_engine *open_with_folder(const weft_model *model, const setting *s)
{
    return open_engine(model, s, (weft_engine_options){.state_dir = folder.path});
}

static weft_engine_info info_of(const weft_engine *e)
{
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(e, &info, NULL), NULL);
    return info;
}

static run ask(weft_engine *e, uint32_t n_vocab, const int32_t *ids, uint32_t n, uint32_t flags)
{
    run r = {.prompt = ids, .n_prompt = n, .max_new = NEW, .flags = flags};
    run_all(e, n_vocab, &r, 1);
    assert_int_equal(r.n_tokens, NEW);
    return r;
}

/* A process of its own that answers prompts [n_prompt] and closes. */
static void answer_elsewhere(const setting *s, uint64_t seed)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) fail_msg("cannot fork");
    if (child == 0) {
        weft_model *model = run_open_model(s->model);
        uint32_t n_vocab = run_n_vocab(model);
        int32_t *ids = run_random_ids(s->n_prompt, n_vocab, seed);
        weft_engine *e = open_with_folder(model, s);
        run r = ask(e, n_vocab, ids, s->n_prompt, 0);
        weft_engine_close(e);
        run_free(&r);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- the same bits --------------------------------------------------------------------------- */

/* From the folder, then from memory, against an engine that has neither. */
static void check_again(const setting *s, weft_engine *e, weft_engine *bare, uint32_t n_vocab,
                        const int32_t *ids, uint32_t n, uint32_t least)
{
    uint64_t n_hits = info_of(e).n_disk_hits;
    run cold = ask(bare, n_vocab, ids, n, WEFT_REQUEST_NO_CACHE);
    run disk = ask(e, n_vocab, ids, n, 0);
    run memory = ask(e, n_vocab, ids, n, 0);
    run_assert_identical(&disk, &cold, n_vocab);
    run_assert_identical(&memory, &cold, n_vocab);
    weft_engine_info info = info_of(e);
    assert_int_equal(info.n_disk_hits, n_hits + (least > 0));
    if (disk.n_cached < least) fail_msg("%s: %u of %u", s->model, disk.n_cached, least);
    assert_true(memory.n_cached >= disk.n_cached);
    run_free(&cold);
    run_free(&disk);
    run_free(&memory);
}

static void check(const setting *s)
{
    answer_elsewhere(s, 99);
    weft_model *model = run_open_model(s->model);
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(s->n_prompt + NEW + MORE, n_vocab, 98);
    int32_t *prompt = run_random_ids(s->n_prompt, n_vocab, 99);
    weft_engine *bare = open_engine(model, s, (weft_engine_options){0});
    memcpy(ids, prompt, s->n_prompt * sizeof *ids);
    run first = ask(bare, n_vocab, ids, s->n_prompt, 0);
    memcpy(ids + s->n_prompt, first.tokens, NEW * sizeof *ids);
    /* The same again; the conversation goes on; another that differs near the end. */
    for (uint32_t i = 0; i < 3; i++) {
        weft_engine *e = open_with_folder(model, s);
        assert_true(info_of(e).disk_bytes > 0);
        uint32_t n = i == 1 ? s->n_prompt + NEW + MORE : s->n_prompt;
        bool needs = kv_needs_boundary(&e->stores->config);
        uint32_t least = i == 1 ? n - MORE - 1 : s->n_prompt - 1;
        if (i == 2) ids[s->n_prompt - 20] ^= 1;
        if (i == 2) least = needs ? 0 : s->n_prompt - 20;
        check_again(s, e, bare, n_vocab, ids, n, least);
        assert_true(i == 2 || info_of(e).n_disk_tokens >= least);
        weft_engine_close(e);
    }
    run_free(&first);
    weft_engine_close(bare);
    free(ids);
    free(prompt);
    weft_model_close(model);
    test_folder_remove(&folder);
    test_folder_create(&folder);
}

static void test_goldens(void **state)
{
    (void)state;
    static const setting SETTINGS[] = {
        {GOLDEN_PATH("llama"), NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("llama"), "turbo-k8v3,start=100", 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("gemma3"), NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("gemma3"), "turbo-k8v4", 150, 512, WEFT_ACT_F32},
        {GOLDEN_PATH("qwen3_5"), NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("qwen3_5"), "affine8g64,start=200", 190, 512, WEFT_ACT_F32},
        {GOLDEN_PATH("lfm2"), NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("deepseek_v3"), "affine4g32", 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("glm_moe_dsa-shared"), "affine8g32,index=tk8", 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("gemma4-ple"), NULL, 150, 512, WEFT_ACT_BF16},
    };
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++) check(&SETTINGS[i]);
}

static void test_real_models(void **state)
{
    (void)state;
    static const setting SETTINGS[] = {
        {TINY_PATH("target-mlx8"), "turbo-k8v4", 300, 1024, WEFT_ACT_BF16},
        {TINY_PATH("window-mlx4"), NULL, 300, 1024, WEFT_ACT_BF16},
        {TINY_PATH("hybrid-mlx4"), "affine8g64", 300, 1024, WEFT_ACT_BF16},
    };
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++) check(&SETTINGS[i]);
}

/* ---- memory that does not suffice ------------------------------------------------------------ */

enum { CROWD = 12, CROWD_PROMPT = 200 };

static const char *const CROWD_MODELS[] = {GOLDEN_PATH("llama"), GOLDEN_PATH("gemma3"),
                                           GOLDEN_PATH("qwen3_5")};

static uint64_t bytes_for(const weft_model *model, const setting *s, uint32_t n)
{
    weft_engine_options o = {
        .struct_size = sizeof o, .context = s->context, .n_threads = 2, .act = s->act};
    uint64_t bytes;
    assert_ok(weft_model_state_bytes(model, &o, n, &bytes, NULL), NULL);
    return bytes;
}

/* One step; fails where it wrote or read more than a step may. */
static uint32_t step(weft_engine *e, uint64_t most_part)
{
    weft_engine_info before = info_of(e);
    weft_error err = {WEFT_OK, ""};
    uint32_t n_active;
    assert_ok(weft_step(e, &n_active, &err), &err);
    weft_engine_info info = info_of(e);
    uint64_t most = e->disk.urgent_bytes + most_part;
    assert_true(info.disk_bytes_written - before.disk_bytes_written <= most);
    assert_true(info.disk_bytes_read - before.disk_bytes_read <= e->disk.step_bytes + most_part);
    assert_true(info.kv_bytes_live <= info.kv_bytes_budget);
    return n_active;
}

/* Prompts of which memory holds four, two at a time, each asked twice: what it let go of comes
 * back, in small pieces or at once, and nobody is paused for it. */
static void check_crowd(const char *path, uint64_t step_bytes)
{
    setting s = {path, NULL, CROWD_PROMPT, 512, WEFT_ACT_BF16};
    weft_model *model = run_open_model(path);
    uint32_t n_vocab = run_n_vocab(model);
    weft_engine *bare = open_engine(model, &s, (weft_engine_options){0});
    weft_engine *e = open_engine(
        model, &s,
        (weft_engine_options){.state_dir = folder.path,
                              .max_sequences = 2,
                              .memory_bytes = 4 * bytes_for(model, &s, CROWD_PROMPT + NEW)});
    if (step_bytes > 0) e->disk.step_bytes = e->disk.urgent_bytes = step_bytes;
    uint32_t n_found = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        run runs[CROWD];
        for (uint32_t i = 0; i < CROWD; i++) {
            runs[i] = (run){.prompt = run_random_ids(CROWD_PROMPT, n_vocab, i),
                            .n_prompt = CROWD_PROMPT,
                            .max_new = NEW};
            run_submit(e, n_vocab, &runs[i]);
        }
        while (step(e, 1 << 20) > 0) continue;
        for (uint32_t i = 0; i < CROWD; i++) {
            run_collect(e, &runs[i]);
            run cold = ask(bare, n_vocab, runs[i].prompt, CROWD_PROMPT, WEFT_REQUEST_NO_CACHE);
            run_assert_identical(&runs[i], &cold, n_vocab);
            assert_int_equal(runs[i].n_paused, 0);
            n_found += pass == 1 && runs[i].n_cached >= 2 * KV_PAGE_TOKENS;
            run_free(&cold);
            free((void *)(uintptr_t)runs[i].prompt);
            run_free(&runs[i]);
        }
    }
    weft_engine_info info = info_of(e);
    print_message("%s, steps of %llu bytes: %u of %u found, %llu skipped, %llu steps\n", path,
                  (unsigned long long)step_bytes, n_found, CROWD,
                  (unsigned long long)info.n_disk_skipped, (unsigned long long)info.n_steps);
    assert_true(n_found >= (step_bytes > 0 ? 2 : CROWD - 2));
    if (step_bytes == 0) assert_int_equal(info.n_disk_skipped, 0);
    weft_engine_close(e);
    weft_engine_close(bare);
    weft_model_close(model);
    test_folder_remove(&folder);
    test_folder_create(&folder);
}

static void test_small_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CROWD_MODELS); i++) {
        check_crowd(CROWD_MODELS[i], 0);
        check_crowd(CROWD_MODELS[i], 40000);
    }
}

/* Ends, cancels and releases while state is on its way; and the engine's own end. */
static void test_ends_on_the_way(void **state)
{
    (void)state;
    setting s = {GOLDEN_PATH("llama"), NULL, 400, 512, WEFT_ACT_BF16};
    answer_elsewhere(&s, 5);
    weft_model *model = run_open_model(s.model);
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(s.n_prompt, n_vocab, 5);
    for (uint32_t how = 0; how < 4; how++) {
        weft_engine *e = open_with_folder(model, &s);
        e->disk.step_bytes = 1;
        run r = {.prompt = ids, .n_prompt = s.n_prompt, .max_new = NEW};
        run_submit(e, n_vocab, &r);
        for (uint32_t i = 0; i < 3; i++) assert_true(step(e, 1 << 20) > 0);
        weft_engine_info info = info_of(e);
        assert_true(info.n_active == 0 && info.n_waiting == 1 && info.disk_bytes_read > 0);
        if (how == 0) assert_ok(weft_release(e, r.handle, NULL), NULL);
        if (how == 1) assert_ok(weft_cancel(e, r.handle, NULL), NULL);
        while (how < 3 && step(e, 1 << 20) > 0) continue;
        if (how == 1 || how == 2) run_collect(e, &r);
        if (how == 1) assert_int_equal(r.finish, WEFT_FINISH_CANCELLED);
        if (how == 2) assert_int_equal(r.n_cached, s.n_prompt - 1);
        assert_true(how == 3 || info_of(e).kv_bytes_live == 0);
        run_free(&r);
        weft_engine_close(e);
    }
    free(ids);
    weft_model_close(model);
}

/* ---- room that others make ------------------------------------------------------------------- */

enum { LONG_PROMPT = 400, SHORT_PROMPT = 200, LONG_ANSWER = 300 };

/* A request whose prompt the folder has, where another was promised nearly all memory: promises
 * shrink for it (priority 0), or the other is paused once, and it begins with what is there. */
static void check_room(const char *path, int32_t priority, uint32_t max_sequences)
{
    setting s = {path, NULL, LONG_PROMPT, 512, WEFT_ACT_BF16};
    answer_elsewhere(&s, 5);
    weft_model *model = run_open_model(path);
    uint32_t n_vocab = run_n_vocab(model);
    weft_engine *bare = open_engine(model, &s, (weft_engine_options){0});
    /* Of what the other was promised, as much again in quarters. */
    uint64_t bytes = bytes_for(model, &s, SHORT_PROMPT + LONG_ANSWER) / 4 * (priority > 0 ? 6 : 7);
    weft_engine_options o = {
        .state_dir = folder.path, .memory_bytes = bytes, .max_sequences = max_sequences};
    weft_engine *e = open_engine(model, &s, o);
    /* So that it takes a few steps, in which nobody puts himself in that room. */
    e->disk.step_bytes = 100000;
    run low = {.prompt = run_random_ids(SHORT_PROMPT, n_vocab, 6),
               .n_prompt = SHORT_PROMPT,
               .max_new = LONG_ANSWER};
    run high = {.prompt = run_random_ids(LONG_PROMPT, n_vocab, 5),
                .n_prompt = LONG_PROMPT,
                .max_new = NEW,
                .priority = priority};
    run_submit(e, n_vocab, &low);
    for (uint32_t i = 0; i < 4; i++) step(e, 1 << 20);
    run_submit(e, n_vocab, &high);
    while (step(e, 1 << 20) > 0) continue;
    run_collect(e, &low);
    run_collect(e, &high);
    weft_engine_info info = info_of(e);
    print_message("%s, priority %d: %u of %u from the folder, %u pauses\n", path, (int)priority,
                  high.n_cached, LONG_PROMPT, low.n_paused);
    assert_int_equal(high.n_cached, LONG_PROMPT - 1);
    assert_true(info.n_disk_hits > 0 && info.n_disk_tokens >= LONG_PROMPT - 1);
    assert_int_equal(low.n_paused, priority > 0);
    run cold = ask(bare, n_vocab, high.prompt, LONG_PROMPT, WEFT_REQUEST_NO_CACHE);
    run_assert_identical(&high, &cold, n_vocab);
    run alone = {.prompt = low.prompt, .n_prompt = SHORT_PROMPT, .max_new = LONG_ANSWER};
    run_all(bare, n_vocab, &alone, 1);
    run_assert_identical(&low, &alone, n_vocab);
    free((void *)(uintptr_t)low.prompt);
    free((void *)(uintptr_t)high.prompt);
    run_free(&low);
    run_free(&high);
    run_free(&cold);
    run_free(&alone);
    weft_engine_close(e);
    weft_engine_close(bare);
    weft_model_close(model);
    test_folder_remove(&folder);
    test_folder_create(&folder);
}

static void test_room_is_made_for_what_is_there(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CROWD_MODELS); i++) {
        check_room(CROWD_MODELS[i], 1, 4);
        check_room(CROWD_MODELS[i], 1, 1);
    }
    /* Of windows and states nothing shrinks. */
    check_room(CROWD_MODELS[0], 0, 4);
}

/* The folder has nothing for it: it begins as without one, and at once. */
static void test_no_room_is_made_for_nothing(void **state)
{
    (void)state;
    setting s = {GOLDEN_PATH("llama"), NULL, LONG_PROMPT, 512, WEFT_ACT_BF16};
    answer_elsewhere(&s, 7);
    weft_model *model = run_open_model(s.model);
    uint32_t n_vocab = run_n_vocab(model);
    uint64_t bytes = bytes_for(model, &s, SHORT_PROMPT + LONG_ANSWER);
    weft_engine *e = open_engine(
        model, &s, (weft_engine_options){.state_dir = folder.path, .memory_bytes = bytes});
    int32_t *ids = run_random_ids(LONG_PROMPT, n_vocab, 8);
    run low = {.prompt = ids, .n_prompt = SHORT_PROMPT, .max_new = LONG_ANSWER};
    run high = {.prompt = ids + 1, .n_prompt = LONG_PROMPT - 1, .max_new = NEW, .priority = 1};
    run_submit(e, n_vocab, &low);
    step(e, 1 << 20);
    run_submit(e, n_vocab, &high);
    step(e, 1 << 20);
    weft_engine_info info = info_of(e);
    assert_true(info.n_active == 1 && info.n_waiting == 1 && info.n_paused == 1);
    assert_int_equal(info.disk_bytes_read, 0);
    while (step(e, 1 << 20) > 0) continue;
    run_collect(e, &low);
    run_collect(e, &high);
    assert_true(high.n_cached == 0 && low.n_paused == 1 && high.n_paused == 0);
    run_free(&low);
    run_free(&high);
    free(ids);
    weft_engine_close(e);
    weft_model_close(model);
}

/* ---- the folder's own bounds ----------------------------------------------------------------- */

/* B34: less than one file holds, exactly one, and a few: never more than that is there, and what
 * is there is the newest. */
static void test_b34_budgets(void **state)
{
    (void)state;
    setting s = {GOLDEN_PATH("llama"), NULL, 128, 512, WEFT_ACT_BF16};
    weft_model *model = run_open_model(s.model);
    uint32_t n_vocab = run_n_vocab(model);
    uint64_t part = 0;
    for (uint32_t k = 0; k < 4; k++) {
        uint64_t most = k == 0 ? UINT64_MAX : k == 1 ? part - 1 : k == 2 ? part : 5 * part;
        for (uint64_t seed = 0; seed < 3; seed++) {
            int32_t *ids = run_random_ids(s.n_prompt, n_vocab, seed);
            weft_engine *e = open_engine(
                model, &s,
                (weft_engine_options){.state_dir = folder.path, .state_dir_bytes = most});
            run r = ask(e, n_vocab, ids, s.n_prompt, 0);
            kv_node *root = e->prefix->spaces->roots[1];
            part_place place = {&e->stores->config, true, PART_PAGE, 0, KV_PAGE_TOKENS};
            assert_non_null(root->child);
            part = part_bytes(&place);
            run_free(&r);
            weft_engine_close(e);
            e = open_engine(
                model, &s,
                (weft_engine_options){.state_dir = folder.path, .state_dir_bytes = most});
            weft_engine_info info = info_of(e);
            assert_true(info.disk_bytes <= most);
            /* Two whole pages and a part of one: with room for one file there is the first page. */
            kv_disk_step(&e->disk);
            r = ask(e, n_vocab, ids, s.n_prompt, 0);
            uint32_t found = k == 0 || k == 3 ? 127 : k == 1 ? 0 : 64;
            assert_int_equal(r.n_cached, found);
            kv_disk_drop(&e->disk);
            run_free(&r);
            weft_engine_close(e);
            free(ids);
        }
        test_folder_remove(&folder);
        test_folder_create(&folder);
    }
    weft_model_close(model);
}

static void test_arguments(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH("llama"));
    weft_error err = {WEFT_OK, ""};
    weft_engine *e;
    weft_engine_options o = {.struct_size = sizeof o, .context = 64, .state_dir_bytes = 5};
    assert_status(WEFT_ARGUMENT, weft_engine_open(model, &o, &e, &err), &err);
    assert_message(&err, "state_dir_bytes is given, but no state_dir");
    o.state_dir = folder.path;
    o.flags = WEFT_ENGINE_NO_CACHE;
    assert_status(WEFT_ARGUMENT, weft_engine_open(model, &o, &e, &err), &err);
    assert_message(&err, "state_dir is given, but nothing is kept of requests");
    o.flags = 0;
    o.state_dir = test_folder_path(&folder, "nowhere");
    assert_status(WEFT_IO, weft_engine_open(model, &o, &e, &err), &err);
    assert_message(&err, "state_dir: cannot");
    weft_model_close(model);
}

/* ---- files that are of no use ---------------------------------------------------------------- */

/* Every name in the folder, each NUL-terminated. */
static char *list_folder(size_t *n_bytes)
{
    char *names;
    assert_ok(io_system()->list(io_system(), folder.path, mem_system(), &names, n_bytes, NULL),
              NULL);
    return names;
}

/* B33: each file in turn is cut, changed in one place, or gone. */
static void check_damage(const setting *s, uint32_t how)
{
    weft_model *model = run_open_model(s->model);
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(s->n_prompt, n_vocab, 4);
    weft_engine *bare = open_engine(model, s, (weft_engine_options){0});
    run cold = ask(bare, n_vocab, ids, s->n_prompt, 0);
    weft_engine_close(bare);
    answer_elsewhere(s, 4);
    size_t n_names;
    char *names = list_folder(&n_names);
    uint32_t n_damaged = 0;
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1) {
        char *data;
        size_t n;
        const char *path = test_folder_path(&folder, name);
        assert_ok(io_read_file(io_system(), mem_system(), path, SIZE_MAX, &data, &n, NULL), NULL);
        size_t at = (size_t)(rng_u64(3, how * 100 + n_damaged) % n);
        data[at] ^= (char)(1 + how);
        if (how % 3 == 0) test_folder_write(&folder, name, data, at);
        if (how % 3 == 1) test_folder_write(&folder, name, data, n);
        if (how % 3 == 2) remove(path);
        mem_free(mem_system(), data, n + 1);
        weft_engine *e = open_with_folder(model, s);
        run r = ask(e, n_vocab, ids, s->n_prompt, 0);
        run_assert_identical(&r, &cold, n_vocab);
        n_damaged += info_of(e).n_disk_damaged > 0;
        run_free(&r);
        weft_engine_close(e); /* which writes it again */
        e = open_with_folder(model, s);
        r = ask(e, n_vocab, ids, s->n_prompt, 0);
        assert_int_equal(r.n_cached, s->n_prompt - 1);
        assert_int_equal(info_of(e).n_disk_damaged, 0);
        run_free(&r);
        weft_engine_close(e);
    }
    assert_true(how % 3 == 2 || n_damaged > 1);
    mem_free(mem_system(), names, n_names);
    run_free(&cold);
    free(ids);
    weft_model_close(model);
    test_folder_remove(&folder);
    test_folder_create(&folder);
}

static void test_b33_damage(void **state)
{
    (void)state;
    static const setting SETTINGS[] = {{GOLDEN_PATH("llama"), NULL, 150, 512, WEFT_ACT_BF16},
                                       {GOLDEN_PATH("qwen3_5"), NULL, 150, 512, WEFT_ACT_BF16}};
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++) {
        for (uint32_t how = 0; how < 9; how++) check_damage(&SETTINGS[i], how);
    }
}

/* Models, codecs, arithmetic and salts share a folder, and find nothing of each other's; what is no
 * part stays as it is. */
static void test_others(void **state)
{
    (void)state;
    static const setting SETTINGS[] = {
        {GOLDEN_PATH("llama"), NULL, 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("llama"), "f16", 150, 512, WEFT_ACT_BF16},
        {GOLDEN_PATH("llama"), "bf16", 150, 512, WEFT_ACT_F32},
        {GOLDEN_PATH("llama-yarn"), NULL, 150, 512, WEFT_ACT_BF16},
    };
    test_folder_write(&folder, "letter.txt", "to a friend", 11);
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < COUNT_OF(SETTINGS); i++) {
            const setting *s = &SETTINGS[i];
            weft_model *model = run_open_model(s->model);
            uint32_t n_vocab = run_n_vocab(model);
            int32_t *ids = run_random_ids(s->n_prompt, n_vocab, 4);
            weft_engine *e = open_with_folder(model, s);
            run r = {
                .prompt = ids, .n_prompt = s->n_prompt, .max_new = NEW, .cache_salt = 7 * pass};
            run_all(e, n_vocab, &r, 1);
            assert_int_equal(r.n_cached, 0);
            run again = {.prompt = ids, .n_prompt = s->n_prompt, .max_new = NEW};
            run_all(e, n_vocab, &again, 1);
            assert_int_equal(again.n_cached, s->n_prompt - 1);
            assert_int_equal(info_of(e).n_disk_hits, pass);
            assert_int_equal(info_of(e).n_disk_damaged, 0);
            run_free(&r);
            run_free(&again);
            weft_engine_close(e);
            free(ids);
            weft_model_close(model);
        }
    }
    assert_int_equal(access(test_folder_path(&folder, "letter.txt"), F_OK), 0);
}

/* ---- several processes ----------------------------------------------------------------------- */

/* Four at once write and read the same and other prompts, in folders with room for some of it; one
 * is killed now and then. */
static void test_processes(void **state)
{
    (void)state;
    setting s = {GOLDEN_PATH("qwen3_5"), NULL, 130, 512, WEFT_ACT_BF16};
    weft_model *model = run_open_model(s.model);
    uint32_t n_vocab = run_n_vocab(model);
    weft_engine *bare = open_engine(model, &s, (weft_engine_options){0});
    run cold[6];
    for (uint64_t i = 0; i < 6; i++) {
        int32_t *ids = run_random_ids(s.n_prompt, n_vocab, i);
        cold[i] = ask(bare, n_vocab, ids, s.n_prompt, WEFT_REQUEST_NO_CACHE);
        free(ids);
    }
    weft_engine_close(bare);
    pid_t children[4];
    fflush(NULL);
    for (uint32_t c = 0; c < 4; c++) {
        children[c] = fork();
        if (children[c] != 0) continue;
        for (uint32_t round = 0; round < 6; round++) {
            weft_engine *e = open_engine(
                model, &s,
                (weft_engine_options){.state_dir = folder.path, .state_dir_bytes = 1500000});
            for (uint32_t i = 0; i < 3; i++) {
                uint64_t seed = (c + i + round) % 6;
                int32_t *ids = run_random_ids(s.n_prompt, n_vocab, seed);
                run r = ask(e, n_vocab, ids, s.n_prompt, 0);
                if (memcmp(r.tokens, cold[seed].tokens, NEW * sizeof *ids) != 0) _exit(2);
                run_free(&r);
                free(ids);
            }
            weft_engine_close(e);
        }
        _exit(0);
    }
    for (uint32_t c = 0; c < 4; c++) {
        int status = 0;
        if (c == 3) kill(children[c], SIGKILL);
        assert_int_equal(waitpid(children[c], &status, 0), children[c]);
        assert_true(c == 3 || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    }
    weft_engine *e = open_with_folder(model, &s);
    assert_true(info_of(e).disk_bytes > 0);
    for (uint64_t i = 0; i < 6; i++) {
        int32_t *ids = run_random_ids(s.n_prompt, n_vocab, i);
        run r = ask(e, n_vocab, ids, s.n_prompt, 0);
        run_assert_identical(&r, &cold[i], n_vocab);
        run_free(&r);
        free(ids);
        run_free(&cold[i]);
    }
    weft_engine_close(e);
    weft_model_close(model);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* A life with an allocation or an operation on files failing: an answer that comes is right. */
static bool attempt(const run *cold, size_t memory_at, size_t operation_at)
{
    fault_allocator memory;
    fault_io files;
    fault_allocator_init(&memory, 0);
    fault_io_init(&files, 0);
    weft_model_options options = {.struct_size = sizeof options, .allocator = &memory.allocator};
    weft_engine_options with = {
        .struct_size = sizeof with, .n_threads = 1, .context = 256, .state_dir = folder.path};
    weft_model *model;
    weft_engine *e;
    weft_error err = {WEFT_OK, ""};
    assert_ok(api_model_open(GOLDEN_PATH("qwen3_5"), &options, &files.io, &model, &err), &err);
    memory.fail_at = memory_at == 0 ? 0 : memory.n_allocations + memory_at;
    files.fail_at = operation_at == 0 ? 0 : files.n_operations + operation_at;
    weft_status status = weft_engine_open(model, &with, &e, &err);
    assert_true(status == WEFT_OK || status == WEFT_NOMEM || status == WEFT_IO);
    for (uint32_t i = 0; i < 2 && status == WEFT_OK; i++) {
        weft_request r = {.struct_size = sizeof r,
                          .flags = WEFT_REQUEST_IGNORE_STOP,
                          .prompt = cold->prompt,
                          .n_prompt = cold->n_prompt,
                          .max_new = NEW};
        weft_handle handle;
        uint32_t n_active = 1;
        if (weft_submit(e, &r, &handle, &err) != WEFT_OK) break;
        while (n_active > 0 && weft_step(e, &n_active, &err) == WEFT_OK) continue;
        weft_event event = {.struct_size = sizeof event};
        for (uint32_t k = 0; event.kind != WEFT_EVENT_DONE && k < 20; k++) {
            assert_ok(weft_poll(e, handle, &event, &err), &err);
            if (event.kind == WEFT_EVENT_TOKEN) assert_int_equal(event.token, cold->tokens[k]);
        }
        assert_int_equal(event.kind, WEFT_EVENT_DONE);
    }
    bool hit = files.hit || memory.hit;
    weft_engine_close(e);
    hit = hit || files.hit || memory.hit;
    weft_model_close(model);
    fault_allocator_check(&memory);
    fault_io_check(&files);
    return hit;
}

static void test_refused(void **state)
{
    (void)state;
    setting s = {GOLDEN_PATH("qwen3_5"), NULL, 130, 256, WEFT_ACT_BF16};
    weft_model *model = run_open_model(s.model);
    uint32_t n_vocab = run_n_vocab(model);
    int32_t *ids = run_random_ids(s.n_prompt, n_vocab, 4);
    weft_engine *bare = open_engine(model, &s, (weft_engine_options){0});
    run cold = ask(bare, n_vocab, ids, s.n_prompt, WEFT_REQUEST_NO_CACHE);
    weft_engine_close(bare);
    for (uint32_t warm = 0; warm < 2; warm++) {
        size_t n[2] = {0, 0};
        for (uint32_t kind = 0; kind < 2; kind++) {
            bool hit = true;
            while (hit) {
                test_folder_remove(&folder);
                test_folder_create(&folder);
                if (warm == 1) answer_elsewhere(&s, 4);
                n[kind]++;
                hit = attempt(&cold, kind == 0 ? n[0] : 0, kind == 1 ? n[1] : 0);
            }
        }
        print_message("%s: %zu allocations and %zu operations failed\n", warm ? "known" : "new",
                      n[0], n[1]);
        assert_true(n[0] > 80 && n[1] > 12);
    }
    free(ids);
    run_free(&cold);
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_goldens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_real_models, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room_is_made_for_what_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_room_is_made_for_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends_on_the_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_b34_budgets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(test_b33_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };
    return TEST_RUN("engine/disk", tests);
}
