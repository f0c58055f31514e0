/* signals.c - which signals a thread of the library does not take. */
#include "base/signals.h"

#include "base/assert.h"

void signals_from_outside(sigset_t *set)
{
    static const int OWN[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigfillset(set);
    for (size_t i = 0; i < COUNT_OF(OWN); i++) sigdelset(set, OWN[i]);
}
