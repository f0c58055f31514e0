/* gguf.c - a single GGUF file.
 *
 * Magic, version, two counts; typed metadata; a table of tensors; data, each tensor at a multiple
 * of the alignment. Both counts are bounded by the size of the file before anything is allocated
 * from them, since every entry takes some bytes. Tensors may overlap: nothing is written, so that
 * harms nobody.
 * Source: the GGUF specification in the ggml project (docs/gguf.md), versions 2 and 3. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "formats/weights.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read in place");

#define ALIGNMENT_KEY "general.alignment"

enum {
    MAGIC_BYTES = 4,
    VERSION_LEAST = 2,
    VERSION_LAST = 3,
    ALIGNMENT = 32, /* where the file does not say */
    ALIGNMENT_LEAST = 8,
    ALIGNMENT_MOST = 65536,
    PAIR_LEAST = 8 + 1 + 4 + 1,           /* length, key, type, value */
    TENSOR_LEAST = 8 + 1 + 4 + 8 + 4 + 8, /* length, name, n_dims, dim, type, offset */
};

static const char MAGIC[MAGIC_BYTES] = {'G', 'G', 'U', 'F'};

/* Bytes of a number or boolean by type; 0 for others. */
static const uint8_t TYPE_BYTES[] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

/* ---- a cursor ---- */

typedef struct cursor {
    const unsigned char *data;
    uint64_t size;
    uint64_t at; /* at most size */
} cursor;

static weft_status cut(const cursor *c, const char *what, weft_error *err)
{
    return err_set(err, WEFT_FORMAT, "the file ends at byte %llu, within %s that starts at %llu",
                   (unsigned long long)c->size, what, (unsigned long long)c->at);
}

static bool skip(cursor *c, uint64_t n_bytes)
{
    if (n_bytes > c->size - c->at) return false;
    c->at += n_bytes;
    return true;
}

static bool take_u32(cursor *c, uint32_t *value)
{
    *value = 0;
    if (!skip(c, sizeof *value)) return false;
    memcpy(value, c->data + c->at - sizeof *value, sizeof *value);
    return true;
}

static bool take_u64(cursor *c, uint64_t *value)
{
    *value = 0;
    if (!skip(c, sizeof *value)) return false;
    memcpy(value, c->data + c->at - sizeof *value, sizeof *value);
    return true;
}

/* Length, then bytes. */
static bool take_text(cursor *c, str *text)
{
    uint64_t n;
    *text = (str){"", 0};
    if (!take_u64(c, &n) || !skip(c, n)) return false;
    *text = (str){(const char *)c->data + c->at - n, (size_t)n};
    return true;
}

/* A key or the name of a tensor: shown to people, hence UTF-8. */
static weft_status take_name(cursor *c, str *name, const char *what, weft_error *err)
{
    if (!take_text(c, name)) return cut(c, what, err);
    if (name->len == 0 || name->len > WEIGHTS_NAME_BYTES) {
        return err_set(err, WEFT_FORMAT, "%s has %zu bytes, it may have 1 to %d", what, name->len,
                       WEIGHTS_NAME_BYTES);
    }
    if (memchr(name->ptr, '\0', name->len) != NULL || !utf8_valid(name->ptr, name->len))
        return err_set(err, WEFT_FORMAT, "%s is not UTF-8 without NUL", what);
    return WEFT_OK;
}

/* ---- metadata ---- */

static bool all_flags(const unsigned char *data, uint64_t n)
{
    unsigned char any = 0;
    for (uint64_t i = 0; i < n; i++) any |= data[i];
    return any <= 1;
}

static weft_status take_array(cursor *c, gguf_value *value, weft_error *err)
{
    uint32_t element;
    if (!take_u32(c, &element) || !take_u64(c, &value->n_elements)) return cut(c, "an array", err);
    if (element == GGUF_ARRAY) return err_set(err, WEFT_UNSUPPORTED, "it is an array of arrays");
    if (element != GGUF_TEXT && (element >= COUNT_OF(TYPE_BYTES) || TYPE_BYTES[element] == 0))
        return err_set(err, WEFT_FORMAT, "its elements have the unknown type %u", element);
    value->element = (gguf_type)element;
    value->data = c->data + c->at;
    uint64_t least = element == GGUF_TEXT ? sizeof(uint64_t) : TYPE_BYTES[element];
    if (value->n_elements > (c->size - c->at) / least) {
        return err_set(err, WEFT_FORMAT, "it has %llu elements, the file %llu bytes from there",
                       (unsigned long long)value->n_elements,
                       (unsigned long long)(c->size - c->at));
    }
    if (element != GGUF_TEXT) {
        c->at += value->n_elements * least;
        value->n_bytes = value->n_elements * least;
        if (element == GGUF_BOOL && !all_flags(value->data, value->n_bytes))
            return err_set(err, WEFT_FORMAT, "it holds a boolean other than 0 and 1");
        return WEFT_OK;
    }
    uint64_t start = c->at;
    for (uint64_t i = 0; i < value->n_elements; i++) {
        str text;
        if (!take_text(c, &text)) return cut(c, "a text", err);
    }
    value->n_bytes = c->at - start;
    return WEFT_OK;
}

static weft_status take_value(cursor *c, gguf_value *value, weft_error *err)
{
    uint32_t type;
    if (!take_u32(c, &type)) return cut(c, "a type", err);
    value->type = (gguf_type)type;
    if (type == GGUF_ARRAY) return take_array(c, value, err);
    value->n_elements = 1;
    value->data = c->data + c->at;
    if (type == GGUF_TEXT) {
        str text;
        if (!take_text(c, &text)) return cut(c, "a text", err);
        value->n_bytes = sizeof(uint64_t) + text.len;
        return WEFT_OK;
    }
    if (type >= COUNT_OF(TYPE_BYTES) || TYPE_BYTES[type] == 0)
        return err_set(err, WEFT_FORMAT, "it has the unknown type %u", type);
    value->n_bytes = TYPE_BYTES[type];
    if (!skip(c, value->n_bytes)) return cut(c, "a number", err);
    if (type == GGUF_BOOL && !all_flags(value->data, 1))
        return err_set(err, WEFT_FORMAT, "it is the boolean %u", value->data[0]);
    return WEFT_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const gguf_value *x = a;
    const gguf_value *y = b;
    return strcmp(x->key, y->key);
}

static weft_status take_pair(weights *w, cursor *c, gguf_value *value, weft_error *err)
{
    str key;
    weft_status status = take_name(c, &key, "a key", err);
    if (status != WEFT_OK) return status;
    value->key = arena_copy_text(&w->arena, key.ptr, key.len);
    if (value->key == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a key");
    status = take_value(c, value, err);
    return weights_blame(status, "key ", value->key, err);
}

static weft_status read_metadata(weights *w, cursor *c, uint64_t count, weft_error *err)
{
    if (count > (c->size - c->at) / PAIR_LEAST) {
        return err_set(err, WEFT_FORMAT, "it counts %llu keys, %llu bytes cannot hold them",
                       (unsigned long long)count, (unsigned long long)(c->size - c->at));
    }
    if (count > WEIGHTS_METADATA) {
        return err_set(err, WEFT_LIMIT, "it has %llu keys, at most %d are read",
                       (unsigned long long)count, WEIGHTS_METADATA);
    }
    gguf_value *values = arena_array(&w->arena, (size_t)count, sizeof *values);
    if (values == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the metadata");
    uint64_t n_bytes = 0; /* arrays stay in the file, and their elements may be many */
    for (uint64_t i = 0; i < count; i++) {
        weft_status status = take_pair(w, c, &values[i], err);
        if (status != WEFT_OK) return status;
        n_bytes += strlen(values[i].key) + (values[i].type == GGUF_ARRAY ? 0 : values[i].n_bytes);
        if (n_bytes > WEIGHTS_HEADER_BYTES) {
            return err_set(err, WEFT_LIMIT, "its metadata without arrays has more than %d bytes",
                           WEIGHTS_HEADER_BYTES);
        }
    }
    if (count > 1) qsort(values, (size_t)count, sizeof *values, compare_keys);
    for (uint64_t i = 1; i < count; i++) {
        if (strcmp(values[i - 1].key, values[i].key) == 0)
            return weights_blame(err_set(err, WEFT_FORMAT, "it occurs twice"), "key ",
                                 values[i].key, err);
    }
    w->metadata = values;
    w->n_metadata = (uint32_t)count;
    return WEFT_OK;
}

static weft_status read_alignment(const weights *w, uint64_t *alignment, weft_error *err)
{
    const gguf_value *value = weights_metadata(w, ALIGNMENT_KEY);
    *alignment = ALIGNMENT;
    if (value == NULL) return WEFT_OK;
    if (value->type != GGUF_U32) {
        return err_set(err, WEFT_FORMAT, ALIGNMENT_KEY " has type %u, expected %u",
                       (unsigned)value->type, (unsigned)GGUF_U32);
    }
    gguf_u64(value, alignment);
    bool power = (*alignment & (*alignment - 1)) == 0;
    if (!power || *alignment < ALIGNMENT_LEAST || *alignment > ALIGNMENT_MOST) {
        return err_set(err, WEFT_FORMAT,
                       ALIGNMENT_KEY " is %llu, expected a power of two in %d..%d",
                       (unsigned long long)*alignment, ALIGNMENT_LEAST, ALIGNMENT_MOST);
    }
    return WEFT_OK;
}

static weft_status refuse_parts(const weights *w, weft_error *err)
{
    uint64_t n_parts;
    if (!gguf_u64(weights_metadata(w, "split.count"), &n_parts) || n_parts <= 1) return WEFT_OK;
    return err_set(err, WEFT_UNSUPPORTED, "it is one of %llu parts; join them into one file first",
                   (unsigned long long)n_parts);
}

/* ---- tensors ---- */

/* An entry as it stands in the file. */
typedef struct tensor_entry {
    str name;
    uint32_t n_dims;
    uint64_t dims[TENSOR_DIMS]; /* innermost first */
    uint32_t type;
    uint64_t offset;
} tensor_entry;

static weft_status take_entry(cursor *c, tensor_entry *entry, weft_error *err)
{
    weft_status status = take_name(c, &entry->name, "the name of a tensor", err);
    if (status != WEFT_OK) return status;
    if (!take_u32(c, &entry->n_dims)) return cut(c, "a tensor", err);
    if (entry->n_dims < 1 || entry->n_dims > TENSOR_DIMS) {
        return err_set(err, WEFT_FORMAT, "tensor '%.*s': it has %u dimensions, expected 1 to %d",
                       weights_shown(entry->name), entry->name.ptr, entry->n_dims, TENSOR_DIMS);
    }
    for (uint32_t i = 0; i < entry->n_dims; i++) {
        if (!take_u64(c, &entry->dims[i])) return cut(c, "a tensor", err);
    }
    if (!take_u32(c, &entry->type) || !take_u64(c, &entry->offset)) return cut(c, "a tensor", err);
    return WEFT_OK;
}

static weft_status set_type(tensor *t, uint32_t type, weft_error *err)
{
    if (!encoding_gguf_block(type, &t->raw_cols, &t->raw_bytes))
        return err_set(err, WEFT_UNSUPPORTED, "its type %u is unknown", type);
    t->raw_type = encoding_gguf_name(type);
    t->encoding = encoding_by_gguf(type);
    return WEFT_OK;
}

/* Finds the bytes of a tensor whose shape and type are set. data is what follows the table of
 * tensors. */
static weft_status place(tensor *t, const cursor *data, uint64_t offset, uint64_t alignment,
                         weft_error *err)
{
    uint64_t n_bytes;
    weft_status status = tensor_measure(t, &n_bytes, err);
    if (status != WEFT_OK) return status;
    if (offset % alignment != 0) {
        return err_set(err, WEFT_FORMAT, "its offset %llu is not a multiple of %llu",
                       (unsigned long long)offset, (unsigned long long)alignment);
    }
    uint64_t room = data->size - data->at;
    if (offset > room || n_bytes > room - offset) {
        return err_set(err, WEFT_FORMAT,
                       "it has %llu bytes at offset %llu of the data, the file has %llu there",
                       (unsigned long long)n_bytes, (unsigned long long)offset,
                       (unsigned long long)room);
    }
    t->planes[0] = data->data + data->at + offset;
    t->plane_bytes[0] = n_bytes;
    return tensor_bind(t, err);
}

static weft_status add_tensor(weights *w, const tensor_entry *entry, const cursor *data,
                              uint64_t alignment, weft_error *err)
{
    char *name = arena_copy_text(&w->arena, entry->name.ptr, entry->name.len);
    if (name == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the names of tensors");
    tensor *t;
    weft_status status = weights_add(w, &t, err);
    if (status != WEFT_OK) return status;
    t->name = name;
    t->n_dims = entry->n_dims;
    for (uint32_t i = 0; i < entry->n_dims; i++) t->dims[i] = entry->dims[entry->n_dims - 1 - i];
    status = set_type(t, entry->type, err);
    if (status == WEFT_OK) status = place(t, data, entry->offset, alignment, err);
    return weights_blame(status, "tensor ", name, err);
}

/* The data begins behind the table, so the table is read twice: first for where it ends. */
static weft_status read_tensors(weights *w, cursor *c, uint64_t count, weft_error *err)
{
    if (count > (c->size - c->at) / TENSOR_LEAST) {
        return err_set(err, WEFT_FORMAT, "it counts %llu tensors, %llu bytes cannot hold them",
                       (unsigned long long)count, (unsigned long long)(c->size - c->at));
    }
    uint64_t alignment;
    weft_status status = read_alignment(w, &alignment, err);
    cursor table = *c;
    tensor_entry entry;
    for (uint64_t i = 0; i < count && status == WEFT_OK; i++) status = take_entry(c, &entry, err);
    if (status != WEFT_OK) return status;
    uint64_t padding = (alignment - c->at % alignment) % alignment;
    if (!skip(c, padding)) c->at = c->size;
    for (uint64_t i = 0; i < count && status == WEFT_OK; i++) {
        status = take_entry(&table, &entry, err);
        if (status == WEFT_OK) status = add_tensor(w, &entry, c, alignment, err);
    }
    return status;
}

/* ---- the file ---- */

static weft_status read_version(cursor *c, weft_error *err)
{
    uint32_t version;
    if (!skip(c, MAGIC_BYTES) || !take_u32(c, &version)) return cut(c, "the version", err);
    if (version != 0 && (version & 0xffffu) == 0)
        return err_set(err, WEFT_UNSUPPORTED, "it is big-endian GGUF");
    if (version < VERSION_LEAST || version > VERSION_LAST) {
        return err_set(err, WEFT_UNSUPPORTED, "it is GGUF version %u, expected %d or %d", version,
                       VERSION_LEAST, VERSION_LAST);
    }
    return WEFT_OK;
}

static weft_status read_file(weights *w, cursor *c, weft_error *err)
{
    weft_status status = read_version(c, err);
    if (status != WEFT_OK) return status;
    uint64_t n_tensors, n_pairs;
    if (!take_u64(c, &n_tensors) || !take_u64(c, &n_pairs)) return cut(c, "the counts", err);
    status = read_metadata(w, c, n_pairs, err);
    if (status == WEFT_OK) status = refuse_parts(w, err);
    if (status == WEFT_OK) status = read_tensors(w, c, n_tensors, err);
    return status;
}

static weft_status open_file(weights *w, weft_error *err)
{
    const char *slash = strrchr(w->path, '/');
    const char *name = slash == NULL ? w->path : slash + 1;
    uint32_t file_i;
    weft_status status = weights_reserve_files(w, 1, err);
    if (status == WEFT_OK) status = weights_map(w, w->path, name, &file_i, err);
    if (status != WEFT_OK) return status;
    cursor c = {.data = w->maps[file_i].data, .size = w->maps[file_i].size};
    status = weights_blame(read_file(w, &c, err), "", name, err);
    return status == WEFT_OK ? weights_seal(w, err) : status;
}

/* Big-endian files have the same magic. */
static weft_status probe(const io *files, const char *path, bool *matches, weft_error *err)
{
    *matches = false;
    if (files->is_folder(files, path)) return WEFT_OK;
    uint64_t size;
    char magic[MAGIC_BYTES];
    weft_status status = files->size(files, path, &size, err);
    if (status != WEFT_OK || size < MAGIC_BYTES) return status;
    status = files->read(files, path, 0, magic, sizeof magic, err);
    *matches = status == WEFT_OK && memcmp(magic, MAGIC, sizeof magic) == 0;
    return status;
}

const weights_format FORMAT_GGUF = {
    .name = "gguf",
    .is_folder = false,
    .probe = probe,
    .open = open_file,
};
