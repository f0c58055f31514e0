/* json_reader.h - reading JSON value by value, where a document in memory would cost too much: the
 * vocabularies in tokenizer.json have a million values.
 *
 * The grammar is that of json.h, but for keys, which may repeat and may hold NUL: what is read one
 * by one is compared by whoever collects it. A value that is skipped is only looked at as far as
 * its end is to be found. */
#ifndef BASE_JSON_READER_H
#define BASE_JSON_READER_H

#include "base/json.h"

typedef struct json_reader {
    const char *text; /* [n_bytes], borrowed */
    size_t n_bytes;
    size_t at;    /* of the next byte */
    size_t base;  /* byte of a file at which text starts: for messages */
    strbuf *room; /* borrowed: where texts with escapes are decoded */
} json_reader;

void json_reader_init(json_reader *r, str text, strbuf *room);

/* What comes next, by its first byte: NULL where nothing that is a value starts. */
json_kind json_reader_kind(json_reader *r);

/* Into an array ('[') or object ('{'). FORMAT with the byte at which something else stands. */
weft_status json_reader_open(json_reader *r, char bracket, weft_error *err);

/* Before each element or member; first: none was read yet, and is cleared. *more false: the end,
 * which was passed. */
weft_status json_reader_more(json_reader *r, char bracket, bool *first, bool *more,
                             weft_error *err);

/* A text; a key, with the colon. Valid until the next one is read. */
weft_status json_reader_text(json_reader *r, str *text, weft_error *err);
weft_status json_reader_key(json_reader *r, str *key, weft_error *err);

/* FORMAT for a number that is not whole or beyond int64_t. */
weft_status json_reader_int(json_reader *r, int64_t *value, weft_error *err);
weft_status json_reader_number(json_reader *r, double *value, weft_error *err);

/* Any value. *span: what was skipped; *n: its elements or members. */
weft_status json_reader_skip(json_reader *r, str *span, size_t *n, weft_error *err);

/* FORMAT unless nothing but white space is left. */
weft_status json_reader_end(json_reader *r, weft_error *err);

#endif
