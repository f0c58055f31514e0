/* weights.h - an opened checkpoint: mapped files, a directory of tensors, and its metadata.
 *
 * To add a format: write name.c with `const weights_format FORMAT_NAME` and add
 * WEIGHTS_FORMAT(name, NAME) to formats.def. Everything in a file is hostile: every number is
 * checked before it sizes an allocation or an access, and errors name the file and the tensor. */
#ifndef FORMATS_WEIGHTS_H
#define FORMATS_WEIGHTS_H

#include "base/arena.h"
#include "base/env.h"
#include "base/json.h"
#include "base/map.h"
#include "formats/gguf_value.h"
#include "tensor/encoding.h"

/* Limits of what a checkpoint may be. */
enum {
    WEIGHTS_FILES = 4096,
    WEIGHTS_TENSORS = 1 << 20,
    WEIGHTS_METADATA = 1 << 16,
    WEIGHTS_HEADER_BYTES =
        100 << 20, /* of one safetensors header, or all GGUF metadata but arrays */
    WEIGHTS_NAME_BYTES = 1024,
    WEIGHTS_PATH_BYTES = 4096,
    WEIGHTS_CONFIG_BYTES = 16 << 20,
};

typedef struct weights_format weights_format;

typedef struct weights {
    env env;
    arena arena; /* names, tensors, metadata: freed with it */
    const weights_format *format;
    const char *path;         /* as given */
    io_map *maps;             /* [n_maps] */
    uint32_t n_maps, n_files; /* mapped so far; room for them */
    const char **files; /* [n_maps], their names for messages: in the folder, or the path itself */
    const char **paths; /* [n_maps], to open them by */
    tensor *tensors;    /* [n_tensors], sorted by name; raw words of MLX have encoding NULL */
    uint32_t n_tensors;
    uint32_t capacity;          /* of tensors */
    map by_name;                /* name -> index */
    const gguf_value *metadata; /* GGUF: [n_metadata], sorted by key; else NULL */
    uint32_t n_metadata;
    json_doc config; /* config.json; GGUF: root NULL */
} weights;

struct weights_format {
    const char *name; /* "safetensors", "gguf" */
    bool is_folder;   /* its path is a folder, which may hold more: weights_sibling */
    /* Whether the path looks like this format: by structure (a folder, a magic), never by name
     * alone. A failure to read is a status, so that it is not mistaken for another format. */
    weft_status (*probe)(const io *files, const char *path, bool *matches, weft_error *err);
    /* Maps files and adds tensors by the functions below; fills config or metadata. On failure
     * weights_close frees what was made. */
    weft_status (*open)(weights *w, weft_error *err);
};

/* For formats: room for n_files maps, once. */
weft_status weights_reserve_files(weights *w, uint32_t n_files, weft_error *err);

/* For formats: maps a file, which becomes w->maps[*file_i]. name is for messages and copied. */
weft_status weights_map(weights *w, const char *path, const char *name, uint32_t *file_i,
                        weft_error *err);

/* For formats: appends; the tensor's name lives in w->arena. The pointer holds until the next
 * call. */
weft_status weights_add(weights *w, tensor **added, weft_error *err);

/* For formats, at the end of open: sorts the tensors and builds by_name; FORMAT when a name occurs
 * twice. */
weft_status weights_seal(weights *w, weft_error *err);

/* For formats: prepends "KIND'NAME': ", the name cut to what leaves room for the reason, to the
 * message of a failure; kind is "tensor ", "key " or, for files, "". Returns status. */
weft_status weights_blame(weft_status status, const char *kind, const char *name, weft_error *err);

/* How many bytes of a name a message shows, for "%.*s". */
int weights_shown(str name);

/* The file that holds the tensor, for messages. */
const char *weights_file_of(const weights *w, const tensor *t);

/* The rows. */
#define WEIGHTS_FORMAT(name, NAME) extern const weights_format FORMAT_##NAME;
#include "formats/formats.def"
#undef WEIGHTS_FORMAT

/* world is copied, what it points to is borrowed. IO, FORMAT, UNSUPPORTED, LIMIT, NOMEM. */
weft_status weights_open(const env *world, const char *path, weights **w, weft_error *err);
void weights_close(weights *w);

/* config.json is only needed while loading: frees it. */
void weights_drop_config(weights *w);

/* NULL when absent. */
const tensor *weights_find(const weights *w, const char *name);

/* "<folder>/<name>" of a safetensors checkpoint into buffer; LIMIT when it does not fit,
 * UNSUPPORTED when the checkpoint is a single file, ARGUMENT when the name leads out of the
 * folder. */
weft_status weights_sibling(const weights *w, const char *name, char *buffer, size_t capacity,
                            weft_error *err);

/* The whole of a file in the checkpoint's folder, NUL-terminated, in *n_bytes + 1 bytes of the
 * allocator; *text NULL with OK when it is not there. LIMIT when it is larger than limit. */
weft_status weights_read_sibling(const weights *w, const char *name, size_t limit, char **text,
                                 size_t *n_bytes, weft_error *err);

/* The same of a file in a folder in the folder, whose name a file may have said. */
weft_status weights_read_nested(const weights *w, const char *folder, const char *name,
                                size_t limit, char **text, size_t *n_bytes, weft_error *err);

/* NULL when absent. */
const gguf_value *weights_metadata(const weights *w, const char *key);

#endif
