/* disk.c - POSIX behind the names of disk.h. */
// NOLINTNEXTLINE(bugprone-reserved-identifier): the C library's
#define _DEFAULT_SOURCE /* flock */
#include "hub/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { REMOVE_DEPTH = 16 };
#define WAIT_NS ((uint64_t)50 * 1000000)

weft_status disk_path(char *path, weft_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(path, IO_PATH_BYTES, fmt, args);
    va_end(args);
    if (n >= 0 && n < IO_PATH_BYTES) return WEFT_OK;
    return err_set(err, WEFT_LIMIT, "a path of %d bytes, at most %d are used", n, IO_PATH_BYTES);
}

weft_status disk_make_folders(const char *path, weft_error *err)
{
    char part[IO_PATH_BYTES];
    struct stat st;
    weft_status status = disk_path(part, err, "%s", path);
    if (status != WEFT_OK) return status;
    for (char *at = part + (part[0] == '/');; at++) {
        char c = *at;
        if (c != '/' && c != '\0') continue;
        *at = '\0';
        if (part[0] != '\0' && mkdir(part, 0777) != 0 &&
            !(errno == EEXIST && stat(part, &st) == 0 && S_ISDIR(st.st_mode)))
            return io_fail(err, "create the folder", part, errno);
        if (c == '\0') return WEFT_OK;
        *at = c;
    }
}

weft_status disk_free(const char *path, uint64_t *n_bytes, weft_error *err)
{
    struct statvfs fs;
    *n_bytes = 0;
    if (statvfs(path, &fs) != 0) return io_fail(err, "look at the disk of", path, errno);
    *n_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_frsize;
    return WEFT_OK;
}

weft_status disk_open(const char *path, io_file *f, uint64_t *n_bytes, weft_error *err)
{
    struct stat st;
    *n_bytes = 0;
    *f = (io_file){.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666),
                   .path = path};
    if (f->fd < 0) return io_fail(err, "open", path, errno);
    int code = fstat(f->fd, &st) == 0 ? 0 : errno;
    if (code == 0 && S_ISREG(st.st_mode)) {
        *n_bytes = (uint64_t)st.st_size;
        return WEFT_OK;
    }
    close(f->fd);
    f->fd = -1;
    if (code != 0) return io_fail(err, "open", path, code);
    return err_set(err, WEFT_IO, "cannot open '%s': not a regular file", path);
}

weft_status disk_truncate(const io_file *f, uint64_t n_bytes, weft_error *err)
{
    return ftruncate(f->fd, (off_t)n_bytes) == 0 ? WEFT_OK
                                                 : io_fail(err, "shorten", f->path, errno);
}

disk_kind disk_look(const char *path, uint64_t *n_bytes, int64_t *used_s)
{
    struct stat st;
    *n_bytes = 0;
    *used_s = 0;
    if (lstat(path, &st) != 0) return DISK_NOTHING;
    if (S_ISDIR(st.st_mode)) return DISK_FOLDER;
    if (S_ISLNK(st.st_mode) && stat(path, &st) != 0) return DISK_OTHER;
    if (!S_ISREG(st.st_mode)) return DISK_OTHER;
    *n_bytes = (uint64_t)st.st_size;
    *used_s = (int64_t)st.st_atime;
    return DISK_FILE;
}

weft_status disk_link(const char *target, const char *path, weft_error *err)
{
    char temporary[IO_PATH_BYTES];
    weft_status status = disk_path(temporary, err, "%s.%lx-%llx.tmp", path, (unsigned long)getpid(),
                                   (unsigned long long)clock_now_ns());
    if (status != WEFT_OK) return status;
    if (symlink(target, temporary) != 0) return io_fail(err, "link", path, errno);
    if (rename(temporary, path) == 0) return WEFT_OK;
    int code = errno;
    unlink(temporary);
    return io_fail(err, "link", path, code);
}

bool disk_read_link(const char *path, char *target)
{
    ssize_t n = readlink(path, target, IO_PATH_BYTES);
    if (n < 0 || n >= IO_PATH_BYTES) return false;
    target[n] = '\0';
    return true;
}

static weft_status remove_at(int folder, const char *name, const char *path, uint32_t depth,
                             weft_error *err);

/* Closes fd. A name that was removed meanwhile is fine. */
static weft_status empty_folder(int fd, const char *path, uint32_t depth, weft_error *err)
{
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        int code = errno;
        close(fd);
        return io_fail(err, "list", path, code);
    }
    weft_status status = WEFT_OK;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone
    for (struct dirent *e = readdir(dir); e != NULL && status == WEFT_OK; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        status = remove_at(dirfd(dir), e->d_name, path, depth, err);
    }
    closedir(dir);
    return status;
}

static weft_status remove_at(int folder, const char *name, const char *path, uint32_t depth,
                             weft_error *err)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT) return WEFT_OK;
    int code = errno;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return io_fail(err, "remove", path, code);
    if (depth == REMOVE_DEPTH) {
        close(fd);
        return err_set(err, WEFT_LIMIT, "'%s' has more than %d folders in one another", path,
                       REMOVE_DEPTH);
    }
    weft_status status = empty_folder(fd, path, depth + 1, err);
    if (status != WEFT_OK) return status;
    if (unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return WEFT_OK;
    return io_fail(err, "remove", path, errno);
}

weft_status disk_remove(const char *path, weft_error *err)
{
    return remove_at(AT_FDCWD, path, path, 0, err);
}

bool disk_sleep(uint64_t n_ms, bool (*wait)(void *user), void *user)
{
    uint64_t end = clock_now_ns() + n_ms * 1000000;
    for (uint64_t now = clock_now_ns(); now < end; now = clock_now_ns()) {
        if (!wait(user)) return false;
        uint64_t ns = end - now < WAIT_NS ? end - now : WAIT_NS;
        struct timespec t = {.tv_nsec = (long)ns};
        nanosleep(&t, NULL);
    }
    return wait(user);
}

/* Who deletes a lock's file has it locked: what was locked may be gone from its path by then. */
static bool is_at_path(int fd, const char *path)
{
    struct stat a;
    struct stat b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

weft_status disk_lock_take(disk_lock *lock, const char *path, bool (*wait)(void *user), void *user,
                           weft_error *err)
{
    char folder[IO_PATH_BYTES];
    for (;;) {
        lock->fd = -1;
        weft_status status = disk_path(folder, err, "%s", path);
        char *slash = status == WEFT_OK ? strrchr(folder, '/') : NULL;
        if (slash != NULL) {
            *slash = '\0';
            status = disk_make_folders(folder, err);
        }
        if (status != WEFT_OK) return status;
        lock->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (lock->fd < 0 && errno == ENOENT) continue; /* the folder was removed meanwhile */
        if (lock->fd < 0) return io_fail(err, "open", path, errno);
        while (flock(lock->fd, LOCK_EX | LOCK_NB) != 0) {
            int code = errno;
            bool busy = code == EWOULDBLOCK || code == EINTR;
            if (busy && disk_sleep(100, wait, user)) continue;
            disk_lock_give(lock);
            if (!busy) return io_fail(err, "lock", path, code);
            return err_set(err, WEFT_CANCELLED, "stopped while another program had '%s'", path);
        }
        if (is_at_path(lock->fd, path)) return WEFT_OK;
        disk_lock_give(lock);
    }
}

void disk_lock_give(disk_lock *lock)
{
    if (lock->fd >= 0) close(lock->fd);
    lock->fd = -1;
}
