/* fault.h - memory and files that fail on demand, and the sweeps that try every place.
 *
 * A sweep runs a scenario with the 1st, 2nd, 3rd ... allocation (or file operation) failing, until
 * a run ends with none hit. Write a scenario that opens, uses and closes everything it needs
 * through world, and assert on the number of faults injected, so that coverage cannot silently
 * shrink:
 *     static weft_status scenario(const env *world, void *user, weft_error *err) { ... }
 *     assert_true(fault_sweep(scenario, NULL) >= 12);
 */
#ifndef SUPPORT_FAULT_H
#define SUPPORT_FAULT_H

#include <stdatomic.h>

#include "base/env.h"

/* Under AddressSanitizer the guards are poisoned: a read or write of them stops the program at
 * once. */
#if defined(__SANITIZE_ADDRESS__)
#define FAULT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FAULT_ASAN 1
#endif
#endif

/* Every block is new memory filled with 0xa5 (a resize always moves), with guard bytes on both
 * sides; sizes and alignments told on resize and free are checked against those of the allocation.
 * A violation fails the running test on the spot. May be called from several threads; the fields
 * are set while none does. */
typedef struct fault_allocator {
    weft_allocator allocator; /* hand out &fault.allocator */
    size_t fail_at; /* the fail_at-th allocation from fault_allocator_init on fails; 0: none */
    bool armed;     /* any allocation or resize is a violation; freeing is not */
    size_t largest; /* larger blocks are refused without counting as a fault; 0: any */
    atomic_size_t n_allocations; /* asked for so far, resizes included */
    atomic_size_t live_blocks;
    atomic_size_t live_bytes;
    atomic_size_t peak_bytes; /* most live_bytes so far */
    atomic_bool hit;          /* the fault was injected */
} fault_allocator;

/* fail_at 0: only counts and checks. Must not be moved afterwards. */
void fault_allocator_init(fault_allocator *fault, size_t fail_at);

/* Fails the test when blocks or bytes are still live. */
void fault_allocator_check(const fault_allocator *fault);

/* io_system() whose fail_at-th operation fails with IO; is_folder, exists, touch, unmap,
 * remove and remove_folder never do. A close that fails has closed. Blocks may be read in several
 * threads, and fail_at set anew between two steps; the rest is for one. */
typedef struct fault_io {
    io io; /* hand out &fault.io */
    const io *inner;
    atomic_size_t fail_at;
    atomic_size_t n_operations;
    size_t live_maps, live_files;
    atomic_bool hit;
} fault_io;

void fault_io_init(fault_io *fault, size_t fail_at);

/* Fails the test when a map or a file is still live. */
void fault_io_check(const fault_io *fault);

typedef weft_status (*fault_scenario)(const env *world, void *user, weft_error *err);

/* NOMEM when a fault was hit and OK in the last run, nothing live after any of them; err agrees
 * with the status. Returns how many faults were injected. */
size_t fault_sweep(fault_scenario scenario, void *user);

/* The same for file operations and IO. */
size_t fault_sweep_io(fault_scenario scenario, void *user);

#endif
