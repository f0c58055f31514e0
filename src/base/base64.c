/* base64.c - RFC 4648. */
#include "base/base64.h"

static int value_of(char c, bool loose)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+' || (loose && c == '-')) return 62;
    if (c == '/' || (loose && c == '_')) return 63;
    return -1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool base64_decode(str text, uint32_t flags, void *to, size_t *n_bytes)
{
    unsigned char *out = to;
    bool loose = (flags & BASE64_LOOSE) != 0;
    uint32_t bits = 0;
    uint32_t n_digits = 0;
    uint32_t n_pads = 0;
    *n_bytes = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (loose && is_blank(text.ptr[i])) continue;
        if (text.ptr[i] == '=') {
            n_pads++;
            continue;
        }
        int value = value_of(text.ptr[i], loose);
        if (value < 0 || n_pads > 0) return false;
        bits = bits << 6 | (uint32_t)value;
        if (++n_digits % 4 != 0) continue;
        out[(*n_bytes)++] = (unsigned char)(bits >> 16);
        out[(*n_bytes)++] = (unsigned char)(bits >> 8);
        out[(*n_bytes)++] = (unsigned char)bits;
    }
    uint32_t left = n_digits % 4;
    if (left == 1 || n_pads > 2 || (n_pads > 0 && (left + n_pads) % 4 != 0)) return false;
    if (left >= 2) out[(*n_bytes)++] = (unsigned char)(bits >> (left == 2 ? 4 : 10));
    if (left == 3) out[(*n_bytes)++] = (unsigned char)(bits >> 2);
    return true;
}

weft_status base64_encode(const void *bytes, size_t n_bytes, strbuf *out)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = bytes;
    strbuf_reserve(out, n_bytes / 3 * 4 + 4);
    for (size_t i = 0; i < n_bytes; i += 3) {
        size_t n = n_bytes - i < 3 ? n_bytes - i : 3;
        uint32_t bits = (uint32_t)in[i] << 16;
        if (n > 1) bits |= (uint32_t)in[i + 1] << 8;
        if (n > 2) bits |= in[i + 2];
        char digits[4] = {DIGITS[bits >> 18], DIGITS[bits >> 12 & 63],
                          n > 1 ? DIGITS[bits >> 6 & 63] : '=', n > 2 ? DIGITS[bits & 63] : '='};
        strbuf_add(out, digits, 4);
    }
    return out->status;
}
