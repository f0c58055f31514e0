/* io.h - files behind one table of functions, so that tests can make any read, map, write, sync or
 * rename fail. */
#ifndef BASE_IO_H
#define BASE_IO_H

#include "base/err.h"
#include "base/mem.h"

/* A read-only view of a whole file; data is page-aligned. */
typedef struct io_map {
    const unsigned char *data;
    size_t size;
    void *handle;
    uint64_t device, inode; /* which file it is, whatever its path names later */
} io_map;

/* An open file. */
typedef struct io_file {
    int fd;           /* -1: none */
    const char *path; /* for messages; borrowed */
} io_file;

/* IO_BLOCK: what offsets, sizes and memory of read_blocks are multiples of. */
enum { IO_PATH_BYTES = 4096, IO_BLOCK = 4096 };

typedef struct io io;
struct io {
    void *user;
    /* The size of a regular file; IO when it is missing, a folder, or cannot be read. */
    weft_status (*size)(const io *files, const char *path, uint64_t *size, weft_error *err);
    /* Exactly n_bytes at offset; IO when the file ends before. */
    weft_status (*read)(const io *files, const char *path, uint64_t offset, void *buffer,
                        size_t n_bytes, weft_error *err);
    weft_status (*map)(const io *files, const char *path, io_map *map, weft_error *err);
    void (*unmap)(const io *files, io_map *map);
    /* Names in a folder but "." and "..", sorted by bytes, each NUL-terminated behind the other,
     * an empty one at the end; in memory of allocator, *n_bytes in all. */
    weft_status (*list)(const io *files, const char *path, const weft_allocator *allocator,
                        char **names, size_t *n_bytes, weft_error *err);
    bool (*is_folder)(const io *files, const char *path);
    /* Of a regular file: its size, and when it was last written or touched, in nanoseconds. */
    weft_status (*stamp)(const io *files, const char *path, uint64_t *size, uint64_t *touched,
                         weft_error *err);
    /* As if it had been written just now; where that cannot be, it stays as it is. */
    void (*touch)(const io *files, const char *path);
    /* Replaces a file as a whole: temporary name in the same folder, fsync, rename. A failure
     * leaves the old file as it was. */
    weft_status (*write)(const io *files, const char *path, const void *data, size_t n_bytes,
                         weft_error *err);
    /* Whether there is anything of that name. */
    bool (*exists)(const io *files, const char *path);

    /* Files that are read or written in pieces. What is open stays the same file, whatever is
     * renamed to its path meanwhile. */
    weft_status (*open)(const io *files, const char *path, io_file *f, uint64_t *size,
                        weft_error *err);
    /* A new file beside path, under a name of its own, which goes to temporary [IO_PATH_BYTES] and
     * is borrowed until f is closed. */
    weft_status (*create)(const io *files, const char *path, char *temporary, io_file *f,
                          weft_error *err);
    weft_status (*read_at)(const io *files, const io_file *f, uint64_t offset, void *buffer,
                           size_t n_bytes, weft_error *err);
    /* A file that is mapped, for read_blocks; IO when path names another one by now. */
    weft_status (*open_blocks)(const io *files, const char *path, const io_map *map, io_file *f,
                               weft_error *err);
    /* Whole blocks, past the system's cache of files where it lets us; where the file ends before
     * n_bytes, what it has, which is n_least at least, else IO. May be called from several
     * threads. */
    weft_status (*read_blocks)(const io *files, const io_file *f, uint64_t offset, void *buffer,
                               size_t n_bytes, size_t n_least, weft_error *err);
    weft_status (*write_at)(const io *files, const io_file *f, uint64_t offset, const void *data,
                            size_t n_bytes, weft_error *err);
    weft_status (*sync)(const io *files, const io_file *f, weft_error *err);
    /* f is closed in any case. */
    weft_status (*close)(const io *files, io_file *f, weft_error *err);
    weft_status (*rename)(const io *files, const char *from, const char *to, weft_error *err);
    /* The folder that path lies in, so that a rename there outlives the machine's end. */
    weft_status (*sync_folder)(const io *files, const char *path, weft_error *err);
    void (*remove)(const io *files, const char *path);

    /* A new folder beside path, under a name of its own, which goes to temporary
     * [IO_PATH_BYTES]. */
    weft_status (*create_folder)(const io *files, const char *path, char *temporary,
                                 weft_error *err);
    /* As rename, but IO when there is anything at `to`. */
    weft_status (*rename_new)(const io *files, const char *from, const char *to, weft_error *err);
    /* An empty one. */
    void (*remove_folder)(const io *files, const char *path);
};

/* "cannot VERB 'PATH': " and what errno says by code: NOMEM or IO. */
weft_status io_fail(weft_error *err, const char *verb, const char *path, int code);

/* The operating system's files. */
const io *io_system(void);

/* Whole file in memory of allocator, with a NUL behind it; LIMIT when it is larger than limit. */
weft_status io_read_file(const io *files, const weft_allocator *allocator, const char *path,
                         size_t limit, char **data, size_t *n_bytes, weft_error *err);

#endif
