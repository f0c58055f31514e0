/* env.h - what every module that opens something is handed: memory, files, log. Borrowed, never
 * global. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include "base/io.h"
#include "base/mem.h"

typedef struct env {
    const weft_allocator *allocator;
    const io *io;
    const weft_log *log; /* NULL: silent */
} env;

#endif
