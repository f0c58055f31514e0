/* test_codecs.c - a walk over kv/codecs/codecs.def: sizes, guard bytes, total decoding, round
 * trips. */
#include "kv/codecs/codec.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

static const uint32_t DIMS[] = {1, 2, 7, 8, 64, 80, 96, 112, 128, 192, 256, 512};

enum { N_DIMS = sizeof DIMS / sizeof DIMS[0] };

static float number(uint64_t i)
{
    return (float)((rng_unit(3, i) - 0.5) * exp2((double)(rng_u64(4, i) % 60) - 30.0));
}

static void test_rows_are_found_and_distinct(void **state)
{
    (void)state;
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++) {
        const kv_codec *c = &table[i];
        assert_ptr_equal(kv_codec_by_id(c->id), c);
        assert_ptr_equal(kv_codec_by_name(c->name, strlen(c->name)), c);
        assert_null(kv_codec_by_name(c->name, strlen(c->name) - 1));
        assert_true(c->id != 0 && c->group > 0 && c->group_bytes > 0);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(table[j].id, c->id);
            assert_string_not_equal(table[j].name, c->name);
        }
    }
    assert_null(kv_codec_by_id(0));
    assert_null(kv_codec_by_id(255));
    assert_null(kv_codec_by_name("", 0));
    /* On disk and in geometries: never reused. */
    assert_int_equal(kv_codec_by_name("f32", 3)->id, 1);
    assert_int_equal(kv_codec_by_name("f16", 3)->id, 2);
    assert_int_equal(kv_codec_by_name("bf16", 4)->id, 3);
}

/* KV-22, KV-28: the size is exact, and not a byte beside it is touched, at any alignment. */
static void test_kv28_sizes_and_guards(void **state)
{
    (void)state;
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < N_DIMS; k++) {
            const kv_codec *c = &table[i];
            uint32_t dim = DIMS[k];
            size_t size = kv_codec_row_bytes(c, dim);
            assert_int_equal(size, (size_t)dim * (strcmp(c->name, "f32") == 0 ? 4 : 2));
            for (size_t skip = 0; skip < 5; skip++) {
                unsigned char *bytes = malloc(size + skip + 8);
                float *in = malloc(dim * sizeof(float));
                float *out = malloc((dim + 2) * sizeof(float));
                memset(bytes, 0xc3, size + skip + 8);
                for (uint32_t j = 0; j < dim; j++) in[j] = number(k * 1000 + j);
                out[0] = out[dim + 1] = -77.0F;
                c->encode_row(bytes + skip, in, dim);
                c->decode_row(bytes + skip, out + 1, dim);
                for (size_t j = 0; j < skip; j++) assert_int_equal(bytes[j], 0xc3);
                for (size_t j = 0; j < 8; j++) assert_int_equal(bytes[skip + size + j], 0xc3);
                assert_true(out[0] == -77.0F && out[dim + 1] == -77.0F);
                free(bytes);
                free(in);
                free(out);
            }
        }
    }
    assert_int_equal(kv_codec_row_bytes(&table[0], UINT32_MAX), 4 * (size_t)UINT32_MAX);
}

/* Any bytes decode, and encoding what was decoded gives what decodes alike: nothing is lost
 * twice. */
static void test_decoding_is_total(void **state)
{
    (void)state;
    enum { DIM = 64 };
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    for (size_t i = 0; i < n; i++) {
        size_t size = kv_codec_row_bytes(&table[i], DIM);
        unsigned char *bytes = malloc(size);
        unsigned char *again = malloc(size);
        float a[DIM];
        float b[DIM];
        for (uint64_t round = 0; round < 20000; round++) {
            for (size_t j = 0; j < size; j++) bytes[j] = (unsigned char)rng_u64(round, j);
            table[i].decode_row(bytes, a, DIM);
            table[i].encode_row(again, a, DIM);
            table[i].decode_row(again, b, DIM);
            for (uint32_t j = 0; j < DIM; j++) {
                if (isnan(a[j])) {
                    assert_true(isnan(b[j]));
                } else {
                    assert_int_equal(fp_to_bits(a[j]), fp_to_bits(b[j]));
                }
            }
        }
        free(bytes);
        free(again);
    }
}

/* KV-23: encode(a; b) = encode(a); encode(b). */
static void test_kv23_rows_are_encoded_alone(void **state)
{
    (void)state;
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    float x[96];
    for (uint32_t j = 0; j < 96; j++) x[j] = number(j);
    for (size_t i = 0; i < n; i++) {
        unsigned char whole[96 * 4];
        unsigned char parts[96 * 4];
        table[i].encode_row(whole, x, 96);
        table[i].encode_row(parts, x, 32);
        table[i].encode_row(parts + kv_codec_row_bytes(&table[i], 32), x + 32, 64);
        assert_memory_equal(whole, parts, kv_codec_row_bytes(&table[i], 96));
    }
}

/* The nearest of all 2^16 values, ties to even, found by looking at each. */
static uint16_t nearest(double x, float (*value)(uint16_t), uint16_t infinity)
{
    uint16_t best = 0;
    for (uint16_t i = 0; i < infinity; i++) {
        double off = fabs(fabs(x) - (double)value(i));
        double least = fabs(fabs(x) - (double)value(best));
        if (off < least || (off == least && i % 2 == 0)) best = i;
    }
    return (uint16_t)(best | (signbit(x) ? 0x8000u : 0u));
}

static float value_f16(uint16_t half)
{
    return fp_from_f16(half);
}

static float value_bf16(uint16_t half)
{
    return fp_from_bf16(half);
}

static void check_nearest(const char *name, float (*value)(uint16_t), uint16_t infinity)
{
    const kv_codec *c = kv_codec_by_name(name, strlen(name));
    for (uint32_t i = 0; i < 300; i++) {
        uint16_t low = (uint16_t)(rng_u64(8, i) % (infinity - 1u));
        float a = value(low);
        float b = value((uint16_t)(low + 1));
        /* One of: an exact value, a tie, just above a tie. */
        float x = i % 3 == 0 ? a : (float)(((double)a + (double)b) / 2);
        if (i % 3 == 2) x = nextafterf(x, INFINITY);
        if (i % 2 == 0) x = -x;
        uint16_t half;
        c->encode_row((unsigned char *)&half, &x, 1);
        assert_int_equal(half, nearest((double)x, value, infinity));
    }
}

static void test_rounding(void **state)
{
    (void)state;
    check_nearest("f16", value_f16, 0x7c00);
    check_nearest("bf16", value_bf16, 0x7f80);
    const kv_codec *f16 = kv_codec_by_name("f16", 3);
    const float in[] = {65519.0F, 65520.0F, -INFINITY, NAN, -0.0F, 0x1p-25F, 0x1.8p-25F};
    const uint16_t out[] = {0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x8000, 0x0000, 0x0001};
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++) {
        uint16_t half;
        f16->encode_row((unsigned char *)&half, &in[i], 1);
        assert_int_equal(half, out[i]);
    }
}

/* The dense codecs store what they get, bit for bit where they can. */
static void test_f32_is_the_identity(void **state)
{
    (void)state;
    const kv_codec *c = kv_codec_by_name("f32", 3);
    float x[256];
    float y[256];
    unsigned char bytes[sizeof x];
    for (uint32_t i = 0; i < 256; i++) x[i] = fp_from_bits((uint32_t)rng_u64(6, i));
    c->encode_row(bytes, x, 256);
    c->decode_row(bytes, y, 256);
    assert_memory_equal(x, y, sizeof x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_found_and_distinct),
        cmocka_unit_test(test_kv28_sizes_and_guards),
        cmocka_unit_test(test_decoding_is_total),
        cmocka_unit_test(test_kv23_rows_are_encoded_alone),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_f32_is_the_identity),
    };
    return TEST_RUN("kv/codecs", tests);
}
