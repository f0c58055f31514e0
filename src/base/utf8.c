/* utf8.c - one scanner that knows table 3-7 of Unicode 15, and what follows from it. */
#include "base/utf8.h"

#include <string.h>

/* Bytes of the longest prefix that is a sequence or could become one by more bytes; 1 when there
 * is none. *need is the length that the first byte asks for, 0 for a byte that starts nothing. */
static size_t scan(const char *bytes, size_t n_bytes, size_t *need)
{
    unsigned char lead = (unsigned char)bytes[0];
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    if (lead < 0x80) {
        *need = 1;
    } else if (lead >= 0xc2 && lead <= 0xdf) {
        *need = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        *need = 3;
        if (lead == 0xe0) low = 0xa0;  /* below: overlong */
        if (lead == 0xed) high = 0x9f; /* above: surrogates */
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        *need = 4;
        if (lead == 0xf0) low = 0x90;  /* below: overlong */
        if (lead == 0xf4) high = 0x8f; /* above: beyond U+10FFFF */
    } else {
        *need = 0;
    }
    size_t n = 1;
    while (n < *need && n < n_bytes) {
        unsigned char c = (unsigned char)bytes[n];
        if (c < low || c > high) break;
        low = 0x80;
        high = 0xbf;
        n++;
    }
    return n;
}

size_t utf8_decode(const char *bytes, size_t n_bytes, uint32_t *code_point)
{
    static const unsigned char LEAD_MASK[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    *code_point = 0;
    if (n_bytes == 0) return 0;
    size_t need;
    if (scan(bytes, n_bytes, &need) != need) return 0;
    uint32_t value = (unsigned char)bytes[0] & LEAD_MASK[need];
    for (size_t i = 1; i < need; i++) value = value << 6 | ((unsigned char)bytes[i] & 0x3fu);
    *code_point = value;
    return need;
}

size_t utf8_encode(uint32_t code_point, char bytes[4])
{
    static const unsigned char LEAD[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (code_point < 0x80) {
        bytes[0] = (char)code_point;
        return 1;
    }
    size_t n = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        bytes[i] = (char)(0x80u | (code_point & 0x3fu));
        code_point >>= 6;
    }
    bytes[0] = (char)(LEAD[n] | code_point);
    return n;
}

bool utf8_valid(const char *bytes, size_t n_bytes)
{
    size_t at = 0;
    while (at < n_bytes) {
        size_t need;
        size_t n = scan(bytes + at, n_bytes - at, &need);
        if (n != need) return false;
        at += n;
    }
    return true;
}

/* Only the last three bytes can matter: an incomplete sequence has at most three, and its first
 * byte is recognisable as such wherever one starts to read. */
size_t utf8_whole(const char *bytes, size_t n_bytes)
{
    for (size_t back = 1; back <= 3 && back <= n_bytes; back++) {
        unsigned char c = (unsigned char)bytes[n_bytes - back];
        if ((c & 0xc0u) == 0x80u) continue;
        size_t need;
        size_t n = scan(bytes + n_bytes - back, back, &need);
        return n == back && n < need ? n_bytes - back : n_bytes;
    }
    return n_bytes;
}

weft_status utf8_sanitize(const char *bytes, size_t n_bytes, strbuf *out)
{
    size_t start = 0; /* of the valid run not yet added */
    size_t at = 0;
    while (at < n_bytes) {
        size_t need;
        size_t n = scan(bytes + at, n_bytes - at, &need);
        if (n != need) {
            strbuf_add(out, bytes + start, at - start);
            strbuf_add_text(out, UTF8_REPLACEMENT);
            start = at + n;
        }
        at += n;
    }
    return n_bytes == 0 ? out->status : strbuf_add(out, bytes + start, n_bytes - start);
}

void utf8_tidy(char *text, size_t capacity)
{
    size_t n_bytes = strnlen(text, capacity);
    if (n_bytes + 1 == capacity) {
        n_bytes = utf8_whole(text, n_bytes);
        text[n_bytes] = '\0';
    }
    size_t at = 0;
    while (at < n_bytes) {
        uint32_t code_point;
        size_t n = utf8_decode(text + at, n_bytes - at, &code_point);
        /* C0, DEL and C1: ESC in one byte or two. */
        bool plain = n != 0 && code_point >= 0x20 && (code_point < 0x7f || code_point > 0x9f);
        if (n == 0) n = 1;
        if (!plain) memset(text + at, '?', n);
        at += n;
    }
}
