/* weights.h - an opened checkpoint: mapped files, a directory of tensors, and its metadata.
 *
 * To add a format: write NAME.c with `const weights_format FORMAT_NAME` and add WEIGHTS_FORMAT(NAME) to
 * formats.def. Everything in a file is hostile: every number is checked before it sizes an allocation or an
 * access, and errors name the file and the tensor. */
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
    WEIGHTS_HEADER_BYTES =
        100 << 20, /* of one safetensors header, or all GGUF metadata but arrays */
    WEIGHTS_NAME_BYTES = 1024,
    WEIGHTS_CONFIG_BYTES = 16 << 20,
};

typedef struct weights_format weights_format;

typedef struct weights {
    env env;
    arena arena; /* names, tensors, metadata: freed with it */
    const weights_format *format;
    const char *path; /* as given */
    io_map *maps;     /* [n_maps] */
    uint32_t n_maps;
    tensor *tensors; /* [n_tensors], sorted by name; raw words of MLX have encoding NULL */
    uint32_t n_tensors;
    map by_name;                /* name -> index */
    const gguf_value *metadata; /* GGUF: [n_metadata], sorted by key; else NULL */
    uint32_t n_metadata;
    json_doc config; /* config.json; GGUF: root NULL */
} weights;

struct weights_format {
    const char *name; /* "safetensors", "gguf" */
    /* Whether the path looks like this format: by structure (a folder, a magic), never by name alone. */
    bool (*probe)(const io *files, const char *path);
    weft_status (*open)(weights *w, weft_error *err);
};

/* env is copied, what it points to is borrowed. IO, FORMAT, UNSUPPORTED, LIMIT, NOMEM. */
weft_status weights_open(const env *env, const char *path, weights **w, weft_error *err);
void weights_close(weights *w);

/* config.json is only needed while loading: frees it. */
void weights_drop_config(weights *w);

/* NULL when absent. */
const tensor *weights_find(const weights *w, const char *name);

/* "<folder>/<name>" of a safetensors checkpoint into buffer; LIMIT when it does not fit. */
weft_status weights_sibling(const weights *w, const char *name, char *buffer, size_t capacity,
                            weft_error *err);

/* NULL when absent. */
const gguf_value *weights_metadata(const weights *w, const char *key);

#endif
