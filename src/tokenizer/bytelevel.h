/* bytelevel.h - the alphabet in which byte-level vocabularies spell bytes: printable bytes of
 * Latin-1 stand for themselves, the other 68 are U+0100 and up, in order. Source: the GPT-2
 * vocabulary. */
#ifndef TOKENIZER_BYTELEVEL_H
#define TOKENIZER_BYTELEVEL_H

#include <stdbool.h>
#include <stdint.h>

static inline bool bytelevel_plain(uint32_t c)
{
    return (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

/* Others below 0x21 come first, then 0x7f to 0xa0, then 0xad. */
static inline uint32_t bytelevel_char(uint8_t byte)
{
    if (bytelevel_plain(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    return byte == 0xad ? 0x143u : 0x121u + (byte - 0x7fu);
}

/* -1 for a character outside the alphabet. */
static inline int32_t bytelevel_byte(uint32_t c)
{
    if (bytelevel_plain(c)) return (int32_t)c;
    if (c >= 0x100 && c <= 0x120) return (int32_t)(c - 0x100);
    if (c >= 0x121 && c <= 0x142) return (int32_t)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}

#endif
