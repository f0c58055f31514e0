/* normalize.c - Unicode normal forms by utf8proc's tables, in linear time and the caller's
 * memory.
 *
 * utf8proc sorts combining marks by exchanging neighbours, which a text of nothing but marks
 * makes quadratic, and its one-call interface allocates by itself: so characters are decomposed
 * one by one, sorted here, and composed in place. A text falls into units at each ASCII
 * character: nothing composes with what is before one, and no mark moves past it. Source:
 * Unicode Standard Annex 15. */
#include "tokenizer/normalize.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

enum {
    EXPANSION = 18,  /* most characters that one becomes (U+FDFA) */
    SHORT_RUN = 16,  /* marks that are sorted by insertion */
    CLASSES = 256,   /* combining classes */
    MIN_CHARS = 256, /* first size of the buffers */
};

weft_status normalizer_add(normalizer *n, normalizer_step step, weft_error *err)
{
    if (n->n_steps == NORMALIZER_STEPS) {
        return err_set(err, WEFT_LIMIT, "tokenizer: more than %d normalizers are not supported",
                       NORMALIZER_STEPS);
    }
    n->steps[n->n_steps++] = step;
    return WEFT_OK;
}

void normalizer_scratch_init(normalizer_scratch *s, const weft_allocator *allocator,
                             size_t limit_bytes)
{
    *s = (normalizer_scratch){.allocator = allocator};
    strbuf_init(&s->texts[0], allocator, limit_bytes);
    strbuf_init(&s->texts[1], allocator, limit_bytes);
}

void normalizer_scratch_deinit(normalizer_scratch *s)
{
    strbuf_deinit(&s->texts[0]);
    strbuf_deinit(&s->texts[1]);
    mem_free(s->allocator, s->chars, s->n_chars * sizeof *s->chars);
    mem_free(s->allocator, s->marks, s->n_marks * sizeof *s->marks);
}

static bool is_ascii(str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] >= 0x80) return false;
    }
    return true;
}

static weft_status grow(normalizer_scratch *s, int32_t **chars, size_t *n, size_t need)
{
    if (need <= *n) return WEFT_OK;
    size_t count = *n < MIN_CHARS ? MIN_CHARS : *n * 2;
    if (count < need) count = need;
    int32_t *grown = mem_resize(s->allocator, *chars, *n * sizeof **chars, count * sizeof **chars);
    if (grown == NULL) return WEFT_NOMEM;
    *chars = grown;
    *n = count;
    return WEFT_OK;
}

static uint32_t class_of(int32_t c)
{
    return (uint32_t)utf8proc_get_property(c)->combining_class;
}

static void sort_short(int32_t *marks, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        int32_t mark = marks[i];
        size_t at = i;
        for (; at > 0 && class_of(marks[at - 1]) > class_of(mark); at--) marks[at] = marks[at - 1];
        marks[at] = mark;
    }
}

/* Stable, by counting. */
static weft_status sort_long(normalizer_scratch *s, int32_t *marks, size_t n)
{
    size_t starts[CLASSES + 1] = {0};
    weft_status status = grow(s, &s->marks, &s->n_marks, n);
    if (status != WEFT_OK) return status;
    for (size_t i = 0; i < n; i++) starts[class_of(marks[i]) % CLASSES + 1]++;
    for (size_t i = 1; i < CLASSES; i++) starts[i] += starts[i - 1];
    for (size_t i = 0; i < n; i++) s->marks[starts[class_of(marks[i]) % CLASSES]++] = marks[i];
    memcpy(marks, s->marks, n * sizeof *marks);
    return WEFT_OK;
}

/* Canonical order: runs of marks by their class. */
static weft_status sort_marks(normalizer_scratch *s, size_t n)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && status == WEFT_OK;) {
        size_t end = i;
        while (end < n && class_of(s->chars[end]) != 0) end++;
        if (end - i > SHORT_RUN) {
            status = sort_long(s, s->chars + i, end - i);
        } else {
            sort_short(s->chars + i, end - i);
        }
        i = end + 1;
    }
    return status;
}

static utf8proc_option_t options_of(normalizer_step step)
{
    switch (step) {
    case NORMALIZE_NFD:
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case NORMALIZE_NFKD:
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    case NORMALIZE_NFKC:
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    default:
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    }
}

/* One unit: an ASCII character at most, then others. */
static weft_status normalize_unit(normalizer_scratch *s, utf8proc_option_t options, str unit,
                                  strbuf *out)
{
    size_t n = 0;
    for (size_t at = 0; at < unit.len;) {
        uint32_t c;
        size_t used = utf8_decode(unit.ptr + at, unit.len - at, &c);
        if (used == 0) return WEFT_FORMAT;
        weft_status status = grow(s, &s->chars, &s->n_chars, n + EXPANSION);
        if (status != WEFT_OK) return status;
        int boundary = 0;
        utf8proc_ssize_t added =
            utf8proc_decompose_char((utf8proc_int32_t)c, s->chars + n,
                                    (utf8proc_ssize_t)(s->n_chars - n), options, &boundary);
        if (added < 0 || (size_t)added > s->n_chars - n) return WEFT_FORMAT;
        n += (size_t)added;
        at += used;
    }
    weft_status status = sort_marks(s, n);
    if (status != WEFT_OK) return status;
    utf8proc_ssize_t left = (options & UTF8PROC_COMPOSE) == 0
                                ? (utf8proc_ssize_t)n
                                : utf8proc_normalize_utf32(s->chars, (utf8proc_ssize_t)n, options);
    for (utf8proc_ssize_t i = 0; i < left; i++) {
        char bytes[4];
        strbuf_add(out, bytes, utf8_encode((uint32_t)s->chars[i], bytes));
    }
    return left < 0 ? WEFT_FORMAT : out->status;
}

static weft_status normal_form(normalizer_scratch *s, normalizer_step step, str text, strbuf *out)
{
    weft_status status = WEFT_OK;
    for (size_t at = 0; at < text.len && status == WEFT_OK;) {
        size_t end = at;
        while (end < text.len && (unsigned char)text.ptr[end] < 0x80) end++;
        size_t unit = end; /* where the next unit starts: at the last of these ASCII characters */
        if (end < text.len && end > at) unit--;
        status = strbuf_add(out, text.ptr + at, unit - at);
        while (end < text.len && (unsigned char)text.ptr[end] >= 0x80) end++;
        if (status == WEFT_OK && unit < end) {
            str piece = {text.ptr + unit, end - unit};
            status = normalize_unit(s, options_of(step), piece, out);
        }
        at = end;
    }
    return status;
}

/* U+0130 is the one character that becomes two small ones without regard to its neighbours. */
static weft_status lowercase(str text, strbuf *out)
{
    for (size_t at = 0; at < text.len;) {
        uint32_t c;
        size_t used = utf8_decode(text.ptr + at, text.len - at, &c);
        if (used == 0) return WEFT_FORMAT;
        at += used;
        if (c == 0x130) {
            strbuf_add_text(out, "i\xcc\x87");
        } else if (c < 0x80) {
            strbuf_add_char(out, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
        } else {
            char bytes[4];
            int32_t small = utf8proc_tolower((utf8proc_int32_t)c);
            strbuf_add(out, bytes, utf8_encode((uint32_t)small, bytes));
        }
    }
    return out->status;
}

weft_status normalizer_run(const normalizer *n, normalizer_scratch *s, str text, str *result,
                           weft_error *err)
{
    *result = text;
    for (uint32_t i = 0; i < n->n_steps; i++) {
        bool forms = n->steps[i] != NORMALIZE_LOWERCASE;
        if (forms && is_ascii(*result)) continue;
        strbuf *out = &s->texts[i % 2];
        if (out->ptr == result->ptr) out = &s->texts[(i + 1) % 2];
        strbuf_clear(out);
        weft_status status =
            forms ? normal_form(s, n->steps[i], *result, out) : lowercase(*result, out);
        if (status != WEFT_OK) {
            *result = (str){"", 0};
            return err_set(err, status, "tokenizer: cannot normalize a text of %zu bytes: %s",
                           text.len, status == WEFT_NOMEM ? "out of memory" : "it grows too long");
        }
        *result = (str){strbuf_text(out), out->len};
    }
    return WEFT_OK;
}
