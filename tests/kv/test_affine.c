/* test_affine.c - KV-27: affine rows have the bytes of MLX for 100,000 random groups of each size,
 * number of bits and type. The groups are drawn here as tools/oracle/kv_affine_groups.py draws
 * them; affine_groups.txt holds hashes of what MLX made of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "kv/codecs/codec.h"
#include "support/drawn_rows.h"

/* Sanitizers are slow: a tenth of the rows. */
static void check_rows(const char *name, const char *type, uint32_t n_rows, const char *tenth,
                       const char *whole)
{
    const kv_codec *c = kv_codec_by_name(name, strlen(name));
    const kv_codec *base = kv_codec_by_name(type, strlen(type));
    assert_true(c != NULL && base != NULL && n_rows <= 12500);
    size_t row_bytes = kv_codec_row_bytes(c, base->id, DRAWN_COLUMNS);
    uint32_t n = TEST_SLOWED ? n_rows / 10 : n_rows;
    unsigned char *records = malloc(n * row_bytes);
    assert_non_null(records);
    for (uint32_t i = 0; i < n; i++) {
        float x[DRAWN_COLUMNS];
        drawn_row(x, i, c->group, type, true);
        c->encode_row(c, base->id, records + i * row_bytes, x, DRAWN_COLUMNS);
    }
    char what[64];
    snprintf(what, sizeof what, "%s, %s", name, type);
    drawn_check_hash(records, n_rows / 10 * row_bytes, tenth, what);
    if (!TEST_SLOWED) drawn_check_hash(records, n * row_bytes, whole, what);
    free(records);
}

static void test_kv27_random_groups(void **state)
{
    (void)state;
    char *text;
    size_t n_bytes;
    weft_error err = {WEFT_OK, ""};
    assert_ok(io_read_file(io_system(), mem_system(), WEFT_SOURCE_DIR "/tests/kv/affine_groups.txt",
                           1 << 16, &text, &n_bytes, &err),
              &err);
    uint32_t n_lines = 0;
    for (const char *line = text; *line != '\0'; n_lines++) {
        char name[16];
        char type[8];
        char tenth[65];
        char whole[65];
        unsigned n_rows;
        assert_int_equal(sscanf(line, "%15s %7s %5u %64s %64s", name, type, &n_rows, tenth, whole),
                         5);
        check_rows(name, type, n_rows, tenth, whole);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    assert_int_equal(n_lines, 2 * 3 * 3);
    mem_free(mem_system(), text, n_bytes + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv27_random_groups),
    };
    return TEST_RUN("kv/affine", tests);
}
