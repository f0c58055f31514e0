/* pool.h - objects of one size from one block, so that taking one never asks the system. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/err.h"
#include "base/mem.h"

typedef struct pool {
    const weft_allocator *allocator; /* borrowed */
    unsigned char *objects;          /* [n_objects * stride] */
    uint32_t *free_list;             /* [n_objects], the first n_free are free */
    uint32_t n_objects;
    uint32_t n_free;
    size_t stride;
} pool;

/* size is rounded up to a multiple of 64. */
weft_status pool_init(pool *p, const weft_allocator *allocator, size_t size, uint32_t n_objects,
                      weft_error *err);
void pool_deinit(pool *p);

/* NULL when none is left. Not cleared. */
void *pool_take(pool *p);

/* Traps on a pointer that is not from this pool. */
void pool_give(pool *p, void *object);

#endif
