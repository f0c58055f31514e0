/* err.h - filling weft_error: the innermost cause is kept, callers prepend where they were. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "weft.h"

#if defined(__GNUC__)
#define ERR_PRINTF(format_i, args_i) __attribute__((format(printf, format_i, args_i)))
#else
#define ERR_PRINTF(format_i, args_i)
#endif

/* Sets *err if it holds no failure yet (err may be NULL) and returns status. A message that does
 * not fit is cut at a whole UTF-8 character; control characters from outside become '?'. */
weft_status err_set(weft_error *err, weft_status status, const char *fmt, ...) ERR_PRINTF(3, 4);

#ifdef __clang_analyzer__
/* clang-tidy sees one file at a time: without this it believes that a failure may return OK. */
// NOLINTNEXTLINE(readability-identifier-naming): it stands for the function
#define err_set(err, status, ...) ((void)(err_set)(err, status, __VA_ARGS__), (status))
#endif

/* Prepends to the message of a failure; does nothing when err is NULL or OK. The tail is cut to
 * fit. */
void err_context(weft_error *err, const char *fmt, ...) ERR_PRINTF(2, 3);

/* Back to OK; err may be NULL. */
void err_clear(weft_error *err);

#endif
