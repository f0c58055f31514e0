/* fault.c - failing memory and files. */
#include "support/fault.h"

#include <stdio.h>
#include <string.h>

#include "support/test.h"

#ifdef FAULT_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

enum { GUARD_BYTES = 64, FRESH = 0xa5, GUARD = 0xfd, STALE = 0xdd, MOST_RUNS = 1000000 };

#define BLOCK_MAGIC 0x776566746661756cu

/* Stands right before the bytes handed out, in a space of max(GUARD_BYTES, align). */
typedef struct block_head {
    uint64_t magic;
    size_t size;
    size_t align;
    size_t space; /* from the start of the system's block to the bytes handed out */
} block_head;

/* mock_assert fails the running test; a test of this file catches it with expect_assert_failure. */
static void violation(const char *what)
{
    mock_assert(0, what, __FILE__, __LINE__);
}

static block_head *head_of(void *ptr)
{
    return (block_head *)(void *)((unsigned char *)ptr - sizeof(block_head));
}

static size_t space_for(size_t align)
{
    return align > GUARD_BYTES ? align : (size_t)GUARD_BYTES;
}

static void *block_create(fault_allocator *fault, size_t size, size_t align)
{
    size_t space = space_for(align);
    if (size > SIZE_MAX / 2) return NULL;
    size_t total = space + size + GUARD_BYTES;
    unsigned char *start = mem_system()->resize(NULL, NULL, 0, total, align);
    if (start == NULL) return NULL;
    unsigned char *ptr = start + space;
    block_head head = {BLOCK_MAGIC, size, align, space};
    memset(start, GUARD, space);
    memcpy(ptr - sizeof head, &head, sizeof head);
    memset(ptr, FRESH, size);
    memset(ptr + size, GUARD, GUARD_BYTES);
    ASAN_POISON_MEMORY_REGION(start, space);
    ASAN_POISON_MEMORY_REGION(ptr + size, GUARD_BYTES);
    atomic_fetch_add(&fault->live_blocks, 1);
    size_t live = atomic_fetch_add(&fault->live_bytes, size) + size;
    size_t peak = atomic_load(&fault->peak_bytes);
    while (peak < live && !atomic_compare_exchange_weak(&fault->peak_bytes, &peak, live)) continue;
    return ptr;
}

static void check_block(unsigned char *ptr, size_t size, size_t align)
{
    ASAN_UNPOISON_MEMORY_REGION(ptr - GUARD_BYTES, GUARD_BYTES);
    block_head *head = head_of(ptr);
    if (head->magic != BLOCK_MAGIC) violation("not a live block, or written before its start");
    if (head->size != size) {
        print_error("a block of %zu bytes is said to have %zu\n", head->size, size);
        violation("the size told is not the block's");
    }
    if (head->align != align) violation("the alignment told is not the block's");
    ASAN_UNPOISON_MEMORY_REGION(ptr - head->space, head->space);
    for (unsigned char *p = ptr - head->space; p < (unsigned char *)head; p++) {
        if (*p != GUARD) violation("written before the start of a block");
    }
    ASAN_UNPOISON_MEMORY_REGION(ptr + size, GUARD_BYTES);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (ptr[size + i] != GUARD) violation("written behind the end of a block");
    }
}

static void block_destroy(fault_allocator *fault, unsigned char *ptr, size_t size, size_t align)
{
    block_head *head = head_of(ptr);
    size_t space = head->space;
    head->magic = 0;
    memset(ptr, STALE, size);
    mem_system()->resize(NULL, ptr - space, space + size + GUARD_BYTES, 0, align);
    atomic_fetch_sub(&fault->live_blocks, 1);
    atomic_fetch_sub(&fault->live_bytes, size);
}

static void *fault_resize(void *user, void *ptr, size_t old_size, size_t new_size, size_t align)
{
    fault_allocator *fault = user;
    if (align == 0 || (align & (align - 1)) != 0) violation("the alignment is no power of two");
    if (ptr != NULL) check_block(ptr, old_size, align);
    if (ptr == NULL && old_size != 0) violation("no block, but an old size");
    if (new_size == 0) {
        if (ptr != NULL) block_destroy(fault, ptr, old_size, align);
        return NULL;
    }
    if (fault->armed) violation("an allocation where none may happen");
    size_t nth = atomic_fetch_add(&fault->n_allocations, 1) + 1;
    bool refuse = nth == fault->fail_at;
    if (refuse) atomic_store(&fault->hit, true);
    if (fault->largest != 0 && new_size > fault->largest) refuse = true;
    void *fresh = refuse ? NULL : block_create(fault, new_size, align);
    if (fresh != NULL && ptr != NULL) {
        memcpy(fresh, ptr, old_size < new_size ? old_size : new_size);
        block_destroy(fault, ptr, old_size, align);
    } else if (ptr != NULL) {
        size_t space = head_of(ptr)->space;
        ASAN_POISON_MEMORY_REGION((unsigned char *)ptr - space, space);
        ASAN_POISON_MEMORY_REGION((unsigned char *)ptr + old_size, GUARD_BYTES);
    }
    return fresh;
}

void fault_allocator_init(fault_allocator *fault, size_t fail_at)
{
    *fault = (fault_allocator){.allocator = {fault, fault_resize}, .fail_at = fail_at};
}

void fault_allocator_check(const fault_allocator *fault)
{
    size_t blocks = atomic_load(&fault->live_blocks);
    size_t bytes = atomic_load(&fault->live_bytes);
    if (blocks == 0 && bytes == 0) return;
    print_error("%zu blocks with %zu bytes are still live\n", blocks, bytes);
    violation("memory is still live");
}

/* ---- files ---- */

static weft_status count_operation(fault_io *fault, const char *verb, const char *path,
                                   weft_error *err)
{
    size_t nth = atomic_fetch_add(&fault->n_operations, 1) + 1;
    if (nth != atomic_load(&fault->fail_at)) return WEFT_OK;
    atomic_store(&fault->hit, true);
    return err_set(err, WEFT_IO, "cannot %s '%s': injected fault", verb, path);
}

static weft_status fault_size(const io *files, const char *path, uint64_t *size, weft_error *err)
{
    fault_io *fault = files->user;
    *size = 0;
    weft_status status = count_operation(fault, "size", path, err);
    return status != WEFT_OK ? status : fault->inner->size(fault->inner, path, size, err);
}

static weft_status fault_read(const io *files, const char *path, uint64_t offset, void *buffer,
                              size_t n_bytes, weft_error *err)
{
    fault_io *fault = files->user;
    weft_status status = count_operation(fault, "read", path, err);
    if (status != WEFT_OK) return status;
    return fault->inner->read(fault->inner, path, offset, buffer, n_bytes, err);
}

static weft_status fault_map(const io *files, const char *path, io_map *map, weft_error *err)
{
    fault_io *fault = files->user;
    *map = (io_map){0};
    weft_status status = count_operation(fault, "map", path, err);
    if (status == WEFT_OK) status = fault->inner->map(fault->inner, path, map, err);
    if (status == WEFT_OK) fault->live_maps++;
    return status;
}

static void fault_unmap(const io *files, io_map *map)
{
    fault_io *fault = files->user;
    if (map->handle != NULL) {
        if (fault->live_maps == 0) violation("unmapped more than was mapped");
        fault->live_maps--;
    }
    fault->inner->unmap(fault->inner, map);
}

static weft_status fault_list(const io *files, const char *path, const weft_allocator *allocator,
                              char **names, size_t *n_bytes, weft_error *err)
{
    fault_io *fault = files->user;
    *names = NULL;
    *n_bytes = 0;
    weft_status status = count_operation(fault, "list", path, err);
    if (status != WEFT_OK) return status;
    return fault->inner->list(fault->inner, path, allocator, names, n_bytes, err);
}

static bool fault_is_folder(const io *files, const char *path)
{
    fault_io *fault = files->user;
    return fault->inner->is_folder(fault->inner, path);
}

static weft_status fault_stamp(const io *files, const char *path, uint64_t *size, uint64_t *touched,
                               weft_error *err)
{
    fault_io *fault = files->user;
    *size = *touched = 0;
    weft_status status = count_operation(fault, "look at", path, err);
    return status != WEFT_OK ? status : fault->inner->stamp(fault->inner, path, size, touched, err);
}

static void fault_touch(const io *files, const char *path)
{
    fault_io *fault = files->user;
    fault->inner->touch(fault->inner, path);
}

static weft_status fault_write(const io *files, const char *path, const void *data, size_t n_bytes,
                               weft_error *err)
{
    fault_io *fault = files->user;
    weft_status status = count_operation(fault, "write", path, err);
    if (status != WEFT_OK) return status;
    return fault->inner->write(fault->inner, path, data, n_bytes, err);
}

static bool fault_exists(const io *files, const char *path)
{
    fault_io *fault = files->user;
    return fault->inner->exists(fault->inner, path);
}

static weft_status fault_open(const io *files, const char *path, io_file *f, uint64_t *size,
                              weft_error *err)
{
    fault_io *fault = files->user;
    *f = (io_file){.fd = -1};
    *size = 0;
    weft_status status = count_operation(fault, "open", path, err);
    if (status == WEFT_OK) status = fault->inner->open(fault->inner, path, f, size, err);
    if (status == WEFT_OK) fault->live_files++;
    return status;
}

static weft_status fault_create(const io *files, const char *path, char *temporary, io_file *f,
                                weft_error *err)
{
    fault_io *fault = files->user;
    *f = (io_file){.fd = -1};
    weft_status status = count_operation(fault, "create", path, err);
    if (status == WEFT_OK) status = fault->inner->create(fault->inner, path, temporary, f, err);
    if (status == WEFT_OK) fault->live_files++;
    return status;
}

static weft_status fault_read_at(const io *files, const io_file *f, uint64_t offset, void *buffer,
                                 size_t n_bytes, weft_error *err)
{
    fault_io *fault = files->user;
    weft_status status = count_operation(fault, "read", f->path, err);
    if (status != WEFT_OK) return status;
    return fault->inner->read_at(fault->inner, f, offset, buffer, n_bytes, err);
}

static weft_status fault_open_blocks(const io *files, const char *path, const io_map *map,
                                     io_file *f, weft_error *err)
{
    fault_io *fault = files->user;
    *f = (io_file){.fd = -1};
    weft_status status = count_operation(fault, "open", path, err);
    if (status == WEFT_OK) status = fault->inner->open_blocks(fault->inner, path, map, f, err);
    if (status == WEFT_OK) fault->live_files++;
    return status;
}

static weft_status fault_read_blocks(const io *files, const io_file *f, uint64_t offset,
                                     void *buffer, size_t n_bytes, size_t n_least, weft_error *err)
{
    fault_io *fault = files->user;
    weft_status status = count_operation(fault, "read", f->path, err);
    if (status != WEFT_OK) return status;
    return fault->inner->read_blocks(fault->inner, f, offset, buffer, n_bytes, n_least, err);
}

/* As of a disk that is full: a part of it is written. */
static weft_status fault_write_at(const io *files, const io_file *f, uint64_t offset,
                                  const void *data, size_t n_bytes, weft_error *err)
{
    fault_io *fault = files->user;
    weft_status status = count_operation(fault, "write", f->path, err);
    size_t n = status == WEFT_OK ? n_bytes : n_bytes / 2;
    weft_status written = fault->inner->write_at(fault->inner, f, offset, data, n, err);
    return status == WEFT_OK ? written : status;
}

static weft_status fault_sync(const io *files, const io_file *f, weft_error *err)
{
    fault_io *fault = files->user;
    weft_status status = count_operation(fault, "sync", f->path, err);
    return status != WEFT_OK ? status : fault->inner->sync(fault->inner, f, err);
}

static weft_status fault_close(const io *files, io_file *f, weft_error *err)
{
    fault_io *fault = files->user;
    if (fault->live_files == 0) violation("closed more than was opened");
    fault->live_files--;
    weft_status status = count_operation(fault, "close", f->path, err);
    weft_status closed = fault->inner->close(fault->inner, f, err);
    return status == WEFT_OK ? closed : status;
}

static weft_status fault_rename(const io *files, const char *from, const char *to, weft_error *err)
{
    fault_io *fault = files->user;
    weft_status status = count_operation(fault, "rename", from, err);
    return status != WEFT_OK ? status : fault->inner->rename(fault->inner, from, to, err);
}

static weft_status fault_sync_folder(const io *files, const char *path, weft_error *err)
{
    fault_io *fault = files->user;
    weft_status status = count_operation(fault, "sync the folder of", path, err);
    return status != WEFT_OK ? status : fault->inner->sync_folder(fault->inner, path, err);
}

static void fault_remove(const io *files, const char *path)
{
    fault_io *fault = files->user;
    fault->inner->remove(fault->inner, path);
}

static weft_status fault_create_folder(const io *files, const char *path, char *temporary,
                                       weft_error *err)
{
    fault_io *fault = files->user;
    weft_status status = count_operation(fault, "create", path, err);
    if (status != WEFT_OK) return status;
    return fault->inner->create_folder(fault->inner, path, temporary, err);
}

static weft_status fault_rename_new(const io *files, const char *from, const char *to,
                                    weft_error *err)
{
    fault_io *fault = files->user;
    weft_status status = count_operation(fault, "rename", from, err);
    return status != WEFT_OK ? status : fault->inner->rename_new(fault->inner, from, to, err);
}

static void fault_remove_folder(const io *files, const char *path)
{
    fault_io *fault = files->user;
    fault->inner->remove_folder(fault->inner, path);
}

void fault_io_init(fault_io *fault, size_t fail_at)
{
    *fault = (fault_io){
        .io = {.user = fault,
               .size = fault_size,
               .read = fault_read,
               .map = fault_map,
               .unmap = fault_unmap,
               .list = fault_list,
               .is_folder = fault_is_folder,
               .stamp = fault_stamp,
               .touch = fault_touch,
               .write = fault_write,
               .exists = fault_exists,
               .open = fault_open,
               .create = fault_create,
               .read_at = fault_read_at,
               .open_blocks = fault_open_blocks,
               .read_blocks = fault_read_blocks,
               .write_at = fault_write_at,
               .sync = fault_sync,
               .close = fault_close,
               .rename = fault_rename,
               .sync_folder = fault_sync_folder,
               .remove = fault_remove,
               .create_folder = fault_create_folder,
               .rename_new = fault_rename_new,
               .remove_folder = fault_remove_folder},
        .inner = io_system(),
        .fail_at = fail_at,
    };
}

void fault_io_check(const fault_io *fault)
{
    if (fault->live_maps == 0 && fault->live_files == 0) return;
    print_error("%zu maps and %zu files are still live\n", fault->live_maps, fault->live_files);
    violation("maps or files are still live");
}

/* ---- sweeps ---- */

static bool run_one(fault_scenario scenario, void *user, size_t allocation_at, size_t operation_at)
{
    fault_allocator memory;
    fault_io files;
    fault_allocator_init(&memory, allocation_at);
    fault_io_init(&files, operation_at);
    weft_error err = {0};
    const env world = {&memory.allocator, &files.io, NULL};
    weft_status status = scenario(&world, user, &err);
    bool hit = atomic_load(&memory.hit) || atomic_load(&files.hit);
    weft_status expected = atomic_load(&files.hit) ? WEFT_IO : hit ? WEFT_NOMEM : WEFT_OK;
    if (status != expected || err.status != expected) {
        print_error("with fault %zu: status %d, error %d, expected %d; message: '%s'\n",
                    allocation_at + operation_at, status, err.status, expected, err.message);
        violation("a fault did not become its status");
    }
    fault_allocator_check(&memory);
    fault_io_check(&files);
    return hit;
}

size_t fault_sweep(fault_scenario scenario, void *user)
{
    size_t n_faults = 0;
    while (run_one(scenario, user, n_faults + 1, 0)) {
        if (++n_faults == MOST_RUNS) violation("the sweep does not end");
    }
    return n_faults;
}

size_t fault_sweep_io(fault_scenario scenario, void *user)
{
    size_t n_faults = 0;
    while (run_one(scenario, user, 0, n_faults + 1)) {
        if (++n_faults == MOST_RUNS) violation("the sweep does not end");
    }
    return n_faults;
}
