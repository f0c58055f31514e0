/* json_schema.h - a plain validator of JSON Schema 2020-12, the judge of texts that were drawn from
 * grammars. It knows no more than it needs to follow the standard's text; references only within
 * the document, by pointer or anchor. */
#ifndef SUPPORT_JSON_SCHEMA_H
#define SUPPORT_JSON_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>

typedef enum json_schema_answer {
    JSON_SCHEMA_NO,
    JSON_SCHEMA_YES,
    JSON_SCHEMA_UNKNOWN
} json_schema_answer;

/* UNKNOWN: the schema has what is not understood here. Formats are held to where formats is set. */
json_schema_answer json_schema_validate(const json_t *schema, const json_t *value, bool formats);

#endif
