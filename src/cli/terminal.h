/* terminal.h - what a person sees: sentences on stderr, progress, text from a model made safe,
 * Ctrl-C. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdio.h>

#include "base/err.h"

/* Ignores SIGPIPE, so that a reader who leaves is an error of write. */
void terminal_init(void);

bool terminal_is(FILE *stream);

/* "weft: SENTENCE" on stderr. */
void report_note(const char *fmt, ...) ERR_PRINTF(1, 2);

/* Reports a failure and returns the exit status: 2 for ARGUMENT when `usage`, else 1. */
int report_failure(const weft_error *err, bool usage);

/* Empties stdout's buffer. False when something could not be written: reported, unless the
 * reader has left, which ends quietly. */
bool output_finish(void);

/* Text that is not ours: on a terminal, control characters but line feed and tab appear as
 * symbols, so that a model cannot move the cursor or rename the window. */
void text_write(FILE *stream, const char *bytes, size_t n_bytes);

/* One line that replaces itself, on a terminal only. */
typedef struct progress {
    bool shown;
} progress;

void progress_show(progress *p, const char *fmt, ...) ERR_PRINTF(2, 3);
void progress_clear(progress *p);

/* Between the two, Ctrl-C sets a flag and interrupts reading instead of ending the program. */
void interrupt_arm(void);
void interrupt_disarm(void);
bool interrupt_take(void); /* was there one since the last call? */

#endif
