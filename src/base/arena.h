/* arena.h - memory that is freed all at once: what a model needs while it is open. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/mem.h"

typedef struct arena_block arena_block;

typedef struct arena {
    const weft_allocator *allocator; /* borrowed */
    arena_block *last;
    size_t limit; /* most bytes it may take from the allocator */
    size_t taken;
} arena;

/* limit 0: none. Allocates nothing. */
void arena_init(arena *a, const weft_allocator *allocator, size_t limit);
void arena_deinit(arena *a);

/* size bytes (0 gives a valid pointer) aligned to 16, cleared; NULL when refused or over the
 * limit. */
void *arena_alloc(arena *a, size_t size);

/* [count] elements of size, cleared; NULL also when the product overflows. */
void *arena_array(arena *a, size_t count, size_t size);

/* A NUL-terminated copy. */
char *arena_copy_text(arena *a, const char *text, size_t n_bytes);

#endif
