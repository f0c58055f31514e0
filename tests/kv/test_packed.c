/* test_packed.c - what the packed KV codecs compute: bytes of MLX and of our own vectors, errors on
 * normally distributed rows, groups that are constant, huge or no numbers, rotation and codebooks.
 * */
#include "kv/codecs/tk.h"
#include "kv/codecs/tv.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"

enum { ROW_MOST = 1024 };

static const kv_codec *codec(const char *name)
{
    const kv_codec *c = kv_codec_by_name(name, strlen(name));
    if (c == NULL) fail_msg("no codec %s", name);
    return c;
}

/* What is left of a row after encoding and decoding, in the basis it came in. */
static void through(const kv_codec *c, uint8_t base, const float *x, float *y, uint32_t n)
{
    unsigned char record[4 * ROW_MOST + 8 * ROW_MOST / 32];
    c->encode_row(c, base, record, x, n);
    c->decode_row(c, base, record, y, n);
    kv_codec_finish(c, y, n);
}

/* ---- bytes ---- */

static uint32_t crc32(const unsigned char *bytes, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xedb88320u : 0u);
    }
    return ~crc;
}

/* Exact in every base type. */
static void vector_row(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] = (float)((int)((37 * i + 11) % 101) - 50) / 16.0F;
}

/* KV-21: the vectors of docs/kv.md; affine parameters in bf16. */
static void test_kv21_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *name, *first;
        size_t bytes; /* of a row of 128 */
        uint32_t crc[3];
    } CASES[] = {
        {"tk8", "9efe5eb81878d232", 144, {0x0b7e46ab, 0x3b4ce311, 0xbb85721d}},
        {"tk5", "e4ed33bdb2a1e502", 96, {0x40aae57a, 0xea4d8534, 0x0f4d296d}},
        {"tk4", "824df9b5712ce8a4", 80, {0x24e78357, 0xf151ad7d, 0xae7ec1de}},
        {"tk2", "79de799e7b9e279e", 48, {0x11719ada, 0x6717a881, 0x9e6ad01c}},
        {"tv2", "2afa5662a2aa86a5", 40, {0x7af570b3, 0xaf1e2e2b, 0xbf60ea6a}},
        {"tv3", "a451fa5d56744459", 56, {0x6212fe23, 0xc35a9a93, 0xcadf72a0}},
        {"tv4", "981c9bfd7b630b6a", 72, {0x7e9be398, 0x1fd1a6fe, 0x2c9a01d8}},
        {"tv5", "526671e5f6f71586", 88, {0x14e61a4f, 0x7c58b7e5, 0x469459e8}},
        {"tv8", "8d90bd22ac8ec9e5", 136, {0x47564172, 0x44b6035e, 0x650f463e}},
        {"affine8g32", "1d7ddd3797f751b1", 144, {0xc5014d74, 0x3977390d, 0}},
        {"affine8g64", "e48526ca6c0db152", 136, {0x2c0e8019, 0x18989a06, 0}},
        {"affine4g32", "823ef9b5712ce8a4", 80, {0xa7ed3908, 0x9bc058fe, 0}},
        {"affine4g64", "8ed2175b9fe4286c", 72, {0xd2a861c1, 0x33bcd008, 0}},
        {"q8_0", NULL, 136, {0x7c9bfde9, 0xa4e957b9, 0}},
    };
    static const uint32_t DIMS[3] = {128, 64, 80};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const kv_codec *c = codec(CASES[i].name);
        for (size_t k = 0; k < 3; k++) {
            float x[128];
            unsigned char record[256];
            if (CASES[i].crc[k] == 0) continue;
            vector_row(x, DIMS[k]);
            size_t size = kv_codec_row_bytes(c, KV_BASE_BF16, DIMS[k]);
            c->encode_row(c, KV_BASE_BF16, record, x, DIMS[k]);
            if (k == 0) assert_int_equal(size, CASES[i].bytes);
            assert_int_equal(crc32(record, size), CASES[i].crc[k]);
            for (size_t j = 0; j < 8 && k == 0 && CASES[i].first != NULL; j++) {
                char byte[3];
                snprintf(byte, sizeof byte, "%02x", record[j]);
                assert_memory_equal(byte, CASES[i].first + 2 * j, 2);
            }
        }
    }
    /* The rotated row itself. */
    static const uint32_t ROTATED[3] = {0xbfb7f2c0, 0x7216f150, 0x40b1f534};
    for (size_t k = 0; k < 3; k++) {
        float x[128];
        vector_row(x, DIMS[k]);
        kv_rotate(x, DIMS[k]);
        assert_int_equal(crc32((const unsigned char *)x, DIMS[k] * sizeof *x), ROTATED[k]);
        if (k > 0) continue;
        assert_true(fabsf(x[0] - .4198447F) < 1e-7F && fabsf(x[2] - 2.032932F) < 1e-6F);
    }
}

static size_t from_hex(const char *text, unsigned char *out)
{
    size_t n = strlen(text) / 2;
    for (size_t i = 0; i < n; i++) {
        char byte[3] = {text[2 * i], text[2 * i + 1], '\0'};
        out[i] = (unsigned char)strtoul(byte, NULL, 16);
    }
    return n;
}

/* An element of a row in its type. */
static float element(const unsigned char *at, uint8_t base, uint32_t i)
{
    uint16_t half;
    float value;
    if (base == KV_BASE_F32) {
        memcpy(&value, at + 4 * (size_t)i, sizeof value);
        return value;
    }
    memcpy(&half, at + 2 * (size_t)i, sizeof half);
    return base == KV_BASE_F16 ? fp_from_f16(half) : fp_from_bf16(half);
}

/* KV-27, on rows recorded from MLX: normal, offset, of one sign, ties, constant and zero. */
static void check_mlx_line(char *line)
{
    static unsigned char row[2048];
    static unsigned char expected[2048];
    static unsigned char record[2048];
    char *field[6];
    for (size_t i = 0; i < 6; i++) {
        field[i] = line;
        line += strcspn(line, " ");
        if (*line != '\0') *line++ = '\0';
    }
    const kv_codec *c = codec(field[0]);
    uint8_t base = codec(field[1])->id;
    uint32_t n = (uint32_t)strtoul(field[2], NULL, 10);
    float x[512];
    float y[512];
    assert_true(n <= 512 && from_hex(field[3], row) == n * (base == KV_BASE_F32 ? 4u : 2u));
    size_t size = from_hex(field[4], expected);
    assert_int_equal(size, kv_codec_row_bytes(c, base, n));
    for (uint32_t i = 0; i < n; i++) x[i] = element(row, base, i);
    c->encode_row(c, base, record, x, n);
    assert_memory_equal(record, expected, size);
    c->decode_row(c, base, record, y, n);
    for (size_t i = 0; i < 8; i++) {
        char bits[9];
        snprintf(bits, sizeof bits, "%08x", (unsigned)fp_to_bits(y[i]));
        assert_memory_equal(bits, field[5] + 8 * i, 8);
    }
}

static void test_kv27_bytes_of_mlx(void **state)
{
    (void)state;
    char *text;
    size_t n_bytes;
    weft_error err = {0};
    assert_ok(io_read_file(io_system(), mem_system(), WEFT_SOURCE_DIR "/tests/kv/affine.txt",
                           1 << 20, &text, &n_bytes, &err),
              &err);
    char *lines = calloc(1, n_bytes + 1);
    memcpy(lines, text, n_bytes);
    uint32_t n_lines = 0;
    for (char *line = lines; *line != '\0'; n_lines++) {
        char *end = line + strcspn(line, "\n");
        char *next = *end == '\0' ? end : end + 1;
        *end = '\0';
        check_mlx_line(line);
        line = next;
    }
    assert_int_equal(n_lines, 7);
    free(lines);
    mem_free(mem_system(), text, n_bytes + 1);
}

/* KV-22 */
static void test_kv22_pack(void **state)
{
    (void)state;
    static const struct {
        uint32_t bits;
        uint8_t codes[8];
        uint8_t bytes[5];
    } CASES[] = {
        {3, {0, 1, 2, 3, 4, 5, 6, 7}, {0x88, 0xc6, 0xfa}},
        {5, {0, 1, 2, 3, 4, 5, 6, 7}, {0x20, 0x88, 0x41, 0x8a, 0x39}},
        {4, {3, 10, 1, 8, 15, 6, 13, 4}, {0xa3, 0x81, 0x6f, 0x4d}},
    };
    unsigned char out[ROW_MOST];
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        kv_pack(out, CASES[i].codes, 8, CASES[i].bits);
        assert_memory_equal(out, CASES[i].bytes, CASES[i].bits);
    }
    for (uint32_t bits = 1; bits <= 8; bits++) {
        for (uint32_t n = 8; n <= 512; n += 8) {
            uint8_t codes[512];
            uint8_t again[512];
            for (uint32_t i = 0; i < n; i++) {
                codes[i] = (uint8_t)(rng_u64(bits, n * 1000 + i) & ((1u << bits) - 1));
            }
            memset(out, 0x5a, sizeof out);
            kv_pack(out, codes, n, bits);
            assert_int_equal(out[n * bits / 8], 0x5a);
            kv_unpack(out, again, n, bits);
            assert_memory_equal(codes, again, n);
        }
    }
}

/* ---- tables ---- */

/* KV-29 */
static void test_kv29_signs(void **state)
{
    (void)state;
    assert_true(kv_sign_word(64, 0) == 0xe6888b655a1eb62cULL);
    assert_true(kv_sign_word(128, 0) == 0x8e2a4ec3f7c003fbULL);
    assert_true(kv_sign_word(128, 1) == 0x0deca539b7c43321ULL);
    assert_true(kv_sign_word(256, 0) == 0x135b515e49067bf0ULL);
    assert_true(kv_sign_word(256, 3) == 0xa615c8ad98ce2429ULL);
    assert_true(kv_sign_word(512, 0) == 0xd08ee638bd8b02d9ULL);
    assert_true(kv_sign_word(80, 0) == 0x84ac66498c99a406ULL);
    assert_true(kv_sign_word(80, 1) == 0x06a4cfaccdfda08fULL);
    unsigned char bytes[64];
    for (uint32_t k = 0; k < 8; k++) {
        for (uint32_t j = 0; j < 8; j++) {
            bytes[8 * k + j] = (unsigned char)(kv_sign_word(512, k) >> (8 * j));
        }
    }
    assert_int_equal(crc32(bytes, sizeof bytes), 0xc5634f94);
    for (uint32_t i = 0; i < 80; i++) {
        assert_int_equal(kv_codec_sign(80, i), (kv_sign_word(80, i / 64) >> (i % 64)) & 1);
    }
}

/* The density of a normal distribution, and how much of it lies below x. */
static double density(double x)
{
    return exp(-0.5 * x * x) / sqrt(2.0 * 3.14159265358979323846);
}

static double below(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

/* KV-29: symmetric, and each centroid the mean of what is nearest to it, to the six decimals that
 * the tables have. */
static void test_kv29_codebooks(void **state)
{
    (void)state;
    static const double MSE[9] = {
        [2] = .117482, [3] = .034548, [4] = .009501, [5] = .002505, [8] = .0000412};
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    for (size_t i = 0; i < n; i++) {
        const kv_codec *c = &table[i];
        if (c->kind != KV_TV) continue;
        uint32_t size = 1u << c->bits;
        double error = 1.0;
        for (uint32_t k = 0; k < size; k++) {
            double low = k == 0 ? -40.0 : 0.5 * ((double)c->table[k - 1] + (double)c->table[k]);
            double high =
                k == size - 1 ? 40.0 : 0.5 * ((double)c->table[k] + (double)c->table[k + 1]);
            double mass = low < 0.0 ? below(high) - below(low) : below(-low) - below(-high);
            double mean = (density(low) - density(high)) / mass;
            assert_true(c->table[k] == -c->table[size - 1 - k]);
            assert_true(fabs(mean - (double)c->table[k]) < 2e-6);
            error += mass * (double)c->table[k] * ((double)c->table[k] - 2.0 * mean);
        }
        assert_true(fabs(error / MSE[c->bits] - 1.0) < 0.01);
    }
}

/* ---- rotation ---- */

/* KV-24 */
static void test_kv24_rotation(void **state)
{
    (void)state;
    static const uint32_t DIMS[] = {8, 64, 80, 96, 112, 128, 192, 256, 512, 1024};
    for (size_t k = 0; k < COUNT_OF(DIMS); k++) {
        uint32_t n = DIMS[k];
        float x[ROW_MOST];
        float y[ROW_MOST];
        float most = 0.0F;
        for (uint32_t i = 0; i < n; i++) {
            x[i] = y[i] = (float)(rng_unit(n, i) - 0.5);
            most = fmaxf(most, fabsf(x[i]));
        }
        kv_rotate(y, n);
        kv_unrotate(y, n);
        for (uint32_t i = 0; i < n; i++) assert_true(fabsf(x[i] - y[i]) <= 1e-6F * most);
    }
    /* The matrix is orthogonal. */
    static float m[112][112];
    for (uint32_t i = 0; i < 112; i++) {
        memset(m[i], 0, sizeof m[i]);
        m[i][i] = 1.0F;
        kv_rotate(m[i], 112);
    }
    for (uint32_t i = 0; i < 112; i++) {
        for (uint32_t j = 0; j < 112; j++) {
            double dot = 0.0;
            for (uint32_t d = 0; d < 112; d++) dot += (double)m[i][d] * (double)m[j][d];
            assert_true(fabs(dot - (i == j ? 1.0 : 0.0)) < 1e-5);
        }
    }
}

/* ---- errors ---- */

static float normal(uint64_t seed, uint64_t i)
{
    double radius = sqrt(-2.0 * log(1.0 - rng_unit(seed, 2 * i)));
    return (float)(radius * cos(6.28318530717958647693 * rng_unit(seed, 2 * i + 1)));
}

static void normal_row(float *x, uint32_t n, uint64_t seed, uint64_t row)
{
    for (uint32_t i = 0; i < n; i++) x[i] = fp_round_bf16(normal(seed, row * n + i));
}

static double relative_error(const kv_codec *c, uint8_t base, uint32_t n, uint32_t n_rows)
{
    double error = 0.0;
    double power = 0.0;
    for (uint32_t r = 0; r < n_rows; r++) {
        float x[ROW_MOST];
        float y[ROW_MOST];
        normal_row(x, n, 21, r);
        through(c, base, x, y, n);
        for (uint32_t i = 0; i < n; i++) {
            error += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
            power += (double)x[i] * (double)x[i];
        }
    }
    return error / power;
}

/* KV-26: mean square error relative to the mean square, rows of 128 in bf16. */
static void test_kv26_errors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint8_t base;
        double mse;
    } CASES[] = {
        {"tv2", KV_BASE_BF16, .10489},           {"tv3", KV_BASE_BF16, .02568},
        {"tv4", KV_BASE_BF16, .006135},          {"tv5", KV_BASE_BF16, .001601},
        {"tv8", KV_BASE_BF16, .0000264},         {"tk2", KV_BASE_BF16, .16514},
        {"tk4", KV_BASE_BF16, .006525},          {"tk5", KV_BASE_BF16, .001530},
        {"tk8", KV_BASE_BF16, .0000228},         {"affine4g32", KV_BASE_BF16, .00657},
        {"affine4g64", KV_BASE_BF16, .00828},    {"affine4g128", KV_BASE_BF16, .01002},
        {"affine8g32", KV_BASE_BF16, .0000411},  {"affine8g64", KV_BASE_BF16, .0000527},
        {"affine8g128", KV_BASE_BF16, .0000603}, {"affine4g32", KV_BASE_F16, .00656},
        {"affine4g64", KV_BASE_F16, .00827},     {"affine4g128", KV_BASE_F16, .01001},
        {"affine8g32", KV_BASE_F16, .0000230},   {"affine8g64", KV_BASE_F16, .0000292},
        {"affine8g128", KV_BASE_F16, .0000354},  {"q8_0", KV_BASE_BF16, .0000287},
    };
    uint32_t n_rows = TEST_SLOWED ? 2000 : 3000;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        double mse = relative_error(codec(CASES[i].name), CASES[i].base, 128, n_rows);
        print_message("%-12s %-4s %.3g (%+.1f %%)\n", CASES[i].name,
                      CASES[i].base == KV_BASE_F16 ? "f16" : "bf16", mse,
                      100.0 * (mse / CASES[i].mse - 1.0));
        assert_true(fabs(mse / CASES[i].mse - 1.0) < 0.03);
    }
    /* Other heads differ little; a short last group a bit more. */
    assert_true(fabs(relative_error(codec("tv3"), KV_BASE_BF16, 64, n_rows) / .02568 - 1) < 0.04);
    assert_true(fabs(relative_error(codec("tv4"), KV_BASE_BF16, 512, n_rows / 4) / .006135 - 1) <
                0.04);
    assert_true(fabs(relative_error(codec("tv4"), KV_BASE_BF16, 80, n_rows) / .00590 - 1) < 0.04);
}

enum { KEYS = 1024, HEAD = 128 };

/* Attention over rows as they are, and over what is left of them. */
static void attend(const float *q, const float *k, const float *v, double *o)
{
    static double score[KEYS];
    double sum = 0.0;
    for (uint32_t j = 0; j < KEYS; j++) {
        double dot = 0.0;
        for (uint32_t d = 0; d < HEAD; d++) dot += (double)q[d] * (double)k[j * HEAD + d];
        score[j] = exp(dot / sqrt((double)HEAD));
        sum += score[j];
    }
    memset(o, 0, HEAD * sizeof *o);
    for (uint32_t j = 0; j < KEYS; j++) {
        for (uint32_t d = 0; d < HEAD; d++) o[d] += score[j] / sum * (double)v[j * HEAD + d];
    }
}

/* The output of attention, relative to its root mean square. */
static void test_attention_errors(void **state)
{
    (void)state;
    static const struct {
        const char *k, *v;
        double error;
    } CASES[] = {
        {"affine8g64", "affine8g64", .0105},
        {"affine4g64", "affine4g64", .130},
        {"affine4g32", "affine4g32", .114},
        {"tk8", "tv8", .0071},
        {"tk8", "tv5", .0406},
        {"tk8", "tv4", .0782},
        {"tk8", "tv3", .161},
        {"tk8", "tv2", .323},
        {"tk5", "tv3", .166},
        {"tk4", "tv3", .180},
        {"tk2", "tv2", .526},
    };
    enum { QUERIES = 24, SETS = TEST_SLOWED ? 1 : 3 };
    static float k[SETS][KEYS * HEAD], v[SETS][KEYS * HEAD], q[SETS][QUERIES * HEAD];
    static float k2[KEYS * HEAD], v2[KEYS * HEAD];
    static double o[SETS][QUERIES][HEAD];
    double power = 0.0;
    for (uint32_t s = 0; s < SETS; s++) {
        normal_row(k[s], KEYS * HEAD, 31, s);
        normal_row(v[s], KEYS * HEAD, 32, s);
        normal_row(q[s], QUERIES * HEAD, 33, s);
        for (uint32_t i = 0; i < QUERIES; i++) {
            attend(q[s] + i * HEAD, k[s], v[s], o[s][i]);
            for (uint32_t d = 0; d < HEAD; d++) power += o[s][i][d] * o[s][i][d];
        }
    }
    for (size_t c = 0; c < COUNT_OF(CASES); c++) {
        double error = 0.0;
        for (uint32_t s = 0; s < SETS; s++) {
            for (uint32_t j = 0; j < KEYS * HEAD; j += HEAD) {
                through(codec(CASES[c].k), KV_BASE_BF16, k[s] + j, k2 + j, HEAD);
                through(codec(CASES[c].v), KV_BASE_BF16, v[s] + j, v2 + j, HEAD);
            }
            for (uint32_t i = 0; i < QUERIES; i++) {
                double o2[HEAD];
                attend(q[s] + i * HEAD, k2, v2, o2);
                for (uint32_t d = 0; d < HEAD; d++) {
                    error += (o2[d] - o[s][i][d]) * (o2[d] - o[s][i][d]);
                }
            }
        }
        double relative = sqrt(error / power);
        print_message("k=%s,v=%s %.3g (%+.1f %%)\n", CASES[c].k, CASES[c].v, relative,
                      100.0 * (relative / CASES[c].error - 1.0));
        assert_true(fabs(relative / CASES[c].error - 1.0) < (TEST_SLOWED ? 0.1 : 0.05));
    }
}

/* ---- odd groups ---- */

/* KV-25: whatever comes in, what comes out is finite; and NaN counts as 0. */
static void test_kv25_odd_groups(void **state)
{
    (void)state;
    static const float ODD[] = {0.0F,      -0.0F,  65504.0F, -65504.0F, 1e-40F, -1e-45F,   1e-7F,
                                3e38F,     -3e38F, 1e30F,    -1e-20F,   NAN,    -NAN,      INFINITY,
                                -INFINITY, 3.7F,   1e5F,     0x1p-24F,  2e38F,  -0x1p-126F};
    size_t n;
    const kv_codec *table = kv_codec_table(&n);
    for (size_t i = 0; i < n; i++) {
        const kv_codec *c = &table[i];
        for (uint32_t round = 0; round < 4000 && c->kind != KV_DENSE; round++) {
            uint32_t dim = c->unit * (1 + round % 12);
            uint8_t base = (uint8_t)(1 + round % 3);
            float x[ROW_MOST];
            float y[ROW_MOST];
            /* All of one kind, of two kinds, of any. */
            uint32_t kinds = round % 5 == 0 ? 1 : round % 5 == 1 ? 2 : COUNT_OF(ODD);
            uint32_t from = round / 5 % COUNT_OF(ODD);
            for (uint32_t j = 0; j < dim; j++) {
                uint64_t draw = rng_u64(round, j);
                x[j] = ODD[(from + draw % kinds) % COUNT_OF(ODD)];
                if (round % 5 == 3 && draw % 7 != 0) x[j] = normal(round, j);
            }
            through(c, base, x, y, dim);
            for (uint32_t j = 0; j < dim; j++) {
                if (isfinite(y[j])) continue;
                fail_msg("%s, round %u: element %u is %g, was %g", c->name, round, j, (double)y[j],
                         (double)x[j]);
            }
        }
        if (c->kind == KV_DENSE) continue;
        float x[128];
        float zeroed[128];
        unsigned char a[256];
        unsigned char b[256];
        for (uint32_t j = 0; j < 128; j++) {
            x[j] = j % 9 == 4 ? NAN : j == 70 ? INFINITY : j == 71 ? -INFINITY : normal(5, j);
            zeroed[j] = isnan(x[j]) ? 0.0F : isinf(x[j]) ? copysignf(65504.0F, x[j]) : x[j];
        }
        c->encode_row(c, KV_BASE_F16, a, x, 128);
        c->encode_row(c, KV_BASE_F16, b, zeroed, 128);
        assert_memory_equal(a, b, kv_codec_row_bytes(c, KV_BASE_F16, 128));
    }
}

static void test_constant_groups(void **state)
{
    (void)state;
    static const char *const TK[] = {"tk2", "tk4", "tk5", "tk8"};
    float x[64];
    float y[64];
    unsigned char record[128];
    for (size_t i = 0; i < COUNT_OF(TK); i++) {
        const kv_codec *c = codec(TK[i]);
        size_t codes = 8u * c->bits;
        for (uint32_t j = 0; j < 64; j++) x[j] = 3.7F;
        c->encode_row(c, KV_BASE_BF16, record, x, 64);
        c->decode_row(c, KV_BASE_BF16, record, y, 64);
        for (size_t j = 0; j < codes; j++) assert_int_equal(record[j], 0);
        assert_memory_equal(record + codes, "\x68\x17\x68\x17\x00\x68\x00\x68", 8);
        for (uint32_t j = 0; j < 64; j++) assert_true(y[j] == 3.703125F);
        memset(x, 0, sizeof x);
        c->encode_row(c, KV_BASE_BF16, record, x, 64);
        c->decode_row(c, KV_BASE_BF16, record, y, 64);
        assert_memory_equal(record + codes, "\x02\x00\x02\x00\x00\x00\x00\x00", 8);
        for (uint32_t j = 0; j < 64; j++) assert_true(y[j] == 0.0F);
    }
    const kv_codec *tv = codec("tv4");
    tv->encode_row(tv, KV_BASE_BF16, record, x, 64);
    for (size_t j = 0; j < 32; j++) assert_int_equal(record[j], 0x77);
    assert_memory_equal(record + 32, "\0\0\0\0", 4);
    const kv_codec *affine = codec("affine8g64");
    affine->encode_row(affine, KV_BASE_BF16, record, x, 64);
    assert_memory_equal(record + 64, "\xd7\xb3\0\0", 4);
}

/* The rule that others have: the scale is range / 254, the zero point comes from the scale before
 * it was rounded, and codes come from both before they were rounded. */
static void old_tk8(const float *x, float *y, uint32_t n)
{
    float least = x[0];
    float most = x[0];
    for (uint32_t i = 0; i < n; i++) {
        if (x[i] < least) least = x[i];
        if (x[i] > most) most = x[i];
    }
    float scale = (most - least) / 254.0F;
    float zero = rintf((most + least) / (2.0F * scale));
    float kept_scale = fp_from_f16(fp_to_f16(scale));
    float kept_zero = fp_from_f16(fp_to_f16(zero));
    for (uint32_t i = 0; i < n; i++) {
        float code = rintf(x[i] / scale - zero);
        code = code > 127.0F ? 127.0F : code < -127.0F ? -127.0F : code;
        y[i] = (code + kept_zero) * kept_scale;
    }
}

/* Groups of small range beside their offset: the old zero point does not fit f16, ours does. */
static void test_zero_point(void **state)
{
    (void)state;
    static const struct {
        double sigma, error;
    } CASES[] = {{1.0, .0048}, {.3, .0051}, {.1, .0141}, {.03, .047}, {.005, .28}};
    const kv_codec *c = codec("tk8");
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        double error = 0.0;
        double old_error = 0.0;
        uint32_t old_lost = 0;
        enum { GROUPS = 2000 };
        for (uint32_t r = 0; r < GROUPS; r++) {
            float x[32];
            float y[32];
            float old[32];
            bool lost = false;
            for (uint32_t j = 0; j < 32; j++) {
                x[j] = (float)(10.0 + CASES[i].sigma * (double)normal(41 + i, r * 32 + j));
            }
            through(c, KV_BASE_F32, x, y, 32);
            old_tk8(x, old, 32);
            for (uint32_t j = 0; j < 32; j++) {
                double off = ((double)y[j] - (double)x[j]) / CASES[i].sigma;
                double old_off = ((double)old[j] - (double)x[j]) / CASES[i].sigma;
                error += off * off;
                if (isfinite(old[j])) old_error += old_off * old_off;
                lost = lost || !isfinite(old[j]);
            }
            old_lost += lost;
        }
        error = sqrt(error / (32.0 * GROUPS));
        old_error = sqrt(old_error / (32.0 * GROUPS));
        print_message("10 + N(0, %g): %.4f, by the old rule %.4f and %u of %d groups lost\n",
                      CASES[i].sigma, error, old_error, old_lost, GROUPS);
        assert_true(fabs(error / CASES[i].error - 1.0) < 0.05);
        if (CASES[i].sigma <= 0.1) assert_true(old_lost > 0 || old_error > 1.5 * error);
    }
    float x[32];
    float y[32];
    for (uint32_t j = 0; j < 32; j++) x[j] = 3.7F;
    old_tk8(x, y, 32);
    assert_true(!isfinite(y[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv21_vectors),    cmocka_unit_test(test_kv27_bytes_of_mlx),
        cmocka_unit_test(test_kv22_pack),       cmocka_unit_test(test_kv29_signs),
        cmocka_unit_test(test_kv29_codebooks),  cmocka_unit_test(test_kv24_rotation),
        cmocka_unit_test(test_kv26_errors),     cmocka_unit_test(test_attention_errors),
        cmocka_unit_test(test_kv25_odd_groups), cmocka_unit_test(test_constant_groups),
        cmocka_unit_test(test_zero_point),
    };
    return TEST_RUN("kv/packed", tests);
}
