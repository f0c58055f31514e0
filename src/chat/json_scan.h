/* json_scan.h - whether bytes that come one by one are a JSON value, and where it ends.
 *
 * For values that a model writes: a control character within a string, which RFC 8259 forbids and
 * models write all the same, is no failure; who passes the value on writes it as an escape. */
#ifndef CHAT_JSON_SCAN_H
#define CHAT_JSON_SCAN_H

#include "base/str.h"

enum { JSON_SCAN_DEPTH = 128 };

typedef enum json_scan_result {
    JSON_SCAN_MORE, /* the byte is part of it */
    JSON_SCAN_DONE, /* the byte is its last */
    JSON_SCAN_PAST, /* it ended before the byte: only numbers do */
    JSON_SCAN_BAD
} json_scan_result;

typedef struct json_scan {
    uint8_t state;
    bool is_key;   /* of the string that is read */
    uint8_t n_hex; /* digits of an escape that are still to come */
    uint8_t n_word;
    const char *word; /* true, false, null */
    uint32_t depth;
    bool objects[JSON_SCAN_DEPTH]; /* which of the open ones are objects */
} json_scan;

void json_scan_init(json_scan *s);

json_scan_result json_scan_push(json_scan *s, char c);

/* Within a string: what comes is one of its characters. */
bool json_scan_in_text(const json_scan *s);

/* Whether no byte of the value has come yet. */
bool json_scan_at_start(const json_scan *s);

/* Whether all of a text, white space around it apart, is one value. */
bool json_scan_all(str text);

/* Appends a byte of a value; one that a string must not hold as its escape. */
weft_status json_scan_write(bool in_text, char c, strbuf *out);

/* Appends a byte of a text as it stands within a JSON string. */
weft_status json_scan_escape(char c, strbuf *out);

/* What a string between quotes that the scan took says, appended; lone surrogates are U+FFFD. */
weft_status json_scan_decode(str quoted, strbuf *out);

#endif
