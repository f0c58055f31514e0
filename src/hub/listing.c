/* listing.c - reading a hub's answer about a model. */
#include "hub/listing.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static int compare_names(const void *a, const void *b)
{
    const hub_file *x = a;
    const hub_file *y = b;
    return strcmp(x->name, y->name);
}

void hub_files_sort(hub_file *files, size_t n_files)
{
    if (n_files > 1) qsort(files, n_files, sizeof *files, compare_names);
}

static bool take_hex(const json *value, size_t n_digits, char *to)
{
    str text = json_text(value);
    if (json_kind_of(value) != JSON_KIND_TEXT || !hub_is_hex(text, n_digits)) return false;
    memcpy(to, text.ptr, n_digits);
    to[n_digits] = '\0';
    return true;
}

/* Large files are kept beside git, under their SHA-256; blobId is then that of a pointer. */
static weft_status take_file(hub_listing *l, const json *sibling, hub_file *f, weft_error *err)
{
    const json *name_value = json_get(sibling, "rfilename");
    str name = json_text(name_value);
    if (json_kind_of(name_value) != JSON_KIND_TEXT)
        return err_set(err, WEFT_FORMAT, "the hub lists a file without a name");
    if (!hub_file_name_valid(name))
        return err_set(err, WEFT_FORMAT, "the hub lists a file of the name '%.*s', which is none",
                       name.len > 100 ? 100 : (int)name.len, name.ptr);
    const json *lfs = json_get(sibling, "lfs");
    bool large = json_kind_of(lfs) == JSON_KIND_OBJECT;
    int64_t size = json_int(json_get(large ? lfs : sibling, "size"), -1);
    if (size < 0) size = json_int(json_get(sibling, "size"), -1);
    if (size < 0 || (uint64_t)size > HUB_FILE_SIZE_MOST)
        return err_set(err, WEFT_FORMAT, "the hub says no size of '%.100s' from 0 to %llu",
                       name.ptr, (unsigned long long)HUB_FILE_SIZE_MOST);
    f->size = (uint64_t)size;
    bool hashed = large ? take_hex(json_get(lfs, "sha256"), 64, f->hash)
                        : take_hex(json_get(sibling, "blobId"), 40, f->hash);
    if (!hashed) f->hash[0] = '\0';
    f->name = arena_copy_text(&l->memory, name.ptr, name.len);
    return f->name != NULL ? WEFT_OK
                           : err_set(err, WEFT_NOMEM, "out of memory for the names of files");
}

static weft_status take_files(hub_listing *l, const json *siblings, weft_error *err)
{
    if (json_kind_of(siblings) != JSON_KIND_ARRAY)
        return err_set(err, WEFT_FORMAT, "the hub's answer lists no files");
    size_t n = json_length(siblings);
    if (n > HUB_FILES_MOST)
        return err_set(err, WEFT_LIMIT, "the model has %zu files, at most %d are read", n,
                       HUB_FILES_MOST);
    l->files = arena_array(&l->memory, n, sizeof *l->files);
    if (l->files == NULL) return err_set(err, WEFT_NOMEM, "out of memory for %zu files", n);
    for (size_t i = 0; i < n; i++) {
        weft_status status = take_file(l, json_at(siblings, i), &l->files[i], err);
        if (status != WEFT_OK) return status;
    }
    l->n_files = n;
    hub_files_sort(l->files, n);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(l->files[i - 1].name, l->files[i].name) == 0)
            return err_set(err, WEFT_FORMAT, "the hub lists '%.100s' twice", l->files[i].name);
    }
    return WEFT_OK;
}

weft_status hub_listing_parse(hub_listing *l, const weft_allocator *allocator, str text,
                              weft_error *err)
{
    json_doc doc = {NULL};
    *l = (hub_listing){.n_files = 0};
    arena_init(&l->memory, allocator, 4 * HUB_LISTING_BYTES_MOST);
    if (text.len > HUB_LISTING_BYTES_MOST)
        return err_set(err, WEFT_LIMIT, "the hub's answer has %zu bytes, at most %zu are read",
                       text.len, HUB_LISTING_BYTES_MOST);
    weft_status status = json_parse(&doc, text.ptr, text.len, err);
    if (status != WEFT_OK) {
        err_context(err, "the hub's answer: ");
        return status;
    }
    if (!take_hex(json_get(doc.root, "sha"), HUB_COMMIT_BYTES - 1, l->commit))
        status = err_set(err, WEFT_FORMAT, "the hub's answer names no commit");
    if (status == WEFT_OK) status = take_files(l, json_get(doc.root, "siblings"), err);
    json_doc_free(&doc);
    if (status != WEFT_OK) l->n_files = 0;
    return status;
}

void hub_listing_deinit(hub_listing *l)
{
    arena_deinit(&l->memory);
    *l = (hub_listing){.n_files = 0};
}
