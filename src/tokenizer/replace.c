/* replace.c - the loop over what is found. */
#include "tokenizer/replace.h"

#include <string.h>

weft_status replace_init(replace *r, arena *texts, regex_memory *memory, str from, bool literal,
                         str to, weft_error *err)
{
    *r = (replace){.from = from, .to = to};
    if (literal && from.len > REPLACE_BYTES) {
        return err_set(err, WEFT_LIMIT,
                       "tokenizer: a text of %zu bytes to replace, at most %d are supported",
                       from.len, REPLACE_BYTES);
    }
    r->from.ptr = arena_copy_text(texts, from.ptr, from.len);
    r->to.ptr = arena_copy_text(texts, to.ptr, to.len);
    if (r->from.ptr == NULL || r->to.ptr == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a text to replace");
    return literal ? WEFT_OK : regex_init(&r->regex, memory, from, false, err);
}

void replace_deinit(replace *r)
{
    regex_deinit(&r->regex);
}

/* Where the literal stands at or after from; SIZE_MAX: nowhere. An empty one is never found. */
static size_t find_literal(str literal, str text, size_t from)
{
    if (literal.len == 0) return SIZE_MAX;
    while (from + literal.len <= text.len) {
        const char *start = text.ptr + from;
        const char *at = memchr(start, literal.ptr[0], text.len - literal.len + 1 - from);
        if (at == NULL) break;
        if (memcmp(at, literal.ptr, literal.len) == 0) return (size_t)(at - text.ptr);
        from = (size_t)(at - text.ptr) + 1;
    }
    return SIZE_MAX;
}

static weft_status replace_literal(const replace *r, str text, strbuf *out, bool *found,
                                   weft_error *err)
{
    size_t done = 0;
    *found = false;
    for (;;) {
        size_t at = find_literal(r->from, text, done);
        if (at == SIZE_MAX) break;
        *found = true;
        strbuf_add(out, text.ptr + done, at - done);
        strbuf_add(out, r->to.ptr, r->to.len);
        done = at + r->from.len;
        if (out->status != WEFT_OK) break;
    }
    if (*found) strbuf_add(out, text.ptr + done, text.len - done);
    if (out->status == WEFT_OK) return WEFT_OK;
    return err_set(err, out->status, "tokenizer: a text of %zu bytes grows too long", text.len);
}

weft_status replace_run(const replace *r, regex_search *search, str text, strbuf *out, bool *found,
                        weft_error *err)
{
    if (r->regex.code == NULL) return replace_literal(r, text, out, found, err);
    regex_walk walk = {0};
    size_t done = 0;
    *found = false;
    for (;;) {
        size_t start;
        size_t end;
        bool more;
        weft_status status = regex_next(&r->regex, search, text, &walk, &more, &start, &end, err);
        if (status != WEFT_OK) return status;
        if (!more) break;
        *found = true;
        strbuf_add(out, text.ptr + done, start - done);
        strbuf_add(out, r->to.ptr, r->to.len);
        done = end;
        if (out->status != WEFT_OK) break;
    }
    if (*found) strbuf_add(out, text.ptr + done, text.len - done);
    if (out->status == WEFT_OK) return WEFT_OK;
    return err_set(err, out->status, "tokenizer: a text of %zu bytes grows too long", text.len);
}
