/* test_affine.c - KV-27: affine rows have the bytes of MLX for 100,000 random groups of each size,
 * number of bits and type. The groups are drawn here as tools/oracle/kv_affine_groups.py draws
 * them; affine_groups.txt holds hashes of what MLX made of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kv/codecs/codec.h"
#include "support/test.h"

enum { COLUMNS = 1024, KINDS = 8 };

/* What the elements of a group have in common. */
typedef struct group_draw {
    uint32_t kind;
    int32_t near; /* kind 6: four numbers beside one another */
    int exponent;
    bool minus;
} group_draw;

static group_draw draw_group(uint64_t i, int bits, bool far)
{
    uint64_t g = rng_u64(2, i);
    return (group_draw){
        .kind = (uint32_t)(g % KINDS),
        .near = (int32_t)((g >> 32) % (1u << (bits - 2))) * 4,
        .exponent = (int)((g >> 16) % 20) - 10 + (far ? (int)((g >> 24) % 61) - 30 : 0) - bits,
        .minus = (g >> 8) % 2 == 1,
    };
}

/* Exact in the type that has so many significant bits. */
static float draw_element(const group_draw *g, uint32_t r, int bits)
{
    int32_t m = (int32_t)(r & ((1u << bits) - 1));
    int down = (int)((r >> 28) & 3);
    bool minus = (r >> 31) == 1;
    if (g->kind == 4) minus = false;
    if (g->kind == 5) minus = true;
    if (g->kind == 6) {
        m = g->near + (int32_t)(r & 3);
        down = 0;
        minus = g->minus;
    }
    if (g->kind == 7 && ((r >> 24) & 3) != 0) m = 0;
    return ldexpf((float)(minus ? -m : m), g->exponent - down);
}

static void draw_row(float *x, uint64_t row, uint32_t group, int bits, bool far)
{
    group_draw g = {0};
    for (uint32_t i = 0; i < COLUMNS; i++) {
        uint64_t at = row * COLUMNS + i;
        if (i % group == 0) g = draw_group(at / group, bits, far);
        x[i] = draw_element(&g, (uint32_t)(rng_u64(1, at / 2) >> (at % 2 * 32)), bits);
    }
}

static void to_hex(const unsigned char digest[32], char *text)
{
    for (uint32_t i = 0; i < 32; i++) snprintf(text + (size_t)2 * i, 3, "%02x", digest[i]);
}

static void check_hash(const unsigned char *records, size_t n_bytes, const char *expected,
                       const char *what)
{
    unsigned char digest[32];
    char text[65];
    weft_error err = {WEFT_OK, ""};
    assert_ok(hash_sha256(records, n_bytes, digest, &err), &err);
    to_hex(digest, text);
    if (strcmp(text, expected) != 0) fail_msg("%s has other bytes than MLX made", what);
}

/* Sanitizers are slow: a tenth of the rows. */
static void check_rows(const char *name, const char *type, uint32_t n_rows, const char *tenth,
                       const char *whole)
{
    const kv_codec *c = kv_codec_by_name(name, strlen(name));
    const kv_codec *base = kv_codec_by_name(type, strlen(type));
    assert_true(c != NULL && base != NULL && n_rows <= 12500);
    int bits = strcmp(type, "f32") == 0 ? 24 : strcmp(type, "f16") == 0 ? 11 : 8;
    size_t row_bytes = kv_codec_row_bytes(c, base->id, COLUMNS);
    uint32_t n = TEST_SLOWED ? n_rows / 10 : n_rows;
    unsigned char *records = malloc(n * row_bytes);
    assert_non_null(records);
    for (uint32_t i = 0; i < n; i++) {
        float x[COLUMNS];
        draw_row(x, i, c->group, bits, bits != 11);
        c->encode_row(c, base->id, records + i * row_bytes, x, COLUMNS);
    }
    char what[64];
    snprintf(what, sizeof what, "%s, %s", name, type);
    check_hash(records, n_rows / 10 * row_bytes, tenth, what);
    if (!TEST_SLOWED) check_hash(records, n * row_bytes, whole, what);
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
