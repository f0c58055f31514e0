/* test_safetensors.c - folders of safetensors: what opens, and every way in which one may be
 * broken. */
#include "formats/weights.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/compare.h"
#include "support/fault.h"
#include "support/files.h"

static const uint64_t DIMS_2_3[] = {2, 3};
static const float VALUES[] = {1, -2, 3.5f, 0, 1e-9f, -7};

static weft_status open_folder(const test_folder *folder, weights **w, weft_error *err)
{
    env world = {mem_system(), io_system(), NULL};
    return weights_open(&world, folder->path, w, err);
}

static void create(test_folder *folder)
{
    test_folder_create(folder);
    test_folder_write(folder, "config.json", "{\"model_type\":\"x\"}", 18);
}

/* The folder does not open, for the reason given. */
static void refuse(const test_folder *folder, weft_status expected, const char *message)
{
    weft_error err = {0};
    weights *w = (weights *)1;
    assert_status(expected, open_folder(folder, &w, &err), &err);
    assert_message(&err, message);
    assert_null(w);
    assert_status(expected, open_folder(folder, &w, NULL), NULL);
}

static void test_opens(void **state)
{
    (void)state;
    test_folder folder;
    weft_error err = {0};
    weights *w;
    create(&folder);
    safetensors_builder b;
    safetensors_init(&b);
    b.padding = "      \n";
    safetensors_add_member(&b, "\"__metadata__\":{\"format\":\"mlx\"}");
    safetensors_add(&b, "w", "F32", DIMS_2_3, 2, VALUES, sizeof VALUES);
    safetensors_add(&b, "flag", "BOOL", NULL, 0, "\1", 1);
    safetensors_add(&b, "odd.bf16", "BF16", (const uint64_t[]){2}, 1, "\x80\x3f\0\xc0", 4);
    safetensors_add(&b, "conv", "U8", (const uint64_t[]){2, 3, 1, 2, 2}, 5, NULL, 24);
    safetensors_add(&b, "codes", "U32", (const uint64_t[]){4}, 1, NULL, 16);
    safetensors_add(&b, "fp4", "F4", (const uint64_t[]){3, 4}, 2, NULL, 6);
    safetensors_add(&b, "k\\u00e4se", "F64", (const uint64_t[]){1}, 1, NULL, 8);
    safetensors_write(&b, &folder, "model.safetensors");
    assert_ok(open_folder(&folder, &w, &err), &err);
    assert_string_equal(w->format->name, "safetensors");
    assert_int_equal(w->n_tensors, 7);
    for (uint32_t i = 1; i < w->n_tensors; i++)
        assert_true(strcmp(w->tensors[i - 1].name, w->tensors[i].name) < 0);

    const tensor *t = weights_find(w, "w");
    assert_non_null(t);
    assert_ptr_equal(t->encoding, &ENCODING_F32);
    assert_int_equal(t->n_rows, 2);
    assert_int_equal(t->n_cols, 3);
    float out[6];
    tensor_decode(t, out);
    assert_floats_identical(out, VALUES, 6, 3);
    assert_string_equal(weights_file_of(w, t), "model.safetensors");

    t = weights_find(w, "flag");
    assert_null(t->encoding);
    assert_string_equal(t->raw_type, "BOOL");
    assert_int_equal(t->n_dims, 1);
    assert_int_equal(t->dims[0], 1);
    t = weights_find(w, "odd.bf16"); /* at an odd address */
    tensor_decode(t, out);
    assert_true(out[0] == 1.0f && out[1] == -2.0f);
    t = weights_find(w, "conv");
    assert_int_equal(t->n_dims, 4);
    assert_int_equal(t->dims[0], 6);
    assert_int_equal(t->dims[1], 1);
    assert_int_equal(t->n_rows, 12);
    assert_int_equal(weights_find(w, "codes")->raw_bytes, 4);
    assert_int_equal(weights_find(w, "fp4")->row_bytes[0], 2);
    assert_non_null(weights_find(w, "k\xc3\xa4se"));
    assert_null(weights_find(w, "absent"));
    assert_true(str_equal_text(json_text(json_get(w->config.root, "model_type")), "x"));
    weights_drop_config(w);
    assert_null(w->config.root);
    weights_close(w);
    safetensors_deinit(&b);
    test_folder_remove(&folder);
}

/* Names behind one another in a header that is not in the order of the data. */
static void test_any_order(void **state)
{
    (void)state;
    test_folder folder;
    weft_error err = {0};
    weights *w;
    create(&folder);
    safetensors_builder b;
    safetensors_init(&b);
    safetensors_add_member(&b, "\"b\":{\"data_offsets\":[4,6],\"dtype\":\"U8\",\"shape\":[2]}");
    safetensors_add_member(&b, "\"c\":{\"data_offsets\":[6,7],\"dtype\":\"U8\",\"shape\":[1]}");
    safetensors_add_member(&b, "\"a\":{\"data_offsets\":[0,4],\"dtype\":\"U8\",\"shape\":[4],"
                               "\"more\":null}");
    file_bytes_add(&b.data, "0123456", 7);
    safetensors_write(&b, &folder, "model.safetensors");
    assert_ok(open_folder(&folder, &w, &err), &err);
    assert_int_equal(weights_find(w, "b")->planes[0][0], '4');
    assert_int_equal(weights_find(w, "c")->planes[0][0], '6');
    weights_close(w);
    safetensors_deinit(&b);
    test_folder_remove(&folder);
}

/* Headers that are refused, each written with four bytes of data. */
static const struct {
    const char *header;
    weft_status status;
    const char *message;
} BAD_HEADERS[] = {
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,4]}}", WEFT_FORMAT,
     "'model.safetensors': tensor 'w': it has 4 bytes, its shape and type need 4000000"},
    {"{\"w\":{\"dtype\":\"F64\",\"shape\":[4],\"data_offsets\":[0,4]}}", WEFT_FORMAT,
     "tensor 'w': it has 4 bytes, its shape and type need 32"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,5]}}", WEFT_FORMAT,
     "tensor 'w': it ends at byte 5 of the data, the file has 4"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", WEFT_FORMAT,
     "its tensors end at"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}", WEFT_FORMAT,
     "tensor 'w': it starts at byte 1 of the data, expected 0"},
    {"{\"v\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
     "\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
     WEFT_FORMAT, "tensor 'w': it starts at byte 2 of the data, expected 3"},
    {"{\"v\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
     WEFT_FORMAT, "tensor 'w': it starts at byte 2 of the data, expected 1"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}", WEFT_FORMAT,
     "its data_offsets are not a range"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[-1,3]}}", WEFT_FORMAT,
     "its data_offsets are not a range"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,4]}}", WEFT_FORMAT,
     "its data_offsets are not a range"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4.0]}}", WEFT_FORMAT,
     "its data_offsets are not a range"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,18446744073709551620]}}",
     WEFT_FORMAT, "its data_offsets are not a range"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4]}}", WEFT_FORMAT, "its data_offsets are not a range"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,4]}}", WEFT_FORMAT,
     "its shape is no array"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", WEFT_FORMAT,
     "dimension 0 of its shape is no size"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4,0],\"data_offsets\":[0,4]}}", WEFT_FORMAT,
     "dimension 1 of 2 is 0"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4611686018427387905,4],\"data_offsets\":[0,4]}}",
     WEFT_FORMAT, "its dimensions overflow"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,1,1,4],"
     "\"data_offsets\":[0,4]}}",
     WEFT_FORMAT, "its dimensions overflow"},
    {"{\"w\":{\"shape\":[4],\"data_offsets\":[0,4]}}", WEFT_FORMAT, "it has no dtype"},
    {"{\"w\":{\"dtype\":\"Q7_77_AND_A_LONG_NAME\",\"shape\":[4],\"data_offsets\":[0,4]}}",
     WEFT_UNSUPPORTED, "tensor 'w': its dtype 'Q7_77_AND_A_LONG_NAME' is unknown"},
    {"{\"w\":[]}", WEFT_FORMAT, "tensor 'w': its entry is no object"},
    {"{\"\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", WEFT_FORMAT, "has 0 bytes"},
    {"{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", WEFT_FORMAT,
     "header: JSON line 1"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
     WEFT_FORMAT, "header: JSON line 1"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},}", WEFT_FORMAT,
     "header: JSON line 1"},
    {"{}", WEFT_FORMAT, "the file has 14 bytes, its tensors end at 10"},
    {"\xef\xbb\xbf{}", WEFT_FORMAT, "its header of 5 bytes is not one object in braces"},
    {" {}", WEFT_FORMAT, "is not one object in braces"},
    {"[]", WEFT_FORMAT, "is not one object in braces"},
    {"{}{}", WEFT_FORMAT, "header: JSON line 1"},
    {"{", WEFT_FORMAT, "its header of 1 bytes is not one object in braces"},
    {"", WEFT_FORMAT, "its header of 0 bytes is not one object in braces"},
};

/* Among them what a shape and a range of bytes say of each other (B82), a byte order mark, a comma
 * too many (B85). */
static void test_entries(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD_HEADERS / sizeof *BAD_HEADERS; i++) {
        test_folder folder;
        file_bytes bytes;
        create(&folder);
        size_t n = strlen(BAD_HEADERS[i].header);
        safetensors_assemble(&bytes, n, BAD_HEADERS[i].header, n, "data", 4);
        test_folder_write(&folder, "model.safetensors", bytes.data, bytes.n_bytes);
        refuse(&folder, BAD_HEADERS[i].status, BAD_HEADERS[i].message);
        file_bytes_free(&bytes);
        test_folder_remove(&folder);
    }
}

/* B85 */
static void test_header_padded_by_nul(void **state)
{
    (void)state;
    static const char HEADER[] =
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}\0\0";
    test_folder folder;
    file_bytes bytes;
    create(&folder);
    safetensors_assemble(&bytes, sizeof HEADER, HEADER, sizeof HEADER, "data", 4);
    test_folder_write(&folder, "model.safetensors", bytes.data, bytes.n_bytes);
    refuse(&folder, WEFT_FORMAT, "padded by blanks");
    file_bytes_free(&bytes);
    test_folder_remove(&folder);
}

/* No length in the file makes the reader allocate: the allocator refuses anything large (B81). */
static void test_header_lengths(void **state)
{
    (void)state;
    static const char HEADER[] = "{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    size_t n = sizeof HEADER - 1, size = 8 + n + 4;
    const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, 1ull << 63, 1ull << 32,
                                size,       size - 8 + 1,   0,          1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        test_folder folder;
        file_bytes bytes;
        weft_error err = {0};
        weights *w;
        create(&folder);
        safetensors_assemble(&bytes, lengths[i], HEADER, n, "data", 4);
        test_folder_write(&folder, "model.safetensors", bytes.data, bytes.n_bytes);
        fault_allocator memory;
        fault_allocator_init(&memory, 0);
        env world = {&memory.allocator, io_system(), NULL};
        assert_status(WEFT_FORMAT, weights_open(&world, folder.path, &w, &err), &err);
        char text[64];
        snprintf(text, sizeof text,
                 lengths[i] < 2 ? "its header of %llu bytes is not one object in braces"
                                : "its header has %llu bytes, the file has %zu",
                 (unsigned long long)lengths[i], size);
        assert_message(&err, text);
        assert_true(memory.peak_bytes < 100000);
        fault_allocator_check(&memory);
        file_bytes_free(&bytes);
        test_folder_remove(&folder);
    }
    for (size_t n_bytes = 0; n_bytes < 8; n_bytes++) {
        test_folder folder;
        create(&folder);
        test_folder_write(&folder, "model.safetensors", "\2\0\0\0\0\0\0\0", n_bytes);
        refuse(&folder, WEFT_FORMAT, n_bytes == 0 ? "0 bytes" : "the length of its header 8");
        test_folder_remove(&folder);
    }
}

/* A header larger than the limit is refused, not read; the file is mostly a hole. */
static void test_header_limit(void **state)
{
    (void)state;
    test_folder folder;
    uint64_t length = (uint64_t)WEIGHTS_HEADER_BYTES + 1;
    create(&folder);
    const char *path = test_folder_write(&folder, "model.safetensors", &length, sizeof length);
    assert_int_equal(truncate(path, (off_t)length + 8), 0);
    refuse(&folder, WEFT_LIMIT, "its header has 104857601 bytes, at most 104857600 are read");
    test_folder_remove(&folder);
}

/* Cut anywhere, a file is refused with both byte counts. */
static void test_truncated(void **state)
{
    (void)state;
    test_folder folder;
    file_bytes bytes;
    create(&folder);
    safetensors_builder b;
    safetensors_init(&b);
    safetensors_add(&b, "v", "F32", DIMS_2_3, 2, VALUES, sizeof VALUES);
    safetensors_add(&b, "w", "F32", DIMS_2_3, 2, VALUES, sizeof VALUES);
    safetensors_build(&b, &bytes);
    for (size_t n = 1; n < bytes.n_bytes; n++) {
        weft_error err = {0};
        weights *w;
        test_folder_write(&folder, "model.safetensors", bytes.data, n);
        assert_status(WEFT_FORMAT, open_folder(&folder, &w, &err), &err);
    }
    test_folder_write(&folder, "model.safetensors", bytes.data, bytes.n_bytes - 1);
    refuse(&folder, WEFT_FORMAT, "tensor 'w': it ends at byte 48 of the data, the file has 47");
    file_bytes_add(&bytes, "x", 1);
    test_folder_write(&folder, "model.safetensors", bytes.data, bytes.n_bytes);
    refuse(&folder, WEFT_FORMAT, "its tensors end at");
    file_bytes_free(&bytes);
    safetensors_deinit(&b);
    test_folder_remove(&folder);
}

/* Metadata up to the limit is read, though nobody asks for it (B85). */
static void test_large_metadata(void **state)
{
    (void)state;
    static const char START[] = "{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                                "\"__metadata__\":{\"notes\":\"";
    test_folder folder;
    file_bytes bytes;
    weft_error err = {0};
    weights *w;
    create(&folder);
    char *header = malloc(WEIGHTS_HEADER_BYTES);
    assert_non_null(header);
    memset(header, 'x', WEIGHTS_HEADER_BYTES);
    memcpy(header, START, sizeof START - 1);
    memcpy(header + WEIGHTS_HEADER_BYTES - 3, "\"}}", 3);
    safetensors_assemble(&bytes, WEIGHTS_HEADER_BYTES, header, WEIGHTS_HEADER_BYTES, "data", 4);
    free(header);
    test_folder_write(&folder, "model.safetensors", bytes.data, bytes.n_bytes);
    file_bytes_free(&bytes);
    assert_ok(open_folder(&folder, &w, &err), &err);
    assert_memory_equal(weights_find(w, "w")->planes[0], "data", 4);
    weights_close(w);
    test_folder_remove(&folder);
}

static void write_shard(test_folder *folder, const char *file, const char *first,
                        const char *second)
{
    safetensors_builder b;
    safetensors_init(&b);
    safetensors_add(&b, first, "U8", (const uint64_t[]){1}, 1, "1", 1);
    if (second != NULL) safetensors_add(&b, second, "U8", (const uint64_t[]){1}, 1, "2", 1);
    safetensors_write(&b, folder, file);
    safetensors_deinit(&b);
}

static void test_shards(void **state)
{
    (void)state;
    test_folder folder;
    weft_error err = {0};
    weights *w;
    create(&folder);
    write_shard(&folder, "model-00001-of-00002.safetensors", "a", "b");
    write_shard(&folder, "model-00002-of-00002.safetensors", "c", NULL);
    write_shard(&folder, "other.safetensors", "a", NULL);
    write_shard(&folder, "._model.safetensors", "a", NULL);
    assert_ok(open_folder(&folder, &w, &err), &err);
    assert_int_equal(w->n_maps, 2);
    assert_int_equal(w->n_tensors, 3);
    assert_string_equal(weights_file_of(w, weights_find(w, "c")),
                        "model-00002-of-00002.safetensors");
    weights_close(w);

    write_shard(&folder, "model-00002-of-00002.safetensors", "b", NULL);
    refuse(&folder, WEFT_FORMAT, "tensor 'b': it occurs twice, also in 'model-0000");
    test_folder_remove(&folder);
    create(&folder);
    refuse(&folder, WEFT_FORMAT, "the folder has no model*.safetensors");
    test_folder_remove(&folder);
}

static void write_index(test_folder *folder, const char *text)
{
    test_folder_write(folder, "model.safetensors.index.json", text, strlen(text));
}

static void test_index(void **state)
{
    (void)state;
    test_folder folder;
    weft_error err = {0};
    weights *w;
    create(&folder);
    write_shard(&folder, "one.safetensors", "a", "b");
    write_shard(&folder, "two.safetensors", "b", "extra");
    write_shard(&folder, "model.safetensors", "a", NULL);
    write_index(&folder, "{\"metadata\":{},\"weight_map\":{\"a\":\"one.safetensors\","
                         "\"b\":\"two.safetensors\"}}");
    assert_ok(open_folder(&folder, &w, &err), &err);
    assert_int_equal(w->n_maps, 2);
    assert_int_equal(w->n_tensors, 3);
    assert_string_equal(weights_file_of(w, weights_find(w, "b")), "two.safetensors");
    assert_non_null(weights_find(w, "extra"));
    weights_close(w);

    static const struct {
        const char *index;
        weft_status status;
        const char *message;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"q\":\"three.safetensors\"}}", WEFT_IO,
         "three.safetensors': No such file"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"q\":\"one.safetensors\"}}", WEFT_FORMAT,
         "tensor 'q' is not in 'one.safetensors'"},
        {"{\"weight_map\":{\"extra\":\"one.safetensors\",\"b\":\"two.safetensors\"}}", WEFT_FORMAT,
         "tensor 'extra' is not in 'one.safetensors'"},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", WEFT_FORMAT,
         "'model.safetensors.index.json': tensor 'a' is in no file that can be opened"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", WEFT_FORMAT, "in no file that can be opened"},
        {"{\"weight_map\":{\"a\":\"one.bin\"}}", WEFT_FORMAT, "in no file that can be opened"},
        {"{\"weight_map\":{\"a\":7}}", WEFT_FORMAT, "in no file that can be opened"},
        {"{\"weight_map\":[]}", WEFT_FORMAT, "it has no weight_map"},
        {"{}", WEFT_FORMAT, "it has no weight_map"},
        {"[]", WEFT_FORMAT, "it is array, expected an object"},
        {"{", WEFT_FORMAT, "'model.safetensors.index.json': JSON line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_index(&folder, cases[i].index);
        refuse(&folder, cases[i].status, cases[i].message);
    }
    test_folder_remove(&folder);
}

/* A download that stopped: the last file is short, by a byte or by a lot, or is not there. It is
 * seen when the folder is opened, never read as zeros. The file is mostly a hole (B84). */
static void test_cut_shard(void **state)
{
    (void)state;
    enum { LARGE = 65 << 20, LOST = 64 << 20 };
    static const char HEADER[] =
        "{\"z\":{\"dtype\":\"U8\",\"shape\":[68157440],\"data_offsets\":[0,68157440]}}";
    static const char LAST[] = "model-00002-of-00002.safetensors";
    static const int CUTS[] = {0, 1, LOST};
    for (size_t i = 0; i < 2 * sizeof CUTS / sizeof *CUTS; i++) {
        int cut = CUTS[i / 2];
        test_folder folder;
        file_bytes bytes;
        weft_error err = {0};
        weights *w;
        create(&folder);
        write_shard(&folder, "model-00001-of-00002.safetensors", "a", NULL);
        safetensors_assemble(&bytes, sizeof HEADER - 1, HEADER, sizeof HEADER - 1, "", 0);
        const char *path = test_folder_write(&folder, LAST, bytes.data, bytes.n_bytes);
        assert_int_equal(truncate(path, (off_t)bytes.n_bytes + LARGE - cut), 0);
        file_bytes_free(&bytes);
        if (i % 2 == 1) {
            write_index(&folder, "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
                                 "\"z\":\"model-00002-of-00002.safetensors\"}}");
        }
        if (cut == 0) {
            assert_ok(open_folder(&folder, &w, &err), &err);
            weights_close(w);
        } else {
            char text[128];
            snprintf(text, sizeof text,
                     "'%s': tensor 'z': it ends at byte %d of the data, the file has %d", LAST,
                     LARGE, LARGE - cut);
            refuse(&folder, WEFT_FORMAT, text);
        }
        test_folder_remove(&folder);
    }
}

static void test_config(void **state)
{
    (void)state;
    test_folder folder;
    test_folder_create(&folder);
    write_shard(&folder, "model.safetensors", "a", NULL);
    refuse(&folder, WEFT_IO, "config.json': No such file");
    test_folder_write(&folder, "config.json", "7", 1);
    refuse(&folder, WEFT_FORMAT, "'config.json': it is integer, expected an object");
    test_folder_write(&folder, "config.json", "{\"a\":1", 6);
    refuse(&folder, WEFT_FORMAT, "'config.json': JSON line 1");
    test_folder_remove(&folder);
}

static void count_line(void *user, weft_log_level level, const char *message)
{
    (void)level;
    if (strstr(message, "code is never run") != NULL) ++*(int *)user;
}

/* Python files that a checkpoint names are noted and left alone (B91). */
static void test_code_is_not_run(void **state)
{
    (void)state;
    static const char CONFIG[] =
        "{\"model_file\":\"evil.py\",\"auto_map\":{\"AutoModel\":\"evil.Model\"}}";
    test_folder folder;
    weft_error err = {0};
    weights *w;
    int n_lines = 0;
    weft_log log = {&n_lines, count_line};
    env world = {mem_system(), io_system(), &log};
    test_folder_create(&folder);
    write_shard(&folder, "model.safetensors", "a", NULL);
    test_folder_write(&folder, "config.json", CONFIG, sizeof CONFIG - 1);
    assert_ok(weights_open(&world, folder.path, &w, &err), &err);
    assert_int_equal(n_lines, 2);
    weights_close(w);
    test_folder_remove(&folder);
}

/* A name of a thousand bytes leaves room for the reason; one more is refused. */
static void test_long_names(void **state)
{
    (void)state;
    for (size_t n = WEIGHTS_NAME_BYTES; n <= WEIGHTS_NAME_BYTES + 1; n++) {
        char name[WEIGHTS_NAME_BYTES + 2];
        memset(name, 'n', n);
        name[n] = '\0';
        test_folder folder;
        create(&folder);
        safetensors_builder b;
        safetensors_init(&b);
        safetensors_add(&b, name, "F32", DIMS_2_3, 2, VALUES, 8);
        safetensors_write(&b, &folder, "model.safetensors");
        refuse(&folder, WEFT_FORMAT,
               n == WEIGHTS_NAME_BYTES ? "n': it has 8 bytes, its shape and type need 24"
                                       : "the name of a tensor has 1025 bytes");
        safetensors_deinit(&b);
        test_folder_remove(&folder);
    }
}

/* More than the table has room for at first, each found again. */
static void test_many_tensors(void **state)
{
    (void)state;
    enum { N_TENSORS = 20000 };
    test_folder folder;
    weft_error err = {0};
    weights *w;
    create(&folder);
    safetensors_builder b;
    safetensors_init(&b);
    for (uint32_t i = 0; i < N_TENSORS; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%u.experts.%u.weight", i % 100, i / 100);
        safetensors_add(&b, name, "U8", (const uint64_t[]){1}, 1, "1", 1);
    }
    safetensors_write(&b, &folder, "model.safetensors");
    assert_ok(open_folder(&folder, &w, &err), &err);
    assert_int_equal(w->n_tensors, N_TENSORS);
    for (uint32_t i = 0; i < N_TENSORS; i++)
        assert_ptr_equal(weights_find(w, w->tensors[i].name), &w->tensors[i]);
    weights_close(w);
    safetensors_deinit(&b);
    test_folder_remove(&folder);
}

static weft_status open_and_close(const env *world, void *user, weft_error *err)
{
    const test_folder *folder = user;
    weights *w;
    weft_status status = weights_open(world, folder->path, &w, err);
    if (status == WEFT_OK) assert_int_equal(w->n_tensors, 102);
    if (status != WEFT_OK) assert_null(w);
    weights_close(w);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    test_folder folder;
    create(&folder);
    safetensors_builder b;
    safetensors_init(&b);
    for (uint32_t i = 0; i < 100; i++) {
        char name[300];
        snprintf(name, sizeof name, "%0250u", i);
        safetensors_add(&b, name, "U8", (const uint64_t[]){1}, 1, "1", 1);
    }
    safetensors_write(&b, &folder, "model-1.safetensors");
    write_shard(&folder, "model-2.safetensors", "a", "b");
    assert_true(fault_sweep(open_and_close, &folder) >= 12);
    assert_int_equal(fault_sweep_io(open_and_close, &folder), 5); /* config 2, list, 2 maps */

    char first[300], index[600];
    snprintf(first, sizeof first, "%0250u", 0);
    snprintf(index, sizeof index,
             "{\"weight_map\":{\"a\":\"model-2.safetensors\",\"%s\":\"model-1.safetensors\"}}",
             first);
    write_index(&folder, index);
    assert_true(fault_sweep(open_and_close, &folder) >= 13);
    assert_int_equal(fault_sweep_io(open_and_close, &folder), 7);
    safetensors_deinit(&b);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens),           cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_entries),         cmocka_unit_test(test_header_padded_by_nul),
        cmocka_unit_test(test_header_lengths),  cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_header_limit),    cmocka_unit_test(test_shards),
        cmocka_unit_test(test_index),           cmocka_unit_test(test_config),
        cmocka_unit_test(test_code_is_not_run), cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_many_tensors),    cmocka_unit_test(test_faults),
        cmocka_unit_test(test_large_metadata),  cmocka_unit_test(test_cut_shard),
    };
    return TEST_RUN("formats/safetensors", tests);
}
