/* cache.c - the program's folder by the XDG Base Directory Specification. */
#include "cli/cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Only for the user, as the specification asks. */
bool cache_make(const char *path)
{
    return mkdir(path, 0700) == 0 || (errno == EEXIST && is_folder(path));
}

/* "BASE/NAME", made. */
static bool make_below(const char *base, const char *name, char folder[CACHE_FOLDER_BYTES])
{
    int n = snprintf(folder, CACHE_FOLDER_BYTES, "%s/%s", base, name);
    return n > 0 && n < CACHE_FOLDER_BYTES && cache_make(folder);
}

/* The specification has relative paths ignored. */
static const char *absolute(const char *name)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): before any thread is started
    const char *path = getenv(name);
    return path != NULL && path[0] == '/' ? path : NULL;
}

bool cache_folder(const char *model, char folder[CACHE_FOLDER_BYTES])
{
    char base[CACHE_FOLDER_BYTES];
    if (!is_folder(model)) return false;
    const char *caches = absolute("XDG_CACHE_HOME");
    if (caches != NULL) return cache_make(caches) && make_below(caches, "weft", folder);
    const char *home = absolute("HOME");
    return home != NULL && make_below(home, ".cache", base) && make_below(base, "weft", folder);
}
