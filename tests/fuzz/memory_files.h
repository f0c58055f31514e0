/* memory_files.h - an io whose files are blocks of memory, each of exact size, so that a sanitizer
 * sees one byte too far. */
#ifndef FUZZ_MEMORY_FILES_H
#define FUZZ_MEMORY_FILES_H

#include <stdlib.h>
#include <string.h>

#include "base/io.h"

enum { MEMORY_FILES = 4 };

typedef struct memory_file {
    const char *name;
    const unsigned char *data;
    size_t n_bytes;
} memory_file;

/* A folder called "m" with these files; a file is also found by its name alone. */
typedef struct memory_files {
    io io;
    memory_file files[MEMORY_FILES]; /* sorted by name; the first n_files */
    uint32_t n_files;
} memory_files;

static inline const memory_file *memory_find(const io *self, const char *path)
{
    const memory_files *m = self->user;
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    for (uint32_t i = 0; i < m->n_files; i++) {
        if (strcmp(m->files[i].name, name) == 0) return &m->files[i];
    }
    return NULL;
}

static inline weft_status memory_size(const io *self, const char *path, uint64_t *size,
                                      weft_error *err)
{
    const memory_file *file = memory_find(self, path);
    *size = file == NULL ? 0 : file->n_bytes;
    return file == NULL ? err_set(err, WEFT_IO, "no file '%s'", path) : WEFT_OK;
}

static inline weft_status memory_read(const io *self, const char *path, uint64_t offset,
                                      void *buffer, size_t n_bytes, weft_error *err)
{
    const memory_file *file = memory_find(self, path);
    if (file == NULL || offset > file->n_bytes || n_bytes > file->n_bytes - offset)
        return err_set(err, WEFT_IO, "cannot read '%s'", path);
    if (n_bytes != 0) memcpy(buffer, file->data + offset, n_bytes);
    return WEFT_OK;
}

static inline weft_status memory_map(const io *self, const char *path, io_map *mapped,
                                     weft_error *err)
{
    const memory_file *file = memory_find(self, path);
    *mapped = (io_map){0};
    if (file == NULL) return err_set(err, WEFT_IO, "no file '%s'", path);
    unsigned char *copy = malloc(file->n_bytes == 0 ? 1 : file->n_bytes);
    if (copy == NULL) return err_set(err, WEFT_NOMEM, "out of memory");
    if (file->n_bytes != 0) memcpy(copy, file->data, file->n_bytes);
    *mapped = (io_map){.data = copy, .size = file->n_bytes, .handle = copy};
    return WEFT_OK;
}

static inline void memory_unmap(const io *self, io_map *mapped)
{
    (void)self;
    free(mapped->handle);
    *mapped = (io_map){0};
}

static inline weft_status memory_list(const io *self, const char *path,
                                      const weft_allocator *allocator, char **names,
                                      size_t *n_bytes, weft_error *err)
{
    const memory_files *m = self->user;
    (void)path;
    *n_bytes = 1;
    for (uint32_t i = 0; i < m->n_files; i++) *n_bytes += strlen(m->files[i].name) + 1;
    *names = mem_alloc_zero(allocator, *n_bytes);
    if (*names == NULL) return err_set(err, WEFT_NOMEM, "out of memory");
    char *at = *names;
    for (uint32_t i = 0; i < m->n_files; i++) {
        size_t n = strlen(m->files[i].name) + 1;
        memcpy(at, m->files[i].name, n);
        at += n;
    }
    return WEFT_OK;
}

static inline bool memory_is_folder(const io *self, const char *path)
{
    (void)self;
    return strcmp(path, "m") == 0;
}

static inline weft_status memory_write(const io *self, const char *path, const void *data,
                                       size_t n_bytes, weft_error *err)
{
    (void)self;
    (void)data;
    (void)n_bytes;
    return err_set(err, WEFT_IO, "cannot write '%s'", path);
}

static inline bool memory_exists(const io *self, const char *path)
{
    return memory_find(self, path) != NULL;
}

static inline weft_status memory_open(const io *self, const char *path, io_file *f, uint64_t *size,
                                      weft_error *err)
{
    *f = (io_file){.fd = -1, .path = path};
    return memory_size(self, path, size, err);
}

static inline weft_status memory_read_at(const io *self, const io_file *f, uint64_t offset,
                                         void *buffer, size_t n_bytes, weft_error *err)
{
    return memory_read(self, f->path, offset, buffer, n_bytes, err);
}

static inline weft_status memory_close(const io *self, io_file *f, weft_error *err)
{
    (void)self;
    (void)err;
    f->path = NULL;
    return WEFT_OK;
}

/* m must not move afterwards. */
static inline void memory_files_init(memory_files *m)
{
    memset(m, 0, sizeof *m);
    m->io.user = m;
    m->io.size = memory_size;
    m->io.read = memory_read;
    m->io.map = memory_map;
    m->io.unmap = memory_unmap;
    m->io.list = memory_list;
    m->io.is_folder = memory_is_folder;
    m->io.write = memory_write;
    m->io.exists = memory_exists;
    m->io.open = memory_open;
    m->io.read_at = memory_read_at;
    m->io.close = memory_close;
}

static inline void memory_files_add(memory_files *m, const char *name, const void *data,
                                    size_t n_bytes)
{
    m->files[m->n_files++] = (memory_file){name, data, n_bytes};
}

#endif
