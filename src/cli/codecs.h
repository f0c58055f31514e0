/* codecs.h - the codecs of keys and values that inspect and fit show when none is asked for. */
#ifndef CLI_CODECS_H
#define CLI_CODECS_H

#include <stdint.h>

enum { CODECS_USUAL = 19 };

/* Those that a model's heads do not allow are left out by who shows them. */
extern const char *const CODECS[CODECS_USUAL];

#endif
