/* page.h - pages under an exact budget.
 *
 * A sequence reserves the most it can ever hold before it starts; reserving allocates what is
 * missing, and from then on taking a page cannot fail and asks nobody. Pages given back stay for
 * the next sequence, and are released when another class needs their bytes.
 *
 * A cache of pages that sequences left behind has room of its own under the same budget, page by
 * page (charge); it gives way to a promise (kv_evictor). */
#ifndef KV_PAGE_H
#define KV_PAGE_H

#include "backend/backend.h"
#include "kv/config.h"

typedef struct kv_pool kv_pool;

/* Sizes of pages in one pool, over all configs that share it. */
enum { KV_CLASSES_MOST = 256 };

/* A page and how many sequences hold it: what more than one holds is not written any more. */
typedef struct kv_page {
    unsigned char *at;
    uint32_t refs;
} kv_page;

/* Who makes room for a promise. */
typedef struct kv_evictor {
    uint64_t (*evictable)(const void *user); /* bytes of pages that evict would let go in all */
    bool (*evict)(void *user);               /* lets something go; false when there is nothing */
    void *user;
} kv_evictor;

/* api, b and config are borrowed. LIMIT where config has more sizes than a pool. */
weft_status kv_pool_create(const weft_allocator *allocator, const backend_api *api, backend *b,
                           const kv_config *config, uint64_t budget, kv_pool **pool,
                           weft_error *err);

/* Traps unless every page was given back. */
void kv_pool_destroy(kv_pool *pool);

/* Another config whose sequences have pages of this pool: its classes become those of the pool,
 * which may thereby get more. LIMIT where there are too many sizes, NOMEM. */
weft_status kv_pool_join(kv_pool *pool, kv_config *config, weft_error *err);

/* need: [KV_CLASSES_MOST], or as many as the pool has. LIMIT with both numbers when the budget
 * cannot hold it beside what is reserved and what cannot be evicted, NOMEM; nothing is then
 * reserved. */
weft_status kv_pool_reserve(kv_pool *pool, const uint32_t *need, weft_error *err);
void kv_pool_unreserve(kv_pool *pool, const uint32_t *need);

/* Within what was reserved: never NULL. One holder; content is whatever it was. */
kv_page *kv_pool_take(kv_pool *pool, uint32_t class_i);

/* One holder fewer; the page returns with the last. */
void kv_pool_give(kv_pool *pool, uint32_t class_i, kv_page *page);

/* Room for one more page that a cache holds, whoever holds it beside; false when the budget or the
 * memory has none. */
bool kv_pool_charge(kv_pool *pool, uint32_t class_i);
void kv_pool_discharge(kv_pool *pool, uint32_t class_i);

/* A reserved page becomes a charged one: as an unreserve and a charge, but it cannot fail. */
void kv_pool_transfer(kv_pool *pool, uint32_t class_i);

/* Copied; a zeroed one ends it. */
void kv_pool_set_evictor(kv_pool *pool, kv_evictor evictor);

/* to = from, both of that class. */
void kv_pool_copy(kv_pool *pool, uint32_t class_i, kv_page *to, const kv_page *from);

/* plan: whose steps fill recurrent states, borrowed; needed before a part of a row is kept. */
void kv_pool_set_plan(kv_pool *pool, backend_plan *plan);

/* As backend_api.replay, by that plan. */
void kv_pool_replay(kv_pool *pool, uint32_t state_i, const kv_view *view, uint32_t n);

/* As backend_api.convert. */
void kv_pool_convert(kv_pool *pool, const backend_conversion *conversion);

uint64_t kv_pool_bytes_taken(const kv_pool *pool);
uint64_t kv_pool_bytes_reserved(const kv_pool *pool);
uint64_t kv_pool_bytes_cached(const kv_pool *pool);

/* That are promised to nobody, or that the cache would give up. */
uint64_t kv_pool_bytes_left(const kv_pool *pool);
size_t kv_pool_page_bytes(const kv_pool *pool, uint32_t class_i);
uint64_t kv_pool_budget(const kv_pool *pool);

#endif
