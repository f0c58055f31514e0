/* map.h - from byte strings to uint32_t: open addressing, xxHash, keys borrowed. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/mem.h"
#include "base/str.h"

#define MAP_NONE UINT32_MAX

typedef struct map_slot {
    const char *key; /* NULL: free */
    uint32_t key_len;
    uint32_t value;
} map_slot;

typedef struct map {
    const weft_allocator *allocator; /* borrowed */
    map_slot *slots;                 /* [n_slots], a power of two, at most half full */
    size_t n_slots;
    size_t n_keys;
    uint64_t seed; /* another one in each table: keys made to collide in one do not in the next */
} map;

/* Room for n_keys keys without growing. NOMEM, or LIMIT when that many cannot be counted. */
weft_status map_init(map *m, const weft_allocator *allocator, size_t n_keys, weft_error *err);
void map_deinit(map *m);

/* key is borrowed until the map is gone; value is not MAP_NONE. An existing key gets the new value
 * and *previous its old one (else MAP_NONE); previous may be NULL. Keys are shorter than 4 GiB. */
weft_status map_put(map *m, str key, uint32_t value, uint32_t *previous, weft_error *err);

/* MAP_NONE when absent. */
uint32_t map_get(const map *m, str key);

#endif
