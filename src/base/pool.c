/* pool.c - objects of one size from one block. */
#include "base/pool.h"

#include "base/assert.h"

enum { POOL_ALIGN = 64 };

weft_status pool_init(pool *p, const weft_allocator *allocator, size_t size, uint32_t n_objects,
                      weft_error *err)
{
    *p = (pool){.allocator = allocator};
    size_t n_bytes;
    if (size > SIZE_MAX - POOL_ALIGN ||
        !size_mul(size_align(size == 0 ? 1 : size, POOL_ALIGN), n_objects, &n_bytes)) {
        return err_set(err, WEFT_LIMIT, "a pool of %u objects of %zu bytes cannot be counted",
                       n_objects, size);
    }
    p->stride = size_align(size == 0 ? 1 : size, POOL_ALIGN);
    if (n_objects == 0) return WEFT_OK;
    p->objects = mem_alloc(allocator, n_bytes);
    p->free_list = mem_alloc(allocator, n_objects * sizeof(uint32_t));
    p->n_objects = n_objects;
    if (p->objects == NULL || p->free_list == NULL) {
        pool_deinit(p);
        return err_set(err, WEFT_NOMEM, "out of memory for a pool of %u objects of %zu bytes",
                       n_objects, size);
    }
    /* The list is taken from its end: the lowest objects first. */
    for (uint32_t i = 0; i < n_objects; i++) p->free_list[i] = n_objects - 1 - i;
    p->n_free = n_objects;
    return WEFT_OK;
}

void pool_deinit(pool *p)
{
    mem_free(p->allocator, p->objects, p->stride * p->n_objects);
    mem_free(p->allocator, p->free_list, p->n_objects * sizeof(uint32_t));
    *p = (pool){.allocator = p->allocator};
}

void *pool_take(pool *p)
{
    if (p->n_free == 0) return NULL;
    p->n_free--;
    return p->objects + p->stride * p->free_list[p->n_free];
}

void pool_give(pool *p, void *object)
{
    uintptr_t first = (uintptr_t)p->objects;
    uintptr_t at = (uintptr_t)object;
    ASSERT(at >= first && p->n_free < p->n_objects);
    size_t offset = at - first;
    size_t i = offset / p->stride;
    ASSERT(offset % p->stride == 0 && i < p->n_objects);
    p->free_list[p->n_free] = (uint32_t)i;
    p->n_free++;
}
