/* files.h - building safetensors and GGUF files in memory, whole or broken in one place.
 *
 *     gguf_builder b;
 *     gguf_init(&b, 3);
 *     gguf_add_u32(&b, "general.alignment", 64);
 *     gguf_add_tensor(&b, "w", 0, (const uint64_t[]){2, 3}, 2, values, sizeof values);
 *     const char *path = gguf_write(&b, &folder, "m.gguf");
 *     gguf_deinit(&b);
 *
 * Nothing is checked: types, sizes and offsets are what the caller says. Out of memory fails the
 * test. */
#ifndef SUPPORT_FILES_H
#define SUPPORT_FILES_H

#include "formats/gguf_value.h"
#include "support/test.h"

/* Bytes that grow. */
typedef struct file_bytes {
    unsigned char *data;
    size_t n_bytes, capacity;
} file_bytes;

void file_bytes_add(file_bytes *bytes, const void *data, size_t n_bytes);
void file_bytes_add_u32(file_bytes *bytes, uint32_t value);
void file_bytes_add_u64(file_bytes *bytes, uint64_t value);
void file_bytes_add_text(file_bytes *bytes, const char *text); /* without a length or NUL */
void file_bytes_pad(file_bytes *bytes, size_t align);
void file_bytes_free(file_bytes *bytes);

/* ---- safetensors ---- */

typedef struct safetensors_builder {
    file_bytes header; /* JSON text up to where the next member goes */
    file_bytes data;
    const char *padding; /* behind the header; "" at first */
} safetensors_builder;

void safetensors_init(safetensors_builder *b);
void safetensors_deinit(safetensors_builder *b);

/* data_offsets continue where the last tensor ended. data NULL: zeros. */
void safetensors_add(safetensors_builder *b, const char *name, const char *dtype,
                     const uint64_t *dims, size_t n_dims, const void *data, size_t n_bytes);

/* Any text as a member of the header: "\"w\":{...}". */
void safetensors_add_member(safetensors_builder *b, const char *member);

/* The file so far; *bytes is the caller's. */
void safetensors_build(const safetensors_builder *b, file_bytes *bytes);

/* From any header text and data. */
void safetensors_assemble(file_bytes *bytes, uint64_t header_length, const void *header,
                          size_t n_header, const void *data, size_t n_data);

/* Writes it and returns the path, as test_folder_write does. */
const char *safetensors_write(const safetensors_builder *b, test_folder *folder, const char *name);

/* ---- GGUF ---- */

typedef struct gguf_builder {
    uint32_t version;
    uint64_t n_pairs, n_tensors;
    uint32_t alignment; /* of the data; 32, or what gguf_add_u32 set as general.alignment */
    file_bytes metadata;
    file_bytes table;
    file_bytes data;
} gguf_builder;

void gguf_init(gguf_builder *b, uint32_t version);
void gguf_deinit(gguf_builder *b);

/* A key, its type and the bytes of its value; what the others are made of. */
void gguf_add_raw(gguf_builder *b, const char *key, uint32_t type, const void *value,
                  size_t n_bytes);
void gguf_add_u32(gguf_builder *b, const char *key, uint32_t value);
void gguf_add_u64(gguf_builder *b, const char *key, uint64_t value);
void gguf_add_f32(gguf_builder *b, const char *key, float value);
void gguf_add_bool(gguf_builder *b, const char *key, bool value);
void gguf_add_text(gguf_builder *b, const char *key, const char *value);

/* count elements of a number type, n_bytes in all. */
void gguf_add_array(gguf_builder *b, const char *key, gguf_type element, const void *values,
                    uint64_t count, size_t n_bytes);
void gguf_add_texts(gguf_builder *b, const char *key, const char *const *texts, size_t count);
void gguf_add_strs(gguf_builder *b, const char *key, const str *texts, size_t count);

/* dims outermost first; type is a ggml type. The data goes to the next multiple of the alignment;
 * data NULL: zeros. */
void gguf_add_tensor(gguf_builder *b, const char *name, uint32_t type, const uint64_t *dims,
                     uint32_t n_dims, const void *data, size_t n_bytes);

/* Only an entry of the table, at any offset. */
void gguf_add_entry(gguf_builder *b, const char *name, uint32_t type, const uint64_t *dims,
                    uint32_t n_dims, uint64_t offset);

void gguf_build(const gguf_builder *b, file_bytes *bytes);
const char *gguf_write(const gguf_builder *b, test_folder *folder, const char *name);

#endif
