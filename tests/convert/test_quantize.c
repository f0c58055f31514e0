/* test_quantize.c - rows have the bytes of MLX's quantize, in every mode, width, group and type
 * (quantize.txt, by tools/oracle/quantize.py), and are refused where they cannot be coded. */
#include "convert/quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/io.h"
#include "support/drawn_rows.h"
#include "tensor/encodings/small_floats.h"

static const struct {
    const char *name;
    const encoding *encoding;
} MODES[] = {{"affine", &ENCODING_AFFINE},
             {"mxfp4", &ENCODING_MXFP4_PLANES},
             {"mxfp8", &ENCODING_MXFP8_PLANES},
             {"nvfp4", &ENCODING_NVFP4_PLANES}};

static uint8_t type_of(const char *name)
{
    return strcmp(name, "f32") == 0   ? ENCODING_ID_F32
           : strcmp(name, "f16") == 0 ? ENCODING_ID_F16
                                      : ENCODING_ID_BF16;
}

static void encode(const row_form *f, const float *x, unsigned char *record)
{
    uint64_t bytes[TENSOR_PLANES];
    uint64_t bad;
    row_form_bytes(f, DRAWN_COLUMNS, bytes);
    unsigned char *const planes[] = {record, record + bytes[0], record + bytes[0] + bytes[1]};
    assert_true(row_encode(f, x, DRAWN_COLUMNS, planes, &bad));
}

static void check_line(const char *mode, row_form f, const char *type, uint32_t n_rows,
                       const char *expected)
{
    for (size_t i = 0; i < COUNT_OF(MODES); i++) {
        if (strcmp(MODES[i].name, mode) == 0) f.encoding = MODES[i].encoding;
    }
    assert_non_null(f.encoding);
    f.type = type_of(type);
    uint64_t bytes[TENSOR_PLANES];
    row_form_bytes(&f, DRAWN_COLUMNS, bytes);
    size_t row_bytes = (size_t)(bytes[0] + bytes[1] + bytes[2]);
    unsigned char *records = malloc(n_rows * row_bytes);
    assert_non_null(records);
    for (uint32_t i = 0; i < n_rows; i++) {
        float x[DRAWN_COLUMNS];
        drawn_row(x, i, f.group < 32 ? 32 : f.group, type, f.encoding == &ENCODING_AFFINE);
        encode(&f, x, records + i * row_bytes);
    }
    char what[64];
    snprintf(what, sizeof what, "%s, %u bits in groups of %u, %s", mode, f.bits, f.group, type);
    drawn_check_hash(records, n_rows * row_bytes, expected, what);
    free(records);
}

static void test_bytes_of_mlx(void **state)
{
    (void)state;
    char *text;
    size_t n_bytes;
    weft_error err = {WEFT_OK, ""};
    assert_ok(io_read_file(io_system(), mem_system(), WEFT_SOURCE_DIR "/tests/convert/quantize.txt",
                           1 << 16, &text, &n_bytes, &err),
              &err);
    uint32_t n_lines = 0;
    for (const char *line = text; *line != '\0'; n_lines++) {
        char mode[8];
        char type[8];
        char digest[65];
        row_form f = {0};
        unsigned n_rows;
        assert_int_equal(
            sscanf(line, "%7s %u %u %7s %5u %64s", mode, &f.bits, &f.group, type, &n_rows, digest),
            6);
        check_line(mode, f, type, n_rows, digest);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    assert_int_equal(n_lines, (6 * 3 + 3) * 3);
    mem_free(mem_system(), text, n_bytes + 1);
}

/* What MLX's exponents wrap around for: scales that are too small. */
static void test_least_scales(void **state)
{
    (void)state;
    row_form f = {.encoding = &ENCODING_MXFP4_PLANES, .bits = 4, .group = 32, .type = 1};
    float x[DRAWN_COLUMNS] = {0x1p-127F, -0x1p-140F};
    unsigned char record[DRAWN_COLUMNS];
    encode(&f, x, record);
    unsigned char *scales = record + DRAWN_COLUMNS / 2;
    assert_int_equal(scales[0], 0);
    assert_int_equal(record[0], 2); /* 1 * 2^-127, and nothing beside it */
    assert_int_equal(scales[1], 127);
}

static void test_refused_numbers(void **state)
{
    (void)state;
    static const float BAD[] = {INFINITY, -INFINITY, NAN, 0x1.8p125F};
    unsigned char record[DRAWN_COLUMNS * 4];
    for (size_t i = 0; i < COUNT_OF(BAD) * COUNT_OF(MODES); i++) {
        row_form f = {.encoding = MODES[i % COUNT_OF(MODES)].encoding, .type = ENCODING_ID_F32};
        f.group = f.encoding->plane_group != 0 ? f.encoding->plane_group : 64;
        f.bits = f.encoding->plane_bits != 0 ? f.encoding->plane_bits : 3;
        float x[DRAWN_COLUMNS] = {0};
        uint64_t bad;
        uint64_t bytes[TENSOR_PLANES];
        x[1000] = BAD[i / COUNT_OF(MODES)];
        row_form_bytes(&f, DRAWN_COLUMNS, bytes);
        unsigned char *const planes[] = {record, record + bytes[0], record + bytes[0] + bytes[1]};
        assert_false(row_encode(&f, x, DRAWN_COLUMNS, planes, &bad));
        assert_int_equal(bad, 1000);
    }
}

/* Plain numbers are rounded to their type, whatever they are. */
static void test_plain(void **state)
{
    (void)state;
    const float x[] = {1.0F, 1.00390625F, -0.0F, INFINITY};
    static const uint16_t BF16[] = {0x3f80, 0x3f80, 0x8000, 0x7f80};
    row_form f = {.encoding = &ENCODING_BF16, .type = ENCODING_ID_BF16};
    uint64_t bad;
    uint64_t bytes[TENSOR_PLANES];
    row_form_bytes(&f, COUNT_OF(x), bytes);
    assert_int_equal(bytes[0], sizeof BF16);
    unsigned char out[sizeof BF16];
    unsigned char *const planes[] = {out, NULL, NULL};
    assert_true(row_encode(&f, x, COUNT_OF(x), planes, &bad));
    assert_memory_equal(out, BF16, sizeof BF16);
}

/* Every code is the code of its value, and the nearest one of what lies between. */
static void test_small_floats(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 256; code++) {
        if ((code & 127u) == 127u) continue;
        assert_int_equal(e4m3_code(e4m3_value(code)), code);
        if ((code & 127u) == 126u) continue;
        float low = e4m3_value(code);
        float high = e4m3_value(code + 1);
        float middle = (low + high) / 2.0F;
        assert_int_equal(e4m3_code(middle), code + (code & 1u));
        assert_int_equal(e4m3_code(nextafterf(middle, low)), code);
        assert_int_equal(e4m3_code(nextafterf(middle, high)), code + 1);
    }
    assert_int_equal(e4m3_code(1e9F), 0x7e);
    assert_int_equal(e4m3_code(-INFINITY), 0xfe);
    assert_int_equal(e4m3_code(NAN) & 0x7fu, 0x7f);
    for (uint32_t code = 0; code < 16; code++)
        assert_int_equal(e2m1_code(e2m1_value(code)), code == 8 ? 0 : code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_mlx),    cmocka_unit_test(test_least_scales),
        cmocka_unit_test(test_refused_numbers), cmocka_unit_test(test_plain),
        cmocka_unit_test(test_small_floats),
    };
    return TEST_RUN("convert/quantize", tests);
}
