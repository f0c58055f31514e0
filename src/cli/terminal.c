/* terminal.c - stderr, progress, safe text, and the signal handlers. */
#include "cli/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/commands/command.h"

/* Weights are mapped: a page that its file no longer has, or that cannot be read, comes as this
 * signal. Nothing can go on from there. */
static void on_lost_page(int number, siginfo_t *info, void *context)
{
    static const char SENTENCE[] = "weft: a file was cut while it was in use, or cannot be read\n";
    static atomic_flag said = ATOMIC_FLAG_INIT;
    (void)context;
    if (info->si_code == BUS_ADRERR) {
        /* Several threads may come here; the first ends all. */
        while (atomic_flag_test_and_set(&said)) pause();
        if (write(STDERR_FILENO, SENTENCE, sizeof SENTENCE - 1) < 0) _exit(EXIT_FAILED);
        _exit(EXIT_FAILED);
    }
    signal(number, SIG_DFL);
    raise(number);
}

/* What cannot be written, for want of a reader or beyond a limit, is a failed call instead. */
void terminal_init(void)
{
    struct sigaction action = {0};
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
    action.sa_sigaction = on_lost_page;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, NULL);
}

bool terminal_is(FILE *stream)
{
    return isatty(fileno(stream)) == 1;
}

/* ---- sentences ------------------------------------------------------------------------------- */

void report_note(const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    utf8_tidy(text, sizeof text);
    fprintf(stderr, "weft: %s\n", text);
}

int report_failure(const weft_error *err, bool usage)
{
    report_note("%s", err->message);
    return usage && err->status == WEFT_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

/* errno of the write that failed may be long gone. */
static bool reader_left(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

bool output_finish(void)
{
    bool failed = fflush(stdout) != 0;
    int code = errno;
    if (!failed && !ferror(stdout)) return true;
    char reason[96] = "";
    if (failed && strerror_r(code, reason, sizeof reason) != 0) reason[0] = '\0';
    if (!reader_left())
        report_note("cannot write the output%s%s", reason[0] != '\0' ? ": " : "", reason);
    return false;
}

/* ---- text of others -------------------------------------------------------------------------- */

static void write_symbol(FILE *stream, uint32_t code_point)
{
    char bytes[4];
    uint32_t symbol = 0xfffd;
    if (code_point < 0x20) symbol = 0x2400 + code_point;
    if (code_point == 0x7f) symbol = 0x2421;
    fwrite(bytes, 1, utf8_encode(symbol, bytes), stream);
}

void text_write(FILE *stream, const char *bytes, size_t n_bytes)
{
    if (!terminal_is(stream)) {
        fwrite(bytes, 1, n_bytes, stream);
        return;
    }
    for (size_t i = 0; i < n_bytes;) {
        uint32_t c;
        size_t n = utf8_decode(bytes + i, n_bytes - i, &c);
        bool control = n == 0 || (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
        if (control) {
            write_symbol(stream, n == 0 ? 0xfffd : c);
        } else {
            fwrite(bytes + i, 1, n, stream);
        }
        i += n == 0 ? 1 : n;
    }
}

/* ---- progress -------------------------------------------------------------------------------- */

void progress_show(progress *p, const char *fmt, ...)
{
    if (!terminal_is(stderr)) return;
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    utf8_tidy(text, sizeof text);
    fprintf(stderr, "\r\033[K%.76s", text);
    p->shown = true;
}

void progress_clear(progress *p)
{
    if (p->shown) fputs("\r\033[K", stderr);
    p->shown = false;
}

/* ---- Ctrl-C ---------------------------------------------------------------------------------- */

/* A handler has nothing but a global to write to. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* Without SA_RESTART: a read at the prompt shall return. */
void interrupt_arm(void)
{
    struct sigaction action = {0};
    action.sa_handler = on_interrupt;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    interrupted = 0;
}

void interrupt_disarm(void)
{
    struct sigaction action = {0};
    action.sa_handler = SIG_DFL;
    sigaction(SIGINT, &action, NULL);
}

bool interrupt_take(void)
{
    bool was = interrupted != 0;
    interrupted = 0;
    return was;
}
