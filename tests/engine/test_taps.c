/* test_taps.c - what comes out of layers (KV-46): the same bits alone, in pieces and in company,
 * near what the plain backend gives, what the model goes on with; and nothing else is changed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/assert.h"
#include "engine/state.h"
#include "support/compare.h"
#include "support/runs.h"

enum { N = 90, LAYERS_MOST = 8 };

static const char *const NAMES[] = {
    GOLDEN_PATH("llama"),       GOLDEN_PATH("gemma3"), GOLDEN_PATH("qwen3_5"),
    GOLDEN_PATH("gemma4-ple"),  GOLDEN_PATH("lfm2"),   GOLDEN_PATH("gpt_oss"),
    GOLDEN_PATH("deepseek_v3"), GOLDEN_PATH("cohere"), GOLDEN_PATH("qwen3_5_moe"),
};

typedef struct tapped {
    uint32_t layers[LAYERS_MOST];
    float *to[LAYERS_MOST]; /* [N, n_embd] */
    uint32_t n, n_embd;
} tapped;

static tapped make_taps(const weft_model *model, uint32_t first)
{
    tapped t = {.n_embd = model->model->params.n_embd};
    for (uint32_t l = first; l < model->model->params.n_layers && t.n < LAYERS_MOST; l++) {
        t.layers[t.n] = l;
        t.to[t.n] = calloc((size_t)N * t.n_embd, sizeof(float));
        assert_non_null(t.to[t.n++]);
    }
    return t;
}

static void free_taps(tapped *t)
{
    for (uint32_t i = 0; i < t->n; i++) free(t->to[i]);
}

static weft_handle submit(weft_engine *e, const int32_t *ids, uint32_t n, const tapped *t)
{
    weft_request r = {.struct_size = sizeof r,
                      .flags = WEFT_REQUEST_IGNORE_STOP,
                      .prompt = ids,
                      .n_prompt = n,
                      .max_new = 5,
                      .draft = "ngram",
                      .tap_layers = t == NULL ? NULL : t->layers,
                      .n_taps = t == NULL ? 0 : t->n,
                      .taps = t == NULL ? NULL : t->to};
    weft_handle handle;
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_submit(e, &r, &handle, &err), &err);
    return handle;
}

static void collect(weft_engine *e, weft_handle handle, int32_t tokens[5])
{
    weft_event event = {.struct_size = sizeof event};
    for (uint32_t i = 0; event.kind != WEFT_EVENT_DONE; i++) {
        assert_ok(weft_poll(e, handle, &event, NULL), NULL);
        if (event.kind == WEFT_EVENT_TOKEN) tokens[i] = event.token;
    }
    assert_int_equal(event.finish, WEFT_FINISH_LENGTH);
    assert_int_equal(event.n_cached, 0);
}

/* One that taps, and others beside it that tap other layers, or none. */
static void forward(const weft_model *model, const char *name, uint32_t chunk, bool company,
                    const int32_t *ids, const tapped *t, int32_t tokens[5])
{
    weft_engine_options o = {.struct_size = sizeof o,
                             .backend = name,
                             .act = WEFT_ACT_F32,
                             .n_threads = company ? 2 : 1,
                             .context = 256,
                             .chunk_tokens = chunk};
    weft_engine *e = run_open_engine(model, &o);
    tapped other = make_taps(model, 1);
    weft_handle before = company ? submit(e, ids + 3, 40, NULL) : 0;
    weft_handle handle = submit(e, ids, N, t);
    weft_handle behind = company ? submit(e, ids + 7, 61, &other) : 0;
    uint32_t n_active = 1;
    while (n_active > 0) assert_ok(weft_step(e, &n_active, NULL), NULL);
    if (t == NULL) {
        weft_event event = {.struct_size = sizeof event};
        for (uint32_t i = 0; event.kind != WEFT_EVENT_DONE; i++) {
            assert_ok(weft_poll(e, handle, &event, NULL), NULL);
            if (event.kind == WEFT_EVENT_TOKEN) tokens[i] = event.token;
        }
    } else {
        collect(e, handle, tokens);
    }
    if (before != 0) assert_ok(weft_release(e, before, NULL), NULL);
    if (behind != 0) assert_ok(weft_release(e, behind, NULL), NULL);
    free_taps(&other);
    weft_engine_close(e);
}

static void test_kv46_the_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < COUNT_OF(NAMES); m++) {
        weft_model *model = run_open_model(NAMES[m]);
        int32_t *ids = run_random_ids(N, run_n_vocab(model), 3);
        tapped alone = make_taps(model, 0);
        tapped plain = make_taps(model, 0);
        int32_t tokens[4][5];
        forward(model, "cpu", 0, false, ids, NULL, tokens[0]);
        forward(model, "cpu", 0, false, ids, &alone, tokens[1]);
        assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
        for (uint32_t k = 0; k < 3; k++) {
            tapped t = make_taps(model, 0);
            forward(model, "cpu", k == 0 ? 7 : k == 1 ? 0 : 33, k > 0, ids, &t, tokens[2]);
            assert_memory_equal(tokens[0], tokens[2], sizeof tokens[0]);
            for (uint32_t i = 0; i < t.n; i++)
                assert_floats_identical(t.to[i], alone.to[i], (size_t)N * t.n_embd, t.n_embd);
            free_taps(&t);
        }
        forward(model, "ref", 16, true, ids, &plain, tokens[3]);
        for (uint32_t i = 0; i < plain.n; i++) {
            double error = 0.0;
            double largest = 0.0;
            for (size_t k = 0; k < (size_t)N * plain.n_embd; k++) {
                error = fmax(error, fabs((double)plain.to[i][k] - (double)alone.to[i][k]));
                largest = fmax(largest, fabs((double)plain.to[i][k]));
            }
            assert_true(largest > 0.0);
            if (error > 2e-4 * largest)
                fail_msg("%s: layer %u: %g of %g", NAMES[m], i, error, largest);
        }
        free_taps(&alone);
        free_taps(&plain);
        free(ids);
        weft_model_close(model);
    }
}

/* What comes out of the last layer is what the model's last norm makes hidden states of: their
 * quotient, times the root of the mean square, is the norm's weight, the same for every token. */
static void test_the_last_layer_is_what_is_normed(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH("llama"));
    uint32_t d = model->model->params.n_embd;
    int32_t *ids = run_random_ids(N, run_n_vocab(model), 3);
    float *hidden = calloc((size_t)N * d, sizeof *hidden);
    assert_non_null(hidden);
    tapped t = make_taps(model, model->model->params.n_layers - 1);
    int32_t tokens[5];
    forward(model, "cpu", 0, false, ids, &t, tokens);
    weft_engine_options o = {
        .struct_size = sizeof o, .act = WEFT_ACT_F32, .n_threads = 1, .context = 256};
    weft_engine *e = run_open_engine(model, &o);
    weft_request r = {.struct_size = sizeof r,
                      .prompt = ids,
                      .n_prompt = N,
                      .embedding = hidden,
                      .pooling = WEFT_POOLING_TOKENS,
                      .normalize = WEFT_NORMALIZE_NO};
    weft_handle handle;
    assert_ok(weft_submit(e, &r, &handle, NULL), NULL);
    uint32_t n_active = 1;
    while (n_active > 0) assert_ok(weft_step(e, &n_active, NULL), NULL);
    for (uint32_t i = 0; i < N; i++) {
        const float *x = t.to[0] + (size_t)i * d;
        double squares = 1e-12;
        for (uint32_t c = 0; c < d; c++) squares += (double)x[c] * (double)x[c] / d;
        for (uint32_t c = 0; c < d; c++) {
            double weight = (double)hidden[(size_t)i * d + c] * sqrt(squares);
            double first = (double)hidden[c] / (double)t.to[0][c];
            double root = 0.0;
            for (uint32_t k = 0; k < d; k++) root += (double)t.to[0][k] * (double)t.to[0][k] / d;
            double expected = first * sqrt(root) * (double)x[c];
            if (fabs(weight - expected) > 1e-3 * (1.0 + fabs(expected)))
                fail_msg("token %u column %u: %g, %g", i, c, weight, expected);
        }
    }
    weft_engine_close(e);
    free_taps(&t);
    free(hidden);
    free(ids);
    weft_model_close(model);
}

static void test_refusals(void **state)
{
    (void)state;
    weft_model *model = run_open_model(GOLDEN_PATH("llama"));
    weft_model *encoder = run_open_model(GOLDEN_PATH("bert"));
    weft_engine_options o = {.struct_size = sizeof o, .context = 64, .n_threads = 1};
    weft_engine *e = run_open_engine(model, &o);
    weft_engine *of_encoder = run_open_engine(encoder, &o);
    float room[4];
    float *to[WEFT_TAPS + 1] = {room, room};
    uint32_t layers[WEFT_TAPS + 1] = {0, 1};
    static const int32_t IDS[] = {5, 6};
    weft_request r = {.struct_size = sizeof r, .prompt = IDS, .n_prompt = 2, .n_taps = 2};
    weft_handle handle;
    weft_error err = {WEFT_OK, ""};
    assert_status(WEFT_ARGUMENT, weft_submit(e, &r, &handle, &err), &err);
    assert_message(&err, "n_taps is 2, taps is NULL");
    r.taps = to;
    r.tap_layers = layers;
    layers[1] = model->model->params.n_layers;
    assert_status(WEFT_ARGUMENT, weft_submit(e, &r, &handle, &err), &err);
    assert_message(&err, "tap 1 is of layer");
    layers[1] = 0;
    assert_status(WEFT_ARGUMENT, weft_submit(e, &r, &handle, &err), &err);
    assert_message(&err, "taps 0 and 1 are of layer 0");
    layers[1] = 1;
    to[1] = NULL;
    assert_status(WEFT_ARGUMENT, weft_submit(e, &r, &handle, &err), &err);
    assert_message(&err, "tap 1 has no memory");
    r.n_taps = WEFT_TAPS + 1;
    assert_status(WEFT_LIMIT, weft_submit(e, &r, &handle, &err), &err);
    r.n_taps = 1;
    assert_status(WEFT_UNSUPPORTED, weft_submit(of_encoder, &r, &handle, &err), &err);
    weft_engine_close(e);
    weft_engine_close(of_encoder);
    weft_model_close(model);
    weft_model_close(encoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv46_the_same_bits),
        cmocka_unit_test(test_the_last_layer_is_what_is_normed),
        cmocka_unit_test(test_refusals),
    };
    return TEST_RUN("engine/taps", tests);
}
