/* base64.h - RFC 4648, for images in JSON and vectors out of it. */
#ifndef SERVER_BASE64_H
#define SERVER_BASE64_H

#include "base/str.h"

/* out: at least text.len / 4 * 3 + 3 bytes. White space is skipped; false for anything else that is
 * not of the alphabet, and for a length that cannot be. */
bool base64_decode(str text, unsigned char *out, size_t *n_bytes);

/* Appended, padded. */
weft_status base64_encode(const void *bytes, size_t n_bytes, strbuf *out);

#endif
