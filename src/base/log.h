/* log.h - one line to the caller's sink. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/err.h"

/* log may be NULL. Lines beyond 511 bytes are cut; control characters become '?'. */
void log_write(const weft_log *log, weft_log_level level, const char *fmt, ...) ERR_PRINTF(3, 4);

#endif
