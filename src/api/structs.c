/* structs.c - structs that grow with releases, and the names of things. */
#include <string.h>

#include "api/api.h"

#define VERSION_TEXT(major, minor, patch) VERSION_JOIN(major, minor, patch)
#define VERSION_JOIN(major, minor, patch) #major "." #minor "." #patch

const char *weft_version(void)
{
    return VERSION_TEXT(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
}

const char *weft_status_name(weft_status status)
{
    switch (status) {
#define STATUS_CASE(name, value, help)                                                             \
    case WEFT_##name:                                                                              \
        return #name;
        WEFT_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
    }
    return "UNKNOWN";
}

static uint32_t size_of(const void *any)
{
    uint32_t size;
    memcpy(&size, any, sizeof size);
    return size;
}

weft_status api_take_struct(void *ours, size_t size, const void *from, size_t least,
                            const char *what, weft_error *err)
{
    if (from == NULL) return WEFT_OK;
    size_t theirs = size_of(from);
    if (theirs < least) {
        return err_set(err, WEFT_ARGUMENT, "%s: struct_size is %zu, expected at least %zu", what,
                       theirs, least);
    }
    const unsigned char *bytes = from;
    for (size_t i = size; i < theirs; i++) {
        if (bytes[i] != 0) {
            return err_set(err, WEFT_ARGUMENT, "%s: byte %zu is set, this version knows %zu", what,
                           i, size);
        }
    }
    memcpy(ours, from, theirs < size ? theirs : size);
    return WEFT_OK;
}

weft_status api_give_struct(const void *ours, size_t size, void *to, size_t least, const char *what,
                            weft_error *err)
{
    if (to == NULL) return err_set(err, WEFT_ARGUMENT, "%s is NULL", what);
    size_t theirs = size_of(to);
    if (theirs < least) {
        return err_set(err, WEFT_ARGUMENT, "%s: struct_size is %zu, expected at least %zu", what,
                       theirs, least);
    }
    size_t head = sizeof(uint32_t);
    memset((unsigned char *)to + head, 0, theirs - head);
    memcpy((unsigned char *)to + head, (const unsigned char *)ours + head,
           (theirs < size ? theirs : size) - head);
    return WEFT_OK;
}
