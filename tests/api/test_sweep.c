/* test_sweep.c - opening a model and one whole generation with every allocation, then every file
 * operation, failing once: the right status each time, nothing leaked. */
#include <string.h>

#include "api/api.h"
#include "support/fault.h"
#include "support/test.h"

#define MESSAGES "[{\"role\":\"user\",\"content\":\"Tell me a story.\"}]"

static weft_status generate(weft_engine *engine, const int32_t *ids, size_t n, weft_detokenizer *d,
                            weft_error *err)
{
    static const weft_logit_bias BIAS[] = {{3, 2.0F}, {5, -2.0F}};
    static const char *const TEXTS[] = {"never said, zq", "\n\n\n"};
    weft_request r = {.struct_size = sizeof r,
                      .prompt = ids,
                      .n_prompt = (uint32_t)n,
                      .max_new = 3,
                      .flags = WEFT_REQUEST_IGNORE_STOP | WEFT_REQUEST_NO_CACHE,
                      .draft = "ngram",
                      .n_top = 4,
                      .min_new = 2,
                      .sampling = {.temperature = 0.7F,
                                   .top_p = 0.9F,
                                   .min_p = 0.05F,
                                   .top_k = 40,
                                   .seed = 1,
                                   .typical_p = 0.9F,
                                   .xtc_probability = 0.5F,
                                   .xtc_threshold = 0.1F,
                                   .repetition_penalty = 1.1F,
                                   .frequency_penalty = 0.1F,
                                   .dry_multiplier = 0.8F,
                                   .logit_bias = BIAS,
                                   .n_logit_bias = 2}};
    if (d != NULL) {
        r.stop_texts = TEXTS;
        r.n_stop_texts = r.sampling.n_dry_breakers = 2;
        r.sampling.dry_breakers = TEXTS;
    }
    weft_handle handle;
    weft_status status = weft_submit(engine, &r, &handle, err);
    uint32_t n_active = 1;
    while (status == WEFT_OK && n_active > 0) status = weft_step(engine, &n_active, err);
    while (status == WEFT_OK) {
        weft_event event = {.struct_size = sizeof event};
        status = weft_poll(engine, handle, &event, err);
        if (status != WEFT_OK || event.kind == WEFT_EVENT_NONE) break;
        const char *text;
        size_t n_bytes;
        if (event.kind == WEFT_EVENT_TOKEN && d != NULL)
            status = weft_detokenizer_push(d, event.token, &text, &n_bytes, err);
        if (event.kind != WEFT_EVENT_DONE) continue;
        if (event.finish == WEFT_FINISH_ERROR)
            status = err_set(err, event.error.status, "%s", event.error.message);
        break;
    }
    return status;
}

static weft_status use(const weft_model *model, weft_error *err)
{
    int32_t ids[64];
    size_t n = 0;
    weft_detokenizer *d = NULL;
    weft_engine *engine = NULL;
    weft_engine_options options = {.struct_size = sizeof options,
                                   .n_threads = 2,
                                   .context = 128,
                                   .chunk_tokens = 8,
                                   .max_sequences = 2};
    weft_status status = weft_chat_tokenize(model, MESSAGES, NULL, 0, ids, 64, &n, err);
    if (status == WEFT_OK) status = weft_detokenizer_create(model, 0, &d, err);
    if (status == WEFT_OK) status = weft_engine_open(model, &options, &engine, err);
    if (status == WEFT_OK) status = generate(engine, ids, n, d, err);
    weft_engine_close(engine);
    weft_detokenizer_destroy(d);
    return status;
}

static weft_status scenario(const env *world, void *user, weft_error *err)
{
    weft_model_options options = {.struct_size = sizeof options, .allocator = world->allocator};
    weft_model *model = NULL;
    weft_status status = api_model_open(user, &options, world->io, &model, err);
    if (status == WEFT_OK) status = use(model, err);
    weft_model_close(model);
    return status;
}

static void test_allocations(void **state)
{
    (void)state;
    char draft[] = WEFT_SOURCE_DIR "/models/tiny/draft";
    char hybrid[] = WEFT_SOURCE_DIR "/models/tiny/hybrid-mlx4";
    size_t n = fault_sweep(scenario, draft);
    size_t n_hybrid = fault_sweep(scenario, hybrid);
    print_message("%zu and %zu allocations\n", n, n_hybrid);
    assert_true(n >= 100 && n_hybrid > n);
}

/* A model without text: given ids. */
static weft_status scenario_ids(const env *world, void *user, weft_error *err)
{
    static const int32_t IDS[] = {5, 9, 2, 77, 31, 8, 100, 3, 4, 6};
    weft_model_options options = {.struct_size = sizeof options, .allocator = world->allocator};
    weft_engine_options with = {.struct_size = sizeof with,
                                .n_threads = 2,
                                .context = 128,
                                .chunk_tokens = 8,
                                .max_sequences = 2,
                                .kv = "affine8g32,start=9"};
    weft_model *model = NULL;
    weft_engine *engine = NULL;
    uint64_t n_bytes = 0;
    weft_status status = api_model_open(user, &options, world->io, &model, err);
    if (status == WEFT_OK) status = weft_model_state_bytes(model, &with, 40, &n_bytes, err);
    if (status == WEFT_OK && n_bytes == 0) status = err_set(err, WEFT_ARGUMENT, "no bytes");
    if (status == WEFT_OK) status = weft_engine_open(model, &with, &engine, err);
    if (status == WEFT_OK) status = generate(engine, IDS, 10, NULL, err);
    weft_engine_close(engine);
    weft_model_close(model);
    return status;
}

/* Latents, experts and their stacks. */
static void test_allocations_of_experts(void **state)
{
    (void)state;
    char path[] = GOLDEN_PATH("deepseek_v3");
    char other[] = GOLDEN_PATH("gemma4-moe");
    size_t n = fault_sweep(scenario_ids, path);
    print_message("%zu allocations\n", n);
    assert_true(n >= 80);
    assert_true(fault_sweep(scenario_ids, other) >= 80);
    char indexed[] = GOLDEN_PATH("glm_moe_dsa-shared");
    assert_true(fault_sweep(scenario_ids, indexed) >= 80);
}

static void test_files(void **state)
{
    (void)state;
    char path[] = WEFT_SOURCE_DIR "/models/tiny/window-mlx4";
    size_t n = fault_sweep_io(scenario, path);
    print_message("%zu file operations\n", n);
    assert_true(n >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations),
                                       cmocka_unit_test(test_allocations_of_experts),
                                       cmocka_unit_test(test_files)};
    return TEST_RUN("api/sweep", tests);
}
