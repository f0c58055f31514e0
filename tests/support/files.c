/* files.c - building safetensors and GGUF files in memory. */
#include "support/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- bytes ---- */

/* NULL adds zeros. */
void file_bytes_add(file_bytes *bytes, const void *data, size_t n_bytes)
{
    size_t need = bytes->n_bytes + n_bytes;
    if (need > bytes->capacity) {
        size_t capacity = need * 2 + 256;
        unsigned char *larger = realloc(bytes->data, capacity);
        assert_non_null(larger);
        bytes->data = larger;
        bytes->capacity = capacity;
    }
    if (n_bytes == 0) return;
    if (data != NULL) {
        memcpy(bytes->data + bytes->n_bytes, data, n_bytes);
    } else {
        memset(bytes->data + bytes->n_bytes, 0, n_bytes);
    }
    bytes->n_bytes = need;
}

void file_bytes_add_u32(file_bytes *bytes, uint32_t value)
{
    file_bytes_add(bytes, &value, sizeof value);
}

void file_bytes_add_u64(file_bytes *bytes, uint64_t value)
{
    file_bytes_add(bytes, &value, sizeof value);
}

void file_bytes_add_text(file_bytes *bytes, const char *text)
{
    file_bytes_add(bytes, text, strlen(text));
}

void file_bytes_pad(file_bytes *bytes, size_t align)
{
    file_bytes_add(bytes, NULL, (align - bytes->n_bytes % align) % align);
}

void file_bytes_free(file_bytes *bytes)
{
    free(bytes->data);
    *bytes = (file_bytes){0};
}

/* ---- safetensors ---- */

void safetensors_init(safetensors_builder *b)
{
    *b = (safetensors_builder){.padding = ""};
    file_bytes_add_text(&b->header, "{");
}

void safetensors_deinit(safetensors_builder *b)
{
    file_bytes_free(&b->header);
    file_bytes_free(&b->data);
}

void safetensors_add_member(safetensors_builder *b, const char *member)
{
    if (b->header.n_bytes > 1) file_bytes_add_text(&b->header, ",");
    file_bytes_add_text(&b->header, member);
}

void safetensors_add(safetensors_builder *b, const char *name, const char *dtype,
                     const uint64_t *dims, size_t n_dims, const void *data, size_t n_bytes)
{
    char text[64];
    size_t begin = b->data.n_bytes;
    safetensors_add_member(b, "\"");
    file_bytes_add_text(&b->header, name);
    file_bytes_add_text(&b->header, "\":{\"dtype\":\"");
    file_bytes_add_text(&b->header, dtype);
    file_bytes_add_text(&b->header, "\",\"shape\":[");
    for (size_t i = 0; i < n_dims; i++) {
        snprintf(text, sizeof text, "%s%llu", i == 0 ? "" : ",", (unsigned long long)dims[i]);
        file_bytes_add_text(&b->header, text);
    }
    file_bytes_add(&b->data, data, n_bytes);
    snprintf(text, sizeof text, "],\"data_offsets\":[%zu,%zu]}", begin, begin + n_bytes);
    file_bytes_add_text(&b->header, text);
}

void safetensors_assemble(file_bytes *bytes, uint64_t header_length, const void *header,
                          size_t n_header, const void *data, size_t n_data)
{
    *bytes = (file_bytes){0};
    file_bytes_add_u64(bytes, header_length);
    file_bytes_add(bytes, header, n_header);
    file_bytes_add(bytes, data, n_data);
}

void safetensors_build(const safetensors_builder *b, file_bytes *bytes)
{
    file_bytes header = {0};
    file_bytes_add(&header, b->header.data, b->header.n_bytes);
    file_bytes_add_text(&header, "}");
    file_bytes_add_text(&header, b->padding);
    safetensors_assemble(bytes, header.n_bytes, header.data, header.n_bytes, b->data.data,
                         b->data.n_bytes);
    file_bytes_free(&header);
}

const char *safetensors_write(const safetensors_builder *b, test_folder *folder, const char *name)
{
    file_bytes bytes;
    safetensors_build(b, &bytes);
    const char *path = test_folder_write(folder, name, bytes.data, bytes.n_bytes);
    file_bytes_free(&bytes);
    return path;
}

/* ---- GGUF ---- */

void gguf_init(gguf_builder *b, uint32_t version)
{
    *b = (gguf_builder){.version = version, .alignment = 32};
}

void gguf_deinit(gguf_builder *b)
{
    file_bytes_free(&b->metadata);
    file_bytes_free(&b->table);
    file_bytes_free(&b->data);
}

static void add_text(file_bytes *bytes, const char *text, size_t n_bytes)
{
    file_bytes_add_u64(bytes, n_bytes);
    file_bytes_add(bytes, text, n_bytes);
}

void gguf_add_raw(gguf_builder *b, const char *key, uint32_t type, const void *value,
                  size_t n_bytes)
{
    add_text(&b->metadata, key, strlen(key));
    file_bytes_add_u32(&b->metadata, type);
    file_bytes_add(&b->metadata, value, n_bytes);
    b->n_pairs++;
}

void gguf_add_u32(gguf_builder *b, const char *key, uint32_t value)
{
    bool usable = value >= 1 && value <= 1u << 20;
    if (strcmp(key, "general.alignment") == 0 && usable) b->alignment = value;
    gguf_add_raw(b, key, GGUF_U32, &value, sizeof value);
}

void gguf_add_u64(gguf_builder *b, const char *key, uint64_t value)
{
    gguf_add_raw(b, key, GGUF_U64, &value, sizeof value);
}

void gguf_add_f32(gguf_builder *b, const char *key, float value)
{
    gguf_add_raw(b, key, GGUF_F32, &value, sizeof value);
}

void gguf_add_bool(gguf_builder *b, const char *key, bool value)
{
    unsigned char byte = value;
    gguf_add_raw(b, key, GGUF_BOOL, &byte, 1);
}

void gguf_add_text(gguf_builder *b, const char *key, const char *value)
{
    gguf_add_raw(b, key, GGUF_TEXT, NULL, 0);
    add_text(&b->metadata, value, strlen(value));
}

static void add_array_head(gguf_builder *b, const char *key, uint32_t element, uint64_t count)
{
    gguf_add_raw(b, key, GGUF_ARRAY, NULL, 0);
    file_bytes_add_u32(&b->metadata, element);
    file_bytes_add_u64(&b->metadata, count);
}

void gguf_add_array(gguf_builder *b, const char *key, gguf_type element, const void *values,
                    uint64_t count, size_t n_bytes)
{
    add_array_head(b, key, element, count);
    file_bytes_add(&b->metadata, values, n_bytes);
}

void gguf_add_strs(gguf_builder *b, const char *key, const str *texts, size_t count)
{
    add_array_head(b, key, GGUF_TEXT, count);
    for (size_t i = 0; i < count; i++) add_text(&b->metadata, texts[i].ptr, texts[i].len);
}

void gguf_add_texts(gguf_builder *b, const char *key, const char *const *texts, size_t count)
{
    add_array_head(b, key, GGUF_TEXT, count);
    for (size_t i = 0; i < count; i++) add_text(&b->metadata, texts[i], strlen(texts[i]));
}

void gguf_add_entry(gguf_builder *b, const char *name, uint32_t type, const uint64_t *dims,
                    uint32_t n_dims, uint64_t offset)
{
    add_text(&b->table, name, strlen(name));
    file_bytes_add_u32(&b->table, n_dims);
    for (uint32_t i = n_dims; i > 0; i--) file_bytes_add_u64(&b->table, dims[i - 1]);
    file_bytes_add_u32(&b->table, type);
    file_bytes_add_u64(&b->table, offset);
    b->n_tensors++;
}

void gguf_add_tensor(gguf_builder *b, const char *name, uint32_t type, const uint64_t *dims,
                     uint32_t n_dims, const void *data, size_t n_bytes)
{
    file_bytes_pad(&b->data, b->alignment);
    gguf_add_entry(b, name, type, dims, n_dims, b->data.n_bytes);
    file_bytes_add(&b->data, data, n_bytes);
}

void gguf_build(const gguf_builder *b, file_bytes *bytes)
{
    *bytes = (file_bytes){0};
    file_bytes_add_text(bytes, "GGUF");
    file_bytes_add_u32(bytes, b->version);
    file_bytes_add_u64(bytes, b->n_tensors);
    file_bytes_add_u64(bytes, b->n_pairs);
    file_bytes_add(bytes, b->metadata.data, b->metadata.n_bytes);
    file_bytes_add(bytes, b->table.data, b->table.n_bytes);
    file_bytes_pad(bytes, b->alignment);
    file_bytes_add(bytes, b->data.data, b->data.n_bytes);
}

const char *gguf_write(const gguf_builder *b, test_folder *folder, const char *name)
{
    file_bytes bytes;
    gguf_build(b, &bytes);
    const char *path = test_folder_write(folder, name, bytes.data, bytes.n_bytes);
    file_bytes_free(&bytes);
    return path;
}
