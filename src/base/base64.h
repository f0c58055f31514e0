/* base64.h - RFC 4648. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/str.h"

/* As people send it: white space is skipped, and the alphabet may be that of URLs. */
enum { BASE64_LOOSE = 1 };

/* Bytes that a text of so many characters decodes to at most. */
static inline size_t base64_room(size_t n_chars)
{
    return n_chars / 4 * 3 + 3;
}

/* to has room. false for what is not of the alphabet, and for a length that cannot be. Padding may
 * be left out; what is there must fit. */
bool base64_decode(str text, uint32_t flags, void *to, size_t *n_bytes);

/* Appended, padded. */
weft_status base64_encode(const void *bytes, size_t n_bytes, strbuf *out);

#endif
