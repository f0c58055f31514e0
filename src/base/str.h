/* str.h - a view of bytes, and a buffer that grows up to a limit. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/err.h"
#include "base/mem.h"

/* Borrowed bytes, not NUL-terminated. */
typedef struct str {
    const char *ptr;
    size_t len;
} str;

/* Bytes [first, first + n_bytes) of a text. */
typedef struct str_span {
    size_t first, n_bytes;
} str_span;

str str_of(const char *text); /* of a NUL-terminated text */
bool str_equal(str a, str b);
bool str_equal_text(str a, const char *text);
bool str_starts(str a, const char *prefix);
bool str_ends(str a, const char *suffix);

typedef struct strbuf {
    const weft_allocator *allocator; /* borrowed */
    char *ptr; /* always NUL-terminated once anything was added; NULL before */
    size_t len;
    size_t capacity;
    size_t limit;       /* most bytes it may hold */
    weft_status status; /* the first failure; later calls do nothing, so a writer checks once */
} strbuf;

/* limit 0: none. */
void strbuf_init(strbuf *buf, const weft_allocator *allocator, size_t limit);
void strbuf_deinit(strbuf *buf);

/* Room for extra bytes more, so that adding them takes no memory. Fails as strbuf_add. */
weft_status strbuf_reserve(strbuf *buf, size_t extra);

/* NOMEM, or LIMIT when the buffer would exceed its limit; the buffer then holds what it held. */
weft_status strbuf_add(strbuf *buf, const char *bytes, size_t n_bytes);
weft_status strbuf_add_text(strbuf *buf, const char *text);
weft_status strbuf_add_char(strbuf *buf, char c);
weft_status strbuf_printf(strbuf *buf, const char *fmt, ...) ERR_PRINTF(2, 3);

/* Empties it, keeps the memory and forgets a failure. */
void strbuf_clear(strbuf *buf);

/* "" instead of NULL. */
const char *strbuf_text(const strbuf *buf);

#endif
