/* test_media.c - requests with images: what towers and models compute is what Transformers does,
 * alone, together and in chunks; what the cache takes for the same; what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/assert.h"
#include "engine/state.h"
#include "support/compare.h"
#include "support/fault.h"
#include "support/runs.h"

static const char *const NAMES[] = {"qwen3_5-vision", "gemma4-vision", "gemma4-vision-clip",
                                    "gemma4_unified-vision"};

/* A golden with an image. */
typedef struct shown {
    char path[512], file[600];
    weft_model *model;
    uint32_t n_vocab;
    int32_t *ids, *prompt; /* with all tokens, and with a placeholder */
    size_t n_ids;
    uint32_t n_prompt;
    weft_image image;
} shown;

static void shown_open(shown *s, const char *name, const char *ids)
{
    memset(s, 0, sizeof *s);
    snprintf(s->path, sizeof s->path, "%s/%s", WEFT_GOLDEN_DIR, name);
    snprintf(s->file, sizeof s->file, "%s/golden.safetensors", s->path);
    s->model = run_open_model(s->path);
    s->n_vocab = run_n_vocab(s->model);
    s->ids = run_read_tensor(s->file, ids, &s->n_ids);
    assert_non_null(s->ids);
    s->prompt = run_placeholders(s->path, s->ids, (uint32_t)s->n_ids, &s->n_prompt);
    s->image = run_read_image(s->file, "image_u8");
    assert_non_null(s->image.pixels);
}

static void free_image(weft_image *image)
{
    free((void *)(uintptr_t)image->pixels);
}

static void shown_close(shown *s)
{
    weft_model_close(s->model);
    free(s->ids);
    free(s->prompt);
    free_image(&s->image);
}

static run shown_run(const shown *s, uint32_t max_new)
{
    return (run){.prompt = s->prompt,
                 .n_prompt = s->n_prompt,
                 .n_expanded = (uint32_t)s->n_ids,
                 .images = &s->image,
                 .n_images = 1,
                 .max_new = max_new,
                 .want_prompt_logits = true};
}

static weft_engine *open_engine(const weft_model *model, weft_act act, uint32_t chunk,
                                uint32_t n_threads)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .act = act,
                                   .n_threads = n_threads,
                                   .chunk_tokens = chunk,
                                   .max_image_tokens = 64,
                                   .max_outputs = 512};
    return run_open_engine(model, &options);
}

static double deviation(const float *x, size_t n)
{
    double sum = 0.0;
    double squares = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    double mean = sum / (double)n;
    return sqrt(squares / (double)n - mean * mean);
}

/* ---- towers ---------------------------------------------------------------------------------- */

/* The value that ends what a tower's last layers see, before they make a token of it: the input of
 * the last norm, and of a Qwen tower before that is taken. */
static graph_id inner_output(const graph *g)
{
    graph_id id = g->n_values - 1;
    while (g->values[id].op != GRAPH_LAYER_NORM && g->values[id].op != GRAPH_RMS_NORM) id--;
    return g->values[id].in[0];
}

/* What the tower computes on its way, of the image that it was fed last. */
static void check_inner(weft_engine *e, const media_image *image, const shown *s)
{
    const graph *g = &e->model->tower.graph;
    size_t n_expected;
    float *expected = run_read_tensor(s->file, "vision_out", &n_expected);
    if (expected == NULL) return;
    graph_id last = inner_output(g);
    graph part = *g;
    graph_value values[1024];
    assert_true(last + 2 < COUNT_OF(values));
    memcpy(values, g->values, (last + 1) * sizeof *values);
    part.values = values;
    part.capacity = COUNT_OF(values);
    part.n_values = last + 1;
    part.output = 0;
    bool rows = values[last].rows == GRAPH_TOKENS;
    graph_finish(&part, rows ? graph_take(&part, last) : last);
    weft_error err = {WEFT_OK, ""};
    assert_ok(graph_status(&part, &err), &err);
    uint32_t n = tower_patches(&e->model->tower, &image->image);
    uint32_t pool = e->model->tower.params.image.pool;
    uint32_t row_starts[2] = {0, n};
    uint32_t outputs[256];
    uint32_t n_outputs = rows ? n : image->n_tokens;
    assert_true(n <= COUNT_OF(outputs));
    for (uint32_t i = 0; i < n_outputs; i++) outputs[i] = rows ? i : i * pool * pool;
    backend_limits limits = {.n_tokens = n, .n_rows = 1, .n_outputs = n_outputs, .context = n};
    backend_plan *plan;
    assert_ok(e->api->plan(e->backend, &part, &limits, &plan, &err), &err);
    float *out = calloc(n_expected, sizeof *out);
    backend_step step = {.n_tokens = n,
                         .n_rows = 1,
                         .n_outputs = n_outputs,
                         .ids = e->tower->ids,
                         .positions = e->tower->positions,
                         .highest = e->tower->highest,
                         .places = e->tower->in.places,
                         .feeds = e->tower->in.feeds,
                         .row_starts = row_starts,
                         .outputs = outputs,
                         .views = e->tower->views,
                         .logits = out};
    assert_int_equal((size_t)n_outputs * values[last].cols, n_expected);
    assert_ok(e->api->run(e->backend, plan, &step, &err), &err);
    assert_floats_near(out, expected, n_expected, 2e-5 * deviation(expected, n_expected));
    e->api->plan_free(e->backend, plan);
    free(out);
    free(expected);
}

static void check_features(const shown *s, const char *on, const char *isa)
{
    weft_engine_options options = {.struct_size = sizeof options,
                                   .backend = on,
                                   .isa = isa,
                                   .act = WEFT_ACT_F32,
                                   .n_threads = isa == NULL ? 1 : 2,
                                   .max_outputs = 512};
    weft_engine *e = run_open_engine(s->model, &options);
    run r = shown_run(s, 1);
    weft_error err = {WEFT_OK, ""};
    uint32_t n_active;
    run_submit(e, s->n_vocab, &r);
    do {
        assert_ok(weft_step(e, &n_active, &err), &err);
    } while (n_active > 0);
    const media_image *image = &queue_find(e, r.handle)->media.images[0];
    size_t n_expected;
    float *expected = run_read_tensor(s->file, "image_features", &n_expected);
    assert_non_null(expected);
    assert_int_equal((size_t)image->n_tokens * e->model->params.n_embd, n_expected);
    assert_floats_near(image->features, expected, n_expected,
                       2e-5 * deviation(expected, n_expected));
    check_inner(e, image, s);
    free(expected);
    run_collect(e, &r);
    run_free(&r);
    weft_engine_close(e);
}

static void test_towers(void **state)
{
    (void)state;
    size_t n_isas;
    const char *const *isas = run_isas(&n_isas);
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        shown s;
        shown_open(&s, NAMES[i], "input_ids");
        check_features(&s, "ref", NULL);
        for (size_t k = 0; k < n_isas; k++) check_features(&s, "cpu", isas[k]);
        shown_close(&s);
    }
}

/* What the tower is fed is what the image processor makes of an image. */
static void test_patches(void **state)
{
    (void)state;
    shown s;
    shown_open(&s, "qwen3_5-vision", "input_ids");
    const llm_tower *t = &s.model->model->tower;
    static const char *const PIXELS[] = {"pixel_values", "pixel_values2"};
    static const char *const IMAGES[] = {"image_u8", "image2_u8"};
    for (size_t i = 0; i < 2; i++) {
        size_t n;
        float *expected = run_read_tensor(s.file, PIXELS[i], &n);
        weft_image image = run_read_image(s.file, IMAGES[i]);
        vision_image of = {image.pixels, image.width, image.height};
        vision_cut cut = tower_cut(t);
        float *patches = calloc(n, sizeof *patches);
        assert_int_equal((size_t)tower_patches(t, &of) * vision_patch_dim(&cut), n);
        vision_patches(&cut, &of, patches);
        assert_floats_near(patches, expected, n, 0x1p-23);
        free(patches);
        free(expected);
        free_image(&image);
    }
    shown_close(&s);
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Two images, with text before, between and behind. */
static void two_images(shown *s, weft_image images[2])
{
    shown_open(s, "qwen3_5-vision", "two_input_ids");
    images[0] = s->image;
    images[1] = run_read_image(s->file, "image2_u8");
}

static run two_run(const shown *s, const weft_image images[2], uint32_t max_new)
{
    run r = shown_run(s, max_new);
    r.images = images;
    r.n_images = 2;
    return r;
}

static void test_two_images(void **state)
{
    (void)state;
    shown s;
    weft_image images[2];
    two_images(&s, images);
    weft_engine *e = open_engine(s.model, WEFT_ACT_F32, 512, 2);
    run r = two_run(&s, images, 1);
    run_all(e, s.n_vocab, &r, 1);
    size_t n;
    float *expected = run_read_tensor(s.file, "two_logits", &n);
    assert_int_equal(n, s.n_ids * s.n_vocab);
    assert_floats_near(r.prompt_logits, expected, n, 2e-4 * deviation(expected, n));
    free(expected);
    run_free(&r);
    weft_engine_close(e);
    free_image(&images[1]);
    shown_close(&s);
}

/* ---- promise P1 ------------------------------------------------------------------------------ */

enum { COMPANY = 4, NEW_TOKENS = 6 };

/* Text, an image, text that begins like it, and another image or two. */
static void make_company(run *runs, const shown *s, const shown *two, const weft_image *images)
{
    runs[0] = (run){.prompt = run_random_ids(40, s->n_vocab, 3),
                    .n_prompt = 40,
                    .max_new = NEW_TOKENS,
                    .want_prompt_logits = true};
    runs[1] = shown_run(s, NEW_TOKENS);
    runs[2] = (run){
        .prompt = s->prompt, .n_prompt = 9, .max_new = NEW_TOKENS, .want_prompt_logits = true};
    runs[3] = two != NULL ? two_run(two, images, NEW_TOKENS) : shown_run(s, NEW_TOKENS);
    if (two == NULL) runs[3].images = images;
    for (uint32_t i = 0; i < COMPANY; i++) {
        if (i % 2 == 1)
            runs[i].sampling = (weft_sampling){
                .temperature = 0.8F, .top_p = 0.95F, .min_p = 0.01F, .top_k = 20, .seed = 1234 + i};
    }
}

static void free_company(run *runs)
{
    free((void *)(uintptr_t)runs[0].prompt);
    for (uint32_t i = 0; i < COMPANY; i++) run_free(&runs[i]);
}

/* The first and third have no image: they run alone in an engine that never saw one (KV-50). */
static void check_company(const shown *s, const shown *two, const weft_image *images, weft_act act)
{
    /* Tokens that see each other lie in one step. */
    static const uint32_t CHUNKS[] = {512, 32, 12, 7, 1};
    size_t n_chunks = two != NULL || strcmp(NAMES[2], strrchr(s->path, '/') + 1) == 0 ? 5 : 3;
    run alone[COMPANY];
    make_company(alone, s, two, images);
    for (uint32_t i = 0; i < COMPANY; i++) {
        weft_engine *e = open_engine(s->model, act, 512, 2);
        run_all(e, s->n_vocab, &alone[i], 1);
        weft_engine_close(e);
    }
    for (size_t c = 0; c < n_chunks; c += TEST_SLOWED ? 2 : 1) {
        for (uint32_t threads = 1; threads <= 2; threads++) {
            run together[COMPANY];
            make_company(together, s, two, images);
            weft_engine *e = open_engine(s->model, act, CHUNKS[c], threads);
            run_all(e, s->n_vocab, together, COMPANY);
            for (uint32_t i = 0; i < COMPANY; i++)
                run_assert_identical(&together[i], &alone[i], s->n_vocab);
            free_company(together);
            weft_engine_close(e);
        }
    }
    free_company(alone);
}

static void test_company(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        shown s, two;
        weft_image images[2];
        shown_open(&s, NAMES[i], "input_ids");
        if (i == 0) {
            two_images(&two, images);
        } else {
            images[0] = s.image;
        }
        /* The other one is upside down. */
        uint8_t *turned = malloc((size_t)s.image.width * s.image.height * 3);
        size_t n_pixels = (size_t)s.image.width * s.image.height;
        for (size_t k = 0; k < n_pixels * 3; k++)
            turned[k] = s.image.pixels[(n_pixels - 1 - k / 3) * 3 + k % 3];
        if (i > 0) images[0].pixels = turned;
        check_company(&s, i == 0 ? &two : NULL, images, WEFT_ACT_F32);
        check_company(&s, i == 0 ? &two : NULL, images, WEFT_ACT_BF16);
        free(turned);
        if (i == 0) {
            free_image(&images[1]);
            shown_close(&two);
        }
        shown_close(&s);
    }
}

/* ---- the cache ------------------------------------------------------------------------------- */

static void check_cache(const shown *s)
{
    weft_engine *e = open_engine(s->model, WEFT_ACT_F32, 512, 1);
    run first = shown_run(s, NEW_TOKENS);
    first.want_prompt_logits = false;
    run again = first;
    run other = first;
    run alone = first;
    uint8_t *pixels = malloc((size_t)s->image.width * s->image.height * 3);
    memcpy(pixels, s->image.pixels, (size_t)s->image.width * s->image.height * 3);
    pixels[77] ^= 1;
    weft_image changed = s->image;
    changed.pixels = pixels;
    other.images = &changed;
    alone.images = &changed;
    alone.flags = WEFT_REQUEST_NO_CACHE;
    uint32_t image_at = 0;
    while (s->ids[image_at] != s->ids[image_at + 1] || s->ids[image_at] != 122) image_at++;
    run_all(e, s->n_vocab, &first, 1);
    assert_int_equal(first.n_cached, 0);
    /* The same image is known, and is not encoded again. */
    run_submit(e, s->n_vocab, &again);
    weft_error err = {WEFT_OK, ""};
    uint32_t n_active;
    do {
        assert_ok(weft_step(e, &n_active, &err), &err);
    } while (n_active > 0);
    assert_false(queue_find(e, again.handle)->media.images[0].encoded);
    run_collect(e, &again);
    assert_int_equal(again.n_known, s->n_ids - 1);
    assert_int_equal(again.n_cached, s->n_ids - 1);
    run_assert_identical(&again, &first, s->n_vocab);
    /* Another of that size, under the same ids, is not (KV-53). */
    run_all(e, s->n_vocab, &other, 1);
    assert_int_equal(other.n_known, image_at);
    assert_true(other.n_cached <= image_at);
    run_all(e, s->n_vocab, &alone, 1);
    run_assert_identical(&other, &alone, s->n_vocab);
    assert_true(compare_max_abs(other.new_logits, first.new_logits, s->n_vocab, NULL) > 0.0);
    /* Nor is text that has those ids. */
    run text = {.prompt = s->ids, .n_prompt = (uint32_t)s->n_ids, .max_new = 1};
    run_all(e, s->n_vocab, &text, 1);
    assert_int_equal(text.n_known, image_at);
    run_free(&text);
    run_free(&first);
    run_free(&again);
    run_free(&other);
    run_free(&alone);
    free(pixels);
    weft_engine_close(e);
}

static void test_cache(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        shown s;
        shown_open(&s, NAMES[i], "input_ids");
        check_cache(&s);
        shown_close(&s);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refuses(weft_engine *e, const weft_request *r, weft_status status, const char *says)
{
    weft_error err = {WEFT_OK, ""};
    weft_handle handle = 1;
    assert_int_equal(weft_submit(e, r, &handle, &err), status);
    if (strstr(err.message, says) == NULL) fail_msg("'%s', expected '%s'", err.message, says);
    assert_int_equal(handle, 0);
}

static void test_refused(void **state)
{
    (void)state;
    shown s;
    shown_open(&s, "qwen3_5-vision", "input_ids");
    weft_engine *e = open_engine(s.model, WEFT_ACT_F32, 512, 1);
    weft_image image = s.image;
    weft_request r = {.struct_size = sizeof r,
                      .prompt = s.prompt,
                      .n_prompt = s.n_prompt,
                      .sampling = {.top_p = 1.0F},
                      .images = &image,
                      .n_images = 1};
    r.prompt = s.prompt + s.n_prompt - 3;
    r.n_prompt = 3;
    refuses(e, &r, WEFT_ARGUMENT, "1 images, the prompt has 0 placeholders (token 122)");
    r.prompt = s.ids;
    r.n_prompt = (uint32_t)s.n_ids;
    refuses(e, &r, WEFT_ARGUMENT, "1 images, the prompt has 12 placeholders");
    r.prompt = s.prompt;
    r.n_prompt = s.n_prompt;
    r.images = NULL;
    refuses(e, &r, WEFT_ARGUMENT, "images is NULL");
    r.images = &image;
    r.n_images = MEDIA_IMAGES + 1;
    refuses(e, &r, WEFT_LIMIT, "257 images, at most 256");
    r.n_images = 1;
    image.pixels = NULL;
    refuses(e, &r, WEFT_ARGUMENT, "image 0: its pixels are NULL");
    image = s.image;
    image.flags = 6;
    refuses(e, &r, WEFT_ARGUMENT, "image 0: unknown flags 6");
    image = s.image;
    image.struct_size = 8;
    refuses(e, &r, WEFT_ARGUMENT, "weft_image: struct_size is 8");
    image = s.image;
    image.width--;
    refuses(e, &r, WEFT_ARGUMENT, "image 0: an image of 63 by 48 pixels, expected multiples of 16");
    image.width = 0;
    refuses(e, &r, WEFT_ARGUMENT, "image 0: an image of 0 by 48 pixels");
    image.width = 1u << 20;
    refuses(e, &r, WEFT_LIMIT, "image 0: an image of 1048576 by 48 pixels");
    image.width = 65536;
    image.height = 65536;
    refuses(e, &r, WEFT_LIMIT, "image 0: an image of 65536 by 65536 pixels");
    image.width = 160;
    image.height = 160;
    refuses(e, &r, WEFT_LIMIT, "image 0: an image of 100 tokens, at most 64");
    image.flags = 0;
    image.height = 1;
    image.width = 201;
    refuses(e, &r, WEFT_ARGUMENT, "image 0: an image of 201 by 1 pixels: one side");
    weft_engine_close(e);
    weft_engine_options small = {.struct_size = sizeof small, .context = 30, .n_threads = 1};
    e = run_open_engine(s.model, &small);
    image = s.image;
    refuses(e, &r, WEFT_LIMIT, "the prompt has 35 tokens, the context holds 30");
    weft_engine_close(e);
    shown_close(&s);
}

/* Tokens that see each other must find room in a step. */
static void test_refused_blocks(void **state)
{
    (void)state;
    shown s;
    shown_open(&s, "gemma4-vision", "input_ids");
    weft_request r = {.struct_size = sizeof r,
                      .prompt = s.prompt,
                      .n_prompt = s.n_prompt,
                      .max_new = 1,
                      .sampling = {.top_p = 1.0F},
                      .images = &s.image,
                      .n_images = 1};
    weft_engine *e = open_engine(s.model, WEFT_ACT_F32, 7, 1);
    refuses(e, &r, WEFT_LIMIT, "image 0: 8 tokens that see each other, a step has 7 prompt tokens");
    weft_engine_close(e);
    e = open_engine(s.model, WEFT_ACT_F32, 8, 1);
    r.kv = "affine4g32,start=14";
    refuses(e, &r, WEFT_LIMIT, "image 0: its tokens are at positions 10 to 17");
    r.kv = "affine4g32,start=10";
    weft_handle handle;
    weft_error err = {WEFT_OK, ""};
    assert_ok(weft_submit(e, &r, &handle, &err), &err);
    float *logits = calloc(s.n_ids * s.n_vocab, sizeof *logits);
    r.prompt_logits = logits;
    r.prompt_logits_rows = 7;
    refuses(e, &r, WEFT_LIMIT, "a step has 7 rows of prompt_logits");
    weft_engine_close(e);
    weft_engine_options few = {
        .struct_size = sizeof few, .n_threads = 1, .max_sequences = 4, .max_outputs = 10};
    e = run_open_engine(s.model, &few);
    r.prompt_logits_rows = 0;
    refuses(e, &r, WEFT_LIMIT, "a step has 6 rows of logits");
    weft_engine_close(e);
    free(logits);
    shown_close(&s);
    weft_model *blind = run_open_model(WEFT_GOLDEN_DIR "/qwen3_5");
    e = run_open_engine(blind, NULL);
    static const int32_t IDS[] = {1, 2};
    weft_image image = {.struct_size = sizeof image, .pixels = (const uint8_t *)"abc", .width = 1};
    r = (weft_request){.struct_size = sizeof r,
                       .prompt = IDS,
                       .n_prompt = 2,
                       .images = &image,
                       .n_images = 1,
                       .sampling = {.top_p = 1.0F}};
    refuses(e, &r, WEFT_UNSUPPORTED, "image 0: the model sees no images");
    weft_image_info info = {.struct_size = sizeof info};
    assert_int_equal(weft_engine_image_info(e, 5, 5, &info, NULL), WEFT_UNSUPPORTED);
    weft_engine_close(e);
    weft_model_close(blind);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void test_image_info(void **state)
{
    (void)state;
    /* Width and height, what they come to, and tokens: squares of 16, and between 3136 and 16384
     * pixels, as the engine takes 64 tokens at most. */
    static const uint32_t CASES[][5] = {{64, 48, 80, 64, 20},
                                        {10, 10, 64, 64, 16},
                                        {100, 100, 96, 96, 36},
                                        {1920, 1080, 160, 96, 60},
                                        {3000, 20, 1920, 16, 120}};
    shown s;
    shown_open(&s, "qwen3_5-vision", "input_ids");
    weft_engine *e = open_engine(s.model, WEFT_ACT_F32, 512, 1);
    weft_error err = {WEFT_OK, ""};
    for (size_t i = 0; i < 4; i++) {
        weft_image_info info = {.struct_size = sizeof info};
        assert_ok(weft_engine_image_info(e, CASES[i][0], CASES[i][1], &info, &err), &err);
        assert_int_equal(info.width, CASES[i][2]);
        assert_int_equal(info.height, CASES[i][3]);
        assert_int_equal(info.n_tokens, CASES[i][4]);
    }
    weft_engine_close(e);
    shown_close(&s);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static weft_status show(weft_engine *engine, const shown *s, weft_error *err)
{
    weft_image image = s->image;
    image.flags = 0;
    weft_request r = {.struct_size = sizeof r,
                      .prompt = s->prompt,
                      .n_prompt = s->n_prompt,
                      .max_new = 2,
                      .sampling = {.top_p = 1.0F},
                      .images = &image,
                      .n_images = 1};
    weft_handle handle;
    uint32_t n_active = 1;
    weft_status status = weft_submit(engine, &r, &handle, err);
    while (status == WEFT_OK && n_active > 0) status = weft_step(engine, &n_active, err);
    while (status == WEFT_OK) {
        weft_event event = {.struct_size = sizeof event};
        status = weft_poll(engine, handle, &event, err);
        if (status != WEFT_OK || event.kind == WEFT_EVENT_NONE) break;
        if (event.kind != WEFT_EVENT_DONE) continue;
        if (event.finish == WEFT_FINISH_ERROR)
            status = err_set(err, event.error.status, "%s", event.error.message);
        break;
    }
    return status;
}

static weft_status scenario(const env *world, void *user, weft_error *err)
{
    const shown *s = user;
    weft_model_options options = {.struct_size = sizeof options, .allocator = world->allocator};
    weft_engine_options with = {.struct_size = sizeof with,
                                .n_threads = 2,
                                .context = 128,
                                .max_image_tokens = 30,
                                .max_sequences = 2,
                                .flags = WEFT_ENGINE_NO_CACHE};
    weft_model *model = NULL;
    weft_engine *engine = NULL;
    weft_status status = api_model_open(s->path, &options, world->io, &model, err);
    if (status == WEFT_OK) status = weft_engine_open(model, &with, &engine, err);
    if (status == WEFT_OK) status = show(engine, s, err);
    weft_engine_close(engine);
    weft_model_close(model);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(NAMES); i += TEST_SLOWED ? 2 : 1) {
        shown s;
        shown_open(&s, NAMES[i], "input_ids");
        size_t n = fault_sweep(scenario, &s);
        print_message("%s: %zu allocations\n", NAMES[i], n);
        assert_true(n >= 100);
        shown_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_towers),         cmocka_unit_test(test_patches),
        cmocka_unit_test(test_two_images),     cmocka_unit_test(test_company),
        cmocka_unit_test(test_cache),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_blocks), cmocka_unit_test(test_image_info),
        cmocka_unit_test(test_faults),
    };
    return TEST_RUN("engine/media", tests);
}
