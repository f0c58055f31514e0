/* json_same.h - a reader of JSON against the document of the same text. */
#ifndef SUPPORT_JSON_SAME_H
#define SUPPORT_JSON_SAME_H

#include "base/assert.h"
#include "base/json_reader.h"

static inline void json_same_scalar(json_reader *r, const json *value)
{
    str text;
    int64_t whole;
    double number;
    size_t n;
    weft_status status = WEFT_OK;
    switch (json_kind_of(value)) {
    case JSON_KIND_TEXT:
        status = json_reader_text(r, &text, NULL);
        ASSERT(status == WEFT_OK && str_equal(text, json_text(value)));
        return;
    case JSON_KIND_INT:
        status = json_reader_int(r, &whole, NULL);
        ASSERT(status == WEFT_OK && whole == json_int(value, 0));
        return;
    case JSON_KIND_REAL:
        status = json_reader_number(r, &number, NULL);
        ASSERT(status == WEFT_OK && number == json_number(value, 0.0));
        return;
    default:
        ASSERT(json_reader_kind(r) == json_kind_of(value));
        status = json_reader_skip(r, &text, &n, NULL);
        ASSERT(status == WEFT_OK && text.len >= 4);
    }
}

/* Reads value from r, and finds that it is what the document has. */
static inline void json_same(json_reader *r, const json *value)
{
    json_kind kind = json_kind_of(value);
    if (kind != JSON_KIND_ARRAY && kind != JSON_KIND_OBJECT) {
        json_same_scalar(r, value);
        return;
    }
    json_reader skipping = *r;
    str span;
    size_t n;
    weft_status status = json_reader_skip(&skipping, &span, &n, NULL);
    ASSERT(status == WEFT_OK && n == json_length(value));
    const char bracket = kind == JSON_KIND_ARRAY ? '[' : '{';
    bool first = true;
    bool more = false;
    json_iter iter = {NULL};
    status = json_reader_open(r, bracket, NULL);
    ASSERT(status == WEFT_OK);
    for (size_t i = 0;; i++) {
        str key;
        str read;
        const json *member = json_at(value, i);
        bool is_more = i < n;
        if (kind == JSON_KIND_OBJECT) is_more = json_next(value, &iter, &key, &member);
        status = json_reader_more(r, bracket, &first, &more, NULL);
        ASSERT(status == WEFT_OK && more == is_more);
        if (!more) break;
        if (kind == JSON_KIND_OBJECT) {
            status = json_reader_key(r, &read, NULL);
            ASSERT(status == WEFT_OK && str_equal(read, key));
        }
        json_same(r, member);
    }
    ASSERT(r->at == skipping.at);
}

#endif
