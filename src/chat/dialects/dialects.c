/* dialects.c - the table over dialects.def. */
#include <string.h>

#include "base/assert.h"
#include "chat/dialects/dialect.h"

#define DIALECT(name, NAME) extern const dialect DIALECT_##NAME;
#include "chat/dialects/dialects.def"
#undef DIALECT

static const dialect *const DIALECTS[] = {
#define DIALECT(name, NAME) &DIALECT_##NAME,
#include "chat/dialects/dialects.def"
#undef DIALECT
};

const dialect *const *dialect_table(uint32_t *count)
{
    *count = COUNT_OF(DIALECTS);
    return DIALECTS;
}

static bool contains(str text, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= text.len; i++) {
        const char *at = memchr(text.ptr + i, what[0], text.len - n + 1 - i);
        if (at == NULL) return false;
        i = (size_t)(at - text.ptr);
        if (memcmp(at, what, n) == 0) return true;
    }
    return false;
}

static bool has_signs(const dialect *d, str source)
{
    if (d->signs[0][0] == NULL) return true;
    for (size_t way = 0; way < DIALECT_WAYS && d->signs[way][0] != NULL; way++) {
        bool all = true;
        for (size_t i = 0; i < DIALECT_SIGNS && d->signs[way][i] != NULL; i++)
            all = all && contains(source, d->signs[way][i]);
        if (all) return true;
    }
    return false;
}

dialect_choice dialect_choose(str source)
{
    dialect_choice choice = {.row = NULL};
    for (size_t i = 0; choice.row == NULL; i++) {
        if (has_signs(DIALECTS[i], source)) choice.row = DIALECTS[i];
    }
    const dialect *d = choice.row;
    choice.thinks = contains(source, d->think_close != NULL ? d->think_close : "</think>");
    if (d->older_sign != NULL) choice.older = contains(source, d->older_sign);
    if (d->newer_sign != NULL) choice.older = !contains(source, d->newer_sign);
    return choice;
}

const dialect *dialect_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(DIALECTS); i++) {
        if (strcmp(DIALECTS[i]->name, name) == 0) return DIALECTS[i];
    }
    return NULL;
}

void dialect_markers(const dialect *d, void (*give)(void *user, const char *marker), void *user)
{
    const char *const *const lists[] = {d->calls, d->before, d->after, d->shown, d->xml.ends};
    const char *const others[] = {d->think_open,    d->think_close,    d->named.separator,
                                  d->named.id,      d->xml.name_close, d->xml.key_open,
                                  d->xml.key_close, d->xml.value_open, d->xml.value_close,
                                  d->typed.quote};
    for (size_t k = 0; k < COUNT_OF(lists); k++) {
        for (size_t i = 0; i < DIALECT_TAGS && lists[k][i] != NULL; i++) give(user, lists[k][i]);
    }
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        if (others[i] != NULL) give(user, others[i]);
    }
}
