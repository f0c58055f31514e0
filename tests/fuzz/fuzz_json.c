/* fuzz_json.c - any bytes: parsed or refused with a sentence; what was parsed survives writing and
 * parsing, and is what a reader finds, value by value. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "support/json_same.h"

/* libFuzzer gives the name. */
// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* Every way in which a value is read agrees with the others; depth stays within the promise. */
static void walk(const json *value, uint32_t depth)
{
    ASSERT(depth <= JSON_DEPTH);
    json_kind kind = json_kind_of(value);
    if (kind == JSON_KIND_TEXT) {
        str text = json_text(value);
        ASSERT(utf8_valid(text.ptr, text.len) && text.ptr[text.len] == '\0');
    } else if (kind == JSON_KIND_REAL) {
        double number = json_number(value, 0.0);
        ASSERT(number - number == 0.0);
    } else if (kind == JSON_KIND_ARRAY) {
        for (size_t i = 0; i < json_length(value); i++) walk(json_at(value, i), depth + 1);
        ASSERT(json_at(value, json_length(value)) == NULL);
    } else if (kind == JSON_KIND_OBJECT) {
        json_iter iter = {0};
        str key;
        const json *member;
        size_t n = 0;
        while (json_next(value, &iter, &key, &member)) {
            ASSERT(utf8_valid(key.ptr, key.len) && strlen(key.ptr) == key.len);
            ASSERT(json_get(value, key.ptr) == member);
            walk(member, depth + 1);
            n++;
        }
        ASSERT(n == json_length(value));
    }
}

/* What the reader takes, it takes to the end; a document it reads as the document is. */
static void read_again(const char *text, size_t n_bytes, const json *root)
{
    strbuf room;
    json_reader r;
    str span;
    size_t n;
    weft_error err = {0};
    strbuf_init(&room, mem_system(), 0);
    json_reader_init(&r, (str){text, n_bytes}, &room);
    weft_status status = json_reader_skip(&r, &span, &n, &err);
    ASSERT(status == err.status && r.at <= n_bytes);
    ASSERT(root == NULL || status == WEFT_OK);
    json_reader_init(&r, (str){text, n_bytes}, &room);
    if (root == NULL) {
        status = json_reader_text(&r, &span, &err);
        ASSERT(status == WEFT_OK || err.message[0] != '\0');
    } else {
        json_same(&r, root);
        status = json_reader_end(&r, &err);
        ASSERT(status == WEFT_OK);
    }
    strbuf_deinit(&room);
}

static void write_again(const json_doc *doc, uint32_t indent, strbuf *buf)
{
    strbuf_init(buf, mem_system(), 0);
    weft_status status = json_write(doc->root, indent, buf);
    ASSERT(status == WEFT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *copy = malloc(n_bytes + (n_bytes == 0));
    if (copy == NULL) return 0;
    if (n_bytes != 0) memcpy(copy, data, n_bytes);
    json_doc doc;
    weft_error err = {0};
    weft_status status = json_parse(&doc, copy, n_bytes, &err);
    read_again(copy, n_bytes, doc.root);
    free(copy);
    ASSERT(status == err.status && (status == WEFT_OK || status == WEFT_FORMAT));
    if (status != WEFT_OK) {
        ASSERT(doc.root == NULL && err.message[0] != '\0');
        ASSERT(utf8_valid(err.message, strlen(err.message)));
        return 0;
    }
    walk(doc.root, 0);
    strbuf first;
    strbuf second;
    json_doc again;
    for (uint32_t indent = 0; indent < 2; indent++) {
        write_again(&doc, indent, &first);
        status = json_parse(&again, first.ptr, first.len, NULL);
        ASSERT(status == WEFT_OK);
        write_again(&again, indent, &second);
        ASSERT(first.len == second.len && memcmp(first.ptr, second.ptr, first.len) == 0);
        json_doc_free(&again);
        strbuf_deinit(&second);
        strbuf_deinit(&first);
    }
    json_doc_free(&doc);
    return 0;
}
