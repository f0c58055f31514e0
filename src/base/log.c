/* log.c - formatting a line for the caller's sink. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"

void log_write(const weft_log *log, weft_log_level level, const char *fmt, ...)
{
    if (log == NULL || log->write == NULL) return;
    char line[512] = "";
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    utf8_tidy(line, sizeof line);
    log->write(log->user, level, line);
}
