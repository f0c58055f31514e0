/* drafters.c - the table over drafters.def. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "engine/drafters/drafter.h"

#define ENGINE_DRAFTER(name, NAME) extern const engine_drafter ENGINE_DRAFTER_##NAME;
#include "engine/drafters/drafters.def"
#undef ENGINE_DRAFTER

static const engine_drafter *const DRAFTERS[] = {
#define ENGINE_DRAFTER(name, NAME) &ENGINE_DRAFTER_##NAME,
#include "engine/drafters/drafters.def"
#undef ENGINE_DRAFTER
};

const engine_drafter *const *engine_drafter_table(uint32_t *count)
{
    *count = COUNT_OF(DRAFTERS);
    return DRAFTERS;
}

weft_status engine_drafter_find(const char *name, const engine_drafter **drafter, weft_error *err)
{
    char known[100] = "";
    size_t used = 0;
    *drafter = NULL;
    for (size_t i = 0; i < COUNT_OF(DRAFTERS); i++) {
        if (strcmp(DRAFTERS[i]->name, name) == 0) {
            *drafter = DRAFTERS[i];
            return WEFT_OK;
        }
        int n = snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
                         DRAFTERS[i]->name);
        used += n < 0 ? 0 : (size_t)n;
        if (used >= sizeof known) used = sizeof known - 1;
    }
    return err_set(err, WEFT_ARGUMENT, "unknown drafter '%.40s', expected one of %s", name, known);
}
