/* host.h - what backends whose pages are plain memory have in common. */
#ifndef BACKEND_HOST_H
#define BACKEND_HOST_H

#include "backend/backend.h"

/* backend_api.copy and .convert. */
void host_copy(backend *b, void *to, const void *from, size_t n_bytes);
void host_convert(backend *b, const backend_conversion *c);

#endif
