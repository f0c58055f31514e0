/* detok.c - putting the bytes of tokens together into whole characters. */
#include "tokenizer/detok.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/pipeline.h"

void detok_init(detok *d, const tokenizer *t, const weft_allocator *allocator, bool specials)
{
    *d = (detok){.tokenizer = t, .specials = specials, .n_left = t->decoder.n_left};
    strbuf_init(&d->pending, allocator, 0);
    strbuf_init(&d->held, allocator, 0);
    strbuf_init(&d->text, allocator, 0);
}

void detok_deinit(detok *d)
{
    if (d == NULL) return;
    strbuf_deinit(&d->pending);
    strbuf_deinit(&d->held);
    strbuf_deinit(&d->text);
}

void detok_follow(detok *d)
{
    d->started = true;
    d->last = -1;
    d->n_left = 0;
}

bool detok_reserve(detok *d, size_t n_bytes)
{
    /* Three bytes may stand for one that is invalid. */
    return strbuf_reserve(&d->pending, 2 * n_bytes) == WEFT_OK &&
           strbuf_reserve(&d->text, 6 * n_bytes) == WEFT_OK;
}

/* ---- what is taken from the ends ---- */

/* How many pending bytes are taken from the start of the text; *n_left: how many characters may
 * still be. */
static size_t taken_left(const detok *d, bool end, uint32_t *n_left)
{
    str strip = d->tokenizer->decoder.strip;
    size_t at = 0;
    *n_left = d->n_left;
    while (*n_left != 0) {
        size_t rest = d->pending.len - at;
        size_t n = rest < strip.len ? rest : strip.len;
        bool same = n == 0 || memcmp(d->pending.ptr + at, strip.ptr, n) == 0;
        if (same && n < strip.len && !end) break; /* more may come */
        if (!same || n < strip.len) {
            *n_left = 0;
            break;
        }
        at += strip.len;
        *n_left -= 1;
    }
    return at;
}

/* How many of the bytes from first to last may be taken from the end of the text. */
static size_t taken_right(const detok *d, size_t first, size_t last)
{
    const decoder *how = &d->tokenizer->decoder;
    size_t n = 0;
    for (uint32_t i = 0; i < how->n_right && last - first >= how->strip.len; i++) {
        last -= how->strip.len;
        if (memcmp(d->pending.ptr + last, how->strip.ptr, how->strip.len) != 0) break;
        n += how->strip.len;
    }
    return n;
}

/* Shows what is whole, or all at the end. Invalid parts are replaced one by one, as they would be
 * in the whole: what is held back is never in the middle of one. */
static weft_status show(detok *d, bool end, str *text, weft_error *err)
{
    uint32_t n_left;
    size_t first = taken_left(d, end, &n_left);
    size_t last = d->pending.len;
    if (!end) last = first + utf8_whole(strbuf_text(&d->pending) + first, last - first);
    if (last == d->pending.len) last -= taken_right(d, first, last);
    if (n_left != 0) last = first; /* the start of the text is not known yet */
    strbuf_clear(&d->text);
    weft_status status = utf8_sanitize(strbuf_text(&d->pending) + first, last - first, &d->text);
    if (status != WEFT_OK) return err_set(err, status, "out of memory for a piece of text");
    if (end) last = d->pending.len;
    if (last != 0) memmove(d->pending.ptr, d->pending.ptr + last, d->pending.len - last);
    d->pending.len -= last;
    d->n_left = n_left;
    *text = (str){strbuf_text(&d->text), d->text.len};
    return WEFT_OK;
}

/* ---- tokens ---- */

/* From where on a token would read otherwise as the last. */
static size_t open_end(str suffix, str bytes)
{
    for (size_t i = 0; i + suffix.len <= bytes.len; i++) {
        if (memcmp(bytes.ptr + i, suffix.ptr, suffix.len) == 0) return i;
    }
    return bytes.len;
}

/* Gives out what was held, which was not the last, and holds the end of this one behind it. */
static weft_status add_word(detok *d, str bytes)
{
    const decoder *how = &d->tokenizer->decoder;
    size_t n_held = d->held.len;
    size_t n = open_end(how->suffix, bytes);
    if (n_held != 0) decoder_end_word(how, (str){d->held.ptr, n_held}, false, &d->pending);
    weft_status status = strbuf_add(&d->pending, bytes.ptr, n);
    if (status == WEFT_OK) status = strbuf_add(&d->held, bytes.ptr + n, bytes.len - n);
    return status;
}

static weft_status add_token(detok *d, int32_t id, const vocab_entry *entry, weft_error *err)
{
    const decoder *how = &d->tokenizer->decoder;
    if ((d->started || !how->by_first) && how->suffix.len == 0)
        return strbuf_add(&d->pending, entry->bytes, entry->bytes_len);
    decoder_scratch scratch;
    str bytes;
    decoder_scratch_init(&scratch, d->pending.allocator);
    weft_status status = pipeline_token(d->tokenizer, &scratch, id, !d->started, &bytes, err);
    if (status == WEFT_OK && how->suffix.len == 0) {
        status = strbuf_add(&d->pending, bytes.ptr, bytes.len);
    } else if (status == WEFT_OK) {
        status = add_word(d, bytes);
    }
    decoder_scratch_deinit(&scratch);
    return status;
}

/* Whether a special token is none of the text. */
static bool hidden(const detok *d, int32_t id, const vocab_entry *entry)
{
    if (d->specials || (entry->flags & VOCAB_SPECIAL) == 0) return false;
    for (uint32_t i = 0; i < d->n_shown; i++) {
        if (d->shown[i] == id) return false;
    }
    return true;
}

weft_status detok_push(detok *d, int32_t id, str *text, weft_error *err)
{
    const vocab_entry *entry = vocab_get(&d->tokenizer->vocab, id);
    *text = (str){"", 0};
    if (entry == NULL || hidden(d, id, entry)) return WEFT_OK;
    if (d->tokenizer->decoder.no_twice && d->started && d->last == id) return WEFT_OK;
    size_t n_pending = d->pending.len;
    size_t n_held = d->held.len;
    weft_status status = add_token(d, id, entry, err);
    if (status == WEFT_OK) status = show(d, false, text, err);
    if (status == WEFT_OK) {
        if (n_held != 0) memmove(d->held.ptr, d->held.ptr + n_held, d->held.len - n_held);
        d->held.len -= n_held;
        d->started = true;
        d->last = id;
        return WEFT_OK;
    }
    d->pending.len = n_pending;
    d->pending.status = WEFT_OK;
    d->held.len = n_held;
    d->held.status = WEFT_OK;
    return err_set(err, status, "out of memory for a piece of text");
}

weft_status detok_flush(detok *d, str *text, weft_error *err)
{
    *text = (str){"", 0};
    size_t before = d->pending.len;
    weft_status status = WEFT_OK;
    if (d->held.len != 0) {
        str held = {d->held.ptr, d->held.len};
        status = decoder_end_word(&d->tokenizer->decoder, held, true, &d->pending);
    }
    if (status == WEFT_OK) status = show(d, true, text, err);
    if (status == WEFT_OK) {
        d->held.len = 0;
        return WEFT_OK;
    }
    d->pending.len = before;
    d->pending.status = WEFT_OK;
    return err_set(err, status, "out of memory for a piece of text");
}
