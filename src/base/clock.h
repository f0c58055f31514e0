/* clock.h - monotonic time. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since an arbitrary moment. */
uint64_t clock_now_ns(void);

#endif
