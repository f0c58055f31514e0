/* host.h - what backends that compute in plain memory have in common. */
#ifndef BACKEND_HOST_H
#define BACKEND_HOST_H

#include "backend/backend.h"

/* backend_api.supports, .copy and .convert: any tensor that decodes can be computed with. */
weft_status host_supports(const backend *b, const graph *g, weft_error *err);
void host_copy(backend *b, void *to, const void *from, size_t n_bytes);
void host_convert(backend *b, const backend_conversion *c);

#endif
