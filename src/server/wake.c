/* wake.c - a counter that the loop polls. */
#include "server/wake.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"

static void on_readable(uv_poll_t *poll, int status, int events)
{
    wake *w = poll->data;
    uint64_t n;
    (void)status;
    (void)events;
    ssize_t got = read(w->file, &n, sizeof n);
    ASSERT(got == (ssize_t)sizeof n || errno == EAGAIN || errno == EINTR);
    /* First: what is told from here on is of another call. */
    __atomic_store_n(&w->is_wanted, 0, __ATOMIC_SEQ_CST);
    w->call(w->user);
}

weft_status wake_open(wake *w, uv_loop_t *loop, void (*call)(void *user), void *user,
                      weft_error *err)
{
    *w = (wake){.file = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .call = call, .user = user};
    if (w->file < 0)
        return err_set(err, WEFT_DEVICE, "the system gives no event file (%s)",
                       uv_strerror(uv_translate_sys_error(errno)));
    int failed = uv_poll_init(loop, &w->poll, w->file);
    if (failed != 0) {
        close(w->file);
        w->file = -1;
        return err_set(err, WEFT_DEVICE, "the loop takes no event file: %s", uv_strerror(failed));
    }
    w->poll.data = w;
    failed = uv_poll_start(&w->poll, UV_READABLE, on_readable);
    ASSERT(failed == 0);
    return WEFT_OK;
}

void wake_tell(wake *w)
{
    static const uint64_t ONE = 1;
    if (__atomic_exchange_n(&w->is_wanted, 1, __ATOMIC_SEQ_CST) != 0) return;
    ssize_t n = write(w->file, &ONE, sizeof ONE);
    /* It would have to hold 2^64 - 2. */
    ASSERT(n == (ssize_t)sizeof ONE);
}

void wake_close(wake *w)
{
    if (w->file < 0) return;
    uv_close((uv_handle_t *)&w->poll, NULL);
    close(w->file);
    w->file = -1;
}
