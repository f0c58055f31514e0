/* input.c - text from streams. */
#include "cli/input.h"

#include <errno.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"

static weft_status check(FILE *stream, const char *name, const strbuf *text, weft_error *err)
{
    if (text->status == WEFT_LIMIT)
        return err_set(err, WEFT_LIMIT, "%s: more than %zu bytes", name, text->limit);
    if (text->status != WEFT_OK) return err_set(err, text->status, "%s: out of memory", name);
    if (!ferror(stream)) return WEFT_OK;
    char reason[96];
    if (strerror_r(errno, reason, sizeof reason) != 0) reason[0] = '\0';
    return err_set(err, WEFT_IO, "cannot read %s: %s", name, reason);
}

weft_status input_read_all(FILE *stream, const char *name, strbuf *text, weft_error *err)
{
    char block[4096];
    size_t n;
    while ((n = fread(block, 1, sizeof block, stream)) > 0) {
        if (strbuf_add(text, block, n) != WEFT_OK) break;
    }
    return check(stream, name, text, err);
}

weft_status input_read_file(const char *path, strbuf *text, weft_error *err)
{
    if (strcmp(path, "-") == 0) return input_read_all(stdin, "stdin", text, err);
    char *data;
    size_t n_bytes;
    weft_status status =
        io_read_file(io_system(), mem_system(), path, INPUT_LIMIT, &data, &n_bytes, err);
    if (status != WEFT_OK) return status;
    status = strbuf_add(text, data, n_bytes);
    mem_free(mem_system(), data, n_bytes + 1);
    return status == WEFT_OK ? WEFT_OK : err_set(err, status, "out of memory for '%s'", path);
}

weft_status input_read_line(FILE *stream, const char *name, strbuf *line, bool *more,
                            weft_error *err)
{
    strbuf_clear(line);
    int c = EOF;
    while ((c = getc(stream)) != EOF && c != '\n') {
        if (strbuf_add_char(line, (char)c) != WEFT_OK) break;
    }
    *more = c == '\n' || line->len > 0;
    return check(stream, name, line, err);
}
