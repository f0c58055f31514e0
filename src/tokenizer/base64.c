/* base64.c - decoding base64, strictly but for the padding. */
#include "tokenizer/base64.h"

static int32_t digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

bool base64_decode(str text, char *out, size_t *n_bytes)
{
    uint32_t bits = 0;
    uint32_t n_bits = 0;
    size_t n = 0;
    for (size_t i = 0; i < 2 && text.len != 0 && text.ptr[text.len - 1] == '='; i++) text.len--;
    for (size_t i = 0; i < text.len; i++) {
        int32_t value = digit(text.ptr[i]);
        if (value < 0) return false;
        bits = bits << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        out[n++] = (char)(unsigned char)(bits >> n_bits & 0xff);
    }
    *n_bytes = n;
    return text.len % 4 != 1;
}
