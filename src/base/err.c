/* err.c - filling weft_error. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

weft_status(err_set)(weft_error *err, weft_status status, const char *fmt, ...)
{
    if (err == NULL || err->status != WEFT_OK) return status;
    err->status = status;
    err->message[0] = '\0';
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    utf8_tidy(err->message, sizeof err->message);
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
    utf8_tidy(err->message, sizeof err->message);
}

void err_clear(weft_error *err)
{
    if (err == NULL) return;
    err->status = WEFT_OK;
    err->message[0] = '\0';
}
