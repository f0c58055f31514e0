/* json.h - JSON behind our own names, so that the parser can be exchanged.
 *
 * jansson allocates through malloc: documents live inside open and request parsing only and are
 * freed before those return. Source: RFC 8259; duplicate keys, keys with NUL, invalid UTF-8,
 * trailing text and depth beyond JSON_DEPTH are refused. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/err.h"
#include "base/str.h"

enum { JSON_DEPTH = 512 };

typedef enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_INT,  /* fits int64_t */
    JSON_KIND_REAL, /* finite */
    JSON_KIND_TEXT,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT
} json_kind;

typedef struct json json; /* a value inside a document, borrowed from it */

typedef struct json_doc {
    json *root;
} json_doc;

/* FORMAT with line, column and reason; NOMEM. Integers beyond int64_t become reals; beyond double
 * is FORMAT. */
weft_status json_parse(json_doc *doc, const char *text, size_t n_bytes, weft_error *err);
void json_doc_free(json_doc *doc);

/* NULL value counts as absent: JSON_KIND_NULL. */
json_kind json_kind_of(const json *value);
const char *json_kind_name(json_kind kind); /* "null", "boolean", "integer", ... */

bool json_bool(const json *value, bool fallback);
int64_t json_int(const json *value, int64_t fallback);
double json_number(const json *value, double fallback); /* integers and reals */
str json_text(const json *value); /* may hold NUL; {"", 0} when it is no text */

size_t json_length(const json *value); /* elements or members; 0 for others */
const json *json_at(const json *array, size_t index);
const json *json_get(const json *object, const char *key); /* NULL when absent or not an object */

/* Walks an object in the order of the text: start with a zeroed iter; false at the end, and for
 * what is no object. Constant time a step. */
typedef struct json_iter {
    void *state;
} json_iter;
bool json_next(const json *object, json_iter *iter, str *key, const json **value);

/* Compact text, non-ASCII as it is; appended to buf. indent 0: one line. Reals are the shortest
 * decimal that reads back the same, in the C locale's notation. */
weft_status json_write(const json *value, uint32_t indent, strbuf *buf);

/* A JSON string literal with quotes; invalid UTF-8 becomes U+FFFD. */
weft_status json_write_text(str text, strbuf *buf);

#endif
