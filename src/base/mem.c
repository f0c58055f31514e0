/* mem.c - the system allocator behind weft_allocator, and checked sizes. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"

enum { MEM_ALIGN = 64, MEM_LARGE = 256 * 1024 };

/* aligned_alloc has no realloc: growth copies. Hot paths do not grow, so that is paid while
 * loading. */
static void *system_resize(void *user, void *ptr, size_t old_size, size_t new_size, size_t align)
{
    (void)user;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    if (new_size > SIZE_MAX - align) return NULL;
    void *block = aligned_alloc(align, size_align(new_size, align));
    if (block == NULL || ptr == NULL) return block;
    memcpy(block, ptr, old_size < new_size ? old_size : new_size);
    free(ptr);
    return block;
}

static const weft_allocator SYSTEM = {NULL, system_resize};

const weft_allocator *mem_system(void)
{
    return &SYSTEM;
}

void *mem_alloc(const weft_allocator *allocator, size_t size)
{
    if (size == 0) return NULL;
    return allocator->resize(allocator->user, NULL, 0, size, MEM_ALIGN);
}

void *mem_alloc_aligned(const weft_allocator *allocator, size_t size, size_t align)
{
    ASSERT(align >= MEM_ALIGN && (align & (align - 1)) == 0);
    return size == 0 ? NULL : allocator->resize(allocator->user, NULL, 0, size, align);
}

void mem_free_aligned(const weft_allocator *allocator, void *ptr, size_t size, size_t align)
{
    if (ptr != NULL) allocator->resize(allocator->user, ptr, size, 0, align);
}

void *mem_alloc_zero(const weft_allocator *allocator, size_t size)
{
    void *ptr = mem_alloc(allocator, size);
    if (ptr != NULL) memset(ptr, 0, size);
    return ptr;
}

void *mem_resize(const weft_allocator *allocator, void *ptr, size_t old_size, size_t new_size)
{
    ASSERT(new_size != 0);
    return allocator->resize(allocator->user, ptr, ptr == NULL ? 0 : old_size, new_size, MEM_ALIGN);
}

void mem_free(const weft_allocator *allocator, void *ptr, size_t size)
{
    if (ptr != NULL) allocator->resize(allocator->user, ptr, size, 0, MEM_ALIGN);
}

void mem_return_large(void)
{
#ifdef __GLIBC__
    /* Otherwise it grows with the largest block that was ever freed. */
    // NOLINTNEXTLINE(concurrency-mt-unsafe): a program calls it before it has threads
    mallopt(M_MMAP_THRESHOLD, MEM_LARGE);
#endif
}

void mem_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void mem_use_large_pages(void *ptr, size_t size)
{
#ifdef MADV_HUGEPAGE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)ptr + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)ptr + size) / page * page;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the pages that lie in it whole
    if (first < end) (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)ptr;
    (void)size;
#endif
}

uint64_t mem_of_machine(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) return 0;
    return (uint64_t)pages * (uint64_t)page_bytes;
}

bool size_mul(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

bool size_add(size_t a, size_t b, size_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

size_t size_align(size_t value, size_t align)
{
    ASSERT(value <= SIZE_MAX - (align - 1));
    return (value + align - 1) & ~(align - 1);
}
