/* ref.h - the reference backend: every operation plainly, one at a time, sums in double. The judge
 * of the others; slow. */
#ifndef BACKEND_REF_REF_H
#define BACKEND_REF_REF_H

#include "backend/backend.h"

extern const backend_api BACKEND_REF;

#endif
