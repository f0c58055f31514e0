/* mem.h - all memory comes through here. malloc and its friends appear in mem.c only. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "weft.h"

/* malloc, realloc and free behind the interface. */
const weft_allocator *mem_system(void);

/* [size] bytes aligned to 64, not cleared; NULL when refused or size is 0. */
void *mem_alloc(const weft_allocator *allocator, size_t size);

/* The same, cleared. */
void *mem_alloc_zero(const weft_allocator *allocator, size_t size);

/* The same as mem_alloc, aligned to a power of two from 64 on; freed with the same. */
void *mem_alloc_aligned(const weft_allocator *allocator, size_t size, size_t align);
void mem_free_aligned(const weft_allocator *allocator, void *ptr, size_t size, size_t align);

/* Grows or shrinks; NULL leaves the old block as it was. */
void *mem_resize(const weft_allocator *allocator, void *ptr, size_t old_size, size_t new_size);

/* size as it was allocated; ptr may be NULL. */
void mem_free(const weft_allocator *allocator, void *ptr, size_t size);

/* Of the process, for programs that run for long: large blocks go back to the system as soon as
 * they are freed. */
void mem_return_large(void);

/* What was freed goes back to the system as far as it can; takes milliseconds. */
void mem_trim(void);

/* A block of some megabytes that will be filled: large pages, where the system has them, cost less
 * than many small ones. Advice alone. */
void mem_use_large_pages(void *ptr, size_t size);

/* Bytes of memory of this machine; 0: it does not say. */
uint64_t mem_of_machine(void);

/* Products and sums of numbers from outside: false when they overflow size_t. */
bool size_mul(size_t a, size_t b, size_t *product);
bool size_add(size_t a, size_t b, size_t *sum);

/* value rounded up to a multiple of align (a power of two). Traps when that overflows: check
 * values from outside before. */
size_t size_align(size_t value, size_t align);

#endif
