/* wake.h - a call in the loop's thread, asked for from other threads, as often as steps are.
 *
 * uv_async_t does the same, but its loop spins until the thread that sent has left the call: where
 * all processors compute, that thread has to wait for the loop meanwhile. */
#ifndef SERVER_WAKE_H
#define SERVER_WAKE_H

#include <uv.h>

#include "base/err.h"

typedef struct wake {
    uv_poll_t poll;
    int file;           /* an eventfd; -1: it is not open */
    uint32_t is_wanted; /* atomic: 1 until the loop is about to call */
    void (*call)(void *user);
    void *user;
} wake;

weft_status wake_open(wake *w, uv_loop_t *loop, void (*call)(void *user), void *user,
                      weft_error *err);

/* From any thread. One call answers all that were told before it began. */
void wake_tell(wake *w);

/* In the loop's thread, when nobody tells any more; the memory is free when the loop has run. */
void wake_close(wake *w);

#endif
