/* charsmap.c - walking the double array with every index checked. */
#include "tokenizer/charsmap.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

enum {
    KEY_BYTES = 256,    /* longer keys are not looked for */
    GRAPHEME_BYTES = 6, /* graphemes of so many bytes are taken apart */
};

static uint32_t u32(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

weft_status charsmap_open(charsmap *m, str blob, weft_error *err)
{
    *m = (charsmap){0};
    if (blob.len == 0) return WEFT_OK;
    const unsigned char *bytes = (const unsigned char *)blob.ptr;
    size_t size = blob.len < 4 ? 0 : u32(bytes);
    if (blob.len < 8 || size > blob.len - 4 || size < 4 || size % 4 != 0) {
        return err_set(err, WEFT_FORMAT,
                       "tokenizer: a character map of %zu bytes has an array of %zu", blob.len,
                       size);
    }
    m->units = bytes + 4;
    m->n_units = size / 4;
    m->texts = (str){blob.ptr + 4 + size, blob.len - 4 - size};
    if (m->texts.len != 0 && m->texts.ptr[m->texts.len - 1] == '\0') return WEFT_OK;
    return err_set(err, WEFT_FORMAT, "tokenizer: the texts of a character map have no end");
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* The key found at the start of text: its length, 0 when there is none. */
static size_t find(const charsmap *m, str text, bool longest, uint32_t *value)
{
    size_t found = 0;
    if (m->n_units == 0) return 0;
    size_t node = offset_of(u32(m->units));
    size_t n = text.len < KEY_BYTES ? text.len : KEY_BYTES;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        node ^= byte;
        if (byte == 0 || node >= m->n_units) break;
        uint32_t unit = u32(m->units + node * 4);
        if ((unit & (1u << 31 | 0xff)) != byte) break;
        node ^= offset_of(unit);
        if ((unit >> 8 & 1) == 0) continue;
        if (node >= m->n_units) break;
        *value = u32(m->units + node * 4) & 0x7fffffffu;
        found = i + 1;
        if (!longest) break;
    }
    return found;
}

static void put(const charsmap *m, uint32_t value, strbuf *out)
{
    if (value >= m->texts.len) return;
    const char *text = m->texts.ptr + value;
    utf8_sanitize(text, strlen(text), out); /* a number may point into a character */
}

weft_status charsmap_longest(const charsmap *m, str text, strbuf *out)
{
    for (size_t at = 0; at < text.len && out->status == WEFT_OK;) {
        uint32_t value;
        uint32_t c;
        str rest = {text.ptr + at, text.len - at};
        size_t n = find(m, rest, true, &value);
        bool whole = n == rest.len || (n != 0 && ((unsigned char)rest.ptr[n] & 0xc0) != 0x80);
        if (whole) {
            put(m, value, out);
        } else {
            n = utf8_decode(rest.ptr, rest.len, &c);
            if (n == 0) return WEFT_FORMAT;
            strbuf_add(out, rest.ptr, n);
        }
        at += n;
    }
    return out->status;
}

static bool put_chunk(const charsmap *m, str chunk, strbuf *out)
{
    uint32_t value;
    if (find(m, chunk, false, &value) == 0) return false;
    put(m, value, out);
    return true;
}

/* The bytes of the grapheme at the start of text. */
static size_t grapheme(str text)
{
    bool plain = (unsigned char)text.ptr[0] < 0x80 && text.ptr[0] != '\r';
    if (plain && (text.len == 1 || (unsigned char)text.ptr[1] < 0x80)) return 1;
    utf8proc_int32_t state = 0;
    uint32_t before;
    size_t at = utf8_decode(text.ptr, text.len, &before);
    while (at != 0 && at < text.len) {
        uint32_t c;
        size_t n = utf8_decode(text.ptr + at, text.len - at, &c);
        if (n == 0 ||
            utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c, &state))
            break;
        before = c;
        at += n;
    }
    return at;
}

weft_status charsmap_graphemes(const charsmap *m, str text, strbuf *out)
{
    for (size_t at = 0; at < text.len && out->status == WEFT_OK;) {
        str chunk = {text.ptr + at, text.len - at};
        chunk.len = grapheme(chunk);
        if (chunk.len == 0) return WEFT_FORMAT;
        at += chunk.len;
        if (chunk.len < GRAPHEME_BYTES && put_chunk(m, chunk, out)) continue;
        for (size_t i = 0; i < chunk.len;) {
            uint32_t c;
            size_t n = utf8_decode(chunk.ptr + i, chunk.len - i, &c);
            str part = {chunk.ptr + i, n};
            if (!put_chunk(m, part, out)) strbuf_add(out, part.ptr, part.len);
            i += n;
        }
    }
    return out->status;
}
