/* test_codecs.c - a walk over kv/codecs/codecs.def: sizes, guard bytes, total decoding, round
 * trips. What the packed codecs compute is in test_packed.c. */
#include "kv/codecs/codec.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

static const uint32_t DIMS[] = {1,  2,  7,   8,   24,  32,  64,  80,  88,
                                96, 96, 112, 128, 136, 192, 256, 512, 1024};
static const uint8_t BASES[] = {KV_BASE_F32, KV_BASE_F16, KV_BASE_BF16};

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
    assert_int_equal(n, 19);
    for (size_t i = 0; i < n; i++) {
        const kv_codec *c = &table[i];
        assert_ptr_equal(kv_codec_by_id(c->id), c);
        assert_ptr_equal(kv_codec_by_name(c->name, strlen(c->name)), c);
        const kv_codec *shorter = kv_codec_by_name(c->name, strlen(c->name) - 1);
        assert_ptr_not_equal(shorter, c);
        assert_true(c->id != 0 && c->group > 0 && c->unit > 0 && c->bits > 0);
        assert_true(c->sides != 0 && c->sides <= (KV_FOR_K | KV_FOR_V));
        assert_true((c->table != NULL) == (c->kind == KV_TV));
        /* Kernels decode 32 codes at a time. */
        assert_true(c->kind == KV_DENSE || c->group % 32 == 0);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(table[j].id, c->id);
            assert_string_not_equal(table[j].name, c->name);
        }
    }
    assert_null(kv_codec_by_id(0));
    assert_null(kv_codec_by_id(255));
    assert_null(kv_codec_by_name("", 0));
    /* On disk and in geometries: never reused. */
    static const char *const IDS[] = {"f32",         "f16",         "bf16",       "affine8g32",
                                      "affine8g64",  "affine8g128", "affine4g32", "affine4g64",
                                      "affine4g128", "q8_0",        "tk2",        "tk4",
                                      "tk5",         "tk8",         "tv2",        "tv3",
                                      "tv4",         "tv5",         "tv8"};
    for (size_t i = 0; i < sizeof IDS / sizeof IDS[0]; i++) {
        assert_int_equal(kv_codec_by_name(IDS[i], strlen(IDS[i]))->id, i + 1);
    }
}

/* Codes of n elements, then as many bytes for each group of g: as docs/kv.md has it. */
static size_t expected_bytes(const kv_codec *c, uint8_t base, uint32_t n)
{
    size_t of_group = 0;
    if (c->kind == KV_AFFINE) of_group = base == KV_BASE_F32 ? 8 : 4;
    if (c->kind == KV_TK) of_group = 4;
    if (c->kind == KV_Q8 || c->kind == KV_TV) of_group = 2;
    return (size_t)n * c->bits / 8 + (n + c->group - 1) / c->group * of_group;
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
            uint8_t base = BASES[(i + k) % 3];
            if (!kv_codec_takes(c, dim)) continue;
            size_t size = kv_codec_row_bytes(c, base, dim);
            assert_int_equal(size, expected_bytes(c, base, dim));
            for (size_t skip = 0; skip < 5; skip++) {
                unsigned char *bytes = malloc(size + skip + 8);
                float *in = malloc(dim * sizeof(float));
                float *out = malloc((dim + 2) * sizeof(float));
                memset(bytes, 0xc3, size + skip + 8);
                for (uint32_t j = 0; j < dim; j++) in[j] = number(k * 1000 + j);
                out[0] = out[dim + 1] = -77.0F;
                c->encode_row(c, base, bytes + skip, in, dim);
                c->decode_row(c, base, bytes + skip, out + 1, dim);
                for (size_t j = 0; j < skip; j++) assert_int_equal(bytes[j], 0xc3);
                for (size_t j = 0; j < 8; j++) assert_int_equal(bytes[skip + size + j], 0xc3);
                assert_true(out[0] == -77.0F && out[dim + 1] == -77.0F);
                free(bytes);
                free(in);
                free(out);
            }
        }
    }
    assert_int_equal(kv_codec_row_bytes(&table[0], KV_BASE_F32, UINT32_MAX),
                     4 * (size_t)UINT32_MAX);
}

/* Keys and values together, for a head of 128 in bf16. */
static void test_kv28_bytes_per_token(void **state)
{
    (void)state;
    static const struct {
        const char *k, *v;
        size_t bytes;
    } CASES[] = {
        {"bf16", "bf16", 512},
        {"affine8g32", "affine8g32", 288},
        {"affine8g64", "affine8g64", 272},
        {"affine8g128", "affine8g128", 264},
        {"affine4g32", "affine4g32", 160},
        {"affine4g64", "affine4g64", 144},
        {"affine4g128", "affine4g128", 136},
        {"q8_0", "q8_0", 272},
        {"tk8", "tv8", 280},
        {"tk8", "tv5", 232},
        {"tk8", "tv4", 216},
        {"tk8", "tv3", 200},
        {"tk8", "tv2", 184},
        {"tk5", "tv3", 152},
        {"tk4", "tv3", 136},
        {"tk4", "tv2", 120},
        {"tk2", "tv2", 88},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const kv_codec *k = kv_codec_by_name(CASES[i].k, strlen(CASES[i].k));
        const kv_codec *v = kv_codec_by_name(CASES[i].v, strlen(CASES[i].v));
        size_t bytes = kv_codec_row_bytes(k, KV_BASE_BF16, 128);
        assert_int_equal(bytes + kv_codec_row_bytes(v, KV_BASE_BF16, 128), CASES[i].bytes);
    }
}

static void test_what_is_taken(void **state)
{
    (void)state;
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    for (size_t i = 0; i < n; i++) {
        const kv_codec *c = &table[i];
        bool dense = c->kind == KV_DENSE;
        assert_false(kv_codec_takes(c, 0));
        assert_int_equal(kv_codec_takes(c, 7), dense);
        assert_int_equal(kv_codec_takes(c, 80), c->kind != KV_Q8);
        assert_true(kv_codec_takes(c, 1024));
        assert_int_equal(kv_codec_takes(c, 1056), dense);
        assert_int_equal(kv_codec_takes(c, UINT32_MAX), dense);
    }
}

/* Any bytes decode, and encoding what was decoded gives what decodes alike: nothing is lost
 * twice. */
static void test_decoding_is_total(void **state)
{
    (void)state;
    enum { DIM = 64 };
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    for (size_t i = 0; i < n && table[i].kind == KV_DENSE; i++) {
        const kv_codec *c = &table[i];
        size_t size = kv_codec_row_bytes(c, KV_BASE_F32, DIM);
        unsigned char *bytes = malloc(size);
        unsigned char *again = malloc(size);
        float a[DIM];
        float b[DIM];
        for (uint64_t round = 0; round < 20000; round++) {
            for (size_t j = 0; j < size; j++) bytes[j] = (unsigned char)rng_u64(round, j);
            c->decode_row(c, KV_BASE_F32, bytes, a, DIM);
            c->encode_row(c, KV_BASE_F32, again, a, DIM);
            c->decode_row(c, KV_BASE_F32, again, b, DIM);
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

/* Packed rows: whatever the codes, what is decoded is finite where the parameters are. Their
 * highest exponent bits are cleared here, wherever they lie: that changes codes, too. */
static void test_packed_decoding_is_total(void **state)
{
    (void)state;
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    for (size_t i = 0; i < n; i++) {
        const kv_codec *c = &table[i];
        for (uint64_t round = 0; round < 3000 && c->kind != KV_DENSE; round++) {
            uint32_t dim = c->unit * (uint32_t)(1 + rng_u64(11, round) % 20);
            uint8_t base = BASES[round % 3];
            size_t size = kv_codec_row_bytes(c, base, dim);
            unsigned char *bytes = malloc(size);
            float *out = malloc(dim * sizeof *out);
            for (size_t j = 0; j < size; j++) bytes[j] = (unsigned char)rng_u64(round, j);
            if (round % 2 == 0) {
                for (size_t j = 0; j < size; j++) bytes[j] &= 0xbf;
            }
            c->decode_row(c, base, bytes, out, dim);
            for (uint32_t j = 0; j < dim && round % 2 == 0; j++) assert_true(isfinite(out[j]));
            free(bytes);
            free(out);
        }
    }
}

/* KV-23: encode(a; b) = encode(a); encode(b). */
static void test_kv23_rows_are_encoded_alone(void **state)
{
    (void)state;
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    float x[192];
    for (uint32_t j = 0; j < 192; j++) x[j] = number(j);
    for (size_t i = 0; i < n; i++) {
        const kv_codec *c = &table[i];
        unsigned char rows[2][96 * 4];
        unsigned char again[2][96 * 4];
        size_t size = kv_codec_row_bytes(c, KV_BASE_BF16, 96);
        for (uint32_t r = 0; r < 2; r++) c->encode_row(c, KV_BASE_BF16, rows[r], x + 96 * r, 96);
        for (uint32_t r = 2; r-- > 0;) c->encode_row(c, KV_BASE_BF16, again[r], x + 96 * r, 96);
        for (uint32_t r = 0; r < 2; r++) assert_memory_equal(rows[r], again[r], size);
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
        c->encode_row(c, KV_BASE_F32, (unsigned char *)&half, &x, 1);
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
        f16->encode_row(f16, KV_BASE_F32, (unsigned char *)&half, &in[i], 1);
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
    c->encode_row(c, KV_BASE_BF16, bytes, x, 256);
    c->decode_row(c, KV_BASE_BF16, bytes, y, 256);
    assert_memory_equal(x, y, sizeof x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_found_and_distinct),
        cmocka_unit_test(test_kv28_sizes_and_guards),
        cmocka_unit_test(test_kv28_bytes_per_token),
        cmocka_unit_test(test_what_is_taken),
        cmocka_unit_test(test_decoding_is_total),
        cmocka_unit_test(test_packed_decoding_is_total),
        cmocka_unit_test(test_kv23_rows_are_encoded_alone),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_f32_is_the_identity),
    };
    return TEST_RUN("kv/codecs", tests);
}
