/* fields.c - members by a table. */
#include "server/fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/utf8.h"

enum { SHOWN_BYTES = 64, SHOWN_TYPE_BYTES = 48 }; /* of a wrong value */

weft_status field_wrong(char *param, const char *name, weft_error *err, const char *fmt, ...)
{
    char text[sizeof err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(param, FIELD_NAME_BYTES, "%s", name);
    param[utf8_whole(param, strlen(param))] = '\0';
    return err_set(err, WEFT_ARGUMENT, "%s %s", param, text);
}

weft_status field_missing(char *param, const char *where, const char *name, weft_error *err)
{
    char whole[FIELD_NAME_BYTES];
    snprintf(whole, sizeof whole, "%.44s%s", where, name);
    return field_wrong(param, whole, err, "is missing");
}

weft_status field_wrong_type(char *param, const char *where, str type, const char *known,
                             weft_error *err)
{
    char name[FIELD_NAME_BYTES];
    snprintf(name, sizeof name, "%.44stype", where);
    if (type.len == 0) return field_wrong(param, name, err, "is missing; known here: %s", known);
    return field_wrong(param, name, err, "is '%.*s'; known here: %s",
                       (int)(type.len < SHOWN_TYPE_BYTES ? type.len : SHOWN_TYPE_BYTES), type.ptr,
                       known);
}

/* The beginning of a value, for a message. */
static void show(const json *value, char out[SHOWN_BYTES])
{
    strbuf text;
    strbuf_init(&text, mem_system(), 0);
    json_kind kind = json_kind_of(value);
    if (kind == JSON_KIND_ARRAY || kind == JSON_KIND_OBJECT) {
        snprintf(out, SHOWN_BYTES, "an %s", json_kind_name(kind));
    } else {
        json_write(value, 0, &text);
        snprintf(out, SHOWN_BYTES, "%s", strbuf_text(&text));
        out[utf8_whole(out, strlen(out))] = '\0';
    }
    strbuf_deinit(&text);
}

static weft_status expected(char *param, const char *name, const json *value, const char *what,
                            weft_error *err)
{
    char shown[SHOWN_BYTES];
    show(value, shown);
    return field_wrong(param, name, err, "is %s, expected %s", shown, what);
}

static weft_status read_number(const field_row *row, const json *value, const char *name, void *out,
                               char *param, weft_error *err)
{
    char range[96];
    json_kind kind = json_kind_of(value);
    bool is_count = row->kind == FIELD_COUNT;
    bool fits = kind == JSON_KIND_INT || kind == JSON_KIND_REAL;
    double number = json_number(value, (double)NAN);
    fits = fits && number >= row->min && number <= row->max;
    if (is_count) fits = fits && floor(number) == number;
    snprintf(range, sizeof range, "%s from %.9g to %.9g", is_count ? "a whole number" : "a number",
             row->min, row->max);
    if (!fits) return expected(param, name, value, range, err);
    if (is_count) {
        *(uint32_t *)out = (uint32_t)number;
    } else {
        *(float *)out = (float)number;
    }
    return WEFT_OK;
}

static weft_status read_refused(const field_row *row, const json *value, const char *name,
                                char *param, weft_error *err)
{
    if (row->only == NULL) return field_wrong(param, name, err, "is not supported");
    strbuf text;
    strbuf_init(&text, mem_system(), 0);
    bool same =
        json_write(value, 0, &text) == WEFT_OK && strcmp(strbuf_text(&text), row->only) == 0;
    strbuf_deinit(&text);
    if (same) return WEFT_OK;
    return expected(param, name, value, row->only, err);
}

static weft_status read_value(const field_row *row, const json *value, const char *name,
                              unsigned char *values, char *param, weft_error *err)
{
    json_kind kind = json_kind_of(value);
    if (row->kind == FIELD_IGNORED) return WEFT_OK;
    if (row->kind == FIELD_REFUSED) return read_refused(row, value, name, param, err);
    /* A table of nothing but these has no values. */
    void *out = values + row->offset;
    switch (row->kind) {
    case FIELD_IGNORED:
    case FIELD_REFUSED:
        break;
    case FIELD_FLAG:
        if (kind != JSON_KIND_BOOL) return expected(param, name, value, "true or false", err);
        *(bool *)out = json_bool(value, false);
        return WEFT_OK;
    case FIELD_COUNT:
    case FIELD_REAL:
        return read_number(row, value, name, out, param, err);
    case FIELD_SEED:
        if (kind != JSON_KIND_INT)
            return expected(param, name, value, "a whole number of 64 bits", err);
        *(uint64_t *)out = (uint64_t)json_int(value, 0);
        return WEFT_OK;
    case FIELD_TEXT:
        if (kind != JSON_KIND_TEXT) return expected(param, name, value, "a string", err);
        *(str *)out = json_text(value);
        return WEFT_OK;
    case FIELD_JSON:
        *(const json **)out = value;
        return WEFT_OK;
    }
    return WEFT_OK;
}

static const field_row *find(const field_table *tables, size_t n_tables, str key, void **values)
{
    for (size_t i = 0; i < n_tables; i++) {
        for (size_t j = 0; j < tables[i].n_rows; j++) {
            if (!str_equal_text(key, tables[i].rows[j].name)) continue;
            *values = tables[i].values;
            return &tables[i].rows[j];
        }
    }
    return NULL;
}

weft_status fields_read(const json *object, const char *where, const field_table *tables,
                        size_t n_tables, char *param, weft_error *err)
{
    json_iter iter = {0};
    str key;
    const json *value;
    param[0] = '\0';
    if (json_kind_of(object) != JSON_KIND_OBJECT) {
        char name[FIELD_NAME_BYTES] = "the body";
        size_t n = strlen(where);
        if (n > 0) snprintf(name, sizeof name, "%.*s", (int)n - (where[n - 1] == '.'), where);
        return expected(param, name, object, "a JSON object", err);
    }
    while (json_next(object, &iter, &key, &value)) {
        char name[FIELD_NAME_BYTES];
        void *values = NULL;
        snprintf(name, sizeof name, "%s%.*s", where, (int)(key.len < 60 ? key.len : 60), key.ptr);
        name[utf8_whole(name, strlen(name))] = '\0';
        const field_row *row = find(tables, n_tables, key, &values);
        if (row == NULL) return field_wrong(param, name, err, "is no field that is known here");
        if (json_kind_of(value) == JSON_KIND_NULL) continue;
        weft_status status = read_value(row, value, name, values, param, err);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}
