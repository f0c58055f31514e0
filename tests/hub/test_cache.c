/* test_cache.c - a cache as other tools leave it: found, listed, removed, and every file operation
 * failing once. */
#include "hub/cache.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/fault.h"
#include "support/test.h"

#define COMMIT_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define COMMIT_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define BLOB_1 "1111111111111111111111111111111111111111"
#define BLOB_2 "2222222222222222222222222222222222222222222222222222222222222222"
#define BLOB_3 "3333333333333333333333333333333333333333"

typedef struct world {
    test_folder folder;
    env env;
    hub_cache cache;
    hub_id id;
} world;

static void make_folder(world *w, const char *name)
{
    weft_error err = {WEFT_OK, ""};
    assert_ok(disk_make_folders(test_folder_path(&w->folder, name), &err), &err);
}

static void make_link(world *w, const char *target, const char *name)
{
    weft_error err = {WEFT_OK, ""};
    assert_ok(disk_link(target, test_folder_path(&w->folder, name), &err), &err);
}

/* o/m: main is A, with a config and weights; B shares the config. */
static void world_create(world *w)
{
    test_folder_create(&w->folder);
    w->env = (env){.allocator = mem_system(), .io = io_system()};
    w->cache = (hub_cache){&w->env, w->folder.path};
    assert_int_equal(hub_id_parse(&w->id, str_of("o/m"), NULL), WEFT_OK);
    make_folder(w, "models--o--m/blobs");
    make_folder(w, "models--o--m/refs/refs/pr");
    make_folder(w, "models--o--m/snapshots/" COMMIT_A "/sub");
    make_folder(w, "models--o--m/snapshots/" COMMIT_B);
    make_folder(w, "datasets--o--d/snapshots/" COMMIT_A);
    test_folder_write(&w->folder, "models--o--m/blobs/" BLOB_1, "{}", 2);
    test_folder_write(&w->folder, "models--o--m/blobs/" BLOB_2, "weights", 7);
    test_folder_write(&w->folder, "models--o--m/blobs/" BLOB_3, "GGUF!", 5);
    test_folder_write(&w->folder, "models--o--m/refs/main", COMMIT_A, 40);
    test_folder_write(&w->folder, "models--o--m/refs/refs/pr/1", COMMIT_B "\n", 41);
    test_folder_write(&w->folder, "models--o--m/refs/stale", "not a commit", 12);
    make_link(w, "../../blobs/" BLOB_1, "models--o--m/snapshots/" COMMIT_A "/config.json");
    make_link(w, "../../blobs/" BLOB_2, "models--o--m/snapshots/" COMMIT_A "/model.safetensors");
    make_link(w, "../../../blobs/" BLOB_2, "models--o--m/snapshots/" COMMIT_A "/sub/again.bin");
    make_link(w, "../../blobs/gone", "models--o--m/snapshots/" COMMIT_A "/dangling.json");
    make_link(w, "../../blobs/" BLOB_1, "models--o--m/snapshots/" COMMIT_B "/config.json");
    make_link(w, "../../blobs/" BLOB_3, "models--o--m/snapshots/" COMMIT_B "/m-Q4_0.gguf");
}

static bool exists(world *w, const char *name)
{
    uint64_t size;
    int64_t used;
    return disk_look(test_folder_path(&w->folder, name), &size, &used) != DISK_NOTHING;
}

static weft_status find(world *w, const char *text, char *path, weft_error *err)
{
    hub_id id;
    strbuf choices;
    weft_status status = hub_id_parse(&id, str_of(text), err);
    assert_int_equal(status, WEFT_OK);
    strbuf_init(&choices, mem_system(), 0);
    status = hub_cache_find(&w->cache, &id, path, &choices, err);
    strbuf_deinit(&choices);
    return status;
}

static void check_found(world *w, const char *text, const char *expected)
{
    char path[IO_PATH_BYTES];
    weft_error err = {WEFT_OK, ""};
    assert_ok(find(w, text, path, &err), &err);
    assert_string_equal(path, test_folder_path(&w->folder, expected));
}

static void test_find(void **state)
{
    (void)state;
    world w;
    char path[IO_PATH_BYTES];
    world_create(&w);
    check_found(&w, "o/m", "models--o--m/snapshots/" COMMIT_A);
    check_found(&w, "o/m@" COMMIT_A, "models--o--m/snapshots/" COMMIT_A);
    check_found(&w, "o/m@aaaaaaa", "models--o--m/snapshots/" COMMIT_A);
    check_found(&w, "o/m@refs/pr/1", "models--o--m/snapshots/" COMMIT_B "/m-Q4_0.gguf");
    check_found(&w, "o/m@bbbbbbbb:q4_0", "models--o--m/snapshots/" COMMIT_B "/m-Q4_0.gguf");
    static const struct {
        const char *text;
        weft_status status;
    } WRONG[] = {{"o/x", WEFT_IO},         {"o/m@stale", WEFT_IO}, {"o/m@aaaaaa", WEFT_IO},
                 {"o/m@ccccccc", WEFT_IO}, {"o/d", WEFT_IO},       {"o/m:Q4_0", WEFT_ARGUMENT}};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        weft_error err = {WEFT_OK, ""};
        assert_status(WRONG[i].status, find(&w, WRONG[i].text, path, &err), &err);
    }
    test_folder_remove(&w.folder);
}

typedef struct seen {
    size_t n;
    char text[512];
} seen;

static bool see(void *user, const hub_cached *e)
{
    seen *s = user;
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof s->text - used, "%s/%s %.1s [%s] %s %llu %zu;", e->id.org,
             e->id.name, e->commit, e->refs, e->kind, (unsigned long long)e->n_bytes, e->n_files);
    s->n++;
    return true;
}

static void test_list(void **state)
{
    (void)state;
    world w;
    seen s = {0};
    weft_error err = {WEFT_OK, ""};
    world_create(&w);
    make_folder(&w, "models--o--z/blobs");
    test_folder_write(&w.folder, "models--o--z/blobs/" BLOB_1 ".incomplete", "abc", 3);
    assert_ok(hub_cache_list(&w.cache, see, &s, &err), &err);
    assert_string_equal(s.text, "o/m a [main] safetensors 9 3;o/m b [refs/pr/1] gguf 7 2;"
                                "o/z  [] incomplete 3 1;");
    w.cache.root = "/nonexistent";
    s = (seen){0};
    assert_ok(hub_cache_list(&w.cache, see, &s, &err), &err);
    assert_int_equal(s.n, 0);
    test_folder_remove(&w.folder);
}

static bool never(void *user)
{
    (void)user;
    return false;
}

static uint64_t remove_id(world *w, const char *text, bool dry)
{
    hub_id id;
    uint64_t n_bytes;
    weft_error err = {WEFT_OK, ""};
    assert_int_equal(hub_id_parse(&id, str_of(text), NULL), WEFT_OK);
    assert_ok(hub_cache_remove(&w->cache, &id, dry, &n_bytes, never, NULL, &err), &err);
    return n_bytes;
}

/* What the other snapshot has stays. */
static void test_remove(void **state)
{
    (void)state;
    world w;
    world_create(&w);
    assert_int_equal(remove_id(&w, "o/m@main", true), 7);
    assert_true(exists(&w, "models--o--m/blobs/" BLOB_2));
    assert_int_equal(remove_id(&w, "o/m@main", false), 7);
    assert_false(exists(&w, "models--o--m/blobs/" BLOB_2));
    assert_false(exists(&w, "models--o--m/snapshots/" COMMIT_A));
    assert_false(exists(&w, "models--o--m/refs/main"));
    assert_true(exists(&w, "models--o--m/blobs/" BLOB_1));
    check_found(&w, "o/m@refs/pr/1", "models--o--m/snapshots/" COMMIT_B "/m-Q4_0.gguf");
    assert_int_equal(remove_id(&w, "o/m", false), 7);
    assert_false(exists(&w, "models--o--m"));
    assert_true(exists(&w, "datasets--o--d"));
    test_folder_remove(&w.folder);
}

/* A lock that somebody has is waited for, and given up when told so. */
static void test_lock(void **state)
{
    (void)state;
    world w;
    disk_lock first = {-1};
    disk_lock second = {-1};
    uint64_t n_bytes;
    char path[IO_PATH_BYTES];
    weft_error err = {WEFT_OK, ""};
    world_create(&w);
    assert_ok(hub_cache_lock_path(&w.cache, &w.id, "weft", path, &err), &err);
    assert_ok(disk_lock_take(&first, path, never, NULL, &err), &err);
    assert_status(WEFT_CANCELLED, disk_lock_take(&second, path, never, NULL, &err), &err);
    assert_int_equal(second.fd, -1);
    err_clear(&err);
    assert_status(WEFT_CANCELLED,
                  hub_cache_remove(&w.cache, &w.id, false, &n_bytes, never, NULL, &err), &err);
    assert_true(exists(&w, "models--o--m"));
    disk_lock_give(&first);
    err_clear(&err);
    assert_ok(disk_lock_take(&second, path, never, NULL, &err), &err);
    disk_lock_give(&second);
    test_folder_remove(&w.folder);
}

static void test_set_ref(void **state)
{
    (void)state;
    world w;
    weft_error err = {WEFT_OK, ""};
    world_create(&w);
    assert_ok(hub_cache_set_ref(&w.cache, &w.id, COMMIT_B, &err), &err);
    check_found(&w, "o/m", "models--o--m/snapshots/" COMMIT_B "/m-Q4_0.gguf");
    snprintf(w.id.revision, sizeof w.id.revision, "%s", COMMIT_A);
    assert_ok(hub_cache_set_ref(&w.cache, &w.id, COMMIT_A, &err), &err);
    assert_false(exists(&w, "models--o--m/refs/" COMMIT_A));
    test_folder_remove(&w.folder);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static weft_status use_all(const env *e, void *user, weft_error *err)
{
    world *w = user;
    seen s = {0};
    uint64_t n_bytes;
    hub_cache cache = {e, w->folder.path};
    hub_id id = w->id;
    weft_status status = hub_cache_list(&cache, see, &s, err);
    if (status == WEFT_OK) status = hub_cache_set_ref(&cache, &id, COMMIT_A, err);
    snprintf(id.revision, sizeof id.revision, "%s", "main");
    if (status == WEFT_OK) status = hub_cache_remove(&cache, &id, true, &n_bytes, never, NULL, err);
    return status;
}

/* Where a failure only means that a thing is not found, the next one still holds. */
static void test_faults_leave_the_ref(void **state)
{
    (void)state;
    world w;
    char commit[HUB_COMMIT_BYTES];
    world_create(&w);
    for (size_t at = 1; at < 60; at++) {
        fault_io disk;
        fault_allocator memory;
        weft_error err = {WEFT_OK, ""};
        fault_io_init(&disk, at);
        fault_allocator_init(&memory, 0);
        env e = {.allocator = &memory.allocator, .io = &disk.io};
        weft_status status = use_all(&e, &w, &err);
        assert_true(status == WEFT_OK || status == WEFT_IO);
        fault_allocator_check(&memory);
        assert_true(hub_cache_commit(&w.cache, &w.id, commit));
        assert_string_equal(commit, COMMIT_A);
        if (!disk.hit) {
            assert_true(at > 15);
            break;
        }
    }
    for (size_t at = 1; at < 60; at++) {
        fault_allocator memory;
        weft_error err = {WEFT_OK, ""};
        fault_allocator_init(&memory, at);
        env e = {.allocator = &memory.allocator, .io = io_system()};
        weft_status status = use_all(&e, &w, &err);
        assert_true(status == WEFT_OK || memory.hit);
        fault_allocator_check(&memory);
        if (!memory.hit) {
            assert_true(at > 15);
            break;
        }
    }
    test_folder_remove(&w.folder);
}

/* Removes main with one fault; whatever it hits, the other snapshot is as it was. */
static bool remove_with_fault(size_t disk_at, size_t memory_at)
{
    world w;
    fault_io disk;
    fault_allocator memory;
    uint64_t n_bytes;
    hub_id id;
    weft_error err = {WEFT_OK, ""};
    world_create(&w);
    fault_io_init(&disk, disk_at);
    fault_allocator_init(&memory, memory_at);
    env e = {.allocator = &memory.allocator, .io = &disk.io};
    hub_cache cache = {&e, w.folder.path};
    assert_int_equal(hub_id_parse(&id, str_of("o/m@" COMMIT_A), NULL), WEFT_OK);
    weft_status status = hub_cache_remove(&cache, &id, false, &n_bytes, never, NULL, &err);
    assert_true(status == WEFT_OK || disk.hit || memory.hit);
    fault_allocator_check(&memory);
    assert_true(exists(&w, "models--o--m/blobs/" BLOB_1));
    assert_true(exists(&w, "models--o--m/blobs/" BLOB_3));
    check_found(&w, "o/m@" COMMIT_B, "models--o--m/snapshots/" COMMIT_B "/m-Q4_0.gguf");
    test_folder_remove(&w.folder);
    return disk.hit || memory.hit;
}

static void test_faults_leave_the_others(void **state)
{
    (void)state;
    size_t n_disk = 1, n_memory = 1;
    while (n_disk < 60 && remove_with_fault(n_disk, 0)) n_disk++;
    while (n_memory < 60 && remove_with_fault(0, n_memory)) n_memory++;
    assert_in_range(n_disk, 5, 59);
    assert_in_range(n_memory, 8, 59);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_remove),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_set_ref),
        cmocka_unit_test(test_faults_leave_the_ref),
        cmocka_unit_test(test_faults_leave_the_others),
    };
    return TEST_RUN("hub/cache", tests);
}
