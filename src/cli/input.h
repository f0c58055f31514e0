/* input.h - text from streams and small files, under a limit. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include <stdio.h>

#include "base/err.h"
#include "base/str.h"

#define INPUT_LIMIT ((size_t)256 << 20)

/* Everything up to the end, added to text. name is for the message. */
weft_status input_read_all(FILE *stream, const char *name, strbuf *text, weft_error *err);

/* The same of the file at path; - is stdin. */
weft_status input_read_file(const char *path, strbuf *text, weft_error *err);

/* Replaces what is in line by the next one, without its line feed; *more is false at the end. */
weft_status input_read_line(FILE *stream, const char *name, strbuf *line, bool *more,
                            weft_error *err);

#endif
