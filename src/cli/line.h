/* line.h - a line from a person: with editing and history where libedit is built in, plainly
 * elsewhere. */
#ifndef CLI_LINE_H
#define CLI_LINE_H

#include "base/err.h"
#include "base/str.h"

typedef enum line_result {
    LINE_READ,
    LINE_END,         /* Ctrl-D, or the terminal has gone */
    LINE_INTERRUPTED, /* Ctrl-C on an empty line, while interrupt_arm is in force */
    LINE_DROPPED,     /* Ctrl-C on a line that was begun */
    LINE_TOO_LONG,    /* beyond the buffer's limit: the line is lost */
} line_result;

typedef struct line_reader line_reader;

/* Reads stdin, prompts on stdout. */
weft_status line_reader_create(line_reader **reader, weft_error *err);
void line_reader_destroy(line_reader *reader);

/* Replaces what is in line; without the line feed. */
line_result line_read(line_reader *reader, const char *prompt, strbuf *line);

#endif
