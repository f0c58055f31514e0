/* form_arguments.c - a tool's parameters as the arguments of a call that must be.
 *
 * As JSON they are a schema. Where a dialect writes values bare, each parameter is a part of its
 * own; of its schema only what such values can be held to is taken, the rest is refused by name. */
#include <stdio.h>
#include <string.h>

#include "chat/forms.h"

enum { PROPERTIES_MOST = 64, VALUE_DEPTH = 16 };

static void raw(const char *text, strbuf *out)
{
    (void)strbuf_add_text(out, text);
}

static bool is_one_of(str key, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_equal_text(key, names[i])) return true;
    }
    return false;
}

#define ONE_OF(key, names) is_one_of(key, names, sizeof(names) / sizeof(names)[0])

/* Members that say nothing of values. */
static const char *const TALK[] = {"title",    "description", "default",     "examples",
                                   "$comment", "deprecated",  "readOnly",    "writeOnly",
                                   "$schema",  "$defs",       "definitions", "$id"};

/* Copies an object's members, and what it lacks: "type" or the root's definitions. */
static void copy_schema(const json *schema, const json *root, const char *type, strbuf *out)
{
    static const char *const DEFS[] = {"$defs", "definitions"};
    json_iter it = {NULL};
    str key;
    const json *value;
    bool any = false;
    (void)strbuf_add_char(out, '{');
    while (json_next(schema, &it, &key, &value)) {
        raw(any ? ", " : "", out);
        (void)json_write_text(key, out);
        raw(": ", out);
        (void)json_write(value, 0, out);
        any = true;
    }
    if (type != NULL && json_get(schema, "type") == NULL) {
        (void)strbuf_printf(out, "%s\"type\": \"%s\"", any ? ", " : "", type);
        any = true;
    }
    for (size_t i = 0; i < 2 && root != schema; i++) {
        const json *defs = json_get(root, DEFS[i]);
        if (defs == NULL || json_get(schema, DEFS[i]) != NULL) continue;
        (void)strbuf_printf(out, "%s\"%s\": ", any ? ", " : "", DEFS[i]);
        (void)json_write(defs, 0, out);
        any = true;
    }
    (void)strbuf_add_char(out, '}');
}

weft_status chat_form_write_json(const json *parameters, strbuf *out, weft_error *err)
{
    (void)err;
    if (json_length(parameters) == 0) {
        raw("{\"json\": true}", out);
        return WEFT_OK;
    }
    raw("{\"schema\": ", out);
    copy_schema(parameters, parameters, "object", out);
    raw("}", out);
    return WEFT_OK;
}

/* ---- values that are written bare ------------------------------------------------------------ */

/* What of a string's schema is known here. */
typedef struct text_schema {
    bool free;            /* any text */
    int64_t max_chars;    /* -1: no bound */
    const json *choices;  /* NULL, or an array of texts */
    const json *constant; /* NULL, or the one text */
} text_schema;

static bool all_texts(const json *array)
{
    for (size_t i = 0; i < json_length(array); i++) {
        if (json_kind_of(json_at(array, i)) != JSON_KIND_TEXT) return false;
    }
    return json_length(array) > 0;
}

/* Whether alternatives are types and nothing else. */
static bool only_types(const json *list)
{
    json_iter it;
    str key;
    const json *value;
    for (size_t i = 0; i < json_length(list); i++) {
        it = (json_iter){NULL};
        while (json_next(json_at(list, i), &it, &key, &value)) {
            if (!str_equal_text(key, "type") && !ONE_OF(key, TALK)) return false;
        }
    }
    return json_length(list) > 0;
}

/* False: there is something that a bare text cannot be held to, named by what. */
static bool read_text_schema(const json *schema, text_schema *t, str *what)
{
    json_iter it = {NULL};
    str key;
    const json *value;
    *t = (text_schema){.free = true, .max_chars = -1};
    while (json_next(schema, &it, &key, &value)) {
        *what = key;
        if (str_equal_text(key, "enum") && all_texts(value)) {
            t->choices = value;
        } else if (str_equal_text(key, "const") && json_kind_of(value) == JSON_KIND_TEXT) {
            t->constant = value;
        } else if (str_equal_text(key, "maxLength") && json_int(value, -1) >= 0) {
            t->max_chars = json_int(value, -1);
        } else if (str_equal_text(key, "anyOf") || str_equal_text(key, "oneOf")) {
            if (!only_types(value)) return false;
        } else if (!str_equal_text(key, "type") && !ONE_OF(key, TALK)) {
            return false;
        }
    }
    t->free = t->choices == NULL && t->constant == NULL;
    return t->free || t->max_chars < 0;
}

static weft_status refuse(str name, str what, weft_error *err)
{
    return err_set(err, WEFT_UNSUPPORTED,
                   "parameter '%.*s': '%.*s' cannot be honoured in this model's way to write calls",
                   (int)(name.len < 60 ? name.len : 60), name.ptr,
                   (int)(what.len < 40 ? what.len : 40), what.ptr);
}

/* A text up to a marker, which is part of it here. */
static void write_text_until(const text_schema *t, const char *marker, strbuf *out)
{
    if (t->free) {
        chat_form_until(str_of(marker), t->max_chars, out);
        return;
    }
    raw("{\"all\": [{\"choice\": ", out);
    if (t->choices != NULL) {
        (void)json_write(t->choices, 0, out);
    } else {
        raw("[", out);
        (void)json_write(t->constant, 0, out);
        raw("]", out);
    }
    raw("}, ", out);
    chat_form_text(marker, out);
    raw("]}", out);
}

static bool is_required(const json *parameters, str name)
{
    const json *required = json_get(parameters, "required");
    for (size_t i = 0; i < json_length(required); i++) {
        if (str_equal(json_text(json_at(required, i)), name)) return true;
    }
    return false;
}

/* Of an object that is written member by member. */
static weft_status check_object(const json *schema, weft_error *err)
{
    static const char *const KNOWN[] = {"type", "properties", "required", "additionalProperties"};
    const json *properties = json_get(schema, "properties"),
               *required = json_get(schema, "required");
    json_iter it = {NULL};
    str key;
    const json *value;
    while (json_next(schema, &it, &key, &value)) {
        if (!ONE_OF(key, KNOWN) && !ONE_OF(key, TALK)) return refuse(str_of(""), key, err);
    }
    if (json_length(properties) > PROPERTIES_MOST) {
        return err_set(err, WEFT_LIMIT, "there are %zu parameters, at most %d may be",
                       json_length(properties), PROPERTIES_MOST);
    }
    for (size_t i = 0; i < json_length(required); i++) {
        str name = json_text(json_at(required, i));
        bool found = false;
        it = (json_iter){NULL};
        while (json_next(properties, &it, &key, &value)) found = found || str_equal(key, name);
        if (!found) return refuse(name, str_of("required"), err);
    }
    return WEFT_OK;
}

/* ---- tags ------------------------------------------------------------------------------------ */

static weft_status write_xml_value(const dialect_xml *how, const json *parameters, str name,
                                   const json *schema, strbuf *out, weft_error *err)
{
    text_schema t;
    str what = str_of("type");
    uint32_t types = tool_types_of(schema, parameters);
    char close[96];
    snprintf(close, sizeof close, "%s%s", how->lines ? "\n" : "", how->value_close);
    if ((types & TOOL_TEXT) == 0) {
        raw("{\"all\": [{\"schema\": ", out);
        copy_schema(schema, parameters, NULL, out);
        raw("}, ", out);
        chat_form_text(close, out);
        raw("]}", out);
        return WEFT_OK;
    }
    if (!read_text_schema(schema, &t, &what)) return refuse(name, what, err);
    /* The reader would take a text that looks like another type for that. */
    if (!t.free && types != TOOL_TEXT) return refuse(name, what, err);
    write_text_until(&t, t.free ? how->value_close : close, out);
    return WEFT_OK;
}

/* What is between a key and its value. */
static void write_gap(const dialect_xml *how, strbuf *out)
{
    chat_form_text("\n", out);
    raw(", ", out);
    chat_form_text(how->value_open, out);
    raw(", ", out);
}

/* Parameters of which nothing is said. */
static void write_any(const dialect_xml *how, strbuf *out)
{
    raw("{\"repeat\": {\"all\": [", out);
    chat_form_text(how->key_open, out);
    raw(", {\"regex\": \"[^<>\\\"\\n]{1,64}\"}, ", out);
    chat_form_text(how->key_close, out);
    raw(", ", out);
    write_gap(how, out);
    chat_form_until(str_of(how->value_close), -1, out);
    (void)strbuf_printf(out, ", {\"text\": \"\\n\"}]}, \"max\": %d}", CALL_PARAMETERS);
}

weft_status chat_form_write_xml(const dialect *d, const json *parameters, strbuf *out,
                                weft_error *err)
{
    const dialect_xml *how = &d->xml;
    json_iter it = {NULL};
    str name;
    const json *schema;
    if (json_get(parameters, "properties") == NULL) {
        write_any(how, out);
        return WEFT_OK;
    }
    weft_status status = check_object(parameters, err);
    raw("{\"all\": [", out);
    while (status == WEFT_OK &&
           json_next(json_get(parameters, "properties"), &it, &name, &schema)) {
        bool required = is_required(parameters, name);
        raw(required ? "{\"all\": [" : "{\"optional\": {\"all\": [", out);
        chat_form_text(how->key_open, out);
        raw(", {\"text\": ", out);
        (void)json_write_text(name, out);
        raw("}, ", out);
        chat_form_text(how->key_close, out);
        raw(", ", out);
        write_gap(how, out);
        status = write_xml_value(how, parameters, name, schema, out, err);
        raw(", {\"text\": \"\\n\"}", out);
        raw(required ? "]}, " : "]}}, ", out);
    }
    raw("{\"text\": \"\"}]}", out);
    return status;
}

/* ---- Gemma's values -------------------------------------------------------------------------- */

typedef struct typed_writer {
    const char *quote;
    const json *root;
    strbuf *out;
    weft_error *err;
} typed_writer;

static weft_status write_typed_value(const typed_writer *w, str name, const json *schema,
                                     uint32_t depth);

static weft_status write_array(const typed_writer *w, str name, const json *schema, uint32_t depth)
{
    static const char *const KNOWN[] = {"type", "items", "minItems", "maxItems"};
    json_iter it = {NULL};
    str key;
    const json *value;
    while (json_next(schema, &it, &key, &value)) {
        if (!ONE_OF(key, KNOWN) && !ONE_OF(key, TALK)) return refuse(name, key, w->err);
    }
    raw("{\"all\": [{\"text\": \"[\"}, {\"repeat\": ", w->out);
    weft_status status = write_typed_value(w, name, json_get(schema, "items"), depth - 1);
    int64_t least = json_int(json_get(schema, "minItems"), 0);
    int64_t most = json_int(json_get(schema, "maxItems"), -1);
    (void)strbuf_printf(w->out, ", \"separator\": {\"text\": \",\"}, \"min\": %lld",
                        (long long)least);
    if (most >= 0) (void)strbuf_printf(w->out, ", \"max\": %lld", (long long)most);
    raw("}, {\"text\": \"]\"}]}", w->out);
    return status;
}

static weft_status write_member(const typed_writer *w, bool behind, str name, const json *schema,
                                uint32_t depth)
{
    strbuf key;
    strbuf_init(&key, w->out->allocator, 0);
    (void)strbuf_add_text(&key, behind ? "," : "");
    (void)strbuf_add(&key, name.ptr, name.len);
    (void)strbuf_add_char(&key, ':');
    raw("{\"all\": [{\"text\": ", w->out);
    (void)json_write_text((str){strbuf_text(&key), key.len}, w->out);
    raw("}, ", w->out);
    weft_status status = key.status;
    strbuf_deinit(&key);
    if (status == WEFT_OK) status = write_typed_value(w, name, schema, depth - 1);
    raw("]}", w->out);
    return status;
}

/* Optional members from the first-th on, each with a comma before it. */
static weft_status write_optional(const typed_writer *w, const json *schema, size_t first,
                                  uint32_t depth)
{
    json_iter it = {NULL};
    str name;
    const json *value;
    weft_status status = WEFT_OK;
    for (size_t i = 0;
         status == WEFT_OK && json_next(json_get(schema, "properties"), &it, &name, &value); i++) {
        if (i < first || is_required(schema, name)) continue;
        raw(", {\"optional\": ", w->out);
        status = write_member(w, true, name, value, depth);
        raw("}", w->out);
    }
    return status;
}

/* No member must be there: any may be the first. */
static weft_status write_all_optional(const typed_writer *w, const json *schema, uint32_t depth)
{
    json_iter it = {NULL};
    str name;
    const json *value;
    weft_status status = WEFT_OK;
    raw(", {\"optional\": {\"any\": [", w->out);
    for (size_t i = 0;
         status == WEFT_OK && json_next(json_get(schema, "properties"), &it, &name, &value); i++) {
        raw(i > 0 ? ", {\"all\": [" : "{\"all\": [", w->out);
        status = write_member(w, false, name, value, depth);
        if (status == WEFT_OK) status = write_optional(w, schema, i + 1, depth);
        raw("]}", w->out);
    }
    raw("]}}", w->out);
    return status;
}

/* Those that must be there come first. */
static weft_status write_object(const typed_writer *w, const json *schema, uint32_t depth)
{
    json_iter it = {NULL};
    str name;
    const json *value;
    bool any = false;
    weft_status status = check_object(schema, w->err);
    raw("{\"all\": [{\"text\": \"{\"}", w->out);
    while (status == WEFT_OK && json_next(json_get(schema, "properties"), &it, &name, &value)) {
        if (!is_required(schema, name)) continue;
        raw(", ", w->out);
        status = write_member(w, any, name, value, depth);
        any = true;
    }
    if (status == WEFT_OK && any) status = write_optional(w, schema, 0, depth);
    if (status == WEFT_OK && !any && json_length(json_get(schema, "properties")) > 0)
        status = write_all_optional(w, schema, depth);
    raw(", {\"text\": \"}\"}]}", w->out);
    return status;
}

static weft_status write_typed_value(const typed_writer *w, str name, const json *schema,
                                     uint32_t depth)
{
    uint32_t types = tool_types_of(schema, w->root);
    str what = str_of("type");
    if (depth == 0) return refuse(name, str_of("depth"), w->err);
    if ((types & (TOOL_TEXT | TOOL_ARRAY | TOOL_OBJECT)) == 0) {
        raw("{\"schema\": ", w->out);
        copy_schema(schema, w->root, NULL, w->out);
        raw("}", w->out);
        return WEFT_OK;
    }
    if (types == TOOL_ARRAY) return write_array(w, name, schema, depth);
    if (types == TOOL_OBJECT) return write_object(w, schema, depth);
    text_schema t;
    if (types != TOOL_TEXT || !read_text_schema(schema, &t, &what))
        return refuse(name, what, w->err);
    raw("{\"all\": [", w->out);
    chat_form_text(w->quote, w->out);
    raw(", ", w->out);
    write_text_until(&t, w->quote, w->out);
    raw("]}", w->out);
    return WEFT_OK;
}

weft_status chat_form_write_typed(const dialect *d, const json *parameters, strbuf *out,
                                  weft_error *err)
{
    typed_writer w = {d->typed.quote, parameters, out, err};
    return write_object(&w, parameters, VALUE_DEPTH);
}
