/* io.c - the operating system's files behind struct io. */
// NOLINTNEXTLINE(bugprone-reserved-identifier): the C library's
#define _DEFAULT_SOURCE /* syscall; not _GNU_SOURCE, with which strerror_r is another one */
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
#if defined(__linux__)
#include <linux/fs.h>
#include <sys/syscall.h>
#endif

#include "base/clock.h"
#include "base/str.h"

/* glibc has the name for _GNU_SOURCE only. */
#if !defined(O_DIRECT) && defined(__O_DIRECT)
#define O_DIRECT __O_DIRECT
#endif

/* strerror is not safe in threads; strerror_r of POSIX is. */
weft_status io_fail(weft_error *err, const char *verb, const char *path, int code)
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
    if (*fd < 0) return io_fail(err, "open", path, errno);
    struct stat st;
    if (fstat(*fd, &st) != 0) {
        int code = errno;
        close(*fd);
        return io_fail(err, "open", path, code);
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

/* A folder, a device or a pipe is no file here, and is not opened. */
static weft_status system_stamp(const io *files, const char *path, uint64_t *size,
                                uint64_t *touched, weft_error *err)
{
    (void)files;
    struct stat st;
    *size = *touched = 0;
    if (stat(path, &st) != 0) return io_fail(err, "look at", path, errno);
    if (!S_ISREG(st.st_mode))
        return err_set(err, WEFT_IO, "cannot look at '%s': not a regular file", path);
    *size = (uint64_t)st.st_size;
    if (st.st_mtim.tv_sec > 0)
        *touched = (uint64_t)st.st_mtim.tv_sec * 1000000000U + (uint64_t)st.st_mtim.tv_nsec;
    return WEFT_OK;
}

static void system_touch(const io *files, const char *path)
{
    (void)files;
    utimensat(AT_FDCWD, path, NULL, 0);
}

static weft_status read_all(int fd, const char *path, uint64_t offset, void *buffer, size_t n_bytes,
                            weft_error *err)
{
    size_t done = 0;
    while (done < n_bytes) {
        ssize_t n = pread(fd, (char *)buffer + done, n_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_fail(err, "read", path, errno);
        if (n == 0) {
            return err_set(err, WEFT_IO, "cannot read '%s': it ends at byte %llu, expected %llu",
                           path, (unsigned long long)(offset + done),
                           (unsigned long long)(offset + n_bytes));
        }
        done += (size_t)n;
    }
    return WEFT_OK;
}

static weft_status system_read(const io *files, const char *path, uint64_t offset, void *buffer,
                               size_t n_bytes, weft_error *err)
{
    (void)files;
    int fd;
    uint64_t size = 0;
    weft_status status = open_file(path, &fd, &size, err);
    if (status != WEFT_OK) return status;
    status = read_all(fd, path, offset, buffer, n_bytes, err);
    close(fd);
    return status;
}

static weft_status system_map(const io *files, const char *path, io_map *map, weft_error *err)
{
    (void)files;
    *map = (io_map){0};
    int fd;
    uint64_t size = 0;
    struct stat st;
    weft_status status = open_file(path, &fd, &size, err);
    if (status != WEFT_OK) return status;
    if (fstat(fd, &st) != 0 || size == 0 || size > SIZE_MAX / 2) {
        close(fd);
        return err_set(err, WEFT_FORMAT, "cannot map '%s': it has %llu bytes", path,
                       (unsigned long long)size);
    }
    void *data = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    int code = errno;
    close(fd);
    if (data == MAP_FAILED) return io_fail(err, "map", path, code);
    *map = (io_map){data, (size_t)size, data, (uint64_t)st.st_dev, (uint64_t)st.st_ino};
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
    if (dir == NULL) return io_fail(err, "list", path, errno);
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
        return io_fail(err, "list", path, code);
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

static bool system_exists(const io *files, const char *path)
{
    (void)files;
    struct stat st;
    return lstat(path, &st) == 0;
}

/* ---- in pieces ---- */

static weft_status system_open(const io *files, const char *path, io_file *f, uint64_t *size,
                               weft_error *err)
{
    (void)files;
    *f = (io_file){.fd = -1, .path = path};
    *size = 0;
    return open_file(path, &f->fd, size, err);
}

static weft_status system_read_at(const io *files, const io_file *f, uint64_t offset, void *buffer,
                                  size_t n_bytes, weft_error *err)
{
    (void)files;
    return read_all(f->fd, f->path, offset, buffer, n_bytes, err);
}

/* A file system without direct reads refuses when a file is opened, or else at the first read. */
static weft_status system_open_blocks(const io *files, const char *path, const io_map *map,
                                      io_file *f, weft_error *err)
{
    (void)files;
    struct stat st;
    *f = (io_file){.fd = -1, .path = path};
#ifdef O_DIRECT
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
#endif
    if (f->fd < 0) f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0) return io_fail(err, "open", path, errno);
    int code = fstat(f->fd, &st) == 0 ? 0 : errno;
    bool same = code == 0 && (uint64_t)st.st_dev == map->device &&
                (uint64_t)st.st_ino == map->inode && (uint64_t)st.st_size == map->size;
    if (same) {
        /* Without direct reads: no more than is asked for. */
        posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
        return WEFT_OK;
    }
    close(f->fd);
    f->fd = -1;
    if (code != 0) return io_fail(err, "open", path, code);
    return err_set(err, WEFT_IO, "'%s' is another file than when the model was opened", path);
}

/* From now on through the system's cache. */
static bool drop_direct(int fd)
{
#ifdef O_DIRECT
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
#else
    return false;
#endif
}

static weft_status system_read_blocks(const io *files, const io_file *f, uint64_t offset,
                                      void *buffer, size_t n_bytes, size_t n_least, weft_error *err)
{
    (void)files;
    size_t done = 0;
    bool direct = true;
    while (done < n_least) {
        ssize_t n = pread(f->fd, (char *)buffer + done, n_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EINVAL && direct && drop_direct(f->fd)) {
            direct = false;
            continue;
        }
        if (n < 0) return io_fail(err, "read", f->path, errno);
        if (n == 0) break;
        done += (size_t)n;
    }
    posix_fadvise(f->fd, (off_t)offset, (off_t)n_bytes, POSIX_FADV_DONTNEED);
    if (done >= n_least) return WEFT_OK;
    return err_set(err, WEFT_IO, "cannot read '%s': it ends at byte %llu, expected %llu", f->path,
                   (unsigned long long)(offset + done), (unsigned long long)(offset + n_least));
}

static weft_status system_write_at(const io *files, const io_file *f, uint64_t offset,
                                   const void *data, size_t n_bytes, weft_error *err)
{
    (void)files;
    size_t done = 0;
    while (done < n_bytes) {
        const char *rest = (const char *)data + done;
        ssize_t n = pwrite(f->fd, rest, n_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_fail(err, "write", f->path, errno);
        done += (size_t)n;
    }
    return WEFT_OK;
}

static weft_status system_sync(const io *files, const io_file *f, weft_error *err)
{
    (void)files;
    return fsync(f->fd) == 0 ? WEFT_OK : io_fail(err, "sync", f->path, errno);
}

static weft_status system_close(const io *files, io_file *f, weft_error *err)
{
    (void)files;
    int fd = f->fd;
    f->fd = -1;
    return close(fd) == 0 ? WEFT_OK : io_fail(err, "close", f->path, errno);
}

static weft_status system_rename(const io *files, const char *from, const char *to, weft_error *err)
{
    (void)files;
    return rename(from, to) == 0 ? WEFT_OK : io_fail(err, "rename", from, errno);
}

static weft_status system_sync_folder(const io *files, const char *path, weft_error *err)
{
    (void)files;
    char folder[IO_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    /* The root keeps its slash. */
    size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (n >= sizeof folder) {
        return err_set(err, WEFT_ARGUMENT, "path of %zu bytes is longer than %d", strlen(path),
                       IO_PATH_BYTES);
    }
    memcpy(folder, path, n);
    folder[n] = '\0';
    int fd = open(n == 0 ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return io_fail(err, "open", folder, errno);
    weft_status status = WEFT_OK;
    /* Some file systems have no such thing as a folder that is synced. */
    if (fsync(fd) != 0 && errno != EINVAL) status = io_fail(err, "sync", folder, errno);
    close(fd);
    return status;
}

static void system_remove(const io *files, const char *path)
{
    (void)files;
    unlink(path);
}

/* A name beside path that nothing has yet, most likely. */
static weft_status name_temporary(const char *path, char *temporary, weft_error *err)
{
    int n = snprintf(temporary, IO_PATH_BYTES, "%s.%lx-%llx.tmp", path, (unsigned long)getpid(),
                     (unsigned long long)clock_now_ns());
    if (n >= 0 && n < IO_PATH_BYTES) return WEFT_OK;
    return err_set(err, WEFT_ARGUMENT, "path of %zu bytes is longer than %d", strlen(path),
                   IO_PATH_BYTES);
}

static weft_status system_create_folder(const io *files, const char *path, char *temporary,
                                        weft_error *err)
{
    (void)files;
    for (unsigned attempt = 0;; attempt++) {
        weft_status status = name_temporary(path, temporary, err);
        if (status != WEFT_OK) return status;
        if (mkdir(temporary, 0777) == 0) return WEFT_OK;
        if (errno != EEXIST || attempt == 100) return io_fail(err, "create", temporary, errno);
    }
}

static void system_remove_folder(const io *files, const char *path)
{
    (void)files;
    rmdir(path);
}

/* rename would replace an empty folder. Where the file system cannot be told not to, what came
 * there since the last look is replaced if it is one. */
static weft_status system_rename_new(const io *files, const char *from, const char *to,
                                     weft_error *err)
{
    (void)files;
#if defined(SYS_renameat2) && defined(RENAME_NOREPLACE)
    if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return WEFT_OK;
    if (errno != EINVAL && errno != ENOSYS) return io_fail(err, "rename to", to, errno);
#endif
    struct stat st;
    if (lstat(to, &st) == 0) return io_fail(err, "rename to", to, EEXIST);
    return rename(from, to) == 0 ? WEFT_OK : io_fail(err, "rename to", to, errno);
}

/* A new file beside path. Not mkstemp: the file keeps this one's mode, which should follow the
 * umask. */
static weft_status system_create(const io *files, const char *path, char *temporary, io_file *f,
                                 weft_error *err)
{
    (void)files;
    *f = (io_file){.fd = -1, .path = temporary};
    for (unsigned attempt = 0;; attempt++) {
        weft_status status = name_temporary(path, temporary, err);
        if (status != WEFT_OK) return status;
        f->fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd >= 0) return WEFT_OK;
        if (errno != EEXIST || attempt == 100) return io_fail(err, "create", temporary, errno);
    }
}

static weft_status system_write(const io *files, const char *path, const void *data, size_t n_bytes,
                                weft_error *err)
{
    char temporary[IO_PATH_BYTES];
    io_file f;
    weft_status status = system_create(files, path, temporary, &f, err);
    if (status != WEFT_OK) return status;
    status = system_write_at(files, &f, 0, data, n_bytes, err);
    if (status == WEFT_OK) status = system_sync(files, &f, err);
    weft_status closed = system_close(files, &f, status == WEFT_OK ? err : NULL);
    if (status == WEFT_OK) status = closed;
    if (status == WEFT_OK && rename(temporary, path) != 0)
        status = io_fail(err, "rename", path, errno);
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
    .stamp = system_stamp,
    .touch = system_touch,
    .write = system_write,
    .exists = system_exists,
    .open = system_open,
    .create = system_create,
    .read_at = system_read_at,
    .open_blocks = system_open_blocks,
    .read_blocks = system_read_blocks,
    .write_at = system_write_at,
    .sync = system_sync,
    .close = system_close,
    .rename = system_rename,
    .sync_folder = system_sync_folder,
    .remove = system_remove,
    .create_folder = system_create_folder,
    .rename_new = system_rename_new,
    .remove_folder = system_remove_folder,
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
