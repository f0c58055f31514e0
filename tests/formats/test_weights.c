/* test_weights.c - who opens a path, and what is found beside and inside a checkpoint. */
#include "formats/weights.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fault.h"
#include "support/files.h"

static weft_status open_path(const char *path, weights **w, weft_error *err)
{
    env world = {mem_system(), io_system(), NULL};
    return weights_open(&world, path, w, err);
}

static void test_paths(void **state)
{
    (void)state;
    weft_error err = {0};
    weights *w = (weights *)1;
    assert_status(WEFT_ARGUMENT, open_path("", &w, &err), &err);
    assert_null(w);
    char *longer = test_malloc(WEIGHTS_PATH_BYTES + 1);
    memset(longer, 'p', WEIGHTS_PATH_BYTES);
    longer[WEIGHTS_PATH_BYTES] = '\0';
    err = (weft_error){0};
    assert_status(WEFT_ARGUMENT, open_path(longer, &w, &err), &err);
    assert_message(&err, "a path of 4096 bytes");
    test_free(longer);
    err = (weft_error){0};
    assert_status(WEFT_IO, open_path("/no/such/checkpoint", &w, &err), &err);
    assert_message(&err, "'/no/such/checkpoint': No such file");
    assert_null(w);
    weights_close(NULL);
}

static void test_neither(void **state)
{
    (void)state;
    test_folder folder;
    weights *w;
    test_folder_create(&folder);
    static const char *const TEXTS[] = {"", "ab", "a file of text", "ggml1234"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        weft_error err = {0};
        const char *path = test_folder_write(&folder, "m.gguf", TEXTS[i], strlen(TEXTS[i]));
        assert_status(WEFT_FORMAT, open_path(path, &w, &err), &err);
        assert_message(&err, "neither a folder with safetensors files nor a GGUF file");
    }
    test_folder_remove(&folder);
}

static void test_formats(void **state)
{
    (void)state;
    const weights_format *rows[] = {&FORMAT_SAFETENSORS, &FORMAT_GGUF};
    assert_string_not_equal(rows[0]->name, rows[1]->name);
    assert_true(rows[0]->is_folder);
    assert_false(rows[1]->is_folder);
}

static void create_folder(test_folder *folder)
{
    safetensors_builder b;
    test_folder_create(folder);
    test_folder_write(folder, "config.json", "{}", 2);
    safetensors_init(&b);
    safetensors_add(&b, "w", "U8", (const uint64_t[]){1}, 1, "1", 1);
    safetensors_write(&b, folder, "model.safetensors");
    safetensors_deinit(&b);
}

static void test_sibling(void **state)
{
    (void)state;
    test_folder folder;
    weft_error err = {0};
    weights *w;
    create_folder(&folder);
    char with_slash[300], path[300];
    snprintf(with_slash, sizeof with_slash, "%s/", folder.path);
    const char *const forms[] = {folder.path, with_slash};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(open_path(forms[i], &w, &err), &err);
        assert_ok(weights_sibling(w, "tokenizer.json", path, sizeof path, &err), &err);
        assert_string_equal(path, test_folder_path(&folder, "tokenizer.json"));
        size_t need = strlen(path) + 1;
        assert_ok(weights_sibling(w, "tokenizer.json", path, need, &err), &err);
        assert_status(WEFT_LIMIT, weights_sibling(w, "tokenizer.json", path, need - 1, &err), &err);
        assert_string_equal(path, "");
        static const char *const BAD[] = {"", ".", "..", "../config.json", "a/b", "/etc/passwd"};
        for (size_t j = 0; j < sizeof BAD / sizeof *BAD; j++) {
            weft_error reason = {0};
            assert_status(WEFT_ARGUMENT, weights_sibling(w, BAD[j], path, sizeof path, &reason),
                          &reason);
        }
        weights_close(w);
        err = (weft_error){0};
    }
    test_folder_remove(&folder);
}

static void test_read_sibling(void **state)
{
    (void)state;
    test_folder folder;
    weft_error err = {0};
    weights *w;
    char *text = NULL;
    size_t n_bytes;
    create_folder(&folder);
    test_folder_write(&folder, "tokenizer.json", "{}\n", 3);
    assert_ok(open_path(folder.path, &w, &err), &err);
    assert_ok(weights_read_sibling(w, "tokenizer.json", 3, &text, &n_bytes, &err), &err);
    assert_string_equal(text, "{}\n");
    assert_int_equal(n_bytes, 3);
    mem_free(mem_system(), text, n_bytes + 1);
    assert_ok(weights_read_sibling(w, "absent.json", 3, &text, &n_bytes, &err), &err);
    assert_null(text);
    assert_status(WEFT_LIMIT, weights_read_sibling(w, "tokenizer.json", 2, &text, &n_bytes, &err),
                  &err);
    assert_null(text);
    weights_close(w);
    test_folder_remove(&folder);
}

static void test_sibling_of_file(void **state)
{
    (void)state;
    test_folder folder;
    weft_error err = {0};
    weights *w;
    gguf_builder b;
    char path[300];
    test_folder_create(&folder);
    gguf_init(&b, 3);
    assert_ok(open_path(gguf_write(&b, &folder, "m.gguf"), &w, &err), &err);
    char *text = path;
    size_t n_bytes = 1;
    assert_ok(weights_read_sibling(w, "x", 1, &text, &n_bytes, &err), &err);
    assert_true(text == NULL && n_bytes == 0);
    assert_status(WEFT_UNSUPPORTED, weights_sibling(w, "x", path, sizeof path, &err), &err);
    weights_close(w);
    gguf_deinit(&b);
    test_folder_remove(&folder);
}

/* Keys are found by halving: all of them, for every count. */
static void test_metadata(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 20; n++) {
        test_folder folder;
        weft_error err = {0};
        weights *w;
        gguf_builder b;
        test_folder_create(&folder);
        gguf_init(&b, 3);
        for (uint32_t i = 0; i < n; i++) {
            char key[16];
            snprintf(key, sizeof key, "%02u", i * 7 % 20);
            gguf_add_u32(&b, key, i);
        }
        assert_ok(open_path(gguf_write(&b, &folder, "m.gguf"), &w, &err), &err);
        for (uint32_t i = 0; i < 20; i++) {
            char key[16];
            uint64_t number;
            snprintf(key, sizeof key, "%02u", i * 7 % 20);
            assert_int_equal(gguf_u64(weights_metadata(w, key), &number), i < n);
            assert_int_equal(number, i < n ? i : 0);
        }
        weights_close(w);
        gguf_deinit(&b);
        test_folder_remove(&folder);
    }
}

/* Two checkpoints in memory of two allocators leave nothing behind, whichever is closed first. */
static void test_two_at_once(void **state)
{
    (void)state;
    test_folder folder;
    create_folder(&folder);
    fault_allocator memory[2];
    weights *w[2];
    for (size_t i = 0; i < 2; i++) {
        weft_error err = {0};
        fault_allocator_init(&memory[i], 0);
        env world = {&memory[i].allocator, io_system(), NULL};
        assert_ok(weights_open(&world, folder.path, &w[i], &err), &err);
    }
    weights_close(w[0]);
    fault_allocator_check(&memory[0]);
    assert_int_equal(weights_find(w[1], "w")->planes[0][0], '1');
    weights_close(w[1]);
    fault_allocator_check(&memory[1]);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),        cmocka_unit_test(test_neither),
        cmocka_unit_test(test_formats),      cmocka_unit_test(test_sibling),
        cmocka_unit_test(test_read_sibling), cmocka_unit_test(test_sibling_of_file),
        cmocka_unit_test(test_metadata),     cmocka_unit_test(test_two_at_once),
    };
    return TEST_RUN("formats/weights", tests);
}
