/* gguf_value.c - reading metadata where it lies in the file. */
#include "formats/gguf_value.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read in place");

/* One number of any type: which of the three holds it. */
typedef struct number {
    enum { NUMBER_NONE, NUMBER_UNSIGNED, NUMBER_SIGNED, NUMBER_REAL } kind;
    uint64_t u;
    int64_t i; /* negative only */
    double real;
} number;

static number of_signed(int64_t value)
{
    if (value < 0) return (number){.kind = NUMBER_SIGNED, .i = value};
    return (number){.kind = NUMBER_UNSIGNED, .u = (uint64_t)value};
}

static number load(gguf_type type, const unsigned char *from)
{
    union {
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } value;
    switch (type) {
    case GGUF_U8:
        return (number){.kind = NUMBER_UNSIGNED, .u = from[0]};
    case GGUF_I8:
        memcpy(&value, from, 1);
        return of_signed(value.i8);
    case GGUF_U16:
        memcpy(&value, from, 2);
        return (number){.kind = NUMBER_UNSIGNED, .u = value.u16};
    case GGUF_I16:
        memcpy(&value, from, 2);
        return of_signed(value.i16);
    case GGUF_U32:
        memcpy(&value, from, 4);
        return (number){.kind = NUMBER_UNSIGNED, .u = value.u32};
    case GGUF_I32:
        memcpy(&value, from, 4);
        return of_signed(value.i32);
    case GGUF_U64:
        memcpy(&value, from, 8);
        return (number){.kind = NUMBER_UNSIGNED, .u = value.u64};
    case GGUF_I64:
        memcpy(&value, from, 8);
        return of_signed(value.i64);
    case GGUF_F32:
        memcpy(&value, from, 4);
        return (number){.kind = NUMBER_REAL, .real = (double)value.f32};
    case GGUF_F64:
        memcpy(&value, from, 8);
        return (number){.kind = NUMBER_REAL, .real = value.f64};
    case GGUF_BOOL:
    case GGUF_TEXT:
    case GGUF_ARRAY:
        break;
    }
    return (number){.kind = NUMBER_NONE};
}

static bool to_real(number n, double *real)
{
    if (n.kind == NUMBER_UNSIGNED) {
        *real = (double)n.u;
    } else if (n.kind == NUMBER_SIGNED) {
        *real = (double)n.i;
    } else {
        *real = n.real;
    }
    return n.kind != NUMBER_NONE;
}

/* The element at index; NUMBER_NONE when it is no array of numbers or ends before. */
static number load_element(const gguf_value *value, uint64_t index)
{
    if (value == NULL || value->type != GGUF_ARRAY || index >= value->n_elements)
        return (number){.kind = NUMBER_NONE};
    if (value->element == GGUF_TEXT) return (number){.kind = NUMBER_NONE};
    uint64_t size = value->n_bytes / value->n_elements;
    return load(value->element, value->data + index * size);
}

bool gguf_u64(const gguf_value *value, uint64_t *result)
{
    *result = 0;
    if (value == NULL) return false;
    number n = load(value->type, value->data);
    if (n.kind == NUMBER_UNSIGNED) *result = n.u;
    return n.kind == NUMBER_UNSIGNED;
}

bool gguf_real(const gguf_value *value, double *result)
{
    *result = 0;
    return value != NULL && to_real(load(value->type, value->data), result);
}

bool gguf_bool(const gguf_value *value, bool *flag)
{
    *flag = value != NULL && value->type == GGUF_BOOL && value->data[0] != 0;
    return value != NULL && value->type == GGUF_BOOL;
}

/* A text at offset of the value's bytes, which opening has checked. */
static str text_at(const gguf_value *value, uint64_t offset)
{
    uint64_t n;
    memcpy(&n, value->data + offset, sizeof n);
    return (str){(const char *)value->data + offset + sizeof n, (size_t)n};
}

bool gguf_text(const gguf_value *value, str *text)
{
    *text = (str){"", 0};
    if (value == NULL || value->type != GGUF_TEXT) return false;
    *text = text_at(value, 0);
    return true;
}

bool gguf_next_text(const gguf_value *value, uint64_t *offset, str *text)
{
    *text = (str){"", 0};
    if (value == NULL || value->type != GGUF_ARRAY || value->element != GGUF_TEXT) return false;
    if (*offset >= value->n_bytes) return false;
    *text = text_at(value, *offset);
    *offset += sizeof(uint64_t) + text->len;
    return true;
}

bool gguf_array_real(const gguf_value *value, uint64_t index, double *result)
{
    *result = 0;
    return to_real(load_element(value, index), result);
}

bool gguf_array_i64(const gguf_value *value, uint64_t index, int64_t *result)
{
    *result = 0;
    number n = load_element(value, index);
    if (n.kind == NUMBER_SIGNED) {
        *result = n.i;
        return true;
    }
    if (n.kind != NUMBER_UNSIGNED || n.u > INT64_MAX) return false;
    *result = (int64_t)n.u;
    return true;
}

bool gguf_array_bool(const gguf_value *value, uint64_t index, bool *flag)
{
    bool ok = value != NULL && value->type == GGUF_ARRAY && value->element == GGUF_BOOL;
    ok = ok && index < value->n_elements;
    *flag = ok && value->data[index] != 0;
    return ok;
}
