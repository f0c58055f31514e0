/* backends.c - the backends of this build. */
#include "backend/backend.h"

#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"
#include "base/assert.h"

weft_status backend_find(const char *name, const backend_api **api, weft_error *err)
{
    static const backend_api *const BACKENDS[] = {&BACKEND_CPU, &BACKEND_REF};
    *api = NULL;
    if (name == NULL) name = "cpu";
    for (size_t i = 0; i < COUNT_OF(BACKENDS); i++) {
        if (strcmp(BACKENDS[i]->name, name) == 0) {
            *api = BACKENDS[i];
            return WEFT_OK;
        }
    }
    return err_set(err, WEFT_ARGUMENT, "unknown backend '%s', expected cpu or ref", name);
}
