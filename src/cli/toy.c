/* toy.c - from where the program lies, so that an installed tree may move. */
#include "cli/toy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/io.h"

bool toy_find(char path[TOY_PATH_BYTES])
{
    static const char *const PLACES[] = {"../models/tiny/target-mlx8",
                                         "../share/weft/models/tiny/target-mlx8"};
    char program[TOY_PATH_BYTES - 64];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return false;
    program[n] = '\0';
    char *slash = strrchr(program, '/');
    if (slash == NULL) return false;
    *slash = '\0';
    const io *files = io_system();
    /* build/PRESET/weft has the tree two levels up. */
    snprintf(path, TOY_PATH_BYTES, "%s/../%s", program, PLACES[0]);
    if (files->is_folder(files, path)) return true;
    for (size_t i = 0; i < COUNT_OF(PLACES); i++) {
        snprintf(path, TOY_PATH_BYTES, "%s/%s", program, PLACES[i]);
        if (files->is_folder(files, path)) return true;
    }
    return false;
}
