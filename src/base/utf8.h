/* utf8.h - decoding and validating UTF-8 (RFC 3629: no surrogates, no overlong forms, at most
 * U+10FFFF). */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/str.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Length 1..4 of the valid sequence at bytes and its code point; 0 when it is invalid or cut off.
 */
size_t utf8_decode(const char *bytes, size_t n_bytes, uint32_t *code_point);

/* Writes 1..4 bytes; code_point is a Unicode scalar value. */
size_t utf8_encode(uint32_t code_point, char bytes[4]);

bool utf8_valid(const char *bytes, size_t n_bytes);

/* Length of the longest prefix that can be shown now: what remains is the start of a sequence that
 * more bytes could complete (0..3 bytes). Invalid bytes before it count as showable. */
size_t utf8_whole(const char *bytes, size_t n_bytes);

/* Appends bytes with every maximal invalid part replaced by U+FFFD (Unicode 15, section 3.9, table
 * 3-8). */
weft_status utf8_sanitize(const char *bytes, size_t n_bytes, strbuf *out);

/* For messages, which quote what comes from outside: invalid bytes and control characters of a
 * NUL-terminated text become '?', so that nothing in it moves a terminal's cursor; when it fills
 * capacity, it was cut, and the rest of a cut character goes too. */
void utf8_tidy(char *text, size_t capacity);

#endif
