/* persist_load.c - a file into the prefix cache.
 *
 * All that a file may say is how many tokens and boundaries there are, which, and the checksums:
 * the rest of its header follows from them, so it is made anew and compared as a whole. Nothing is
 * taken on the word of a length before it agrees with the file's own size. */
#include <string.h>

#include "base/hash.h"
#include "kv/persist.h"
#include "kv/prefix_match.h"
#include "kv/stage.h"

typedef struct loading {
    kv_files *store;
    kv_space *space;
    io_file in;
    uint64_t size;
    arena arena;
    unsigned char *header; /* as it was read */
    kv_state_file file;
    kv_history history; /* the file's tokens, as the cache wants them */
    kv_miss miss;
} loading;

const char *kv_miss_text(kv_miss miss)
{
    static const char *const TEXTS[] = {
#define KV_MISS_TEXT(name, text) text,
        KV_MISS_MAP(KV_MISS_TEXT)
#undef KV_MISS_TEXT
    };
    return (unsigned)miss < KV_MISSES ? TEXTS[miss] : "unknown";
}

bool kv_miss_is_damage(kv_miss miss)
{
    return miss == KV_MISS_TRUNCATED || miss == KV_MISS_HEADER || miss == KV_MISS_SECTION;
}

static weft_status no_memory(weft_error *err)
{
    return err_set(err, WEFT_NOMEM, "out of memory for a file of state");
}

/* ---- the header ------------------------------------------------------------------------------ */

static bool read_at(loading *l, uint64_t offset, void *buffer, size_t n_bytes)
{
    const io *files = l->store->files;
    if (files->read_at(files, &l->in, offset, buffer, n_bytes, NULL) == WEFT_OK) return true;
    l->miss = KV_MISS_READ;
    return false;
}

/* What can be said of a file by its first bytes, and how long its header is. */
static kv_miss check_start(const unsigned char *start, uint64_t size, uint64_t *header_bytes)
{
    static const unsigned char MAGIC[STATE_MAGIC_BYTES] = STATE_MAGIC;
    if (memcmp(start, MAGIC, sizeof MAGIC) != 0) return KV_MISS_MAGIC;
    if (get_u32(start + STATE_AT_VERSION) != STATE_VERSION) return KV_MISS_VERSION;
    *header_bytes = get_u64(start + STATE_AT_HEADER_BYTES);
    bool sane = *header_bytes >= STATE_ALIGN && *header_bytes % STATE_ALIGN == 0;
    if (!sane || *header_bytes > STATE_HEADER_MOST) return KV_MISS_HEADER;
    return *header_bytes > size ? KV_MISS_TRUNCATED : KV_MISS_NONE;
}

/* The whole of it, with the digest it says. */
static weft_status read_header(loading *l, weft_error *err)
{
    unsigned char start[STATE_AT_FILE_BYTES] = {0};
    uint64_t n_start = l->size < sizeof start ? l->size : sizeof start;
    uint64_t n_bytes = 0;
    if (!read_at(l, 0, start, (size_t)n_start)) return WEFT_OK;
    l->miss = check_start(start, l->size, &n_bytes);
    if (l->size < sizeof start && l->miss != KV_MISS_MAGIC) l->miss = KV_MISS_TRUNCATED;
    if (l->miss != KV_MISS_NONE) return WEFT_OK;
    l->header = arena_array(&l->arena, (size_t)n_bytes, 1);
    if (l->header == NULL) return no_memory(err);
    if (!read_at(l, 0, l->header, (size_t)n_bytes)) return WEFT_OK;
    unsigned char digest[STATE_DIGEST];
    size_t n_hashed = (size_t)n_bytes - STATE_DIGEST;
    weft_status status = hash_sha256(l->header, n_hashed, digest, err);
    if (status != WEFT_OK) return status;
    if (memcmp(digest, l->header + n_hashed, sizeof digest) != 0) {
        l->miss = KV_MISS_HEADER;
    } else if (get_u64(l->header + STATE_AT_FILE_BYTES) != l->size) {
        l->miss = KV_MISS_TRUNCATED;
    }
    l->file.header_bytes = n_bytes;
    return WEFT_OK;
}

/* Whose it is. */
static weft_status check_origin(loading *l, weft_error *err)
{
    const kv_origin *origin = &l->store->origin;
    const unsigned char *h = l->header;
    unsigned char identity[STATE_DIGEST];
    weft_status status = kv_identity(l->space->config, identity, err);
    if (status != WEFT_OK) return status;
    if (memcmp(h + STATE_AT_MODEL, origin->model, STATE_DIGEST) != 0) {
        l->miss = KV_MISS_MODEL;
    } else if (memcmp(h + STATE_AT_TOKENIZER, origin->tokenizer, STATE_DIGEST) != 0) {
        l->miss = KV_MISS_TOKENIZER;
    } else if (memcmp(h + STATE_AT_IDENTITY, identity, STATE_DIGEST) != 0) {
        l->miss = KV_MISS_IDENTITY;
    } else if (memcmp(h + STATE_AT_NUMERICS, origin->numerics, STATE_DIGEST) != 0) {
        l->miss = KV_MISS_NUMERICS;
    } else if (get_u64(h + STATE_AT_SALT) != l->space->salt) {
        l->miss = KV_MISS_SALT;
    }
    return WEFT_OK;
}

static const unsigned char *boundaries_at(const loading *l)
{
    return l->header + STATE_AT_ARRAYS + (size_t)l->file.config->n_layers * KV_IDENTITY_BYTES;
}

static size_t boundaries_bytes(const kv_state_file *f)
{
    return ((size_t)f->n_boundaries + 1) / 2 * 8;
}

/* Boundaries and keys: ascending, and of the kind that a history has. */
static bool take_arrays(loading *l, uint32_t *boundaries, uint64_t *keys, int32_t *ids)
{
    kv_state_file *f = &l->file;
    const unsigned char *at = boundaries_at(l);
    for (uint32_t i = 0; i < f->n_boundaries; i++) {
        boundaries[i] = get_u32(at + 4 * (size_t)i);
        if (boundaries[i] == 0 || (i > 0 && boundaries[i] <= boundaries[i - 1])) return false;
    }
    if (boundaries[f->n_boundaries - 1] != f->len) return false;
    at += boundaries_bytes(f);
    for (uint32_t i = 0; i < f->len; i++, at += 8) {
        keys[i] = get_u64(at);
        ids[i] = (int32_t)(uint32_t)keys[i];
    }
    f->boundaries = boundaries;
    f->keys = keys;
    return true;
}

/* What is not an id stands for something else by content (kv_history): its key alone counts. */
static bool take_history(loading *l, const int32_t *ids, uint64_t *media)
{
    for (uint32_t i = 0; i < l->file.len; i++) {
        bool is_id = l->file.keys[i] <= UINT32_MAX;
        media[i] = is_id ? 0 : l->file.keys[i];
        if (!is_id && media[i] >> 63 == 0) return false;
    }
    l->history = (kv_history){ids, media, l->file.len};
    return true;
}

/* The counts, if they make a header of this length. */
static bool take_counts(loading *l)
{
    const unsigned char *h = l->header;
    kv_state_file *f = &l->file;
    f->config = l->space->config;
    f->converted = get_u32(h + STATE_AT_CONVERTED) != 0;
    f->len = get_u32(h + STATE_AT_LEN);
    f->n_boundaries = get_u32(h + STATE_AT_N_BOUNDARIES);
    f->n_sections = get_u32(h + STATE_AT_N_SECTIONS);
    if (get_u32(h + STATE_AT_N_LAYERS) != f->config->n_layers || f->len == 0) return false;
    if (f->n_boundaries == 0 || f->n_boundaries > STATE_BOUNDARIES_MOST) return false;
    return state_header_bytes(f->config->n_layers, f->n_boundaries, f->len, f->n_sections) ==
           f->header_bytes;
}

/* The sections that follow, with the checksums that the file has for them. */
static weft_status take_sections(loading *l, weft_error *err)
{
    kv_state_file *f = &l->file;
    const unsigned char *at = boundaries_at(l) + boundaries_bytes(f) + (size_t)f->len * 8;
    f->sections = arena_array(&l->arena, f->n_sections, sizeof *f->sections);
    if (f->sections == NULL) return no_memory(err);
    state_fill(f);
    for (uint32_t i = 0; i < f->n_sections; i++, at += STATE_SECTION_BYTES)
        f->sections[i].checksum = get_u64(at + 40);
    return WEFT_OK;
}

/* The file as it must be is made anew from what it says, and compared. */
static weft_status parse(loading *l, weft_error *err)
{
    kv_state_file *f = &l->file;
    l->miss = KV_MISS_GEOMETRY;
    if (!take_counts(l)) return WEFT_OK;
    uint32_t *boundaries = arena_array(&l->arena, f->n_boundaries, sizeof *boundaries);
    uint64_t *keys = arena_array(&l->arena, f->len, sizeof *keys);
    int32_t *ids = arena_array(&l->arena, f->len, sizeof *ids);
    uint64_t *media = arena_array(&l->arena, f->len, sizeof *media);
    if (boundaries == NULL || keys == NULL || ids == NULL || media == NULL) return no_memory(err);
    if (!take_arrays(l, boundaries, keys, ids) || !take_history(l, ids, media)) return WEFT_OK;
    uint32_t n_sections = f->n_sections;
    if (state_measure(f, NULL) != WEFT_OK) return WEFT_OK;
    if (f->n_sections != n_sections || f->file_bytes != l->size) return WEFT_OK;
    weft_status status = take_sections(l, err);
    if (status != WEFT_OK) return status;
    unsigned char *expected = arena_array(&l->arena, (size_t)f->header_bytes, 1);
    if (expected == NULL) return no_memory(err);
    status = state_write_header(f, &l->store->origin, l->space->salt, expected, err);
    if (status != WEFT_OK) return status;
    if (memcmp(expected, l->header, (size_t)f->header_bytes) == 0) l->miss = KV_MISS_NONE;
    return WEFT_OK;
}

/* ---- the sections ---------------------------------------------------------------------------- */

static void check_trailer(loading *l)
{
    unsigned char expected[STATE_TRAILER];
    unsigned char trailer[STATE_TRAILER];
    state_write_trailer(&l->file, expected);
    if (!read_at(l, l->size - sizeof trailer, trailer, sizeof trailer)) return;
    if (memcmp(expected, trailer, sizeof trailer) != 0) l->miss = KV_MISS_TRUNCATED;
}

/* Each into its pages, once it is known to be whole. */
static void read_sections(loading *l, stage *pages, unsigned char *buffer)
{
    for (uint32_t i = 0; i < l->file.n_sections; i++) {
        const kv_section *section = &l->file.sections[i];
        size_t n_bytes = (size_t)state_padded(section->bytes);
        if (!read_at(l, section->offset, buffer, n_bytes)) return;
        if (hash_xx64(buffer, n_bytes, 0) != section->checksum) {
            l->miss = KV_MISS_SECTION;
            return;
        }
        stage_put(pages, section, buffer);
    }
}

/* Positions that a sequence of the file's tokens and one more can begin with. */
static uint32_t usable(const loading *l)
{
    kv_found found;
    kv_history h = l->history;
    h.n++; /* the one more is not looked at */
    kv_prefix_find(l->space, &h, &found);
    return found.n_usable;
}

static weft_status fill_and_publish(loading *l, weft_error *err)
{
    kv_prefix *prefix = l->store->prefix;
    unsigned char *buffer = arena_array(&l->arena, (size_t)state_longest(&l->file), 1);
    bool *chosen = arena_array(&l->arena, l->file.n_boundaries, sizeof *chosen);
    if (buffer == NULL || chosen == NULL) return no_memory(err);
    stage pages;
    weft_error refused = {WEFT_OK, ""};
    weft_status status = stage_open(&pages, prefix, &l->arena, &l->file, &refused);
    if (status == WEFT_LIMIT) {
        l->miss = KV_MISS_ROOM;
        return WEFT_OK;
    }
    if (status != WEFT_OK) return err_set(err, status, "%s", refused.message);
    read_sections(l, &pages, buffer);
    if (l->miss == KV_MISS_NONE) stage_publish(&pages, l->space, &l->history, chosen);
    stage_close(&pages);
    return WEFT_OK;
}

static weft_status load(loading *l, kv_loaded *loaded, weft_error *err)
{
    weft_status status = read_header(l, err);
    if (status == WEFT_OK && l->miss == KV_MISS_NONE) status = check_origin(l, err);
    if (status == WEFT_OK && l->miss == KV_MISS_NONE) status = parse(l, err);
    if (status == WEFT_OK && l->miss == KV_MISS_NONE) check_trailer(l);
    if (status != WEFT_OK || l->miss != KV_MISS_NONE) return status;
    loaded->n_tokens = l->file.len;
    /* What is known already is not read again. */
    loaded->n_usable = usable(l);
    if (loaded->n_usable == l->file.len) return WEFT_OK;
    status = fill_and_publish(l, err);
    if (status != WEFT_OK) return status;
    loaded->n_usable = usable(l);
    if (loaded->n_usable == 0 && l->miss == KV_MISS_NONE) l->miss = KV_MISS_ROOM;
    return WEFT_OK;
}

weft_status kv_load(kv_files *store, kv_space *space, const char *path, kv_loaded *loaded,
                    weft_error *err)
{
    const io *files = store->files;
    loading l = {.store = store, .space = space};
    weft_status status = WEFT_OK;
    *loaded = (kv_loaded){KV_MISS_NONE, 0, 0};
    if (!files->exists(files, path)) {
        l.miss = KV_MISS_ABSENT;
    } else if (files->open(files, path, &l.in, &l.size, NULL) != WEFT_OK) {
        l.miss = KV_MISS_READ;
    } else {
        arena_init(&l.arena, store->prefix->allocator, 0);
        status = load(&l, loaded, err);
        arena_deinit(&l.arena);
        /* All was read: that it cannot be closed changes nothing. */
        files->close(files, &l.in, NULL);
    }
    if (status != WEFT_OK) {
        *loaded = (kv_loaded){KV_MISS_NONE, 0, 0};
        return status;
    }
    loaded->miss = l.miss;
    store->n_misses[l.miss] += l.miss != KV_MISS_NONE;
    store->n_loaded += l.miss == KV_MISS_NONE;
    return WEFT_OK;
}
