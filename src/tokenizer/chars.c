/* chars.c - classes of characters, looked up in ranges. */
#include "tokenizer/chars.h"

#include <stddef.h>

#include "base/assert.h"
#include "tokenizer/char_ranges.h"

/* How many ranges start at or below c. */
static size_t n_started(const uint32_t (*ranges)[2], size_t n, uint32_t c)
{
    size_t low = 0;
    size_t high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle][0] > c) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static bool in_ranges(const uint32_t (*ranges)[2], size_t n, uint32_t c)
{
    size_t started = n_started(ranges, n, c);
    return started != 0 && c <= ranges[started - 1][1];
}

bool char_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool char_is_word(uint32_t c)
{
    if (c < 0x80) return (c | 0x20) - 'a' < 26 || c - '0' < 10 || c == '_';
    return in_ranges(WORD, COUNT_OF(WORD), c);
}

bool char_is_numeric(uint32_t c)
{
    return c < 0x80 ? c - '0' < 10 : in_ranges(NUMERIC, COUNT_OF(NUMERIC), c);
}

bool char_is_punctuation(uint32_t c)
{
    if (c < 0x80) return c > 0x20 && c < 0x7f && (c == '_' || !char_is_word(c));
    return in_ranges(PUNCTUATION, COUNT_OF(PUNCTUATION), c);
}

bool char_is_mark(uint32_t c)
{
    return c >= 0x80 && in_ranges(MARK, COUNT_OF(MARK), c);
}

bool char_is_nonspacing(uint32_t c)
{
    return c >= 0x80 && in_ranges(NONSPACING, COUNT_OF(NONSPACING), c);
}

bool char_is_control(uint32_t c)
{
    if (c < 0x7f) return c < 0x20 && c != '\t' && c != '\n' && c != '\r';
    return in_ranges(CONTROL, COUNT_OF(CONTROL), c);
}

bool char_is_ideograph(uint32_t c)
{
    static const uint32_t RANGES[][2] = {
        {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
        {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f},
    };
    if (c < 0x3400) return false;
    for (size_t i = 0; i < COUNT_OF(RANGES); i++) {
        if (c >= RANGES[i][0] && c <= RANGES[i][1]) return true;
    }
    return false;
}

uint32_t char_script(uint32_t c)
{
    return SCRIPTS[n_started(SCRIPTS, COUNT_OF(SCRIPTS), c) - 1][1]; /* the first starts at 0 */
}
