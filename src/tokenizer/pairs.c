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
    pairs_slot *slots = mem_alloc(p->allocator, bytes);
    if (slots == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a table of %zu slots", n_slots);
    memset(slots, 0xff, bytes);
    p->own = slots;
    p->slots = slots;
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
    mem_free(p->allocator, p->own, p->n_slots * sizeof(pairs_slot));
    p->own = NULL;
    p->slots = NULL;
    p->n_slots = 0;
    p->n_keys = 0;
}

void pairs_borrow(pairs *p, const pairs_slot *slots, size_t n_slots, size_t n_keys)
{
    pairs_deinit(p);
    p->slots = slots;
    p->n_slots = n_slots;
    p->n_keys = n_keys;
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
        const pairs_slot *slot = &old.slots[i];
        if (slot->key != PAIRS_FREE) p->own[pairs_place(p, slot->key)] = *slot;
    }
    mem_free(old.allocator, old.own, old.n_slots * sizeof(pairs_slot));
    return WEFT_OK;
}

weft_status pairs_put(pairs *p, uint64_t key, uint32_t value, uint32_t rank, weft_error *err)
{
    ASSERT(key != PAIRS_FREE);
    size_t at = pairs_place(p, key);
    bool is_new = p->slots[at].key == PAIRS_FREE;
    if (p->own == NULL || (is_new && (p->n_keys + 1) * 2 > p->n_slots)) {
        weft_status status = grow(p, err);
        if (status != WEFT_OK) return status;
        at = pairs_place(p, key);
    }
    if (is_new) p->n_keys++;
    p->own[at] = (pairs_slot){key, value, rank};
    return WEFT_OK;
}
