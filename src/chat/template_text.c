/* template_text.c - texts of a rendering, which remember byte by byte whether they came from the
 * caller. */
#include "chat/template_text.h"

#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "chat/template_render.h"

str tpl_text_str(const tpl_text *t)
{
    return (str){t->buffer->ptr + t->first, t->len};
}

static size_t count_chars(str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (((unsigned char)s.ptr[i] & 0xc0) != 0x80) n++;
    }
    return n;
}

size_t tpl_text_chars(tpl_text *t)
{
    if (t->n_chars == TPL_UNCOUNTED) t->n_chars = count_chars(tpl_text_str(t));
    return t->n_chars;
}

size_t tpl_text_offset(tpl_text *t, size_t char_i)
{
    size_t n_chars = tpl_text_chars(t);
    ASSERT(char_i <= n_chars);
    if (n_chars == t->len) return char_i;
    if (char_i == n_chars) return t->len;
    str s = tpl_text_str(t);
    size_t seen = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (((unsigned char)s.ptr[i] & 0xc0) == 0x80) continue;
        if (seen == char_i) return i;
        seen++;
    }
    return s.len;
}

/* The first run that ends behind an offset. */
static size_t find_run(const tpl_buffer *b, size_t offset)
{
    size_t low = 0, high = b->n_runs;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (b->runs[middle].end <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

size_t tpl_text_piece(const tpl_text *t, size_t at, bool *untrusted)
{
    const tpl_buffer *b = t->buffer;
    size_t rest = t->len - at;
    *untrusted = b->untrusted;
    if (b->untrusted || b->n_runs == 0) return rest;
    size_t offset = t->first + at;
    size_t run_i = find_run(b, offset);
    if (run_i == b->n_runs) return rest;
    const tpl_run *run = &b->runs[run_i];
    *untrusted = run->first <= offset;
    size_t n = (*untrusted ? run->end : run->first) - offset;
    return n < rest ? n : rest;
}

tpl_buffer *tpl_buffer_new(tpl_render *r, size_t capacity)
{
    tpl_buffer *b = tpl_alloc(r, 1, sizeof *b);
    if (b == NULL) return NULL;
    b->own = tpl_alloc(r, capacity == 0 ? 1 : capacity, 1);
    if (b->own == NULL) return NULL;
    b->ptr = b->own;
    b->capacity = capacity;
    return b;
}

static bool grow(tpl_render *r, tpl_buffer *b, size_t extra)
{
    ASSERT(b->own != NULL && b->capacity >= b->used);
    if (extra <= b->capacity - b->used) return true;
    size_t need;
    if (!size_add(b->used, extra, &need) || need > SIZE_MAX / 4) {
        return tpl_fail(r, WEFT_LIMIT, "a text of the template is too long");
    }
    size_t capacity = need + need / 2 + 32;
    char *own = tpl_alloc(r, capacity, 1);
    if (own == NULL) return false;
    if (b->used != 0) memcpy(own, b->own, b->used);
    b->own = own;
    b->ptr = own;
    b->capacity = capacity;
    return true;
}

static bool mark(tpl_render *r, tpl_buffer *b, size_t first, size_t end)
{
    if (b->n_runs != 0 && b->runs[b->n_runs - 1].end == first) {
        b->runs[b->n_runs - 1].end = end;
        return true;
    }
    if (b->n_runs == b->runs_capacity) {
        size_t capacity = b->runs_capacity == 0 ? 4 : b->runs_capacity * 2;
        tpl_run *runs = tpl_alloc(r, capacity, sizeof *runs);
        if (runs == NULL) return false;
        if (b->n_runs != 0) memcpy(runs, b->runs, b->n_runs * sizeof *runs);
        b->runs = runs;
        b->runs_capacity = capacity;
    }
    b->runs[b->n_runs++] = (tpl_run){first, end};
    return true;
}

bool tpl_buffer_add(tpl_render *r, tpl_buffer *b, str bytes, bool untrusted)
{
    if (bytes.len == 0) return true;
    if (!tpl_charge(r, bytes.len) || !grow(r, b, bytes.len)) return false;
    if (untrusted && !mark(r, b, b->used, b->used + bytes.len)) return false;
    memcpy(b->own + b->used, bytes.ptr, bytes.len);
    b->used += bytes.len;
    return true;
}

bool tpl_buffer_add_text(tpl_render *r, tpl_buffer *b, const tpl_text *t)
{
    str s = tpl_text_str(t);
    for (size_t at = 0; at < s.len;) {
        bool untrusted;
        size_t n = tpl_text_piece(t, at, &untrusted);
        if (!tpl_buffer_add(r, b, (str){s.ptr + at, n}, untrusted)) return false;
        at += n;
    }
    return true;
}

bool tpl_buffer_add_char(tpl_render *r, tpl_buffer *b, uint32_t code_point, bool untrusted)
{
    char bytes[4];
    size_t n = utf8_encode(code_point, bytes);
    return tpl_buffer_add(r, b, (str){bytes, n}, untrusted);
}

bool tpl_buffer_fill(tpl_render *r, tpl_buffer *b, char c, size_t n)
{
    if (n == 0) return true;
    if (!tpl_charge(r, n) || !grow(r, b, n)) return false;
    memset(b->own + b->used, c, n);
    b->used += n;
    return true;
}

static tpl_text *new_text(tpl_render *r, tpl_buffer *b, size_t first, size_t len)
{
    tpl_text *t = tpl_alloc(r, 1, sizeof *t);
    if (t == NULL) return NULL;
    *t = (tpl_text){b, first, len, TPL_UNCOUNTED};
    return t;
}

tpl_text *tpl_buffer_text(tpl_render *r, tpl_buffer *b)
{
    return new_text(r, b, 0, b->used);
}

tpl_text *tpl_text_borrow(tpl_render *r, str bytes, bool untrusted)
{
    tpl_buffer *b = tpl_alloc(r, 1, sizeof *b);
    if (b == NULL) return NULL;
    b->ptr = bytes.len == 0 ? "" : bytes.ptr;
    b->used = bytes.len;
    b->untrusted = untrusted;
    return new_text(r, b, 0, bytes.len);
}

tpl_text *tpl_text_copy(tpl_render *r, str bytes)
{
    tpl_buffer *b = tpl_buffer_new(r, bytes.len);
    if (b == NULL || !tpl_buffer_add(r, b, bytes, false)) return NULL;
    return tpl_buffer_text(r, b);
}

void tpl_text_distrust(tpl_text *t)
{
    t->buffer->untrusted = true;
    /* Nothing may be added behind it that would be distrusted too. */
    t->buffer->own = NULL;
}

bool tpl_text_trusted(const tpl_text *t)
{
    bool untrusted = false;
    return t->len == 0 || (tpl_text_piece(t, 0, &untrusted) == t->len && !untrusted);
}

tpl_text *tpl_text_view(tpl_render *r, const tpl_text *t, size_t first, size_t len)
{
    ASSERT(first <= t->len && len <= t->len - first);
    return new_text(r, t->buffer, t->first + first, len);
}

tpl_text *tpl_text_concat(tpl_render *r, tpl_text *a, tpl_text *b)
{
    if (b->len == 0) return a;
    if (a->len == 0) return b;
    tpl_buffer *into = a->buffer;
    size_t first = a->first;
    bool goes_on = into->own != NULL && first + a->len == into->used;
    if (!goes_on) {
        into = tpl_buffer_new(r, a->len + b->len + a->len / 2 + 32);
        first = 0;
        if (into == NULL || !tpl_buffer_add_text(r, into, a)) return NULL;
    }
    if (!tpl_buffer_add_text(r, into, b)) return NULL;
    return new_text(r, into, first, a->len + b->len);
}

bool tpl_text_find(tpl_render *r, str hay, str needle, size_t from, size_t *at, bool *found)
{
    *found = false;
    *at = from;
    if (needle.len == 0) {
        *found = from <= hay.len;
        return true;
    }
    while (hay.len >= needle.len && *at <= hay.len - needle.len) {
        size_t n_places = hay.len - needle.len - *at + 1;
        const char *first = memchr(hay.ptr + *at, needle.ptr[0], n_places);
        if (first == NULL) return tpl_charge(r, n_places);
        size_t skipped = (size_t)(first - (hay.ptr + *at));
        *at += skipped;
        /* A needle that almost matches everywhere costs its length each time: that is what is
         * charged. */
        if (!tpl_charge(r, skipped + needle.len)) return false;
        if (memcmp(first, needle.ptr, needle.len) == 0) {
            *found = true;
            return true;
        }
        *at += 1;
    }
    return true;
}
