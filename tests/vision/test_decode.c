/* test_decode.c - image files: the pixels that Pillow reads (images.txt, written by
 * tools/oracle/images.py), and files that are cut, spoilt or too large. */
#include "vision/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "support/fault.h"
#include "support/test.h"

typedef struct picture_case {
    char name[32];
    uint8_t *file, *pixels;
    size_t n_file, n_pixels;
    uint32_t width, height;
} picture_case;

enum { CASES_MOST = 32 };

static picture_case cases[CASES_MOST];
static uint32_t n_cases;

static uint8_t *read_hex(const char **text, size_t *n)
{
    size_t length = strspn(*text, "0123456789abcdef");
    uint8_t *bytes = malloc(length / 2 + 1);
    for (size_t i = 0; i < length / 2; i++) {
        char two[3] = {(*text)[2 * i], (*text)[2 * i + 1], 0};
        bytes[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    *n = length / 2;
    *text += length + 1;
    return bytes;
}

static int read_cases(void **state)
{
    (void)state;
    weft_error err = {WEFT_OK, ""};
    char *text;
    size_t n_bytes;
    assert_ok(io_read_file(io_system(), mem_system(), WEFT_SOURCE_DIR "/tests/vision/images.txt",
                           1 << 20, &text, &n_bytes, &err),
              &err);
    for (const char *at = text; *at != '\0'; n_cases++) {
        picture_case *c = &cases[n_cases];
        assert_true(n_cases < CASES_MOST);
        size_t n = strcspn(at, " ");
        snprintf(c->name, sizeof c->name, "%.*s", (int)n, at);
        at += n + 1;
        c->file = read_hex(&at, &c->n_file);
        char *end;
        c->width = (uint32_t)strtoul(at, &end, 10);
        c->height = (uint32_t)strtoul(end, &end, 10);
        at = end + 1;
        c->pixels = read_hex(&at, &c->n_pixels);
    }
    mem_free(mem_system(), text, n_bytes + 1);
    return n_cases == 16 ? 0 : -1;
}

static int free_cases(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_cases; i++) {
        free(cases[i].file);
        free(cases[i].pixels);
    }
    return 0;
}

/* Whether the build reads such a file: said once where it does not. */
static bool is_read(const picture_case *c)
{
    bool jpeg = strncmp(c->name, "jpeg", 4) == 0;
    weft_error err = {WEFT_OK, ""};
    vision_picture p;
    weft_status status = vision_decode(mem_system(), c->file, c->n_file, &p, &err);
    vision_picture_free(mem_system(), &p);
    if (status != WEFT_UNSUPPORTED) return true;
    assert_non_null(strstr(err.message, jpeg ? "no JPEG" : "no PNG"));
    print_message("NOT RUN: %s: %s\n", c->name, err.message);
    return false;
}

static void test_pixels(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_cases; i++) {
        const picture_case *c = &cases[i];
        if (!is_read(c)) continue;
        weft_error err = {WEFT_OK, ""};
        vision_picture p;
        assert_ok(vision_decode(mem_system(), c->file, c->n_file, &p, &err), &err);
        if (p.width != c->width || p.height != c->height) fail_msg("%s: size", c->name);
        assert_int_equal(vision_bytes(p.width, p.height), c->n_pixels);
        if (memcmp(p.pixels, c->pixels, c->n_pixels) != 0) fail_msg("%s: pixels", c->name);
        vision_picture_free(mem_system(), &p);
    }
}

/* A file that ends early, wherever, is an error or has all its pixels already. */
static void test_cut(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_cases; i++) {
        const picture_case *c = &cases[i];
        if (!is_read(c)) continue;
        uint32_t n_failed = 0;
        for (size_t n = 0; n < c->n_file; n++) {
            vision_picture p;
            weft_error err = {WEFT_OK, ""};
            weft_status status = vision_decode(mem_system(), c->file, n, &p, &err);
            n_failed += status != WEFT_OK;
            assert_true(status == WEFT_OK || err.message[0] != '\0');
            assert_true(status == WEFT_OK || p.pixels == NULL);
            vision_picture_free(mem_system(), &p);
        }
        assert_true(n_failed + 16 >= c->n_file);
    }
}

static void test_spoilt(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_cases; i++) {
        const picture_case *c = &cases[i];
        for (size_t n = 0; n < c->n_file; n++) {
            vision_picture p;
            weft_error err = {WEFT_OK, ""};
            c->file[n] ^= 0x5a;
            weft_status status = vision_decode(mem_system(), c->file, c->n_file, &p, &err);
            c->file[n] ^= 0x5a;
            assert_true(status == WEFT_OK || (err.message[0] != '\0' && p.pixels == NULL));
            vision_picture_free(mem_system(), &p);
        }
    }
}

/* A PNG that says it has 65535 by 65535 pixels, with the checksum that goes with it, and a
 * JPEG of 61440 by 61440. */
static void test_too_large(void **state)
{
    (void)state;
    static const uint8_t PNG[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0,    0, 0,    13,
                                  'I',  'H', 'D', 'R', 0,    0,    0xff, 0xff, 0,    0, 0xff, 0xff,
                                  8,    2,   0,   0,   0,    0x39, 0x67, 0x4e, 0x07, 0, 0,    0,
                                  0,    'I', 'D', 'A', 'T',  0x35, 0xaf, 0x06, 0x1e};
    static const uint8_t JPEG[] = {0xff, 0xd8, 0xff, 0xc0, 0,    17,   8, 0xf0, 0x00, 0xf0, 0x00, 3,
                                   1,    0x22, 0,    2,    0x11, 1,    3, 0x11, 1,    0xff, 0xda, 0,
                                   12,   3,    1,    0,    2,    0x11, 3, 0x11, 0,    63,   0};
    vision_picture p;
    weft_error err = {WEFT_OK, ""};
    weft_status status = vision_decode(mem_system(), PNG, sizeof PNG, &p, &err);
    if (status != WEFT_LIMIT && status != WEFT_UNSUPPORTED) fail_msg("%s", err.message);
    err = (weft_error){WEFT_OK, ""};
    status = vision_decode(mem_system(), JPEG, sizeof JPEG, &p, &err);
    if (status != WEFT_LIMIT && status != WEFT_UNSUPPORTED) fail_msg("%s", err.message);
}

static void test_other_formats(void **state)
{
    (void)state;
    vision_picture p;
    weft_error err = {WEFT_OK, ""};
    assert_int_equal(vision_decode(mem_system(), (const uint8_t *)"GIF89a", 6, &p, &err),
                     WEFT_UNSUPPORTED);
    assert_string_equal(err.message, "an image that is neither JPEG nor PNG");
    assert_int_equal(vision_decode(mem_system(), (const uint8_t *)"", 0, &p, NULL),
                     WEFT_UNSUPPORTED);
}

static weft_status decode(const env *world, void *user, weft_error *err)
{
    const picture_case *c = user;
    vision_picture p;
    weft_status status = vision_decode(world->allocator, c->file, c->n_file, &p, err);
    vision_picture_free(world->allocator, &p);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < n_cases; i++) {
        if (is_read(&cases[i])) assert_true(fault_sweep(decode, &cases[i]) >= 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pixels),        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_spoilt),        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_other_formats), cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests_name("vision/decode", tests, read_cases, free_cases);
}
