/* pairs.c - open addressing behind pairs.h. */
#include "tokenizer/pairs.h"

#include <string.h>

#include "base/assert.h"
#include "base/err.h"

static weft_status allocate(pairs *p, size_t n_slots, weft_error *err)
{
    size_t bytes;
    if (!size_mul(n_slots, sizeof(pairs_slot), &bytes))
        return err_set(err, WEFT_LIMIT, "a table of %zu slots cannot be counted", n_slots);
    p->slots = mem_alloc(p->allocator, bytes);
    if (p->slots == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a table of %zu slots", n_slots);
    memset(p->slots, 0xff, bytes);
    p->n_slots = n_slots;
    return WEFT_OK;
}

weft_status pairs_init(pairs *p, const weft_allocator *allocator, size_t n_keys, weft_error *err)
{
    *p = (pairs){.allocator = allocator};
    ASSERT(n_keys < SIZE_MAX / 64);
    size_t n_slots = 16;
    while (n_slots < n_keys * 2) n_slots *= 2;
    return allocate(p, n_slots, err);
}

void pairs_deinit(pairs *p)
{
    mem_free(p->allocator, p->slots, p->n_slots * sizeof(pairs_slot));
    p->slots = NULL;
    p->n_slots = 0;
    p->n_keys = 0;
}

static weft_status grow(pairs *p, weft_error *err)
{
    pairs old = *p;
    weft_status status = allocate(p, old.n_slots * 2, err);
    if (status != WEFT_OK) {
        *p = old;
        return status;
    }
    for (size_t i = 0; i < old.n_slots; i++) {
        if (old.slots[i].key != PAIRS_FREE) *pairs_slot_of(p, old.slots[i].key) = old.slots[i];
    }
    mem_free(old.allocator, old.slots, old.n_slots * sizeof(pairs_slot));
    return WEFT_OK;
}

weft_status pairs_put(pairs *p, uint64_t key, uint32_t value, uint32_t rank, weft_error *err)
{
    ASSERT(key != PAIRS_FREE);
    pairs_slot *slot = pairs_slot_of(p, key);
    if (slot->key == PAIRS_FREE) {
        if ((p->n_keys + 1) * 2 > p->n_slots) {
            weft_status status = grow(p, err);
            if (status != WEFT_OK) return status;
            slot = pairs_slot_of(p, key);
        }
        p->n_keys++;
    }
    *slot = (pairs_slot){key, value, rank};
    return WEFT_OK;
}
