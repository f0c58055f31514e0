/* page.c - the page pool.
 *
 * Invariants, per class, between calls: taken <= reserved + cached <= held; over all: held
 * bytes <= budget. A page that a sequence and the cache hold is counted in both promises and taken
 * once. */
#include "kv/page.h"

#include "base/assert.h"

typedef struct page_class {
    size_t bytes;
    kv_page **free; /* [capacity >= held], the first n_free */
    uint32_t capacity, n_free;
    uint32_t reserved, cached, held, taken;
} page_class;

enum { PAGES_MOST = 1 << 30 };

struct kv_pool {
    const weft_allocator *allocator;
    const backend_api *api;
    backend *b;
    backend_plan *plan;
    kv_evictor evictor;
    uint64_t budget, bytes_held, bytes_reserved, bytes_cached, bytes_taken;
    uint32_t n_classes;
    page_class *classes;
};

static weft_status too_many_sizes(weft_error *err)
{
    return err_set(err, WEFT_LIMIT, "pages of more than %d sizes", KV_CLASSES_MOST);
}

/* The class of a size, a new one if need be. */
static weft_status class_for(kv_pool *p, size_t bytes, uint32_t *class_i, weft_error *err)
{
    for (*class_i = 0; *class_i < p->n_classes; ++*class_i) {
        if (p->classes[*class_i].bytes == bytes) return WEFT_OK;
    }
    if (p->n_classes == KV_CLASSES_MOST) return too_many_sizes(err);
    page_class *more = mem_resize(p->allocator, p->classes, p->n_classes * sizeof *p->classes,
                                  ((size_t)p->n_classes + 1) * sizeof *p->classes);
    if (more == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the page pool");
    p->classes = more;
    p->classes[p->n_classes++] = (page_class){.bytes = bytes};
    return WEFT_OK;
}

weft_status kv_pool_create(const weft_allocator *allocator, const backend_api *api, backend *b,
                           const kv_config *config, uint64_t budget, kv_pool **pool,
                           weft_error *err)
{
    *pool = NULL;
    kv_pool *p = mem_alloc_zero(allocator, sizeof *p);
    if (p == NULL) return err_set(err, WEFT_NOMEM, "out of memory for the page pool");
    p->allocator = allocator;
    p->api = api;
    p->b = b;
    p->budget = budget;
    weft_status status = WEFT_OK;
    /* Sizes of a config differ, so that its classes are those of the pool. */
    for (uint32_t i = 0; i < config->n_classes && status == WEFT_OK; i++) {
        uint32_t class_i;
        status = class_for(p, config->class_bytes[i], &class_i, err);
    }
    if (status != WEFT_OK) {
        kv_pool_destroy(p);
        return status;
    }
    *pool = p;
    return WEFT_OK;
}

weft_status kv_pool_join(kv_pool *pool, kv_config *config, weft_error *err)
{
    uint32_t map[KV_CLASSES_MOST];
    weft_status status = WEFT_OK;
    if (config->n_classes > KV_CLASSES_MOST) return too_many_sizes(err);
    for (uint32_t i = 0; i < config->n_classes && status == WEFT_OK; i++) {
        status = class_for(pool, config->class_bytes[i], &map[i], err);
    }
    if (status != WEFT_OK) return status;
    kv_config_renumber(config, map, pool->n_classes);
    return WEFT_OK;
}

static void release_free(kv_pool *p, page_class *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        kv_page *page = c->free[--c->n_free];
        p->api->release(p->b, page->at, c->bytes);
        mem_free(p->allocator, page, sizeof *page);
        c->held--;
        p->bytes_held -= c->bytes;
    }
}

void kv_pool_destroy(kv_pool *pool)
{
    if (pool == NULL) return;
    for (uint32_t i = 0; i < pool->n_classes && pool->classes != NULL; i++) {
        page_class *c = &pool->classes[i];
        ASSERT(c->taken == 0);
        release_free(pool, c, c->n_free);
        mem_free(pool->allocator, c->free, c->capacity * sizeof(void *));
    }
    mem_free(pool->allocator, pool->classes, pool->n_classes * sizeof *pool->classes);
    mem_free(pool->allocator, pool, sizeof *pool);
}

/* Pages that nobody was promised go, until n_bytes fit beside the rest. */
static void make_room(kv_pool *p, uint64_t n_bytes)
{
    for (uint32_t i = 0; i < p->n_classes && p->budget - p->bytes_held < n_bytes; i++) {
        page_class *c = &p->classes[i];
        uint32_t promised = c->reserved + c->cached;
        uint32_t spare = c->held > promised ? c->held - promised : 0;
        if (spare > c->n_free) spare = c->n_free;
        while (spare > 0 && p->budget - p->bytes_held < n_bytes) {
            release_free(p, c, 1);
            spare--;
        }
    }
    ASSERT(p->budget - p->bytes_held >= n_bytes);
}

/* Room on the free list for every page that will be held. */
static bool grow_list(kv_pool *p, page_class *c, uint32_t n)
{
    if (n <= c->capacity) return true;
    uint32_t capacity = c->capacity < PAGES_MOST / 2 ? 2 * c->capacity : PAGES_MOST;
    if (capacity < n) capacity = n;
    kv_page **list =
        mem_resize(p->allocator, c->free, c->capacity * sizeof(void *), capacity * sizeof(void *));
    if (list == NULL) return false;
    c->free = list;
    c->capacity = capacity;
    return true;
}

static bool hold(kv_pool *p, page_class *c)
{
    if (!grow_list(p, c, c->reserved + c->cached)) return false;
    while (c->held < c->reserved + c->cached) {
        make_room(p, c->bytes);
        kv_page *page = mem_alloc_zero(p->allocator, sizeof *page);
        if (page == NULL) return false;
        page->at = p->api->alloc(p->b, c->bytes);
        if (page->at == NULL) {
            mem_free(p->allocator, page, sizeof *page);
            return false;
        }
        c->free[c->n_free++] = page;
        c->held++;
        p->bytes_held += c->bytes;
    }
    return true;
}

static uint64_t room(const kv_pool *p)
{
    return p->budget - p->bytes_reserved - p->bytes_cached;
}

/* False unless that many bytes are free of promises, or become so. */
static bool find_room(kv_pool *p, uint64_t n_bytes)
{
    if (room(p) >= n_bytes) return true;
    if (p->evictor.evict == NULL) return false;
    if (n_bytes - room(p) > p->evictor.evictable(p->evictor.user)) return false;
    while (room(p) < n_bytes) {
        if (!p->evictor.evict(p->evictor.user)) return false;
    }
    return true;
}

uint64_t kv_pool_bytes_left(const kv_pool *pool)
{
    const kv_evictor *e = &pool->evictor;
    return room(pool) + (e->evict == NULL ? 0 : e->evictable(e->user));
}

weft_status kv_pool_reserve(kv_pool *pool, const uint32_t *need, weft_error *err)
{
    uint64_t bytes = 0;
    uint64_t pages = 0;
    bool countable = true;
    for (uint32_t i = 0; i < pool->n_classes; i++) {
        const page_class *c = &pool->classes[i];
        uint64_t more = (uint64_t)need[i] * c->bytes;
        bytes = more > UINT64_MAX - bytes ? UINT64_MAX : bytes + more;
        pages += need[i];
        countable = countable && need[i] <= PAGES_MOST - c->reserved - c->cached;
    }
    if (!countable || !find_room(pool, bytes)) {
        return err_set(err, WEFT_LIMIT,
                       "the request needs %llu pages of %llu bytes in all, %llu bytes are left",
                       (unsigned long long)pages, (unsigned long long)bytes,
                       (unsigned long long)kv_pool_bytes_left(pool));
    }
    bool ok = true;
    for (uint32_t i = 0; i < pool->n_classes; i++) pool->classes[i].reserved += need[i];
    pool->bytes_reserved += bytes;
    for (uint32_t i = 0; i < pool->n_classes && ok; i++) ok = hold(pool, &pool->classes[i]);
    if (ok) return WEFT_OK;
    kv_pool_unreserve(pool, need);
    return err_set(err, WEFT_NOMEM, "out of memory for %llu bytes of pages",
                   (unsigned long long)bytes);
}

void kv_pool_unreserve(kv_pool *pool, const uint32_t *need)
{
    for (uint32_t i = 0; i < pool->n_classes; i++) {
        page_class *c = &pool->classes[i];
        ASSERT(c->reserved >= need[i] && c->reserved - need[i] + c->cached >= c->taken);
        c->reserved -= need[i];
        pool->bytes_reserved -= (uint64_t)need[i] * c->bytes;
    }
}

bool kv_pool_charge(kv_pool *pool, uint32_t class_i)
{
    page_class *c = &pool->classes[class_i];
    if (room(pool) < c->bytes || c->reserved + c->cached == PAGES_MOST) return false;
    c->cached++;
    pool->bytes_cached += c->bytes;
    if (hold(pool, c)) return true;
    kv_pool_discharge(pool, class_i);
    return false;
}

void kv_pool_discharge(kv_pool *pool, uint32_t class_i)
{
    page_class *c = &pool->classes[class_i];
    ASSERT(c->cached > 0);
    c->cached--;
    pool->bytes_cached -= c->bytes;
}

void kv_pool_transfer(kv_pool *pool, uint32_t class_i)
{
    page_class *c = &pool->classes[class_i];
    ASSERT(c->reserved > 0);
    c->reserved--;
    c->cached++;
    pool->bytes_reserved -= c->bytes;
    pool->bytes_cached += c->bytes;
}

void kv_pool_set_evictor(kv_pool *pool, kv_evictor evictor)
{
    pool->evictor = evictor;
}

kv_page *kv_pool_take(kv_pool *pool, uint32_t class_i)
{
    page_class *c = &pool->classes[class_i];
    ASSERT(c->n_free > 0 && c->taken < c->reserved + c->cached);
    c->taken++;
    pool->bytes_taken += c->bytes;
    kv_page *page = c->free[--c->n_free];
    ASSERT(page->refs == 0);
    page->refs = 1;
    return page;
}

void kv_pool_give(kv_pool *pool, uint32_t class_i, kv_page *page)
{
    page_class *c = &pool->classes[class_i];
    ASSERT(page->refs > 0);
    if (--page->refs > 0) return;
    ASSERT(c->taken > 0 && c->n_free < c->capacity);
    c->taken--;
    pool->bytes_taken -= c->bytes;
    c->free[c->n_free++] = page;
}

void kv_pool_copy(kv_pool *pool, uint32_t class_i, kv_page *to, const kv_page *from)
{
    pool->api->copy(pool->b, to->at, from->at, pool->classes[class_i].bytes);
}

void kv_pool_set_plan(kv_pool *pool, backend_plan *plan)
{
    pool->plan = plan;
}

void kv_pool_replay(kv_pool *pool, uint32_t state_i, const kv_view *view, uint32_t n)
{
    pool->api->replay(pool->b, pool->plan, state_i, view, n);
}

void kv_pool_convert(kv_pool *pool, const backend_conversion *conversion)
{
    pool->api->convert(pool->b, conversion);
}

uint64_t kv_pool_bytes_taken(const kv_pool *pool)
{
    return pool->bytes_taken;
}

uint64_t kv_pool_bytes_reserved(const kv_pool *pool)
{
    return pool->bytes_reserved;
}

uint64_t kv_pool_bytes_cached(const kv_pool *pool)
{
    return pool->bytes_cached;
}

size_t kv_pool_page_bytes(const kv_pool *pool, uint32_t class_i)
{
    return pool->classes[class_i].bytes;
}

uint64_t kv_pool_budget(const kv_pool *pool)
{
    return pool->budget;
}
