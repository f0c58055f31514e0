/* fuzz_kv_file.c - any bytes as a file of state: a miss with a reason, or whole boundaries in a
 * cache of hybrid layers. The digest of the header is made right first, so that what lies behind
 * that check is reached. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "backend/host.h"
#include "base/assert.h"
#include "kv/persist.h"
#include "memory_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const kv_layer LAYERS[] = {
    {.layout = KV_LAYOUT_RECURRENT, .buffers = {3, 20}, .record = 1},
    {.layout = KV_LAYOUT_FULL, .n_heads = 2, .k_dim = 8, .v_dim = 4},
    {.layout = KV_LAYOUT_WINDOW, .n_heads = 1, .k_dim = 4, .v_dim = 8, .window = 20},
};

struct backend {
    const weft_allocator *allocator;
};

static void *page_alloc(backend *b, size_t n_bytes)
{
    return mem_alloc(b->allocator, n_bytes);
}

static void page_release(backend *b, void *block, size_t n_bytes)
{
    mem_free(b->allocator, block, n_bytes);
}

static const backend_api PAGES = {
    .name = "pages", .alloc = page_alloc, .release = page_release, .copy = host_copy};

static void must(weft_status status)
{
    ASSERT(status == WEFT_OK);
}

/* The first digest and the checksums of sections are made what they should be, as far as the header
 * says where they belong. */
static void repair(unsigned char *data, size_t size)
{
    if (size < STATE_AT_ARRAYS) return;
    uint64_t n_header = get_u64(data + STATE_AT_HEADER_BYTES);
    if (n_header < STATE_ALIGN || n_header > size) return;
    put_u64(data + STATE_AT_FILE_BYTES, size);
    hash_sha256(data, (size_t)n_header - STATE_DIGEST, data + n_header - STATE_DIGEST, NULL);
}

static void load(kv_config *config, const uint8_t *data, size_t size)
{
    const weft_allocator *allocator = mem_system();
    struct backend b = {allocator};
    kv_pool *pool;
    kv_prefix *prefix;
    must(kv_pool_create(allocator, &PAGES, &b, config, 1 << 22, &pool, NULL));
    must(kv_prefix_create(allocator, pool, 0, &prefix, NULL));
    memory_files files;
    memory_files_init(&files);
    memory_files_add(&files, "state", data, size);
    kv_files store = {.prefix = prefix, .files = &files.io};
    kv_loaded loaded;
    kv_space *space = kv_prefix_space(prefix, config, 0);
    must(kv_load(&store, space, "m/state", &loaded, NULL));
    ASSERT(loaded.n_usable <= loaded.n_tokens);
    ASSERT(kv_pool_bytes_reserved(pool) == 0);
    if (loaded.miss != KV_MISS_NONE) ASSERT(kv_pool_bytes_cached(pool) == 0);
    kv_prefix_destroy(prefix);
    kv_pool_destroy(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arena a;
    kv_config config;
    kv_spec spec;
    kv_bounds bounds = {.context = 4096, .most_append = 64, .page_tokens = 16};
    arena_init(&a, mem_system(), 0);
    must(kv_spec_parse(NULL, "bf16", &spec, NULL));
    must(kv_config_init(&config, &a, LAYERS, COUNT_OF(LAYERS), &spec, &bounds, NULL));
    unsigned char *copy = malloc(size == 0 ? 1 : size);
    if (copy != NULL) {
        if (size > 0) memcpy(copy, data, size);
        load(&config, copy, size);
        repair(copy, size);
        load(&config, copy, size);
    }
    free(copy);
    arena_deinit(&a);
    return 0;
}
