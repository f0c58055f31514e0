/* map.c - the hash map of map.h. */
#include "base/map.h"

#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/hash.h"

static weft_status allocate(map *m, size_t n_slots, weft_error *err)
{
    size_t bytes;
    if (!size_mul(n_slots, sizeof(map_slot), &bytes)) {
        return err_set(err, WEFT_LIMIT, "a table of %zu slots cannot be counted", n_slots);
    }
    m->slots = mem_alloc_zero(m->allocator, bytes);
    if (m->slots == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a table of %zu slots", n_slots);
    m->n_slots = n_slots;
    return WEFT_OK;
}

weft_status map_init(map *m, const weft_allocator *allocator, size_t n_keys, weft_error *err)
{
    *m = (map){.allocator = allocator};
    if (n_keys > SIZE_MAX / 64)
        return err_set(err, WEFT_LIMIT, "a table of %zu keys cannot be counted", n_keys);
    /* Nothing is enumerated in the order of the slots, so the seed shows nowhere. */
    m->seed = clock_now_ns() ^ ((uint64_t)(uintptr_t)m << 16);
    size_t n_slots = 16;
    while (n_slots < n_keys * 2) n_slots *= 2;
    return allocate(m, n_slots, err);
}

void map_deinit(map *m)
{
    mem_free(m->allocator, m->slots, m->n_slots * sizeof(map_slot));
    m->slots = NULL;
    m->n_slots = 0;
    m->n_keys = 0;
}

static map_slot *find(const map *m, str key)
{
    ASSERT_HOT(m->n_slots != 0);
    size_t mask = m->n_slots - 1;
    size_t i = (size_t)hash_xx64(key.ptr, key.len, m->seed) & mask;
    for (;; i = (i + 1) & mask) {
        map_slot *slot = &m->slots[i];
        if (slot->key == NULL) return slot;
        if (str_equal((str){slot->key, slot->key_len}, key)) return slot;
    }
}

static weft_status grow(map *m, weft_error *err)
{
    map_slot *old = m->slots;
    size_t n_old = m->n_slots;
    weft_status status = allocate(m, n_old * 2, err);
    if (status != WEFT_OK) {
        m->slots = old;
        m->n_slots = n_old;
        return status;
    }
    for (size_t i = 0; i < n_old; i++) {
        if (old[i].key != NULL) *find(m, (str){old[i].key, old[i].key_len}) = old[i];
    }
    mem_free(m->allocator, old, n_old * sizeof(map_slot));
    return WEFT_OK;
}

weft_status map_put(map *m, str key, uint32_t value, uint32_t *previous, weft_error *err)
{
    ASSERT(value != MAP_NONE && key.len < UINT32_MAX);
    map_slot *slot = find(m, key);
    if (previous != NULL) *previous = slot->key == NULL ? MAP_NONE : slot->value;
    if (slot->key != NULL) {
        slot->value = value;
        return WEFT_OK;
    }
    if ((m->n_keys + 1) * 2 > m->n_slots) {
        weft_status status = grow(m, err);
        if (status != WEFT_OK) return status;
        slot = find(m, key);
    }
    *slot = (map_slot){key.ptr == NULL ? "" : key.ptr, (uint32_t)key.len, value};
    m->n_keys++;
    return WEFT_OK;
}

uint32_t map_get(const map *m, str key)
{
    if (m->n_slots == 0) return MAP_NONE;
    const map_slot *slot = find(m, key);
    return slot->key == NULL ? MAP_NONE : slot->value;
}
