/* test_encoding.c - every encoding against the vectors of encodings.txt
 * (tools/oracle/encodings.py), and the binding of tensors to bytes. */
#include "tensor/encoding.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "base/io.h"
#include "base/str.h"
#include "support/compare.h"

enum { ROW_COLS = 1024 };

/* One line of the file. */
typedef struct vector {
    char name[32];
    uint32_t bits, group;
    uint64_t n_cols;
    unsigned char
        *planes[TENSOR_PLANES]; /* heap blocks of exact size: ASan sees one byte too far */
    size_t plane_bytes[TENSOR_PLANES];
    float values[ROW_COLS];
} vector;

static unsigned hex_digit(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;
}

/* The token at *at, which moves behind it. */
static str next_token(const char **at)
{
    const char *start = *at;
    while (**at != ' ' && **at != '\n' && **at != '\0') (*at)++;
    str token = {start, (size_t)(*at - start)};
    if (**at != '\0') (*at)++;
    return token;
}

static bool next_vector(const char **at, vector *v)
{
    if (**at == '\0') return false;
    *v = (vector){0};
    str name = next_token(at);
    assert_true(name.len < sizeof v->name);
    memcpy(v->name, name.ptr, name.len);
    v->bits = (uint32_t)strtoul(next_token(at).ptr, NULL, 10);
    v->group = (uint32_t)strtoul(next_token(at).ptr, NULL, 10);
    v->n_cols = strtoull(next_token(at).ptr, NULL, 10);
    assert_in_range(v->n_cols, 1, ROW_COLS);
    for (size_t i = 0; i < TENSOR_PLANES; i++) {
        str hex = next_token(at);
        if (str_equal_text(hex, "-")) continue;
        v->plane_bytes[i] = hex.len / 2;
        v->planes[i] = test_malloc(hex.len / 2);
        for (size_t j = 0; j < hex.len / 2; j++)
            v->planes[i][j] =
                (unsigned char)(hex_digit(hex.ptr[2 * j]) << 4 | hex_digit(hex.ptr[2 * j + 1]));
    }
    str hex = next_token(at);
    assert_int_equal(hex.len, v->n_cols * 8);
    for (size_t i = 0; i < v->n_cols; i++) {
        uint32_t bits = 0;
        for (size_t j = 0; j < 8; j++) bits = bits << 4 | hex_digit(hex.ptr[8 * i + j]);
        memcpy(&v->values[i], &bits, sizeof bits);
    }
    return true;
}

static void free_vector(vector *v)
{
    for (size_t i = 0; i < TENSOR_PLANES; i++) {
        if (v->planes[i] != NULL) test_free(v->planes[i]);
    }
}

static char *read_vectors(size_t *n_bytes)
{
    char *text;
    weft_error err = {0};
    assert_ok(io_read_file(io_system(), mem_system(), WEFT_SOURCE_DIR "/tests/tensor/encodings.txt",
                           1 << 20, &text, n_bytes, &err),
              &err);
    return text;
}

/* The row of a vector cut into n_rows rows. */
static tensor bind_plain(const vector *v, const encoding *e, uint64_t n_rows)
{
    weft_error err = {0};
    tensor t = {.name = "w",
                .encoding = e,
                .n_dims = 2,
                .dims = {n_rows, v->n_cols / n_rows},
                .planes = {v->planes[0]},
                .plane_bytes = {v->plane_bytes[0]}};
    assert_ok(tensor_bind(&t, &err), &err);
    return t;
}

static tensor bind_param(const vector *v, size_t plane, const encoding *e)
{
    weft_error err = {0};
    tensor t = {.name = plane == 1 ? "w.scales" : "w.biases",
                .encoding = e,
                .n_dims = 1,
                .dims = {v->plane_bytes[plane] / e->block_bytes},
                .planes = {v->planes[plane]},
                .plane_bytes = {v->plane_bytes[plane]}};
    assert_ok(tensor_bind(&t, &err), &err);
    return t;
}

/* A plane as numbers that no encoding decodes. */
static tensor raw_tensor(const vector *v, size_t plane, const char *type, uint16_t bytes)
{
    weft_error err = {0};
    tensor t = {.name = plane == 0 ? "w.weight" : "w.scales",
                .raw_type = type,
                .raw_cols = 1,
                .raw_bytes = bytes,
                .n_dims = 1,
                .dims = {v->plane_bytes[plane] / bytes},
                .planes = {v->planes[plane]},
                .plane_bytes = {v->plane_bytes[plane]}};
    assert_ok(tensor_bind(&t, &err), &err);
    return t;
}

static tensor words_tensor(const vector *v)
{
    return raw_tensor(v, 0, "U32", 4);
}

/* In words and in bytes, which is the same. */
static tensor bind_planes(const vector *v, const encoding *e)
{
    weft_error err = {0};
    float factor = 0.0F;
    if (v->planes[2] != NULL) memcpy(&factor, v->planes[2], sizeof factor);
    tensor scales = raw_tensor(v, 1, "U8", 1);
    tensor t = words_tensor(v);
    tensor bytes = raw_tensor(v, 0, "U8", 1);
    assert_ok(tensor_bind_planes(&t, &scales, e, factor, &err), &err);
    assert_ok(tensor_bind_planes(&bytes, &scales, e, factor, &err), &err);
    assert_int_equal(t.n_cols, bytes.n_cols);
    assert_int_equal(t.group, v->group);
    return t;
}

static tensor bind_vector(const vector *v)
{
    weft_error err = {0};
    size_t count;
    const encoding *const *table = encoding_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i]->name, v->name) != 0) continue;
        return table[i]->plane_bits != 0 ? bind_planes(v, table[i]) : bind_plain(v, table[i], 1);
    }
    assert_true(strncmp(v->name, "affine_", 7) == 0);
    const encoding *type = NULL;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i]->name, v->name + 7) == 0) type = table[i];
    }
    assert_non_null(type);
    tensor t = words_tensor(v);
    tensor scales = bind_param(v, 1, type);
    tensor biases = bind_param(v, 2, type);
    assert_ok(tensor_bind_affine(&t, &scales, &biases, v->bits, v->group, &err), &err);
    assert_int_equal(t.param_type, type->id);
    return t;
}

static void test_vectors(void **state)
{
    (void)state;
    size_t n_bytes, count;
    char *text = read_vectors(&n_bytes);
    const encoding *const *table = encoding_table(&count);
    uint32_t seen[64] = {0};
    const char *at = text;
    vector v;
    while (next_vector(&at, &v)) {
        tensor t = bind_vector(&v);
        assert_int_equal(t.n_cols, v.n_cols);
        assert_true(t.encoding->id < 64);
        seen[t.encoding->id]++;
        float out[ROW_COLS + 2];
        out[0] = out[t.n_cols + 1] = 12345.0f;
        t.encoding->decode_row(&t, 0, out + 1);
        assert_floats_identical(out + 1, v.values, v.n_cols, t.group);
        assert_true(out[0] == 12345.0f && out[t.n_cols + 1] == 12345.0f);
        free_vector(&v);
    }
    for (size_t i = 0; i < count; i++) {
        bool transposed = table[i] == &ENCODING_GPTQ || table[i] == &ENCODING_AWQ;
        if (seen[table[i]->id] == 0 && !transposed)
            fail_msg("encoding %s has no vector", table[i]->name);
    }
    assert_int_equal(seen[ENCODING_ID_AFFINE], 15);
    mem_free(mem_system(), text, n_bytes + 1);
}

/* The same bytes as several rows decode to the same numbers, as do views of some of the rows. */
static void test_rows(void **state)
{
    (void)state;
    size_t n_bytes;
    char *text = read_vectors(&n_bytes);
    const char *at = text;
    vector v;
    while (next_vector(&at, &v)) {
        tensor whole = bind_vector(&v);
        if (whole.encoding->block_cols != 0) {
            tensor t = bind_plain(&v, whole.encoding, 3);
            float out[ROW_COLS];
            tensor_decode(&t, out);
            assert_floats_identical(out, v.values, v.n_cols, t.n_cols);
            tensor part = tensor_rows(&t, 1, 2);
            assert_int_equal(part.plane_bytes[0], v.plane_bytes[0] / 3 * 2);
            tensor_decode(&part, out);
            assert_floats_identical(out, v.values + t.n_cols, 2 * t.n_cols, t.n_cols);
        }
        free_vector(&v);
    }
    mem_free(mem_system(), text, n_bytes + 1);
}

/* Three rows from one affine row thrice, with other parameters in the middle. */
static void test_affine_rows(void **state)
{
    (void)state;
    weft_error err = {0};
    unsigned char codes[3][24]; /* 64 codes of 3 bits */
    for (size_t i = 0; i < sizeof codes; i++) codes[i / 24][i % 24] = (unsigned char)(i * 37 + 11);
    float scales[3][2] = {{1, 2}, {0.5f, -1}, {3, 4}};
    float biases[3][2] = {{0, 1}, {-7, 2}, {5, 6}};
    tensor t = {.name = "w",
                .raw_type = "U32",
                .raw_cols = 1,
                .raw_bytes = 4,
                .n_dims = 3,
                .dims = {3, 1, 6},
                .planes = {codes[0]},
                .plane_bytes = {sizeof codes}};
    tensor s = {.name = "s",
                .encoding = &ENCODING_F32,
                .n_dims = 3,
                .dims = {3, 1, 2},
                .planes = {(unsigned char *)scales},
                .plane_bytes = {sizeof scales}};
    tensor b = s;
    b.planes[0] = (unsigned char *)biases;
    assert_ok(tensor_bind(&t, &err), &err);
    assert_ok(tensor_bind(&s, &err), &err);
    assert_ok(tensor_bind(&b, &err), &err);
    assert_ok(tensor_bind_affine(&t, &s, &b, 3, 32, &err), &err);
    assert_int_equal(t.n_rows, 3);
    assert_int_equal(t.n_cols, 64);
    assert_int_equal(t.dims[2], 64);
    float expected[3 * 64], out[3 * 64];
    for (uint32_t i = 0; i < 3 * 64; i++) {
        uint32_t row = i / 64, bit = i % 64 * 3, code = 0;
        for (uint32_t k = 0; k < 3; k++)
            code |= ((uint32_t)codes[row][(bit + k) / 8] >> (bit + k) % 8 & 1u) << k;
        expected[i] = (float)code * scales[row][i % 64 / 32] + biases[row][i % 64 / 32];
    }
    tensor_decode(&t, out);
    assert_floats_identical(out, expected, 3 * 64, 64);
    tensor part = tensor_rows(&t, 2, 1);
    tensor_decode(&part, out);
    assert_floats_identical(out, expected + 2 * 64, 64, 64);
    assert_int_equal(part.plane_bytes[1], 8);
    char label[32];
    encoding_label(&t, label, sizeof label);
    assert_string_equal(label, "affine3g32");
}

/* Every byte as a code beside every byte as a scale. */
static void total_planes(const encoding *e)
{
    unsigned char codes[64], scale[2];
    float out[128];
    tensor t = {.name = "w", .encoding = e, .n_rows = 1, .n_cols = (uint64_t)e->plane_group * 2};
    t.planes[0] = codes;
    t.planes[1] = scale;
    for (uint32_t s = 0; s < 256; s++) {
        for (uint32_t first = 0; first < 256; first += sizeof codes) {
            for (uint32_t i = 0; i < sizeof codes; i++) codes[i] = (unsigned char)(first + i);
            scale[0] = (unsigned char)s;
            scale[1] = (unsigned char)~s;
            tensor_decode(&t, out);
        }
    }
}

/* Random bytes are a valid row of every encoding: nothing is read or written outside. */
static void test_total_decode(void **state)
{
    (void)state;
    size_t count;
    const encoding *const *table = encoding_table(&count);
    uint32_t random = 1;
    for (size_t i = 0; i < count; i++) {
        const encoding *e = table[i];
        if (e->plane_bits != 0) total_planes(e);
        if (e->block_cols == 0) continue;
        uint64_t bytes, n_cols = e->block_cols * 2u;
        assert_ok(encoding_row_bytes(e, n_cols, &bytes, NULL), NULL);
        for (int round = 0; round < 200; round++) {
            unsigned char *row = test_malloc((size_t)bytes);
            float *out = test_malloc((size_t)n_cols * sizeof *out);
            for (uint64_t j = 0; j < bytes; j++) {
                random = random * 1664525u + 1013904223u;
                row[j] = (unsigned char)(random >> 24);
            }
            tensor t = {.name = "w",
                        .encoding = e,
                        .n_dims = 1,
                        .dims = {n_cols},
                        .planes = {row},
                        .plane_bytes = {bytes}};
            assert_ok(tensor_bind(&t, NULL), NULL);
            tensor_decode(&t, out);
            test_free(row);
            test_free(out);
        }
    }
}

static void test_table(void **state)
{
    (void)state;
    size_t count;
    const encoding *const *table = encoding_table(&count);
    assert_int_equal(count, 33);
    for (size_t i = 0; i < count; i++) {
        const encoding *e = table[i];
        assert_ptr_equal(encoding_by_id(e->id), e);
        if (e->gguf_type != GGUF_TYPE_NONE) {
            uint16_t cols, bytes;
            assert_ptr_equal(encoding_by_gguf((uint32_t)e->gguf_type), e);
            assert_string_equal(encoding_gguf_name((uint32_t)e->gguf_type), e->name);
            assert_true(encoding_gguf_block((uint32_t)e->gguf_type, &cols, &bytes));
            assert_int_equal(cols, e->block_cols);
            assert_int_equal(bytes, e->block_bytes);
        }
        if (e->safetensors != NULL) assert_ptr_equal(encoding_by_safetensors(e->safetensors), e);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(table[j]->name, e->name);
    }
    assert_null(encoding_by_id(ENCODING_ID_NONE));
    assert_null(encoding_by_gguf(4));
    assert_null(encoding_by_gguf(UINT32_MAX));
    assert_null(encoding_by_safetensors("U32"));
    assert_string_equal(encoding_gguf_name(16), "iq2_xxs");
    assert_null(encoding_gguf_name(5));
    uint16_t cols, bytes;
    assert_true(encoding_gguf_block(16, &cols, &bytes));
    assert_int_equal(bytes, 66);
    assert_false(encoding_gguf_block(99, &cols, &bytes));
}

static void test_bind_refusals(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_dims;
        uint64_t dims[4];
        uint64_t bytes;
        const char *message;
    } cases[] = {
        {2, {1000, 32}, 4, "it has 4 bytes, its shape and type need 18000"},
        {2, {1000, 32}, 18001, "it has 18001 bytes, its shape and type need 18000"},
        {1, {0}, 0, "dimension 0 of 1 is 0"},
        {3, {2, 0, 32}, 0, "dimension 1 of 3 is 0"},
        {1, {33}, 18, "rows of 33 columns are not whole blocks of 32 of q4_0"},
        {3, {1ull << 32, 1ull << 32, 32}, 18, "overflow"},
        {2, {1ull << 60, 32}, 18, "overflow"},
        {1, {1ull << 63}, 18, "overflow"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_error err = {0};
        unsigned char data[18] = {0};
        tensor t = {.name = "w",
                    .encoding = &ENCODING_Q4_0,
                    .n_dims = cases[i].n_dims,
                    .planes = {data},
                    .plane_bytes = {cases[i].bytes}};
        memcpy(t.dims, cases[i].dims, sizeof t.dims);
        assert_status(WEFT_FORMAT, tensor_bind(&t, &err), &err);
        assert_message(&err, cases[i].message);
    }
}

/* What the config says of codes [2, 8], and scales and biases of what type and shape. */
typedef struct affine_case {
    uint32_t bits, group;
    const char *raw_type;
    const encoding *scale_type, *bias_type;
    uint64_t scales[2], biases[2]; /* rows, columns */
    weft_status status;
    const char *message;
} affine_case;

// clang-format off
static const affine_case AFFINE_CASES[] = {
    {4, 64, "U32", &ENCODING_BF16, &ENCODING_BF16, {2, 1}, {2, 1}, WEFT_OK, ""},
    {7, 64, "U32", &ENCODING_BF16, &ENCODING_BF16, {2, 1}, {2, 1}, WEFT_UNSUPPORTED,
     "'w' has 7 bits in groups of 64"},
    {4, 16, "U32", &ENCODING_BF16, &ENCODING_BF16, {2, 1}, {2, 1}, WEFT_UNSUPPORTED,
     "'w' has 4 bits in groups of 16"},
    {0, 0, "U32", &ENCODING_BF16, &ENCODING_BF16, {2, 1}, {2, 1}, WEFT_UNSUPPORTED,
     "'w' has 0 bits in groups of 0"},
    {4, 64, "I32", &ENCODING_BF16, &ENCODING_BF16, {2, 1}, {2, 1}, WEFT_FORMAT,
     "'w' is i32, quantized codes are U32"},
    {8, 64, "U32", &ENCODING_BF16, &ENCODING_BF16, {2, 1}, {2, 1}, WEFT_FORMAT,
     "'w' has 8 words a row and 1 scales: that is not 8 bits in groups of 64"},
    {4, 32, "U32", &ENCODING_BF16, &ENCODING_BF16, {2, 1}, {2, 1}, WEFT_FORMAT,
     "that is not 4 bits in groups of 32"},
    {4, 64, "U32", &ENCODING_BF16, &ENCODING_F16, {2, 1}, {2, 1}, WEFT_FORMAT,
     "'s' has 1 columns of bf16, 'b' 1 of f16"},
    {4, 64, "U32", &ENCODING_BF16, &ENCODING_BF16, {2, 1}, {2, 2}, WEFT_FORMAT,
     "'s' has 1 columns of bf16, 'b' 2 of bf16"},
    {4, 64, "U32", &ENCODING_BF16, &ENCODING_BF16, {3, 1}, {2, 1}, WEFT_FORMAT,
     "'s' has 3 rows in 2 dimensions, the codes 'w' 2 in 2"},
    {4, 64, "U32", &ENCODING_Q4_0, &ENCODING_BF16, {2, 32}, {2, 1}, WEFT_UNSUPPORTED,
     "'s' is q4_0, expected f32, f16 or bf16"},
};
// clang-format on

static void test_affine_refusals(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"w", "s", "b"};
    static const uint64_t WORDS[] = {2, 8};
    static unsigned char data[4096];
    for (size_t i = 0; i < sizeof AFFINE_CASES / sizeof *AFFINE_CASES; i++) {
        const affine_case *c = &AFFINE_CASES[i];
        weft_error err = {0};
        const uint64_t *shapes[] = {WORDS, c->scales, c->biases};
        const encoding *types[] = {NULL, c->scale_type, c->bias_type};
        tensor t[3];
        memset(t, 0, sizeof t);
        for (size_t j = 0; j < 3; j++) {
            t[j].name = NAMES[j];
            t[j].encoding = types[j];
            t[j].raw_type = c->raw_type;
            t[j].raw_cols = 1;
            t[j].raw_bytes = 4;
            t[j].n_dims = 2;
            memcpy(t[j].dims, shapes[j], 2 * sizeof *shapes[j]);
            t[j].planes[0] = data;
            assert_ok(tensor_measure(&t[j], &t[j].plane_bytes[0], &err), &err);
        }
        tensor before;
        memcpy(&before, &t[0], sizeof before);
        weft_status status = tensor_bind_affine(&t[0], &t[1], &t[2], c->bits, c->group, &err);
        assert_status(c->status, status, &err);
        if (status == WEFT_OK) continue;
        assert_message(&err, c->message);
        assert_memory_equal(&before, &t[0], sizeof before);
    }
}

/* Numbers [4, 5] with the scales of a case, and what scale each number gets. */
typedef struct scale_case {
    uint32_t block_rows, block_cols;
    uint64_t dims[2];
    const uint8_t which[20];
    const char *message; /* NULL: they fit */
} scale_case;

// clang-format off
static const scale_case SCALE_CASES[] = {
    {0, 0, {1, 1}, {0}, NULL},
    {2, 3, {1, 1}, {0}, NULL},
    {0, 0, {4, 1}, {0,0,0,0,0, 1,1,1,1,1, 2,2,2,2,2, 3,3,3,3,3}, NULL},
    {0, 0, {1, 4}, {0,0,0,0,0, 1,1,1,1,1, 2,2,2,2,2, 3,3,3,3,3}, NULL},
    {3, 2, {2, 3}, {0,0,1,1,2, 0,0,1,1,2, 0,0,1,1,2, 3,3,4,4,5}, NULL},
    {128, 4, {1, 2}, {0,0,0,0,1, 0,0,0,0,1, 0,0,0,0,1, 0,0,0,0,1}, NULL},
    {0, 0, {2, 3}, {0}, "'s' is [2, 3] for 'w' [4, 5] in blocks of [0, 0]"},
    {2, 2, {2, 2}, {0}, "'s' is [2, 2] for 'w' [4, 5] in blocks of [2, 2]"},
    {2, 2, {4, 1}, {0}, "'s' is [4, 1] for 'w' [4, 5] in blocks of [2, 2]"},
};
// clang-format on

static void test_scales(void **state)
{
    (void)state;
    static const float SCALES[] = {0.5F, -3.0F, 7.0F, 1.25F, 0.1F, 11.0F};
    static unsigned char codes[20];
    for (uint32_t i = 0; i < sizeof codes; i++) codes[i] = (unsigned char)(i * 11 + 3);
    for (size_t i = 0; i < sizeof SCALE_CASES / sizeof *SCALE_CASES; i++) {
        const scale_case *c = &SCALE_CASES[i];
        weft_error err = {0};
        tensor t = {.name = "w", .encoding = &ENCODING_F8_E4M3, .n_dims = 2, .dims = {4, 5}};
        tensor s = {.name = "s", .encoding = &ENCODING_F32, .n_dims = 2};
        memcpy(s.dims, c->dims, sizeof c->dims);
        t.planes[0] = codes;
        s.planes[0] = (const unsigned char *)SCALES;
        assert_ok(tensor_measure(&t, &t.plane_bytes[0], &err), &err);
        assert_ok(tensor_measure(&s, &s.plane_bytes[0], &err), &err);
        float expected[20], out[20];
        tensor_decode(&t, expected);
        weft_status status = tensor_bind_scales(&t, &s, c->block_rows, c->block_cols, &err);
        assert_status(c->message == NULL ? WEFT_OK : WEFT_FORMAT, status, &err);
        if (c->message != NULL) {
            assert_message(&err, c->message);
            continue;
        }
        for (uint32_t j = 0; j < 20; j++) expected[j] *= SCALES[c->which[j]];
        tensor_decode(&t, out);
        assert_floats_identical(out, expected, 20, 5);
        tensor part = tensor_rows(&t, 1, 3);
        part = tensor_rows(&part, 1, 2);
        tensor_decode(&part, out);
        assert_floats_identical(out, expected + 10, 10, 5);
        if (t.scale_rows == 0) continue;
        /* Of the scales it has those of its rows, 2 and 3. */
        uint64_t group = t.group == 0 ? 5 : t.group;
        uint64_t n_lines = 3 / t.scale_rows - 2 / t.scale_rows + 1;
        assert_int_equal(part.plane_bytes[1], n_lines * ((4 + group) / group) * sizeof(float));
    }
}

/* Codes and scales of what type and shape. */
typedef struct planes_case {
    const encoding *e;
    const char *code_type, *scale_type;
    uint64_t codes[3], scales[3]; /* 0: one dimension less */
    weft_status status;
    const char *message;
} planes_case;

// clang-format off
static const planes_case PLANES_CASES[] = {
    {&ENCODING_MXFP4_PLANES, "U32", "U8", {2, 8}, {2, 2}, WEFT_OK, ""},
    {&ENCODING_MXFP4_PLANES, "U8", "U8", {2, 32}, {2, 2}, WEFT_OK, ""},
    {&ENCODING_MXFP4_PLANES, "U8", "F8_E8M0", {2, 2, 16}, {2, 2}, WEFT_OK, ""},
    {&ENCODING_NVFP4_PLANES, "U8", "F8_E4M3", {2, 32}, {2, 4}, WEFT_OK, ""},
    {&ENCODING_MXFP8_PLANES, "U32", "U8", {2, 16}, {2, 2}, WEFT_OK, ""},
    {&ENCODING_MXFP8_PLANES, "F8_E4M3", "U8", {2, 64}, {2, 2}, WEFT_OK, ""},
    {&ENCODING_MXFP4_PLANES, "I32", "U8", {2, 8}, {2, 2}, WEFT_UNSUPPORTED,
     "'w' is i32, codes of mxfp4_planes are U8 or U32"},
    {&ENCODING_MXFP4_PLANES, "F8_E4M3", "U8", {2, 32}, {2, 2}, WEFT_UNSUPPORTED,
     "'w' is f8_e4m3, codes of mxfp4_planes are U8 or U32"},
    {&ENCODING_NVFP4_PLANES, "U8", "F8_E8M0", {2, 32}, {2, 4}, WEFT_UNSUPPORTED,
     "'s' is f8_e8m0, scales of nvfp4_planes are U8 or F8_E4M3"},
    {&ENCODING_MXFP4_PLANES, "U32", "U8", {2, 8}, {2, 4}, WEFT_FORMAT,
     "'w' has 2 rows of 32 bytes, 's' 2 of 4 scales: that is not mxfp4_planes"},
    {&ENCODING_MXFP4_PLANES, "U32", "U8", {2, 8}, {3, 2}, WEFT_FORMAT, "'s' 3 of 2 scales"},
    {&ENCODING_MXFP4_PLANES, "U8", "U8", {2, 2, 8}, {2, 2}, WEFT_FORMAT, "4 rows of 8 bytes"},
    {&ENCODING_MXFP4_PLANES, "U8", "U8", {2, 4, 16}, {4, 2, 1}, WEFT_FORMAT, "that is not"},
};
// clang-format on

static tensor raw_case(const char *name, const char *type, const uint64_t dims[3])
{
    static unsigned char data[4096];
    weft_error err = {0};
    tensor t = {.name = name, .raw_type = type, .raw_cols = 1, .planes = {data}};
    t.raw_bytes = strcmp(type, "U32") == 0 || strcmp(type, "I32") == 0 ? 4 : 1;
    t.n_dims = dims[2] == 0 ? 2 : 3;
    memcpy(t.dims, dims, 3 * sizeof *dims);
    assert_ok(tensor_measure(&t, &t.plane_bytes[0], &err), &err);
    return t;
}

static void test_planes_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof PLANES_CASES / sizeof *PLANES_CASES; i++) {
        const planes_case *c = &PLANES_CASES[i];
        weft_error err = {0};
        tensor t = raw_case("w", c->code_type, c->codes);
        tensor s = raw_case("s", c->scale_type, c->scales);
        tensor before;
        memcpy(&before, &t, sizeof before);
        weft_status status = tensor_bind_planes(&t, &s, c->e, 0.0F, &err);
        assert_status(c->status, status, &err);
        if (status == WEFT_OK) {
            assert_int_equal(t.n_dims, 2);
            assert_int_equal(t.dims[0], 2);
            assert_int_equal(t.n_rows, 2);
            assert_int_equal(t.n_cols, 64);
            assert_int_equal(t.row_bytes[0], c->e->plane_bits * 8);
            continue;
        }
        assert_message(&err, c->message);
        assert_memory_equal(&before, &t, sizeof before);
    }
}

/* Codes and zeros of 64 columns in two groups and 16 rows, packed as AutoGPTQ and AutoAWQ do. */
enum { T_COLS = 64, T_ROWS = 16, T_GROUP = 32 };

typedef struct transposed {
    uint32_t codes[T_COLS][T_ROWS], zeros[T_COLS / T_GROUP][T_ROWS];
    float scales[T_COLS / T_GROUP][T_ROWS];
    uint32_t packed_codes[T_COLS * T_ROWS], packed_zeros[T_COLS * T_ROWS];
    tensor t, s, z;
} transposed;

static tensor matrix_tensor(const char *name, const char *raw, const void *data, uint64_t rows,
                            uint64_t cols)
{
    weft_error err = {0};
    tensor t = {.name = name, .n_dims = 2, .dims = {rows, cols}, .planes = {data}};
    if (raw == NULL) t.encoding = &ENCODING_F32;
    t.raw_type = raw;
    t.raw_cols = 1;
    t.raw_bytes = 4;
    assert_ok(tensor_measure(&t, &t.plane_bytes[0], &err), &err);
    return t;
}

static void make_transposed(transposed *m, const encoding *e, uint32_t bits)
{
    static const uint32_t AWQ_ORDER[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    uint32_t per = 32 / bits;
    memset(m, 0, sizeof *m);
    for (uint32_t k = 0; k < T_COLS; k++) {
        uint32_t g = k / T_GROUP;
        for (uint32_t o = 0; o < T_ROWS; o++) {
            m->codes[k][o] = (k * 7 + o * 13 + k * o) % (1u << bits);
            m->zeros[g][o] = (g * 5 + o * 3) % (1u << bits);
            m->scales[g][o] = 0.25f * (float)(o + 1) - (float)g;
        }
    }
    bool gptq = e == &ENCODING_GPTQ;
    for (uint32_t k = 0; k < T_COLS; k++) {
        for (uint32_t o = 0; o < T_ROWS; o++) {
            uint32_t wide = o / per * per + AWQ_ORDER[o % per % 8];
            if (gptq) {
                m->packed_codes[k / per * T_ROWS + o] |= m->codes[k][o] << k % per * bits;
            } else {
                m->packed_codes[(k * T_ROWS + o) / per] |= m->codes[k][wide] << o % per * bits;
            }
            if (k >= T_COLS / T_GROUP) continue;
            m->packed_zeros[(k * T_ROWS + o) / per] |= m->zeros[k][gptq ? o : wide]
                                                       << o % per * bits;
        }
    }
    uint64_t rows = gptq ? T_COLS / per : T_COLS;
    m->t = matrix_tensor("w", "I32", m->packed_codes, rows, gptq ? T_ROWS : T_ROWS / per);
    m->s = matrix_tensor("s", NULL, m->scales, T_COLS / T_GROUP, T_ROWS);
    m->z = matrix_tensor("z", "I32", m->packed_zeros, T_COLS / T_GROUP, T_ROWS / per);
}

static void test_transposed(void **state)
{
    (void)state;
    static const uint32_t BITS[] = {4, 8, 2, 4};
    for (size_t i = 0; i < 4; i++) {
        const encoding *e = i == 3 ? &ENCODING_AWQ : &ENCODING_GPTQ;
        weft_error err = {0};
        transposed m;
        make_transposed(&m, e, BITS[i]);
        assert_ok(tensor_bind_transposed(&m.t, &m.s, &m.z, e, BITS[i], &err), &err);
        assert_int_equal(m.t.n_rows, T_ROWS);
        assert_int_equal(m.t.n_cols, T_COLS);
        assert_int_equal(m.t.group, T_GROUP);
        float expected[T_ROWS * T_COLS], out[T_ROWS * T_COLS];
        for (uint32_t j = 0; j < T_ROWS * T_COLS; j++) {
            uint32_t o = j / T_COLS, k = j % T_COLS, g = k / T_GROUP;
            int32_t zero = (int32_t)m.zeros[g][o] + (e == &ENCODING_GPTQ);
            expected[j] = (float)((int32_t)m.codes[k][o] - zero) * m.scales[g][o];
        }
        tensor_decode(&m.t, out);
        assert_floats_identical(out, expected, T_ROWS * T_COLS, T_COLS);
        tensor part = tensor_rows(&m.t, 5, 9);
        tensor_decode(&part, out);
        assert_floats_identical(out, expected + 5 * T_COLS, 9 * T_COLS, T_COLS);
        assert_int_equal(tensor_plane_reach(&part, 0), m.t.plane_bytes[0]);
        char label[32];
        encoding_label(&m.t, label, sizeof label);
        assert_string_equal(label, i == 3 ? "awq4g32" : i == 0 ? "gptq4g32" : label);
    }
}

static void test_transposed_refusals(void **state)
{
    (void)state;
    transposed m;
    weft_error err = {0};
    make_transposed(&m, &ENCODING_GPTQ, 4);
    tensor t = m.t;
    assert_status(WEFT_UNSUPPORTED, tensor_bind_transposed(&t, &m.s, &m.z, &ENCODING_GPTQ, 3, &err),
                  &err);
    assert_message(&err, "'w' has codes of 3 bits");
    err = (weft_error){0};
    assert_status(WEFT_FORMAT, tensor_bind_transposed(&t, &m.s, &m.z, &ENCODING_GPTQ, 8, &err),
                  &err);
    assert_message(&err, "'w' [8, 16], scales [2, 16] and zeros [2, 2] are not gptq of 8 bits");
    err = (weft_error){0};
    assert_status(WEFT_FORMAT, tensor_bind_transposed(&t, &m.s, &m.z, &ENCODING_AWQ, 4, &err),
                  &err);
    assert_message(&err, "are not awq of 4 bits");
    err = (weft_error){0};
    assert_status(WEFT_UNSUPPORTED, tensor_bind_transposed(&t, &m.z, &m.z, &ENCODING_GPTQ, 4, &err),
                  &err);
    assert_message(&err, "'z' is i32, expected f32, f16 or bf16");
    err = (weft_error){0};
    assert_status(WEFT_UNSUPPORTED, tensor_bind_transposed(&t, &m.s, &m.s, &ENCODING_GPTQ, 4, &err),
                  &err);
    assert_message(&err, "'s' is f32 in 2 dimensions, gptq is I32 in 2");
    assert_memory_equal(&t, &m.t, sizeof t);
}

/* Every other row of planes of any kind, and every third of what has one plane. */
static void test_every(void **state)
{
    (void)state;
    static float values[7 * 4];
    static unsigned char codes[6][32];
    static unsigned char scales[6][2];
    float out[3 * 64];
    float expected[6 * 64];
    weft_error err = {0};
    tensor part;
    for (uint32_t i = 0; i < 28; i++) values[i] = (float)i;
    tensor t = matrix_tensor("w", NULL, values, 7, 4);
    assert_ok(tensor_every(&t, 1, 3, 2, &part, &err), &err);
    assert_true(part.n_rows == 2 && part.dims[0] == 2 && part.n_cols == 4);
    assert_int_equal(part.plane_bytes[0], 2 * 4 * sizeof(float));
    tensor_decode(&part, out);
    assert_floats_identical(out, values + 4, 4, 4);
    assert_floats_identical(out + 4, values + 16, 4, 4);
    for (uint32_t i = 0; i < sizeof codes; i++) codes[i / 32][i % 32] = (unsigned char)(i * 37);
    for (uint32_t i = 0; i < 12; i++) scales[i / 2][i % 2] = (unsigned char)(120 + i);
    t = raw_case("w", "U8", (const uint64_t[]){6, 32, 0});
    tensor s = raw_case("s", "U8", (const uint64_t[]){6, 2, 0});
    t.planes[0] = codes[0];
    s.planes[0] = scales[0];
    assert_ok(tensor_bind_planes(&t, &s, &ENCODING_MXFP4_PLANES, 0.0F, &err), &err);
    tensor_decode(&t, expected);
    for (uint64_t first = 0; first < 2; first++) {
        assert_ok(tensor_every(&t, first, 2, 3, &part, &err), &err);
        assert_int_equal(part.plane_bytes[1], 6);
        tensor_decode(&part, out);
        for (uint32_t r = 0; r < 3; r++)
            assert_floats_identical(out + 64 * r, expected + 64 * (2 * r + first), 64, 64);
    }
    /* Planes that are not by rows have no such rows; one after the other they do. */
    transposed m;
    make_transposed(&m, &ENCODING_GPTQ, 4);
    assert_ok(tensor_bind_transposed(&m.t, &m.s, &m.z, &ENCODING_GPTQ, 4, &err), &err);
    assert_ok(tensor_every(&m.t, 3, 1, 5, &part, &err), &err);
    assert_int_equal(part.plane_bytes[1], m.t.plane_bytes[1]);
    assert_status(WEFT_UNSUPPORTED, tensor_every(&m.t, 0, 2, 5, &part, &err), &err);
    assert_message(&err, "'w' is gptq4g32, of which every 2 rows cannot be taken");
}

/* Numbers by steps, in every plain type, at an odd address. */
static void test_pick(void **state)
{
    (void)state;
    static const encoding *const TYPES[] = {&ENCODING_F32, &ENCODING_F16, &ENCODING_BF16};
    for (size_t k = 0; k < 3; k++) {
        unsigned char bytes[4 * 60 + 1];
        weft_error err = {0};
        size_t size = TYPES[k]->block_bytes;
        for (uint32_t i = 0; i < 60; i++) {
            float value = (float)i;
            uint16_t half = k == 1 ? fp_to_f16(value) : fp_to_bf16(value);
            memcpy(bytes + 1 + i * size, k == 0 ? (const void *)&value : (const void *)&half, size);
        }
        tensor t = {.name = "w", .n_dims = 2, .dims = {5, 12}, .encoding = TYPES[k]};
        t.planes[0] = bytes + 1;
        assert_ok(tensor_measure(&t, &t.plane_bytes[0], &err), &err);
        assert_true(tensor_is_plain(&t));
        /* The odd columns, each a row. */
        tensor part = tensor_pick(&t, (tensor_grid){1, 6, 2, 5, 12});
        assert_true(part.n_rows == 6 && part.n_cols == 5 && part.dims[0] == 6 && part.dims[1] == 5);
        assert_int_equal(part.plane_bytes[0], 30 * size);
        float out[30];
        tensor_decode(&part, out);
        for (uint32_t i = 0; i < 30; i++)
            assert_true(out[i] == (float)(1 + i / 5 * 2 + i % 5 * 12));
        /* Side by side is what it was. */
        part = tensor_pick(&t, (tensor_grid){14, 2, 12, 7, 1});
        assert_true(part.col_bytes == 0 && part.row_bytes[0] == 12 * size);
        tensor_decode(&part, out);
        for (uint32_t i = 0; i < 14; i++) assert_true(out[i] == (float)(14 + i / 7 * 12 + i % 7));
    }
    tensor none = {.name = "w"};
    assert_false(tensor_is_plain(&none));
    none.encoding = &ENCODING_Q8_0;
    assert_false(tensor_is_plain(&none));
}

static void test_label(void **state)
{
    (void)state;
    char label[8];
    tensor t = {.name = "w", .encoding = &ENCODING_BF16};
    encoding_label(&t, label, sizeof label);
    assert_string_equal(label, "bf16");
    t = (tensor){.name = "w", .raw_type = "F8_E4M3"};
    encoding_label(&t, label, sizeof label);
    assert_string_equal(label, "f8_e4m3");
    encoding_label(&t, label, 4);
    assert_string_equal(label, "f8_");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_affine_rows),
        cmocka_unit_test(test_total_decode),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_bind_refusals),
        cmocka_unit_test(test_affine_refusals),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_planes_refusals),
        cmocka_unit_test(test_transposed),
        cmocka_unit_test(test_transposed_refusals),
        cmocka_unit_test(test_every),
        cmocka_unit_test(test_pick),
        cmocka_unit_test(test_label),
    };
    return TEST_RUN("tensor/encoding", tests);
}
