/* arena.c - blocks chained behind one another, each larger than the last up to a bound. */
#include "base/arena.h"

#include <string.h>

#include "base/assert.h"

enum { ARENA_ALIGN = 16, ARENA_FIRST = 4096 - 64, ARENA_LARGEST = 1 << 20 };

struct arena_block {
    arena_block *previous;
    size_t size; /* of the whole block */
    size_t used; /* header included */
};

void arena_init(arena *a, const weft_allocator *allocator, size_t limit)
{
    a->allocator = allocator;
    a->last = NULL;
    a->limit = limit == 0 ? SIZE_MAX : limit;
    a->taken = 0;
}

void arena_deinit(arena *a)
{
    arena_block *block = a->last;
    while (block != NULL) {
        arena_block *previous = block->previous;
        mem_free(a->allocator, block, block->size);
        block = previous;
    }
    a->last = NULL;
    a->taken = 0;
}

static bool grow(arena *a, size_t size)
{
    size_t header = size_align(sizeof(arena_block), ARENA_ALIGN);
    size_t next = a->last == NULL ? ARENA_FIRST : a->last->size * 2;
    if (next > ARENA_LARGEST) next = ARENA_LARGEST;
    size_t need;
    if (!size_add(size, header, &need)) return false;
    if (need > next) next = need;
    if (next > a->limit - a->taken) next = need;
    if (next > a->limit - a->taken) return false;
    arena_block *block = mem_alloc(a->allocator, next);
    if (block == NULL) return false;
    block->previous = a->last;
    block->size = next;
    block->used = header;
    a->last = block;
    a->taken += next;
    return true;
}

void *arena_alloc(arena *a, size_t size)
{
    if (size > SIZE_MAX - ARENA_ALIGN) return NULL;
    size_t rounded = size_align(size == 0 ? 1 : size, ARENA_ALIGN);
    if (a->last == NULL || a->last->size - a->last->used < rounded) {
        if (!grow(a, rounded)) return NULL;
    }
    void *ptr = (char *)a->last + a->last->used;
    a->last->used += rounded;
    ASSERT(a->last->used <= a->last->size);
    memset(ptr, 0, rounded);
    return ptr;
}

void *arena_array(arena *a, size_t count, size_t size)
{
    size_t bytes;
    return size_mul(count, size, &bytes) ? arena_alloc(a, bytes) : NULL;
}

char *arena_copy_text(arena *a, const char *text, size_t n_bytes)
{
    if (n_bytes == SIZE_MAX) return NULL;
    char *copy = arena_alloc(a, n_bytes + 1);
    if (copy != NULL && n_bytes != 0) memcpy(copy, text, n_bytes);
    return copy;
}
