/* signals.h - which signals a thread of the library does not take. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <signal.h>

/* Those that come from outside: they are the host program's. What a thread causes itself, such as
 * SIGBUS, comes to it in any case, and would end the process past the host's handler if it was
 * blocked. */
void signals_from_outside(sigset_t *set);

#endif
