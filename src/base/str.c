/* str.c - byte views and the growing buffer. */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

str str_of(const char *text)
{
    return (str){text, strlen(text)};
}

bool str_equal(str a, str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool str_equal_text(str a, const char *text)
{
    return str_equal(a, str_of(text));
}

bool str_starts(str a, const char *prefix)
{
    size_t n = strlen(prefix);
    return a.len >= n && (n == 0 || memcmp(a.ptr, prefix, n) == 0);
}

bool str_ends(str a, const char *suffix)
{
    size_t n = strlen(suffix);
    return a.len >= n && (n == 0 || memcmp(a.ptr + a.len - n, suffix, n) == 0);
}

/* What "no limit" means: sums with it never overflow. */
#define LARGEST (SIZE_MAX / 4)

void strbuf_init(strbuf *buf, const weft_allocator *allocator, size_t limit)
{
    *buf = (strbuf){.allocator = allocator, .limit = LARGEST};
    if (limit != 0 && limit < LARGEST) buf->limit = limit;
}

void strbuf_deinit(strbuf *buf)
{
    mem_free(buf->allocator, buf->ptr, buf->capacity);
    buf->ptr = NULL;
    buf->len = 0;
    buf->capacity = 0;
}

weft_status strbuf_reserve(strbuf *buf, size_t extra)
{
    if (buf->status != WEFT_OK) return buf->status;
    if (extra > buf->limit - buf->len) return buf->status = WEFT_LIMIT;
    size_t need = buf->len + extra + 1;
    if (need <= buf->capacity) return WEFT_OK;
    size_t capacity = buf->capacity < 64 ? 64 : buf->capacity * 2;
    if (capacity < need) capacity = need;
    char *ptr = mem_resize(buf->allocator, buf->ptr, buf->capacity, capacity);
    if (ptr == NULL) return buf->status = WEFT_NOMEM;
    buf->ptr = ptr;
    buf->capacity = capacity;
    buf->ptr[buf->len] = '\0';
    return WEFT_OK;
}

weft_status strbuf_add(strbuf *buf, const char *bytes, size_t n_bytes)
{
    if (strbuf_reserve(buf, n_bytes) != WEFT_OK) return buf->status;
    if (n_bytes != 0) memcpy(buf->ptr + buf->len, bytes, n_bytes);
    buf->len += n_bytes;
    buf->ptr[buf->len] = '\0';
    return WEFT_OK;
}

weft_status strbuf_add_text(strbuf *buf, const char *text)
{
    return strbuf_add(buf, text, strlen(text));
}

weft_status strbuf_add_char(strbuf *buf, char c)
{
    return strbuf_add(buf, &c, 1);
}

weft_status strbuf_printf(strbuf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    /* Most fits where it goes; what does not is printed again. */
    size_t spare = buf->status == WEFT_OK ? buf->capacity - buf->len : 0;
    if (spare > buf->limit - buf->len) spare = buf->limit - buf->len;
    int n = vsnprintf(spare > 0 ? buf->ptr + buf->len : NULL, spare, fmt, args);
    va_end(args);
    if (n < 0 && buf->status == WEFT_OK) buf->status = WEFT_LIMIT;
    if (n >= 0 && (size_t)n < spare) {
        buf->len += (size_t)n;
    } else {
        if (spare > 0) buf->ptr[buf->len] = '\0';
        if (n >= 0 && strbuf_reserve(buf, (size_t)n) == WEFT_OK) {
            vsnprintf(buf->ptr + buf->len, (size_t)n + 1, fmt, again);
            buf->len += (size_t)n;
        }
    }
    va_end(again);
    return buf->status;
}

void strbuf_clear(strbuf *buf)
{
    buf->len = 0;
    buf->status = WEFT_OK;
    if (buf->ptr != NULL) buf->ptr[0] = '\0';
}

const char *strbuf_text(const strbuf *buf)
{
    return buf->ptr == NULL ? "" : buf->ptr;
}
