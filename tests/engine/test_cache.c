/* test_cache.c - what earlier requests left changes no bit of an answer (KV-51), is found where it
 * can be, and gives way where it must; and requests of one engine may store in different codecs
 * (KV-8). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "support/fault.h"
#include "support/runs.h"

enum { NEW_TOKENS = 5, CONTEXT = 512 };

typedef struct setting {
    weft_act act;
    const char *kv, *isa, *backend;
    uint64_t memory_bytes;
    uint32_t chunk;
} setting;

static weft_engine *open_engine(const weft_model *model, setting s)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .backend = s.backend,
                                   .isa = s.isa,
                                   .kv = s.kv,
                                   .act = s.act,
                                   .n_threads = s.backend == NULL ? 2 : 1,
                                   .context = CONTEXT,
                                   .chunk_tokens = s.chunk,
                                   .memory_bytes = s.memory_bytes};
    return run_open_engine(model, &options);
}

/* ---- a conversation, cold and warm ----------------------------------------------------------- */

/* Prompts that have a beginning in common: n_common tokens of one text, then their own. */
typedef struct prompt {
    uint32_t n_common, n_own;
    uint64_t own_seed;
} prompt;

static const prompt PROMPTS[] = {
    {150, 0, 0},                           /* cold */
    {150, 0, 0},                           /* the same */
    {150, 30, 1},                          /* goes on */
    {150, 30, 1}, {90, 20, 2},             /* leaves it inside of a page */
    {150, 60, 1},                          /* goes on from what went on */
    {64, 1, 3},                            /* leaves it where a page ends */
    {65, 9, 3},   {1, 3, 4},   {0, 70, 5}, /* has nothing to do with it */
    {170, 1, 6},
};
enum { N_PROMPTS = sizeof PROMPTS / sizeof PROMPTS[0] };

static int32_t *prompt_ids(const prompt *p, uint32_t n_vocab)
{
    int32_t *common = run_random_ids(p->n_common, n_vocab, 77);
    int32_t *own = run_random_ids(p->n_own, n_vocab, 1000 + p->own_seed);
    int32_t *ids = calloc((size_t)p->n_common + p->n_own, sizeof *ids);
    memcpy(ids, common, p->n_common * sizeof *ids);
    memcpy(ids + p->n_common, own, p->n_own * sizeof *ids);
    free(common);
    free(own);
    return ids;
}

static void make_runs(run *runs, uint32_t n_vocab)
{
    memset(runs, 0, N_PROMPTS * sizeof *runs);
    for (uint32_t i = 0; i < N_PROMPTS; i++) {
        runs[i] = (run){.prompt = prompt_ids(&PROMPTS[i], n_vocab),
                        .n_prompt = PROMPTS[i].n_common + PROMPTS[i].n_own,
                        .max_new = NEW_TOKENS};
        if (i % 3 == 2)
            runs[i].sampling = (weft_sampling){
                .temperature = 0.8F, .top_p = 0.95F, .min_p = 0.01F, .top_k = 20, .seed = 1234 + i};
    }
}

static void free_runs(run *runs)
{
    for (uint32_t i = 0; i < N_PROMPTS; i++) {
        free((void *)(uintptr_t)runs[i].prompt);
        run_free(&runs[i]);
    }
}

/* Each of runs with the bits of cold: one by one, then all of them at once. */
static uint32_t check_warm(const weft_model *model, setting s, const run *cold)
{
    uint32_t n_vocab = run_n_vocab(model);
    weft_engine *engine = open_engine(model, s);
    uint32_t n_cached = 0;
    for (int together = 0; together < 2; together++) {
        run warm[N_PROMPTS];
        make_runs(warm, n_vocab);
        for (uint32_t i = 0; i < N_PROMPTS && !together; i++) run_all(engine, n_vocab, &warm[i], 1);
        if (together) run_all(engine, n_vocab, warm, N_PROMPTS);
        for (uint32_t i = 0; i < N_PROMPTS; i++) {
            run_assert_identical(&warm[i], &cold[i], n_vocab);
            assert_true(warm[i].n_cached <= warm[i].n_known && warm[i].n_known < warm[i].n_prompt);
            n_cached += warm[i].n_cached;
        }
        /* KV-52: all but the last, whatever layers there are. */
        if (s.memory_bytes == 0 && !together) assert_int_equal(warm[1].n_cached, 149);
        if (s.memory_bytes == 0 && !together) assert_int_equal(warm[3].n_cached, 179);
        free_runs(warm);
    }
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(engine, &info, NULL), NULL);
    assert_int_equal(info.n_cache_tokens, n_cached);
    assert_int_equal(info.kv_bytes_live, 0);
    assert_true(info.kv_bytes_cached > 0 && info.kv_bytes_cached <= info.kv_bytes_budget);
    assert_ok(weft_engine_drop_cache(engine, NULL), NULL);
    assert_ok(weft_engine_get_info(engine, &info, NULL), NULL);
    assert_int_equal(info.kv_bytes_cached, 0);
    weft_engine_close(engine);
    return n_cached;
}

static void check_setting(const weft_model *model, setting s)
{
    uint32_t n_vocab = run_n_vocab(model);
    run cold[N_PROMPTS];
    make_runs(cold, n_vocab);
    weft_engine *engine = open_engine(model, s);
    for (uint32_t i = 0; i < N_PROMPTS; i++) {
        cold[i].flags = WEFT_REQUEST_NO_CACHE;
        run_all(engine, n_vocab, &cold[i], 1);
        assert_int_equal(cold[i].n_known, 0);
    }
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(engine, &info, NULL), NULL);
    assert_int_equal(info.kv_bytes_cached, 0);
    weft_engine_close(engine);
    assert_true(check_warm(model, s, cold) > 300);
    s.chunk = 16;
    assert_true(check_warm(model, s, cold) > 300);
    /* Room for little more than the longest: what is kept comes and goes. */
    s.memory_bytes = 1;
    weft_error err = {WEFT_OK, ""};
    weft_handle handle;
    engine = open_engine(model, s);
    weft_request longest = {.struct_size = sizeof longest,
                            .prompt = cold[5].prompt,
                            .n_prompt = cold[5].n_prompt,
                            .max_new = NEW_TOKENS,
                            .sampling = {.top_p = 1.0F}};
    assert_status(WEFT_LIMIT, weft_submit(engine, &longest, &handle, &err), &err);
    unsigned long long need;
    assert_int_equal(sscanf(err.message, "the request needs %llu bytes", &need), 1);
    weft_engine_close(engine);
    s.memory_bytes = need;
    check_warm(model, s, cold);
    s.memory_bytes = need + need / 3;
    check_warm(model, s, cold);
    free_runs(cold);
}

static void check_model(const char *path, const char *const *specs, uint32_t n_specs)
{
    weft_model *model = run_open_model(path);
    for (uint32_t i = 0; i < n_specs; i += TEST_SLOWED ? 3 : 1)
        check_setting(model, (setting){.kv = specs[i]});
    if (n_specs > 2) check_setting(model, (setting){.act = WEFT_ACT_F32, .backend = "ref"});
    weft_model_close(model);
}

static const char *const SPECS[] = {NULL, "affine8g64", "affine4g32,start=100"};
static const char *const INDEXED[] = {NULL, "affine8g64,index=affine8g32",
                                      "affine4g32,index=tk8,start=100"};
static const char *const TURBO[] = {NULL, "turbo-k8v4", "turbo-k8v3,start=70"};

static void test_kv51_warm_is_cold_in_the_goldens(void **state)
{
    (void)state;
    check_model(GOLDEN_PATH("llama"), TURBO, 3);
    check_model(GOLDEN_PATH("gemma3"), TURBO, 3);
    check_model(GOLDEN_PATH("deepseek_v3"), SPECS, 3);
    check_model(GOLDEN_PATH("glm_moe_dsa-shared"), INDEXED, 3);
    check_model(GOLDEN_PATH("gemma4-ple"), TURBO, 3);
    check_model(GOLDEN_PATH("qwen3_5"), SPECS, 3);
    check_model(GOLDEN_PATH("qwen3_5_moe"), SPECS, 1);
    check_model(GOLDEN_PATH("qwen3_next"), SPECS, 1);
    check_model(GOLDEN_PATH("lfm2"), SPECS, 3);
}

static void test_kv51_warm_is_cold_in_real_models(void **state)
{
    (void)state;
    check_model(TINY_PATH("target-mlx8"), TURBO, 2);
    check_model(TINY_PATH("window-mlx4"), SPECS, 2);
    check_model(TINY_PATH("hybrid-mlx4"), SPECS, 2);
}

/* ---- codecs in company ----------------------------------------------------------------------- */

static const char *const MANY[] = {NULL,
                                   "f32",
                                   "affine8g64",
                                   "affine4g32",
                                   "turbo-k8v4",
                                   "turbo-k8v3",
                                   "k=f16,v=bf16",
                                   "affine4g64",
                                   "k=tk4",
                                   "k=bf16,v=tv5",
                                   "turbo-k8v4,0..1=bf16,start=20"};
enum { N_MANY = sizeof MANY / sizeof MANY[0] };

static void check_codecs(const char *path)
{
    weft_model *model = run_open_model(path);
    uint32_t n_vocab = run_n_vocab(model);
    run together[N_MANY];
    weft_engine *engine = open_engine(model, (setting){.kv = "bf16", .chunk = 24});
    memset(together, 0, sizeof together);
    for (uint32_t i = 0; i < N_MANY; i++) {
        together[i] = (run){.prompt = run_random_ids(20 + 13 * i, n_vocab, 3),
                            .n_prompt = 20 + 13 * i,
                            .max_new = 9 + i,
                            .kv = MANY[i]};
    }
    /* Twice: the second time each finds what it left itself. */
    run again[N_MANY];
    memcpy(again, together, sizeof again);
    run_all(engine, n_vocab, together, N_MANY);
    run_all(engine, n_vocab, again, N_MANY);
    weft_engine_close(engine);
    for (uint32_t i = 0; i < N_MANY; i++) {
        run alone = {.prompt = together[i].prompt,
                     .n_prompt = together[i].n_prompt,
                     .max_new = together[i].max_new};
        engine = open_engine(model, (setting){.kv = MANY[i]});
        run_all(engine, n_vocab, &alone, 1);
        weft_engine_close(engine);
        run_assert_identical(&together[i], &alone, n_vocab);
        run_assert_identical(&again[i], &alone, n_vocab);
        assert_int_equal(again[i].n_cached, again[i].n_prompt - 1);
        run_free(&alone);
        run_free(&together[i]);
        run_free(&again[i]);
        free((void *)(uintptr_t)together[i].prompt);
    }
    weft_model_close(model);
}

static void test_kv8_codecs_of_one_step(void **state)
{
    (void)state;
    check_codecs(GOLDEN_PATH("llama"));
    check_codecs(GOLDEN_PATH("gemma3"));
    check_codecs(GOLDEN_PATH("gemma4-dense"));
}

static void test_what_a_request_may_not_store_in(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH("llama"));
    weft_engine *engine = open_engine(model, (setting){0});
    weft_error err = {WEFT_OK, ""};
    weft_handle handle;
    int32_t id = 1;
    weft_request r = {.struct_size = sizeof r,
                      .prompt = &id,
                      .n_prompt = 1,
                      .sampling = {.top_p = 1.0F},
                      .kv = "affine9"};
    assert_status(WEFT_ARGUMENT, weft_submit(engine, &r, &handle, &err), &err);
    for (uint32_t start = 1; start < 20; start++) {
        char spec[40];
        snprintf(spec, sizeof spec, "affine8g64,start=%u", start);
        r.kv = spec;
        err = (weft_error){WEFT_OK, ""};
        weft_status status = weft_submit(engine, &r, &handle, &err);
        assert_status(start < 16 ? WEFT_OK : WEFT_LIMIT, status, &err);
    }
    assert_message(&err, "kv codec 'affine8g64,start=19': 16 others are in use, at most 16");
    weft_engine_close(engine);
    weft_model_close(model);
}

/* ---- small inputs that broke other engines --------------------------------------------------- */

static uint32_t cached_of(weft_engine *engine, uint32_t n_vocab, const int32_t *ids, uint32_t n)
{
    run r = {.prompt = ids, .n_prompt = n, .max_new = 3};
    run_all(engine, n_vocab, &r, 1);
    uint32_t n_cached = r.n_cached;
    run_free(&r);
    return n_cached;
}

/* B17: turns on a long beginning. B18: a short request in between costs nothing. B28: one token
 * first, then a long prompt twice. */
static void check_turns(const char *path)
{
    weft_model *model = run_open_model(path);
    uint32_t n_vocab = run_n_vocab(model);
    weft_engine *engine = open_engine(model, (setting){.chunk = 512});
    int32_t *ids = run_random_ids(CONTEXT, n_vocab, 5);
    int32_t *other = run_random_ids(40, n_vocab, 6);
    assert_int_equal(cached_of(engine, n_vocab, ids, 1), 0);
    assert_true(cached_of(engine, n_vocab, ids, 230) <= 1);
    assert_int_equal(cached_of(engine, n_vocab, ids, 230), 229);
    for (uint32_t turn = 1; turn <= 5; turn++) {
        uint32_t before = 230 + (turn - 1) * 50;
        assert_true(cached_of(engine, n_vocab, ids, before + 50) >= before - 1);
        uint32_t n_cached = cached_of(engine, n_vocab, other, 20 + turn);
        assert_true(turn == 1 ? n_cached == 0 : n_cached >= 18 + turn && n_cached < 20 + turn);
    }
    free(ids);
    free(other);
    weft_engine_close(engine);
    weft_model_close(model);
}

static void test_turns_of_long_conversations(void **state)
{
    (void)state;
    check_turns(GOLDEN_PATH("llama"));
    check_turns(TINY_PATH("window-mlx4"));
    check_turns(TINY_PATH("hybrid-mlx4"));
}

/* B35: what a cancelled request had forwarded is not lost. */
static void test_a_cancelled_prompt_resumes(void **state)
{
    (void)state;
    static const char *const PATHS[] = {GOLDEN_PATH("llama"), GOLDEN_PATH("gemma3"),
                                        TINY_PATH("hybrid-mlx4")};
    for (size_t i = 0; i < 3; i++) {
        weft_model *model = run_open_model(PATHS[i]);
        uint32_t n_vocab = run_n_vocab(model);
        weft_engine *engine = open_engine(model, (setting){.chunk = 50});
        int32_t *ids = run_random_ids(450, n_vocab, 5);
        weft_request r = {.struct_size = sizeof r,
                          .prompt = ids,
                          .n_prompt = 450,
                          .max_new = 3,
                          .sampling = {.top_p = 1.0F}};
        weft_handle handle;
        uint32_t n_active;
        assert_ok(weft_submit(engine, &r, &handle, NULL), NULL);
        for (int step = 0; step < 6; step++) assert_ok(weft_step(engine, &n_active, NULL), NULL);
        assert_ok(weft_cancel(engine, handle, NULL), NULL);
        assert_ok(weft_step(engine, &n_active, NULL), NULL);
        assert_int_equal(n_active, 0);
        run again = {.prompt = ids, .n_prompt = 450, .max_new = 3};
        run cold = {.prompt = ids, .n_prompt = 450, .max_new = 3, .flags = WEFT_REQUEST_NO_CACHE};
        run_all(engine, n_vocab, &again, 1);
        run_all(engine, n_vocab, &cold, 1);
        assert_int_equal(again.n_cached, 300);
        run_assert_identical(&again, &cold, n_vocab);
        run_free(&again);
        run_free(&cold);
        free(ids);
        weft_engine_close(engine);
        weft_model_close(model);
    }
}

/* B31: a model with windows and another in one process, by turns. KV-62. */
static void test_two_models_by_turns(void **state)
{
    (void)state;
    static const char *const PATHS[] = {GOLDEN_PATH("llama"), GOLDEN_PATH("gemma3")};
    weft_model *models[2];
    weft_engine *engines[2];
    int32_t *ids[2];
    run first[2];
    for (size_t i = 0; i < 2; i++) {
        models[i] = run_open_model(PATHS[i]);
        engines[i] = open_engine(models[i], (setting){0});
        ids[i] = run_random_ids(90, run_n_vocab(models[i]), 5);
        first[i] = (run){.prompt = ids[i], .n_prompt = 90, .max_new = 8};
        run_all(engines[i], run_n_vocab(models[i]), &first[i], 1);
    }
    for (size_t i = 0; i < 20; i++) {
        run r = {.prompt = ids[i % 2], .n_prompt = 90, .max_new = 8};
        run_all(engines[i % 2], run_n_vocab(models[i % 2]), &r, 1);
        run_assert_identical(&r, &first[i % 2], run_n_vocab(models[i % 2]));
        run_free(&r);
    }
    for (size_t i = 0; i < 2; i++) {
        run_free(&first[i]);
        free(ids[i]);
        weft_engine_close(engines[i]);
        weft_model_close(models[i]);
    }
}

/* Another salt finds nothing. */
static void test_salts_are_apart(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH("llama"));
    weft_engine *engine = open_engine(model, (setting){0});
    int32_t *ids = run_random_ids(50, run_n_vocab(model), 5);
    static const struct {
        uint64_t salt;
        uint32_t n_cached;
    } CASES[] = {{0, 0}, {1, 0}, {0, 49}, {2, 0}, {1, 49}};
    for (size_t i = 0; i < 5; i++) {
        weft_request r = {.struct_size = sizeof r,
                          .prompt = ids,
                          .n_prompt = 50,
                          .max_new = 1,
                          .sampling = {.top_p = 1.0F},
                          .cache_salt = CASES[i].salt};
        weft_handle handle;
        uint32_t n_active = 1;
        weft_event event = {.struct_size = sizeof event};
        assert_ok(weft_submit(engine, &r, &handle, NULL), NULL);
        while (n_active > 0) assert_ok(weft_step(engine, &n_active, NULL), NULL);
        assert_ok(weft_poll(engine, handle, &event, NULL), NULL);
        assert_int_equal(event.n_cached, CASES[i].n_cached);
        assert_ok(weft_release(engine, handle, NULL), NULL);
    }
    free(ids);
    weft_engine_close(engine);
    weft_model_close(model);
}

/* ---- memory that is refused ------------------------------------------------------------------ */

/* Two turns with an allocation refused: the right tokens, or NOMEM; keeping is never an error. */
static weft_status two_turns(const env *world, const char *path, int32_t *tokens, weft_error *err)
{
    static const int32_t IDS[] = {5, 9, 2, 77, 31, 8, 100, 3, 4, 6};
    weft_model_options options = {.struct_size = sizeof options, .allocator = world->allocator};
    weft_engine_options with = {.struct_size = sizeof with, .n_threads = 1, .context = 64};
    weft_model *model = NULL;
    weft_engine *engine = NULL;
    weft_status status = api_model_open(path, &options, world->io, &model, err);
    if (status == WEFT_OK) status = weft_engine_open(model, &with, &engine, err);
    for (int turn = 0; turn < 2 && status == WEFT_OK; turn++) {
        weft_request r = {.struct_size = sizeof r,
                          .prompt = IDS,
                          .n_prompt = 10,
                          .max_new = 1,
                          .flags = WEFT_REQUEST_IGNORE_STOP,
                          .sampling = {.top_p = 1.0F}};
        weft_handle handle;
        uint32_t n_active = 1;
        status = weft_submit(engine, &r, &handle, err);
        while (status == WEFT_OK && n_active > 0) status = weft_step(engine, &n_active, err);
        weft_event event = {.struct_size = sizeof event};
        if (status == WEFT_OK) status = weft_poll(engine, handle, &event, err);
        if (status != WEFT_OK) break;
        if (event.kind == WEFT_EVENT_TOKEN) tokens[turn] = event.token;
        if (event.kind == WEFT_EVENT_DONE) status = event.error.status;
    }
    weft_engine_close(engine);
    weft_model_close(model);
    return status;
}

static void test_refused_memory_costs_no_answer(void **state)
{
    (void)state;
    static const char PATH[] = GOLDEN_PATH("gemma3");
    int32_t right[2] = {-1, -1};
    size_t n_kept_going = 0;
    for (size_t at = 0;; at++) {
        fault_allocator fault;
        int32_t tokens[2] = {-1, -1};
        weft_error err = {WEFT_OK, ""};
        fault_allocator_init(&fault, at);
        env world = {.allocator = &fault.allocator, .io = io_system()};
        weft_status status = two_turns(&world, PATH, tokens, &err);
        fault_allocator_check(&fault);
        if (at == 0) memcpy(right, tokens, sizeof right);
        assert_true(status == WEFT_OK || status == WEFT_NOMEM);
        if (status == WEFT_OK) assert_memory_equal(tokens, right, sizeof right);
        n_kept_going += fault.hit && status == WEFT_OK;
        if (at > 0 && !fault.hit) break;
    }
    assert_true(right[0] >= 0 && right[0] == right[1]);
    assert_true(n_kept_going >= 2);
}

/* A prompt whose answer is one token, or none, comes again like any other: all but its last token
 * is known. */
static void test_shortest_answers(void **state)
{
    (void)state;
    static const char *const NAMES[] = {GOLDEN_PATH("llama"), GOLDEN_PATH("gemma3"),
                                        GOLDEN_PATH("qwen3_5"), GOLDEN_PATH("lfm2")};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        weft_model *model = run_open_model(NAMES[i]);
        uint32_t n_vocab = run_n_vocab(model);
        for (uint32_t max_new = 0; max_new < 2; max_new++) {
            weft_engine_options o = {.struct_size = sizeof o, .n_threads = 1, .context = 256};
            weft_engine *e = run_open_engine(model, &o);
            int32_t *ids = run_random_ids(100, n_vocab, 3);
            for (uint32_t pass = 0; pass < 2; pass++) {
                run r = {.prompt = ids, .n_prompt = 100, .max_new = max_new};
                run_all(e, n_vocab, &r, 1);
                assert_int_equal(r.n_cached, pass == 0 ? 0 : 99);
                run_free(&r);
            }
            weft_engine_close(e);
            free(ids);
        }
        weft_model_close(model);
    }
}

/* B10: 36 requests at once, of 1 to 400 tokens, half of them asked before; two end with their first
 * token. */
static void check_many(const char *path, const char *kv)
{
    enum { AT_ONCE = 36, LONGEST = 400 };
    weft_model *model = run_open_model(path);
    uint32_t n_vocab = run_n_vocab(model);
    weft_engine_options o = {.struct_size = sizeof o,
                             .kv = kv,
                             .n_threads = 2,
                             .context = CONTEXT,
                             .chunk_tokens = 100,
                             .max_sequences = AT_ONCE,
                             .memory_bytes = (uint64_t)1 << 30};
    weft_engine *engine = run_open_engine(model, &o);
    weft_engine *bare = open_engine(model, (setting){.kv = kv});
    run runs[AT_ONCE];
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        uint32_t n = i < 2 ? 1 + i : 1 + i * (LONGEST - 1) / (AT_ONCE - 1);
        runs[i] = (run){.prompt = run_random_ids(n, n_vocab, i),
                        .n_prompt = n,
                        .max_new = i == 7 || i == 20 ? 1 : NEW_TOKENS};
    }
    for (uint32_t i = 0; i < AT_ONCE; i += 2) {
        run before = runs[i];
        run_all(engine, n_vocab, &before, 1);
        run_free(&before);
    }
    run_all(engine, n_vocab, runs, AT_ONCE);
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        run alone = {.prompt = runs[i].prompt,
                     .n_prompt = runs[i].n_prompt,
                     .max_new = runs[i].max_new,
                     .flags = WEFT_REQUEST_NO_CACHE};
        run_all(bare, n_vocab, &alone, 1);
        run_assert_identical(&runs[i], &alone, n_vocab);
        /* Of new ones a first token or two that others have. */
        assert_true(i % 2 == 0 ? runs[i].n_cached + 1 == runs[i].n_prompt : runs[i].n_cached < 8);
        run_free(&alone);
        free((void *)(uintptr_t)runs[i].prompt);
        run_free(&runs[i]);
    }
    weft_engine_info info = {.struct_size = sizeof info};
    assert_ok(weft_engine_get_info(engine, &info, NULL), NULL);
    assert_true(info.kv_bytes_live == 0 && info.n_active == 0);
    weft_engine_close(bare);
    weft_engine_close(engine);
    weft_model_close(model);
}

static void test_b10_many_at_once(void **state)
{
    (void)state;
    check_many(GOLDEN_PATH("llama"), NULL);
    check_many(GOLDEN_PATH("gemma3"), "affine8g64");
    check_many(GOLDEN_PATH("qwen3_5"), "turbo-k8v4");
    check_many(GOLDEN_PATH("deepseek_v3"), NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv51_warm_is_cold_in_the_goldens),
        cmocka_unit_test(test_kv51_warm_is_cold_in_real_models),
        cmocka_unit_test(test_kv8_codecs_of_one_step),
        cmocka_unit_test(test_what_a_request_may_not_store_in),
        cmocka_unit_test(test_turns_of_long_conversations),
        cmocka_unit_test(test_a_cancelled_prompt_resumes),
        cmocka_unit_test(test_two_models_by_turns),
        cmocka_unit_test(test_salts_are_apart),
        cmocka_unit_test(test_refused_memory_costs_no_answer),
        cmocka_unit_test(test_shortest_answers),
        cmocka_unit_test(test_b10_many_at_once),
    };
    return TEST_RUN("engine/cache", tests);
}
