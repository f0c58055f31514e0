/* test_convert.c - conversions as a whole: the folder is there complete or not at all, whatever
 * fails; its bytes do not depend on threads or on how it is cut into files. */
#include "convert/convert.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "base/assert.h"
#include "support/fault.h"
#include "support/golden_copy.h"

#define SMALL WEFT_GOLDEN_DIR "/llama"

static env world_of_system(void)
{
    return (env){mem_system(), io_system(), NULL};
}

static const convert_options USUAL = {
    .bits = 4, .group = 32, .shard_bytes = 1 << 30, .n_threads = 1};

static weft_status convert(const char *target, const convert_options *options, weft_error *err)
{
    env world = world_of_system();
    convert_result result;
    return convert_checkpoint(&world, SMALL, target, options, &result, err);
}

/* How many things there are in a folder. */
static size_t count_names(const char *path)
{
    char *names;
    size_t n_bytes;
    size_t n = 0;
    assert_ok(io_system()->list(io_system(), path, mem_system(), &names, &n_bytes, NULL), NULL);
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1) n++;
    mem_free(mem_system(), names, n_bytes);
    return n;
}

static void assert_same_weights(const char *a, const char *b)
{
    env world = world_of_system();
    weights *x;
    weights *y;
    assert_ok(weights_open(&world, a, &x, NULL), NULL);
    assert_ok(weights_open(&world, b, &y, NULL), NULL);
    assert_int_equal(x->n_tensors, y->n_tensors);
    for (uint32_t i = 0; i < x->n_tensors; i++) {
        assert_string_equal(x->tensors[i].name, y->tensors[i].name);
        assert_int_equal(x->tensors[i].plane_bytes[0], y->tensors[i].plane_bytes[0]);
        assert_memory_equal(x->tensors[i].planes[0], y->tensors[i].planes[0],
                            (size_t)x->tensors[i].plane_bytes[0]);
    }
    weights_close(x);
    weights_close(y);
}

static void test_threads_and_files(void **state)
{
    (void)state;
    test_folder folder;
    weft_error err = {WEFT_OK, ""};
    test_folder_create(&folder);
    convert_options options = USUAL;
    assert_ok(convert(test_folder_path(&folder, "one"), &options, &err), &err);
    options.n_threads = 3;
    assert_ok(convert(test_folder_path(&folder, "three"), &options, &err), &err);
    options.shard_bytes = 5000;
    assert_ok(convert(test_folder_path(&folder, "cut//"), &options, &err), &err);
    options.shard_bytes = 0;
    assert_ok(convert(test_folder_path(&folder, "each"), &options, &err), &err);
    assert_same_weights(test_folder_path(&folder, "one"), test_folder_path(&folder, "three"));
    assert_same_weights(test_folder_path(&folder, "one"), test_folder_path(&folder, "cut"));
    assert_same_weights(test_folder_path(&folder, "one"), test_folder_path(&folder, "each"));
    /* One file of weights, its index and config; then one for each tensor. */
    assert_int_equal(count_names(test_folder_path(&folder, "one")), 3);
    assert_int_equal(count_names(test_folder_path(&folder, "each")), 39 + 2);
    assert_true(count_names(test_folder_path(&folder, "cut")) > 10);
    assert_int_equal(count_names(folder.path), 4);
    test_folder_remove(&folder);
}

/* What is in MLX's form already, as it is wanted, stays as it is; other codes are made anew. */
static void test_from_mlx(void **state)
{
    (void)state;
    env world = world_of_system();
    convert_result result;
    test_folder folder;
    weft_error err = {WEFT_OK, ""};
    test_folder_create(&folder);
    convert_options options = USUAL;
    static const struct {
        const char *mode;
        uint32_t bits;
    } FORMS[] = {{"affine", 3}, {"mxfp4", 4}, {"mxfp8", 8}};
    for (size_t i = 0; i < COUNT_OF(FORMS); i++) {
        char first[600];
        char again[600];
        snprintf(first, sizeof first, "%s/%s", folder.path, FORMS[i].mode);
        snprintf(again, sizeof again, "%s/%s-again", folder.path, FORMS[i].mode);
        options.mode = FORMS[i].mode;
        options.bits = FORMS[i].bits;
        assert_ok(convert(first, &options, &err), &err);
        assert_ok(convert_checkpoint(&world, first, again, &options, &result, &err), &err);
        assert_same_weights(first, again);
        options = USUAL;
        snprintf(again, sizeof again, "%s/%s-other", folder.path, FORMS[i].mode);
        assert_ok(convert_checkpoint(&world, first, again, &options, &result, &err), &err);
        assert_int_equal(result.n_quantized, 30);
    }
    test_folder_remove(&folder);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void test_target_that_exists(void **state)
{
    (void)state;
    test_folder folder;
    test_folder_create(&folder);
    mkdir(test_folder_path(&folder, "empty"), 0777);
    test_folder_write(&folder, "file", "x", 1);
    assert_int_equal(symlink("nowhere", test_folder_path(&folder, "link")), 0);
    static const char *const NAMES[] = {"empty", "empty/", "file", "link"};
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        weft_error err = {WEFT_OK, ""};
        assert_status(WEFT_ARGUMENT, convert(test_folder_path(&folder, NAMES[i]), &USUAL, &err),
                      &err);
        assert_message(&err, "is there already");
    }
    static const char *const ODD[] = {"/", "///"};
    for (size_t i = 0; i < COUNT_OF(ODD); i++) {
        weft_error err = {WEFT_OK, ""};
        assert_status(WEFT_ARGUMENT, convert(ODD[i], &USUAL, &err), &err);
    }
    weft_error err = {WEFT_OK, ""};
    assert_status(WEFT_IO, convert(test_folder_path(&folder, "no/parent"), &USUAL, &err), &err);
    assert_int_equal(count_names(folder.path), 3);
    test_folder_remove(&folder);
}

static void test_calls(void **state)
{
    (void)state;
    weft_error err = {WEFT_OK, ""};
    assert_status(WEFT_ARGUMENT, weft_convert(NULL, "x", NULL, NULL, &err), &err);
    assert_status(WEFT_ARGUMENT, weft_convert(SMALL, "", NULL, NULL, &err), &err);
    weft_convert_options options = {.struct_size = 4};
    assert_status(WEFT_ARGUMENT, weft_convert(SMALL, "x", &options, NULL, &err), &err);
    options = (weft_convert_options){.struct_size = sizeof options, .type = "f8"};
    assert_status(WEFT_ARGUMENT, weft_convert(SMALL, "x", &options, NULL, &err), &err);
    options = (weft_convert_options){.struct_size = sizeof options, .n_threads = 257};
    assert_status(WEFT_LIMIT, weft_convert(SMALL, "x", &options, NULL, &err), &err);
    options = (weft_convert_options){.struct_size = sizeof options, .mode = "int8"};
    assert_status(WEFT_ARGUMENT, weft_convert(SMALL, "x", &options, NULL, &err), &err);
    options =
        (weft_convert_options){.struct_size = sizeof options, .recipe = "{", .recipe_bytes = 1};
    assert_status(WEFT_FORMAT, weft_convert(SMALL, "x", &options, NULL, &err), &err);
    weft_conversion result = {.struct_size = 8};
    assert_status(WEFT_ARGUMENT, weft_convert(SMALL, "x", NULL, &result, &err), &err);
    assert_status(WEFT_IO, weft_convert(SMALL "/missing", "x", NULL, NULL, &err), &err);
    assert_false(io_system()->exists(io_system(), "x"));
}

static void test_result(void **state)
{
    (void)state;
    test_folder folder;
    weft_error err = {WEFT_OK, ""};
    test_folder_create(&folder);
    static const char RECIPE[] = "{\"rules\":[{\"match\":\"*.v_proj\",\"keep\":true}]}";
    weft_convert_options options = {.struct_size = sizeof options,
                                    .bits = 8,
                                    .type = "f16",
                                    .recipe = RECIPE,
                                    .recipe_bytes = sizeof RECIPE - 1};
    weft_conversion r = {.struct_size = sizeof r};
    assert_ok(weft_convert(SMALL, test_folder_path(&folder, "x"), &options, &r, &err), &err);
    assert_int_equal(r.n_tensors, 39);
    assert_int_equal(r.n_quantized, 26);
    assert_int_equal(r.n_whole, 0);
    assert_int_equal(r.n_files, 1);
    assert_int_equal(r.n_copied, 0);
    weft_model *model = run_open_model(test_folder_path(&folder, "x"));
    weft_model_info info = {.struct_size = sizeof info};
    assert_ok(weft_model_get_info(model, &info, &err), &err);
    assert_int_equal(r.n_params, info.n_params);
    assert_int_equal(r.n_bytes, info.n_bytes);
    for (uint32_t i = 0; i < info.n_tensors; i++) {
        weft_tensor_info t = {.struct_size = sizeof t};
        assert_ok(weft_model_tensor(model, i, &t, &err), &err);
        bool plain = t.n_dims == 1 || strstr(t.name, "v_proj") != NULL;
        assert_string_equal(t.encoding, plain ? "f16" : "affine8g64");
    }
    weft_model_close(model);
    test_folder_remove(&folder);
}

/* What is beside a model's weights, and what is not taken along. */
static void fill_small(test_folder *small)
{
    static const char *const NAMES[] = {
        "tokenizer.json", "vocab.txt",   "chat_template.jinja",         "config.json",
        ".other.json",    "weights.bin", "model.safetensors.index.json"};
    test_folder_create(small);
    for (size_t i = 0; i < COUNT_OF(NAMES); i++)
        test_folder_write(small, NAMES[i], NAMES[i], i == 1 ? 0 : strlen(NAMES[i]));
    mkdir(test_folder_path(small, "folder.json"), 0777);
}

static void test_small_files(void **state)
{
    (void)state;
    test_folder folder;
    test_folder small;
    weft_error err = {WEFT_OK, ""};
    test_folder_create(&folder);
    fill_small(&small);
    weft_convert_options options = {.struct_size = sizeof options, .files = small.path};
    weft_conversion r = {.struct_size = sizeof r};
    const char *to = test_folder_path(&folder, "to");
    assert_ok(weft_convert(SMALL, to, &options, &r, &err), &err);
    assert_int_equal(r.n_copied, 3);
    assert_int_equal(count_names(to), 3 + 3);
    char *text;
    size_t n_bytes;
    assert_ok(io_read_file(io_system(), mem_system(),
                           test_folder_path(&folder, "to/chat_template.jinja"), 100, &text,
                           &n_bytes, &err),
              &err);
    assert_string_equal(text, "chat_template.jinja");
    mem_free(mem_system(), text, n_bytes + 1);
    options.files = "nowhere";
    to = test_folder_path(&folder, "other");
    assert_status(WEFT_IO, weft_convert(SMALL, to, &options, &r, &err), &err);
    assert_int_equal(count_names(folder.path), 1);
    test_folder_remove(&folder);
    test_folder_remove(&small);
}

/* A weight that is no number is found by its name, row and column. */
static void test_bad_weight(void **state)
{
    (void)state;
    golden_copy g;
    test_folder folder;
    weft_error err = {WEFT_OK, ""};
    golden_copy_open(&g, "llama");
    golden_change change = {.without = NULL};
    golden_write_changed(&g, &change, &folder);
    const tensor *t = golden_tensor(&g, "model.layers.1.mlp.up_proj.weight");
    FILE *file = fopen(test_folder_path(&folder, "model.safetensors"), "r+b");
    assert_non_null(file);
    unsigned char header[8];
    assert_int_equal(fread(header, 1, sizeof header, file), sizeof header);
    uint64_t n_header;
    memcpy(&n_header, header, sizeof n_header);
    uint64_t at = 0;
    for (uint32_t i = 0; &g.w->tensors[i] != t; i++) at += g.w->tensors[i].plane_bytes[0];
    at += 8 + n_header + (5 * t->n_cols + 3) * 2;
    assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
    static const unsigned char NAN_BF16[2] = {0xc0, 0x7f};
    assert_int_equal(fwrite(NAN_BF16, 1, 2, file), 2);
    fclose(file);
    for (uint32_t n_threads = 1; n_threads <= 3; n_threads += 2) {
        env world = world_of_system();
        convert_options options = USUAL;
        convert_result result;
        options.n_threads = n_threads;
        err = (weft_error){WEFT_OK, ""};
        assert_status(WEFT_FORMAT,
                      convert_checkpoint(&world, folder.path, test_folder_path(&folder, "to"),
                                         &options, &result, &err),
                      &err);
        assert_message(&err, "'model.layers.1.mlp.up_proj' has a number in row 5, column 3");
    }
    assert_int_equal(count_names(folder.path), 2);
    test_folder_remove(&folder);
    golden_copy_close(&g);
}

/* ---- what ends it ---------------------------------------------------------------------------- */

static bool give_up(void *user, const convert_progress *p)
{
    uint32_t *n = user;
    assert_true(p->n_bytes <= p->all_bytes && p->n_tensors < p->all_tensors);
    return ++*n < 20;
}

static void test_cancelled(void **state)
{
    (void)state;
    test_folder folder;
    weft_error err = {WEFT_OK, ""};
    uint32_t n = 0;
    convert_options options = USUAL;
    options.user = &n;
    options.progress = give_up;
    test_folder_create(&folder);
    assert_status(WEFT_CANCELLED, convert(test_folder_path(&folder, "to"), &options, &err), &err);
    assert_int_equal(n, 20);
    assert_int_equal(count_names(folder.path), 0);
    test_folder_remove(&folder);
}

static bool die(void *user, const convert_progress *p)
{
    const uint32_t *at = user;
    if (p->n_tensors == *at) raise(SIGKILL);
    return true;
}

/* The name is not there, and what was written beside it does not stand in the way. */
static void test_killed(void **state)
{
    (void)state;
    test_folder folder;
    test_folder_create(&folder);
    static const uint32_t PLACES[] = {0, 20, 38};
    for (size_t i = 0; i < COUNT_OF(PLACES); i++) {
        uint32_t at = PLACES[i];
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            convert_options options = USUAL;
            options.user = &at;
            options.progress = die;
            _exit(convert(test_folder_path(&folder, "to"), &options, NULL) == WEFT_OK ? 0 : 1);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_false(io_system()->exists(io_system(), test_folder_path(&folder, "to")));
        assert_int_equal(count_names(folder.path), i + 1);
    }
    weft_error err = {WEFT_OK, ""};
    assert_ok(convert(test_folder_path(&folder, "to"), &USUAL, &err), &err);
    test_folder_remove(&folder);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Whatever fails, the folder stays as empty as it was; a disk that is full is a write of a part. */
static weft_status convert_in(const env *world, void *user, weft_error *err)
{
    test_folder *folder = ((test_folder **)user)[0];
    char kept[sizeof folder->path];
    memcpy(kept, folder->path, sizeof kept);
    char target[600];
    convert_result result;
    convert_options options = USUAL;
    options.shard_bytes = 60000;
    options.n_threads = 2;
    options.files = ((test_folder **)user)[1]->path;
    snprintf(target, sizeof target, "%s/to", folder->path);
    weft_status status = convert_checkpoint(world, SMALL, target, &options, &result, err);
    assert_int_equal(count_names(folder->path), status == WEFT_OK ? 1 : 0);
    if (status == WEFT_OK) {
        test_folder_remove(folder);
        assert_int_equal(mkdir(kept, 0777), 0);
        memcpy(folder->path, kept, sizeof kept);
    }
    return status;
}

static void test_memory_faults(void **state)
{
    (void)state;
    test_folder folder;
    test_folder small;
    test_folder_create(&folder);
    fill_small(&small);
    size_t n = fault_sweep(convert_in, (test_folder *[]){&folder, &small});
    print_message("%zu allocations\n", n);
    assert_true(n >= 50);
    test_folder_remove(&folder);
    test_folder_remove(&small);
}

static void test_file_faults(void **state)
{
    (void)state;
    test_folder folder;
    test_folder small;
    test_folder_create(&folder);
    fill_small(&small);
    size_t n = fault_sweep_io(convert_in, (test_folder *[]){&folder, &small});
    print_message("%zu operations\n", n);
    assert_true(n >= 130);
    test_folder_remove(&folder);
    test_folder_remove(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_and_files),
        cmocka_unit_test(test_from_mlx),
        cmocka_unit_test(test_target_that_exists),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_bad_weight),
        cmocka_unit_test(test_small_files),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_memory_faults),
        cmocka_unit_test(test_file_faults),
    };
    return TEST_RUN("convert/convert", tests);
}
