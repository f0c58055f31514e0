/* sibling.c - the small files beside the weights. */
#include <string.h>

#include "formats/weights.h"

static bool lists(const char *names, const char *name)
{
    for (const char *at = names; at != NULL && *at != '\0'; at += strlen(at) + 1) {
        if (strcmp(at, name) == 0) return true;
    }
    return false;
}

weft_status weights_read_sibling(const weights *w, const char *name, size_t limit, char **text,
                                 size_t *n_bytes, weft_error *err)
{
    *text = NULL;
    *n_bytes = 0;
    if (!w->format->is_folder) return WEFT_OK;
    char *names = NULL;
    size_t names_bytes = 0;
    weft_status status =
        w->env.io->list(w->env.io, w->path, w->env.allocator, &names, &names_bytes, err);
    if (status != WEFT_OK) return status;
    bool there = lists(names, name);
    mem_free(w->env.allocator, names, names_bytes);
    if (!there) return WEFT_OK;
    char path[WEIGHTS_PATH_BYTES];
    status = weights_sibling(w, name, path, sizeof path, err);
    if (status != WEFT_OK) return status;
    return io_read_file(w->env.io, w->env.allocator, path, limit, text, n_bytes, err);
}
