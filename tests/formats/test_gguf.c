/* test_gguf.c - GGUF files: what opens, and every way in which one may be broken. */
#include "formats/weights.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/compare.h"
#include "support/fault.h"
#include "support/files.h"

enum { F32 = 0, Q4_0 = 2, Q5_1 = 7, Q8_K = 15, I32 = 26 };

static const uint64_t DIMS_2_3[] = {2, 3};
static const float VALUES[] = {1, -2, 3.5f, 0, 1e-9f, -7};

static weft_status open_path(const char *path, weights **w, weft_error *err)
{
    env world = {mem_system(), io_system(), NULL};
    return weights_open(&world, path, w, err);
}

/* The file does not open, for the reason given, and nothing large is allocated on the way. */
static void refuse_bytes(const file_bytes *bytes, weft_status expected, const char *message)
{
    test_folder folder;
    weft_error err = {0};
    weights *w = (weights *)1;
    test_folder_create(&folder);
    const char *path = test_folder_write(&folder, "m.gguf", bytes->data, bytes->n_bytes);
    fault_allocator memory;
    fault_allocator_init(&memory, 0);
    env world = {&memory.allocator, io_system(), NULL};
    assert_status(expected, weights_open(&world, path, &w, &err), &err);
    assert_message(&err, message);
    assert_null(w);
    assert_true(memory.peak_bytes < 100000);
    fault_allocator_check(&memory);
    test_folder_remove(&folder);
}

static void refuse(const gguf_builder *b, weft_status expected, const char *message)
{
    file_bytes bytes;
    gguf_build(b, &bytes);
    refuse_bytes(&bytes, expected, message);
    file_bytes_free(&bytes);
}

static void test_opens(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        test_folder folder;
        weft_error err = {0};
        weights *w;
        gguf_builder b;
        test_folder_create(&folder);
        gguf_init(&b, version);
        gguf_add_text(&b, "general.architecture", "llama");
        gguf_add_u32(&b, "general.alignment", 64);
        gguf_add_u32(&b, "a.count", 7);
        gguf_add_tensor(&b, "w", F32, DIMS_2_3, 2, VALUES, sizeof VALUES);
        gguf_add_tensor(&b, "blocks", Q4_0, (const uint64_t[]){2, 1, 1, 64}, 4, NULL, 2 * 36);
        gguf_add_tensor(&b, "strange", Q8_K, (const uint64_t[]){256}, 1, NULL, 292);
        gguf_add_tensor(&b, "ids", I32, (const uint64_t[]){5}, 1, NULL, 20);
        gguf_add_entry(&b, "shared", F32, (const uint64_t[]){6}, 1, 0);
        const char *path = gguf_write(&b, &folder, "m.gguf");
        assert_ok(open_path(path, &w, &err), &err);
        assert_string_equal(w->format->name, "gguf");
        assert_null(w->config.root);
        assert_int_equal(w->n_tensors, 5);
        assert_int_equal(w->n_metadata, 3);

        const tensor *t = weights_find(w, "w");
        assert_int_equal(t->n_rows, 2);
        assert_int_equal(t->n_cols, 3);
        assert_int_equal((uintptr_t)t->planes[0] % 64, 0);
        float out[6];
        tensor_decode(t, out);
        assert_floats_identical(out, VALUES, 6, 3);
        assert_ptr_equal(weights_find(w, "shared")->planes[0], t->planes[0]);
        t = weights_find(w, "blocks");
        assert_ptr_equal(t->encoding, &ENCODING_Q4_0);
        assert_int_equal(t->n_dims, 4);
        assert_int_equal(t->dims[0], 2);
        assert_int_equal(t->dims[3], 64);
        assert_int_equal(t->row_bytes[0], 36);
        t = weights_find(w, "strange");
        assert_null(t->encoding);
        assert_string_equal(t->raw_type, "q8_k");
        assert_int_equal(t->plane_bytes[0], 292);
        assert_string_equal(weights_find(w, "ids")->raw_type, "i32");

        uint64_t number;
        str text;
        assert_true(gguf_u64(weights_metadata(w, "a.count"), &number));
        assert_int_equal(number, 7);
        assert_true(gguf_text(weights_metadata(w, "general.architecture"), &text));
        assert_true(str_equal_text(text, "llama"));
        assert_null(weights_metadata(w, "general"));
        assert_null(weights_metadata(w, "zzz"));
        weights_close(w);
        gguf_deinit(&b);
        test_folder_remove(&folder);
    }
}

/* Only a vocabulary: no tensors, no data, nothing behind the metadata. */
static void test_without_tensors(void **state)
{
    (void)state;
    test_folder folder;
    weft_error err = {0};
    weights *w;
    file_bytes bytes;
    gguf_builder b;
    test_folder_create(&folder);
    gguf_init(&b, 3);
    gguf_add_bool(&b, "a", true);
    gguf_build(&b, &bytes);
    const char *path = test_folder_write(&folder, "m.gguf", bytes.data, 24 + b.metadata.n_bytes);
    assert_ok(open_path(path, &w, &err), &err);
    assert_int_equal(w->n_tensors, 0);
    assert_null(weights_find(w, "w"));
    weights_close(w);
    file_bytes_free(&bytes);
    gguf_deinit(&b);
    test_folder_remove(&folder);
}

static void test_heads(void **state)
{
    (void)state;
    static const struct {
        uint32_t version;
        uint64_t n_tensors, n_pairs;
        weft_status status;
        const char *message;
    } cases[] = {
        {1, 0, 0, WEFT_UNSUPPORTED, "'m.gguf': it is GGUF version 1, expected 2 or 3"},
        {4, 0, 0, WEFT_UNSUPPORTED, "it is GGUF version 4, expected 2 or 3"},
        {0, 0, 0, WEFT_UNSUPPORTED, "it is GGUF version 0, expected 2 or 3"},
        {0x03000000, 0, 0, WEFT_UNSUPPORTED, "it is big-endian GGUF"},
        {3, 0, 1, WEFT_FORMAT, "it counts 1 keys, 8 bytes cannot hold them"},
        {3, 0, UINT64_MAX, WEFT_FORMAT, "it counts 18446744073709551615 keys"},
        {3, 1, 0, WEFT_FORMAT, "it counts 1 tensors, 8 bytes cannot hold them"},
        {3, 1ull << 63, 0, WEFT_FORMAT, "it counts 9223372036854775808 tensors"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_bytes bytes;
        gguf_builder b;
        gguf_init(&b, cases[i].version);
        b.n_tensors = cases[i].n_tensors;
        b.n_pairs = cases[i].n_pairs;
        gguf_build(&b, &bytes);
        refuse_bytes(&bytes, cases[i].status, cases[i].message);
        file_bytes_free(&bytes);
        gguf_deinit(&b);
    }
    file_bytes bytes = {0};
    file_bytes_add_text(&bytes, "GGU");
    refuse_bytes(&bytes, WEFT_FORMAT, "neither a folder");
    file_bytes_add_text(&bytes, "F\3");
    refuse_bytes(&bytes, WEFT_FORMAT, "the file ends at byte 5, within the version");
    bytes.data[0] = 'g';
    refuse_bytes(&bytes, WEFT_FORMAT, "neither a folder with safetensors files nor a GGUF file");
    file_bytes_free(&bytes);
}

/* Values of one key, each broken in one way. */
static void test_values(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        const char *value;
        size_t n_bytes;
        weft_status status;
        const char *message;
    } cases[] = {
        {13, "12345678", 8, WEFT_FORMAT, "key 'a.key': it has the unknown type 13"},
        {UINT32_MAX, "12345678", 8, WEFT_FORMAT, "it has the unknown type 4294967295"},
        {GGUF_BOOL, "\2", 1, WEFT_FORMAT, "it is the boolean 2"},
        {GGUF_TEXT, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, WEFT_FORMAT, "within a text"},
        {GGUF_ARRAY, "\x09\0\0\0\1\0\0\0\0\0\0\0", 12, WEFT_UNSUPPORTED, "array of arrays"},
        {GGUF_ARRAY, "\x0d\0\0\0\1\0\0\0\0\0\0\0", 12, WEFT_FORMAT,
         "its elements have the unknown type 13"},
        {GGUF_ARRAY, "\x04\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 12, WEFT_FORMAT,
         "it has 18446744073709551615 elements"},
        {GGUF_ARRAY, "\x0a\0\0\0\0\0\0\0\0\0\0\x20", 12, WEFT_FORMAT,
         "it has 2305843009213693952 elements"},
        {GGUF_ARRAY, "\x08\0\0\0\1\0\0\0\0\0\0\0\x80\0\0\0\0\0\0\0", 20, WEFT_FORMAT,
         "within a text"},
        {GGUF_ARRAY, "\x07\0\0\0\2\0\0\0\0\0\0\0\1\3", 14, WEFT_FORMAT,
         "it holds a boolean other than 0 and 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_builder b;
        gguf_init(&b, 3);
        gguf_add_raw(&b, "a.key", cases[i].type, cases[i].value, cases[i].n_bytes);
        refuse(&b, cases[i].status, cases[i].message);
        gguf_deinit(&b);
    }
}

static void test_keys(void **state)
{
    (void)state;
    gguf_builder b;
    gguf_init(&b, 3);
    gguf_add_u32(&b, "twice", 1);
    gguf_add_u32(&b, "other", 1);
    gguf_add_bool(&b, "twice", true);
    refuse(&b, WEFT_FORMAT, "key 'twice': it occurs twice");
    gguf_deinit(&b);

    static const char *const BAD[] = {"", "\xff", "a\xc3"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        gguf_init(&b, 3);
        gguf_add_u64(&b, BAD[i], 1);
        refuse(&b, WEFT_FORMAT, i == 0 ? "a key has 0 bytes" : "a key is not UTF-8 without NUL");
        gguf_deinit(&b);
    }
    char name[WEIGHTS_NAME_BYTES + 2];
    memset(name, 'k', sizeof name);
    name[sizeof name - 1] = '\0';
    gguf_init(&b, 3);
    gguf_add_u64(&b, name, 1);
    refuse(&b, WEFT_FORMAT, "a key has 1025 bytes, it may have 1 to 1024");
    gguf_deinit(&b);

    gguf_init(&b, 3); /* length 2^63 */
    gguf_add_u64(&b, "key", 1);
    b.metadata.data[7] = 0x80;
    refuse(&b, WEFT_FORMAT, "within a key");
    gguf_deinit(&b);

    const uint16_t n_parts = 3;
    gguf_init(&b, 3);
    gguf_add_raw(&b, "split.count", GGUF_U16, &n_parts, sizeof n_parts);
    refuse(&b, WEFT_UNSUPPORTED, "it is one of 3 parts");
    gguf_deinit(&b);
}

/* B87 */
static void test_alignment(void **state)
{
    (void)state;
    static const uint32_t BAD[] = {0, 1, 3, 4, 48, 131072, 0x80000000u, UINT32_MAX};
    gguf_builder b;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        char text[80];
        gguf_init(&b, 3);
        gguf_add_u32(&b, "general.alignment", BAD[i]);
        gguf_add_tensor(&b, "w", F32, DIMS_2_3, 2, VALUES, sizeof VALUES);
        snprintf(text, sizeof text, "general.alignment is %u, expected a power of two in 8..65536",
                 BAD[i]);
        refuse(&b, WEFT_FORMAT, text);
        gguf_deinit(&b);
    }
    const int32_t number = 32;
    gguf_init(&b, 3);
    gguf_add_raw(&b, "general.alignment", GGUF_I32, &number, sizeof number);
    gguf_add_tensor(&b, "w", F32, DIMS_2_3, 2, VALUES, sizeof VALUES);
    refuse(&b, WEFT_FORMAT, "general.alignment has type 5, expected 4");
    gguf_deinit(&b);
    for (uint32_t alignment = 8; alignment <= 65536; alignment *= 2) {
        test_folder folder;
        weft_error err = {0};
        weights *w;
        test_folder_create(&folder);
        gguf_init(&b, 3);
        gguf_add_u32(&b, "general.alignment", alignment);
        gguf_add_tensor(&b, "v", F32, DIMS_2_3, 2, NULL, sizeof VALUES);
        gguf_add_tensor(&b, "w", F32, DIMS_2_3, 2, VALUES, sizeof VALUES);
        assert_ok(open_path(gguf_write(&b, &folder, "m.gguf"), &w, &err), &err);
        assert_memory_equal(weights_find(w, "w")->planes[0], VALUES, sizeof VALUES);
        weights_close(w);
        gguf_deinit(&b);
        test_folder_remove(&folder);
    }
}

/* Entries of the table of tensors (B90); the data has 64 bytes. */
static void test_entries(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t type, n_dims;
        uint64_t dims[4];
        uint64_t offset;
        weft_status status;
        const char *message;
    } cases[] = {
        {"w", F32, 0, {0}, 0, WEFT_FORMAT, "tensor 'w': it has 0 dimensions, expected 1 to 4"},
        {"w", F32, 1, {0}, 0, WEFT_FORMAT, "tensor 'w': dimension 0 of 1 is 0"},
        {"w", F32, 2, {4, 0}, 0, WEFT_FORMAT, "tensor 'w': dimension 1 of 2 is 0"},
        {"w",
         F32,
         1,
         {17},
         0,
         WEFT_FORMAT,
         "tensor 'w': it has 68 bytes at offset 0 of the data, the file has 64 there"},
        {"w", F32, 1, {9}, 32, WEFT_FORMAT, "tensor 'w': it has 36 bytes at offset 32"},
        {"w", F32, 1, {1}, 96, WEFT_FORMAT, "tensor 'w': it has 4 bytes at offset 96"},
        {"w", F32, 1, {1}, UINT64_MAX - 31, WEFT_FORMAT, "at offset 18446744073709551584"},
        {"w", F32, 1, {1}, 4, WEFT_FORMAT, "tensor 'w': its offset 4 is not a multiple of 32"},
        {"w", F32, 1, {1ull << 62}, 0, WEFT_FORMAT, "columns are too large"},
        {"w", F32, 4, {1 << 20, 1 << 20, 1 << 20, 1 << 20}, 0, WEFT_FORMAT, "overflow"},
        {"w", F32, 2, {1ull << 32, 1ull << 32}, 0, WEFT_FORMAT, "overflow"},
        {"w",
         Q4_0,
         1,
         {33},
         0,
         WEFT_FORMAT,
         "tensor 'w': rows of 33 columns are not whole blocks of 32 of q4_0"},
        {"w", Q4_0, 2, {32, 1}, 0, WEFT_FORMAT, "rows of 1 columns are not whole blocks"},
        {"w", Q5_1, 1, {33}, 0, WEFT_FORMAT, "are not whole blocks of 32 of q5_1"},
        {"w", 4, 1, {32}, 0, WEFT_UNSUPPORTED, "tensor 'w': its type 4 is unknown"},
        {"w", UINT32_MAX, 1, {32}, 0, WEFT_UNSUPPORTED, "its type 4294967295 is unknown"},
        {"v", F32, 1, {1}, 0, WEFT_FORMAT, "tensor 'v': it occurs twice"},
        {"", F32, 1, {1}, 0, WEFT_FORMAT, "the name of a tensor has 0 bytes"},
        {"\x80", F32, 1, {1}, 0, WEFT_FORMAT, "the name of a tensor is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_builder b;
        gguf_init(&b, 3);
        gguf_add_tensor(&b, "v", F32, (const uint64_t[]){16}, 1, NULL, 64);
        gguf_add_entry(&b, cases[i].name, cases[i].type, cases[i].dims, cases[i].n_dims,
                       cases[i].offset);
        refuse(&b, cases[i].status, cases[i].message);
        gguf_deinit(&b);
    }
    static const uint32_t N_DIMS[] = {5, UINT32_MAX, 1u << 31};
    for (size_t i = 0; i < sizeof N_DIMS / sizeof *N_DIMS; i++) {
        gguf_builder b;
        gguf_init(&b, 3);
        gguf_add_tensor(&b, "w", F32, (const uint64_t[]){16}, 1, NULL, 64);
        memcpy(b.table.data + 9, &N_DIMS[i], sizeof N_DIMS[i]);
        refuse(&b, WEFT_FORMAT, "dimensions, expected 1 to 4");
        gguf_deinit(&b);
    }
    gguf_builder b; /* a name of 2^31 bytes */
    gguf_init(&b, 3);
    gguf_add_tensor(&b, "w", F32, (const uint64_t[]){16}, 1, NULL, 64);
    b.table.data[0] = 0;
    b.table.data[3] = 0x80;
    refuse(&b, WEFT_FORMAT, "within the name of a tensor");
    gguf_deinit(&b);
}

static void build_sample(gguf_builder *b)
{
    static const char *const TEXTS[] = {"one", "", "three"};
    static const uint16_t NUMBERS[] = {1, 2, 3};
    gguf_init(b, 3);
    gguf_add_u32(b, "general.alignment", 8);
    gguf_add_texts(b, "texts", TEXTS, 3);
    gguf_add_array(b, "numbers", GGUF_U16, NUMBERS, 3, sizeof NUMBERS);
    gguf_add_text(b, "text", "abc");
    gguf_add_f32(b, "real", 0.5f);
    gguf_add_tensor(b, "v", F32, DIMS_2_3, 2, VALUES, sizeof VALUES);
    gguf_add_tensor(b, "w", Q4_0, (const uint64_t[]){32}, 1, NULL, 18);
}

/* Cut anywhere, a file is refused. */
static void test_truncated(void **state)
{
    (void)state;
    file_bytes bytes;
    gguf_builder b;
    build_sample(&b);
    gguf_build(&b, &bytes);
    test_folder folder;
    test_folder_create(&folder);
    for (size_t n = 0; n < bytes.n_bytes; n++) {
        weft_error err = {0};
        weights *w;
        const char *path = test_folder_write(&folder, "m.gguf", bytes.data, n);
        assert_status(WEFT_FORMAT, open_path(path, &w, &err), &err);
        assert_null(w);
    }
    file_bytes_free(&bytes);
    gguf_deinit(&b);
    test_folder_remove(&folder);
}

/* A text larger than all metadata may be; the file is mostly a hole. */
static void test_metadata_limit(void **state)
{
    (void)state;
    test_folder folder;
    file_bytes bytes;
    gguf_builder b;
    weights *w;
    weft_error err = {0};
    uint64_t length = (uint64_t)WEIGHTS_HEADER_BYTES + 1;
    test_folder_create(&folder);
    gguf_init(&b, 3);
    gguf_add_raw(&b, "key", GGUF_TEXT, &length, sizeof length);
    gguf_build(&b, &bytes);
    const char *path = test_folder_write(&folder, "m.gguf", bytes.data, bytes.n_bytes);
    assert_int_equal(truncate(path, (off_t)(bytes.n_bytes + length)), 0);
    assert_status(WEFT_LIMIT, open_path(path, &w, &err), &err);
    assert_message(&err, "its metadata without arrays has more than 104857600 bytes");
    file_bytes_free(&bytes);
    gguf_deinit(&b);
    test_folder_remove(&folder);
}

static weft_status open_and_close(const env *world, void *user, weft_error *err)
{
    weights *w;
    weft_status status = weights_open(world, user, &w, err);
    if (status == WEFT_OK) assert_int_equal(w->n_tensors, 102);
    if (status != WEFT_OK) assert_null(w);
    weights_close(w);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    test_folder folder;
    gguf_builder b;
    test_folder_create(&folder);
    build_sample(&b);
    for (uint32_t i = 0; i < 100; i++) {
        char name[300];
        snprintf(name, sizeof name, "%0250u", i);
        gguf_add_u32(&b, name, i);
        gguf_add_entry(&b, name, F32, DIMS_2_3, 2, 0);
    }
    char path[300];
    snprintf(path, sizeof path, "%s", gguf_write(&b, &folder, "m.gguf"));
    assert_true(fault_sweep(open_and_close, path) >= 8);
    assert_int_equal(fault_sweep_io(open_and_close, path), 3); /* size, magic, map */
    gguf_deinit(&b);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens),          cmocka_unit_test(test_without_tensors),
        cmocka_unit_test(test_heads),          cmocka_unit_test(test_values),
        cmocka_unit_test(test_keys),           cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_entries),        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_metadata_limit), cmocka_unit_test(test_faults),
    };
    return TEST_RUN("formats/gguf", tests);
}
