/* io.c - the operating system's files behind struct io. */
#include "base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

enum { PATH_LIMIT = 4096 };

/* strerror is not safe in threads; strerror_r of POSIX is. */
static weft_status fail(weft_error *err, const char *verb, const char *path, int code)
{
    char reason[96];
    if (strerror_r(code, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "error %d", code);
    return err_set(err, code == ENOMEM ? WEFT_NOMEM : WEFT_IO, "cannot %s '%s': %s", verb, path,
                   reason);
}

static weft_status open_file(const char *path, int *fd, uint64_t *size, weft_error *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return fail(err, "open", path, errno);
    struct stat st;
    if (fstat(*fd, &st) != 0) {
        int code = errno;
        close(*fd);
        return fail(err, "open", path, code);
    }
    if (!S_ISREG(st.st_mode)) {
        close(*fd);
        return err_set(err, WEFT_IO, "cannot open '%s': not a regular file", path);
    }
    *size = (uint64_t)st.st_size;
    return WEFT_OK;
}

static weft_status system_size(const io *files, const char *path, uint64_t *size, weft_error *err)
{
    (void)files;
    int fd;
    *size = 0;
    weft_status status = open_file(path, &fd, size, err);
    if (status == WEFT_OK) close(fd);
    return status;
}

static weft_status system_read(const io *files, const char *path, uint64_t offset, void *buffer,
                               size_t n_bytes, weft_error *err)
{
    (void)files;
    int fd;
    uint64_t size = 0;
    weft_status status = open_file(path, &fd, &size, err);
    if (status != WEFT_OK) return status;
    size_t done = 0;
    while (done < n_bytes) {
        ssize_t n = pread(fd, (char *)buffer + done, n_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            status = fail(err, "read", path, errno);
            break;
        }
        if (n == 0) {
            status = err_set(err, WEFT_IO, "cannot read '%s': it ends at byte %llu, expected %llu",
                             path, (unsigned long long)(offset + done),
                             (unsigned long long)(offset + n_bytes));
            break;
        }
        done += (size_t)n;
    }
    close(fd);
    return status;
}

static weft_status system_map(const io *files, const char *path, io_map *map, weft_error *err)
{
    (void)files;
    *map = (io_map){0};
    int fd;
    uint64_t size = 0;
    weft_status status = open_file(path, &fd, &size, err);
    if (status != WEFT_OK) return status;
    if (size == 0 || size > SIZE_MAX / 2) {
        close(fd);
        return err_set(err, WEFT_FORMAT, "cannot map '%s': it has %llu bytes", path,
                       (unsigned long long)size);
    }
    void *data = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    int code = errno;
    close(fd);
    if (data == MAP_FAILED) return fail(err, "map", path, code);
    *map = (io_map){data, (size_t)size, data};
    return WEFT_OK;
}

static void system_unmap(const io *files, io_map *map)
{
    (void)files;
    if (map->handle != NULL) munmap(map->handle, map->size);
    *map = (io_map){0};
}

static int compare_names(const void *a, const void *b)
{
    const char *const *x = a;
    const char *const *y = b;
    return strcmp(*x, *y);
}

/* Sorts NUL-separated names through a temporary array of pointers. */
static weft_status sort_names(const weft_allocator *allocator, strbuf *names, size_t count)
{
    if (count < 2) return WEFT_OK;
    size_t bytes = count * sizeof(char *);
    const char **order = mem_alloc(allocator, bytes);
    char *sorted = mem_alloc(allocator, names->capacity);
    weft_status status = WEFT_NOMEM;
    if (order != NULL && sorted != NULL) {
        const char *name = names->ptr;
        for (size_t i = 0; i < count; i++, name += strlen(name) + 1) order[i] = name;
        qsort(order, count, sizeof *order, compare_names);
        size_t at = 0;
        for (size_t i = 0; i < count; i++) {
            size_t n = strlen(order[i]) + 1;
            memcpy(sorted + at, order[i], n);
            at += n;
        }
        sorted[at] = '\0';
        char *old = names->ptr;
        names->ptr = sorted;
        sorted = old;
        status = WEFT_OK;
    }
    mem_free(allocator, order, bytes);
    mem_free(allocator, sorted, names->capacity);
    return status;
}

static weft_status system_list(const io *files, const char *path, const weft_allocator *allocator,
                               char **names, size_t *n_bytes, weft_error *err)
{
    (void)files;
    *names = NULL;
    *n_bytes = 0;
    DIR *dir = opendir(path);
    if (dir == NULL) return fail(err, "list", path, errno);
    strbuf buf;
    strbuf_init(&buf, allocator, 1 << 20);
    size_t count = 0;
    strbuf_add(&buf, "", 0);
    errno = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        strbuf_add(&buf, entry->d_name, strlen(entry->d_name) + 1);
        count++;
        errno = 0;
    }
    int code = errno;
    closedir(dir);
    if (code != 0) {
        strbuf_deinit(&buf);
        return fail(err, "list", path, code);
    }
    weft_status status = buf.status;
    if (status == WEFT_OK) status = sort_names(allocator, &buf, count);
    if (status != WEFT_OK) {
        strbuf_deinit(&buf);
        return err_set(err, status, "cannot list '%s': %s", path,
                       status == WEFT_LIMIT ? "too many names" : "out of memory");
    }
    *names = buf.ptr;
    *n_bytes = buf.capacity;
    return WEFT_OK;
}

static bool system_is_folder(const io *files, const char *path)
{
    (void)files;
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static weft_status write_all(int fd, const char *path, const void *data, size_t n_bytes,
                             weft_error *err)
{
    size_t done = 0;
    while (done < n_bytes) {
        ssize_t n = write(fd, (const char *)data + done, n_bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(err, "write", path, errno);
        done += (size_t)n;
    }
    if (fsync(fd) != 0) return fail(err, "sync", path, errno);
    return WEFT_OK;
}

/* A new file beside path. Not mkstemp: the file keeps this one's mode, which should follow the
 * umask. */
static weft_status create_temporary(const char *path, char temporary[PATH_LIMIT], int *fd,
                                    weft_error *err)
{
    for (unsigned attempt = 0;; attempt++) {
        int n = snprintf(temporary, PATH_LIMIT, "%s.%lx-%llx.tmp", path, (unsigned long)getpid(),
                         (unsigned long long)clock_now_ns());
        if (n < 0 || n >= PATH_LIMIT) {
            return err_set(err, WEFT_ARGUMENT, "path of %zu bytes is longer than %d", strlen(path),
                           PATH_LIMIT);
        }
        *fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd >= 0) return WEFT_OK;
        if (errno != EEXIST || attempt == 100) return fail(err, "create", temporary, errno);
    }
}

static weft_status system_write(const io *files, const char *path, const void *data, size_t n_bytes,
                                weft_error *err)
{
    (void)files;
    char temporary[PATH_LIMIT];
    int fd = -1;
    weft_status status = create_temporary(path, temporary, &fd, err);
    if (status != WEFT_OK) return status;
    status = write_all(fd, temporary, data, n_bytes, err);
    if (close(fd) != 0 && status == WEFT_OK) status = fail(err, "close", temporary, errno);
    if (status == WEFT_OK && rename(temporary, path) != 0)
        status = fail(err, "rename", path, errno);
    if (status != WEFT_OK) unlink(temporary);
    return status;
}

static const io SYSTEM = {
    .size = system_size,
    .read = system_read,
    .map = system_map,
    .unmap = system_unmap,
    .list = system_list,
    .is_folder = system_is_folder,
    .write = system_write,
};

const io *io_system(void)
{
    return &SYSTEM;
}

weft_status io_read_file(const io *files, const weft_allocator *allocator, const char *path,
                         size_t limit, char **data, size_t *n_bytes, weft_error *err)
{
    *data = NULL;
    *n_bytes = 0;
    uint64_t size;
    weft_status status = files->size(files, path, &size, err);
    if (status != WEFT_OK) return status;
    if (size > limit) {
        return err_set(err, WEFT_LIMIT, "'%s' has %llu bytes, at most %zu are read", path,
                       (unsigned long long)size, limit);
    }
    char *buffer = mem_alloc(allocator, (size_t)size + 1);
    if (buffer == NULL) return err_set(err, WEFT_NOMEM, "cannot read '%s': out of memory", path);
    if (size != 0) status = files->read(files, path, 0, buffer, (size_t)size, err);
    if (status != WEFT_OK) {
        mem_free(allocator, buffer, (size_t)size + 1);
        return status;
    }
    buffer[size] = '\0';
    *data = buffer;
    *n_bytes = (size_t)size;
    return WEFT_OK;
}
