/* pairs.h - from 64-bit keys to two numbers: merge rules (two ids) and tries (node and byte). */
#ifndef TOKENIZER_PAIRS_H
#define TOKENIZER_PAIRS_H

#include "base/mem.h"

#define PAIRS_FREE UINT64_MAX

typedef struct pairs_slot {
    uint64_t key; /* PAIRS_FREE: none */
    uint32_t value;
    uint32_t rank;
} pairs_slot;

typedef struct pairs {
    const weft_allocator *allocator; /* borrowed */
    const pairs_slot *slots;         /* [n_slots], a power of two, at most half full */
    pairs_slot *own;                 /* the same, to write to; NULL: they are borrowed */
    size_t n_slots;
    size_t n_keys;
} pairs;

/* Room for n_keys without growing; they were counted by something that is in memory. */
weft_status pairs_init(pairs *p, const weft_allocator *allocator, size_t n_keys, weft_error *err);
void pairs_deinit(pairs *p);

/* In the place of what it has: slots that were filled before, of which n_keys are not free. The
 * caller has checked that there is a free one. A put copies them. */
void pairs_borrow(pairs *p, const pairs_slot *slots, size_t n_slots, size_t n_keys);

/* An existing key gets the new numbers. */
weft_status pairs_put(pairs *p, uint64_t key, uint32_t value, uint32_t rank, weft_error *err);

static inline uint64_t pairs_key(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}

/* Which slot the key has, or the free one where it would stand. */
static inline size_t pairs_place(const pairs *p, uint64_t key)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    size_t mask = p->n_slots - 1;
    size_t i = (size_t)hash & mask;
    while (p->slots[i].key != key && p->slots[i].key != PAIRS_FREE) i = (i + 1) & mask;
    return i;
}

/* NULL when absent. */
static inline const pairs_slot *pairs_get(const pairs *p, uint64_t key)
{
    const pairs_slot *slot = &p->slots[pairs_place(p, key)];
    return slot->key == key ? slot : NULL;
}

#endif
