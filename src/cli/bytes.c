/* bytes.c - numbers of bytes with a unit. */
#include "cli/bytes.h"

#include <stdio.h>

#include "base/assert.h"

void bytes_print_short(uint64_t n, char *text)
{
    static const char *const UNITS[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)n;
    uint32_t unit = 0;
    while (value >= 1024.0 && unit + 1 < COUNT_OF(UNITS)) {
        value /= 1024.0;
        unit++;
    }
    snprintf(text, BYTES_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", value, UNITS[unit]);
}

void bytes_print(uint64_t n, char *text)
{
    char rough[BYTES_TEXT];
    bytes_print_short(n, rough);
    if (n < 1024) {
        snprintf(text, BYTES_TEXT, "%s", rough);
    } else {
        snprintf(text, BYTES_TEXT, "%.20s (%llu bytes)", rough, (unsigned long long)n);
    }
}
