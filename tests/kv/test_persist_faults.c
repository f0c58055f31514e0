/* test_persist_faults.c - KV-57, KV-9: saving and loading with every allocation and every operation
 * on files failing once, a full disk, and a process that is killed while it saves:
 *     test_kv_persist_faults kills 1000
 * kills so many at random moments. */
#include "kv/persist_world.h"
#include "support/group_folder.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint32_t n_kills = TEST_SLOWED ? 100 : 1000;

enum { OLD_LEN = 40, NEW_LEN = 130, TAGS = 300 };

static const uint32_t AT[] = {70};

static void open_with_old(shop *s)
{
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    shop_open(s, "bf16", HYBRIDS, COUNT_OF(HYBRIDS), 16);
    shop_converse(s, tags, NULL, 0, OLD_LEN, 64, false);
}

static void add_new(shop *s)
{
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    shop_converse(s, tags, AT, 1, NEW_LEN, 64, false);
}

/* What a cache that knows nothing has of the file: as a whole, or it is none. */
static uint32_t tokens_of(const char *path)
{
    shop s;
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    shop_open(&s, "bf16", HYBRIDS, COUNT_OF(HYBRIDS), 16);
    kv_loaded loaded = shop_load(&s, path);
    assert_true(loaded.miss == KV_MISS_NONE || loaded.miss == KV_MISS_ABSENT);
    uint32_t n_usable;
    kv_seq *seq = shop_begin(&s, tags, loaded.n_tokens + 2, &n_usable);
    assert_int_equal(n_usable, loaded.n_tokens);
    shop_check(&s, seq, tags);
    kv_seq_destroy(&s.w.memory.allocator, seq);
    shop_close(&s);
    return loaded.n_tokens;
}

static uint32_t count_files(void)
{
    char *names;
    size_t n_bytes;
    uint32_t n = 0;
    weft_error err = {0};
    assert_ok(io_system()->list(io_system(), folder.path, mem_system(), &names, &n_bytes, &err),
              &err);
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1) n++;
    mem_free(mem_system(), names, n_bytes);
    return n;
}

/* Saves a longer conversation over the file of a shorter one, with the at-th allocation or
 * operation failing; false: there are not so many. */
static bool save_with_fault(size_t memory_at, size_t operation_at)
{
    shop s;
    fault_io files;
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    const char *path = test_folder_path(&folder, "state");
    open_with_old(&s);
    assert_int_equal(shop_save(&s, tags, TAGS, path), OLD_LEN);
    add_new(&s);
    fault_io_init(&files, operation_at);
    s.store.files = &files.io;
    if (memory_at > 0) s.w.memory.fail_at = s.w.memory.n_allocations + memory_at;
    kv_history h = tags_history(tags, TAGS);
    uint32_t n_saved = 1;
    weft_error err = {0};
    weft_status status = kv_save(&s.store, s.space, &h, path, &n_saved, &err);
    bool hit = files.hit || atomic_load(&s.w.memory.hit);
    weft_status expected = files.hit ? WEFT_IO : hit ? WEFT_NOMEM : WEFT_OK;
    assert_status(expected, status, &err);
    assert_int_equal(n_saved, hit ? 0 : NEW_LEN);
    s.w.memory.fail_at = 0;
    /* Nothing lies beside it, and only what fails behind the rename leaves the new one. */
    assert_int_equal(count_files(), 1);
    uint32_t n = tokens_of(path);
    if (!hit) assert_int_equal(n, NEW_LEN);
    if (hit && strstr(err.message, "folder") == NULL) assert_int_equal(n, OLD_LEN);
    if (hit && strstr(err.message, "folder") != NULL) assert_int_equal(n, NEW_LEN);
    fault_io_check(&files);
    /* Once more, and all is well. */
    s.store.files = io_system();
    assert_int_equal(shop_save(&s, tags, TAGS, path), NEW_LEN);
    assert_int_equal(tokens_of(path), NEW_LEN);
    shop_close(&s);
    return hit;
}

static void test_kv57_saving_fails(void **state)
{
    (void)state;
    size_t n_memory = 0;
    size_t n_operations = 0;
    while (save_with_fault(n_memory + 1, 0)) n_memory++;
    while (save_with_fault(0, n_operations + 1)) n_operations++;
    print_message("%zu allocations and %zu operations failed\n", n_memory, n_operations);
    /* The sections, both ends, create, sync, close, rename, and the folder. */
    assert_int_equal(n_operations, 27);
    assert_true(n_memory >= 3);
}

static bool load_with_fault(const char *path, size_t memory_at, size_t operation_at,
                            uint32_t *n_partly)
{
    shop s;
    fault_io files;
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    shop_open(&s, "bf16", HYBRIDS, COUNT_OF(HYBRIDS), 16);
    fault_io_init(&files, operation_at);
    s.store.files = &files.io;
    if (memory_at > 0) s.w.memory.fail_at = s.w.memory.n_allocations + memory_at;
    kv_loaded loaded;
    weft_error err = {0};
    weft_status status = kv_load(&s.store, s.space, path, &loaded, &err);
    bool hit = files.hit || atomic_load(&s.w.memory.hit);
    s.w.memory.fail_at = 0;
    fault_io_check(&files);
    if (files.hit) {
        /* A close that fails comes too late to matter. */
        assert_ok(status, &err);
        assert_int_equal(loaded.miss, loaded.n_usable > 0 ? KV_MISS_NONE : KV_MISS_READ);
    } else if (hit && status == WEFT_OK) {
        /* The cache had no memory for a part: boundaries are there as a whole or not at all. */
        uint32_t n = loaded.n_usable;
        assert_true(n == 0 || n == OLD_LEN || n == AT[0] || n == NEW_LEN);
        ++*n_partly;
    } else {
        assert_status(hit ? WEFT_NOMEM : WEFT_OK, status, &err);
    }
    assert_int_equal(kv_pool_bytes_reserved(s.w.pool), 0);
    uint32_t n_usable;
    kv_seq *seq = shop_begin(&s, tags, NEW_LEN + 1, &n_usable);
    assert_int_equal(n_usable, loaded.n_usable);
    shop_check(&s, seq, tags);
    kv_seq_destroy(&s.w.memory.allocator, seq);
    s.store.files = io_system();
    assert_int_equal(shop_load(&s, path).n_usable, NEW_LEN);
    shop_close(&s);
    return hit;
}

static void test_kv9_loading_fails(void **state)
{
    (void)state;
    shop s;
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    const char *path = test_folder_path(&folder, "state");
    open_with_old(&s);
    add_new(&s);
    assert_int_equal(shop_save(&s, tags, TAGS, path), NEW_LEN);
    shop_close(&s);
    size_t n_memory = 0;
    size_t n_operations = 0;
    uint32_t n_partly = 0;
    while (load_with_fault(path, n_memory + 1, 0, &n_partly)) n_memory++;
    while (load_with_fault(path, 0, n_operations + 1, &n_partly)) n_operations++;
    print_message("%zu allocations (%u of them left a part) and %zu operations failed\n", n_memory,
                  n_partly, n_operations);
    assert_true(n_memory >= 20 && n_partly > 0);
    /* The sections, the beginning, the header, the end, open and close. */
    assert_int_equal(n_operations, 25);
}

/* A disk that is full, as the system says it: the limit of a file's size. */
static void test_kv57_full_disk(void **state)
{
    (void)state;
    shop s;
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    const char *path = test_folder_path(&folder, "state");
    open_with_old(&s);
    assert_int_equal(shop_save(&s, tags, TAGS, path), OLD_LEN);
    add_new(&s);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    kv_history h = tags_history(tags, TAGS);
    uint32_t n_saved = 1;
    for (rlim_t most = 0; most < 40000; most += 5000) {
        struct rlimit limit = {most, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        weft_error err = {0};
        weft_status status = kv_save(&s.store, s.space, &h, path, &n_saved, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_status(WEFT_IO, status, &err);
        assert_message(&err, "cannot write");
        assert_int_equal(count_files(), 1);
        assert_int_equal(tokens_of(path), OLD_LEN);
    }
    signal(SIGXFSZ, SIG_DFL);
    shop_close(&s);
}

/* Both conversations are saved over one another, for ever. */
static void save_without_end(shop *s, const char *path)
{
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    for (uint32_t i = 0;; i++) {
        kv_history h = tags_history(tags, i % 2 == 0 ? TAGS : OLD_LEN);
        uint32_t n_saved;
        if (kv_save(&s->store, s->space, &h, path, &n_saved, NULL) != WEFT_OK) _exit(1);
    }
}

static void remove_temporaries(void)
{
    char *names;
    size_t n_bytes;
    weft_error err = {0};
    assert_ok(io_system()->list(io_system(), folder.path, mem_system(), &names, &n_bytes, &err),
              &err);
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1) {
        if (strstr(name, ".tmp") != NULL) unlink(test_folder_path(&folder, name));
    }
    mem_free(mem_system(), names, n_bytes);
}

static void test_kv57_killed(void **state)
{
    (void)state;
    shop s;
    uint32_t tags[TAGS];
    fill_tags(tags, TAGS, 1);
    char path[300]; /* the folder's own buffers are used again below */
    snprintf(path, sizeof path, "%s/state", folder.path);
    open_with_old(&s);
    add_new(&s);
    assert_int_equal(shop_save(&s, tags, OLD_LEN, path), OLD_LEN);
    uint32_t n_old = 0;
    uint32_t n_new = 0;
    uint32_t n_left = 0;
    for (uint32_t i = 0; i < n_kills; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child < 0) fail_msg("cannot fork");
        if (child == 0) save_without_end(&s, path);
        struct timespec moment = {0, (long)(rng_u64(1, i) % 6000000)};
        nanosleep(&moment, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        n_left += count_files() > 1;
        uint32_t n = tokens_of(path);
        if (n != OLD_LEN && n != NEW_LEN) fail_msg("%u tokens after %u kills", n, i);
        n_old += n == OLD_LEN;
        n_new += n == NEW_LEN;
        remove_temporaries();
    }
    print_message("%u killed: %u left the short file, %u the long one, %u one half written beside "
                  "it\n",
                  n_kills, n_old, n_new, n_left);
    assert_true(n_kills < 100 || (n_new > 0 && n_left > 0));
    shop_close(&s);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "kills") == 0) n_kills = (uint32_t)strtoul(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kv57_saving_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kv9_loading_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kv57_full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kv57_killed, setup, teardown),
    };
    return TEST_RUN("kv/persist_faults", tests);
}
