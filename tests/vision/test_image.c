/* test_image.c - sizes, resizing and cutting of images: Pillow's pixels (resize.txt, written by
 * tools/oracle/resize.py), and what Transformers' processors choose. */
#include "vision/image.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/io.h"
#include "support/fault.h"
#include "support/test.h"

/* As in tools/oracle/resize.py. */
static uint8_t pixel(uint32_t x, uint32_t y, uint32_t c)
{
    if ((x / 3 + y / 4) % 3 == 0) return c != 1 ? 255 : 0;
    return (uint8_t)((x * x * 31 + y * 17 + c * 101 + x * y * 7) % 256);
}

static uint8_t *make_pixels(uint32_t width, uint32_t height)
{
    uint8_t *pixels = malloc(vision_bytes(width, height));
    for (size_t i = 0; i < vision_bytes(width, height); i++) {
        pixels[i] = pixel((uint32_t)(i / 3 % width), (uint32_t)(i / 3 / width), (uint32_t)(i % 3));
    }
    return pixels;
}

static uint32_t hex_byte(const char *text)
{
    char two[3] = {text[0], text[1], 0};
    return (uint32_t)strtoul(two, NULL, 16);
}

static const char *check_case(const char *line)
{
    uint32_t size[4];
    for (int i = 0; i < 4; i++) {
        char *end;
        size[i] = (uint32_t)strtoul(line, &end, 10);
        line = end + 1;
    }
    uint8_t *pixels = make_pixels(size[0], size[1]);
    vision_image image = {pixels, size[0], size[1]};
    uint8_t *to = malloc(vision_bytes(size[2], size[3]));
    weft_error err = {WEFT_OK, ""};
    assert_ok(vision_resize(mem_system(), &image, size[2], size[3], to, &err), &err);
    for (size_t i = 0; i < vision_bytes(size[2], size[3]); i++, line += 2) {
        if (to[i] == hex_byte(line)) continue;
        fail_msg("%u by %u to %u by %u: byte %zu is %u, Pillow has %u", size[0], size[1], size[2],
                 size[3], i, to[i], hex_byte(line));
    }
    free(pixels);
    free(to);
    return line + 1;
}

static void test_resize(void **state)
{
    (void)state;
    weft_error err = {WEFT_OK, ""};
    char *text;
    size_t n_bytes;
    assert_ok(io_read_file(io_system(), mem_system(), WEFT_SOURCE_DIR "/tests/vision/resize.txt",
                           1 << 20, &text, &n_bytes, &err),
              &err);
    uint32_t n = 0;
    for (const char *line = text; *line != '\0'; n++) line = check_case(line);
    assert_int_equal(n, 10);
    mem_free(mem_system(), text, n_bytes + 1);
}

/* What stays as it is, and an image of one colour, which any resizing leaves so. */
static void test_resize_keeps(void **state)
{
    (void)state;
    weft_error err = {WEFT_OK, ""};
    uint8_t *pixels = make_pixels(9, 4);
    uint8_t to[9 * 4 * 3];
    vision_image image = {pixels, 9, 4};
    assert_ok(vision_resize(mem_system(), &image, 9, 4, to, &err), &err);
    assert_memory_equal(to, pixels, sizeof to);
    free(pixels);
    uint8_t grey[50 * 70 * 3];
    memset(grey, 201, sizeof grey);
    image = (vision_image){grey, 50, 70};
    assert_ok(vision_resize(mem_system(), &image, 9, 4, to, &err), &err);
    for (size_t i = 0; i < sizeof to; i++) assert_int_equal(to[i], 201);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

typedef struct fitted {
    uint32_t width, height, to_width, to_height;
} fitted;

static void check_fits(const vision_size *size, const fitted *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t w, h;
        weft_error err = {WEFT_OK, ""};
        assert_ok(vision_fit(size, cases[i].width, cases[i].height, &w, &h, &err), &err);
        if (w == cases[i].to_width && h == cases[i].to_height) continue;
        fail_msg("%u by %u: %u by %u, expected %u by %u", cases[i].width, cases[i].height, w, h,
                 cases[i].to_width, cases[i].to_height);
    }
}

/* Computed with smart_resize(height, width, 32, 65536, 16777216) and
 * get_aspect_ratio_preserving_size(height, width, 16, 2520, 3). */
static void test_sizes(void **state)
{
    (void)state;
    static const fitted BY_PIXELS[] = {
        {1920, 1080, 1920, 1088}, {640, 480, 640, 480},     {10, 10, 256, 256},
        {100, 1, 2560, 32},       {8000, 6000, 4704, 3520}, {333, 777, 320, 768},
        {48, 48, 256, 256},       {5000, 30, 4992, 32},     {31, 2000, 32, 2080},
        {720, 720, 704, 704},     {8192, 8192, 4096, 4096}, {1600, 1200, 1600, 1216},
        {80, 80, 256, 256},       {112, 400, 160, 512},
    };
    static const fitted BY_TOKENS[] = {
        {1920, 1080, 1056, 576}, {640, 480, 912, 672},   {10, 10, 768, 768},
        {100, 1, 8016, 48},      {8000, 6000, 912, 672}, {333, 777, 480, 1200},
        {48, 48, 768, 768},      {5000, 30, 10368, 48},  {31, 2000, 96, 6432},
        {720, 720, 768, 768},    {8192, 8192, 768, 768}, {1600, 1200, 912, 672},
        {80, 80, 768, 768},      {112, 400, 384, 1488},
    };
    vision_size size = {
        .rule = VISION_BY_PIXELS, .unit = 32, .min_pixels = 65536, .max_pixels = 16777216};
    check_fits(&size, BY_PIXELS, COUNT_OF(BY_PIXELS));
    size = (vision_size){.rule = VISION_BY_TOKENS, .unit = 48, .max_tokens = 280};
    check_fits(&size, BY_TOKENS, COUNT_OF(BY_TOKENS));
}

static void check_refused(const vision_size *size, uint32_t w, uint32_t h, weft_status status)
{
    uint32_t to[2];
    weft_error err = {WEFT_OK, ""};
    assert_int_equal(vision_fit(size, w, h, &to[0], &to[1], &err), status);
    assert_true(err.message[0] != '\0');
}

static void test_refused(void **state)
{
    (void)state;
    vision_size size = {
        .rule = VISION_BY_PIXELS, .unit = 32, .min_pixels = 65536, .max_pixels = 1 << 20};
    check_refused(&size, 0, 5, WEFT_ARGUMENT);
    check_refused(&size, 5, 0, WEFT_ARGUMENT);
    check_refused(&size, 1, 201, WEFT_ARGUMENT);
    check_refused(&size, 201, 1, WEFT_ARGUMENT);
    check_refused(&size, VISION_SIDE_MOST + 1, 1000, WEFT_LIMIT);
    check_refused(&size, UINT32_MAX, UINT32_MAX, WEFT_LIMIT);
    check_refused(&size, 16384, 16384, WEFT_LIMIT);
    /* Fewer tokens than the smallest size has. */
    size.max_tokens = 10;
    check_refused(&size, 100, 100, WEFT_LIMIT);
    weft_error err = {WEFT_OK, ""};
    assert_int_equal(vision_check(&size, 64, 65, &err), WEFT_ARGUMENT);
    assert_int_equal(vision_check(&size, 64, 192, &err), WEFT_LIMIT);
    assert_int_equal(vision_check(&size, 64, 160, &err), WEFT_OK);
}

/* However long, an image comes to no more tokens than there may be, and to at least one. */
static void test_sizes_have_bounds(void **state)
{
    (void)state;
    static const uint32_t SIDES[] = {1, 2, 15, 16, 17, 47, 48, 49, 100, 333, 1000, 4096, 65536};
    for (uint32_t rule = 0; rule < 2; rule++) {
        vision_size size = {.rule = (vision_rule)rule,
                            .unit = 48,
                            .min_pixels = 48 * 48,
                            .max_pixels = 1u << 24,
                            .max_tokens = 70};
        for (size_t i = 0; i < COUNT_OF(SIDES); i++) {
            for (size_t k = 0; k < COUNT_OF(SIDES); k++) {
                uint32_t w, h;
                if (vision_fit(&size, SIDES[i], SIDES[k], &w, &h, NULL) != WEFT_OK) continue;
                assert_true(w % 48 == 0 && h % 48 == 0 && w > 0 && h > 0);
                assert_true(w / 48 * (h / 48) <= 70);
            }
        }
    }
}

/* ---- squares --------------------------------------------------------------------------------- */

/* Each number of each square is the pixel that it should be. */
static void check_cut(vision_cut cut, uint32_t width, uint32_t height)
{
    uint8_t *pixels = make_pixels(width, height);
    vision_image image = {pixels, width, height};
    uint32_t columns = width / cut.patch;
    uint32_t n = columns * (height / cut.patch);
    uint32_t dim = vision_patch_dim(&cut);
    float *to = malloc((size_t)n * dim * sizeof *to);
    bool *seen = calloc(n, sizeof *seen);
    vision_patches(&cut, &image, to);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t column, row;
        vision_place(&cut, width, i, &column, &row);
        assert_true(column < columns && row < height / cut.patch);
        assert_false(seen[row * columns + column]);
        seen[row * columns + column] = true;
        /* Neighbours of a block follow one another. */
        uint32_t block = i / (cut.pool * cut.pool);
        uint32_t blocks = columns / cut.pool;
        assert_int_equal(column / cut.pool, block % blocks);
        assert_int_equal(row / cut.pool, block / blocks);
        for (uint32_t k = 0; k < dim; k++) {
            uint32_t area = cut.patch * cut.patch;
            uint32_t c = cut.channels_last ? k % 3 : k / (cut.frames * area);
            uint32_t at = cut.channels_last ? k / 3 % area : k % area;
            float x = (float)pixel(column * cut.patch + at % cut.patch,
                                   row * cut.patch + at / cut.patch, c);
            float expected = (x / 255.0F - cut.mean[c]) / cut.std[c];
            assert_true(fabsf(to[(size_t)i * dim + k] - expected) < 1e-6F);
        }
    }
    free(pixels);
    free(to);
    free(seen);
}

static void test_patches(void **state)
{
    (void)state;
    vision_cut cut = {.patch = 4,
                      .pool = 2,
                      .frames = 2,
                      .mean = {0.5F, 0.25F, 0.0F},
                      .std = {0.5F, 1.0F, 0.25F}};
    check_cut(cut, 24, 16);
    cut.channels_last = true;
    check_cut(cut, 8, 32);
    cut.pool = 3;
    cut.frames = 1;
    check_cut(cut, 36, 24);
    cut.channels_last = false;
    cut.pool = 1;
    check_cut(cut, 4, 12);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static weft_status resize(const env *world, void *user, weft_error *err)
{
    static uint8_t to[16 * 16 * 3];
    return vision_resize(world->allocator, user, 16, 16, to, err);
}

static void test_faults(void **state)
{
    (void)state;
    uint8_t *pixels = make_pixels(30, 20);
    vision_image image = {pixels, 30, 20};
    assert_int_equal(fault_sweep(resize, &image), 9);
    free(pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_resize_keeps),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_sizes_have_bounds),
        cmocka_unit_test(test_patches),
        cmocka_unit_test(test_faults),
    };
    return TEST_RUN("vision/image", tests);
}
