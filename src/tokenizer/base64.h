/* base64.h - decoding RFC 4648's base64. */
#ifndef TOKENIZER_BASE64_H
#define TOKENIZER_BASE64_H

#include "base/str.h"

/* Bytes that a text of so many characters decodes to at most. */
static inline size_t base64_room(size_t n_chars)
{
    return n_chars / 4 * 3 + 3;
}

/* false for what is not base64; out has room. Padding may be left out. */
bool base64_decode(str text, char *out, size_t *n_bytes);

#endif
