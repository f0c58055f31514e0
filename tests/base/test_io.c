/* test_io.c - the system's files: what is read, mapped, listed and written, and what refuses. */
#include "base/io.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/fault.h"
#include "support/group_folder.h"

static void test_size_and_read(void **state)
{
    (void)state;
    const io *files = io_system();
    const char *path = test_folder_write(&folder, "file", "0123456789", 10);
    weft_error err = {0};
    uint64_t size;
    assert_ok(files->size(files, path, &size, &err), &err);
    assert_int_equal(size, 10);
    char buffer[11] = {0};
    assert_ok(files->read(files, path, 3, buffer, 7, &err), &err);
    assert_string_equal(buffer, "3456789");
    assert_ok(files->read(files, path, 10, buffer, 0, &err), &err);
    assert_status(WEFT_IO, files->read(files, path, 3, buffer, 8, &err), &err);
    assert_message(&err, "10");
    assert_message(&err, "11");
    err_clear(&err);
    assert_status(WEFT_IO, files->read(files, path, UINT64_MAX - 3, buffer, 2, &err), &err);
}

static void test_refusals(void **state)
{
    (void)state;
    const io *files = io_system();
    const char *fifo = test_folder_path(&folder, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    /* Missing, a folder, and a pipe, on which a plain open would hang. */
    const char *paths[3] = {test_folder_path(&folder, "missing"), folder.path, fifo};
    for (size_t i = 0; i < 3; i++) {
        weft_error err = {0};
        uint64_t size = 1;
        char c;
        assert_status(WEFT_IO, files->size(files, paths[i], &size, &err), &err);
        assert_message(&err, paths[i]);
        assert_int_equal(size, 0);
        err_clear(&err);
        assert_status(WEFT_IO, files->read(files, paths[i], 0, &c, 1, &err), &err);
        err_clear(&err);
        io_map map = {.data = (const unsigned char *)"", .size = 1, .handle = &c};
        assert_status(WEFT_IO, files->map(files, paths[i], &map, &err), &err);
        assert_null(map.data);
        files->unmap(files, &map);
    }
    weft_error err = {0};
    char *names;
    size_t n_bytes;
    assert_status(WEFT_IO, files->list(files, paths[0], mem_system(), &names, &n_bytes, &err),
                  &err);
    assert_null(names);
    assert_int_equal(n_bytes, 0);
    assert_true(files->is_folder(files, folder.path));
    assert_false(files->is_folder(files, paths[0]));
    assert_false(files->is_folder(files, fifo));
}

static void test_map(void **state)
{
    (void)state;
    const io *files = io_system();
    const char *path = test_folder_write(&folder, "file", "abcdef", 6);
    io_map map;
    weft_error err = {0};
    assert_ok(files->map(files, path, &map, &err), &err);
    assert_int_equal(map.size, 6);
    assert_memory_equal(map.data, "abcdef", 6);
    assert_int_equal((uintptr_t)map.data % 4096, 0);
    files->unmap(files, &map);
    assert_null(map.data);
    files->unmap(files, &map);
    const char *nothing = test_folder_write(&folder, "empty", "", 0);
    assert_status(WEFT_FORMAT, files->map(files, nothing, &map, &err), &err);
    assert_null(map.data);
}

static void check_list(const char *path, const char *const expected[], size_t n_expected)
{
    fault_allocator fault;
    fault_allocator_init(&fault, 0);
    char *names;
    size_t n_bytes;
    weft_error err = {0};
    assert_ok(io_system()->list(io_system(), path, &fault.allocator, &names, &n_bytes, &err), &err);
    const char *name = names;
    for (size_t i = 0; i < n_expected; i++) {
        assert_string_equal(name, expected[i]);
        name += strlen(name) + 1;
    }
    assert_string_equal(name, "");
    assert_true((size_t)(name - names) < n_bytes);
    mem_free(&fault.allocator, names, n_bytes);
    fault_allocator_check(&fault);
}

static void test_list(void **state)
{
    (void)state;
    check_list(folder.path, NULL, 0);
    static const char *const NAMES[] = {"..a", ".hidden", "B", "a", "a-2", "a1", "\xc3\xa9"};
    enum { N = sizeof NAMES / sizeof NAMES[0] };
    for (size_t i = 0; i < N; i++) test_folder_write(&folder, NAMES[(i * 3) % N], "", 0);
    check_list(folder.path, NAMES, N);
}

static void test_list_limit(void **state)
{
    (void)state;
    char name[230];
    memset(name, 'n', sizeof name);
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(name + 210, 20, "%05u", i);
        test_folder_write(&folder, name, "", 0);
    }
    weft_error err = {0};
    char *names;
    size_t n_bytes;
    assert_status(WEFT_LIMIT,
                  io_system()->list(io_system(), folder.path, mem_system(), &names, &n_bytes, &err),
                  &err);
    assert_null(names);
}

static void test_write(void **state)
{
    (void)state;
    const io *files = io_system();
    const char *path = test_folder_path(&folder, "file");
    weft_error err = {0};
    assert_ok(files->write(files, path, "first", 5, &err), &err);
    mode_t old = umask(0077);
    assert_ok(files->write(files, path, "second", 6, &err), &err);
    umask(old);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    char *data;
    size_t n_bytes;
    assert_ok(io_read_file(files, mem_system(), path, 6, &data, &n_bytes, &err), &err);
    assert_string_equal(data, "second");
    mem_free(mem_system(), data, n_bytes + 1);
    assert_ok(files->write(files, path, NULL, 0, &err), &err);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);

    /* What cannot be written leaves nothing behind. */
    assert_int_equal(mkdir(test_folder_path(&folder, "sub"), 0700), 0);
    assert_status(WEFT_IO, files->write(files, test_folder_path(&folder, "sub"), "x", 1, &err),
                  &err);
    err_clear(&err);
    assert_status(WEFT_IO, files->write(files, test_folder_path(&folder, "no/file"), "x", 1, &err),
                  &err);
    err_clear(&err);
    char longer[5000];
    memset(longer, 'a', sizeof longer);
    longer[4999] = '\0';
    assert_status(WEFT_ARGUMENT, files->write(files, longer, "x", 1, &err), &err);
    assert_message(&err, "4999");
    static const char *const LEFT[] = {"file", "sub"};
    check_list(folder.path, LEFT, 2);
}

/* A file in pieces: nobody sees it before it is renamed, and what is open stays what it was. */
static void test_pieces(void **state)
{
    (void)state;
    const io *files = io_system();
    char path[300];
    char temporary[IO_PATH_BYTES];
    snprintf(path, sizeof path, "%s/file", folder.path);
    weft_error err = {0};
    io_file old;
    io_file f;
    uint64_t size = 7;
    char data[8] = "";
    assert_false(files->exists(files, path));
    assert_status(WEFT_IO, files->open(files, path, &old, &size, &err), &err);
    assert_int_equal(size, 0);
    err_clear(&err);
    assert_ok(files->write(files, path, "old one", 7, &err), &err);
    assert_true(files->exists(files, path));
    assert_ok(files->open(files, path, &old, &size, &err), &err);
    assert_int_equal(size, 7);
    assert_ok(files->create(files, path, temporary, &f, &err), &err);
    assert_ok(files->write_at(files, &f, 4, "text", 4, &err), &err);
    assert_ok(files->write_at(files, &f, 0, "more", 4, &err), &err);
    assert_ok(files->sync(files, &f, &err), &err);
    assert_ok(files->close(files, &f, &err), &err);
    assert_ok(files->read_at(files, &old, 0, data, 7, &err), &err);
    assert_ok(files->rename(files, temporary, path, &err), &err);
    assert_ok(files->sync_folder(files, path, &err), &err);
    assert_ok(files->read_at(files, &old, 4, data, 3, &err), &err);
    assert_memory_equal(data, "one one", 7);
    assert_status(WEFT_IO, files->read_at(files, &old, 4, data, 4, &err), &err);
    assert_message(&err, "ends at byte 7");
    err_clear(&err);
    assert_ok(files->close(files, &old, &err), &err);
    assert_ok(files->open(files, path, &f, &size, &err), &err);
    assert_int_equal(size, 8);
    assert_ok(files->read_at(files, &f, 0, data, 8, &err), &err);
    assert_memory_equal(data, "moretext", 8);
    assert_ok(files->close(files, &f, &err), &err);
    files->remove(files, path);
    assert_false(files->exists(files, path));
    assert_status(WEFT_IO, files->rename(files, path, temporary, &err), &err);
    err_clear(&err);
    snprintf(path, sizeof path, "%s/no/file", folder.path);
    assert_status(WEFT_IO, files->create(files, path, temporary, &f, &err), &err);
    err_clear(&err);
    assert_status(WEFT_IO, files->sync_folder(files, path, &err), &err);
    err_clear(&err);
    assert_ok(files->sync_folder(files, "file", &err), &err);
    assert_ok(files->sync_folder(files, "/file", &err), &err);
    check_list(folder.path, NULL, 0);
}

static void test_read_file(void **state)
{
    (void)state;
    const io *files = io_system();
    const char *path = test_folder_write(&folder, "file", "ab\0cd", 5);
    weft_error err = {0};
    char *data = &(char){0};
    size_t n_bytes = 1;
    assert_status(WEFT_LIMIT, io_read_file(files, mem_system(), path, 4, &data, &n_bytes, &err),
                  &err);
    assert_message(&err, "5 bytes");
    assert_message(&err, "4");
    assert_null(data);
    assert_int_equal(n_bytes, 0);
    err_clear(&err);
    assert_ok(io_read_file(files, mem_system(), path, SIZE_MAX, &data, &n_bytes, &err), &err);
    assert_int_equal(n_bytes, 5);
    assert_memory_equal(data, "ab\0cd", 6);
    mem_free(mem_system(), data, n_bytes + 1);
    path = test_folder_write(&folder, "empty", "", 0);
    assert_ok(io_read_file(files, mem_system(), path, 0, &data, &n_bytes, &err), &err);
    assert_int_equal(n_bytes, 0);
    assert_string_equal(data, "");
    mem_free(mem_system(), data, 1);
}

static weft_status read_and_list(const env *world, void *user, weft_error *err)
{
    (void)user;
    char *data;
    char *names;
    size_t n_bytes;
    const char *path = test_folder_path(&folder, "file");
    weft_status status = io_read_file(world->io, world->allocator, path, 100, &data, &n_bytes, err);
    if (status != WEFT_OK) {
        assert_null(data);
        return status;
    }
    mem_free(world->allocator, data, n_bytes + 1);
    status = world->io->list(world->io, folder.path, world->allocator, &names, &n_bytes, err);
    if (status != WEFT_OK) assert_null(names);
    mem_free(world->allocator, names, n_bytes);
    return status;
}

static void test_sweeps(void **state)
{
    (void)state;
    static const char *const NAMES[] = {
        "file", "a file whose name fills the first buffer, which is small",
        "another file that makes the buffer grow a second time, or so"};
    for (size_t i = 0; i < 3; i++) test_folder_write(&folder, NAMES[i], "abc", 3);
    assert_int_equal(fault_sweep(read_and_list, NULL), 5);
    assert_int_equal(fault_sweep_io(read_and_list, NULL), 3);
}

/* A folder that is there under its name when it is complete. */
static void test_new_folder(void **state)
{
    (void)state;
    const io *files = io_system();
    test_folder place;
    char one[IO_PATH_BYTES];
    char two[IO_PATH_BYTES];
    weft_error err = {WEFT_OK, ""};
    test_folder_create(&place);
    const char *path = test_folder_path(&place, "f");
    assert_ok(files->create_folder(files, path, one, &err), &err);
    assert_ok(files->create_folder(files, path, two, &err), &err);
    assert_string_not_equal(one, two);
    assert_true(files->is_folder(files, one) && !files->exists(files, path));
    assert_ok(files->rename_new(files, one, path, &err), &err);
    assert_true(files->is_folder(files, path) && !files->exists(files, one));
    /* An empty folder of that name is not replaced. */
    assert_status(WEFT_IO, files->rename_new(files, two, path, &err), &err);
    assert_true(files->is_folder(files, two));
    files->remove_folder(files, two);
    assert_false(files->exists(files, two));
    err = (weft_error){WEFT_OK, ""};
    assert_status(WEFT_IO, files->create_folder(files, test_folder_path(&place, "no/f"), one, &err),
                  &err);
    char longer[IO_PATH_BYTES + 1];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    err = (weft_error){WEFT_OK, ""};
    assert_status(WEFT_ARGUMENT, files->create_folder(files, longer, one, &err), &err);
    /* What is not empty stays. */
    test_folder_write(&place, "f/x", "x", 1);
    files->remove_folder(files, path);
    assert_true(files->is_folder(files, path));
    test_folder_remove(&place);
}

/* Whole blocks of a file that is mapped, the last of which is not whole. */
static void test_blocks(void **state)
{
    (void)state;
    const io *files = io_system();
    static unsigned char content[2 * IO_BLOCK + 5];
    for (size_t i = 0; i < sizeof content; i++) content[i] = (unsigned char)(i * 31 >> 3);
    const char *path = test_folder_write(&folder, "blocks", content, sizeof content);
    weft_error err = {WEFT_OK, ""};
    io_map map;
    io_file f;
    unsigned char *to = mem_alloc_aligned(mem_system(), 3 * IO_BLOCK, IO_BLOCK);
    assert_true(to != NULL && (uintptr_t)to % IO_BLOCK == 0);
    assert_ok(files->map(files, path, &map, &err), &err);
    assert_ok(files->open_blocks(files, path, &map, &f, &err), &err);
    assert_ok(files->read_blocks(files, &f, 0, to, 3 * IO_BLOCK, sizeof content, &err), &err);
    assert_memory_equal(to, content, sizeof content);
    assert_ok(files->read_blocks(files, &f, IO_BLOCK, to, IO_BLOCK, IO_BLOCK, &err), &err);
    assert_memory_equal(to, content + IO_BLOCK, IO_BLOCK);
    assert_ok(files->read_blocks(files, &f, 2 * IO_BLOCK, to, IO_BLOCK, 5, &err), &err);
    assert_memory_equal(to, content + 2 * IO_BLOCK, 5);
    assert_status(WEFT_IO, files->read_blocks(files, &f, 2 * IO_BLOCK, to, IO_BLOCK, 6, &err),
                  &err);
    assert_message(&err, "it ends at byte 8197, expected 8198");
    /* Memory that a direct read refuses is read into all the same. */
    err = (weft_error){WEFT_OK, ""};
    assert_ok(files->read_blocks(files, &f, 0, to + 1, IO_BLOCK, IO_BLOCK, &err), &err);
    assert_memory_equal(to + 1, content, IO_BLOCK);
    assert_ok(files->close(files, &f, &err), &err);
    /* The path is another file's, or nobody's. */
    assert_ok(files->write(files, path, content, sizeof content, &err), &err);
    assert_status(WEFT_IO, files->open_blocks(files, path, &map, &f, &err), &err);
    assert_message(&err, "is another file than when the model was opened");
    assert_int_equal(f.fd, -1);
    files->remove(files, path);
    err = (weft_error){WEFT_OK, ""};
    assert_status(WEFT_IO, files->open_blocks(files, path, &map, &f, &err), &err);
    assert_message(&err, "': No such file or directory");
    files->unmap(files, &map);
    mem_free_aligned(mem_system(), to, 3 * IO_BLOCK, IO_BLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_size_and_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_map, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_read_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sweeps, setup, teardown),
        cmocka_unit_test(test_new_folder),
    };
    return TEST_RUN("base/io", tests);
}
