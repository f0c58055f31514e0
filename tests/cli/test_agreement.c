/* test_agreement.c - B03: weft bench tells tokens that a codec explains from nonsense.
 *
 * tests/CMakeLists.txt compiles it with other names for weft_submit and weft_poll, those of
 * functions in this file, where the tokens that are read may be other ones: as if keys and values
 * were not theirs. */
#include "cli/agreement.h"
#include "base/assert.h"
#include "base/rng.h"
#include "support/runs.h"

static bool planted;

weft_status planted_submit(weft_engine *engine, const weft_request *request, weft_handle *handle,
                           weft_error *err);
weft_status planted_poll(weft_engine *engine, weft_handle handle, weft_event *event,
                         weft_error *err);

weft_status planted_submit(weft_engine *engine, const weft_request *request, weft_handle *handle,
                           weft_error *err)
{
    weft_request r = *request;
    int32_t others[AGREEMENT_POSITIONS];
    if (planted && r.prompt_logits != NULL) {
        assert_int_equal(r.n_prompt, AGREEMENT_POSITIONS);
        for (uint32_t i = 0; i < r.n_prompt; i++) others[i] = (int32_t)(rng_u64(9, i) % 256);
        r.prompt = others;
    }
    return weft_submit(engine, &r, handle, err);
}

weft_status planted_poll(weft_engine *engine, weft_handle handle, weft_event *event,
                         weft_error *err)
{
    return weft_poll(engine, handle, event, err);
}

static agreement measure(const weft_model *model, const char *kv)
{
    agreement a;
    weft_error err = {WEFT_OK, ""};
    weft_engine_options o = {.struct_size = sizeof o,
                             .kv = kv,
                             .n_threads = 1,
                             .context = AGREEMENT_POSITIONS,
                             .flags = WEFT_ENGINE_NO_CACHE};
    weft_engine *engine = run_open_engine(model, &o);
    assert_ok(agreement_measure(engine, model, kv, &a, &err), &err);
    weft_engine_close(engine);
    assert_int_equal(a.n_tokens, AGREEMENT_TOKENS);
    assert_true(a.n_same <= a.n_tokens && a.n_least <= a.n_tokens && a.n_least > 0);
    return a;
}

static void check_model(const char *path, const char *const *codecs, size_t n)
{
    weft_model *model = run_open_model(path);
    weft_error err = {WEFT_OK, ""};
    for (size_t i = 0; i < n; i++) {
        agreement a = measure(model, codecs[i]);
        print_message("%s: %u of %u, at least %u\n", codecs[i], a.n_same, a.n_tokens, a.n_least);
        assert_ok(agreement_check(&a, codecs[i], &err), &err);
        planted = true;
        a = measure(model, codecs[i]);
        planted = false;
        assert_status(WEFT_LIMIT, agreement_check(&a, codecs[i], &err), &err);
        assert_message(&err, codecs[i]);
        assert_message(&err, "tokens are those with f32");
        err = (weft_error){WEFT_OK, ""};
    }
    weft_model_close(model);
}

static void test_b03_codecs(void **state)
{
    (void)state;
    static const char *const ALL[] = {
        "f32",        "f16",        "bf16",        "q8_0",       "affine8g32", "affine8g64",
        "affine4g32", "affine4g64", "affine4g128", "turbo-k8v8", "turbo-k8v5", "turbo-k8v4",
        "turbo-k8v3", "turbo-k5v3", "turbo-k4v3",  "turbo-k8v2", "turbo-k4v2", "k=tk2,v=tv2",
    };
    static const char *const LATENT[] = {"bf16", "affine8g64", "affine4g32"};
    static const char *const RULES[] = {"affine4g32,2=bf16,5.v=affine8g32"};
    check_model(TINY_PATH("draft"), ALL, COUNT_OF(ALL));
    check_model(TINY_PATH("window-mlx4"), ALL, COUNT_OF(ALL));
    check_model(TINY_PATH("hybrid-mlx4"), RULES, 1);
    check_model(GOLDEN_PATH("deepseek_v3"), LATENT, COUNT_OF(LATENT));
}

/* Of f32 itself nothing may be another. What is expected follows from the width of both sides. */
static void test_b03_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *kv;
        uint32_t least;
    } BOUNDS[] = {
        {"f32", 40},        {"bf16", 26},      {"k=f32,v=bf16", 30}, {"affine8g64", 24},
        {"turbo-k8v4", 10}, {"affine4g32", 5}, {"turbo-k4v3", 2},    {"turbo-k8v2", 2},
    };
    weft_model *model = run_open_model(TINY_PATH("draft"));
    for (size_t i = 0; i < COUNT_OF(BOUNDS); i++) {
        agreement a = measure(model, BOUNDS[i].kv);
        if (a.n_least != BOUNDS[i].least) fail_msg("%s: %u", BOUNDS[i].kv, a.n_least);
    }
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b03_codecs),
        cmocka_unit_test(test_b03_bounds),
    };
    return TEST_RUN("cli/agreement", tests);
}
