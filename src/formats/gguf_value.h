/* gguf_value.h - a typed key and value of GGUF metadata, in place in the mapped file.
 * Source: the GGUF specification in the ggml project (docs/gguf.md), versions 2 and 3. */
#ifndef FORMATS_GGUF_VALUE_H
#define FORMATS_GGUF_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

typedef enum gguf_type {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_TEXT = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12
} gguf_type;

typedef struct gguf_value {
    const char *key; /* NUL-terminated */
    gguf_type type;
    gguf_type element;   /* of an array; arrays of arrays are refused on opening */
    uint64_t n_elements; /* of an array; else 1 */
    const unsigned char
        *data;        /* the value, or the first element; texts are u64 length then bytes */
    uint64_t n_bytes; /* of all elements: checked to lie in the file, each text too */
} gguf_value;

/* False when value is NULL or of another kind. Integers of any width; a negative one fails as
 * unsigned. */
bool gguf_u64(const gguf_value *value, uint64_t *number);
bool gguf_real(const gguf_value *value, double *number); /* floats and integers */
bool gguf_bool(const gguf_value *value, bool *flag);
bool gguf_text(const gguf_value *value, str *text);

/* Walks an array of texts: start with *offset 0; false at the end. */
bool gguf_next_text(const gguf_value *value, uint64_t *offset, str *text);

/* Element index of an array of numbers, widened. */
bool gguf_array_real(const gguf_value *value, uint64_t index, double *number);
bool gguf_array_i64(const gguf_value *value, uint64_t index, int64_t *number);
bool gguf_array_bool(const gguf_value *value, uint64_t index, bool *flag); /* of flags */

#endif
