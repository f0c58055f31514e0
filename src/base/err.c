/* err.c - filling weft_error. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Messages quote names from files: nothing in them may move a terminal's cursor or split a character. */
static void tidy(char *message, size_t capacity)
{
    size_t n = strnlen(message, capacity);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)message[i];
        if (c < 0x20 || c == 0x7f) message[i] = '?';
    }
    if (n + 1 < capacity) return;
    size_t start = n;
    while (start > 0 && ((unsigned char)message[start - 1] & 0xc0) == 0x80) start--;
    if (start == 0) return;
    unsigned char lead = (unsigned char)message[start - 1];
    size_t need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (start - 1 + need > n) message[start - 1] = '\0';
}

weft_status err_set(weft_error *err, weft_status status, const char *fmt, ...)
{
    if (err == NULL || err->status != WEFT_OK) return status;
    err->status = status;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    tidy(err->message, sizeof err->message);
    return status;
}

void err_context(weft_error *err, const char *fmt, ...)
{
    if (err == NULL || err->status == WEFT_OK) return;
    char inner[sizeof err->message];
    memcpy(inner, err->message, sizeof inner);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n;
    if (used < sizeof err->message) {
        snprintf(err->message + used, sizeof err->message - used, "%s", inner);
    }
    tidy(err->message, sizeof err->message);
}

void err_clear(weft_error *err)
{
    if (err == NULL) return;
    err->status = WEFT_OK;
    err->message[0] = '\0';
}
