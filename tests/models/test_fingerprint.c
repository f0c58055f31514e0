/* test_fingerprint.c - a model by its content: the same wherever it lies (B13), another one when a
 * byte, a name or a number of its config is. */
#include "models/fingerprint.h"
#include "support/fault.h"
#include "support/golden_copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

typedef struct prints {
    unsigned char model[FINGERPRINT_BYTES], tokenizer[FINGERPRINT_BYTES];
} prints;

static prints prints_of(const char *path)
{
    const env world = {mem_system(), io_system(), NULL};
    llm *m;
    prints p;
    weft_error err = {0};
    assert_ok(llm_open(&world, path, &m, &err), &err);
    assert_ok(llm_fingerprint(m, p.model, &err), &err);
    assert_ok(llm_tokenizer_hash(m, p.tokenizer, &err), &err);
    prints again;
    assert_ok(llm_fingerprint(m, again.model, &err), &err);
    assert_memory_equal(p.model, again.model, FINGERPRINT_BYTES);
    llm_close(m);
    return p;
}

static prints prints_changed(const golden_copy *s, const golden_change *change)
{
    test_folder folder;
    test_folder_create(&folder);
    golden_write_changed(s, change, &folder);
    prints p = prints_of(folder.path);
    test_folder_remove(&folder);
    return p;
}

/* A copy of a golden, of which byte `changed` of the weights is another. */
static prints prints_with_byte(const golden_copy *s, size_t changed)
{
    test_folder folder;
    const golden_change none = {0};
    char *data;
    size_t n;
    weft_error err = {0};
    test_folder_create(&folder);
    golden_write_changed(s, &none, &folder);
    const char *path = test_folder_path(&folder, "model.safetensors");
    assert_ok(io_read_file(io_system(), mem_system(), path, SIZE_MAX, &data, &n, &err), &err);
    data[n - 1 - changed] ^= 1;
    test_folder_write(&folder, "model.safetensors", data, n);
    mem_free(mem_system(), data, n + 1);
    prints p = prints_of(folder.path);
    test_folder_remove(&folder);
    return p;
}

static void test_b13_content_alone(void **state)
{
    (void)state;
    golden_copy s;
    const golden_change none = {0};
    golden_copy_open(&s, "llama");
    prints copies[2] = {prints_changed(&s, &none), prints_changed(&s, &none)};
    assert_memory_equal(copies[0].model, copies[1].model, FINGERPRINT_BYTES);
    assert_memory_equal(copies[0].tokenizer, copies[1].tokenizer, FINGERPRINT_BYTES);
    /* What does not shape the computation. */
    const golden_change unused = {.config = {"\"use_cache\": true", "\"use_cache\": false"}};
    prints p = prints_changed(&s, &unused);
    assert_memory_equal(copies[0].model, p.model, FINGERPRINT_BYTES);
    golden_copy_close(&s);
}

static void test_differences(void **state)
{
    (void)state;
    static const golden_change CHANGES[] = {
        {0},
        {.config = {"\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 1e-05"}},
        {.config = {"\"rope_theta\": 10000.0", "\"rope_theta\": 10001.0"}},
    };
    enum { N_CHANGES = 3, N_BYTES = 3 };
    golden_copy s;
    prints all[N_CHANGES + N_BYTES];
    golden_copy_open(&s, "llama");
    for (size_t i = 0; i < N_CHANGES; i++) all[i] = prints_changed(&s, &CHANGES[i]);
    for (size_t i = 0; i < N_BYTES; i++)
        all[N_CHANGES + i] = prints_with_byte(&s, (size_t[]){0, 1000, 40000}[i]);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(all[i].model, all[k].model, FINGERPRINT_BYTES);
        assert_memory_equal(all[i].tokenizer, all[0].tokenizer, FINGERPRINT_BYTES);
    }
    golden_copy_close(&s);
}

static void test_tokenizers(void **state)
{
    (void)state;
    golden_copy s;
    test_folder folder;
    const golden_change none = {0};
    prints all[4];
    golden_copy_open(&s, "llama");
    test_folder_create(&folder);
    golden_write_changed(&s, &none, &folder);
    all[0] = prints_of(folder.path);
    test_folder_write(&folder, "tokenizer.json", "{}", 2);
    all[1] = prints_of(folder.path);
    test_folder_write(&folder, "tokenizer.json", "{ }", 3);
    all[2] = prints_of(folder.path);
    test_folder_write(&folder, "tokenizer_config.json", "{}", 2);
    all[3] = prints_of(folder.path);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(all[i].tokenizer, all[k].tokenizer, FINGERPRINT_BYTES);
        assert_memory_equal(all[i].model, all[0].model, FINGERPRINT_BYTES);
    }
    test_folder_remove(&folder);
    golden_copy_close(&s);
}

static weft_status hash_all(const env *world, void *user, weft_error *err)
{
    llm *m;
    prints p;
    weft_status status = llm_open(world, user, &m, err);
    if (status != WEFT_OK) return status;
    status = llm_fingerprint(m, p.model, err);
    if (status == WEFT_OK) status = llm_tokenizer_hash(m, p.tokenizer, err);
    llm_close(m);
    return status;
}

/* A file that cannot be read is not the same as none. */
static void test_sweep(void **state)
{
    (void)state;
    golden_copy s;
    test_folder folder;
    const golden_change none = {0};
    golden_copy_open(&s, "llama");
    test_folder_create(&folder);
    golden_write_changed(&s, &none, &folder);
    test_folder_write(&folder, "tokenizer.json", "{}", 2);
    assert_true(fault_sweep(hash_all, folder.path) > 10);
    assert_true(fault_sweep_io(hash_all, folder.path) > 5);
    test_folder_remove(&folder);
    golden_copy_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b13_content_alone),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_tokenizers),
        cmocka_unit_test(test_sweep),
    };
    return TEST_RUN("models/fingerprint", tests);
}
