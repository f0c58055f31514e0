/* detok.c - putting the bytes of tokens together into whole characters. */
#include "tokenizer/detok.h"

#include <string.h>

#include "base/utf8.h"

void detok_init(detok *d, const tokenizer *t, const weft_allocator *allocator, bool specials)
{
    *d = (detok){.tokenizer = t, .specials = specials};
    strbuf_init(&d->pending, allocator, 0);
    strbuf_init(&d->text, allocator, 0);
}

void detok_deinit(detok *d)
{
    if (d == NULL) return;
    strbuf_deinit(&d->pending);
    strbuf_deinit(&d->text);
}

/* Shows the first n_bytes of what is pending. Invalid parts are replaced one by one, as they
 * would be in the whole: what is held back is never in the middle of one. */
static weft_status show(detok *d, size_t n_bytes, str *text, weft_error *err)
{
    strbuf_clear(&d->text);
    weft_status status = utf8_sanitize(strbuf_text(&d->pending), n_bytes, &d->text);
    if (status != WEFT_OK) return err_set(err, status, "out of memory for a piece of text");
    size_t rest = d->pending.len - n_bytes;
    if (n_bytes != 0) memmove(d->pending.ptr, d->pending.ptr + n_bytes, rest);
    d->pending.len = rest;
    *text = (str){strbuf_text(&d->text), d->text.len};
    return WEFT_OK;
}

weft_status detok_push(detok *d, int32_t id, str *text, weft_error *err)
{
    *text = (str){"", 0};
    size_t before = d->pending.len;
    weft_status status = tokenizer_bytes(d->tokenizer, id, d->specials, &d->pending);
    if (status == WEFT_OK) {
        size_t whole = utf8_whole(strbuf_text(&d->pending), d->pending.len);
        status = show(d, whole, text, err);
    } else {
        err_set(err, status, "out of memory for a piece of text");
    }
    if (status == WEFT_OK) return WEFT_OK;
    d->pending.len = before;
    d->pending.status = WEFT_OK;
    return status;
}

weft_status detok_flush(detok *d, str *text, weft_error *err)
{
    *text = (str){"", 0};
    return show(d, d->pending.len, text, err);
}
