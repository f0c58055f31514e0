/* disk.c - the index of a folder of parts: which there are, how large, and when they were used. */
#include "kv/disk.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

enum { ENTRIES_LEAST = 256 };

/* How long others' files may go unseen; and after which one that was never finished is nobody's. */
static const uint64_t SCAN_NS = 5000000000;
static const uint64_t ORPHAN_NS = 3600000000000;

/* ---- the index ------------------------------------------------------------------------------- */

static uint32_t *bucket_of(const kv_disk *d, uint64_t before, uint32_t page_i)
{
    uint64_t place[2] = {before, page_i};
    return &d->buckets[hash_xx64(place, sizeof place, 0) & (d->capacity - 1)];
}

static bool follows(const disk_entry *e, uint64_t before, uint32_t page_i)
{
    return e->name.before == before && e->name.page_i == page_i;
}

static disk_entry *from(const kv_disk *d, uint32_t at, uint64_t before, uint32_t page_i)
{
    while (at != 0 && !follows(&d->entries[at - 1], before, page_i)) at = d->entries[at - 1].next;
    return at != 0 ? &d->entries[at - 1] : NULL;
}

disk_entry *disk_first(const kv_disk *d, uint64_t before, uint32_t page_i)
{
    return d->capacity > 0 ? from(d, *bucket_of(d, before, page_i), before, page_i) : NULL;
}

disk_entry *disk_next(const kv_disk *d, const disk_entry *e)
{
    return from(d, e->next, e->name.before, e->name.page_i);
}

static bool same_name(const part_name *a, const part_name *b)
{
    return a->kind == b->kind && a->n == b->n && a->page_i == b->page_i && a->model == b->model &&
           a->before == b->before && a->digest.low == b->digest.low &&
           a->digest.high == b->digest.high;
}

disk_entry *disk_find(const kv_disk *d, const part_name *name)
{
    disk_entry *e = disk_first(d, name->before, name->page_i);
    while (e != NULL && !same_name(&e->name, name)) e = disk_next(d, e);
    return e;
}

static void link_entry(kv_disk *d, uint32_t i)
{
    uint32_t *bucket = bucket_of(d, d->entries[i].name.before, d->entries[i].name.page_i);
    d->entries[i].next = *bucket;
    *bucket = i + 1;
}

static bool grow(kv_disk *d)
{
    const weft_allocator *a = d->env->allocator;
    uint32_t n = d->capacity == 0 ? ENTRIES_LEAST : 2 * d->capacity;
    if (n > DISK_FILES_MOST) return false;
    disk_entry *entries = mem_alloc_zero(a, n * sizeof *entries);
    uint32_t *buckets = mem_alloc_zero(a, n * sizeof *buckets);
    if (entries == NULL || buckets == NULL) {
        mem_free(a, entries, n * sizeof *entries);
        mem_free(a, buckets, n * sizeof *buckets);
        return false;
    }
    if (d->n_entries > 0) memcpy(entries, d->entries, d->n_entries * sizeof *entries);
    mem_free(a, d->entries, d->capacity * sizeof *d->entries);
    mem_free(a, d->buckets, d->capacity * sizeof *d->buckets);
    d->entries = entries;
    d->buckets = buckets;
    d->capacity = n;
    ASSERT(d->free_entry == 0);
    for (uint32_t i = 0; i < d->n_entries; i++) link_entry(d, i);
    return true;
}

bool disk_add(kv_disk *d, const part_name *name, uint64_t bytes, uint64_t used)
{
    disk_entry *e = disk_find(d, name);
    if (e == NULL) {
        if (d->free_entry == 0 && d->n_entries == d->capacity && !grow(d)) return false;
        uint32_t i = d->free_entry != 0 ? d->free_entry - 1 : d->n_entries++;
        e = &d->entries[i];
        d->free_entry = e->next;
        *e = (disk_entry){.name = *name, .taken = true};
        link_entry(d, i);
    }
    d->stats.bytes += bytes - e->bytes;
    e->bytes = bytes;
    e->used = used;
    e->seen = true;
    return true;
}

void disk_path(const kv_disk *d, const part_name *name, char path[IO_PATH_BYTES])
{
    char text[PART_NAME];
    part_print_name(name, text);
    snprintf(path, IO_PATH_BYTES, "%s/%s", d->folder, text);
}

void disk_forget(kv_disk *d, disk_entry *e, bool remove)
{
    char path[IO_PATH_BYTES];
    uint32_t i = (uint32_t)(e - d->entries);
    uint32_t *link = bucket_of(d, e->name.before, e->name.page_i);
    disk_path(d, &e->name, path);
    while (*link != i + 1) link = &d->entries[*link - 1].next;
    *link = e->next;
    d->stats.bytes -= e->bytes;
    *e = (disk_entry){.next = d->free_entry};
    d->free_entry = i + 1;
    if (remove) d->env->io->remove(d->env->io, path);
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* A file that somebody began, and never finished: NAME.PID-TIME.tmp. */
static bool is_unfinished(const char *name)
{
    char begins[PART_NAME];
    part_name parsed;
    size_t n = strlen(name);
    if (n < PART_NAME + 4 || strcmp(name + n - 4, ".tmp") != 0) return false;
    memcpy(begins, name, PART_NAME - 1);
    begins[PART_NAME - 1] = '\0';
    return part_parse_name(begins, &parsed);
}

static void look_at(kv_disk *d, const char *name, uint64_t *newest)
{
    const io *files = d->env->io;
    char path[IO_PATH_BYTES];
    part_name parsed;
    uint64_t size;
    uint64_t touched;
    bool is_part = part_parse_name(name, &parsed);
    if (!is_part && !is_unfinished(name)) return;
    disk_entry *known = is_part ? disk_find(d, &parsed) : NULL;
    if (known != NULL) known->seen = true;
    if (known != NULL && known->used != 0) return;
    snprintf(path, sizeof path, "%s/%s", d->folder, name);
    if (files->stamp(files, path, &size, &touched, NULL) != WEFT_OK) return;
    if (touched > *newest) *newest = touched;
    if (is_part) {
        disk_add(d, &parsed, size, touched);
    } else if (touched + ORPHAN_NS < *newest) {
        files->remove(files, path);
    }
}

static weft_status scan(kv_disk *d, weft_error *err)
{
    const io *files = d->env->io;
    const weft_allocator *a = d->env->allocator;
    char *names;
    size_t n_bytes;
    uint64_t newest = 0;
    d->scanned = clock_now_ns();
    weft_status status = files->list(files, d->folder, a, &names, &n_bytes, err);
    if (status != WEFT_OK) return status;
    for (uint32_t i = 0; i < d->n_entries; i++) {
        d->entries[i].seen = false;
        if (d->entries[i].used > newest) newest = d->entries[i].used;
    }
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1)
        look_at(d, name, &newest);
    mem_free(a, names, n_bytes);
    for (uint32_t i = 0; i < d->n_entries; i++) {
        if (d->entries[i].taken && !d->entries[i].seen) disk_forget(d, &d->entries[i], false);
    }
    return WEFT_OK;
}

void disk_scan(kv_disk *d)
{
    /* What cannot be listed now is as it was. */
    if (clock_now_ns() - d->scanned > SCAN_NS) scan(d, NULL);
}

unsigned char *disk_buffer(kv_disk *d, uint64_t n_bytes)
{
    if (n_bytes > SIZE_MAX / 2) return NULL;
    if (n_bytes <= d->buffer_bytes) return d->buffer;
    unsigned char *more =
        mem_resize(d->env->allocator, d->buffer, d->buffer_bytes, (size_t)n_bytes);
    if (more == NULL) return NULL;
    d->buffer = more;
    d->buffer_bytes = (size_t)n_bytes;
    return more;
}

/* ---- what the cache lets go of --------------------------------------------------------------- */

/* Of a root or a whole page, when that of what comes before is there. */
static bool make_digest(const kv_disk *d, kv_node *node)
{
    weft_status status;
    if (node->parent == NULL) {
        status = part_root(node->space, node->converted, &d->origin, node->digest);
    } else {
        status = part_digest(node->parent->digest, node->keys, node->n, node->digest);
    }
    node->has_digest = status == WEFT_OK;
    return node->has_digest;
}

bool disk_digests(const kv_disk *d, kv_node *node, uint32_t n, unsigned char before[STATE_DIGEST],
                  unsigned char digest[STATE_DIGEST])
{
    kv_node *parent = node->parent;
    while (!parent->has_digest) {
        kv_node *first = parent;
        while (first->parent != NULL && !first->parent->has_digest) first = first->parent;
        if (!make_digest(d, first)) return false;
    }
    memcpy(before, parent->digest, STATE_DIGEST);
    return part_digest(before, node->keys, n, digest) == WEFT_OK;
}

/* Under a name of its own until it is whole. What a power cut leaves of it its checksums tell. */
static weft_status write_file(kv_disk *d, const char *path, size_t n_bytes, weft_error *err)
{
    const io *files = d->env->io;
    char temporary[IO_PATH_BYTES];
    io_file out;
    weft_status status = files->create(files, path, temporary, &out, err);
    if (status != WEFT_OK) return status;
    status = files->write_at(files, &out, 0, d->buffer, n_bytes, err);
    weft_status closed = files->close(files, &out, status == WEFT_OK ? err : NULL);
    if (status == WEFT_OK) status = closed;
    if (status == WEFT_OK) status = files->rename(files, temporary, path, err);
    if (status != WEFT_OK) files->remove(files, temporary);
    return status;
}

/* The one that was not used for longest; of those the furthest from the beginning, which others do
 * not stand on. */
static disk_entry *oldest(const kv_disk *d)
{
    disk_entry *found = NULL;
    for (uint32_t i = 0; i < d->n_entries; i++) {
        disk_entry *e = &d->entries[i];
        if (!e->taken) continue;
        bool later = found != NULL && e->used == found->used && e->name.page_i > found->name.page_i;
        if (found == NULL || e->used < found->used || later) found = e;
    }
    return found;
}

/* Another process may have used it since. */
static bool was_used(const kv_disk *d, disk_entry *e)
{
    const io *files = d->env->io;
    char path[IO_PATH_BYTES];
    uint64_t size;
    uint64_t touched;
    disk_path(d, &e->name, path);
    if (files->stamp(files, path, &size, &touched, NULL) != WEFT_OK || touched <= e->used)
        return false;
    e->used = touched;
    return true;
}

static void make_room(kv_disk *d, uint64_t n_bytes)
{
    while (d->stats.bytes > 0 && d->stats.bytes + n_bytes > d->most_bytes) {
        disk_entry *e = oldest(d);
        if (!was_used(d, e)) disk_forget(d, e, true);
    }
}

/* What ends earlier in the same page is part of this one. */
static void forget_shorter(kv_disk *d, const kv_node *node, const part_name *name,
                           const unsigned char before[STATE_DIGEST])
{
    for (disk_entry *next, *e = disk_first(d, name->before, name->page_i); e != NULL; e = next) {
        unsigned char digest[STATE_DIGEST];
        next = disk_next(d, e);
        if (e->name.kind != PART_PAGE || e->name.n >= name->n) continue;
        if (part_digest(before, node->keys, e->name.n, digest) != WEFT_OK) continue;
        if (e->name.digest.low == get_u64(digest) && e->name.digest.high == get_u64(digest + 8))
            disk_forget(d, e, true);
    }
}

static void store(kv_disk *d, const part_place *p, const kv_node *node, const kv_boundary *boundary,
                  const part_name *name, const unsigned char *before, const unsigned char *digest)
{
    const io *files = d->env->io;
    char path[IO_PATH_BYTES];
    uint64_t n_bytes = part_bytes(p);
    uint64_t size;
    uint64_t touched;
    weft_error err = {WEFT_OK, ""};
    if (disk_buffer(d, n_bytes) == NULL) {
        d->stats.n_skipped++;
        return;
    }
    part_write(p, node, boundary, before, digest, d->buffer);
    make_room(d, n_bytes);
    disk_path(d, name, path);
    d->step_written += n_bytes;
    if (write_file(d, path, (size_t)n_bytes, &err) != WEFT_OK) {
        d->failed = true;
        d->stats.n_skipped++;
        log_write(d->env->log, WEFT_LOG_WARN, "%s; no more state is kept there", err.message);
        return;
    }
    d->stats.bytes_written += n_bytes;
    if (p->kind == PART_PAGE) forget_shorter(d, node, name, before);
    if (files->stamp(files, path, &size, &touched, NULL) != WEFT_OK || size != n_bytes) return;
    if (!disk_add(d, name, size, touched)) files->remove(files, path);
}

/* Whether what is there may go: it is in the folder, or will not be. */
static bool save(kv_disk *d, const part_place *p, kv_node *node, const kv_boundary *boundary)
{
    unsigned char before[STATE_DIGEST];
    unsigned char digest[STATE_DIGEST];
    if (p->config->bounds.page_tokens > PART_TOKENS_MOST || d->failed ||
        !disk_digests(d, node, p->n, before, digest)) {
        d->stats.n_skipped++;
        return true;
    }
    part_name name = part_name_of(p, &d->origin, before, digest);
    if (disk_find(d, &name) != NULL) return true;
    uint64_t n_bytes = part_bytes(p);
    uint64_t most = d->patient ? d->step_bytes : d->urgent_bytes;
    bool much = d->step_written > 0 && d->step_written + n_bytes > most && !d->closing;
    if (much && d->patient) {
        d->refused = true;
        return false;
    }
    if (much || n_bytes > d->most_bytes) {
        d->stats.n_skipped++;
    } else {
        store(d, p, node, boundary, &name, before, digest);
    }
    return true;
}

static bool save_node(void *user, kv_node *node)
{
    part_place p = {node->space->config, node->converted, PART_PAGE, node->page_i, node->n};
    node->saved = save(user, &p, node, NULL);
    return node->saved;
}

static bool save_boundary(void *user, kv_boundary *b)
{
    kv_node *node = b->node;
    part_place p = {node->space->config, node->converted, PART_BOUNDARY, node->page_i,
                    b->at - kv_node_at(node)};
    b->saved = save(user, &p, node, b);
    return b->saved;
}

static bool has_more(const kv_disk *d)
{
    return d->step_written == 0 || d->step_written < d->step_bytes / DISK_AHEAD_SHARE;
}

void kv_disk_ahead(kv_disk *d)
{
    const kv_prefix *p = d->prefix;
    uint64_t free_bytes = kv_pool_bytes_left(p->pool) - (p->bytes - p->bytes_lent);
    if (d->failed || free_bytes > kv_pool_budget(p->pool) / DISK_ROOM_SHARE) return;
    for (kv_boundary *b = p->oldest_boundary; b != NULL && has_more(d); b = b->newer) {
        if (!b->saved) save_boundary(d, b);
    }
    for (kv_node *node = p->oldest; node != NULL && has_more(d); node = node->newer) {
        if (!node->saved) save_node(d, node);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

weft_status kv_disk_open(kv_disk *d, const env *world, kv_prefix *prefix, const kv_origin *origin,
                         const char *folder, uint64_t most_bytes, weft_error *err)
{
    *d = (kv_disk){.env = world,
                   .prefix = prefix,
                   .origin = *origin,
                   .most_bytes = most_bytes,
                   .step_bytes = DISK_STEP_BYTES,
                   .urgent_bytes = DISK_URGENT_BYTES};
    if (strlen(folder) >= sizeof d->folder) {
        return err_set(err, WEFT_ARGUMENT, "path of %zu bytes is longer than %zu", strlen(folder),
                       sizeof d->folder - 1);
    }
    snprintf(d->folder, sizeof d->folder, "%s", folder);
    weft_status status = scan(d, err);
    if (status != WEFT_OK) {
        kv_disk_close(d);
        return status;
    }
    make_room(d, 0);
    prefix->saver = (kv_saver){save_node, save_boundary, d};
    return WEFT_OK;
}

void kv_disk_close(kv_disk *d)
{
    if (d->env == NULL) return;
    const weft_allocator *a = d->env->allocator;
    d->prefix->saver = (kv_saver){0};
    mem_free(a, d->entries, d->capacity * sizeof *d->entries);
    mem_free(a, d->buckets, d->capacity * sizeof *d->buckets);
    mem_free(a, d->buffer, d->buffer_bytes);
    *d = (kv_disk){0};
}

void kv_disk_step(kv_disk *d)
{
    d->step_read = d->step_written = 0;
    d->refused = false;
}

void kv_disk_wait(kv_disk *d, bool patient)
{
    d->patient = patient;
    d->refused = false;
}

bool kv_disk_refused(const kv_disk *d)
{
    return d->refused;
}

void kv_disk_flush(kv_disk *d)
{
    d->closing = true;
    kv_prefix_clear(d->prefix);
    d->closing = false;
}

void kv_disk_drop(kv_disk *d)
{
    kv_saver saver = d->prefix->saver;
    d->prefix->saver = (kv_saver){0};
    kv_prefix_clear(d->prefix);
    d->prefix->saver = saver;
}
