/* fuzz_kv_file.c - any bytes as a file of state: a miss with a reason, or whole boundaries in a
 * cache of hybrid layers. The bytes are also taken for changes to a good file, whose digest is then
 * made right or left, so that what lies behind that check is reached. */
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

/* ---- a good file ----------------------------------------------------------------------------- */

enum { LEN = 70 };

static const uint32_t BOUNDARIES[] = {40, LEN};

/* Sections of zeros, with their checksums. */
static unsigned char *good_file(const kv_config *config, arena *a, size_t *n_bytes)
{
    kv_origin origin = {{0}, {0}, {0}};
    kv_state_file f = {.config = config,
                       .converted = true,
                       .len = LEN,
                       .n_boundaries = COUNT_OF(BOUNDARIES),
                       .boundaries = BOUNDARIES,
                       .keys = arena_array(a, LEN, sizeof(uint64_t))};
    must(state_measure(&f, NULL));
    f.sections = arena_array(a, f.n_sections, sizeof *f.sections);
    unsigned char *bytes = malloc((size_t)f.file_bytes);
    if (f.keys == NULL || f.sections == NULL || bytes == NULL) abort();
    memset(bytes, 0, (size_t)f.file_bytes);
    state_fill(&f);
    for (uint32_t i = 0; i < f.n_sections; i++) {
        kv_section *s = &f.sections[i];
        s->checksum = hash_xx64(bytes + s->offset, (size_t)state_padded(s->bytes), 0);
    }
    must(state_write_header(&f, &origin, 0, bytes, NULL));
    state_write_trailer(&f, bytes + f.file_bytes - STATE_TRAILER);
    *n_bytes = (size_t)f.file_bytes;
    return bytes;
}

/* So that what lies behind the first check is reached. */
static void repair(unsigned char *data, size_t size)
{
    if (size < STATE_AT_ARRAYS) return;
    uint64_t n_header = get_u64(data + STATE_AT_HEADER_BYTES);
    if (n_header < STATE_ALIGN || n_header > size) return;
    hash_sha256(data, (size_t)n_header - STATE_DIGEST, data + n_header - STATE_DIGEST, NULL);
}

static void load(kv_config *config, const uint8_t *data, size_t size, bool is_good)
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
    if (is_good) ASSERT(loaded.miss == KV_MISS_NONE && loaded.n_usable == LEN);
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
    size_t n_bytes;
    unsigned char *good = good_file(&config, &a, &n_bytes);
    if (size == 0) load(&config, good, n_bytes, true);
    /* Three bytes say where, in steps that reach every place of a field; the fourth what. */
    for (size_t i = 1; i + 4 <= size; i += 4) {
        uint32_t at = (uint32_t)data[i] | (uint32_t)data[i + 1] << 8 | (uint32_t)data[i + 2] << 16;
        good[at % n_bytes] = data[i + 3];
    }
    if (size > 0 && (data[0] & 1) != 0) repair(good, n_bytes);
    if (size > 0) load(&config, good, n_bytes, false);
    free(good);
    unsigned char *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL) abort();
    if (size > 0) memcpy(copy, data, size);
    load(&config, copy, size, false);
    free(copy);
    arena_deinit(&a);
    return 0;
}
