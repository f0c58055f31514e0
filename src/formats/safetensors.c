/* safetensors.c - a folder with config.json and *.safetensors files.
 *
 * A file is the length of its header (u64), the header (JSON: name -> dtype, shape, data_offsets),
 * and data. Of the files in the folder, those that model.safetensors.index.json names are opened;
 * without an index, all called model*.safetensors. One rule for headers: '{' first, '}' last, then
 * nothing but blanks; so padding by NUL and byte order marks are refused. Data is covered exactly,
 * without overlap, hole or rest.
 * Source: the format's description in the safetensors repository. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "formats/weights.h"

#define INDEX_NAME "model.safetensors.index.json"

enum { LENGTH_BYTES = 8, DTYPE_BYTES = 16 };

/* Types that a file may hold and that no encoding decodes. */
typedef struct raw_dtype {
    const char *name;
    uint16_t cols, bytes;
} raw_dtype;

// clang-format off
static const raw_dtype RAW_DTYPES[] = {
    {"BOOL", 1, 1},    {"U8", 1, 1},      {"I8", 1, 1},          {"F8_E4M3", 1, 1},
    {"F8_E5M2", 1, 1}, {"F8_E8M0", 1, 1}, {"F8_E4M3FNUZ", 1, 1}, {"F8_E5M2FNUZ", 1, 1},
    {"U16", 1, 2},     {"I16", 1, 2},     {"U32", 1, 4},         {"I32", 1, 4},
    {"U64", 1, 8},     {"I64", 1, 8},     {"F64", 1, 8},         {"C64", 1, 8},
    {"F4", 2, 1},      {"F6_E2M3", 4, 3}, {"F6_E3M2", 4, 3},
};
// clang-format on

/* One file while its header is read. */
typedef struct shard {
    const char *name;
    const unsigned char *data; /* behind the header */
    uint64_t data_bytes;
    uint64_t data_start;
    const json *listed; /* the index's name -> file; NULL: there is no index */
    uint32_t first;     /* its tensors in weights begin here */
    uint32_t n_listed;  /* of the kept ones, those that the index lists */
} shard;

/* ---- one tensor ---- */

static weft_status read_dtype(tensor *t, const json *entry, weft_error *err)
{
    str dtype = json_text(json_get(entry, "dtype"));
    char name[DTYPE_BYTES] = {0};
    if (dtype.len == 0) return err_set(err, WEFT_FORMAT, "it has no dtype");
    if (dtype.len < sizeof name) memcpy(name, dtype.ptr, dtype.len);
    t->encoding = encoding_by_safetensors(name);
    if (t->encoding != NULL) {
        t->raw_type = t->encoding->safetensors;
        t->raw_cols = t->encoding->block_cols;
        t->raw_bytes = t->encoding->block_bytes;
        return WEFT_OK;
    }
    for (size_t i = 0; i < COUNT_OF(RAW_DTYPES); i++) {
        if (strcmp(RAW_DTYPES[i].name, name) != 0) continue;
        t->raw_type = RAW_DTYPES[i].name;
        t->raw_cols = RAW_DTYPES[i].cols;
        t->raw_bytes = RAW_DTYPES[i].bytes;
        return WEFT_OK;
    }
    return err_set(err, WEFT_UNSUPPORTED, "its dtype '%.*s' is unknown", weights_shown(dtype),
                   dtype.ptr);
}

static bool read_size(const json *value, uint64_t *size)
{
    *size = (uint64_t)json_int(value, 0);
    return json_kind_of(value) == JSON_KIND_INT && json_int(value, -1) >= 0;
}

/* No dimension at all is a single number. */
static weft_status read_shape(tensor *t, const json *entry, weft_error *err)
{
    const json *shape = json_get(entry, "shape");
    if (json_kind_of(shape) != JSON_KIND_ARRAY)
        return err_set(err, WEFT_FORMAT, "its shape is no array");
    size_t n_dims = json_length(shape);
    size_t n_folded = n_dims > TENSOR_DIMS ? n_dims - TENSOR_DIMS : 0;
    t->n_dims = n_dims == 0 ? 1 : (uint32_t)(n_dims - n_folded);
    for (size_t i = 0; i < TENSOR_DIMS; i++) t->dims[i] = 1;
    for (size_t i = 0; i < n_dims; i++) {
        uint64_t size;
        if (!read_size(json_at(shape, i), &size))
            return err_set(err, WEFT_FORMAT, "dimension %zu of its shape is no size", i);
        uint64_t *dim = &t->dims[i <= n_folded ? 0 : i - n_folded];
        if (__builtin_mul_overflow(*dim, size, dim))
            return err_set(err, WEFT_FORMAT, "its dimensions overflow");
    }
    return WEFT_OK;
}

static weft_status read_range(tensor *t, const shard *s, const json *entry, weft_error *err)
{
    const json *offsets = json_get(entry, "data_offsets");
    uint64_t begin, end;
    if (json_length(offsets) != 2 || !read_size(json_at(offsets, 0), &begin) ||
        !read_size(json_at(offsets, 1), &end) || end < begin) {
        return err_set(err, WEFT_FORMAT, "its data_offsets are not a range");
    }
    if (end > s->data_bytes) {
        return err_set(err, WEFT_FORMAT, "it ends at byte %llu of the data, the file has %llu",
                       (unsigned long long)end, (unsigned long long)s->data_bytes);
    }
    t->planes[0] = s->data + begin;
    t->plane_bytes[0] = end - begin;
    return WEFT_OK;
}

static weft_status add_tensor(weights *w, const shard *s, str name, const json *entry,
                              weft_error *err)
{
    if (name.len == 0 || name.len > WEIGHTS_NAME_BYTES || memchr(name.ptr, '\0', name.len) != NULL)
        return err_set(err, WEFT_FORMAT, "the name of a tensor has %zu bytes or a NUL", name.len);
    char *copy = arena_copy_text(&w->arena, name.ptr, name.len);
    if (copy == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the names of tensors");
    tensor *t;
    weft_status status = weights_add(w, &t, err);
    if (status != WEFT_OK) return status;
    t->name = copy;
    if (json_kind_of(entry) != JSON_KIND_OBJECT)
        status = err_set(err, WEFT_FORMAT, "its entry is no object");
    if (status == WEFT_OK) status = read_dtype(t, entry, err);
    if (status == WEFT_OK) status = read_shape(t, entry, err);
    if (status == WEFT_OK) status = read_range(t, s, entry, err);
    if (status == WEFT_OK) status = tensor_bind(t, err);
    return weights_blame(status, "tensor ", copy, err);
}

/* ---- one file ---- */

static int compare_places(const void *a, const void *b)
{
    const tensor *x = a;
    const tensor *y = b;
    uintptr_t at_x = (uintptr_t)x->planes[0];
    uintptr_t at_y = (uintptr_t)y->planes[0];
    return at_x < at_y ? -1 : at_x > at_y;
}

static weft_status check_coverage(const weights *w, const shard *s, weft_error *err)
{
    uint32_t n = w->n_tensors - s->first;
    if (n > 1) qsort(w->tensors + s->first, n, sizeof *w->tensors, compare_places);
    uint64_t at = 0;
    for (uint32_t i = s->first; i < w->n_tensors; i++) {
        const tensor *t = &w->tensors[i];
        uint64_t begin = (uint64_t)(t->planes[0] - s->data);
        if (begin != at) {
            weft_status status =
                err_set(err, WEFT_FORMAT, "it starts at byte %llu of the data, expected %llu",
                        (unsigned long long)begin, (unsigned long long)at);
            return weights_blame(status, "tensor ", t->name, err);
        }
        at += t->plane_bytes[0];
    }
    if (at != s->data_bytes) {
        return err_set(err, WEFT_FORMAT, "the file has %llu bytes, its tensors end at %llu",
                       (unsigned long long)(s->data_start + s->data_bytes),
                       (unsigned long long)(s->data_start + at));
    }
    return WEFT_OK;
}

/* A tensor that the index places in another file is not this file's. One that it does not mention
 * stays. */
static void keep_listed(weights *w, shard *s)
{
    uint32_t n_kept = s->first;
    for (uint32_t i = s->first; i < w->n_tensors; i++) {
        const json *file = json_get(s->listed, w->tensors[i].name);
        if (file != NULL && !str_equal_text(json_text(file), s->name)) continue;
        if (file != NULL) s->n_listed++;
        w->tensors[n_kept++] = w->tensors[i];
    }
    w->n_tensors = n_kept;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The header's text; FORMAT or LIMIT before anything is read by its length. */
static weft_status find_header(const io_map *file, str *header, weft_error *err)
{
    uint64_t length;
    *header = (str){"", 0};
    if (file->size < LENGTH_BYTES) {
        return err_set(err, WEFT_FORMAT, "the file has %zu bytes, the length of its header %d",
                       file->size, LENGTH_BYTES);
    }
    memcpy(&length, file->data, sizeof length);
    if (length > file->size - LENGTH_BYTES) {
        return err_set(err, WEFT_FORMAT, "its header has %llu bytes, the file has %zu",
                       (unsigned long long)length, file->size);
    }
    if (length > WEIGHTS_HEADER_BYTES) {
        return err_set(err, WEFT_LIMIT, "its header has %llu bytes, at most %d are read",
                       (unsigned long long)length, WEIGHTS_HEADER_BYTES);
    }
    *header = (str){(const char *)file->data + LENGTH_BYTES, (size_t)length};
    size_t n = header->len;
    while (n > 0 && is_blank(header->ptr[n - 1])) n--;
    if (n < 2 || header->ptr[0] != '{' || header->ptr[n - 1] != '}') {
        return err_set(err, WEFT_FORMAT,
                       "its header of %zu bytes is not one object in braces, padded by blanks",
                       header->len);
    }
    return WEFT_OK;
}

static weft_status read_header(weights *w, shard *s, const json *header, weft_error *err)
{
    json_iter iter = {0};
    str name;
    const json *entry;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && json_next(header, &iter, &name, &entry)) {
        if (!str_equal_text(name, "__metadata__")) status = add_tensor(w, s, name, entry, err);
    }
    if (status == WEFT_OK) status = check_coverage(w, s, err);
    if (status == WEFT_OK && s->listed != NULL) keep_listed(w, s);
    return status;
}

static weft_status read_shard(weights *w, uint32_t file_i, shard *s, weft_error *err)
{
    const io_map *file = &w->maps[file_i];
    str text;
    weft_status status = find_header(file, &text, err);
    if (status != WEFT_OK) return status;
    s->data_start = LENGTH_BYTES + text.len;
    s->data = file->data + s->data_start;
    s->data_bytes = file->size - s->data_start;
    json_doc doc;
    status = json_parse(&doc, text.ptr, text.len, err);
    if (status != WEFT_OK) {
        err_context(err, "header: ");
        return status;
    }
    status = read_header(w, s, doc.root, err);
    json_doc_free(&doc);
    return status;
}

/* ---- the folder ---- */

/* A JSON file of the folder, an object. */
static weft_status read_object(const weights *w, const char *name, size_t limit, json_doc *doc,
                               weft_error *err)
{
    char path[WEIGHTS_PATH_BYTES];
    char *text;
    size_t n_bytes;
    *doc = (json_doc){0};
    weft_status status = weights_sibling(w, name, path, sizeof path, err);
    if (status != WEFT_OK) return status;
    status = io_read_file(w->env.io, w->env.allocator, path, limit, &text, &n_bytes, err);
    if (status != WEFT_OK) return status;
    status = json_parse(doc, text, n_bytes, err);
    mem_free(w->env.allocator, text, n_bytes + 1);
    if (status == WEFT_OK && json_kind_of(doc->root) != JSON_KIND_OBJECT) {
        status = err_set(err, WEFT_FORMAT, "it is %s, expected an object",
                         json_kind_name(json_kind_of(doc->root)));
        json_doc_free(doc);
    }
    return weights_blame(status, "", name, err);
}

/* Names of the files to open; in the arena. */
typedef struct shard_list {
    const char **names; /* [n_names] */
    uint32_t n_names, capacity;
    map seen;
} shard_list;

static weft_status list_add(weights *w, shard_list *list, str name, weft_error *err)
{
    if (map_get(&list->seen, name) != MAP_NONE) return WEFT_OK;
    if (list->n_names == WEIGHTS_FILES)
        return err_set(err, WEFT_LIMIT, "more than %d files of weights", WEIGHTS_FILES);
    if (list->n_names == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
        const char **names = arena_array(&w->arena, capacity, sizeof *names);
        if (names == NULL)
            return err_set(err, WEFT_NOMEM, "out of memory for a list of %u files", capacity);
        for (uint32_t i = 0; i < list->n_names; i++) names[i] = list->names[i];
        list->names = names;
        list->capacity = capacity;
    }
    char *copy = arena_copy_text(&w->arena, name.ptr, name.len);
    if (copy == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the name of a file");
    list->names[list->n_names] = copy;
    return map_put(&list->seen, (str){copy, name.len}, list->n_names++, NULL, err);
}

/* A plain name: an index must not lead out of the folder. */
static bool is_file_name(str name)
{
    return name.len > 0 && name.len < 256 && name.ptr[0] != '.' && str_ends(name, ".safetensors") &&
           memchr(name.ptr, '/', name.len) == NULL && memchr(name.ptr, '\0', name.len) == NULL;
}

static weft_status list_index(weights *w, const json *listed, shard_list *list, weft_error *err)
{
    if (json_kind_of(listed) != JSON_KIND_OBJECT)
        return err_set(err, WEFT_FORMAT, "it has no weight_map");
    json_iter iter = {0};
    str name;
    const json *file;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && json_next(listed, &iter, &name, &file)) {
        if (!is_file_name(json_text(file))) {
            return err_set(err, WEFT_FORMAT, "tensor '%.*s' is in no file that can be opened",
                           weights_shown(name), name.ptr);
        }
        status = list_add(w, list, json_text(file), err);
    }
    return status;
}

static weft_status list_folder(weights *w, const char *names, shard_list *list, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (const char *name = names; status == WEFT_OK && *name != '\0'; name += strlen(name) + 1) {
        str file = str_of(name);
        if (str_starts(file, "model") && is_file_name(file)) status = list_add(w, list, file, err);
    }
    if (status == WEFT_OK && list->n_names == 0) {
        status = err_set(err, WEFT_FORMAT, "the folder has no model*.safetensors");
        return weights_blame(status, "", w->path, err);
    }
    return status;
}

/* Fills the list, and the index when the folder has one. */
static weft_status list_shards(weights *w, shard_list *list, json_doc *index, weft_error *err)
{
    char *names;
    size_t n_bytes;
    const io *files = w->env.io;
    weft_status status = files->list(files, w->path, w->env.allocator, &names, &n_bytes, err);
    if (status != WEFT_OK) return status;
    bool has_index = false;
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1)
        has_index = has_index || strcmp(name, INDEX_NAME) == 0;
    if (has_index) {
        status = read_object(w, INDEX_NAME, WEIGHTS_HEADER_BYTES, index, err);
        if (status == WEFT_OK) {
            status = list_index(w, json_get(index->root, "weight_map"), list, err);
            weights_blame(status, "", INDEX_NAME, err);
        }
    } else {
        status = list_folder(w, names, list, err);
    }
    mem_free(w->env.allocator, names, n_bytes);
    return status;
}

static weft_status open_shards(weights *w, const shard_list *list, const json *listed,
                               weft_error *err)
{
    size_t n_listed = 0;
    weft_status status = weights_reserve_files(w, list->n_names, err);
    for (uint32_t i = 0; i < list->n_names && status == WEFT_OK; i++) {
        char path[WEIGHTS_PATH_BYTES];
        uint32_t file_i;
        shard s = {.name = list->names[i], .listed = listed, .first = w->n_tensors};
        status = weights_sibling(w, s.name, path, sizeof path, err);
        if (status == WEFT_OK) status = weights_map(w, path, s.name, &file_i, err);
        if (status != WEFT_OK) return status;
        status = weights_blame(read_shard(w, file_i, &s, err), "", s.name, err);
        n_listed += s.n_listed;
    }
    if (status == WEFT_OK) status = weights_seal(w, err);
    if (status != WEFT_OK || listed == NULL || n_listed == json_length(listed)) return status;
    json_iter iter = {0};
    str name;
    const json *file;
    while (json_next(listed, &iter, &name, &file)) {
        if (map_get(&w->by_name, name) == MAP_NONE) break;
    }
    return err_set(err, WEFT_FORMAT, "'%s': tensor '%.*s' is not in '%.*s'", INDEX_NAME,
                   weights_shown(name), name.ptr, weights_shown(json_text(file)),
                   json_text(file).ptr);
}

/* Some checkpoints bring Python files; nothing of a checkpoint is ever run. */
static void note_code(const weights *w)
{
    static const char *const KEYS[] = {"auto_map", "model_file"};
    for (size_t i = 0; i < COUNT_OF(KEYS); i++) {
        if (json_get(w->config.root, KEYS[i]) == NULL) continue;
        log_write(w->env.log, WEFT_LOG_INFO,
                  "config.json names code under '%s'; it is ignored, code is never run", KEYS[i]);
    }
}

static weft_status open_folder(weights *w, weft_error *err)
{
    weft_status status = read_object(w, "config.json", WEIGHTS_CONFIG_BYTES, &w->config, err);
    if (status != WEFT_OK) return status;
    note_code(w);
    json_doc index = {0};
    shard_list list = {0};
    status = map_init(&list.seen, w->env.allocator, 16, err);
    if (status != WEFT_OK) return status;
    status = list_shards(w, &list, &index, err);
    if (status == WEFT_OK) {
        const json *listed = index.root == NULL ? NULL : json_get(index.root, "weight_map");
        status = open_shards(w, &list, listed, err);
    }
    map_deinit(&list.seen);
    json_doc_free(&index);
    return status;
}

static weft_status probe(const io *files, const char *path, bool *matches, weft_error *err)
{
    (void)err;
    *matches = files->is_folder(files, path);
    return WEFT_OK;
}

const weights_format FORMAT_SAFETENSORS = {
    .name = "safetensors",
    .is_folder = true,
    .probe = probe,
    .open = open_folder,
};
