/* toy.h - the small model that comes along, for whoever has named none. */
#ifndef CLI_TOY_H
#define CLI_TOY_H

#include <stdbool.h>

enum { TOY_PATH_BYTES = 4096 };

/* In the source tree that the program was built in, or where it was installed; false: nowhere. */
bool toy_find(char path[TOY_PATH_BYTES]);

#endif
