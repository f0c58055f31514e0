/* io.h - files behind one table of functions, so that tests can make any read, map or write fail.
 */
#ifndef BASE_IO_H
#define BASE_IO_H

#include "base/err.h"
#include "base/mem.h"

/* A read-only view of a whole file; data is page-aligned. */
typedef struct io_map {
    const unsigned char *data;
    size_t size;
    void *handle;
} io_map;

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
    /* Replaces a file as a whole: temporary name in the same folder, fsync, rename. A failure
     * leaves the old file as it was. */
    weft_status (*write)(const io *files, const char *path, const void *data, size_t n_bytes,
                         weft_error *err);
};

/* The operating system's files. */
const io *io_system(void);

/* Whole file in memory of allocator, with a NUL behind it; LIMIT when it is larger than limit. */
weft_status io_read_file(const io *files, const weft_allocator *allocator, const char *path,
                         size_t limit, char **data, size_t *n_bytes, weft_error *err);

#endif
