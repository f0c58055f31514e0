/* weights.c - what all formats share: the directory of tensors, its lookup, and who is asked to
 * open a path. */
#include "formats/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"

enum { FIRST_CAPACITY = 64, SHOWN_BYTES = 80 };

static const weights_format *const FORMATS[] = {
#define WEIGHTS_FORMAT(name, NAME) &FORMAT_##NAME,
#include "formats/formats.def"
#undef WEIGHTS_FORMAT
};

/* ---- for formats ---- */

weft_status weights_reserve_files(weights *w, uint32_t n_files, weft_error *err)
{
    ASSERT(w->maps == NULL);
    w->maps = arena_array(&w->arena, n_files, sizeof *w->maps);
    w->files = arena_array(&w->arena, n_files, sizeof *w->files);
    w->paths = arena_array(&w->arena, n_files, sizeof *w->paths);
    if (w->maps == NULL || w->files == NULL || w->paths == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a table of %u files", n_files);
    w->n_files = n_files;
    return WEFT_OK;
}

weft_status weights_map(weights *w, const char *path, const char *name, uint32_t *file_i,
                        weft_error *err)
{
    ASSERT(w->n_maps < w->n_files);
    *file_i = w->n_maps;
    w->files[w->n_maps] = arena_copy_text(&w->arena, name, strlen(name));
    w->paths[w->n_maps] = arena_copy_text(&w->arena, path, strlen(path));
    if (w->files[w->n_maps] == NULL || w->paths[w->n_maps] == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for the name of a file");
    weft_status status = w->env.io->map(w->env.io, path, &w->maps[w->n_maps], err);
    if (status == WEFT_OK) w->n_maps++;
    return status;
}

weft_status weights_add(weights *w, tensor **added, weft_error *err)
{
    *added = NULL;
    if (w->n_tensors == WEIGHTS_TENSORS)
        return err_set(err, WEFT_LIMIT, "more than %d tensors", WEIGHTS_TENSORS);
    if (w->n_tensors == w->capacity) {
        uint32_t capacity = w->capacity == 0 ? FIRST_CAPACITY : w->capacity * 2;
        tensor *tensors = mem_resize(w->env.allocator, w->tensors, w->capacity * sizeof *tensors,
                                     capacity * sizeof *tensors);
        if (tensors == NULL)
            return err_set(err, WEFT_NOMEM, "out of memory for a table of %u tensors", capacity);
        w->tensors = tensors;
        w->capacity = capacity;
    }
    *added = &w->tensors[w->n_tensors++];
    **added = (tensor){0};
    return WEFT_OK;
}

static int compare_names(const void *a, const void *b)
{
    const tensor *x = a;
    const tensor *y = b;
    return strcmp(x->name, y->name);
}

weft_status weights_seal(weights *w, weft_error *err)
{
    if (w->n_tensors > 1) qsort(w->tensors, w->n_tensors, sizeof *w->tensors, compare_names);
    weft_status status = map_init(&w->by_name, w->env.allocator, w->n_tensors, err);
    for (uint32_t i = 0; i < w->n_tensors && status == WEFT_OK; i++) {
        uint32_t previous;
        status = map_put(&w->by_name, str_of(w->tensors[i].name), i, &previous, err);
        if (status == WEFT_OK && previous != MAP_NONE) {
            const tensor *t = &w->tensors[i];
            status = err_set(err, WEFT_FORMAT, "it occurs twice, also in '%s'",
                             weights_file_of(w, &w->tensors[previous]));
            weights_blame(status, "tensor ", t->name, err);
            return weights_blame(status, "", weights_file_of(w, t), err);
        }
    }
    return status;
}

weft_status weights_blame(weft_status status, const char *kind, const char *name, weft_error *err)
{
    if (status != WEFT_OK) err_context(err, "%s'%.*s': ", kind, weights_shown(str_of(name)), name);
    return status;
}

int weights_shown(str name)
{
    return (int)utf8_whole(name.ptr, name.len < SHOWN_BYTES ? name.len : SHOWN_BYTES);
}

const char *weights_file_of(const weights *w, const tensor *t)
{
    uintptr_t at = (uintptr_t)t->planes[0];
    for (uint32_t i = 0; i < w->n_maps; i++) {
        uintptr_t start = (uintptr_t)w->maps[i].data;
        if (at >= start && at - start < w->maps[i].size) return w->files[i];
    }
    return w->path;
}

/* ---- for everyone ---- */

/* Nobody knew it: what it is instead. */
static weft_status refuse(const io *files, const char *path, weft_error *err)
{
    uint64_t size;
    weft_status status = files->size(files, path, &size, err);
    if (status != WEFT_OK) return status;
    return err_set(err, WEFT_FORMAT,
                   "it is neither a folder with safetensors files nor a GGUF file (%llu bytes)",
                   (unsigned long long)size);
}

static weft_status open_as(weights *w, weft_error *err)
{
    for (size_t i = 0; i < COUNT_OF(FORMATS); i++) {
        bool matches;
        weft_status status = FORMATS[i]->probe(w->env.io, w->path, &matches, err);
        if (status != WEFT_OK) return status;
        if (!matches) continue;
        w->format = FORMATS[i];
        return FORMATS[i]->open(w, err);
    }
    return weights_blame(refuse(w->env.io, w->path, err), "", w->path, err);
}

weft_status weights_open(const env *world, const char *path, weights **w, weft_error *err)
{
    *w = NULL;
    size_t n_path = strlen(path);
    if (n_path == 0 || n_path >= WEIGHTS_PATH_BYTES) {
        return err_set(err, WEFT_ARGUMENT, "a path of %zu bytes cannot be opened, it has 1 to %d",
                       n_path, WEIGHTS_PATH_BYTES - 1);
    }
    weights *made = mem_alloc_zero(world->allocator, sizeof *made);
    if (made == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a checkpoint");
    made->env = *world;
    made->by_name.allocator = world->allocator;
    arena_init(&made->arena, world->allocator, 0);
    weft_status status = WEFT_OK;
    made->path = arena_copy_text(&made->arena, path, n_path);
    if (made->path == NULL) status = err_set(err, WEFT_NOMEM, "out of memory for a path");
    if (status == WEFT_OK) status = open_as(made, err);
    if (status != WEFT_OK) {
        weights_close(made);
        return status;
    }
    *w = made;
    return WEFT_OK;
}

void weights_close(weights *w)
{
    if (w == NULL) return;
    const weft_allocator *allocator = w->env.allocator;
    weights_drop_config(w);
    map_deinit(&w->by_name);
    for (uint32_t i = 0; i < w->n_maps; i++) w->env.io->unmap(w->env.io, &w->maps[i]);
    mem_free(allocator, w->tensors, w->capacity * sizeof *w->tensors);
    arena_deinit(&w->arena);
    mem_free(allocator, w, sizeof *w);
}

void weights_drop_config(weights *w)
{
    json_doc_free(&w->config);
}

const tensor *weights_find(const weights *w, const char *name)
{
    uint32_t i = map_get(&w->by_name, str_of(name));
    return i == MAP_NONE ? NULL : &w->tensors[i];
}

weft_status weights_sibling(const weights *w, const char *name, char *buffer, size_t capacity,
                            weft_error *err)
{
    if (capacity != 0) buffer[0] = '\0';
    if (!w->format->is_folder) {
        weft_status status =
            err_set(err, WEFT_UNSUPPORTED, "a single file has no '%s' beside it", name);
        return weights_blame(status, "", w->path, err);
    }
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
        return err_set(err, WEFT_ARGUMENT, "'%s' does not name a file in the folder", name);
    size_t n_path = strlen(w->path);
    const char *slash = w->path[n_path - 1] == '/' ? "" : "/";
    size_t need = n_path + strlen(slash) + strlen(name) + 1;
    if (need > capacity) {
        return err_set(err, WEFT_LIMIT, "the path of '%s' has %zu bytes, at most %zu fit", name,
                       need, capacity);
    }
    snprintf(buffer, capacity, "%s%s%s", w->path, slash, name);
    return WEFT_OK;
}

/* names as io's list gives them. */
static bool lists(const char *names, const char *name)
{
    for (const char *at = names; *at != '\0'; at += strlen(at) + 1) {
        if (strcmp(at, name) == 0) return true;
    }
    return false;
}

weft_status weights_read_sibling(const weights *w, const char *name, size_t limit, char **text,
                                 size_t *n_bytes, weft_error *err)
{
    const io *files = w->env.io;
    *text = NULL;
    *n_bytes = 0;
    if (!w->format->is_folder) return WEFT_OK;
    char *names;
    size_t names_bytes;
    weft_status status = files->list(files, w->path, w->env.allocator, &names, &names_bytes, err);
    if (status != WEFT_OK) return status;
    bool is_there = lists(names, name);
    mem_free(w->env.allocator, names, names_bytes);
    if (!is_there) return WEFT_OK;
    char path[WEIGHTS_PATH_BYTES];
    status = weights_sibling(w, name, path, sizeof path, err);
    if (status != WEFT_OK) return status;
    return io_read_file(files, w->env.allocator, path, limit, text, n_bytes, err);
}

weft_status weights_read_nested(const weights *w, const char *folder, const char *name,
                                size_t limit, char **text, size_t *n_bytes, weft_error *err)
{
    const io *files = w->env.io;
    char path[WEIGHTS_PATH_BYTES];
    *text = NULL;
    *n_bytes = 0;
    weft_status status = weights_sibling(w, folder, path, sizeof path, err);
    if (status != WEFT_OK) return status;
    size_t n = strlen(path);
    if (n + strlen(name) + 2 > sizeof path) {
        return err_set(err, WEFT_LIMIT, "the path of '%s' in '%s' has more than %zu bytes", name,
                       folder, sizeof path - 1);
    }
    snprintf(path + n, sizeof path - n, "/%s", name);
    if (!files->exists(files, path)) return WEFT_OK;
    return io_read_file(files, w->env.allocator, path, limit, text, n_bytes, err);
}

const gguf_value *weights_metadata(const weights *w, const char *key)
{
    uint32_t low = 0, high = w->n_metadata;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(w->metadata[middle].key, key);
        if (order == 0) return &w->metadata[middle];
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}
