/* line.c - a line from a person.
 *
 * Bytes are read here, not by libedit: its own reader hides an interrupted read, and Ctrl-C at
 * the prompt shall return to the caller. */
#include "cli/line.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef WEFT_EDIT
#include <histedit.h>
#endif

#include "base/mem.h"
#include "base/utf8.h"
#include "cli/terminal.h"

struct line_reader {
    bool interrupted;
    size_t n_typed; /* bytes since the prompt */
    const char *prompt;
#ifdef WEFT_EDIT
    EditLine *edit;
    History *history;
#endif
};

/* 1: a byte; 0: the end; -1: an interrupt. */
static int read_byte(char *byte)
{
    for (;;) {
        ssize_t n = read(STDIN_FILENO, byte, 1);
        if (n > 0) return 1;
        if (n == 0 || errno != EINTR) return 0;
        if (interrupt_take()) return -1;
        /* Another signal, such as a resized window. */
    }
}

/* Ctrl-C that came while nobody was reading counts at once. */
static int next_byte(line_reader *r, char *byte)
{
    int got = interrupt_take() ? -1 : read_byte(byte);
    if (got < 0) r->interrupted = true;
    if (got > 0) r->n_typed++;
    return got;
}

#ifdef WEFT_EDIT

static char *prompt_of(EditLine *edit)
{
    line_reader *r = NULL;
    el_get(edit, EL_CLIENTDATA, &r);
    /* The type is libedit's; it only reads. */
    union {
        const char *in;
        char *out;
    } text = {r->prompt};
    return text.out;
}

/* One character. What is no UTF-8 comes through as U+FFFD. */
static int next_character(EditLine *edit, wchar_t *character)
{
    line_reader *r = NULL;
    el_get(edit, EL_CLIENTDATA, &r);
    char bytes[4];
    size_t n = 0;
    uint32_t c = 0;
    do {
        int got = next_byte(r, &bytes[n]);
        if (got <= 0) return got;
        n++;
    } while (n < 4 && utf8_whole(bytes, n) == 0);
    if (utf8_decode(bytes, n, &c) != n) c = 0xfffd;
    *character = (wchar_t)c;
    return 1;
}

/* libedit keeps wide characters and hands out those of the locale, so that must be a UTF-8 one;
 * numbers stay as in C. */
static void use_utf8(void)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): before any engine is opened, once
    if (setlocale(LC_CTYPE, "") == NULL || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
}

static weft_status open_edit(line_reader *r, weft_error *err)
{
    HistEvent event;
    use_utf8();
    r->edit = el_init("weft", stdin, stdout, stderr);
    r->history = history_init();
    if (r->edit == NULL || r->history == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for line editing");
    history(r->history, &event, H_SETSIZE, 1000);
    history(r->history, &event, H_SETUNIQUE, 1);
    el_set(r->edit, EL_CLIENTDATA, r);
    el_set(r->edit, EL_PROMPT, prompt_of);
    el_set(r->edit, EL_EDITOR, "emacs");
    el_set(r->edit, EL_HIST, history, r->history);
    el_set(r->edit, EL_GETCFN, next_character);
    return WEFT_OK;
}

static void close_edit(line_reader *r)
{
    if (r->history != NULL) history_end(r->history);
    if (r->edit != NULL) el_end(r->edit);
}

static line_result read_line(line_reader *r, strbuf *line)
{
    int n = 0;
    const char *text = el_gets(r->edit, &n);
    if (r->interrupted) {
        el_reset(r->edit);
        return r->n_typed > 0 ? LINE_DROPPED : LINE_INTERRUPTED;
    }
    if (text == NULL || n <= 0) return LINE_END;
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '\n') length--;
    HistEvent event;
    if (length > 0) history(r->history, &event, H_ENTER, text);
    return strbuf_add(line, text, length) == WEFT_OK ? LINE_READ : LINE_TOO_LONG;
}

#else

static weft_status open_edit(line_reader *r, weft_error *err)
{
    (void)r;
    (void)err;
    return WEFT_OK;
}

static void close_edit(line_reader *r)
{
    (void)r;
}

static line_result read_line(line_reader *r, strbuf *line)
{
    fputs(r->prompt, stdout);
    fflush(stdout);
    char byte = 0;
    for (;;) {
        int got = next_byte(r, &byte);
        if (got < 0) return r->n_typed > 0 ? LINE_DROPPED : LINE_INTERRUPTED;
        if (got == 0) return line->len > 0 ? LINE_READ : LINE_END;
        if (byte == '\n') return line->status == WEFT_OK ? LINE_READ : LINE_TOO_LONG;
        strbuf_add_char(line, byte);
    }
}

#endif

weft_status line_reader_create(line_reader **reader, weft_error *err)
{
    *reader = NULL;
    line_reader *r = mem_alloc_zero(mem_system(), sizeof *r);
    if (r == NULL) return err_set(err, WEFT_NOMEM, "out of memory for reading lines");
    r->prompt = "";
    weft_status status = open_edit(r, err);
    if (status != WEFT_OK) {
        line_reader_destroy(r);
        return status;
    }
    *reader = r;
    return WEFT_OK;
}

void line_reader_destroy(line_reader *reader)
{
    if (reader == NULL) return;
    close_edit(reader);
    mem_free(mem_system(), reader, sizeof *reader);
}

line_result line_read(line_reader *reader, const char *prompt, strbuf *line)
{
    strbuf_clear(line);
    reader->prompt = prompt;
    reader->interrupted = false;
    reader->n_typed = 0;
    return read_line(reader, line);
}
