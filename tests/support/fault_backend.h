/* fault_backend.h - a backend that passes everything to another one, but for the call that is to
 * fail.
 *
 *     fault_backend_set(&BACKEND_REF, FAULT_RUN, 3);    the third run fails with DEVICE
 *     open BACKEND_FAULT wherever a backend_api is asked for
 *     fault_backend_hit()                               whether it did
 *
 * A backend_api has no place for a test's wishes, so they are the program's: one fault at a time.
 * Calls are counted from fault_backend_set on; 0 fails none and only counts. A run that fails has
 * been done by the other backend before: its writes are there, as on a device that fails late. */
#ifndef SUPPORT_FAULT_BACKEND_H
#define SUPPORT_FAULT_BACKEND_H

#include "backend/backend.h"

typedef enum fault_call {
    FAULT_OPEN,     /* DEVICE */
    FAULT_SUPPORTS, /* UNSUPPORTED */
    FAULT_ALLOC,    /* NULL */
    FAULT_PLAN,     /* DEVICE */
    FAULT_RUN,      /* DEVICE */
    FAULT_WAIT,     /* DEVICE */
    FAULT_MEASURE,  /* DEVICE */
    FAULT_N_CALLS
} fault_call;

extern const backend_api BACKEND_FAULT;

void fault_backend_set(const backend_api *inner, fault_call call, uint32_t fail_at);
bool fault_backend_hit(void);

/* A run that is to fail says this, not DEVICE; until the next fault_backend_set. */
void fault_backend_fail_with(weft_status status);

/* Of the run that failed; NULL: none did. */
const backend_plan *fault_backend_plan(void);

/* A backend that is open already, as BACKEND_FAULT; closing it closes b. NULL when out of memory, b
 * then is as it was. For what finds its backend by name: it can be put in afterwards. */
backend *fault_backend_wrap(const backend_api *inner, backend *b, const env *world);

/* Calls of a kind so far. */
uint32_t fault_backend_count(fault_call call);

/* Backends, plans and blocks that were given out and not taken back. */
uint32_t fault_backend_live(void);

#endif
